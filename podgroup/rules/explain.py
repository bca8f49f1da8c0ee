"""The state of a group and why it waits, in words: the columns and intervals people query.

States, and which state may follow which, are the table in `model.lifecycle`. Where a state would
follow that cannot, the group is parked in its present state.

A wait is an interval with one reason and one message. Wording is stable: it names what is missing,
never how many exist so far, so that a group of a thousand pods has one reason, not a thousand.

A refusal of our writes by the API server comes first in every state, with everything else after it:
no other wait ends before the refusal does.

Invariant: a group that is admitted, or is over, waits for nothing.
"""

from podgroup.log.events import Decision
from podgroup.log.records import Explained
from podgroup.model.commands import EmitEvent, KubeEvent
from podgroup.model.lifecycle import IllegalTransition, may_become, next_states
from podgroup.model.names import (
    MANAGED_LABEL,
    NOT_ADMITTED_CHECKS,
    PENDING_EVALUATION,
    WAITING_FOR_REPLACEMENT_PODS,
)
from podgroup.model.reasons import (
    LARGER_THAN_ADMITTED,
    PARKED,
    PLAIN,
    SCALE_UP_PENDING,
    UNMANAGED,
    WAITING_FOR_PODS,
    blocks,
    effect_of,
    unreserved,
)
from podgroup.model.topology import placed_at
from podgroup.model.wording import quantity
from podgroup.rules.helpers.checks import holds, unchecked
from podgroup.rules.helpers.context import Conclusions, RuleContext, pod_ref
from podgroup.rules.helpers.places import idle
from podgroup.rules.helpers.plainly import kueue_plainly
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.rules.helpers.wording import growth, workload_refused, write_refused
from podgroup.state.asked import claims_differ
from podgroup.state.changes import ALL_RELEASED, FIRST_RUNS, WINDS_UP
from podgroup.state.facts import beyond_admission, grows, larger_claims
from podgroup.state.group import Group
from podgroup.state.members import Flag


def explain(ctx: RuleContext, group: Group) -> Conclusions:
    """Bring state, reason and the current wait up to date; record what changed.

    Raises `IllegalTransition` if the next state of a group that is not parked yet cannot follow.
    """
    wanted, wait = _reason(ctx, group), group.explained.wait
    state = _state(ctx, group, wanted is not None and blocks(wanted[0]))
    if not may_become(group.explained.state, state):
        if not group.parked:
            raise IllegalTransition(_impossible(ctx, group, state))
        state = group.explained.state
    reason, message = _why(ctx, group, wanted)
    begins = wanted is not None and (wait is None or (wait.reason, wait.message) != wanted)
    over = wanted is None and wait is not None
    if not (begins or over) and (state, reason, message) == (
        group.explained.state,
        group.explained.reason,
        group.explained.message,
    ):
        return ()
    known = (wanted if begins else None) or (group.explained.reason, group.explained.message)
    effect = effect_of(reason) if reason else PLAIN
    explained = Explained(
        group.id,
        state if state != group.explained.state else None,
        wanted[0] if begins and wanted else "" if over else None,
        wanted[1] if begins and wanted else "",
        begins and wanted is not None and blocks(wanted[0]),
        reason if reason != known[0] else None,
        message if message != known[1] else None,
        effect if begins or reason != known[0] else None,
    )
    if effect.larger and (reason, message) != known:
        return (explained, *_warned(ctx, group, reason, message))
    return (explained,)


def _warned(ctx: RuleContext, group: Group, reason: str, message: str) -> list[Decision]:
    """Warn of usage beyond the admission, on the first of the pods that are larger."""
    event = KubeEvent(type="Warning", reason=reason, message=message)
    return [
        ctx.decision(
            group, "explain", reason, message, EmitEvent(target=pod_ref(pod), events=(event,))
        )
        for pod in map(ctx.pod, ctx.members(group).listed(Flag.LARGER)[:1])
    ]


def _impossible(ctx: RuleContext, group: Group, state: str) -> str:
    """Say which arrow was wanted, and what speaks for it."""
    facts = {
        "is composed": group.composition.done,
        "holds quota": group.quota.holding is not None,
        "is evicted": group.requeueing.evicted is not None,
        "has ended": group.ending.finish is not None,
        "has a Workload": group.mirror.workload is not None,
    }
    known = ", ".join(fact for fact, holds in facts.items() if holds) or "is being composed"
    return (
        f"a group that is {group.explained.state} cannot become {state}, only "
        f"{' or '.join(next_states(group.explained.state)) or 'nothing'}; as known now it {known}, "
        f"with {len(ctx.members(group))} pods"
    )


def _state(ctx: RuleContext, group: Group, blocked: bool) -> str:
    members = ctx.members(group)
    if group.ending.finish is not None:
        held = members.count(Flag.HELD)
        workload = group.mirror.workload
        done = not held and (workload is None or group.ending.finish.written)
        return "Finished" if done else "Finishing"
    if group.requeueing.evicted is not None and (
        group.quota.holding is not None or group.composition.short is not None
    ):
        return "Evicted"
    if group.quota.holding is not None and holds(group):
        return "Running" if members.count(Flag.RUNNING) else "Admitted"
    if blocked:
        return "Blocked"
    if group.requeueing.evicted is not None and not group.requeueing.requeued:
        return "Evicted"
    return "Queued" if group.composition.done else "Composing"


