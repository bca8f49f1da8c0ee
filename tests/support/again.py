"""A test that is marked as retried is played once more if it fails, from nothing, and named.

    @pytest.mark.retried("its processes share two cores with other tests")

Theory. Some tests wait for what other processes do, on a machine that may be busy with something
else; one in some thousand waits is unlucky. A fault of the code fails twice. Such a test says so by
the marker, with its reason; every other test gets one play. So that a race is not hidden, the end
of the run names each test that needed its second play, why it was given one, and how the first
ended.

Invariant: the second play shares nothing with the first: every fixture is made anew, and so is the
time limit. A limit that fired in the first play is gone, and the second could run for ever.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

FIRST = "the first play"
MARKER = "retried"


def reason(item: pytest.Item) -> str:
    """Why a test may be played twice; "" if it may not.

    Raises:
        pytest.UsageError: it is marked without a reason.
    """
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return ""
    if len(marker.args) != 1 or not isinstance(marker.args[0], str) or not marker.args[0]:
        raise pytest.UsageError(f"{item.nodeid}: mark it as retried with a reason, one sentence")
    return marker.args[0]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: Any, nextitem: pytest.Item | None) -> bool | None:
    """Play a test, and once more if it fails and is marked so."""
    why = reason(item)
    if not why:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    failed = next((report for report in reports if report.failed), None)
    if failed is not None:
        item.session._setupstate.teardown_exact(None)
        text = f"retried because {why}\n{failed.longrepr}"
        item.user_properties.append((FIRST, text[-4000:]))
        item._initrequest()
        _limit_anew(item)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _limit_anew(item: pytest.Item) -> None:
    hooks, limits = item.config.hook, item.config.pluginmanager.getplugin("timeout")
    if limits is None:
        return
    settings = limits._get_item_settings(item)
    hooks.pytest_timeout_cancel_timer(item=item)
    if settings.timeout:
        hooks.pytest_timeout_set_timer(item=item, settings=settings)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name what was played twice."""
    for nodeid, text in sorted(set(_twice(terminalreporter))):
        terminalreporter.section(f"played twice: {nodeid}")
        terminalreporter.write_line(text)


def _twice(terminalreporter: Any) -> Iterator[tuple[str, str]]:
    for report in terminalreporter.stats.get("passed", ()):
        for name, text in report.user_properties:
            if name == FIRST:
                yield report.nodeid, text
