"""Termination: when a pod that was asked to stop must have ended, though no kubelet reports it.

Theory. The API server writes a time and a number of seconds that a client chose, and adds them up
unchecked (a grace period of 292 years gives a time in 1734). So neither is believed beyond a bound.
The log's own time counts: from its first delta with the deletion, for as long as the grace period
that the pod was given, at most `Policy.termination_grace_max_s`. A grace period that is shortened
later counts as soon as the log has it, and makes nothing due earlier than that.

A pod that must have ended is lost only if its kubelet is silent for another grace period
(`Policy.unreachable_timeout_s` at least). Signs of the kubelet are: it wrote the pod's status; the
pod's condition Ready is True, which the node controller sets to False on all pods of a node whose
Lease is not renewed; or its node is known to be ready, or reports itself that it is not ready.

Invariant: no time that an object bears makes a pod end earlier.
"""

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from podgroup.model.names import ADMITTED_CONDITION, TERMINATION_TARGET
from podgroup.model.objects import Condition, PodView
from podgroup.model.policy import Policy
from podgroup.model.reasons import collected as by_collector
from podgroup.state.pod import Pod, Terminating
from podgroup.state.world import World

DISRUPTION: Final = "DisruptionTarget"
"""Condition of a pod that a kubelet, a controller or the eviction API ends."""
_OTHERS: Final = frozenset({ADMITTED_CONDITION, TERMINATION_TARGET, DISRUPTION, "PodScheduled"})
"""Conditions that no kubelet writes about a pod it runs."""
GRACE: Final = "grace"
GIVEN_UP: Final = "lapse"
LOST_NODE: Final = "lost"
ENDINGS: Final = (GRACE, GIVEN_UP, LOST_NODE)
"""Purposes of timers after which a pod that must have ended is looked at."""
_DAY: Final = timedelta(days=1)


class Unheard(Struct, frozen=True):
    """A pod counts as lost at `at`, if its kubelet is silent until then."""

    at: datetime


def grace_of(policy: Policy, seconds: int) -> int:
    """Return a grace period in seconds; an absurd period counts as the longest."""
    most = policy.termination_grace_max_s
    return seconds if 0 <= seconds <= most else most


def terminating(
    policy: Policy, now: datetime, known: Terminating | None, before: PodView | None, view: PodView
) -> Terminating | None:
    """Return how a pod terminates as of `view`, seen at `now`; None if it does not terminate.

    `known` and `before` are its former termination and view.
    """
    if view.deleted_at is None or view.grace_s is None:
        return None
    counted = timedelta(seconds=grace_of(policy, view.grace_s))
    absurd = view.grace_s > policy.termination_grace_max_s
    long = 0 < policy.preemption_grace_s < view.grace_s
    if known is None or before is None:
        return Terminating(now, now + counted, None, absurd, long)
    if before.grace_s != view.grace_s:
        due = max(now, known.since + counted)
        known = Terminating(known.since, due, known.heard_at, absurd, long)
    return replace(known, heard_at=now) if _spoke(before, view) else known


def _spoke(before: PodView, view: PodView) -> bool:
    """Tell whether a kubelet wrote the status between two views, as far as they show."""
    if view.resource_version == before.resource_version:
        return False
    if _status(view) != _status(before):
        return True
    # The kubelet wrote fields that views lack: times of probes, addresses, images.
    return replace(view, resource_version=before.resource_version) == before


def _status(view: PodView) -> object:
    conditions = tuple(one for one in view.conditions if one.type not in _OTHERS)
    return (
        view.phase,
        view.reason,
        view.message,
        view.started_at,
        view.ends,
        view.waiting,
        conditions,
    )


def _condition(view: PodView, kind: str) -> Condition | None:
    return next((one for one in view.conditions if one.type == kind), None)


def end_unseen(view: PodView) -> bool:
    """Tell whether a pod's Node was deleted before a kubelet reported the end of its containers.

    The pod garbage collector marks such a pod as failed, and does not know whether its containers
    run. A kubelet that ended the containers reports that their sandbox is gone.
    """
    collected = _condition(view, DISRUPTION)
    ended = _condition(view, "PodReadyToStartContainers")
    if ended is not None and ended.status == "False":
        return False
    if collected is None or collected.status != "True" or not by_collector(collected.reason):
        return False
    return bool(view.node)


def lost_at(world: World, pod: Pod, now: datetime) -> datetime | None:
    """Return when a pod that is being deleted counts as lost; None: not while its node answers.

    Where the Node object shows that the node answers, the time moves on with `now`: ask again then.
    """
    return lost(world, pod.terminating, pod.view, now)


def lost(world: World, state: Terminating | None, view: PodView, now: datetime) -> datetime | None:
    """As `lost_at`, for a view of the pod that is not folded yet."""
    if state is None or view.grace_s is None:
        return None
    policy = world.policy
    kept_s = max(grace_of(policy, view.grace_s), policy.unreachable_timeout_s)
    collected = end_unseen(view)
    if policy.deleted_node_timeout_s and collected:
        own_s = grace_of(policy, view.termination_grace_s)
        kept_s = max(kept_s, own_s + policy.deleted_node_timeout_s)
    heard = max(state.due_at, state.heard_at or state.since)
    if not collected:
        node = world.nodes.get(view.node) if view.node else None
        if node is not None:
            heard = max(heard, now) if node.ready or node.reporting else heard
        elif answers(view):
            return None
    return heard + timedelta(seconds=kept_s)


def answers(view: PodView) -> bool:
    """Tell whether the node controller still holds the pod's node to be alive."""
    ready = _condition(view, "Ready")
    return ready is not None and ready.status == "True"


def due_at(pod: Pod) -> datetime | None:
    """Return when a pod that was asked to stop must have ended: for people.

    The API server's time, unless it is more than a day off the log's own.
    """
    said, state = pod.view.deleted_at, pod.terminating
    if said is None or state is None or abs(said - state.due_at) <= _DAY:
        return said
    return state.due_at
