"""Every setting of gatelog: one schema, with unit, default and meaning of each field.

Values come from, last wins: the defaults here, a TOML file (`--config` or GATELOG_CONFIG), the
environment (GATELOG_<SECTION>_<FIELD>, top level GATELOG_<FIELD>; lists are comma-separated), the
command line. Durations end in `_s` or `_ms`. Secrets are never values here, only paths of files
that hold them; the one exception, a password inside `database.url`, is marked and never echoed.

Invariant: what the process runs with is exactly one frozen `Settings`, read once. How it is read,
and how a bad value is refused, is in `settings_source`.
"""

from typing import Annotated, Literal, TypeVar

from msgspec import Meta, Struct, field

T = TypeVar("T")
CONSTANT = Meta(extra={"constant": True})
Constant = Annotated[T, CONSTANT]
"""A value that users need not set: only code that makes a section gives another, as tests do."""

DAY_S = 24 * 3600
GIB = 1024**3
READ_MODEL_FILE = "read-model.sqlite3"
"""Name of the read model in state_dir, where database.url names no other."""


class SettingsError(Exception):
    """A setting that cannot be used; the message says which, why, and what is allowed."""


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the sections."""


class NatsSettings(Section, frozen=True, kw_only=True):
    """Where the event log is and how to log in."""

    url: str = ""
    """nats://host:4222 or tls://host:4222, several separated by commas. Empty: an embedded server
    in state_dir (gatelog up only)."""
    credentials: str = ""
    """A .creds file (JWT and seed)."""
    nkey_seed: str = ""
    """File of an nkey seed."""
    user: str = ""
    """User name, with password_file."""
    password_file: str = ""
    """File of the password."""
    tls_ca: str = ""
    """CA bundle (PEM) of the server."""
    tls_cert: str = ""
    """Client certificate (PEM)."""
    tls_key: str = ""
    """Its key (PEM)."""
    connect_timeout_s: Constant[float] = 5.0
    """Seconds for one attempt to connect."""
    ping_interval_s: Constant[float] = 10.0
    """Seconds between pings; after two missed ones the connection is closed."""


class StreamSettings(Section, frozen=True, kw_only=True):
    """How much of the log is kept, and on how many servers."""

    create: bool = True
    """Parts create missing streams and consumers. Off: only `gatelog migrate`."""
    max_age_s: Annotated[int, Meta(ge=3600)] = 30 * DAY_S
    """Seconds after which events and decisions are dropped."""
    max_bytes: Annotated[int, Meta(ge=1024**2)] = 10 * GIB
    """Bytes of EVENTS, before compression, before the oldest go."""
    decisions_max_bytes: Annotated[int, Meta(ge=1024**2)] = 2 * GIB
    """Bytes of DECISIONS before the oldest go."""
    replicas: Annotated[int, Meta(ge=1, le=5)] = 1
    """Copies of each stream: 1, or 3 on a NATS cluster."""


class ArchiveSettings(Section, frozen=True, kw_only=True):
    """Where the log is kept beyond the streams' limits."""

    url: str = ""
    """A directory, s3://bucket/prefix, gs://bucket/prefix or az://account/container/prefix. Empty:
    no archive."""
    parquet: bool = False
    """Also keep the tables as Parquet files by day (docs/usage.md). Needs the extra parquet."""
    every_s: Annotated[int, Meta(ge=0, le=30 * DAY_S)] = 3600
    """Seconds between the projector's archivings; 0: only `gatelog archive`."""
    segment_bytes: Annotated[int, Meta(ge=10_000, le=GIB)] = 64 * 1024**2
    """Bytes of events, before compression, of a segment."""


