"""A world at rest makes no decisions: what is written is found to be said when it is read again.

The law itself holds for every story here (`tests.support.resting`). These are worlds in which what
is read may differ from what was written: texts are cut, times are rounded, amounts spelt anew.
"""

import re
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from podgroup.log import events as e
from podgroup.model import limits, names
from podgroup.model.objects import (
    CheckView,
    CohortView,
    Condition,
    FlavorQuotas,
    FlavorView,
    Quota,
    RequeueState,
    ResourceGroup,
    to_write,
)
from podgroup.model.policy import Policy
from tests.core.test_checks import check as make_check
from tests.core.test_checks import group as checked_group
from tests.core.test_checks import says, with_checks
from tests.support.resting import stays_at_rest
from tests.support.toy import Toy

LONG = "x" * 5000
WIDE = "ä" * 5000


def flavored(toy: Toy, *flavors: str, **more: Any) -> None:
    """Let the ClusterQueue have 1 CPU in each flavor."""
    queue = replace(
        toy.cluster_queue(1, **more),
        groups=(
            ResourceGroup(
                covered=("cpu",),
                flavors=tuple(
                    FlavorQuotas(name=name, resources={"cpu": Quota(nominal=1000)})
                    for name in flavors
                ),
            ),
        ),
    )
    toy.do(e.ObjectApplied(object=queue))


def pending_on(toy: Toy, count: int, length: int) -> None:
    flavors = [f"{number:03}".ljust(length, "f") for number in range(count)]
    for name in flavors:
        view = FlavorView(uid=name, name=name, resource_version=toy.bump(), marked=True)
        toy.do(e.ObjectApplied(object=view))
    flavored(toy, *flavors)
    toy.pod("large", cpu=2)


@pytest.mark.parametrize(("count", "length"), [(8, 60), (8, 253), (16, 253)])
def test_a_reason_that_names_many_flavors_is_written_once(count: int, length: int) -> None:
    toy = Toy()
    pending_on(toy, count, length)
    (workload,) = toy.workloads.values()
    said = toy.condition(workload.name, "QuotaReserved")
    assert said[0] == "False"
    written = [d for d in toy.decisions if d.rule == "mirror"]
    assert len(written) <= 1
    stays_at_rest(toy)


@pytest.mark.parametrize("message", [LONG, WIDE])
def test_what_checks_say_at_length_is_written_once(message: str) -> None:
    """Eight checks' messages make the eviction's, then one that is about the one before."""
    checks = [f"check-{number}" for number in range(8)]
    toy = with_checks(*checks)
    checked_group(toy)
    for name in checks[:-1]:
        says(toy, name, "Pending", message)
    before = len(toy.decisions)
    says(toy, checks[0], "Retry", message, requeue_after_s=60)
    assert len(toy.decisions) - before <= 4, "written again and again"
    toy.wait(61)
    for name in checks:
        says(toy, name, "Ready", message)
    assert toy.condition("g", "Evicted")[0] == "False"
    assert toy.condition("g", "Evicted")[2].startswith("Previously: ")
    stays_at_rest(toy)


def test_a_queue_that_lacks_flavors_of_long_names_says_so_once() -> None:
    toy = Toy()
    flavored(toy, *(f"{number:02}".ljust(253, "f") for number in range(16)), active=())
    said = [d for d in toy.decisions if d.rule == "announce"]
    stays_at_rest(toy)
    assert [d for d in toy.decisions if d.rule == "announce"] == said


def test_a_cohort_in_a_long_circle_says_so_once() -> None:
    toy = Toy()
    circle = [f"{number:02}".ljust(253, "c") for number in range(20)]
    for name, above in zip(circle, [*circle[1:], circle[0]], strict=True):
        view = CohortView(uid=name, name=name, resource_version=toy.bump(), parent=above)
        toy.do(e.ObjectApplied(object=view))
    stays_at_rest(toy)


@pytest.mark.parametrize("unread", [16, 2])
def test_a_queue_with_long_names_of_unknown_fields_says_so_once(unread: int) -> None:
    toy = Toy()
    fields = tuple(f"{number:02}".ljust(253, "u") for number in range(unread))
    toy.do(e.ObjectApplied(object=replace(toy.cluster_queue(1), unread=fields)))
    stays_at_rest(toy)


