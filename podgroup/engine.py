"""The engine: one message of the log in, a changed world and a journal out.

The projector runs the engine live, re-deciding runs it on an old log, and tests run it on recorded
streams: fold every event of the message in order, then decide once. Deciding per message and not
per database transaction makes decisions independent of how messages were batched into
transactions, so they can be made again and must come out the same.

After each message run, for every group it touched (in order of first touch), the rules before
`admit` that are due; then in builtin mode admission, head by head, and where it evicts groups the
first rules again for them, until nothing changes; then the rules after `admit`. Each conclusion
takes effect before the rule goes on (`applying`).

Nothing is decided before every kind was listed completely; recorded decisions are applied whatever
this release would wait for. A rule that fails for a group (a bug of ours, or a value not thought
of) parks that group alone. No pod of a parked group starts, but its end counts: rules for parked
groups run on (`Rule.parked`), each guarded from the others, so its quota comes back.

Invariant: the journal has all that a replay (`folding`) needs besides the log.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from podgroup.applying import Applier
from podgroup.fold.deriving import apply_derived
from podgroup.fold.lives import renewable, retirable
from podgroup.fold.relists import synced
from podgroup.folding import (
    PendingWrites,
    Stored,
    drain_journal,
    due_timers,
    fold_message,
    load_world,
    new_world,
    read_back,
    rejoin_frames,
)
from podgroup.log.events import Batch, Decision
from podgroup.log.journal import At
from podgroup.log.records import Concluded, Renewed, Retired
from podgroup.model.ids import GroupID
from podgroup.model.policy import Policy
from podgroup.redeciding import ComparingApplier, Difference
from podgroup.rules import RULES
from podgroup.rules.admit import RULE as ADMIT
from podgroup.rules.admit import prepare
from podgroup.rules.charge import charge_unadmitted
from podgroup.rules.enqueue import enqueue
from podgroup.rules.explain import explain
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.rule import ClusterRule, Rule
from podgroup.state.changes import EVERYTHING
from podgroup.state.derived import Waits
from podgroup.state.group import Group
from podgroup.state.world import World

__all__ = [
    "Difference",
    "PendingWrites",
    "Stored",
    "Then",
    "decide",
    "drain_journal",
    "due_timers",
    "load_world",
    "new_world",
    "read_back",
    "rejoin_frames",
    "step",
    "step_by",
]


_NONE = Difference()


class Then(NamedTuple):
    """The recorded conclusions of a position: decisions by id, and records (None: there are none).

    Today's rules decide by the settings in the log, or by `by`; the fold goes by the log's settings
    either way.
    """

    recorded: Mapping[str, Decision]
    concluded: Concluded | None = None
    by: Policy | None = None


def step(
    world: World,
    position: int,
    at: datetime,
    batch: Batch,
    then: Then | None = None,
) -> Difference:
    """Fold one message at `position` and decide.

    With `then` the recorded conclusions are applied instead, and the difference of today's rules is
    returned.
    """
    here = _folded(world, position, at, batch)
    if then is None:
        difference = decide(world, here)
    else:
        said, world.policy = world.policy, then.by or world.policy
        if then.by is not None:  # the fold works out what is due, by the policy of the log
            world.evaluate_all = True
        difference = decide(world, here, then.recorded, then.concluded)
        world.policy = said
    world.meta.at = at
    return difference


def step_by(
    world: World,
    position: int,
    at: datetime,
    batch: Batch,
    applies: Callable[[World, At], Applier],
    *,
    recorded: bool = False,
) -> None:
    """Fold one message and decide; the applier that `applies` makes applies the conclusions.

    `recorded`: the applier has recorded conclusions to apply, whether a rule is due or not.
    """
    here = _folded(world, position, at, batch)
    _conclude(world, here, applies(world, here), recorded=recorded)
    world.meta.at = at


def _folded(world: World, position: int, at: datetime, batch: Batch) -> At:
    """Fold one message; after a start the groups that wait are worked out first."""
    if world.loaded and world.mode == "builtin":
        recall_waiting(world)
    return fold_message(world, position, at, batch)


def recall_waiting(world: World) -> None:
    """Work out, before the next message, which groups wait: a start does not remember it."""
    for derived in prepare(world):
        apply_derived(world, derived)


def decide(
    world: World,
    here: At,
    recorded: Mapping[str, Decision] | None = None,
    concluded: Concluded | None = None,
) -> Difference:
    """Decide on everything the last message touched; conclusions go to the journal.

    With `recorded` these decisions and the records in `concluded` are applied instead, and the
    difference is returned.
    """
    if recorded is None:
        _conclude(world, here)
        return _NONE
    comparing = ComparingApplier(world, here, recorded, concluded)
    there = bool(recorded or (concluded and concluded.records))
    if not _conclude(world, here, comparing, recorded=there):
        return _NONE
    world.dirty_groups.clear()
    difference = comparing.difference()
    if difference == _NONE:
        return _NONE
    world.evaluate_all = True
    return difference


def _conclude(
    world: World, here: At, applier: Applier | None = None, *, recorded: bool = False
) -> bool:
    """Run the rules on everything that the last message touched; tell whether any was due."""
    loaded, thorough = world.loaded, world.loaded or world.evaluate_all
    if not recorded:
        due = thorough or any(world.dirty_groups.values()) or _last_due(world) or ADMIT.due(world)
        if not due:
            world.dirty_groups.clear()  # most messages of a trickle end here
            return False
        if not synced(world):
            return False
    if thorough:
        world.dirty_groups.update(dict.fromkeys(world.dirty_groups, EVERYTHING))
    world.loaded = False
    applier = applier or Applier(world, here)
    if loaded:
        _enlist_all(world, applier)
    for identity in list(world.dirty_groups):
        group = world.groups.get(identity)
        if group is not None and group.ending.finish is not None and renewable(world, group):
            applier.apply(Renewed(identity))
    looked_at = _decide_dirty(world, applier)
    if loaded:
        # After a start every group is looked at once, in case the rules are newer than the state.
        # What the message touched comes first, as if there had been no start.
        others = (g for g in sorted(world.groups) if g not in looked_at)
        world.dirty_groups.update(dict.fromkeys(others, EVERYTHING))
        applier.ctx.here = At(here.position, _before_timers(world, here))
        looked_at.update(_decide_dirty(world, applier))
        applier.ctx.here = here
    if _last_due(world):
        _run_last(world, applier)
    world.dirty_groups.clear()
    for identity in looked_at:
        group = world.groups.get(identity)
        if group is not None and retirable(world, group):
            applier.apply(Retired(identity))
    applier.close()
    return True


def _run_last(world: World, applier: Applier) -> None:
    """Run the rules that look at no single group."""
    for rule in _LAST:
        if rule.due(world):
            applier.run(rule.run(applier.ctx))


def _last_due(world: World) -> bool:
    """Tell whether a rule that looks at no single group may be due."""
    return bool(world.quotas.moved or world.unannounced or world.meta.unreported)


def _before_timers(world: World, here: At) -> datetime:
    """Return the time as of which a start looks at groups that the message did not touch.

    It is before all timers: a time is over only by a timer in the log, so that a replay without
    this start agrees.
    """
    due = min((timer.due_at for timer in world.meta.timers.values()), default=here.at)
    return min(world.meta.at or here.at, due - timedelta(microseconds=1))


def _enlist_all(world: World, applier: Applier) -> None:
    """Work out which groups wait, and which are charged without admission: neither is stored."""
    if world.mode != "builtin":
        return
    quotas = world.quotas
    news = quotas.news, quotas.charged
    for identity in sorted(world.groups):
        group = world.groups[identity]
        if identity not in world.dirty_groups and group.parked:
            _guarded(applier, group, charge_unadmitted)
        elif identity not in world.dirty_groups:
            known = identity in quotas.waiting and not any(identity in one for one in news)
            _guarded(applier, group, _enlist)
            if known and identity in quotas.waiting:
                for one in news:
                    one.pop(identity, None)  # the group waits as before the start


def _enlist(ctx: RuleContext, group: Group) -> Conclusions:
    yield from charge_unadmitted(ctx, group)
    yield from enqueue(ctx, group)


def _decide_dirty(world: World, applier: Applier) -> dict[GroupID, int]:
    """Run the rules on touched groups, and on groups that these touch; return all groups."""
    groups, dirty = world.groups, world.dirty_groups
    looked_at: dict[GroupID, int] = {}
    while True:
        batch: list[tuple[Group, int, bool]] = []
        for identity, changed in dirty.items():
            group = groups.get(identity)
            if group is not None:
                batch.append((group, changed, group.quota.holding is not None))
                looked_at[identity] = looked_at.get(identity, 0) | changed
        dirty.clear()
        for group, changed, _ in batch:
            if changed:
                _run(applier, group, changed, first=True)
        if ADMIT.due(world):
            applier.run(ADMIT.run(applier.ctx))
        world.quotas.reported()
        if not dirty:
            break
        held = {group.id for group, _, holds in batch if holds}
        again = [g for g in dirty if _needs_another_look(world, g, g in held)]
        for identity, changed in dirty.items():
            if identity in groups:
                looked_at[identity] = looked_at.get(identity, 0) | changed
        dirty.clear()
        if not again:
            break
        dirty.update(dict.fromkeys(again, EVERYTHING))
    for identity, changed in looked_at.items():
        if changed and identity in groups:
            _run(applier, groups[identity], changed, first=False)
    dirty.clear()
    return looked_at


def _needs_another_look(world: World, identity: GroupID, held: bool) -> bool:
    """Tell whether a group was evicted, or gave back quota that it `held`: earlier rules react."""
    group = world.groups.get(identity)
    if group is None or group.ending.finish is not None:
        return False
    return held if group.quota.holding is None else group.requeueing.evicted is not None


def _once_admitted(rule: Rule) -> Rule:
    """Return a rule that runs after quota admission: on groups that were admitted just now."""

    def run(ctx: RuleContext, group: Group) -> Conclusions:
        holding = group.quota.holding
        now = holding is not None and holding.seq == ctx.here.position
        return rule.run(ctx, group) if now else ()

    return replace(rule, run=run, reads=0)


_ADMISSION = RULES.index(ADMIT)
_FIRST = [rule for rule in RULES[:_ADMISSION] if isinstance(rule, Rule)]
_THEN = [_once_admitted(rule) for rule in _FIRST if rule.once_admitted]
_THEN += [rule for rule in RULES[_ADMISSION:] if isinstance(rule, Rule)]
_LAST = [rule for rule in RULES[_ADMISSION + 1 :] if isinstance(rule, ClusterRule)]
Run = Callable[[RuleContext, Group], Conclusions]


class _Plans(dict[tuple[bool, str, bool, int], tuple[Run, ...]]):
    """(before admission, mode, parked, what changed) -> the rules that are due, each once."""

    def __missing__(self, key: tuple[bool, str, bool, int]) -> tuple[Run, ...]:
        first, mode, parked, changed = key
        plan = self[key] = tuple(
            rule.run
            for rule in (_FIRST if first else _THEN)
            if rule.due(changed) and rule.mode in ("", mode) and (rule.parked or not parked)
        )
        return plan


_PLANS = _Plans()


def _run(applier: Applier, group: Group, changed: int, *, first: bool) -> None:
    """Run the rules that are due for a group; after a conclusion all later rules are due.

    A group for which a rule fails is parked, and stays counted; all other groups go on.
    """
    if group.parked:
        _wind_up(applier, group, first=first)
        return
    plan = _PLANS[first, applier.world.mode, False, changed]
    try:
        if changed == EVERYTHING:
            _ask(applier, group, plan)
            return
        applier.concluded = False
        for run in plan:
            for conclusion in run(applier.ctx, group):
                applier.apply(conclusion)
            if applier.concluded:
                every = _PLANS[first, applier.world.mode, False, EVERYTHING]
                _ask(applier, group, every[every.index(run) + 1 :])
                return
    except Exception as error:
        _stop(applier, group, error)
        _wind_up(applier, group, first=first)


def _wind_up(applier: Applier, group: Group, *, first: bool) -> None:
    """Run the rules for a parked group that end it; a rule that fails does not stop the others."""
    applier.apply(Waits(group.id, False))
    for run in _PLANS[first, applier.world.mode, True, EVERYTHING]:
        with suppress(Exception):
            applier.run(run(applier.ctx, group))


def _ask(applier: Applier, group: Group, rules: tuple[Run, ...]) -> None:
    """Run rules one after the other: this loop is a third of a look at all groups."""
    ctx, apply = applier.ctx, applier.apply
    for run in rules:
        for conclusion in run(ctx, group):
            apply(conclusion)


def _stop(applier: Applier, group: Group, error: Exception) -> None:
    """Park a group for which rules fail."""
    if not group.parked:
        applier.apply(applier.ctx.parked(group, error))
    # A group that cannot even be explained is parked all the same: a projector that fails here
    # would fail again at each start, and all other groups with it.
    with suppress(Exception):
        applier.run(explain(applier.ctx, group))


def _guarded(applier: Applier, group: Group, work: Run) -> None:
    """Run a rule for a group, and park the group if the rule fails."""
    try:
        applier.run(work(applier.ctx, group))
    except Exception as error:
        _stop(applier, group, error)
