"""Rule about queues: their condition Active says whether they admit, and why not.

Kueue writes it in kueue mode. In builtin mode `kubectl wait --for=condition=Active` and what else
waits for a queue would wait for ever if we did not; reasons and messages are those that users and
tools know from Kueue.

A condition is decided on when something that it rests on has changed (the queue, its ClusterQueue,
a flavor) and it says something else; what was decided counts as said until the object itself shows
what it says. A pod's event costs nothing here, whatever it does to the queue.

Invariant: after each message every queue says, or was told to say, what is so.
"""

from podgroup.commands import ObjectRef, WriteQueueStatus
from podgroup.decide.context import Deciding
from podgroup.decide.rule import Line
from podgroup.names import (
    ACTIVE,
    ACTIVE_CLUSTER_QUEUE_IS_NOT,
    ACTIVE_FLAVOR_NOT_FOUND,
    ACTIVE_NO_CLUSTER_QUEUE,
    ACTIVE_READY,
    ACTIVE_STOPPED,
)
from podgroup.objects import ClusterQueueView, Condition, LocalQueueView
from podgroup.state import World

Said = tuple[str, str, str]
"""Status, reason, message."""

NOT_SUBMITTED = "Can't submit new workloads to clusterQueue"
MOST_FLAVORS = 16
"""Missing flavors that are named in a message."""


def queueing(d: Deciding) -> None:
    """Say of every queue that may have changed whether it is active."""
    world = d.world
    if world.mode == "builtin":
        for kind, namespace, name in sorted(world.unsaid):
            if kind == "ClusterQueue":
                if (queue := world.cluster_queues.get(name)) is not None:
                    _tell(d, kind, queue, cluster_queue_active(world, queue))
            elif (local := world.local_queues.get((namespace, name))) is not None:
                _tell(d, kind, local, local_queue_active(world, local))
    world.unsaid.clear()


def _tell(d: Deciding, kind: str, queue: ClusterQueueView | LocalQueueView, wanted: Said) -> None:
    if queue.active == wanted:
        return
    status, reason, message = wanted
    d.emit_apart(
        "announce",
        reason,
        f"{kind} {queue.name} should say {ACTIVE}={status}: {message}",
        WriteQueueStatus(
            target=ObjectRef(kind=kind, namespace=queue.namespace, name=queue.name, uid=queue.uid),
            condition=Condition(type=ACTIVE, status=status, reason=reason, message=message),
        ),
    )


def cluster_queue_active(world: World, queue: ClusterQueueView) -> Said:
    """Say whether a ClusterQueue admits."""
    why, reason = [], ""
    if queue.stop_policy != "None":
        why.append("is stopped")
        reason = ACTIVE_STOPPED
    named = dict.fromkeys(flavor.name for part in queue.groups for flavor in part.flavors)
    missing = [name for name in named if name not in world.flavors]
    if missing:
        why.append(f"references missing ResourceFlavor(s): {','.join(missing[:MOST_FLAVORS])}")
        reason = reason or ACTIVE_FLAVOR_NOT_FOUND
    if why:
        return "False", reason, f"Can't admit new workloads: {', '.join(why)}."
    return "True", ACTIVE_READY, "Can admit new workloads"


def local_queue_active(world: World, queue: LocalQueueView) -> Said:
    """Say whether what comes to a LocalQueue may be admitted."""
    if queue.stop_policy != "None":
        return "False", ACTIVE_STOPPED, "LocalQueue is stopped"
    behind = world.cluster_queues.get(queue.cluster_queue)
    if behind is None:
        return "False", ACTIVE_NO_CLUSTER_QUEUE, NOT_SUBMITTED
    if cluster_queue_active(world, behind)[0] != "True":
        return "False", ACTIVE_CLUSTER_QUEUE_IS_NOT, NOT_SUBMITTED
    return "True", ACTIVE_READY, "Can submit new workloads to localQueue"


ANNOUNCE = Line(
    "announce",
    "a queue, the ClusterQueue behind it or a flavor changed, and the queue's condition says "
    "something else",
    "writes condition `Active` of the ClusterQueue or LocalQueue",
)
