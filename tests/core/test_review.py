"""What must not happen on a cluster that must not stop: stuck groups, leaked or exceeded quota.

Each test tells a story that went wrong, or could have, on the smallest cluster that shows it.
"""

from typing import Any

import msgspec
import pytest

from podgroup.engine import Stored, drain_journal, load_world, rejoin_frames, step
from podgroup.log import events as e
from podgroup.log.events import Batch
from podgroup.model.commands import CreateWorkload
from podgroup.model.names import (
    IS_GROUP_WORKLOAD,
    PRIORITY_CLASS,
)
from podgroup.model.objects import (
    FlavorQuotas,
    FlavorView,
    QueueObject,
    Quota,
    ResourceGroup,
)
from podgroup.state.world import World
from tests.support.toy import Toy, taken

HIGH, LOW = {PRIORITY_CLASS: "high"}, {PRIORITY_CLASS: "low"}


def reloaded(world: World) -> World:
    """What a projector that starts now makes of what the database holds."""
    drain_journal(world)
    wire = msgspec.json
    objects: list[QueueObject] = [
        *world.local_queues.values(),
        *world.cluster_queues.values(),
        *world.flavors.values(),
        *world.workload_classes.values(),
        *world.classes.values(),
        *world.namespaces.values(),
    ]
    return load_world(
        world.cluster,
        world.mode,
        Stored(
            wire.decode(wire.encode(world.meta), type=type(world.meta)),
            [wire.decode(wire.encode(g), type=type(g)) for g in world.groups.values()],
            [wire.decode(wire.encode(p), type=type(p)) for p in world.pods.values()],
            objects,
            list(world.workloads.values()),
        ),
    )


def tick(toy: Toy) -> None:
    """A message that says nothing."""
    toy.do(e.WatchProgressed(kind="Pod", resource_version=toy.bump()))


def relist(toy: Toy, kind: Any, *events: Any, version: str = "", **more: Any) -> None:
    name = f"again-{toy.bump()}"
    toy.do(
        e.RelistStarted(kind=kind, relist=name),
        *(msgspec.structs.replace(event, relist=name) for event in events),
        e.RelistCompleted(kind=kind, relist=name, resource_version=version or toy.bump(), **more),
    )


def used(toy: Toy, queue: str = "cq") -> int:
    return taken(toy.world, queue)["f", "cpu"]


# -- quota ---


def test_pods_that_ran_unadmitted_do_not_block_their_own_group() -> None:
    toy = Toy(cpu=2)
    toy.pod("wild", "g", 2, gated=False, finalizers=())
    toy.run("wild")
    assert used(toy) == 1000
    toy.pod("tame", "g", 2)
    toy.end("wild")
    assert not toy.gated("tame")
    assert used(toy) == 1000  # the success gives its share back at once


def test_what_ran_unadmitted_is_given_back_when_the_group_is_gone() -> None:
    toy = Toy(cpu=2)
    toy.pod("wild", "g", 2, gated=False, finalizers=())
    toy.run("wild")
    toy.delete("wild")
    assert used(toy) == 0 and not toy.world.groups


def test_two_groups_of_like_role_names_are_judged_by_their_own_selectors() -> None:
    toy = Toy()
    toy.pod("misfit", "g1", 1, role="worker", node_selector={"pool": "none"})
    assert toy.gated("misfit")
    toy.act = False
    toy.pod("fit", "g2", 1, role="worker", settle=False)
    toy.act = True
    toy.settle()
    toy.pod("hog", cpu=10, settle=False)  # whatever makes a full pass necessary
    toy.do(e.ObjectApplied(object=toy.cluster_queue(11)))
    assert not toy.gated("fit")


def test_a_full_pass_does_not_take_one_misfit_for_another() -> None:
    toy = Toy(cpu=0)
    toy.pod("misfit", "g1", 1, role="worker", node_selector={"pool": "none"})
    toy.pod("fit", "g2", 1, role="worker")
    toy.do(e.ObjectApplied(object=toy.cluster_queue(5)))
    assert toy.gated("misfit") and not toy.gated("fit")


