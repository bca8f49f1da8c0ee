"""Policy: the choices of an operator that decisions depend on.

A decision depends on the log and the policy alone. The policy is fixed while a projector runs;
replaying a log under another policy shows what would have been decided differently.

Invariant: the defaults change nothing that a user has not asked for.
"""

from collections.abc import Mapping
from functools import cache
from typing import Protocol

from msgspec import Struct


class Policy(Struct, frozen=True, kw_only=True):
    """Settings of section `queueing`, as the rules see them. Times are seconds, 0 means off.

    `pods_ready_timeout_s` and what follows it hold in builtin mode only: in kueue mode Kueue times
    its Workloads itself. `requeuing_limit` is how often a group may be evicted for not being ready
    before it is deactivated, -1 for no limit. `retention_after_deactivation_s` is how long the pods
    of a group are kept that a time-out or check deactivated, -1 until they are deleted.

    `wait_for_pods_ready` says when condition PodsReady is written: "on" from the moment there is a
    Workload, "off" never, "auto" in kueue mode from the moment all pods are ready (so that no
    Kueue evicts what runs, and no admission costs a write), in builtin mode as "on" where there
    is a time-out. `exclude_resource_prefixes` holds in builtin mode only: Kueue has its own.

    `compatibility` "kueue" decides on quota as Kueue does, weak points included. `fair_sharing` are
    the preemption strategies of fair sharing, none if shares do not decide. Both hold
    in builtin mode only, and so do the next three, of admission fair sharing: how fast use is
    forgotten (-1: off), how often use is sampled, and `resource=weight`.

    `workloads` "groups" lets single pods of builtin mode do without a Workload.

    `least_run_s` is how long a group runs at least, from its admission, before it may be
    preempted; `least_run_by_reason` are reasons of preemption with another time, `reason=seconds`.
    Builtin mode only, and not with `compatibility` "kueue".

    `status_interval_s` is the shortest time between two reports of a queue's state, in its status
    and in the ledger; 0: no reports. Builtin mode only.

    `stop_unadmitted` stops pods of queues that were never at a gate.

    `unreachable_timeout_s` is how long a kubelet has at least to report the end of a pod that must
    have ended. `deleted_node_timeout_s` is how long the kubelet has, beyond a pod's grace period,
    where the Node is deleted and the pod garbage collector says that the pod has failed: builtin
    mode only, 0 believes the garbage collector at once.

    `termination_grace_max_s` is the longest grace period that is believed: no longer grace period
    is admitted, and a pod that is deleted with a longer grace period is given this.
    `preemption_grace_s` is the longest that pods of a preempted group have to end: builtin mode
    only, 0 leaves the pods their own grace period.

    `namespace_memory_mib` is how much memory the large pods of a namespace take at most (`weight`:
    most pods are light and count nothing); fields of pods beyond the bound are left out of what is
    kept. 0 is without bound, as logs from before the setting were folded.

    `deleted_group_timeout_s` is how long an admitted group whose pods were all deleted is kept for
    replacements, before it ends. Builtin mode only, and not with `compatibility` "kueue"; 0 is
    for good, as logs from before the setting were folded.

    `device_classes` are pairs `class=resource`: devices of a DeviceClass are counted against quota
    as that resource. Builtin mode only; none: devices of ResourceClaims are charged nothing.

    `longest_wait_s` is how long a group waits for quota before a start is reserved for it. Builtin
    mode only, and not with `compatibility` "kueue"; 0 is never, as logs from before the setting
    were decided.

    `owned_groups` are the kinds whose pods are one group that follows its owner's size. Builtin
    mode alone resizes groups; with `compatibility` "kueue" no group is resized.

    `topology_aware_scheduling`, `elastic_jobs`, `fast_quota_release` and `skip_reassignment` are
    Kueue's feature gates TopologyAwareScheduling, ElasticJobsViaWorkloadSlices,
    FastQuotaReleaseInPodIntegration and SkipReassignmentForPodOwnedWorkloads, with Kueue's
    defaults.
    """

    label_keys_to_copy: tuple[str, ...] = ()
    annotation_keys_to_copy: tuple[str, ...] = ()
    exclude_resource_prefixes: tuple[str, ...] = ()
    wait_for_pods_ready: str = "auto"
    pods_ready_timeout_s: int = 0
    pods_ready_recovery_timeout_s: int = 0
    requeuing_backoff_s: int = 60
    requeuing_backoff_max_s: int = 3600
    requeuing_limit: int = -1
    topology_aware_scheduling: bool = True
    elastic_jobs: bool = False
    fast_quota_release: bool = False
    stop_unadmitted: bool = False
    unreachable_timeout_s: int = 30
    deleted_node_timeout_s: int = 0
    deleted_group_timeout_s: int = 0
    termination_grace_max_s: int = 86400
    preemption_grace_s: int = 600
    skip_reassignment: bool = True
    retention_after_deactivation_s: int = -1
    compatibility: str = "better"
    fair_sharing: tuple[str, ...] = ()
    usage_half_life_s: int = -1
    usage_sampling_s: int = 300
    usage_weights: tuple[str, ...] = ()
    least_run_s: int = 0
    least_run_by_reason: tuple[str, ...] = ()
    status_interval_s: int = 0
    workloads: str = "all"
    namespace_memory_mib: int = 0
    device_classes: tuple[str, ...] = ()
    owned_groups: tuple[str, ...] = ()
    longest_wait_s: int = 0


def reserves_starts(policy: Policy) -> bool:
    """Tell whether starts are reserved for groups that wait too long."""
    return bool(policy.longest_wait_s) and policy.compatibility != "kueue"


def weights_of(policy: Policy) -> tuple[tuple[str, float], ...]:
    """Return the weights of resources by which use is compared."""
    pairs = (text.rpartition("=") for text in policy.usage_weights)
    return tuple((resource, float(weight)) for resource, _, weight in pairs)


class Asks(Protocol):
    """What asks for more kinds to be watched: a policy, or the settings that make a policy."""

    @property
    def device_classes(self) -> tuple[str, ...]:
        """As `Policy` has them."""

    @property
    def owned_groups(self) -> tuple[str, ...]:
        """As `Policy` has them."""


def counts_devices(mode: str, asks: Asks) -> bool:
    """Tell whether devices of ResourceClaims are held against quota here; Kueue counts its own."""
    return bool(asks.device_classes) and mode != "kueue"


@cache
def resource_of_classes(pairs: tuple[str, ...]) -> Mapping[str, str]:
    """Return DeviceClass -> resource, as `Policy.device_classes` has it; the first counts."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, _, resource = pair.partition("=")
        found.setdefault(name, resource)
    return found
