"""Rule: which waiting groups fit the quota and start now, and which are preempted for them.

Theory. Changes of holders and waiting groups are entered (`Entered`), `podgroup.admission` decides,
as docs/queues.md describes, and here its verdicts become decisions: admissions, evictions of
victims, and reasons why others wait. A group that was not tried reports the reason of an equal
group that did not fit, or that another group is before it. A reason whose amounts alone changed is
not reported again: free quota changes all the time, and each report costs writes.

Invariant: the sum of all admissions never exceeds what quota, borrowing and lending limits allow.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from podgroup.admission import Scheduler
from podgroup.admission.cache.ledger import Ledger
from podgroup.admission.cache.reserved_starts import NEVER
from podgroup.admission.cache.scheduler_cache import SchedulerCache
from podgroup.admission.holding import grown_id
from podgroup.admission.verdicts import AdmissionVerdict, PreemptionVerdict, Verdicts
from podgroup.admission.wording import ASSUMED
from podgroup.log.events import Decision
from podgroup.log.records import StartsTimed, Used
from podgroup.model.commands import AdmitGroup, ResizeGroup
from podgroup.model.ids import GroupID
from podgroup.model.names import PENDING_ON_HOLD
from podgroup.model.objects import ClusterQueueView
from podgroup.model.reasons import CLUSTER_QUEUE_INACTIVE, effect_of
from podgroup.model.standing import COUNTS_TIMER, STARTS_TIMER
from podgroup.model.topology import placed_at
from podgroup.model.wording import joined, kueues
from podgroup.rules.helpers.activity import without_root
from podgroup.rules.helpers.checks import required_checks
from podgroup.rules.helpers.context import Concluding, Conclusions, RuleContext, group_ref
from podgroup.rules.helpers.eligible import Reason, ineligible, may_wait
from podgroup.rules.helpers.plainly import plainly
from podgroup.rules.helpers.rule import BUILTIN, ClusterRule, RuleDoc
from podgroup.rules.helpers.shortages import record_shortage
from podgroup.rules.helpers.unadmitted import ran_unadmitted
from podgroup.rules.helpers.wording import because_of, owner_wants
from podgroup.rules.postpone import in_words
from podgroup.rules.preempt import DOC as PREEMPT
from podgroup.rules.preempt import preempt
from podgroup.rules.relocate import DOC as RELOCATE
from podgroup.rules.relocate import relocate
from podgroup.state import asked
from podgroup.state.derived import (
    AnyDerived,
    Charged,
    Corrected,
    Entered,
    Forgotten,
    Reevaluated,
    Waits,
)
from podgroup.state.devices import counting
from podgroup.state.facts import cluster_queue_of, grows, pods_of
from podgroup.state.group import Group
from podgroup.state.world import World

_AMOUNT = re.compile(
    r"\S+ more needed|allows to fit only \d+ out of|doesn't allow to fit any of|\d+(?=/\d+ slice)|"
    r"\. Total nodes: \d+; excluded: [^;]*"
)


def prepare(world: World) -> Iterable[AnyDerived]:
    """Enter the groups that wait, before the next message is folded, where none was entered yet."""
    if world.quotas.deciding is not None:
        return
    for identity in sorted(world.groups):
        group = world.groups[identity]
        if (charge := ran_unadmitted(world, group)) is not None:
            yield Charged(identity, charge)
        waits = may_wait(world, group) or grows(group)
        if waits and not group.parked and ineligible(world, group) is None:
            yield Waits(identity, True)
    yield Entered()


def admit(ctx: RuleContext) -> Conclusions:
    """Have admission decide, and conclude its verdicts, while there are changes to enter."""
    quotas = ctx.world.quotas
    without_verdict: set[str] = set()
    going_on = False
    now = ctx.here.at.timestamp()
    while going_on or _news(ctx.world):
        without_verdict.update(quotas.news, quotas.charged)
        yield Entered(now)
        for identity, error in quotas.entered.ill.items():
            yield from _park(ctx, identity, error)
        scheduler, cache = quotas.scheduler, quotas.scheduler.cache
        try:
            verdicts = scheduler.settle(now, ctx.here.position)
        except Exception as error:  # a bug of ours stops the group being looked at, no other
            if not (yield from _park(ctx, scheduler.looking_at, error)):
                raise
            yield Forgotten()
            continue
        without_verdict.difference_update(grown_id(head.id) for head in verdicts.heads)
        yield from _carry_out(ctx, scheduler, verdicts)
        going_on = verdicts.changing and cache.configuration.as_kueue
        if not going_on:
            judged = cache.queues.judged
            without_verdict.update(map(grown_id, judged))
            judged.clear()
    if quotas.deciding is not None:
        yield from _time_starts(ctx, quotas.scheduler.cache)
    for identity in sorted(without_verdict):  # an order that depends on no hash
        if identity in quotas.waiting:
            yield from _explain_wait(ctx, identity)


def _park(ctx: RuleContext, identity: str, error: Exception) -> Concluding[bool]:
    """Park the group for which admission failed; tell whether there was a group to park."""
    group = ctx.world.groups.get(GroupID(grown_id(identity)))
    if group is None or group.parked:
        return False
    yield ctx.parked(group, error)
    yield Reevaluated(group.id)
    return True


def _carry_out(ctx: RuleContext, scheduler: Scheduler, verdicts: Verdicts) -> Conclusions:
    """Make decisions of the verdicts, head by head."""
    admitted = {one.id: one for one in verdicts.admitted}
    for failure in verdicts.node_failures:
        yield from relocate(ctx, ctx.world.groups[GroupID(failure.id)], failure)
    preempting: dict[str, list[PreemptionVerdict]] = {}
    for verdict in verdicts.preempted:
        preempting.setdefault(verdict.by_id, []).append(verdict)
    for head in verdicts.heads:
        group = ctx.world.groups[GroupID(grown_id(head.id))]
        if head.status == ASSUMED:
            more = head.id != group.id
            yield (_enlarge if more else _admit)(ctx, group, admitted[head.id])
            right = group.quota.holding is not None
        else:
            why = head.reason, head.message
            victims = len(head.targets) if effect_of(head.reason).yields else 0
            said = plainly(ctx.world, group, why, head.shortages, victims)
            if head.until:
                last = ctx.world.groups.get(GroupID(head.waits_for))
                words = in_words(ctx, group, last, len(head.targets), asked.moment(head.until))
                said = said[0], joined(words, said[1])
            yield from _refuse(ctx, group, said)
            yield from record_shortage(ctx, group, head.cluster_queue, head.shortages)
            right = True
            for verdict in preempting.pop(head.id, ()):
                victim = ctx.world.groups[GroupID(verdict.id)]
                yield preempt(ctx, scheduler, group, victim, verdict)
                if victim.requeueing.evicted is None:
                    yield Corrected(victim.id)
                    right = False
        if not right:  # a recorded decision was applied instead
            yield Corrected(group.id)
    cache = scheduler.cache
    for identity in sorted(cache.claims.changed):
        yield from _record_kept(ctx, identity, cache)
    cache.claims.changed.clear()
    for identity in sorted(cache.starts.changed):
        yield from _record_start(ctx, identity, cache)
    cache.starts.changed.clear()
    ledger = cache.reservations.ledger
    if ledger is not None:
        for key in sorted(ledger.marked):
            yield from _record_use(ctx, ledger, key)
        ledger.marked.clear()


def _record_kept(ctx: RuleContext, identity: str, cache: SchedulerCache) -> Conclusions:
    """Conclude that quota is kept for a group, or no longer; the record outlives a restart."""
    group = ctx.world.groups.get(GroupID(grown_id(identity)))
    if group is None or (group.quota.holding is not None and not grows(group)):
        return
    kept = cache.kept_for(identity)
    record = asked.kept_record(group.id, kept)
    if group.quota.kept != (None if kept is None else record):
        yield record


def _record_start(ctx: RuleContext, identity: str, cache: SchedulerCache) -> Conclusions:
    """Conclude that a start is reserved for a group, or no longer; it outlives a restart."""
    group = ctx.world.groups.get(GroupID(identity))
    if group is None or group.quota.holding is not None:
        return
    start, known = cache.starts.by_id.get(identity), group.quota.start
    record = asked.start_record(group.id, start)
    if (None if known is None else known.start) != (None if start is None else record):
        yield record


def _time_starts(ctx: RuleContext, cache: SchedulerCache) -> Conclusions:
    """Set the timer for the time when the next group may have waited too long."""
    due, timer = cache.starts.due_at, ctx.world.meta.timers.get(STARTS_TIMER)
    at = asked.moment(due) if cache.queues.waiting and due != NEVER else None
    if at != (None if timer is None else timer.due_at):
        yield StartsTimed("", at)


def _record_use(ctx: RuleContext, ledger: Ledger, key: tuple[str, str]) -> Conclusions:
    """Conclude the recent use of a LocalQueue; the record outlives a restart."""
    balance = ledger.balance(key)
    if balance is None:
        yield Used("", "/".join(key))
        return
    consumed = tuple((name, str(amount)) for name, amount in sorted(balance.consumed.items()))
    yield Used("", "/".join(key), consumed, asked.moment(balance.at))


def _explain_wait(ctx: RuleContext, identity: str) -> Conclusions:
    """Say why a changed group waits that admission did not try."""
    group = ctx.world.groups.get(GroupID(identity))
    if group is None:
        return
    queue = cluster_queue_of(ctx.world, group)
    why = _inactive(ctx, queue) if queue is not None else None
    if queue is not None and why is not None:
        yield from record_shortage(ctx, group)
    elif queue is not None and not group.quota.effect.tried:
        manager, waits = ctx.world.quotas.scheduler.cache.queues, asked.waiter_id(group)
        why, short = manager.answer(waits), manager.short_of(waits)
        why = why and plainly(ctx.world, group, why, short)
        yield from record_shortage(ctx, group, queue.name, short)
    if why is not None:
        yield from _refuse(ctx, group, why)


def _inactive(ctx: RuleContext, queue: ClusterQueueView) -> Reason | None:
    """Say why a ClusterQueue admits nothing; None if it admits."""
    if queue.stop_policy != "None":
        return PENDING_ON_HOLD, because_of(f"ClusterQueue {queue.name} is stopped", queue.because)
    if queue.deleting:
        said = f"ClusterQueue {queue.name} is inactive: it is being deleted"
        return CLUSTER_QUEUE_INACTIVE, said
    if queue.problem:
        return CLUSTER_QUEUE_INACTIVE, f"ClusterQueue {queue.name} is inactive: {queue.problem}"
    for resources in queue.groups:
        for flavor in resources.flavors:
            if flavor.name not in ctx.world.flavors:
                return (
                    CLUSTER_QUEUE_INACTIVE,
                    f"ClusterQueue {queue.name} is inactive: "
                    f"ResourceFlavor {flavor.name} doesn't exist",
                )
    absent, idle = asked.unusable_checks(ctx.world.checks, queue)
    for what, names in (("doesn't exist", absent), ("is not active", idle)):
        if names:
            said = f"ClusterQueue {queue.name} is inactive: AdmissionCheck {names[0]} {what}"
            return CLUSTER_QUEUE_INACTIVE, said
    for _, why in asked.without_places(ctx.world, queue):
        return CLUSTER_QUEUE_INACTIVE, f"ClusterQueue {queue.name} is inactive: {why}"
    rootless = without_root(ctx.world, queue.cohort)
    if rootless is not None:
        said = f"ClusterQueue {queue.name} is inactive: it is below {rootless[1]}"
        return CLUSTER_QUEUE_INACTIVE, said
    return None


@lru_cache(1000)
def _lasting(message: str) -> str:
    """Return Kueue's sentence without its amounts; remembered, as sentences come again."""
    return _AMOUNT.sub("", kueues(message))


