"""A cluster that went back: what it lists is believed, and what the log knew beyond is undone."""

import random
from copy import copy
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from podgroup.log import events as e
from podgroup.model.names import ADMISSION_GATE, MANAGED_LABEL
from podgroup.model.objects import WATCHED_KINDS, PodView, QueueObject, WorkloadView
from podgroup.state.group import Group
from podgroup.state.world import World
from tests.support.toy import Toy, taken


class Backup(NamedTuple):
    """What a cluster holds at a version."""

    version: int
    pods: dict[str, PodView]
    workloads: dict[str, WorkloadView]
    objects: dict[str, list[QueueObject]]


def charged(world: World) -> dict[tuple[str, str], int]:
    return dict(+taken(world, "cq"))


def saved(toy: Toy) -> Backup:
    kinds = [kind for kind in WATCHED_KINDS if kind not in ("Pod", "Workload")]
    objects: dict[str, list[QueueObject]] = {
        kind: list(toy.world.objects_of(kind).values()) for kind in kinds
    }
    return Backup(toy.version, copy(toy.pods), copy(toy.workloads), objects)


def put_back(toy: Toy, backup: Backup, *, bump: int = 0) -> None:
    toy.version = backup.version + bump
    toy.pods, toy.workloads = copy(backup.pods), copy(backup.workloads)


def told(toy: Toy, backup: Backup, incarnation: str = "i1") -> None:
    """What ingest says of it: that it was restored, and everything that is there."""
    toy.send(e.ClusterRestored(incarnation=incarnation, reason="put back"))
    for kind in WATCHED_KINDS:
        relist = f"{kind}-{incarnation}"
        events: list[e.Event] = [e.RelistStarted(kind=kind, relist=relist, by_settings=True)]
        if kind == "Pod":
            shown = [p for p in toy.pods.values() if MANAGED_LABEL in p.labels]
            events += [e.PodApplied(pod=p, relist=relist) for p in shown]
        elif kind == "Workload":
            found = toy.workloads.values()
            events += [e.WorkloadApplied(workload=w, relist=relist) for w in found]
        else:
            events += [e.ObjectApplied(object=o, relist=relist) for o in backup.objects[kind]]
        version = str(toy.version)
        filtered = kind == "Pod"
        events.append(
            e.RelistCompleted(kind=kind, relist=relist, resource_version=version, filtered=filtered)
        )
        toy.send(*events)
    toy.settle()


def restore(toy: Toy, backup: Backup, *, bump: int = 0, incarnation: str = "i1") -> None:
    put_back(toy, backup, bump=bump)
    told(toy, backup, incarnation)


def alive(toy: Toy, name: str) -> list[Group]:
    return [g for g in toy.world.groups.values() if g.name == name]


def gated(toy: Toy, name: str) -> bool:
    return ADMISSION_GATE in toy.named(name).gates


def kinds(toy: Toy) -> list[str]:
    return [note.kind for note in toy.world.journal.notes]


@pytest.fixture(params=["builtin"])
def toy(request: pytest.FixtureRequest) -> Toy:
    return Toy(cpu=4, mode=request.param)


def test_what_ran_and_still_runs_keeps_its_life_and_its_quota(toy: Toy) -> None:
    toy.pod("a", cpu=3)
    toy.run("a")
    (before,) = alive(toy, "a")
    backup = saved(toy)
    toy.pod("later", cpu=1)
    restore(toy, backup)
    (after,) = alive(toy, "a")
    assert after.id == before.id and after.quota.holding == before.quota.holding
    assert not alive(toy, "later")
    assert charged(toy.world) == {("f", "cpu"): 3000}


def test_lower_versions_are_believed_from_then_on(toy: Toy) -> None:
    for n in range(9):
        toy.pod(f"early-{n}", cpu=4)
    backup = saved(toy)
    for n in range(9):
        toy.change(toy.named(f"early-{n}").uid, annotations={"n": "1"})
    known = toy.version
    restore(toy, backup)
    late = toy.pod("late", cpu=4)
    assert int(late.resource_version) < known
    assert alive(toy, "late")
    toy.delete("late")
    assert not alive(toy, "late")