def _why(ctx: RuleContext, group: Group, waits_for: tuple[str, str] | None) -> tuple[str, str]:
    if waits_for is not None:
        return waits_for
    settled, refused = _settled(ctx, group), write_refused(ctx, group)
    if refused is None:
        return settled
    return refused[0], "; ".join(text for text in (refused[1], settled[1]) if text)


def _settled(ctx: RuleContext, group: Group) -> tuple[str, str]:
    """Return reason and message of a group that does not wait, but for refused writes."""
    if group.ending.finish is not None:
        return group.ending.finish.reason, group.ending.finish.message
    if group.requeueing.evicted is not None:
        return group.requeueing.evicted.reason, group.requeueing.evicted.message
    if group.quota.holding is not None and holds(group):
        admission = group.quota.holding.admission
        where = placed_at(given.place for given in admission.assignments)
        by = f"admitted by ClusterQueue {admission.cluster_queue}{where}"
        if (refused := workload_refused(group)) is not None:
            return refused[0], f"{by}; {refused[1]}"
        if ctx.members(group).count(Flag.HIDDEN):
            return UNMANAGED, f"{by}; {_unmanaged(ctx, group)}"
        if said := idle(ctx, group):
            return WAITING_FOR_REPLACEMENT_PODS, said
        if grows(group):
            return SCALE_UP_PENDING, f"{by}; {growth(group)}"
        more, differ = _beyond(ctx, group), claims_differ(ctx.world, group)
        by = f"{by}; {differ}" if differ else by
        if more:
            return LARGER_THAN_ADMITTED, f"{by}; {more}"
        return "", by
    return "", ""


def _reason(ctx: RuleContext, group: Group) -> tuple[str, str] | None:
    if group.ending.finish is not None or not len(ctx.members(group)):
        return None
    if group.parked:
        return PARKED, group.parked
    if holds(group):
        return None
    refused = write_refused(ctx, group)
    if refused is None:
        return _waits_for(ctx, group)
    beside = _waits_for(ctx, group)
    also = "" if beside[0] == refused[0] else f"; beside that: {': '.join(beside)}"
    return refused[0], f"{refused[1]}{also}"


def _waits_for(ctx: RuleContext, group: Group) -> tuple[str, str]:
    """Return what a group waits for, but for refused writes."""
    if group.quota.holding is not None and group.requeueing.evicted is None:
        by = group.quota.holding.admission.cluster_queue
        return (
            NOT_ADMITTED_CHECKS,
            f"quota is reserved in ClusterQueue {by}; {unchecked(ctx.world, group)}",
        )
    if group.quota.reason[0]:
        reason, message = group.quota.reason
        differ = claims_differ(ctx.world, group)
        return reason, f"{message}; {differ}" if differ else message
    if ctx.world.mode == "kueue" and group.composition.done:
        return _reason_of_kueue(group)
    if group.composition.done:
        return PENDING_EVALUATION, "waiting to be looked at by quota admission"
    return WAITING_FOR_PODS, "waiting for the pods of the group"


def _unmanaged(ctx: RuleContext, group: Group) -> str:
    """Say that pods run without their label, and how often it was put back at most."""
    often = max(ctx.members(group).kept, default=0)
    again = f" (put back {often} times, and taken off again)" if often > 1 else ""
    return (
        f"label {MANAGED_LABEL} was taken off pods that run{again}; it is put back, and they are "
        "charged until they have ended"
    )


def _beyond(ctx: RuleContext, group: Group) -> str:
    """Say how much a group takes above its admission, since pods or claims are larger."""
    holding, claims = group.quota.holding, ctx.world.sharing.claims
    if holding is None or ctx.world.mode == "kueue":
        return ""
    if Flag.LARGER not in ctx.members(group).sets and group.id not in claims:
        return ""
    of_pods = beyond_admission(ctx.world, group, holding.admission)
    of_claims = larger_claims(ctx.world, group, holding.admission)
    more = {
        key: of_pods.get(key, 0) + of_claims.get(key, 0)
        for key in of_pods.keys() | of_claims.keys()
    }
    amounts = ", ".join(
        f"{quantity(resource, more[flavor, resource])} {resource} of {flavor}"
        for flavor, resource in sorted(more)
    )
    return f"it takes {amounts} more than it was given, which is charged too" if more else ""


def _reason_of_kueue(group: Group) -> tuple[str, str]:
    for condition in group.mirror.workload.conditions if group.mirror.workload is not None else ():
        if condition.type == "QuotaReserved" and condition.status == "False":
            return condition.reason, kueue_plainly(condition.message)
        if condition.type == "Admitted" and condition.status == "False":
            if not unreserved(condition.reason):
                return condition.reason, condition.message
    return PENDING_EVALUATION, "waiting for Kueue"


RULE = Rule(
    name="explain",
    run=explain,
    reads=FIRST_RUNS | ALL_RELEASED | WINDS_UP,
    parked=True,
    docs=(
        RuleDoc(
            "explain",
            "state or reason of the group changed",
            "records state, reason, message and wait; warns of a resize beyond the admission",
        ),
    ),
)
