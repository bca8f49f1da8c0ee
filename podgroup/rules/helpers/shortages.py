"""Shortages of a group, concluded beside the sentence that names them.

Theory. An attempt fails at a node of the quota tree, and the shortage is a record, so that it can
be counted and a replay needs no rule for it. The shortage of a group that is tried again and again,
or is not tried because an equal group was, is recorded once: again when another resource is short,
or by another limit, and not because amounts changed. So the cost is that of changes, however many
groups wait.
"""

from podgroup.log.records import ShortageChanged
from podgroup.model.shortage import Shortage, same
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.state.group import Group


def record_shortage(
    ctx: RuleContext, group: Group, queue: str = "", shortages: tuple[Shortage, ...] = ()
) -> Conclusions:
    """Conclude a group's shortages in a ClusterQueue, if they changed; (): there is none."""
    known = group.quota.shortage
    before = ("", ()) if known is None else (known.cluster_queue, known.shortages)
    queue = queue if shortages else ""
    if before[0] != queue or not same(before[1], shortages):
        return (ShortageChanged(group.id, queue, shortages),)
    return ()
