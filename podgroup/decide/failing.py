"""Rule about starts that can never succeed: the Workload is finished as FailedToStart.

What an admission brings along may contradict the pod (a node selector or label that is there with
another value), or there is not exactly one answer for its podset. Trying again cannot help: a gated
pod's selector may only be added to (KEP-3521), and only a person knows who is right.

Invariant: gated pods of such a group stay gated; nothing of theirs is deleted.
"""

from podgroup.commands import FinishGroup
from podgroup.decide.context import Deciding, group_ref
from podgroup.decide.rule import Line, Rule
from podgroup.members import Flag
from podgroup.names import FINISHED_FAILED_TO_START
from podgroup.view import Group


def failing(d: Deciding, group: Group) -> None:
    """End a group whose pods cannot be started."""
    if group.ending.finish is not None:
        return
    why = group.ending.start_failed or _no_answer(d, group)
    if not why:
        return
    d.emit(
        group,
        "finish",
        FINISHED_FAILED_TO_START,
        why,
        FinishGroup(target=group_ref(group), reason=FINISHED_FAILED_TO_START, message=why),
    )


def _no_answer(d: Deciding, group: Group) -> str:
    holding = group.quota.holding
    if holding is None or not holding.admitted or group.requeueing.evicted is not None:
        return ""
    answers = len(holding.admission.assignments)
    if not group.single or answers == 1 or not d.members(group).count(Flag.GATED):
        return ""
    return f"invalid podset infos: a single pod needs 1, the admission has {answers}"


FAIL = Rule(
    run=failing,
    says=(Line("finish", "what an admission brings contradicts a pod", "ends the group"),),
)
