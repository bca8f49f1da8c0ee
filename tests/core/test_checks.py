"""Admission checks in builtin mode: what happens between a reservation of quota and a start."""

from typing import Any

import pytest
from msgspec.structs import replace

from podgroup.log import events as e
from podgroup.model import commands as c
from podgroup.model.objects import AdmissionCheckView, CheckView, PodSetUpdate, Toleration
from tests.core.test_laws import reloaded, replayed
from tests.support.toy import Toy

ACTIVE = ("True", "Active", "")


def check(toy: Toy, name: str, active: tuple[str, ...] = ACTIVE) -> None:
    toy.do(
        e.ObjectApplied(
            object=AdmissionCheckView(
                uid=f"check-{name}",
                name=name,
                resource_version=toy.bump(),
                controller="example.com/prov",
                active=active,
            )
        )
    )


def asks(toy: Toy, *names: str, **more: Any) -> None:
    """Let the ClusterQueue ask for checks."""
    toy.do(e.ObjectApplied(object=toy.cluster_queue(more.pop("cpu", 2), checks=names, **more)))


def says(toy: Toy, name: str, state: str, message: str = "", **more: Any) -> None:
    """Let the controller of a check write its state into the Workload of group `g`."""
    workload = toy.workloads["g"]
    said = CheckView(name=name, state=state, message=message, **more)
    checks = tuple(said if one.name == name else one for one in workload.checks)
    assert said in checks, f"{name} is not listed"
    toy.put_workload(replace(workload, checks=checks))
    toy.settle()


def with_checks(*names: str, **more: Any) -> Toy:
    toy = Toy(cpu=2)
    for name in names:
        check(toy, name)
    asks(toy, *names, **more)
    return toy


def group(toy: Toy, name: str = "g") -> None:
    toy.pod(f"{name}-a", name, 2)
    toy.pod(f"{name}-b", name, 2)


def states(toy: Toy) -> dict[str, str]:
    return {one.name: one.state for one in toy.workloads["g"].checks}


def condition(toy: Toy, kind: str) -> tuple[str, str]:
    found = next((x for x in toy.workloads["g"].conditions if x.type == kind), None)
    return (found.status, found.reason) if found is not None else ("", "")


def gated(toy: Toy) -> int:
    return sum(bool(pod.gates) for pod in toy.pods.values())


def kinds(toy: Toy) -> list[str]:
    return [note.kind for note in toy.world.journal.notes]


def test_nothing_starts_before_every_check_is_ready() -> None:
    toy = with_checks("prov", "budget")
    group(toy)
    assert states(toy) == {"prov": "Pending", "budget": "Pending"}
    assert condition(toy, "QuotaReserved") == ("True", "QuotaReserved")
    assert condition(toy, "Admitted") == ("False", "UnsatisfiedAdmissionChecks")
    assert toy.workloads["g"].cluster_queue == "cq"
    found = toy.group("g")
    assert (found.explained.state, found.explained.reason) == (
        "Queued",
        "UnsatisfiedAdmissionChecks",
    )
    assert found.explained.message.endswith("waits for admission checks: prov, budget")
    says(toy, "prov", "Ready")
    assert gated(toy) == 2
    assert toy.group("g").explained.message.endswith("waits for admission checks: budget")
    assert not toy.world.journal.admissions, "a reservation is no admission"
    says(toy, "budget", "Ready")
    assert gated(toy) == 0
    assert condition(toy, "Admitted") == ("True", "Admitted")
    found = toy.group("g")
    assert (found.explained.state, found.explained.wait) == ("Admitted", None)
    assert kinds(toy).index("QuotaReserved") < kinds(toy).index("GroupAdmitted")
    (row,) = toy.world.journal.admissions.values()
    assert found.quota.holding is not None
    assert row.admitted_at == found.quota.holding.admitted_at > found.quota.holding.at
    toy.run("g-a", "g-b")
    toy.end("g-a", "g-b")
    assert toy.group("g").explained.state == "Finished"