def test_pods_of_one_role_name_cannot_ask_for_more_than_is_charged() -> None:
    toy = Toy(cpu=4)
    toy.pod("small", "g", 2, cpu=1, role="worker")
    toy.pod("large", "g", 2, cpu=100, role="worker")
    assert toy.gated("small") and toy.gated("large")
    group = toy.group("g")
    assert group.explained.state == "Blocked"
    assert (
        "small" in group.explained.message
        and "large" in group.explained.message
        and "cpu" in group.explained.message
    )


def test_a_replacement_cannot_ask_for_more_than_is_charged() -> None:
    toy = Toy(cpu=4)
    for name in ("a", "b"):
        toy.pod(name, "g", 2, cpu=1, role="worker")
    toy.run("a", "b")
    toy.end("a", phase="Failed")
    toy.pod("large", "g", 2, cpu=100, role="worker")
    assert toy.gated("large")
    toy.wait(6)
    assert any(on == "large" and "cpu" in text for on, _, text in toy.said)
    toy.pod("right", "g", 2, cpu=1, role="worker")
    assert not toy.gated("right")


def test_quota_follows_a_deleted_and_recreated_cluster_queue() -> None:
    toy = Toy(cpu=2)
    toy.pod("a", cpu=2)
    toy.run("a")
    old = toy.world.cluster_queues["cq"]
    toy.do(
        e.ObjectDeleted(
            kind="ClusterQueue", name="cq", uid=old.uid, resource_version=toy.bump(), namespace=""
        )
    )
    toy.pod("b", cpu=1)
    assert toy.gated("b") and toy.group("b").explained.reason == "ClusterQueueNotFound"
    toy.do(e.ObjectApplied(object=msgspec.structs.replace(toy.cluster_queue(2), uid="cq2")))
    assert toy.gated("b") and used(toy) == 2000
    toy.end("a")
    assert not toy.gated("b") and used(toy) == 1000


def test_a_group_follows_its_local_queue_to_another_cluster_queue() -> None:
    toy = Toy(cpu=0)
    toy.pod("a")
    other = msgspec.structs.replace(toy.cluster_queue(2), uid="o", name="other")
    toy.do(e.ObjectApplied(object=other))
    assert toy.gated("a")
    queue = toy.world.local_queues[("ns", "lq")]
    toy.do(
        e.ObjectApplied(
            object=msgspec.structs.replace(
                queue, resource_version=toy.bump(), cluster_queue="other"
            )
        )
    )
    assert not toy.gated("a") and used(toy, "other") == 1000 and not used(toy)


def test_lowered_quota_admits_nothing_until_it_is_free() -> None:
    toy = Toy(cpu=4)
    toy.pod("a", cpu=4)
    toy.run("a")
    toy.do(e.ObjectApplied(object=toy.cluster_queue(2)))
    toy.pod("b", cpu=1)
    assert toy.gated("b")
    toy.end("a")
    assert not toy.gated("b")


def test_no_pod_starts_without_the_labels_of_its_flavor() -> None:
    toy = Toy(cpu=4)
    for name in ("a", "b"):
        toy.pod(name, "g", 2)
    toy.run("a", "b")
    flavor = toy.world.flavors["f"]
    toy.do(
        e.ObjectDeleted(
            kind="ResourceFlavor", name="f", uid="f", resource_version=toy.bump(), namespace=""
        )
    )
    toy.end("a", phase="Failed")
    toy.pod("c", "g", 2)
    assert toy.gated("c")
    toy.wait(6)
    assert any(on == "c" and "flavor f" in text.lower() for on, _, text in toy.said)
    toy.do(e.ObjectApplied(object=msgspec.structs.replace(flavor, resource_version=toy.bump())))
    assert not toy.gated("c") and toy.named("c").node_selector == {"pool": "a"}


# -- preemption ---


