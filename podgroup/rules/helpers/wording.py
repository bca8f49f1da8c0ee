"""Sentences of several rules, and refusals of the API server.

Invariant: wording is stable: it names what is missing, never how many exist so far.
"""

from collections.abc import Mapping

from podgroup.model.reasons import WORKLOAD_REFUSED, WORKLOAD_TOO_LARGE, WRITE_REFUSED
from podgroup.rules.helpers.context import RuleContext
from podgroup.state.group import Group
from podgroup.state.members import Flag, Members
from podgroup.state.pod import Pod


def owner_wants(group: Group, counts: Mapping[str, int]) -> str:
    """Say how many pods of each role the owner of a group's pods wants."""
    said = ", ".join(f"{count} of role {name}" for name, count in sorted(counts.items()))
    return f"{group.spec.owner} wants {said}"


def growth(group: Group) -> str:
    """Say how many pods the owner of a group's pods wants, and why the further pods wait."""
    wants = ", ".join(
        f"{count} of role {name} in place of {group.roles[name].count}"
        for name, count in group.composition.wanted
    )
    owner = f"{group.spec.owner_kind} {group.spec.owner_name}"
    waits = group.quota.reason[1] or "to be looked at by quota admission"
    return f"{owner} wants {wants}, and those that are more wait: {waits}"


def refusal(group: Group) -> str:
    """Say that the Workload could not be created, with the API server's answer."""
    return f'the Workload "{group.mirror.name}" could not be created: {group.mirror.refused}'


def workload_refused(group: Group) -> tuple[str, str] | None:
    """Return (reason, message) while the API server refuses to create the Workload, else None."""
    if not group.mirror.refused:
        return None
    return WORKLOAD_TOO_LARGE if group.mirror.too_large else WORKLOAD_REFUSED, refusal(group)


def write_refused(ctx: RuleContext, group: Group) -> tuple[str, str] | None:
    """Return (reason, message) while the API server refuses a write that a group needs, else None.

    In builtin mode a group waits for its Workload only at its end, for the finalizer to come off.
    """
    mirror = group.mirror
    members = ctx.members(group)
    if members.troubled and (found := _first_unwritten(members, group)):
        pod = ctx.pod(found)
        said = ": ".join(pod.refused or ())
        return WRITE_REFUSED, f"the API server refuses a write of pod {pod.view.name}: {said}"
    if mirror.unwritten and (ctx.world.mode == "kueue" or group.ending.finish is not None):
        said = ": ".join(mirror.unwritten)
        return WRITE_REFUSED, f"the API server refuses a write of Workload {mirror.name}: {said}"
    return workload_refused(group) if ctx.world.mode == "kueue" else None


def unwritten(ctx: RuleContext, group: Group) -> list[Pod]:
    """Return the pods whose refused write is still needed: a pass, not for every event."""
    members = ctx.members(group)
    return [ctx.pod(uid) for flag in _unwritten_flags(group) for uid in members.listed(flag)]


def _first_unwritten(members: Members, group: Group) -> str | None:
    """Return the first pod whose refused write is still needed, None without such a pod."""
    firsts = (members.least(flag) for flag in _unwritten_flags(group))
    return min((uid for uid in firsts if uid is not None), default=None)


def _unwritten_flags(group: Group) -> tuple[int, ...]:
    """Return the flags of pods whose refused write is still needed."""
    return (Flag.REFUSED, Flag.SHUT) if _lets_start(group) else (Flag.REFUSED,)


def _lets_start(group: Group) -> bool:
    """Tell whether pods are to be ungated, or could not be, which cost the group its admission."""
    evicted = group.requeueing.evicted
    if evicted is None:
        return group.quota.holding is not None
    return evicted.effect.backs_off or evicted.effect.by_rule


def because_of(said: str, because: str) -> str:
    """Return a sentence with the reason that a person gave for it, if any."""
    return f"{said}: {because}" if because else said
