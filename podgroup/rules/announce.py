"""Rule about queues and cohorts: their condition Active says whether they admit, and why not.

Kueue writes the condition in kueue mode. In builtin mode gatelog writes it, as
`kubectl wait --for=condition=Active` and other clients wait for it; reasons and messages are
Kueue's, which users and tools know.

The message also names fields of a queue or cohort that builtin mode does not heed.

A condition is decided on when an object that it depends on changed (the queue, its ClusterQueue, a
flavor) and the condition differs; the decided condition counts until the object itself shows its
own. A pod's event costs nothing here, whatever it does to the queue.

Invariant: after each message every queue's condition is true, or a write of it is in flight.
"""

from podgroup.model.commands import ObjectRef, WriteQueueStatus
from podgroup.model.names import (
    ACTIVE,
)
from podgroup.model.objects import (
    ClusterQueueView,
    CohortView,
    LocalQueueView,
    to_write,
)
from podgroup.rules.helpers.activity import (
    Said,
    cluster_queue_active,
    cohort_active,
    local_queue_active,
)
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.rule import BUILTIN, ClusterRule, RuleDoc
from podgroup.state.derived import StatusesRead
from podgroup.state.world import World


def announce(ctx: RuleContext) -> Conclusions:
    """Write condition Active of every queue whose condition may have changed."""
    world = ctx.world
    if world.mode == "builtin":
        for kind, namespace, name in sorted(world.unannounced):
            if kind == "ClusterQueue":
                if (queue := world.cluster_queues.get(name)) is not None:
                    yield from _announce(ctx, kind, queue, cluster_queue_active(world, queue))
            elif kind == "Cohort":
                if (cohort := world.cohorts.get(name)) is not None:
                    yield from _announce(ctx, kind, cohort, cohort_active(world, cohort))
            elif (
                kind == "LocalQueue"
                and (local := world.local_queues.get((namespace, name))) is not None
            ):
                yield from _announce(ctx, kind, local, local_queue_active(world, local))
    yield StatusesRead()


def _announce(
    ctx: RuleContext, kind: str, queue: ClusterQueueView | CohortView | LocalQueueView, wanted: Said
) -> Conclusions:
    condition = to_write(ACTIVE, *wanted)
    status, reason, message = condition.status, condition.reason, condition.message
    if queue.active == (status, reason, message):
        return
    yield ctx.decision_apart(
        "announce",
        reason,
        f"{kind} {queue.name} should say {ACTIVE}={status}: {message}",
        WriteQueueStatus(
            target=ObjectRef(kind=kind, namespace=queue.namespace, name=queue.name, uid=queue.uid),
            condition=condition,
        ),
    )


def _due(world: World) -> bool:
    return bool(world.unannounced)


RULE = ClusterRule(
    name="announce",
    run=announce,
    due=_due,
    mode=BUILTIN,
    docs=(
        RuleDoc(
            "announce",
            "condition `Active` of a ClusterQueue or LocalQueue is no longer true",
            "writes it",
        ),
    ),
)
