"""Rule: pods are missing that must be replaced (`WaitingForReplacementPods`).

Invariant: the reason of a shortage stays while it lasts, unless an eviction gives another.
"""

from podgroup.log.records import Shortened
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.places import absent, staffed
from podgroup.rules.helpers.rule import Rule
from podgroup.state.group import Group


def shortage(ctx: RuleContext, group: Group) -> Conclusions:
    """Keep `group.short`, from which condition WaitingForReplacementPods is written.

    The reason of a shortage stays while it lasts, unless an eviction gives another.
    """
    if not staffed(group):
        return ()
    short, evicted = group.composition.short, group.requeueing.evicted
    if not absent(ctx, group):
        short = None
    elif evicted is not None:
        short = (evicted.reason, evicted.message)
    elif short is None:
        short = ("PodsFailed", "Some Failed pods need replacement")
    if short != group.composition.short:
        return (Shortened(group.id, short),)
    return ()


RULE = Rule(
    name="shortage",
    run=shortage,
)
