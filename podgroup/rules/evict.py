"""Rule: the group was evicted: its running pods are stopped; gated and ended pods stay.

A preempted group has `Policy.preemption_grace_s` to end, whatever grace period its pods have, since
others wait for quota that may be their own. The same limit holds for pods that a user deletes,
before or after the preemption.

Invariant: a stopped group gives its quota back when its pods have ended (`yield_`).
"""

from podgroup.log.events import Decision
from podgroup.model.names import REASON_EVICTED_PREFIX
from podgroup.model.wording import more
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.rule import BUILTIN, Rule, RuleDoc
from podgroup.rules.helpers.stopping import stop_pod
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.pod import Pod


def evict(ctx: RuleContext, group: Group) -> Conclusions:
    """Stop the running pods of an evicted group."""
    evicted = group.requeueing.evicted
    if evicted is None or group.ending.finish is not None or group.mirror.lost:
        return ()
    return _stop_all(ctx, group, REASON_EVICTED_PREFIX + evicted.reason, evicted.message)


def _stop_all(ctx: RuleContext, group: Group, reason: str, message: str) -> Conclusions:
    members, most_s = ctx.members(group), _most_s(ctx, group)
    for uid in members.listed(Flag.STOPPABLE):
        pod = ctx.pod(uid)
        own_s = pod.view.termination_grace_s
        yield _stop(ctx, pod, reason, message, own_s, most_s)
    if not most_s:
        return
    for uid in members.listed(Flag.LONG):
        pod = ctx.pod(uid)
        given_s = pod.view.grace_s or 0
        if members.flags[uid] & Flag.LIVE and given_s > most_s:
            yield _stop(ctx, pod, reason, message, given_s, most_s)


def _most_s(ctx: RuleContext, group: Group) -> int:
    """Return how many seconds pods of an evicted group have to end at most, 0 for their own."""
    evicted = group.requeueing.evicted
    preempted = evicted is not None and evicted.effect.preempts
    return ctx.world.policy.preemption_grace_s if preempted and ctx.world.mode == BUILTIN else 0


def _stop(
    ctx: RuleContext, pod: Pod, reason: str, message: str, own_s: int, most_s: int
) -> Decision:
    if not most_s or own_s <= most_s:
        return stop_pod(ctx, pod, "evict", reason, message)
    said = f"it has {most_s} s to end (queueing.preemption_grace_s), not the {own_s} s of its own"
    return stop_pod(ctx, pod, "evict", reason, more(message, said), most_s)


RULE = Rule(
    name="evict",
    run=evict,
    parked=True,
    docs=(RuleDoc("evict", "the group was evicted", "stops its running pods"),),
)
