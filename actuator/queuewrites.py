"""Carrying out commands on queues: a condition in the status of a ClusterQueue or LocalQueue.

Theory. There are few of these and they change seldom, so each write is made from a fresh read and
guarded by its resource version; the conditions of others are kept.

Invariant: nothing but the one condition is changed, and a repetition changes nothing.
"""

from datetime import datetime

from actuator.kubeapi import MERGE_PATCH, KubeApi
from actuator.verdicts import Verdict, applied, gone_from, judge
from actuator.workload_status import merge_conditions
from podgroup.commands import WriteQueueStatus


async def write_status(api: KubeApi, command: WriteQueueStatus, at: datetime) -> Verdict:
    """Merge the condition; `at`, the time of the decision, is when it came to hold."""
    target = command.target
    found = await api.get(target)
    gone = gone_from(found, target)
    if gone is not None:
        return gone
    live = found.object()
    meta = live["metadata"]
    before = (live.get("status") or {}).get("conditions") or []
    after = merge_conditions(before, (command.condition,), meta.get("generation", 0), at)
    if after == before:
        return applied(found, f"{found.path}: is so already")
    guard = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    body = {"metadata": guard, "status": {"conditions": after}}
    return judge(await api.patch(target, body, MERGE_PATCH, subresource="status"))