def test_a_restart_between_eviction_and_admission_changes_nothing() -> None:
    for restart in (False, True):
        toy = Toy(cpu=4)
        toy.slow = True
        mid = msgspec.structs.replace(
            toy.world.workload_classes["high"], uid="mid", name="mid", value=500
        )
        mid = msgspec.structs.replace(mid, resource_version=toy.bump())
        toy.do(e.ObjectApplied(object=mid))
        toy.pod("low", "v", 1, cpu=4, labels=LOW)
        toy.run("low")
        toy.pod("first", cpu=4, labels={PRIORITY_CLASS: "mid"})
        assert toy.group("v").requeueing.evicted is not None
        if restart:
            toy.world = reloaded(toy.world)
        toy.pod("later", cpu=1, labels=LOW)
        toy.pod("urgent", cpu=4, labels=HIGH)
        toy.end("low", phase="Failed")
        started = [name for name in ("first", "later", "urgent") if not toy.gated(name)]
        assert started == ["urgent"], restart
        # It was admitted and preempted in one go, and has lost nothing by that.
        toy.run("urgent")
        toy.end("urgent")
        assert not toy.gated("first") and toy.gated("later"), restart


def test_a_second_preemptor_does_not_take_the_room_of_the_first() -> None:
    toy = Toy(cpu=5)
    toy.slow = True
    toy.pod("v4a", "v4", 1, cpu=4, labels=LOW)
    toy.pod("v1a", "v1", 1, cpu=1, labels=LOW)
    toy.run("v4a", "v1a")
    toy.pod("big", cpu=4, labels=HIGH)
    assert toy.group("v4").requeueing.evicted is not None
    toy.pod("small", cpu=1, labels={PRIORITY_CLASS: "high"})
    assert toy.group("v1").requeueing.evicted is not None
    toy.end("v4a", phase="Failed")
    assert not toy.gated("big")
    toy.end("v1a", phase="Failed")
    assert not toy.gated("small")


@pytest.mark.no_rest("the state is changed without an event")
def test_a_parked_group_is_nobodys_victim() -> None:
    toy = Toy(cpu=2)
    toy.pod("stuck", cpu=1, labels=LOW)
    toy.pod("other", cpu=1, labels=LOW)
    toy.run("stuck", "other")
    toy.group("other").parked = "1/0 (test): for the test"
    toy.world.quotas.news[toy.group("other").id] = None
    toy.pod("high", cpu=1, labels=HIGH)
    assert not toy.gated("high")


def test_a_preemptor_that_fits_no_more_does_not_hold_up_the_line() -> None:
    toy = Toy(cpu=4, strategy="StrictFIFO")
    toy.slow = True
    toy.pod("va", "v", 1, cpu=4, labels=LOW)
    toy.run("va")
    toy.do(
        e.ObjectApplied(
            object=msgspec.structs.replace(
                toy.world.workload_classes["high"],
                uid="top",
                name="top",
                value=5000,
                resource_version=toy.bump(),
            )
        )
    )
    toy.pod("big", cpu=4, labels=HIGH)
    toy.do(e.ObjectApplied(object=toy.cluster_queue(2, "StrictFIFO")))
    toy.end("va", phase="Failed")
    toy.pod("small", cpu=1, labels={PRIORITY_CLASS: "top"})
    assert not toy.gated("small")


# -- groups that wait for ever ---


def test_a_workload_that_could_not_be_created_is_created_later() -> None:
    for mode in ("builtin", "kueue"):
        toy = Toy(mode=mode)
        toy.act = False
        toy.pod("a", "g", 1)
        (create,) = (d for d in toy.decisions if isinstance(d.command, CreateWorkload))
        toy.send(e.OutcomeRecorded(decision=create.id, group=create.group, status="rejected"))
        toy.queue.clear()
        toy.act = True
        toy.wait(31)
        toy.settle()
        assert "g" in toy.workloads, mode