def test_what_is_reserved_is_taken() -> None:
    toy = with_checks("prov")
    group(toy)
    toy.pod("late", cpu=1)
    assert toy.named("late").gates
    assert toy.group("late").explained.reason == "WaitingForQuota"


def test_labels_selectors_and_tolerations_of_checks_get_onto_the_pods() -> None:
    toy = with_checks("prov")
    group(toy)
    (pod_set,) = toy.workloads["g"].pod_sets
    wants = PodSetUpdate(
        name=pod_set.name,
        labels={"example.com/request": "r1"},
        annotations={"example.com/note": "n"},
        node_selector={"node-group": "x"},
        tolerations=(Toleration(key="fresh", operator="Exists"),),
    )
    says(toy, "prov", "Ready", updates=(wants,))
    (first, *_) = (d.command for d in toy.decisions if isinstance(d.command, c.UngatePod))
    assert first.labels["example.com/request"] == "r1"
    assert first.annotations["example.com/note"] == "n"
    assert first.node_selector == {"pool": "a", "node-group": "x"}
    assert first.tolerations == wants.tolerations
    assert first.workload == "g", "where the actuator finds who asked for that"


def test_retry_gives_the_quota_back_and_waits_as_long_as_the_check_says() -> None:
    toy = with_checks("prov")
    group(toy)
    toy.pod("late", cpu=1)
    says(toy, "prov", "Retry", "no machine", requeue_after_s=60)
    assert toy.group("late").quota.holding is not None, "what was reserved is free"
    assert condition(toy, "Evicted") == ("True", "AdmissionCheck")
    assert condition(toy, "QuotaReserved")[0] == "False"
    assert states(toy) == {"prov": "Pending"}, "said of a reservation that is over"
    assert (
        toy.group("g").explained.message
        == "admission checks want it to be tried again: prov: no machine"
    )
    toy.delete("late")
    assert toy.group("g").quota.holding is None
    toy.wait(61)
    assert toy.group("g").quota.holding is not None and gated(toy) == 2
    says(toy, "prov", "Ready")
    assert gated(toy) == 0


def test_retry_without_a_time_queues_again_behind_others() -> None:
    toy = with_checks("prov")
    group(toy)
    toy.pod("late", cpu=1)
    says(toy, "prov", "Retry")
    assert toy.group("late").quota.holding is not None
    assert toy.group("g").explained.reason == "WaitingForQuota"


def test_what_was_said_of_one_reservation_is_not_about_the_next() -> None:
    """It is reserved again in the same message in which it was released."""
    toy = with_checks("prov")
    group(toy)
    toy.act = False
    says(toy, "prov", "Retry")
    assert toy.group("g").quota.holding is not None, "there is room for it: reserved anew"
    assert not toy.group("g").quota.holding.admitted
    assert toy.group("g").mirror.checks_stale
    toy.act = True
    toy.settle()
    assert states(toy) == {"prov": "Pending"}
    assert not toy.group("g").mirror.checks_stale
    assert gated(toy) == 2
    says(toy, "prov", "Ready")
    assert gated(toy) == 0


def test_rejected_deactivates_and_a_person_may_activate_it_again() -> None:
    toy = with_checks("prov", "budget")
    group(toy)
    says(toy, "prov", "Ready")
    says(toy, "budget", "Rejected", "none left")
    assert not toy.workloads["g"].active
    assert condition(toy, "Evicted") == ("True", "DeactivatedDueToAdmissionCheck")
    assert toy.group("g").quota.holding is None
    assert any(reason == "AdmissionCheckRejected" for _, reason, _ in toy.said)
    assert set(states(toy).values()) == {"Pending"}
    toy.put_workload(replace(toy.workloads["g"], active=True))
    toy.settle()
    assert toy.group("g").quota.holding is not None and gated(toy) == 2


def test_rejected_while_a_status_is_written_is_heard_when_it_is_there() -> None:
    toy = with_checks("prov")
    group(toy)
    says(toy, "prov", "Ready")
    toy.run("g-a", "g-b")
    toy.act = False
    toy.end("g-a")
    says(toy, "prov", "Rejected", "none left")
    assert toy.workloads["g"].active, "its Workload has a write in flight"
    toy.act = True
    toy.settle()
    assert not toy.workloads["g"].active
    assert toy.group("g").quota.holding is None


