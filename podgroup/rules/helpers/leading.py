"""What a group takes from its first pod: priority and maximum execution time.

Invariant: nothing is changed here.
"""

from podgroup.model.commands import PriorityRef
from podgroup.model.names import MAX_EXEC_SECONDS, MAX_INT32, integer
from podgroup.rules.helpers.context import RuleContext
from podgroup.state.group import Group
from podgroup.state.pod import Pod


def priority_of(ctx: RuleContext, group: Group) -> tuple[int, PriorityRef | None] | None:
    """Return priority and its source, or None when the label names a class that is missing.

    Order: WorkloadPriorityClass of the label; the pods' PriorityClass; the global default of
    lowest value (ties by name); 0.
    """
    if group.spec.priority_class:
        known = ctx.world.workload_classes.get(group.spec.priority_class)
        if known is None:
            return None
        return known.value, PriorityRef(kind="WorkloadPriorityClass", name=known.name)
    first = ctx.members(group).first()
    name = ctx.pod(first).view.priority_class if first else ""
    cls = ctx.world.classes.get(name) if name else None
    if cls is None and not name:
        defaults = [c for c in ctx.world.classes.values() if c.global_default]
        cls = min(defaults, key=lambda c: (c.value, c.name), default=None)
    if cls is None:
        return 0, None
    return cls.value, PriorityRef(kind="PriorityClass", name=cls.name)


def max_execution_s(lead: Pod) -> int | None:
    """Return the maximum execution time that a pod asks for, None without a valid one."""
    text = lead.view.labels.get(MAX_EXEC_SECONDS, "")
    found = integer(text) or 0
    return found if 0 < found <= MAX_INT32 else None