class DatabaseSettings(Section, frozen=True, kw_only=True):
    """Where the read model is."""

    url: Annotated[str, Meta(extra={"secret": True})] = ""
    """postgresql://user@host/name or sqlite:///path. Empty: SQLite in state_dir. Keep the password
    in a file (PGPASSFILE)."""
    statement_timeout_s: Annotated[float, Meta(ge=1, le=3600)] = 60.0
    """Seconds after which PostgreSQL ends a statement."""
    reader_role: Annotated[str, Meta(max_length=63)] = ""
    """PostgreSQL role that `gatelog migrate` lets read all tables and views."""
    retention_days: Annotated[int, Meta(ge=0, le=36_500)] = 0
    """Days of history to keep, pruned by whole weeks; 0: everything."""


class KubernetesSettings(Section, frozen=True, kw_only=True):
    """How to reach the API server."""

    kubeconfig: str = ""
    """A kubeconfig. Empty: KUBECONFIG, else the pod's service account, else ~/.kube/config."""
    context: str = ""
    """Its context. Empty: the current one."""
    request_timeout_s: Annotated[float, Meta(ge=1, le=600)] = 30.0
    """Seconds for a request, watches excepted."""
    connect_timeout_s: Constant[float] = 10.0
    """Seconds to open a connection."""
    max_connections: Constant[int] = 100
    """Connections to the API server, watches excepted."""


class IngestSettings(Section, frozen=True, kw_only=True):
    """What is watched, and how."""

    selector: str = "kueue.x-k8s.io/managed=true"
    """Label selector of the pods to watch. Empty: all pods."""
    page_size: Constant[int] = 500
    """Objects per page of a LIST."""
    watch_timeout_s: Constant[int] = 290
    """Seconds after which the server ends a watch."""
    idle_grace_s: Constant[float] = 15.0
    """Seconds of silence beyond watch_timeout_s after which a watch is dead."""
    use_watch_list: Constant[bool] = True
    """Stream the initial list (KEP-3157) where the server can."""
    batch_bytes: Constant[int] = 1_000_000
    """Bytes of one message of the log."""
    pod_change_interval_s: Annotated[float, Meta(ge=0, le=60)] = 5.0
    """Seconds between changes of a pod in the log after a burst (20 that decisions need, 5 others);
    the last is kept. 0: no limit."""
    namespace_changes_per_s: Annotated[float, Meta(ge=0, le=1_000_000)] = 5.0
    """Turns of 2 KiB per second that a namespace has for changes beyond those limits, after a burst
    of 1,000. 0: no limit."""
    role_hash: Literal["kueue", "kep-976"] = "kueue"
    """Fields of a pod that make its role: Kueue's, or KEP-976's."""
    workload_identifier_annotations: bool = True
    """Read group and prebuilt names from annotations too (gate WorkloadIdentifierAnnotations)."""
    measure_interval_s: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    """Seconds between samples of pods' real use (metrics.k8s.io), such as 60. 0: never."""
    unlabelled_look_s: Annotated[float, Meta(ge=0, le=86_400)] = 300.0
    """Seconds between looks for pods that bear our gate or finalizer, not our label. 0: never."""
    measure_report_s: Constant[float] = 900.0
    """Seconds after which mean and peak of those samples go into the log."""


