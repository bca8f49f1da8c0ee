"""Gauges of the folded state, read at each scrape: waiting groups, pods, quota in use.

Theory. Kueue counts Workloads per queue and no pods; pods that wait behind their gate, and groups
that wait for pods, are not visible there. These numbers are read from the state at a scrape, in one
pass over the groups and none over the pods. The state may be one transaction ahead of the read
model.

Amounts of quota are in base units: cores for cpu, bytes for memory and storage, else a count; quota
without a limit is infinite.

Invariant: a scrape changes nothing.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping

from podgroup.fold.relists import unlisted
from podgroup.model.ids import GroupID, PodUID
from podgroup.model.lifecycle import PENDING, stage_of
from podgroup.model.quantities import MAX_INT64, in_base_units
from podgroup.state.facts import cluster_queue_name
from podgroup.state.members import Flag
from podgroup.state.quota import FlavorResource, Tally
from podgroup.state.world import World
from runtime.metrics import Labels, Metrics


def declare(metrics: Metrics, world: Callable[[], World]) -> None:
    """Declare the families; `world` gives the state as it is when it is called."""
    quota = ("cluster_queue", "flavor", "resource")
    for name, help, labels, look in (
        (
            "gatelog_pending_groups",
            "Pending groups, by stage and reason.",
            ("cluster_queue", "stage", "reason"),
            pending_groups,
        ),
        (
            "gatelog_reserved_starts",
            "Groups that have waited too long and are reserved a start (builtin mode).",
            ("cluster_queue",),
            reserved_starts,
        ),
        ("gatelog_groups", "Groups that exist, by their state.", ("state",), groups),
        ("gatelog_pods", "Pods that exist.", (), pods),
        (
            "gatelog_held_up_pods",
            "Pods of admitted groups whose ungating was refused.",
            (),
            held_up_pods,
        ),
        ("gatelog_gated_pods", "Pods that carry our gate.", ("cluster_queue",), gated_pods),
        (
            "gatelog_unadmitted_pods",
            "Pods of queues that run without an admission.",
            ("cluster_queue",),
            unadmitted_pods,
        ),
        (
            "gatelog_quota_used",
            "Quota held by groups (builtin mode): cores, bytes or a count.",
            quota,
            quota_used,
        ),
        (
            "gatelog_quota_unadmitted",
            "What runs and was never admitted, in no usage of quota: cores, bytes or a count.",
            quota,
            quota_unadmitted,
        ),
        (
            "gatelog_projector_restored_timestamp_seconds",
            "When the log last said that the cluster went back to a backup, or became another.",
            (),
            restored_at,
        ),
        (
            "gatelog_projector_restored_kinds",
            "Kinds that a restored cluster has yet to list; nothing is decided before.",
            (),
            restored_kinds,
        ),
        ("gatelog_quota_nominal", "Nominal quota: cores, bytes or a count.", quota, quota_nominal),
    ):
        metrics.read(name, help, labels, read=_reader(look, world))


def _reader(
    look: Callable[[World], Mapping[Labels, float]], world: Callable[[], World]
) -> Callable[[], Mapping[Labels, float]]:
    return lambda: look(world())


def pending_groups(world: World) -> Counter[Labels]:
    """Return the groups that are pending, by ClusterQueue, stage and reason."""
    found: Counter[Labels] = Counter()
    for group in world.groups.values():
        wait, state = group.explained.wait, group.explained.state
        reason = wait.reason if wait is not None else ""
        if state in PENDING:
            said = reason or group.explained.reason
            found[cluster_queue_name(world, group), stage_of(state, reason), said] += 1
    return found


def reserved_starts(world: World) -> Counter[Labels]:
    """Return the groups that are reserved a start, by ClusterQueue."""
    waiting = (world.groups[GroupID(one)].quota.start for one in world.quotas.waiting)
    return Counter((one.start.cluster_queue,) for one in waiting if one is not None)


def groups(world: World) -> Counter[Labels]:
    """Return all groups by state."""
    return Counter((group.explained.state,) for group in world.groups.values())


def pods(world: World) -> dict[Labels, int]:
    """Return how many pods there are."""
    return {(): len(world.pods)}


def held_up_pods(world: World) -> dict[Labels, int]:
    """Return how many pods wait for another try to remove their gate."""
    waiting = (name.rpartition("/")[2] for name in world.meta.timers if name.startswith("retry/"))
    found = (world.pods.get(PodUID(uid)) for uid in waiting)
    return {(): sum(1 for pod in found if pod is not None and pod.gated and pod.rejections)}


def restored_at(world: World) -> dict[Labels, float]:
    """Return when the cluster was restored last; nothing if it never was."""
    at = world.meta.restored_at
    return {} if at is None else {(): at.timestamp()}


def restored_kinds(world: World) -> dict[Labels, int]:
    """Return how many kinds must be listed again since then."""
    return {(): len(unlisted(world)) if world.meta.rewound else 0}


def gated_pods(world: World) -> Counter[Labels]:
    """Return the pods behind our gate, by ClusterQueue; pods in excess are left out."""
    found: Counter[Labels] = Counter()
    for identity, members in world.members.items():
        gated = members.count(Flag.GATED)
        if gated:
            found[(cluster_queue_name(world, world.groups[identity]),)] += gated
    return found


def unadmitted_pods(world: World) -> Counter[Labels]:
    """Return the pods that run in groups which were never admitted, by ClusterQueue."""
    found: Counter[Labels] = Counter()
    for identity, members in world.members.items():
        group = world.groups[identity]
        live = members.count(Flag.LIVE)
        if live and group.spec.queue and group.quota.holding is None and not group.quota.held_in:
            found[(cluster_queue_name(world, group),)] += live
    return found


def quota_used(world: World) -> dict[Labels, float]:
    """Return the used amount of every quota; {} in kueue mode: Kueue keeps its own books."""
    if world.mode == "kueue":
        return {}
    found = dict.fromkeys(quota_nominal(world), 0.0)
    return found | _of_cluster_queues(world, lambda tally: tally.reserved)


def quota_unadmitted(world: World) -> dict[Labels, float]:
    """Return amounts of pods in groups that were never admitted, which are in no usage of quota."""
    return _of_cluster_queues(world, lambda tally: tally.unadmitted)


def _of_cluster_queues(
    world: World, amounts: Callable[[Tally], Mapping[FlavorResource, int]]
) -> dict[Labels, float]:
    return {
        (name, flavor, resource): _base_units(resource, amount)
        for (kind, _, name), tally in world.quotas.tallies.items()
        if kind == "ClusterQueue"
        for (flavor, resource), amount in amounts(tally).items()
    }


def _base_units(resource: str, amount: int) -> float:
    return math.inf if amount >= MAX_INT64 else in_base_units(resource, amount)


def quota_nominal(world: World) -> dict[Labels, float]:
    """Return the nominal quota of every ClusterQueue, flavor and resource."""
    return {
        (queue.name, flavor.name, resource): _base_units(resource, quota.nominal)
        for queue in world.cluster_queues.values()
        for group in queue.groups
        for flavor in group.flavors
        for resource, quota in flavor.resources.items()
    }