@pytest.mark.parametrize("reason", ["Preempted", "NodeFailures", "Deactivated"])
def test_what_kueue_says_at_length_is_taken_over_once(reason: str) -> None:
    toy = Toy(mode="kueue")
    toy.pod("a", "g", 1)
    toy.admit("g")
    toy.run("a")
    toy.evict("g", reason, LONG)
    assert toy.condition("g", "QuotaReserved")[0] == "False"
    stays_at_rest(toy)


def test_a_pod_that_says_much_at_its_end_ends_its_group_once() -> None:
    toy = Toy()
    toy.pod("a")
    toy.run("a")
    toy.change(toy.named("a").uid, phase="Failed", message=limits.cut(LONG), reason="Error")
    stays_at_rest(toy)


def test_a_back_off_to_the_fraction_of_a_second_is_written_once() -> None:
    toy = Toy(policy=Policy(pods_ready_timeout_s=10, requeuing_backoff_s=7200, requeuing_limit=3))
    toy.pod("a", "g", 1)
    toy.wait(10.123)
    at = toy.workloads["g"].requeue.at
    assert at is not None and not at.microsecond
    written = len(toy.decisions)
    toy.put_workload(toy.workloads["g"])
    toy.settle()
    toy.wait(60)
    assert len(toy.decisions) == written


def zero_reclaimable(toy: Toy) -> dict[str, Any]:
    return {"reclaimable": dict.fromkeys((p.name for p in toy.workloads["g"].pod_sets), 0)}


def checks_turned(toy: Toy) -> dict[str, Any]:
    return {"checks": tuple(reversed(toy.workloads["g"].checks))}


def of_another_zone(toy: Toy) -> dict[str, Any]:
    return {
        "executed_s": 7,
        "conditions": tuple(
            replace(one, at=one.at and one.at + timedelta(hours=1))
            for one in toy.workloads["g"].conditions
        ),
    }


def empty_requeue(toy: Toy) -> dict[str, Any]:
    return {"requeue": RequeueState()}


@pytest.mark.parametrize("other", [zero_reclaimable, checks_turned, of_another_zone, empty_requeue])
@pytest.mark.parametrize("mode", ["builtin", "kueue"])
def test_what_another_writer_spells_otherwise_means_the_same(other: Any, mode: str) -> None:
    toy = Toy(mode=mode)
    if mode == "builtin":
        for name in ("one", "two"):
            make_check(toy, name)
        toy.do(e.ObjectApplied(object=toy.cluster_queue(4, checks=("one", "two"))))
    checked_group(toy)
    if mode == "kueue":
        toy.reserve(
            "g",
            checks=(CheckView(name="one", state="Pending"), CheckView(name="two", state="Pending")),
        )
        toy.say("g", Condition(type="Admitted", status="True", reason="Admitted", at=toy.now))
    for state in ("Pending", "Ready"):
        for name in ("one", "two"):
            says(toy, name, state)
        toy.wait(60)
        before = len(toy.decisions)
        toy.put_workload(replace(toy.workloads["g"], **other(toy)))
        toy.settle()
        toy.wait(60)
        assert len(toy.decisions) == before


def test_reasons_that_are_written_are_reasons_that_are_taken() -> None:
    """Those of metav1.Condition; what a field says has a limit of its own."""
    families = (
        *("FINISHED_", "EVICTED_", "PREEMPTED_", "PENDING_", "NOT_ADMITTED_", "READY_"),
        *("ACTIVE_", "REQUEUED_", "REASON_UNSCHED", "REASON_NOT", "REASON_WORK"),
    )
    said = {value for key, value in vars(names).items() if key.startswith(families)}
    said -= {names.REASON_ANNOTATION}
    assert len(said) > 40
    for reason in said:
        assert re.fullmatch(limits.CONDITION_REASON, reason), reason
        assert len(reason) <= limits.CONDITION_REASON_CHARS
        assert len(f"{names.REASON_EVICTED_PREFIX}{reason}") <= limits.EVENT_REASON_BYTES


@pytest.mark.parametrize("text", ["", "short", LONG, WIDE, "😀" * 3000])
def test_what_is_written_is_what_is_read_and_what_is_taken(text: str) -> None:
    written = to_write("Active", "True", "Ready", text)
    assert limits.cut(written.message) == written.message
    assert len(written.message) <= limits.TEXT_CHARS <= limits.CONDITION_MESSAGE_CHARS
    assert text.startswith(written.message.removesuffix("…"))
    note = limits.cut_to_bytes(text, limits.NOTE_BYTES)
    assert len(note.encode()) <= limits.NOTE_BYTES
    assert limits.cut_to_bytes(note, limits.NOTE_BYTES) == note
    assert note == text or note.endswith("…")
