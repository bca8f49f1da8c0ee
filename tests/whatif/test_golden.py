"""What-if with nothing changed comes to what happened, on every golden log and recorded story.

Same groups admitted, in the same order; total wait within 2 %; quota used within 1 %, per queue.
A second of waiting and 50 ms of a core are none: these logs last seconds, and what
gatelog writes on Workloads and pods' finalizers is played without the actuator's delay.
"""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatelog.whatif import reading, replaying
from gatelog.whatif.reading import Asked, Past
from gatelog.whatif.replaying import Change, Found
from gatelog.whatif.tallying import Quota
from podgroup.engine import due_timers
from podgroup.model.objects import CheckView
from runtime.settings import Settings
from tests.core.test_checks import group, says, with_checks
from tests.golden.rows import logs
from tests.support.recordings import FOLDER, OUTCOMES, exported
from tests.support.toy import Toy
from tests.whatif.logs import log_of_toy

NOTHING = Change(given=[], objects=[], small=[], policy={}, factor=1.0)
LEAST = 50
"""Of quota: thousandths of core-seconds."""
EXCEPT = {
    "dialects-under-kueue-the-same-pods-start-stop-and-start-ag": (
        "quota", "gatelog's outcome follows its write by 10 ms, and the quota of six cores with it",
    ),
    "eviction-rows-quota-goes-when-nothing-runs-any-more-kueue": (
        "preemptions wait", "a person deletes a pod again, with more grace: only once is played",
    ),
    "review-room-is-made-in-the-second-flavor-when-it-cannot-be": (
        "quota", "the rules of then gave the quota of a victim on while it ran",
    ),
    "single-rows-a-running-pod-whose-workload-has-another-count": (
        "quota", "another client changes the Workload in the moment it is made",
    ),
    "busy_namespace": (
        "preemptions", "a victim ends by itself before Kueue's own integration stops its pods",
    ),
}  # fmt: skip
"""Log -> what is off, and why."""


def same(path: Path) -> tuple[Past, Found]:
    asked = Asked("2000-01-01", "", "team")
    past = asyncio.run(reading.read_file(str(path), Settings(), asked, lambda at, events: None))
    return past, replaying.alternatives(past, NOTHING, db=None)


def off(past: Past, found: Found, grain_s: float = 0.0) -> set[str]:
    """Return which figures are off; `grain_s`: how exactly one wait is known."""
    was, now = past.then.quota, found.same.quota
    figures = set()
    for one in found.calibration.queues:
        if one.only_then or one.only_now:
            figures.add("groups")
        if one.in_order < 0.99 * one.both:
            figures.add("order")
        if one.wait_off > 0.02 and abs(one.wait_s - one.wait_then_s) > grain_s * one.both:
            figures.add("wait")
    for key in was.keys() | now.keys():
        used = [each.get(key, Quota()).used for each in (was, now)]
        if abs(used[1] - used[0]) > max(LEAST, 0.01 * used[0]):
            figures.add("quota")
    if past.then.preempted != found.same.preempted:
        figures.add("preemptions")
    return figures


def excepted(name: str) -> set[str]:
    """Return what is known to be off."""
    return set(EXCEPT[name][0].split()) if name in EXCEPT else set()


@pytest.mark.parametrize("path", logs("v1"), ids=lambda path: path.name.partition(".")[0])
def test_a_golden_log_comes_to_what_happened(path: Path) -> None:
    past, found = same(path)
    assert off(past, found) == excepted(path.name.partition(".")[0])


@pytest.mark.parametrize("name", OUTCOMES)
def test_what_kueue_did_on_a_real_control_plane_is_played_as_it_was(
    name: str, tmp_path: Path
) -> None:
    """gatelog did not run: waits begin in whole seconds there, as Kueue made its Workloads."""
    past, found = same(exported(FOLDER / f"{name}.jsonl.gz", tmp_path / "log.jsonl.gz"))
    assert off(past, found, grain_s=1.0) == excepted(name)
    assert any("its admissions are played as they were" in text for text in found.cannot_know)


def test_the_logs_have_something_to_come_to() -> None:
    admitted = [sum(one.both for one in same(path)[1].calibration.queues) for path in logs("v1")]
    assert sum(admitted) > 100
    assert sum(map(bool, admitted)) > 35


def after(toy: Toy, seconds: float) -> None:
    """Let time pass, and what falls due in it happen."""
    toy.now += timedelta(seconds=seconds)
    toy.do(*due_timers(toy.world, toy.now))


def with_verdicts(path: Path) -> None:
    """A check agrees after 40 s, wants it again, agrees after 20 s; another group waits for it."""
    toy = with_checks("prov")
    group(toy)
    toy.pod("late", cpu=2)
    after(toy, 40)
    says(toy, "prov", "Ready")
    toy.run("g-a", "g-b")
    after(toy, 10)
    says(toy, "prov", "Retry", requeue_after_s=30)
    for name in ("g-c", "g-d"):
        toy.pod(name, "g", 2)
    after(toy, 31)
    workload = next(w for w in toy.workloads.values() if w.name != "g")
    after(toy, 20)
    toy.put_workload(replace(workload, checks=(CheckView(name="prov", state="Ready"),)))
    toy.settle()
    toy.run("late")
    after(toy, 100)
    toy.end("late")
    after(toy, 5)
    says(toy, "prov", "Ready")
    toy.run("g-c", "g-d")
    after(toy, 50)
    toy.end("g-c", "g-d")
    log_of_toy(toy, path)


def test_checks_agree_when_they_did_then(tmp_path: Path) -> None:
    """Before, no check was played: the first group was admitted at once, and never put off."""
    with_verdicts(log := tmp_path / "log.jsonl.gz")
    past, found = same(log)
    assert past.then.admissions == found.same.admissions == 3
    (queue,) = found.calibration.queues
    assert queue.wait_then_s > 100
    assert off(past, found) == set()
    assert any(text.startswith("admission checks that were not") for text in found.cannot_know)


def test_a_check_takes_as_long_where_quota_is_reserved_earlier(tmp_path: Path) -> None:
    with_verdicts(log := tmp_path / "log.jsonl.gz")
    past, _ = same(log)
    change = Change(given=[], objects=[], small=["clusterqueue/cq:cpu=4"], policy={}, factor=1.0)
    other = replaying.alternatives(past, change, db=None).other
    waits = [
        next(start.wait_s for start in tally.starts.values() if start.title == "ns/late")
        for tally in (past.then, other)
        if tally is not None and tally.starts is not None
    ]
    assert waits[0] > 91
    assert waits[1] == pytest.approx(51, abs=0.5)


def test_with_a_change_gatelog_admits_itself_and_says_so(tmp_path: Path) -> None:
    """The measure beside it is gatelog's own admission, too."""
    recording = FOLDER / "preempted_and_resumed.jsonl.gz"
    past, _ = same(exported(recording, tmp_path / "log.jsonl.gz"))
    change = Change(given=[], objects=[], small=[], policy={}, factor=0.5)
    found = replaying.alternatives(past, change, db=None)
    assert any("what is played is gatelog's own admission" in text for text in found.cannot_know)
    assert found.calibration.only_then > 0, "the recording says nothing of queues"
