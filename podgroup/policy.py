"""Policy: the choices of an operator that decisions depend on.

A decision may depend on nothing but the log and this. It is fixed while a projector runs; replaying
a log under another policy shows what would have been decided differently.

Invariant: the defaults change nothing that a user has not asked for.
"""

from msgspec import Struct


class Policy(Struct, frozen=True, kw_only=True):
    """Settings of section `queueing`, as the rules see them. Times are seconds, 0 means off.

    `pods_ready_timeout_s` and what follows it hold in builtin mode only: in kueue mode Kueue times
    its Workloads itself. `requeuing_limit` is how often a group may be evicted for not being ready
    before it is deactivated, -1 for no limit. `retention_after_deactivation_s` is how long the pods
    of a group are kept that a time-out or check deactivated, -1 for as long as nobody deletes them.

    `topology_aware_scheduling`, `elastic_jobs` and `fast_quota_release` stand for Kueue's feature
    gates TopologyAwareScheduling, ElasticJobsViaWorkloadSlices and
    FastQuotaReleaseInPodIntegration, with Kueue's defaults.
    """

    label_keys_to_copy: tuple[str, ...] = ()
    pods_ready_timeout_s: int = 0
    pods_ready_recovery_timeout_s: int = 0
    requeuing_backoff_s: int = 60
    requeuing_backoff_max_s: int = 3600
    requeuing_limit: int = -1
    topology_aware_scheduling: bool = True
    elastic_jobs: bool = False
    fast_quota_release: bool = False
    retention_after_deactivation_s: int = -1
