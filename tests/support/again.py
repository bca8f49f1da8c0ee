"""A test of processes and clocks that fails is played once more, from nothing, and named.

Theory. Such tests wait for what other processes do, on a machine that may be busy with something
else; one in some thousand waits is unlucky. A fault of the code fails twice. So that a race is not
hidden, the end of the run names each test that needed its second play, with how the first ended.

Invariant: the second play shares nothing with the first: every fixture is made anew. Tests of the
pure core, where nothing waits, get one play.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

PURE = ("core", "parity", "support", "unit", "webhook")
FIRST = "the first play"


def waits(item: pytest.Item) -> bool:
    """Whether the test may wait for other processes."""
    return item.path.relative_to(item.config.rootpath).parts[1] not in PURE


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: Any, nextitem: pytest.Item | None) -> bool | None:
    """Play a test, and once more if it fails."""
    if not waits(item):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    failed = next((report for report in reports if report.failed), None)
    if failed is not None:
        item.session._setupstate.teardown_exact(None)
        item.user_properties.append((FIRST, str(failed.longrepr)[-4000:]))
        item._initrequest()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


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
