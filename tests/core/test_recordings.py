"""Every recording of a real cluster, folded: what is left agrees with what was left there."""

import pytest

from podgroup.engine import drain_journal
from podgroup.model.names import ADMISSION_GATE, workload_name
from podgroup.state.members import Flag
from podgroup.state.world import World
from tests.support.recordings import OUTCOMES, folded, outcome


def pods_of(world: World) -> dict[str, dict[str, object]]:
    return {
        pod.view.name: {
            "phase": pod.view.phase,
            "gated": pod.gated,
            "finalizer": pod.held,
            "terminating": pod.deleting,
            "bound": bool(pod.view.node),
        }
        for pod in sorted(world.pods.values(), key=lambda p: p.view.name)
    }


@pytest.mark.parametrize("name", OUTCOMES)
def test_pods_are_what_was_left(name: str) -> None:
    world, wanted = folded(name), outcome(name)
    assert pods_of(world) == wanted["pods"]
    taken = drain_journal(world)
    gone = {pod.view.name for pod in taken.gone_pods.values()}
    assert gone == set(wanted["deleted"]) | (gone & set(wanted["pods"]))
    assert not taken.journal.parked


@pytest.mark.parametrize("name", OUTCOMES)
def test_workloads_are_what_was_left(name: str) -> None:
    world, wanted = folded(name), outcome(name)
    found = {}
    for group in world.groups.values():
        view = group.mirror.workload
        if view is not None:
            found[view.name] = {
                "queue": view.queue,
                "counts": sorted(p.count for p in view.pod_sets),
                "owners": sorted(o.name for o in view.owners),
                "conditions": {c.type: [c.status, c.reason] for c in view.conditions},
                "reclaimable": sorted(view.reclaimable.values()),
            }
    assert found == wanted["workloads"]
    assert not world.workloads


@pytest.mark.parametrize("name", OUTCOMES)
def test_groups_roles_and_counts_agree_with_the_pods(name: str) -> None:
    world, wanted = folded(name), outcome(name)
    for group in world.groups.values():
        members = world.members[group.id]
        mine = [p for p in world.pods.values() if p.group == group.id]
        for role_name, role in group.roles.items():
            pods = [p for p in mine if p.role == role_name]
            for flag, test in (
                (Flag.RUNNING, lambda p: p.view.phase == "Running"),
                (Flag.SUCCEEDED, lambda p: p.view.phase == "Succeeded"),
                (Flag.GATED, lambda p: p.gated),
                (Flag.HELD, lambda p: p.held),
            ):
                assert members.count(flag, role_name) == sum(map(test, pods)), (group.name, flag)
            assert role.seen >= len(pods)
        if group.mirror.workload is not None and not group.single:
            counts = {n: r.count for n, r in group.roles.items() if r.count}
            assert counts == {p.name: p.count for p in group.mirror.workload.pod_sets}
        if (left := wanted["workloads"].get(group.mirror.name)) is not None:
            assert (group.ending.finish is not None) == ("Finished" in left["conditions"])
        if group.single:
            pod = mine[0].view if mine else None
            assert pod is None or group.mirror.name == workload_name(pod.name, pod.uid)


@pytest.mark.parametrize("name", OUTCOMES)
@pytest.mark.parity("B13")
def test_gates_know_when_and_by_whom_they_were_removed(name: str) -> None:
    world = folded(name)
    taken = drain_journal(world)
    for (uid, gate), row in taken.journal.gates.items():
        pod = world.pods.get(uid) or taken.gone_pods[uid]
        there = gate in pod.view.gates
        assert (row.removed_at is None) == there, (pod.view.name, gate)
        if gate == ADMISSION_GATE and not there:
            assert row.removed_by == "kueue"


@pytest.mark.parity("B13")
def test_who_removes_a_gate_and_writes_nothing_else_leaves_no_trace() -> None:
    journal = drain_journal(folded("other_gate_stays")).journal
    removed = {gate: row.removed_by for (_, gate), row in journal.gates.items()}
    assert removed["example.com/hold"] == ""
    assert removed[ADMISSION_GATE] == "kueue"
