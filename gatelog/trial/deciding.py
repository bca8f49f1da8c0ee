"""A message with the tried pods, decided on, and the decisions about them.

Theory. The pods come in one message, as in a busy moment, and the engine decides after it as a
projector does. The result for a group is then in the world and in the journal; the rest of both is
dropped.

Invariant: a group `starts` exactly if this message admits it.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from gatelog.readmodel.timeline import plain
from gatelog.trial.answers import Given, TriedGroup, Verdict, Victim
from podgroup.admission.wording import preemption_why
from podgroup.engine import step
from podgroup.log.events import Batch, Decision, Event, PodApplied
from podgroup.model.commands import DeletePod, EvictGroup, UngatePod
from podgroup.model.ids import GroupID, PodUID
from podgroup.model.names import EVENT_EXCESS_POD_DELETED
from podgroup.model.objects import PodView
from podgroup.model.reasons import (
    LARGER_THAN_DECLARED,
    SCALE_UP_PENDING,
    UNKNOWN_ROLE,
    WAITING_FOR_PLACE,
)
from podgroup.model.topology import placed_at
from podgroup.model.wording import short_of
from podgroup.state.facts import UNPLACED, beyond, cluster_queue_name, grows
from podgroup.state.group import SINGLE, Group, QuotaReservation
from podgroup.state.world import World

KUEUE_DECIDES = "its Workload is made, and Kueue decides when it is admitted"


class Decided(Struct, frozen=True):
    """The result of the message at `position`.

    `on_pods` are decisions on a pod, by its uid; `evictions` are decisions that take quota, by the
    group that gets it.
    """

    position: int
    groups: list[GroupID]
    """Groups of the pods that were tried, in the order of the pods."""
    on_pods: dict[str, list[Decision]]
    evictions: dict[GroupID, list[Decision]]


def decide(world: World, views: list[PodView], at: datetime, seen: Sequence[Event] = ()) -> Decided:
    """Decide on pods that come at a moment, with what else is `seen` then; changes the world."""
    position = world.meta.position + 1
    pods = (PodApplied(pod=view) for view in views)
    batch = Batch(source="watch", events=(*seen, *pods))
    before = len(world.journal.decisions)
    step(world, position, at, batch)
    found = [world.pods[uid].group for view in views if (uid := PodUID(view.uid)) in world.pods]
    on_pods: dict[str, list[Decision]] = {}
    evictions: dict[GroupID, list[Decision]] = {}
    for decision in world.journal.decisions[before:]:
        command = decision.command
        on_pods.setdefault(command.target.uid, []).append(decision)
        if isinstance(command, EvictGroup) and command.preempted_by:
            evictions.setdefault(GroupID(command.preempted_by), []).append(decision)
    groups = list(dict.fromkeys(found))
    return Decided(position, groups, on_pods, evictions)


def group_of(
    world: World, decided: Decided, identity: GroupID, tried: set[str], position: int
) -> TriedGroup:
    """Return the result for a group; `tried` are uids of the pods that were tried.

    `position` is its place in line, 0 for none.
    """
    group = world.groups[identity]
    mine = tried & {str(uid) for uid in world.members[identity].flags}
    verdict, said = _verdict(world, decided, group, mine)
    excess = _count(decided, mine, DeletePod)
    if excess:
        said = (f"beyond its count, and deleted: {excess} of these pods", *said)
    wait, holding = group.explained.wait, group.quota.holding
    reason = "" if verdict == "starts" else wait.reason if wait is not None else ""
    if verdict == "waits" and wait is None and holding is not None:
        reason = _left_out(world, group, mine - decided.on_pods.keys())
    return TriedGroup(
        namespace=group.namespace,
        name=group.name,
        kind=group.kind,
        pods=len(mine),
        verdict=verdict,
        queue=group.spec.queue,
        cluster_queue=cluster_queue_name(world, group),
        priority=group.composition.priority,
        reason=reason or (group.explained.reason if verdict != "starts" else ""),
        said=said,
        blocked=wait is not None and wait.blocked,
        borrows=holding is not None and _borrows(world, holding),
        given=_given(group, holding) if holding is not None else (),
        position=position if verdict == "waits" else 0,
        victims=tuple(_victims(decided, identity)),
    )


def _verdict(
    world: World, decided: Decided, group: Group, mine: set[str]
) -> tuple[Verdict, tuple[str, ...]]:
    holding, wait = group.quota.holding, group.explained.wait
    if group.parked:
        return "waits", (group.parked,)
    if group.ending.finish is not None:
        return "waits", (f"its group has ended: {plain(group.explained.message)}",)
    if holding is not None and holding.seq == decided.position and holding.admitted:
        return "starts", ()
    if holding is not None and wait is None:
        return _joining(decided, mine)
    if wait is None:
        kueue = world.mode == "kueue" and group.composition.done
        said = KUEUE_DECIDES if kueue else plain(group.explained.message)
        return "waits", (said,) if said else ()
    short = group.quota.shortage.shortages if group.quota.shortage is not None else ()
    said_of = short_of(wait.reason, short) or [plain(wait.message)]
    if world.mode == "kueue" and group.composition.done and not wait.blocked:
        said_of = [KUEUE_DECIDES]
    return "waits", tuple(said_of)


def _joining(decided: Decided, mine: set[str]) -> tuple[Verdict, tuple[str, ...]]:
    """Return the result for pods of a group that already holds quota."""
    let_in = _count(decided, mine, UngatePod)
    left = len(mine) - let_in - _count(decided, mine, DeletePod)
    if not let_in and not left:
        return "waits", ()
    if not let_in:
        return "waits", ("its group is admitted, and has no place free for these pods",)
    if left:
        said = f"its group is admitted already, and has places free for {let_in} of these pods"
        return "waits", (said,)
    return "starts", ("its group is admitted already",)


def _count(decided: Decided, mine: set[str], kind: type[UngatePod | DeletePod]) -> int:
    decisions = (one for uid in mine for one in decided.on_pods.get(uid, ()))
    return sum(isinstance(one.command, kind) for one in decisions)


def _left_out(world: World, group: Group, left: set[str]) -> str:
    """Return why pods of an admitted group stay at their gate, as the first of these says."""
    pods = (world.pods[uid] for uid in world.members[group.id].flags if str(uid) in left)
    pod = next(pods, None)
    if group.ending.finish is not None:
        return ""
    if pod is None:
        return EVENT_EXCESS_POD_DELETED
    if not group.roles[pod.role].count:
        larger = beyond(group, pod.role.removeprefix(UNPLACED), pod.view)
        return LARGER_THAN_DECLARED if larger else UNKNOWN_ROLE
    return SCALE_UP_PENDING if grows(group) else WAITING_FOR_PLACE


def _given(group: Group, holding: QuotaReservation) -> tuple[Given, ...]:
    given = holding.admission.assignments
    alone = group.kind == SINGLE or len(given) == 1
    return tuple(
        Given(
            role="" if alone else one.name,
            count=one.count,
            flavors=dict(one.flavors),
            place=placed_at([one.place]).removeprefix(", "),
        )
        for one in given
    )


def _borrows(world: World, holding: QuotaReservation) -> bool:
    """Return whether its ClusterQueue takes more than its own quota of what the group holds."""
    queue = world.cluster_queues.get(holding.admission.cluster_queue)
    if queue is None:
        return False
    nominal = {
        (flavor.name, resource): quota.nominal
        for resources in queue.groups
        for flavor in resources.flavors
        for resource, quota in flavor.resources.items()
    }
    taken = world.quotas.tally(("ClusterQueue", "", queue.name)).reserved
    return any(
        taken[flavor, resource] > nominal.get((flavor, resource), 0)
        for one in holding.admission.assignments
        for resource, flavor in one.flavors.items()
    )


def _victims(decided: Decided, identity: GroupID) -> Iterator[Victim]:
    for decision in decided.evictions.get(identity, ()):
        command = decision.command
        assert isinstance(command, EvictGroup)
        policy = command.preemption.policy if command.preemption is not None else ""
        why = preemption_why(policy)
        yield Victim(namespace=decision.namespace, name=decision.name, why=why)