class WebhookSettings(Section, frozen=True, kw_only=True):
    """The admission webhook, served by the ingest deployment."""

    enabled: bool = False
    """Serve the webhook."""
    host: str = "127.0.0.1"
    """Address to listen on; :: in a pod (all of its addresses, IPv4 and IPv6)."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 9443
    """Port to listen on; 0: any."""
    cert_dir: str = ""
    """Directory for certificates of our own. Empty: in state_dir."""
    cert_file: str = ""
    """Certificate (PEM) of others, such as cert-manager."""
    key_file: str = ""
    """Its key (PEM)."""
    url: str = ""
    """https:// address of the webhook for the API server. Empty: a Service."""
    service_namespace: str = "gatelog-system"
    """Namespace of the Service in front of the webhook."""
    service_name: str = "gatelog-webhook"
    """Name of that Service."""
    linger_s: Annotated[float, Meta(ge=0, le=15)] = 0.0
    """Seconds for which the webhook answers after SIGTERM; 0 without another replica."""
    manage_jobs_without_queue_name: bool = False
    """Also gate pods that carry no queue label."""
    topology_gate: bool | Literal["auto"] = "auto"
    """Add Kueue's topology gate to queued pods; auto: in kueue mode."""
    queue_owner_kinds: tuple[Literal["Deployment", "StatefulSet", "Job"], ...] = (
        "Deployment",
        "StatefulSet",
        "Job",
    )
    """Kinds whose queue and priority labels are copied to their template; in kueue mode never
    Job."""
    actuator_user: str = ""
    """The only user that may remove the admission gate. Empty: service account gatelog-actuator in
    service_namespace; gatelog up takes its own."""
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    """What the API server does with pods while the webhook does not answer."""
    timeout_s: Annotated[int, Meta(ge=1, le=30)] = 5
    """Seconds the API server waits for the webhook."""
    excluded_namespaces: tuple[str, ...] = ("kube-system", "gatelog-system")
    """Namespaces whose pods are never touched."""


class ProjectorSettings(Section, frozen=True, kw_only=True):
    """Folding the log, deciding, and writing the read model."""

    batch_messages: Constant[int] = 5000
    """Messages of the log per transaction."""
    signing_key_file: str = ""
    """Key (PEM, Ed25519) that signs decisions. Empty: unsigned."""
    decision_timeout_s: Annotated[float, Meta(ge=1, le=3600)] = 60.0
    """Seconds after which a decision without effect is sent again."""
    open_decisions: Constant[int] = 50_000
    """Open decisions in memory, 1.5 KB each; the others wait in the database."""


class LeaseSettings(Section, frozen=True, kw_only=True):
    """Replicas of ingest and projector: one works, the others stand by (Kubernetes Leases)."""

    enabled: bool = False
    """Lead by Lease (ingest, projector). Off: run one of each."""
    namespace: str = ""
    """Namespace of the Leases. Empty: the pod's, else default."""
    duration_s: Annotated[int, Meta(ge=1, le=600)] = 10
    """Seconds without renewal after which another takes over."""
    renew_deadline_s: Annotated[float, Meta(ge=0.5, le=600)] = 7.0
    """Seconds without renewal after which the leader stops; below duration_s."""
    retry_period_s: Annotated[float, Meta(ge=0.1, le=60)] = 1.5
    """Seconds between renewals and attempts; below renew_deadline_s."""