def _refuse(ctx: RuleContext, group: Group, why: Reason) -> Conclusions:
    reason, message = group.quota.reason
    if reason != why[0] or _lasting(message) != _lasting(why[1]):
        yield from ctx.pending(group, *why)
        yield Reevaluated(group.id)


def _admit(ctx: RuleContext, group: Group, admission: AdmissionVerdict) -> Decision:
    sets = admission.pod_sets
    amounts = ", ".join(
        f"{pods_of(ctx.world, group, a.name, a.count)} in "
        f"{'/'.join(sorted(set(a.flavors.values()))) or 'no flavor'}"
        for a in sets
    )
    assignments = asked.assignments(sets, asked.shared_of(ctx.world, group))
    checks = required_checks(ctx.world, admission.cluster_queue, assignments) or ()
    waits = f"; waits for admission checks: {', '.join(checks)}" if checks else ""
    first = ctx.members(group).first()
    if first and ctx.pod(first).view.devices and not counting(ctx.world):
        waits += "; devices of its resourceClaims are charged to no quota"
    return ctx.decision(
        group,
        "admit",
        "QuotaReserved",
        f"{_fits(admission)}: {amounts}{placed_at(one.topology for one in sets)}{waits}",
        AdmitGroup(
            target=group_ref(group),
            cluster_queue=admission.cluster_queue,
            assignments=assignments,
            checks=checks,
        ),
    )


