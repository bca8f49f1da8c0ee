"""Rules about quota in builtin mode: what a group holds, and whether it waits for some.

    drain    an admitted group that was deactivated, or whose queue is drained, is evicted
    charge   what it holds is charged, less what its succeeded pods gave back; or, where it holds
             nothing, what runs of it all the same; and its place in the queue is what it should be

Who is admitted next, and who has to go for it, is worked out per ClusterQueue (`admission`).

Invariant: after these a group is either charged for what it holds, or pending, or neither.
"""

from podgroup.changes import SUCCEEDED
from podgroup.decide.admission import enqueue, retire_admissions
from podgroup.decide.context import Deciding
from podgroup.decide.rule import BUILTIN, Line, Rule
from podgroup.decide.unadmitted import charge_unadmitted
from podgroup.view import Group


def charging(d: Deciding, group: Group) -> None:
    """Charge a group, and give it its place among those that wait."""
    d.write.recharge(group.id)
    enlist(d, group)


def enlist(d: Deciding, group: Group) -> None:
    """Work out what is never stored: what runs without admission, and who waits."""
    charge_unadmitted(d, group)
    enqueue(d, group)


DRAIN = Rule(
    run=retire_admissions,
    mode=BUILTIN,
    says=(Line("drain", "the group was deactivated, or its queue is drained", "evicts it"),),
)
CHARGE = Rule(run=charging, reads=SUCCEEDED, mode=BUILTIN, says=())
ADMIT = Line("admit", "it fits the quota", "admits it")
PREEMPT = Line(
    "preempt",
    "a group of higher priority has no room",
    "evicts those of lower priority that must go",
)