def test_a_version_that_comes_again_says_something_else(toy: Toy) -> None:
    pod = toy.pod("a", cpu=3)
    backup = saved(toy)
    toy.change(pod.uid, annotations={"by": "the log"})
    version = toy.pods[pod.uid].resource_version
    put_back(toy, backup)
    toy.pods[pod.uid] = replace(
        toy.pods[pod.uid], resource_version=version, annotations={"by": "the cluster"}
    )
    told(toy, backup)
    assert toy.world.pods[pod.uid].view.annotations == {"by": "the cluster"}


def test_an_admission_that_the_cluster_lost_is_decided_anew(toy: Toy) -> None:
    for name in ("a", "b"):
        toy.pod(name, "g", 2, cpu=1, settle=False)
    backup = saved(toy)
    toy.settle()
    assert not gated(toy, "a")
    (before,) = alive(toy, "g")
    restore(toy, backup)
    (after,) = alive(toy, "g")
    assert after.id != before.id
    assert not gated(toy, "a") and not gated(toy, "b")
    assert charged(toy.world) == {("f", "cpu"): 2000}
    (first, second) = toy.world.journal.admissions.values()
    assert (first.group, first.release_reason) == (before.id, "ClusterRestored")
    assert (second.group, second.released_at) == (after.id, None)


def test_who_had_ended_runs_again_and_who_took_its_place_waits(toy: Toy) -> None:
    toy.pod("old", cpu=3)
    toy.run("old")
    toy.pod("new", cpu=3)
    assert gated(toy, "new")
    backup = saved(toy)
    toy.end("old")
    assert not gated(toy, "new")
    toy.run("new")
    restore(toy, backup)
    assert gated(toy, "new"), "its quota is taken by what runs again"
    assert charged(toy.world) == {("f", "cpu"): 3000}
    (group,) = alive(toy, "old")
    assert group.quota.holding is not None and group.ending.finish is None
    toy.end("old")
    assert not gated(toy, "new")


def test_pods_that_the_log_saw_deleted_come_back(toy: Toy) -> None:
    a = toy.pod("a", cpu=3)
    toy.run("a")
    backup = saved(toy)
    toy.delete("a")
    assert not toy.world.pods and not toy.world.groups
    restore(toy, backup)
    assert toy.world.pods[a.uid].view.resource_version == backup.pods[a.uid].resource_version
    assert charged(toy.world) == {("f", "cpu"): 3000}
    toy.end("a")
    assert charged(toy.world) == {}


def test_a_member_that_succeeded_and_left_takes_its_place_again(toy: Toy) -> None:
    for name in ("a", "b"):
        toy.pod(name, "g", 2, cpu=1)
    toy.run("a", "b")
    backup = saved(toy)
    toy.end("a")
    toy.delete("a")
    restore(toy, backup)
    assert {p.name for p in toy.pods.values() if p.deleted_at is None} == {"a", "b"}
    assert charged(toy.world) == {("f", "cpu"): 2000}
    toy.end("a", "b")
    assert all(g.ending.finish is not None for g in alive(toy, "g"))


def test_an_eviction_that_never_happened_stops_nothing(toy: Toy) -> None:
    toy.pod("low", cpu=3, labels={"kueue.x-k8s.io/priority-class": "low"})
    toy.run("low")
    backup = saved(toy)
    toy.pod("high", cpu=3, labels={"kueue.x-k8s.io/priority-class": "high"})
    assert "low" not in {p.name for p in toy.pods.values()}
    restore(toy, backup)
    assert toy.named("low").deleted_at is None
    assert charged(toy.world) == {("f", "cpu"): 3000}
    assert not alive(toy, "high")


def test_a_workload_that_was_made_later_is_missed_and_no_pod_stops_for_it(toy: Toy) -> None:
    toy.pod("busy", cpu=4)
    toy.pod("a", cpu=3, settle=False)
    backup = saved(toy)
    toy.settle()
    assert any(name.startswith("pod-a") for name in toy.workloads)
    restore(toy, backup)
    assert toy.named("a").deleted_at is None and gated(toy, "a")
    assert any(name.startswith("pod-a") for name in toy.workloads)