class QueueingSettings(Section, frozen=True, kw_only=True):
    """Choices that decisions depend on. Time-outs hold in builtin mode: Kueue has its own."""

    label_keys_to_copy: tuple[str, ...] = ()
    """Labels copied from pods to their Workload; pods must agree on them."""
    annotation_keys_to_copy: tuple[str, ...] = ()
    """Annotations copied from pods to their Workload; pods must agree on them."""
    exclude_resource_prefixes: tuple[str, ...] = ()
    """Prefixes of resources that are not counted against quota (Kueue's
    resources.excludeResourcePrefixes). Builtin mode."""
    device_classes: Annotated[
        tuple[Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.-]*=[A-Za-z0-9][^=,\s]*$")], ...],
        Meta(max_length=64),
    ] = ()
    """Resources that devices of ResourceClaims are counted as (Kueue's deviceClassMappings), as
    `gpu.example.com=gpus`: a DeviceClass and its resource. Devices of other classes are Blocked
    then; none: devices are charged nothing. Builtin mode."""
    wait_for_pods_ready: Literal["auto", "on", "off"] = "auto"
    """When condition PodsReady is written. on: as Kueue does with waitForPodsReady; auto: in kueue
    mode once all pods are ready, in builtin mode as on with pods_ready_timeout_s."""
    pods_ready_timeout_s: Annotated[int, Meta(ge=0, le=30 * DAY_S)] = 0
    """Seconds that an admitted group has to get ready before its eviction; 0: off."""
    pods_ready_recovery_timeout_s: Annotated[int, Meta(ge=0, le=30 * DAY_S)] = 0
    """Seconds for a group that was ready once; 0: as pods_ready_timeout_s."""
    requeuing_backoff_s: Annotated[int, Meta(ge=1, le=DAY_S)] = 60
    """Seconds until a group that was not ready is queued again; doubles each time."""
    requeuing_backoff_max_s: Annotated[int, Meta(ge=1, le=DAY_S)] = 3600
    """Limit of that back-off, seconds."""
    requeuing_limit: Annotated[int, Meta(ge=-1, le=1000)] = -1
    """Such evictions before a group is deactivated; -1: no limit."""
    compatibility: Literal["better", "kueue"] = "better"
    """How builtin mode decides on quota. kueue: exactly as Kueue's scheduler (docs/differences.md,
    Q)."""
    workloads: Literal["all", "groups"] = "all"
    """What has a Workload. groups: no single pods, except where checks, a time limit or
    requeuing_limit need one. Builtin mode."""
    fair_sharing: Annotated[
        tuple[Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"], ...],
        Meta(max_length=2),
    ] = ()
    """Strategies of preemption by share within a cohort (Kueue's fairSharing.preemptionStrategies),
    in order; none: off. Builtin mode."""
    usage_half_life_s: Annotated[int, Meta(ge=-1)] = -1
    """Seconds after which a LocalQueue's use counts half in admission fair sharing (Kueue's
    usageHalfLifeTime); 0: no memory, -1: off. Builtin mode."""
    usage_sampling_s: Annotated[int, Meta(ge=1)] = 300
    """Seconds between samples of that use (Kueue's usageSamplingInterval)."""
    usage_weights: Annotated[
        tuple[Annotated[str, Meta(pattern=r"^[^=,\s]+=[0-9]+(\.[0-9]+)?$")], ...],
        Meta(max_length=32),
    ] = ()
    """Weights of resources in that use (Kueue's resourceWeights), as `cpu=1`, `nvidia.com/gpu=10`;
    1 otherwise."""
    least_run_s: Annotated[int, Meta(ge=0, le=30 * DAY_S)] = 0
    """Seconds that a group runs at least, from its admission, before it gives way to another; 0:
    off. Builtin mode, and not with compatibility kueue."""
    least_run_by_reason: Annotated[
        tuple[
            Annotated[
                str,
                Meta(
                    pattern="^(InClusterQueue|InCohortReclamation|InCohortFairSharing|"
                    "InCohortReclaimWhileBorrowing)=[0-9]{1,7}$"
                ),
            ],
            ...,
        ],
        Meta(max_length=4),
    ] = ()
    """Reasons of preemption with another least run time than least_run_s, in seconds, as
    `InCohortReclamation=0`."""
    status_interval_s: Annotated[int, Meta(ge=0, le=DAY_S)] = 5
    """Seconds between writes of counts and usage into a queue's status and table usage; 0: never.
    Builtin mode."""
    longest_wait_s: Annotated[int, Meta(ge=0, le=30 * DAY_S)] = 3600
    """Seconds that a group waits for quota before it is reserved a start: what would put that off
    does not pass it any more (docs/queues.md); 0: never. Builtin mode, and not with compatibility
    kueue."""
    topology_aware_scheduling: bool = True
    """Obey the topology that Kueue assigns (gate TopologyAwareScheduling). Off: remove its gate."""
    elastic_jobs: bool = False
    """A new slice of an elastic Workload replaces the annotations of the old one (gate
    ElasticJobsViaWorkloadSlices). Off: a conflict."""
    fast_quota_release: bool = False
    """Release an evicted group's quota once its pods are being deleted (gate
    FastQuotaReleaseInPodIntegration). Off: once they have ended."""
    stop_unadmitted: bool = False
    """Delete pods of a queue that were created without a gate. Off: they run and are charged."""
    unreachable_timeout_s: Annotated[int, Meta(ge=30, le=30 * DAY_S)] = 30
    """Seconds that a deleted pod, whose kubelet does not answer, keeps its quota after it must have
    ended; its grace period where that is longer."""
    deleted_node_timeout_s: Annotated[int, Meta(ge=0, le=30 * DAY_S)] = 0
    """Seconds beyond its grace period that a pod keeps its quota whose Node was deleted, unless a
    kubelet says that it has ended; 0: not at all. Builtin mode."""
    deleted_group_timeout_s: Annotated[int, Meta(ge=0, le=30 * DAY_S)] = 3600
    """Seconds after which an admitted group ends (Failed) whose pods were all deleted, and of which
    none came back; 0: it keeps its quota until its Workload is deleted. Builtin mode, and not with
    compatibility kueue."""
    termination_grace_max_s: Annotated[int, Meta(ge=60, le=30 * DAY_S)] = DAY_S
    """Longest terminationGracePeriodSeconds that is admitted, in seconds, and longest grace period
    of a deletion that is believed."""
    preemption_grace_s: Annotated[int, Meta(ge=0, le=30 * DAY_S)] = 600
    """Longest grace period, in seconds, that pods of a preempted group have; 0: their own. Builtin
    mode."""
    namespace_memory_mib: Annotated[int, Meta(ge=0, le=1024)] = 16
    """MiB of memory that pods of one namespace may take which are larger than most (long lists and
    maps in labels, affinity, tolerations and so on); groups of others wait (NamespaceTooLarge); 0:
    no bound."""
    owned_groups: Annotated[
        tuple[Literal["LeaderWorkerSet", "StatefulSet"], ...], Meta(max_length=2)
    ] = ()
    """Kinds whose pods are one group: of a StatefulSet all, of a LeaderWorkerSet those of a replica
    (docs/dialects.md). None: each pod queues by itself."""
    skip_reassignment: bool = True
    """Do not queue an evicted single pod's Workload again (gate
    SkipReassignmentForPodOwnedWorkloads; kueue mode)."""
    retention_after_deactivation_s: Annotated[int, Meta(ge=-1, le=365 * DAY_S)] = -1
    """Seconds until the pods of a group that a time-out or check deactivated are deleted; -1:
    never."""


class ActuatorSettings(Section, frozen=True, kw_only=True):
    """Carrying out decisions."""

    decision_keys_file: str = ""
    """Public keys (PEM, Ed25519); decisions that none of them signed are parked. Empty: no
    check."""
    max_in_flight: Annotated[int, Meta(ge=1, le=1000)] = 64
    """Requests to the API server at once."""
    max_attempts: Constant[int] = 20
    """Attempts of one decision before it is parked."""
    retry_first_s: Constant[float] = 0.5
    """Seconds before the first retry."""
    retry_ceiling_s: Constant[float] = 30.0
    """Seconds between retries at most."""
    ack_wait_s: Annotated[float, Meta(ge=1, le=600)] = 15.0
    """Seconds of silence after which another actuator gets a decision."""
    events: Literal["auto", "all", "failures", "none"] = "auto"
    """Events to write. failures: why a pod waits, is stopped or deleted; all: also creation, start
    and end; auto: all in kueue mode, else failures."""
    managed_fields: Literal["keep", "clear"] = "keep"
    """metadata.managedFields of a pod that is queued. keep: as Kubernetes has them; clear:
    emptied by admission, or else with the gate, unless the pod was applied server-side: all that
    follows costs the API server less, and history no longer tells who wrote the pod."""


class ServeSettings(Section, frozen=True, kw_only=True):
    """What `gatelog serve` shows to people: the aggregated API and the console."""

    enabled: bool = False
    """gatelog up serves them too, for those who log in."""
    host: str = "127.0.0.1"
    """Address to listen on; :: in a pod (all of its addresses, IPv4 and IPv6)."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 8443
    """Port to listen on; 0: any."""
    cert_file: str = ""
    """Certificate (PEM) of others. Empty: our own in state_dir, registered in our APIServices."""
    key_file: str = ""
    """Its key (PEM)."""
    service_namespace: str = "gatelog-system"
    """Namespace of the Service that the APIServices name."""
    service_name: str = "gatelog-serve"
    """Name of that Service."""
    review_cache_s: Constant[float] = 10.0
    """Seconds for which an answer about a user's rights is kept."""
    statement_timeout_s: Annotated[float, Meta(ge=0.1, le=600)] = 5.0
    """Seconds after which a query ends."""
    streams_per_user: Annotated[int, Meta(ge=1, le=500)] = 50
    """Watches and live pages that one user may have open at a replica."""
    trial_pods: Annotated[int, Meta(ge=0, le=1_000_000)] = 10_000
    """Pods known above which nothing is tried here (`gatelog try`), for 17 KB each; 0: never."""
    console_port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """Loopback port of the console of `gatelog up`, without login; 0: any."""
    connections: Constant[int] = 4
    """Connections to the database."""
    rates_file: str = ""
    """Rates (TOML) as for `gatelog usage --rates`. Empty: no cost."""


class ForecastSettings(Section, frozen=True, kw_only=True):
    """When what waits starts (docs/looking-forward.md)."""

    interval_s: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    """Seconds between forecasts, if any wait; 0: none but `gatelog forecast`. `gatelog up`: 60."""
    budget_s: Annotated[float, Meta(ge=0.1, le=3600)] = 5.0
    """Seconds of processor time for a forecast, start-up included."""
    label: str = "team"
    """Label of pods by which runtimes differ, beside queue and shape."""


class HealthSettings(Section, frozen=True, kw_only=True):
    """/healthz, /readyz and /metrics."""

    host: str = "127.0.0.1"
    """Address to listen on; :: in a pod (all of its addresses, IPv4 and IPv6)."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """Port to listen on; 0: off."""
    cert_file: str = ""
    """Certificate (PEM) for TLS. Empty: plain HTTP."""
    key_file: str = ""
    """Its key (PEM)."""
    report_interval_s: Constant[float] = 5.0
    """Seconds between a part's reports of its health (table replicas)."""


class LogSettings(Section, frozen=True, kw_only=True):
    """Log lines."""

    format: Literal["auto", "json", "console"] = "auto"
    """json lines, console columns, or console only on a terminal."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lines below this level are not written."""


class Settings(Section, frozen=True, kw_only=True):
    """All settings."""

    cluster: Annotated[str, Meta(pattern="^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")] = "default"
    """Name of the Kubernetes cluster, part of NATS subjects and of the Leases' names."""
    mode: Literal["builtin", "kueue"] = "builtin"
    """What admits: gatelog's own queues, or Kueue's scheduler."""
    state_dir: str = ".gatelog"
    """Directory for embedded storage and generated certificates."""
    nats: NatsSettings = field(default_factory=NatsSettings)
    streams: StreamSettings = field(default_factory=StreamSettings)
    archive: ArchiveSettings = field(default_factory=ArchiveSettings)
    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)
    ingest: IngestSettings = field(default_factory=IngestSettings)
    webhook: WebhookSettings = field(default_factory=WebhookSettings)
    projector: ProjectorSettings = field(default_factory=ProjectorSettings)
    queueing: QueueingSettings = field(default_factory=QueueingSettings)
    actuator: ActuatorSettings = field(default_factory=ActuatorSettings)
    lease: LeaseSettings = field(default_factory=LeaseSettings)
    serve: ServeSettings = field(default_factory=ServeSettings)
    forecast: ForecastSettings = field(default_factory=ForecastSettings)
    health: HealthSettings = field(default_factory=HealthSettings)
    log: LogSettings = field(default_factory=LogSettings)