def test_a_workload_that_came_and_went_unseen_is_made_again() -> None:
    toy = Toy(mode="kueue")
    toy.act = False
    toy.pod("a", "g", 1)
    create = toy.decisions[0]
    toy.queue.clear()
    toy.send(
        e.OutcomeRecorded(
            decision=create.id,
            group=create.group,
            status="applied",
            uid="w",
            resource_version=toy.bump(),
        )
    )
    toy.act = True
    relist(toy, "Workload")
    assert "g" in toy.workloads


def test_a_workload_that_was_replaced_unseen_is_the_new_one() -> None:
    toy = Toy(mode="kueue")
    toy.pod("a", "g", 1)
    toy.admit("g")
    assert not toy.gated("a")
    toy.run("a")
    old = toy.workloads["g"]
    new = msgspec.structs.replace(
        old,
        uid="w-new",
        resource_version=toy.bump(),
        conditions=(),
        cluster_queue="",
        assignments=(),
    )
    toy.workloads["g"] = new
    relist(toy, "Workload", e.WorkloadApplied(workload=new))
    group = toy.group("g")
    assert group.mirror.expect is None
    assert group.quota.holding is None or not toy.there()


def test_an_obsolete_write_to_a_workload_does_not_stop_the_group() -> None:
    toy = Toy(mode="kueue")
    toy.pod("a", "g", 1)
    toy.admit("g")
    toy.run("a")
    toy.act = False
    toy.end("a")
    write = next(d for d in toy.queue if d.command.target.kind == "Workload")
    toy.queue.clear()
    old = toy.workloads["g"]
    new = msgspec.structs.replace(old, uid="w-new", resource_version=toy.bump())
    toy.workloads["g"] = new
    relist(toy, "Workload", e.WorkloadApplied(workload=new))
    toy.send(e.OutcomeRecorded(decision=write.id, group=write.group, status="obsolete"))
    toy.act = True
    toy.wait(31)
    toy.settle()
    assert "Finished" in toy.true("g")


def test_pods_written_before_a_restore_of_etcd_are_written_again() -> None:
    toy = Toy()
    before = toy.pod("a", settle=False)
    workload_version = toy.bump()
    toy.act = False
    ungate = next(d for d in toy.queue if d.rule == "ungate")
    rest = [d for d in toy.queue if d is not ungate]
    toy.queue.clear()
    toy.send(
        e.OutcomeRecorded(
            decision=ungate.id,
            group=ungate.group,
            status="applied",
            uid=before.uid,
            resource_version=toy.bump(),
        )
    )
    toy.act = True
    toy.queue.extend(rest)
    toy.settle()
    # The backup is older than the write: everything is listed as it was, at lower versions.
    old = msgspec.structs.replace(before, resource_version="3")
    toy.pods[before.uid] = old
    toy.version = 5
    relist(toy, "Pod", e.PodApplied(pod=old), version="5")
    toy.settle()
    assert not toy.gated("a"), workload_version


def test_a_workload_whose_marks_were_removed_stays_the_groups() -> None:
    toy = Toy()
    toy.pod("a", "g", 1)
    toy.run("a")
    toy.put_workload(msgspec.structs.replace(toy.workloads["g"], annotations={}))
    toy.settle()
    toy.end("a")
    assert "Finished" in toy.true("g") and not toy.held("a")


def test_a_second_life_after_the_workload_was_deleted_keeps_all_its_pods() -> None:
    toy = Toy()
    for name in ("a", "b"):
        toy.pod(name, "g", 2)
    toy.run("a", "b")
    toy.end("a")
    toy.slow = True
    toy.delete_workload("g")  # b goes on for a while
    for name in ("c", "d"):
        toy.pod(name, "g", 2)
    if "b" in toy.there():
        toy.end("b", phase="Failed")
    assert {"c", "d"} <= toy.there()
    assert not toy.gated("c") and not toy.gated("d")
    toy.run("c", "d")
    toy.end("c")
    assert toy.group("g").ending.finish is None
    toy.end("d")
    assert toy.group("g").explained.state == "Finished"