def test_a_decision_that_is_still_on_its_way_is_no_second_one(toy: Toy) -> None:
    toy.act = False
    toy.pod("a", cpu=3)
    (ungate,) = [d for d in toy.decisions if type(d.command).__name__ == "UngatePod"]
    restore(toy, saved(toy))
    assert [d for d in toy.decisions if type(d.command).__name__ == "UngatePod"] == [ungate]
    toy.act = True
    toy.settle()
    assert not gated(toy, "a")


def test_a_decision_whose_effect_was_lost_is_made_again(toy: Toy) -> None:
    toy.act = False
    a = toy.pod("a", cpu=3)
    backup = saved(toy)
    (ungate,) = [d for d in toy.queue if type(d.command).__name__ == "UngatePod"]
    # Applied, says the actuator, and the watch has not shown it.
    version = toy.bump()
    toy.send(
        e.OutcomeRecorded(
            decision=ungate.id, group=ungate.group, status="applied", uid=a.uid,
            resource_version=version,
        )
    )  # fmt: skip
    toy.queue.clear()
    toy.act = True
    restore(toy, backup, bump=1000)
    assert not gated(toy, "a")


def test_nothing_is_decided_before_everything_is_listed(toy: Toy) -> None:
    backup = saved(toy)
    toy.send(e.ClusterRestored(incarnation="i1", reason="put back"))
    before = len(toy.decisions)
    toy.pod("a", cpu=1)
    toy.wait(120)
    assert len(toy.decisions) == before
    told(toy, backup, "i2")
    assert not gated(toy, "a")


def test_it_happens_twice(toy: Toy) -> None:
    toy.pod("a", cpu=2)
    toy.run("a")
    first = saved(toy)
    toy.end("a")
    toy.pod("b", cpu=2)
    toy.run("b")
    second = saved(toy)
    toy.pod("c", cpu=2)
    restore(toy, second, incarnation="i1")
    assert {p.name for p in toy.pods.values()} == {"a", "b"}
    restore(toy, first, incarnation="i2")
    assert {p.name for p in toy.pods.values()} == {"a"}
    assert charged(toy.world) == {("f", "cpu"): 2000}
    assert toy.world.meta.incarnation == "i2"
    toy.pod("d", cpu=2)
    assert not gated(toy, "d")


def test_it_happens_again_before_the_workload_of_an_end_is_gone(toy: Toy) -> None:
    toy.pod("a", cpu=3)
    toy.run("a")
    backup = saved(toy)
    for incarnation in ("i1", "i2", "i3"):
        toy.collects = False
        toy.end("a")
        toy.delete("a")
        toy.collects = True
        restore(toy, backup, incarnation=incarnation)
        (group,) = alive(toy, "a")
        assert group.mirror.workload is not None and group.ending.finish is None
        assert group.quota.holding is not None and group.quota.holding.decided_by == "adopted"
    toy.end("a")
    toy.delete("a")
    assert not toy.world.groups and not toy.workloads


def test_another_cluster_with_the_same_names_is_another_world(toy: Toy) -> None:
    for name in ("a", "b"):
        toy.pod(name, cpu=2)
    toy.run("a", "b")
    old = {g.id for g in toy.world.groups.values()}
    there = Toy(cpu=4)
    there._uid = 500
    for name in ("a", "b"):
        there.pod(name, cpu=2, settle=False)
    objects = {
        kind: [replace(o, uid=f"{o.uid}-other") for o in found]
        for kind, found in saved(there).objects.items()
    }
    restore(toy, saved(there)._replace(objects=objects))
    assert {p.view.uid for p in toy.world.pods.values()} == set(there.pods)
    assert not old & {g.id for g in toy.world.groups.values()}
    assert not gated(toy, "a") and not gated(toy, "b")
    assert charged(toy.world) == {("f", "cpu"): 4000}


