"""Sentences that several rules say, and what the API server refuses of a group.

Invariant: wording is stable: it names what is missing, never how many are there so far.
"""

from podgroup.model.reasons import WORKLOAD_REFUSED, WORKLOAD_TOO_LARGE, WRITE_REFUSED
from podgroup.rules.helpers.context import RuleContext
from podgroup.state.group import Group
from podgroup.state.members import Flag


def refusal(group: Group) -> str:
    """Say that the Workload could not be made, and what the API server had against it."""
    return f'the Workload "{group.mirror.name}" could not be created: {group.mirror.refused}'


def workload_refused(group: Group) -> tuple[str, str] | None:
    """Return (reason, message) while the API server would not create the Workload, else None."""
    if not group.mirror.refused:
        return None
    return WORKLOAD_TOO_LARGE if group.mirror.too_large else WORKLOAD_REFUSED, refusal(group)


def write_refused(ctx: RuleContext, group: Group) -> tuple[str, str] | None:
    """Return (reason, message) while the API server refuses what a group needs written, else None.

    In builtin mode no group waits for its Workload, but that it goes at the end.
    """
    members, mirror = ctx.members(group), group.mirror
    if Flag.REFUSED in members.sets:
        pod = ctx.pod(members.listed(Flag.REFUSED)[0])
        said = ": ".join(pod.refused or ())
        return WRITE_REFUSED, f"the API server refuses a write of pod {pod.view.name}: {said}"
    if mirror.unwritten and (ctx.world.mode == "kueue" or group.ending.finish is not None):
        said = ": ".join(mirror.unwritten)
        return WRITE_REFUSED, f"the API server refuses a write of Workload {mirror.name}: {said}"
    return workload_refused(group) if ctx.world.mode == "kueue" else None


def because_of(said: str, because: str) -> str:
    """Return what is so with what a person gave as the reason, if any."""
    return f"{said}: {because}" if because else said
