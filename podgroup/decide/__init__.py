"""decide: state -> decisions. Rules are pure functions of the folded state, run in a fixed order.

After each message, for every group it touched (in order of first touch), the rules `FIRST` that are
due; then in builtin mode admission, head by head, and where it evicts groups these rules
again for them, until nothing changes; then the rules `THEN`. A rule says what it reads and
when it is due where it is written (`decide.rule`). For no group, but for pods that cannot be read
and for queues that changed, there are `refuse` and `announce`.

Nothing is decided before every kind was listed completely, nor for a parked group; what was decided
is applied whatever this release would wait for. A rule
that fails for a group (a bug of ours, or a value nobody thought of) parks that group alone.
Invariant: deciding twice on the same state decides nothing the second time.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta

from msgspec import Struct

from podgroup.changes import EVERYTHING
from podgroup.decide.admission import admit_pending
from podgroup.decide.checking import CHECK
from podgroup.decide.closing import DISSOLVE, FINISH, LEAVE, RELEASE, SWEEP
from podgroup.decide.composing import COMPOSE
from podgroup.decide.context import Deciding
from podgroup.decide.disowning import DISOWN, tell_refused
from podgroup.decide.expiring import BEGIN, EXPIRE
from podgroup.decide.explaining import EXPLAIN, explain
from podgroup.decide.failing import FAIL
from podgroup.decide.following import FOLLOW
from podgroup.decide.holding import CHARGE, DRAIN, enlist
from podgroup.decide.keeping import KEEP_IN_SIGHT
from podgroup.decide.mirroring import MIRROR
from podgroup.decide.prebuilt import PREBUILT
from podgroup.decide.queueing import queueing
from podgroup.decide.reporting import REPORT
from podgroup.decide.restoring import RESTORE
from podgroup.decide.retaining import RETAIN
from podgroup.decide.rule import Rule
from podgroup.decide.staffing import STAFF
from podgroup.decide.starting import START, STOP
from podgroup.decide.takeover import TAKE_OVER
from podgroup.events import Decision, SettingsRecorded
from podgroup.fold.common import At
from podgroup.fold.pods import renewable, retirable
from podgroup.fold.relists import synced
from podgroup.ids import GroupID
from podgroup.objects import WATCHED_KINDS
from podgroup.policy import Policy
from podgroup.records import AnyRecord, Concluded, Renewed, Retired
from podgroup.state import Group, World

__all__ = ["FIRST", "RULES", "THEN", "Deciding", "Difference", "decide", "decides_by"]


class Difference(Struct, frozen=True):
    """How deciding again differs from what is recorded: made only now, made only then."""

    only_now: tuple[Decision, ...] = ()
    only_then: tuple[Decision, ...] = ()
    said_now: tuple[AnyRecord, ...] = ()
    said_then: tuple[AnyRecord, ...] = ()


_NONE = Difference()

FIRST: tuple[Rule, ...] = (
    DISOWN,
    KEEP_IN_SIGHT,
    FAIL,
    LEAVE,
    DISSOLVE,
    FINISH,
    RELEASE,
    PREBUILT,
    RESTORE,
    COMPOSE,
    STAFF,
    FOLLOW,
    TAKE_OVER,
    EXPIRE,
    DRAIN,
    STOP,
    RETAIN,
    CHARGE,
)
"""Rules on a group before quota admission, in order."""
THEN: tuple[Rule, ...] = (BEGIN, START, MIRROR, SWEEP, CHECK, EXPLAIN, REPORT)
"""Rules on a group after quota admission, in order."""

RULES = 2
"""Version of the rules: it grows when they would decide otherwise on a log than before."""


def decides_by(mode: str, policy: Policy, gatelog: str) -> SettingsRecorded:
    """Return what a log has to say once these rules decide in it; `gatelog` is its version."""
    return SettingsRecorded(
        mode=mode, policy=policy, kinds=WATCHED_KINDS, gatelog=gatelog, rules=RULES
    )


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
        world.touched.update(dict.fromkeys(world.touched, EVERYTHING))
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
        others = (g for g in sorted(world.groups) if g not in looked_at)
        world.touched.update(dict.fromkeys(others, EVERYTHING))
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
    for changed in world.touched.values():
        if changed:
            return True
    quotas = world.quotas
    return bool(world.meta.untold or world.unsaid or quotas.news or quotas.objects)


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
            known = identity in world.quotas.waiting and identity not in world.quotas.news
            _guarded(d, group, enlist)
            if known and identity in world.quotas.waiting:
                world.quotas.news.pop(identity, None)  # it waits as it did before the start


def _look(d: Deciding) -> dict[GroupID, int]:
    """Run the rules on the groups that are touched and those they lead to; return all of them."""
    world = d.world
    looked_at: dict[GroupID, int] = {}
    while True:
        batch = {g: changed for g, changed in world.touched.items() if g in world.groups}
        world.touched.clear()
        for identity, changed in batch.items():
            looked_at[identity] = looked_at.get(identity, 0) | changed
        for identity, changed in batch.items():
            if changed:
                _run(d, world.groups[identity], changed, first=True)
        if world.mode == "builtin":
            admit_pending(d)
        world.quotas.told()
        evicted = [g for g in world.touched if _needs_another_look(world, g)]
        for identity, changed in world.touched.items():
            if identity in world.groups:
                looked_at[identity] = looked_at.get(identity, 0) | changed
        world.touched.clear()
        if not evicted:
            break
        world.touched.update(dict.fromkeys(evicted, EVERYTHING))
    for identity, changed in looked_at.items():
        if changed and identity in world.groups:
            _run(d, world.groups[identity], changed, first=False)
    world.touched.clear()
    return looked_at


def _needs_another_look(world: World, identity: GroupID) -> bool:
    group = world.groups.get(identity)
    if group is None or group.parked or group.finish is not None:
        return False
    return group.evicted is not None and group.holding is not None


Plan = tuple[tuple[int, Callable[[Deciding, Group], None]], ...]
_PLANS: dict[tuple[bool, str, bool, int], Plan] = {}
"""Whether first, mode, whether parked, what changed -> the rules that are due, by their place."""


def _plan(first: bool, mode: str, parked: bool, changed: int) -> Plan:
    plan = _PLANS[first, mode, parked, changed] = tuple(
        (place, rule.run)
        for place, rule in enumerate(FIRST if first else THEN)
        if rule.due(changed) and rule.mode in ("", mode) and (rule.parked or not parked)
    )
    return plan


def _run(d: Deciding, group: Group, changed: int, *, first: bool) -> None:
    """Run the rules that are due; what one concludes is due for all that come after it.

    One that they fail on stops in the open; all others go on.
    """
    mode, parked = d.world.mode, bool(group.parked)
    if parked:
        d.world.quotas.dequeue(group.id)
    plan = _PLANS.get((first, mode, parked, changed)) or _plan(first, mode, parked, changed)
    d.concluded = False
    try:
        for place, run in plan:
            run(d, group)
            if d.concluded and changed != EVERYTHING:
                for later, other in _plan(first, mode, parked, EVERYTHING):
                    if later > place:
                        other(d, group)
                return
    except Exception as error:
        _stop(d, group, error)


def _stop(d: Deciding, group: Group, error: Exception) -> None:
    """Stop a group that the rules fail on, in the open."""
    if not group.parked:
        d.park(group, error)
    # What cannot even be explained is parked all the same: a projector that fails here would fail
    # again at each start, and all other groups with it.
    with suppress(Exception):
        explain(d, group)


def _guarded(d: Deciding, group: Group, work: Callable[[Deciding, Group], None]) -> None:
    """Do something with a group that may fail for it alone."""
    try:
        work(d, group)
    except Exception as error:
        _stop(d, group, error)