def test_a_success_before_the_group_was_complete_costs_nobody_a_place() -> None:
    toy = Toy()
    toy.pod("wild", "g", 2, gated=False, finalizers=())
    toy.run("wild")
    toy.end("wild")
    toy.delete("wild")
    for name in ("b", "c"):
        toy.pod(name, "g", 2)
    assert {"b", "c"} <= toy.there()


def test_a_succeeded_pod_of_a_group_that_never_was_can_be_deleted() -> None:
    toy = Toy()
    toy.pod("wild", "g", 3, gated=False)
    toy.run("wild")
    toy.end("wild")
    toy.delete("wild")
    assert not toy.there()


# -- relists and restarts ---


def test_an_unreadable_pod_in_a_relist_is_not_taken_for_gone_after_a_restart() -> None:
    toy = Toy()
    pod = toy.pod("a")
    started = e.RelistStarted(kind="Pod", relist="r")
    refused = e.DeltaRefused(
        kind="Pod",
        namespace="ns",
        name="a",
        uid=pod.uid,
        resource_version=pod.resource_version,
        field="spec",
        message="too large",
    )
    toy.do(started)
    toy.do(refused)
    world = reloaded(toy.world)
    rejoin_frames(world, Batch(source="watch", events=(refused,)), toy.position)
    done = e.RelistCompleted(kind="Pod", relist="r", resource_version=toy.bump())
    step(world, toy.position + 1, toy.now, Batch(source="watch", events=(done,)))
    assert pod.uid in world.pods


def test_status_changes_of_queues_touch_no_group() -> None:
    toy = Toy(cpu=0)
    toy.pod("a")
    queue = toy.world.cluster_queues["cq"]
    looked: list[str] = []
    drain_journal(toy.world)
    toy.do(e.ObjectApplied(object=msgspec.structs.replace(queue, resource_version=toy.bump())))
    looked += toy.world.journal.groups
    assert not looked


def test_workloads_that_are_not_served_for_a_while_stop_no_pod() -> None:
    toy = Toy()
    toy.pod("a", "g", 1)
    toy.pod("b")
    toy.run("a", "b")
    relist(toy, "Workload", installed=False)
    assert {p.phase for p in toy.pods.values()} == {"Running"}
    assert not any(p.deleted_at for p in toy.pods.values())


def test_a_group_that_the_rules_fail_on_twice_stops_nobody_else() -> None:
    toy = Toy()
    toy.pod("a", "g", 1)
    group = toy.group("g")
    group.parked = "1/0 (test): for the test"
    group.ending.finish = "no end"  # a state that cannot be: explaining it fails as well
    toy.run("a")
    toy.pod("b")
    assert not toy.gated("b")


def test_workloads_that_are_served_again_are_made_again() -> None:
    toy = Toy()
    toy.pod("a", "g", 1)
    toy.run("a")
    toy.workloads.clear()
    relist(toy, "Workload", installed=False)
    assert "g" not in toy.workloads
    relist(toy, "Workload")
    assert toy.true("g") >= {"QuotaReserved", "Admitted"}
    toy.end("a")
    assert "Finished" in toy.true("g") and not toy.held("a")


def test_a_waiting_preemptor_keeps_what_it_counts_on() -> None:
    toy = Toy(cpu=6)
    toy.slow = True
    for name, cpu in (("v1", 2), ("v2", 2)):
        toy.pod(f"{name}-a", name, 1, cpu=cpu, labels=LOW)
        toy.run(f"{name}-a")
    toy.pod("big", "p1", 1, cpu=3, labels=HIGH)
    toy.pod("also", "p2", 1, cpu=3, labels=HIGH)
    assert all(toy.group(name).requeueing.evicted is not None for name in ("v1", "v2"))
    toy.pod("small", "p3", 1, cpu=1, labels=LOW)
    assert toy.gated("small")
    toy.end("v1-a", "v2-a", phase="Failed")
    assert not toy.gated("big") and not toy.gated("also") and toy.gated("small")