def test_a_check_that_changes_its_mind_stops_what_runs() -> None:
    toy = with_checks("prov")
    group(toy)
    says(toy, "prov", "Ready")
    toy.run("g-a", "g-b")
    says(toy, "prov", "Retry", "the machine goes", requeue_after_s=5)
    assert toy.group("g").quota.holding is None
    assert all(pod.phase != "Running" for pod in toy.pods.values())


def test_a_check_that_is_asked_for_later_is_not_asked_of_who_is_admitted() -> None:
    toy = with_checks()
    group(toy)
    assert gated(toy) == 0
    check(toy, "prov")
    asks(toy, "prov")
    toy.run("g-a", "g-b")
    assert toy.group("g").explained.state == "Running"
    assert condition(toy, "Admitted") == ("True", "Admitted")


def test_a_check_that_is_not_asked_for_any_more_is_not_waited_for() -> None:
    toy = with_checks("prov", "budget")
    group(toy)
    says(toy, "prov", "Ready")
    asks(toy, "prov")
    assert gated(toy) == 0
    toy = with_checks("prov")
    group(toy)
    asks(toy)
    assert gated(toy) == 0


def test_a_check_may_be_for_some_flavors_only() -> None:
    toy = with_checks("prov", "budget", check_flavors={"prov": ("f",), "budget": ("other",)})
    group(toy)
    assert states(toy) == {"prov": "Pending"}
    says(toy, "prov", "Ready")
    assert gated(toy) == 0


@pytest.mark.parametrize("active", [None, (), ("False", "NotReady", "no answer")])
def test_a_queue_whose_check_is_missing_or_not_active_takes_nobody_in(
    active: tuple[str, ...] | None,
) -> None:
    toy = Toy(cpu=2)
    if active is not None:
        check(toy, "prov", active)
    asks(toy, "prov", active=())
    group(toy)
    assert toy.group("g").quota.holding is None
    reason = "AdmissionCheckInactive" if active is not None else "AdmissionCheckNotFound"
    what = "inactive" if active is not None else "missing"
    assert toy.world.cluster_queues["cq"].active == (
        "False",
        reason,
        f"Can't admit new workloads: references {what} AdmissionCheck(s): prov.",
    )
    assert toy.group("g").explained.reason == "ClusterQueueInactive"
    assert "AdmissionCheck prov" in toy.group("g").explained.message
    check(toy, "prov")
    assert toy.world.cluster_queues["cq"].active[0] == "True"
    assert toy.group("g").quota.holding is not None
    says(toy, "prov", "Ready")
    assert gated(toy) == 0


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_a_stopped_queue_takes_a_reservation_back(policy: str) -> None:
    toy = with_checks("prov")
    group(toy)
    asks(toy, "prov", stop_policy=policy)
    assert toy.group("g").quota.holding is None
    assert condition(toy, "Evicted") == ("True", "ClusterQueueStopped")
    says(toy, "prov", "Ready")
    assert gated(toy) == 2
    assert states(toy) == {"prov": "Pending"}


def test_a_single_pod_waits_for_checks_too() -> None:
    toy = with_checks("prov")
    toy.pod("p", cpu=1)
    (name,) = toy.workloads
    workload = toy.workloads[name]
    assert toy.named("p").gates and [one.state for one in workload.checks] == ["Pending"]
    toy.put_workload(replace(workload, checks=(CheckView(name="prov", state="Ready"),)))
    toy.settle()
    assert not toy.named("p").gates


def test_a_reservation_outlives_a_restart_and_a_replay() -> None:
    toy = with_checks("prov", "budget")
    group(toy)
    says(toy, "prov", "Ready")
    toy.world = reloaded(toy.world)
    says(toy, "budget", "Ready")
    assert gated(toy) == 0
    toy = with_checks("prov")
    group(toy)
    says(toy, "prov", "Retry", requeue_after_s=1)
    toy.wait(2)
    says(toy, "prov", "Ready")
    replayed(toy)
