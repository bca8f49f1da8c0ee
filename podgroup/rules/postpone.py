"""Rule: the victims of a group have to run for their least run time: the group is tried then.

Admission decides then, and says what is kept for the group until then
(`podgroup.admission.postponing`).

Invariant: while a preemption is postponed, there is a timer for its time.
"""

from datetime import datetime

from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.rule import BUILTIN, Rule
from podgroup.rules.helpers.timing import no_wake, wake_at
from podgroup.state.group import Group

POSTPONED = "postponed"


def postpone(ctx: RuleContext, group: Group) -> Conclusions:
    """Set the timer for when a group's victims have run for their least run time."""
    kept = group.quota.kept
    if kept is None or kept.until is None:
        return no_wake(ctx, group, POSTPONED)
    return wake_at(ctx, group, POSTPONED, kept.until)


def in_words(
    ctx: RuleContext, group: Group, last: Group | None, victims: int, until: datetime
) -> str:
    """Say until when a group waits: for the `last` of its victims; None: another group's victims.

    A user may not see other namespaces: groups there are not named.
    """
    if last is None:
        return f"waits until {_moment(ctx, until)}, when groups that give way to others have run"
    near, holding = last.namespace == group.namespace, last.quota.holding
    who = f"{last.namespace}/{last.name}" if near else "a group of another namespace"
    began = until if holding is None else holding.begin.at
    ran = _duration(round((until - began).total_seconds()))
    said = f"waits until {_moment(ctx, until)}, when {who} has run for {ran}"
    return said if victims == 1 else f"{said}; then {victims} groups give way for it"


def _moment(ctx: RuleContext, at: datetime) -> str:
    day = "" if at.date() == ctx.here.at.date() else f"{at:%Y-%m-%d} "
    return f"{day}{at:%H:%M:%S} UTC"


def _duration(seconds: int) -> str:
    """Return a duration in the largest unit that divides it."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds % length == 0:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


RULE = Rule(name="postpone", run=postpone, mode=BUILTIN)