def test_a_group_that_ran_unadmitted_while_complete_is_accounted() -> None:
    toy = Toy(cpu=2)
    toy.workload("g", ("r1", 2), annotations={IS_GROUP_WORKLOAD: "true"})
    for name in ("a", "b"):
        toy.pod(name, "g", 2, gated=False, node="node", phase="Running")
    toy.pod("other", cpu=1)
    assert toy.gated("other") and used(toy) == 2000


def two_flavors(toy: Toy, cpu: int) -> None:
    toy.do(
        e.ObjectApplied(object=FlavorView(uid="g", name="g", resource_version=toy.bump())),
        e.ObjectApplied(
            object=msgspec.structs.replace(
                toy.cluster_queue(cpu),
                groups=(
                    ResourceGroup(
                        covered=("cpu",),
                        flavors=tuple(
                            FlavorQuotas(name=n, resources={"cpu": Quota(nominal=cpu * 1000)})
                            for n in ("f", "g")
                        ),
                    ),
                ),
            )
        ),
    )


def test_room_is_made_in_the_second_flavor_when_it_cannot_be_in_the_first() -> None:
    toy = Toy()
    two_flavors(toy, 2)
    toy.pod("urgent", cpu=2, labels=HIGH)
    toy.pod("idle", cpu=2, labels=LOW)
    toy.run("urgent", "idle")
    toy.pod("next", cpu=2, labels=HIGH)
    assert not toy.gated("next")
    assert toy.group("next").quota.holding.admission.assignments[0].flavors == {"cpu": "g"}


def test_the_reason_of_a_preemptor_of_many_is_short_and_does_not_change_with_each() -> None:
    toy = Toy(cpu=50)
    toy.slow = True
    names = [f"a-pod-with-quite-a-long-name-{i}" for i in range(50)]
    for name in names:
        toy.pod(name, name, 1, labels=LOW)
    toy.run(*names)
    toy.pod("big", cpu=50, labels=HIGH)
    waiting = toy.group("big").explained.wait
    assert waiting.reason == "WaitingForPreemptedWorkloads" and len(waiting.message) < 500
    toy.end(*names[:49], phase="Failed")
    assert toy.group("big").explained.wait == waiting
    toy.end(names[49], phase="Failed")
    assert not toy.gated("big")


def test_a_long_value_does_not_make_a_long_message() -> None:
    toy = Toy()
    toy.pod("a", "g", 2)
    toy.pod("b", "g", "2" * 200_000)
    assert (
        toy.group("g").explained.state == "Blocked" and len(toy.group("g").explained.message) < 1000
    )


def test_quota_that_moves_to_another_queue_leaves_nothing_behind() -> None:
    toy = Toy(cpu=2)
    toy.pod("wild", "g", 2, gated=False, node="node", phase="Running")
    other = msgspec.structs.replace(toy.cluster_queue(2), uid="o", name="other")
    local = toy.world.local_queues[("ns", "lq")]
    moved = msgspec.structs.replace(local, resource_version=toy.bump(), cluster_queue="other")
    toy.do(e.ObjectApplied(object=other), e.ObjectApplied(object=moved))
    quotas = toy.world.quotas
    assert used(toy) == 0 and used(toy, "other") == 1000
    assert [charge.cluster_queue for charge in quotas.charges.values()] == ["other"]


def test_a_restart_does_not_change_the_order_in_which_things_are_told() -> None:
    told = []
    for restart in (False, True):
        toy = Toy()
        first, second = toy.pod("a", "g1", 2), toy.pod("b", "g2", 2)
        if restart:
            toy.world = reloaded(toy.world)
        drain_journal(toy.world)
        more = [
            msgspec.structs.replace(
                pod, uid=f"{pod.uid}x", name=f"{pod.name}x", resource_version=toy.bump()
            )
            for pod in (second, first)
        ]
        toy.send(*(e.PodApplied(pod=pod) for pod in more))
        told.append([(n.ord, n.kind, n.group, n.reason) for n in toy.world.journal.notes])
    assert told[0] == told[1]
