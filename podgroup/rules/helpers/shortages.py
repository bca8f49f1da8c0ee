"""What a group falls short of, concluded beside the sentence that says so.

Theory. An attempt fails at a node of the quota tree, and that is a record, so that it can be
counted and a replay needs no rule for it. A group that is tried again and again, or is not tried
because an equal one was, is recorded once: again when what is short is something else, or by
another limit, not because amounts changed. So the cost is that of changes, however many wait.
"""

from podgroup.log.records import ShortageChanged
from podgroup.model.shortage import Shortage, same
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.state.group import Group


def record_shortage(
    ctx: RuleContext, group: Group, queue: str = "", shortages: tuple[Shortage, ...] = ()
) -> Conclusions:
    """Conclude what a group falls short of in a ClusterQueue, if that is news; (): of nothing."""
    known = group.quota.shortage
    before = ("", ()) if known is None else (known.cluster_queue, known.shortages)
    queue = queue if shortages else ""
    if before[0] != queue or not same(before[1], shortages):
        return (ShortageChanged(group.id, queue, shortages),)
    return ()