def _enlarge(ctx: RuleContext, group: Group, admission: AdmissionVerdict) -> Decision:
    """Enlarge a group by the further pods that their owner wants."""
    given = {one.name: one.count for one in admission.pod_sets}
    counts = {
        name: group.roles[name].count + given.get(name.lower(), 0)
        for name, _ in group.composition.wanted
    }
    where = placed_at(one.topology for one in admission.pod_sets)
    return ctx.decision(
        group,
        "admit",
        "OwnerScaled",
        f"{owner_wants(group, counts)}; what is more {_fits(admission)}{where}",
        ResizeGroup(
            target=group_ref(group),
            counts=counts,
            assignments=asked.grown(group, admission.pod_sets),
        ),
    )


def _fits(admission: AdmissionVerdict) -> str:
    borrowing = ", borrowing from its cohort" if admission.borrowing else ""
    return f"fits the quota of ClusterQueue {admission.cluster_queue}{borrowing}"


def _news(world: World) -> bool:
    """Tell whether there are changes that must be entered now.

    Quota that was given back can be entered when a group asks for some, unless use over time
    counts, places on nodes are known, or queues' counts are due (`count`). So a pod's success, and
    an admission made here, seldom cause a pass: that saves a tenth of a trickle.
    """
    quotas, policy = world.quotas, world.policy
    if world.mode != BUILTIN:
        return False
    if quotas.news or quotas.objects or quotas.overdue:
        return True
    if not quotas.charged:
        return False
    if quotas.waiting or world.nodes or policy.usage_half_life_s >= 0:
        return True
    return bool(policy.status_interval_s) and COUNTS_TIMER not in world.meta.timers


RULE = ClusterRule(
    name="admit",
    run=admit,
    due=_news,
    mode=BUILTIN,
    docs=(RuleDoc("admit", "it fits the quota", "admits it"), PREEMPT, RELOCATE),
)