def test_before_it_was_installed_nothing_is_known_and_nothing_held(toy: Toy) -> None:
    toy.pod("a", cpu=2)
    toy.run("a")
    put_back(toy, Backup(5, {}, {}, {}))
    toy.send(e.ClusterRestored(incarnation="i1", reason="put back"))
    for kind in WATCHED_KINDS:
        there = kind in ("Namespace", "PriorityClass", "Pod")
        toy.send(
            e.RelistStarted(kind=kind, relist=kind, by_settings=True),
            e.RelistCompleted(
                kind=kind, relist=kind, resource_version="5" if there else "", installed=there
            ),
        )
    assert not toy.world.groups and not toy.world.pods and not toy.world.cluster_queues
    toy.pod("b", cpu=2)
    assert gated(toy, "b")


def test_a_pod_that_had_lost_its_label_before_is_still_counted(toy: Toy) -> None:
    toy.pod("a", cpu=3)
    toy.run("a")
    toy.act = False
    toy.unlabel("a")
    restore(toy, saved(toy))
    assert charged(toy.world) == {("f", "cpu"): 3000}


def test_history_says_so(toy: Toy) -> None:
    toy.pod("a", cpu=3)
    backup = saved(toy)
    toy.run("a")
    toy.end("a")
    restore(toy, backup)
    (note,) = [n for n in toy.world.journal.notes if n.kind == "ClusterRestored"]
    assert (note.reason, note.message) == ("i1", "put back")


def test_in_kueue_mode_what_kueue_says_now_holds() -> None:
    toy = Toy(mode="kueue")
    toy.pod("a", cpu=1)
    (workload,) = toy.workloads.values()
    toy.admit(workload.name)
    backup_waiting = Backup(*saved(toy))
    assert not gated(toy, "a")
    toy.run("a")
    running = saved(toy)
    toy.end("a")
    restore(toy, running)
    (group,) = alive(toy, "a")
    assert group.quota.holding is not None and group.ending.finish is None
    toy.end("a")
    assert backup_waiting.pods


@pytest.mark.parametrize("seed", range(12))
def test_any_story_goes_on_from_any_backup(seed: int) -> None:
    """No quota is given twice, nothing stands still, and a replay says the same."""
    chance = random.Random(seed)
    toy = Toy(cpu=4)
    backups = [saved(toy)]
    names = 0
    for _ in range(60):
        there = [p for p in toy.pods.values() if p.deleted_at is None]
        match chance.choice(("pod", "pod", "group", "run", "end", "delete", "save", "back")):
            case "pod":
                names += 1
                toy.pod(f"p{names}", cpu=chance.randint(1, 3))
            case "group":
                names += 1
                for n in range(2):
                    toy.pod(f"g{names}-{n}", f"g{names}", 2, cpu=chance.randint(1, 2))
            case "run":
                for p in there:
                    if not p.gates and p.phase == "Pending" and chance.random() < 0.7:
                        toy.run(p.name)
            case "end":
                for p in there:
                    if p.phase == "Running" and chance.random() < 0.5 and p.uid in toy.pods:
                        toy.end(p.name)
            case "delete" if alone := [p.name for p in there if p.name.startswith("p")]:
                toy.delete(chance.choice(alone))  # a group that is short waits for its user
            case "save":
                backups.append(saved(toy))
            case "back":
                at = chance.randrange(len(backups))
                del backups[at + 1 :]
                bump = chance.choice((0, 0, 10**9))
                restore(toy, backups[at], bump=bump, incarnation=f"i{toy.position}")
                backups = [backups[at]._replace(version=toy.version)] if bump else backups
                for held in charged(toy.world).values():
                    assert held <= 4000
    for _ in range(40):
        for p in list(toy.pods.values()):
            if p.deleted_at is None and not p.gates and p.phase == "Pending":
                toy.run(p.name)
        for p in list(toy.pods.values()):
            if p.uid in toy.pods and p.phase == "Running":
                toy.end(p.name)
        toy.wait(61)
    assert not [p.name for p in toy.pods.values() if p.gates], "all got their turn"
    assert charged(toy.world) == {}
    assert not toy.world.meta.undone and not toy.world.meta.rewound
