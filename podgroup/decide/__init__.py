"""decide: state -> decisions. Rules are pure functions of the folded state, run in a fixed order.

After each message, for every group it touched (in order of first touch):

    disowning   disown: pods that lost the managed label at their gate
    keeping     keep: pods that run and have lost it
    failing     what can never start ends
    closing     ends: orphan, discard, dissolve, finish, release
    prebuilt    a Workload that the pods bring along
    restoring   a Workload that could not be made, or went unseen
    composing   pods -> group                                     (builds the Workload)
    staffing    excess, own, replace, shortage
    following   mismatch, follow: queue, priority class, execution time
    taking over builtin mode: what runs since before this log began
    expiring    builtin mode: timeout, backoff, overrun
    stopping    evict, yield, unadmit
    retaining   expire
    admission   builtin mode: drain, queue, then admit and preempt per ClusterQueue, by name; groups
                that admission evicts run the rules above again, until nothing changes
    starting    ungate
    mirroring   Workload status
    sweep       the Workload of a group without pods
    checking    messages of pending admission checks
    explaining  state and reason in words
    reporting   condition and Event on the pods, once a reason has held for 5 s

and, for no group but for queues that changed, in builtin mode:

    queueing    announce: whether a ClusterQueue or LocalQueue is active

Nothing is decided before every kind was listed completely, nor for a parked group; what was decided
is applied whatever this release would wait for. A rule
that fails for a group (a bug of ours, or a value nobody thought of) parks that group alone.
Invariant: deciding twice on the same state decides nothing the second time.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta

from msgspec import Struct

from podgroup.decide.admission import admit_pending, enqueue, retire_admissions
from podgroup.decide.checking import checking
from podgroup.decide.closing import closing, sweep
from podgroup.decide.composing import composing
from podgroup.decide.context import Deciding
from podgroup.decide.disowning import disowning, tell_refused
from podgroup.decide.expiring import expiring
from podgroup.decide.explaining import explain
from podgroup.decide.failing import failing
from podgroup.decide.following import following
from podgroup.decide.keeping import keeping
from podgroup.decide.mirroring import mirroring
from podgroup.decide.prebuilt import prebuilding
from podgroup.decide.queueing import queueing
from podgroup.decide.reporting import reporting
from podgroup.decide.restoring import restoring
from podgroup.decide.retaining import retaining
from podgroup.decide.staffing import staffing
from podgroup.decide.starting import starting, stopping
from podgroup.decide.takeover import taking_over
from podgroup.decide.unadmitted import charge_unadmitted
from podgroup.events import Decision
from podgroup.fold.common import At
from podgroup.fold.concerns import CHARGE, Look
from podgroup.fold.pods import renewable, retirable
from podgroup.fold.relists import synced
from podgroup.fold.workloads import recharge
from podgroup.ids import GroupID
from podgroup.records import AnyRecord, Concluded, Renewed, Retired
from podgroup.state import Group, World

__all__ = ["RULES", "Deciding", "Difference", "decide"]


class Difference(Struct, frozen=True):
    """How deciding again differs from what is recorded: made only now, made only then."""

    only_now: tuple[Decision, ...] = ()
    only_then: tuple[Decision, ...] = ()
    said_now: tuple[AnyRecord, ...] = ()
    said_then: tuple[AnyRecord, ...] = ()


_NONE = Difference()

RULES = 2
"""Version of the rules: it grows when they would decide otherwise on a log than before."""


def decide(
    world: World,
    here: At,
    recorded: Mapping[str, Decision] | None = None,
    concluded: Concluded | None = None,
) -> Difference:
    """Decide on everything the last message touched; conclusions go to the journal.

    With `recorded` those decisions are applied instead and the difference is returned; with
    `concluded` the same goes for records.
    """
    if not synced(world) and not recorded and not (concluded and concluded.records):
        return _NONE
    loaded = world.loaded
    if loaded or world.thorough:
        world.touched.update(dict.fromkeys(world.touched))
    elif not recorded and not (concluded and concluded.records) and not _due(world):
        world.touched.clear()
        return _NONE
    world.loaded = False
    d = Deciding(world, here, recorded, concluded)
    if loaded:
        _line_up(d)
    for identity in list(world.touched):
        group = world.groups.get(identity)
        if group is not None and renewable(world, group):
            d.record(Renewed(identity))
    looked_at = _look(d)
    if loaded:
        # After a start every group is looked at once, in case the rules are newer than the state.
        # What the message touched comes first, as if there had been no start.
        world.touched.update(dict.fromkeys(g for g in sorted(world.groups) if g not in looked_at))
        d.here = At(here.position, _before_timers(world, here))
        looked_at.update(_look(d))
        d.here = here
    if world.meta.untold:
        tell_refused(d)
    if world.unsaid:
        queueing(d)
    rest = d.apply_rest() if recorded is not None and concluded is None else []
    for decision in rest:
        group = world.groups.get(GroupID(decision.group))
        if group is not None:
            _guarded(d, group, explain)
    world.touched.clear()
    for identity in looked_at:
        group = world.groups.get(identity)
        if group is not None and retirable(world, group):
            d.record(Retired(identity))
    if concluded is not None:
        rest = d.apply_rest()
        world.meta.decisions = max(world.meta.decisions, concluded.number)
        world.touched.clear()
    if recorded is None:
        d.conclude()
    if not (d.extra or rest or d.said_now or d.said_then):
        return _NONE
    world.thorough = True
    said = tuple(d.said_now), tuple(d.said_then)
    return Difference(tuple(d.extra), (*d.instead, *rest), *said)


def _due(world: World) -> bool:
    """Tell whether any rule is due: for a group, or for a ClusterQueue."""
    for look in world.touched.values():
        if look != 0:
            return True
    quotas = world.quotas
    if world.meta.untold or world.unsaid or quotas.dirty or quotas.left:
        return True
    return any(quotas.fresh.values())


def _before_timers(world: World, here: At) -> datetime:
    """Return the time as of which groups are looked at that nothing has happened to.

    What falls due falls due by a timer in the log, so that a replay without this start agrees.
    """
    due = min((timer.due_at for timer in world.meta.timers.values()), default=here.at)
    return min(world.meta.at or here.at, due - timedelta(microseconds=1))


def _line_up(d: Deciding) -> None:
    """Work out anew who waits and who is charged without admission: neither is stored."""
    world = d.world
    if world.mode != "builtin":
        return
    for identity in sorted(world.groups):
        group = world.groups[identity]
        if identity not in world.touched and not group.parked:
            _guarded(d, group, _enlist)
    world.quotas.fresh.clear()


def _enlist(d: Deciding, group: Group) -> None:
    charge_unadmitted(d, group)
    enqueue(d, group)


def _look(d: Deciding) -> dict[GroupID, None]:
    """Run the rules on the groups that are touched and those they lead to; return all of them."""
    world = d.world
    looked_at: dict[GroupID, Look] = {}
    while True:
        batch = {g: look for g, look in world.touched.items() if g in world.groups}
        world.touched.clear()
        looked_at.update(batch)
        for identity, look in batch.items():
            if look is None:
                _guarded(d, world.groups[identity], _shape_up)
            elif look:
                _guarded(d, world.groups[identity], _pay if look & CHARGE else _keep_up)
        if world.mode == "builtin":
            admit_pending(d)
        evicted = [g for g in world.touched if _needs_another_look(world, g)]
        looked_at.update(dict.fromkeys(g for g in world.touched if g in world.groups))
        world.touched.clear()
        if not evicted:
            break
        world.touched.update(dict.fromkeys(evicted))
    for identity, look in looked_at.items():
        if look != 0 and identity in world.groups:
            _guarded(d, world.groups[identity], _carry_on if look is None else mirroring)
    world.touched.clear()
    return dict.fromkeys(looked_at)


def _needs_another_look(world: World, identity: GroupID) -> bool:
    group = world.groups.get(identity)
    if group is None or group.parked or group.finish is not None:
        return False
    return group.evicted is not None and group.holding is not None


def _guarded(d: Deciding, group: Group, rules: Callable[[Deciding, Group], None]) -> None:
    """Run rules on a group. One that they fail on stops in the open; all others go on."""
    try:
        rules(d, group)
    except Exception as error:
        if not group.parked:
            d.park(group, error)
        # What cannot even be explained is parked all the same: a projector that fails here would
        # fail again at each start, and all other groups with it.
        with suppress(Exception):
            explain(d, group)


def _shape_up(d: Deciding, group: Group) -> None:
    builtin = d.world.mode == "builtin"
    disowning(d, group)
    keeping(d, group)
    if group.parked:
        d.world.quotas.dequeue(group.id)
        return
    failing(d, group)
    closing(d, group)
    if group.prebuilt:
        prebuilding(d, group)
    restoring(d, group)
    if not group.composed:
        composing(d, group)
    if group.composed:
        staffing(d, group)
        following(d, group)
    if builtin:
        taking_over(d, group)
        expiring(d, group)
        retire_admissions(d, group)
    stopping(d, group)
    if d.world.policy.retention_after_deactivation_s >= 0:
        retaining(d, group)
    if builtin:
        recharge(d.world, group)
        _enlist(d, group)


def _pay(d: Deciding, group: Group) -> None:
    """What is due of `_shape_up` in a calm group whose pods succeed (`fold.concerns`)."""
    _keep_up(d, group)
    recharge(d.world, group)


def _keep_up(d: Deciding, group: Group) -> None:
    """What is due of `_shape_up` in a calm group whose Workload may be written again."""
    workload = group.workload
    if group.priority_class and workload and group.priority_class != workload.priority_class:
        following(d, group)


def _carry_on(d: Deciding, group: Group) -> None:
    if not group.parked:
        holding = group.holding
        if holding is not None and holding.seq == d.here.position and d.world.mode == "builtin":
            expiring(d, group)  # its time begins with its admission
        starting(d, group)
        mirroring(d, group)
        sweep(d, group)
        checking(d, group)
    explain(d, group)
    reporting(d, group)
