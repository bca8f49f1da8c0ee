"""Every setting of gatelog: one schema, with unit, default and meaning of each field.

Values come from, last wins: the defaults here, a TOML file (`--config` or GATELOG_CONFIG), the
environment (GATELOG_<SECTION>_<FIELD>, top level GATELOG_<FIELD>; lists are comma-separated), the
command line. Durations end in `_s` or `_ms`. Secrets are never values here, only paths of files
that hold them; the one exception, a password inside `database.url`, is marked and never echoed.

Invariant: what the process runs with is exactly one frozen `Settings`, read once. How it is read,
and how a bad value is refused, is in `settings_source`.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

DAY_S = 24 * 3600
GIB = 1024**3
READ_MODEL_FILE = "read-model.sqlite3"
"""Name of the read model in state_dir, where database.url names no other."""


EventLoop = Literal["auto", "asyncio", "uvloop"]


class SettingsError(Exception):
    """A setting that cannot be used; the message says which, why, and what is allowed."""


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the sections."""


class NatsSettings(Section, frozen=True, kw_only=True):
    """Where the event log is and how to log in."""

    url: Annotated[
        str,
        Meta(
            description="nats://host:4222 or tls://host:4222, several separated by commas. Empty: "
            "an embedded server in state_dir (gatelog up only)."
        ),
    ] = ""
    credentials: Annotated[str, Meta(description="A .creds file (JWT and seed).")] = ""
    nkey_seed: Annotated[str, Meta(description="File of an nkey seed.")] = ""
    user: Annotated[str, Meta(description="User name, with password_file.")] = ""
    password_file: Annotated[str, Meta(description="File of the password.")] = ""
    tls_ca: Annotated[str, Meta(description="CA bundle (PEM) of the server.")] = ""
    tls_cert: Annotated[str, Meta(description="Client certificate (PEM).")] = ""
    tls_key: Annotated[str, Meta(description="Its key (PEM).")] = ""
    connect_timeout_s: Annotated[
        float, Meta(ge=0.1, le=120, description="Seconds for one attempt to connect.")
    ] = 5.0
    ping_interval_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=300,
            description="Seconds between pings; after two missed ones the connection is closed.",
        ),
    ] = 10.0
    embedded_port: Annotated[
        int,
        Meta(ge=0, le=65535, description="Loopback port of the embedded server; 0: any."),
    ] = 0


class StreamSettings(Section, frozen=True, kw_only=True):
    """How much of the log is kept, and on how many servers."""

    create: Annotated[
        bool,
        Meta(
            description="Parts create missing streams and consumers. Off: only `gatelog migrate`."
        ),
    ] = True
    max_age_s: Annotated[
        int, Meta(ge=3600, description="Seconds after which events and decisions are dropped.")
    ] = 30 * DAY_S
    max_bytes: Annotated[
        int,
        Meta(
            ge=1024**2,
            description="Bytes of EVENTS, before compression, before the oldest go.",
        ),
    ] = 10 * GIB
    decisions_max_bytes: Annotated[
        int, Meta(ge=1024**2, description="Bytes of DECISIONS before the oldest go.")
    ] = 2 * GIB
    parked_max_bytes: Annotated[
        int, Meta(ge=1024**2, description="Bytes of PARKED before the oldest go.")
    ] = GIB // 4
    replicas: Annotated[
        int, Meta(ge=1, le=5, description="Copies of each stream: 1, or 3 on a NATS cluster.")
    ] = 1
    duplicate_window_s: Annotated[
        int,
        Meta(
            ge=120,
            le=3600,
            description="Seconds in which the server drops a repeated message id.",
        ),
    ] = 120


class ArchiveSettings(Section, frozen=True, kw_only=True):
    """Where the log is kept beyond the streams' limits."""

    url: Annotated[
        str,
        Meta(
            description="A directory, s3://bucket/prefix, gs://bucket/prefix or "
            "az://account/container/prefix. Empty: no archive."
        ),
    ] = ""
    parquet: Annotated[
        bool,
        Meta(
            description="Also keep the tables as Parquet files by day (docs/usage.md). Needs the "
            "extra parquet."
        ),
    ] = False
    every_s: Annotated[
        int,
        Meta(
            ge=0,
            le=30 * DAY_S,
            description="Seconds between the projector's archivings; 0: only `gatelog archive`.",
        ),
    ] = 3600
    segment_bytes: Annotated[
        int,
        Meta(
            ge=10_000,
            le=GIB,
            description="Bytes of events, before compression, of a segment.",
        ),
    ] = 64 * 1024**2


class DatabaseSettings(Section, frozen=True, kw_only=True):
    """Where the read model is."""

    url: Annotated[
        str,
        Meta(
            description="postgresql://user@host/name or sqlite:///path. Empty: SQLite in "
            "state_dir. Keep the password in a file (PGPASSFILE).",
            extra={"secret": True},
        ),
    ] = ""
    statement_timeout_s: Annotated[
        float, Meta(ge=1, le=3600, description="Seconds after which PostgreSQL ends a statement.")
    ] = 60.0
    reader_role: Annotated[
        str,
        Meta(
            max_length=63,
            description="PostgreSQL role that `gatelog migrate` lets read all tables and views.",
        ),
    ] = ""
    retention_days: Annotated[
        int,
        Meta(
            ge=0,
            le=36_500,
            description="Days of history to keep, pruned by whole weeks; 0: everything.",
        ),
    ] = 0


class KubernetesSettings(Section, frozen=True, kw_only=True):
    """How to reach the API server."""

    kubeconfig: Annotated[
        str,
        Meta(
            description="A kubeconfig. Empty: KUBECONFIG, else the pod's service account, else "
            "~/.kube/config."
        ),
    ] = ""
    context: Annotated[str, Meta(description="Its context. Empty: the current one.")] = ""
    request_timeout_s: Annotated[
        float, Meta(ge=1, le=600, description="Seconds for a request, watches excepted.")
    ] = 30.0
    connect_timeout_s: Annotated[
        float, Meta(ge=0.1, le=120, description="Seconds to open a connection.")
    ] = 10.0
    max_connections: Annotated[
        int,
        Meta(ge=1, le=1000, description="Connections to the API server, watches excepted."),
    ] = 100


class IngestSettings(Section, frozen=True, kw_only=True):
    """What is watched, and how."""

    selector: Annotated[
        str, Meta(description="Label selector of the pods to watch. Empty: all pods.")
    ] = "kueue.x-k8s.io/managed=true"
    page_size: Annotated[int, Meta(ge=1, le=10_000, description="Objects per page of a LIST.")] = (
        500
    )
    watch_timeout_s: Annotated[
        int,
        Meta(ge=10, le=3600, description="Seconds after which the server ends a watch."),
    ] = 290
    idle_grace_s: Annotated[
        float,
        Meta(
            ge=1,
            le=600,
            description="Seconds of silence beyond watch_timeout_s after which a watch is dead.",
        ),
    ] = 15.0
    use_watch_list: Annotated[
        bool, Meta(description="Stream the initial list (KEP-3157) where the server can.")
    ] = True
    batch_bytes: Annotated[
        int, Meta(ge=10_000, le=4_000_000, description="Bytes of one message of the log.")
    ] = 1_000_000
    publish_interval_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=1000,
            description="Milliseconds between messages of the log; a full one, or one after a "
            "pause, goes at once.",
        ),
    ] = 5
    pod_change_interval_s: Annotated[
        float,
        Meta(
            ge=0,
            le=60,
            description="Seconds between changes of a pod in the log after a burst (20 that "
            "decisions need, 5 others); the last is kept. 0: no limit.",
        ),
    ] = 5.0
    namespace_changes_per_s: Annotated[
        float,
        Meta(
            ge=0,
            le=1_000_000,
            description="Turns of 2 KiB per second that a namespace has for changes beyond those "
            "limits, after a burst of 1,000. 0: no limit.",
        ),
    ] = 5.0
    role_hash: Annotated[
        Literal["kueue", "kep-976"],
        Meta(description="Fields of a pod that make its role: Kueue's, or KEP-976's."),
    ] = "kueue"
    workload_identifier_annotations: Annotated[
        bool,
        Meta(
            description="Read group and prebuilt names from annotations too (gate "
            "WorkloadIdentifierAnnotations)."
        ),
    ] = True
    measure_interval_s: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="Seconds between samples of pods' real use (metrics.k8s.io), such as 60. "
            "0: never.",
        ),
    ] = 0.0
    measure_report_s: Annotated[
        float,
        Meta(
            ge=1,
            le=86_400,
            description="Seconds after which mean and peak of those samples go into the log.",
        ),
    ] = 900.0


class WebhookSettings(Section, frozen=True, kw_only=True):
    """The admission webhook, served by the ingest deployment."""

    enabled: Annotated[bool, Meta(description="Serve the webhook.")] = False
    host: Annotated[str, Meta(description="Address to listen on; 0.0.0.0 in a pod.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0: any.")] = 9443
    cert_dir: Annotated[
        str, Meta(description="Directory for certificates of our own. Empty: in state_dir.")
    ] = ""
    cert_file: Annotated[
        str, Meta(description="Certificate (PEM) of others, such as cert-manager.")
    ] = ""
    key_file: Annotated[str, Meta(description="Its key (PEM).")] = ""
    url: Annotated[
        str,
        Meta(description="https:// address of the webhook for the API server. Empty: a Service."),
    ] = ""
    service_namespace: Annotated[
        str, Meta(description="Namespace of the Service in front of the webhook.")
    ] = "gatelog-system"
    service_name: Annotated[str, Meta(description="Name of that Service.")] = "gatelog-webhook"
    linger_s: Annotated[
        float,
        Meta(
            ge=0,
            le=15,
            description="Seconds for which the webhook answers after SIGTERM; 0 without another "
            "replica.",
        ),
    ] = 0.0
    manage_jobs_without_queue_name: Annotated[
        bool, Meta(description="Also gate pods that carry no queue label.")
    ] = False
    topology_gate: Annotated[
        bool | Literal["auto"],
        Meta(description="Add Kueue's topology gate to queued pods; auto: in kueue mode."),
    ] = "auto"
    queue_owner_kinds: Annotated[
        tuple[Literal["Deployment", "StatefulSet", "Job"], ...],
        Meta(
            description="Kinds whose queue and priority labels are copied to their template; in "
            "kueue mode never Job."
        ),
    ] = ("Deployment", "StatefulSet", "Job")
    actuator_user: Annotated[
        str,
        Meta(
            description="The only user that may remove the admission gate. Empty: service account "
            "gatelog-actuator in service_namespace; gatelog up takes its own."
        ),
    ] = ""
    failure_policy: Annotated[
        Literal["Fail", "Ignore"],
        Meta(description="What the API server does with pods while the webhook does not answer."),
    ] = "Fail"
    timeout_s: Annotated[
        int, Meta(ge=1, le=30, description="Seconds the API server waits for the webhook.")
    ] = 5
    excluded_namespaces: Annotated[
        tuple[str, ...], Meta(description="Namespaces whose pods are never touched.")
    ] = ("kube-system", "gatelog-system")


class ProjectorSettings(Section, frozen=True, kw_only=True):
    """Folding the log, deciding, and writing the read model."""

    shard: Annotated[
        int, Meta(ge=0, le=1023, description="The shard this projector folds, from 0.")
    ] = 0
    batch_messages: Annotated[
        int, Meta(ge=1, le=10_000, description="Messages of the log per transaction.")
    ] = 5000
    commit_interval_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=10_000,
            description="Milliseconds between transactions while live.",
        ),
    ] = 10
    signing_key_file: Annotated[
        str,
        Meta(description="Key (PEM, Ed25519) that signs decisions. Empty: unsigned."),
    ] = ""
    decision_timeout_s: Annotated[
        float,
        Meta(
            ge=1,
            le=3600,
            description="Seconds after which a decision without effect is sent again.",
        ),
    ] = 60.0
    open_decisions: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Open decisions in memory, 1.5 KB each; the others wait in the database.",
        ),
    ] = 50_000


class LeaseSettings(Section, frozen=True, kw_only=True):
    """Replicas of ingest and projector: one works, the others stand by (Kubernetes Leases)."""

    enabled: Annotated[
        bool,
        Meta(description="Lead by Lease (ingest, projector). Off: run one of each."),
    ] = False
    namespace: Annotated[
        str,
        Meta(description="Namespace of the Leases. Empty: the pod's, else default."),
    ] = ""
    duration_s: Annotated[
        int,
        Meta(ge=1, le=600, description="Seconds without renewal after which another takes over."),
    ] = 10
    renew_deadline_s: Annotated[
        float,
        Meta(
            ge=0.5,
            le=600,
            description="Seconds without renewal after which the leader stops; below duration_s.",
        ),
    ] = 7.0
    retry_period_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=60,
            description="Seconds between renewals and attempts; below renew_deadline_s.",
        ),
    ] = 1.5


class QueueingSettings(Section, frozen=True, kw_only=True):
    """Choices that decisions depend on. Time-outs hold in builtin mode: Kueue has its own."""

    label_keys_to_copy: Annotated[
        tuple[str, ...],
        Meta(description="Labels copied from pods to their Workload; pods must agree on them."),
    ] = ()
    annotation_keys_to_copy: Annotated[
        tuple[str, ...],
        Meta(
            description="Annotations copied from pods to their Workload; pods must agree on them."
        ),
    ] = ()
    exclude_resource_prefixes: Annotated[
        tuple[str, ...],
        Meta(
            description="Prefixes of resources that are not counted against quota (Kueue's "
            "resources.excludeResourcePrefixes). Builtin mode."
        ),
    ] = ()
    wait_for_pods_ready: Annotated[
        Literal["auto", "on", "off"],
        Meta(
            description="When condition PodsReady is written. on: as Kueue does with "
            "waitForPodsReady; auto: in kueue mode once all pods are ready, in "
            "builtin mode as on with pods_ready_timeout_s."
        ),
    ] = "auto"
    pods_ready_timeout_s: Annotated[
        int,
        Meta(
            ge=0,
            le=30 * DAY_S,
            description="Seconds that an admitted group has to get ready before its eviction; 0: "
            "off.",
        ),
    ] = 0
    pods_ready_recovery_timeout_s: Annotated[
        int,
        Meta(
            ge=0,
            le=30 * DAY_S,
            description="Seconds for a group that was ready once; 0: as pods_ready_timeout_s.",
        ),
    ] = 0
    requeuing_backoff_s: Annotated[
        int,
        Meta(
            ge=1,
            le=DAY_S,
            description="Seconds until a group that was not ready is queued again; doubles each "
            "time.",
        ),
    ] = 60
    requeuing_backoff_max_s: Annotated[
        int, Meta(ge=1, le=DAY_S, description="Limit of that back-off, seconds.")
    ] = 3600
    requeuing_limit: Annotated[
        int,
        Meta(
            ge=-1,
            le=1000,
            description="Such evictions before a group is deactivated; -1: no limit.",
        ),
    ] = -1
    compatibility: Annotated[
        Literal["better", "kueue"],
        Meta(
            description="How builtin mode decides on quota. kueue: exactly as Kueue's scheduler "
            "(docs/differences.md, Q)."
        ),
    ] = "better"
    workloads: Annotated[
        Literal["all", "groups"],
        Meta(
            description="What has a Workload. groups: no single pods, except where checks, a time "
            "limit or requeuing_limit need one. Builtin mode."
        ),
    ] = "all"
    fair_sharing: Annotated[
        tuple[Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"], ...],
        Meta(
            max_length=2,
            description="Strategies of preemption by share within a cohort (Kueue's "
            "fairSharing.preemptionStrategies), in order; none: off. Builtin mode.",
        ),
    ] = ()
    usage_half_life_s: Annotated[
        int,
        Meta(
            ge=-1,
            description="Seconds after which a LocalQueue's use counts half in admission fair "
            "sharing (Kueue's usageHalfLifeTime); 0: no memory, -1: off. Builtin mode.",
        ),
    ] = -1
    usage_sampling_s: Annotated[
        int,
        Meta(
            ge=1,
            description="Seconds between samples of that use (Kueue's usageSamplingInterval).",
        ),
    ] = 300
    usage_weights: Annotated[
        tuple[Annotated[str, Meta(pattern=r"^[^=,\s]+=[0-9]+(\.[0-9]+)?$")], ...],
        Meta(
            max_length=32,
            description="Weights of resources in that use (Kueue's resourceWeights), as `cpu=1`, "
            "`nvidia.com/gpu=10`; 1 otherwise.",
        ),
    ] = ()
    status_interval_s: Annotated[
        int,
        Meta(
            ge=0,
            le=DAY_S,
            description="Seconds between writes of counts and usage into a queue's status and "
            "table usage; 0: never. Builtin mode.",
        ),
    ] = 5
    topology_aware_scheduling: Annotated[
        bool,
        Meta(
            description="Obey the topology that Kueue assigns (gate TopologyAwareScheduling). "
            "Off: remove its gate."
        ),
    ] = True
    elastic_jobs: Annotated[
        bool,
        Meta(
            description="A new slice of an elastic Workload replaces the annotations of the old "
            "one (gate ElasticJobsViaWorkloadSlices). Off: a conflict."
        ),
    ] = False
    fast_quota_release: Annotated[
        bool,
        Meta(
            description="Release an evicted group's quota once its pods are being deleted (gate "
            "FastQuotaReleaseInPodIntegration). Off: once they have ended."
        ),
    ] = False
    stop_unadmitted: Annotated[
        bool,
        Meta(
            description="Delete pods of a queue that were created without a gate. Off: they run "
            "and are charged."
        ),
    ] = False
    unreachable_timeout_s: Annotated[
        int,
        Meta(
            ge=30,
            le=30 * DAY_S,
            description="Seconds that a deleted pod, whose kubelet does not answer, keeps its "
            "quota after it must have ended; its grace period where that is longer.",
        ),
    ] = 30
    deleted_node_timeout_s: Annotated[
        int,
        Meta(
            ge=0,
            le=30 * DAY_S,
            description="Seconds beyond its grace period that a pod keeps its quota whose Node was "
            "deleted, unless a kubelet says that it has ended; 0: not at all. Builtin mode.",
        ),
    ] = 0
    skip_reassignment: Annotated[
        bool,
        Meta(
            description="Do not queue an evicted single pod's Workload again (gate "
            "SkipReassignmentForPodOwnedWorkloads; kueue mode)."
        ),
    ] = True
    retention_after_deactivation_s: Annotated[
        int,
        Meta(
            ge=-1,
            le=365 * DAY_S,
            description="Seconds until the pods of a group that a time-out or check deactivated "
            "are deleted; -1: never.",
        ),
    ] = -1


class ActuatorSettings(Section, frozen=True, kw_only=True):
    """Carrying out decisions."""

    decision_keys_file: Annotated[
        str,
        Meta(
            description="Public keys (PEM, Ed25519); decisions that none of them signed are "
            "parked. Empty: no check."
        ),
    ] = ""
    max_in_flight: Annotated[
        int, Meta(ge=1, le=1000, description="Requests to the API server at once.")
    ] = 64
    max_attempts: Annotated[
        int, Meta(ge=1, le=100, description="Attempts of one decision before it is parked.")
    ] = 20
    retry_first_s: Annotated[
        float, Meta(ge=0.01, le=60, description="Seconds before the first retry.")
    ] = 0.5
    retry_ceiling_s: Annotated[
        float, Meta(ge=0.1, le=3600, description="Seconds between retries at most.")
    ] = 30.0
    ack_wait_s: Annotated[
        float,
        Meta(
            ge=1,
            le=600,
            description="Seconds of silence after which another actuator gets a decision.",
        ),
    ] = 15.0
    events: Annotated[
        Literal["auto", "all", "failures", "none"],
        Meta(
            description="Events to write. failures: why a pod waits, is stopped or deleted; all: "
            "also creation, start and end; auto: all in kueue mode, else failures."
        ),
    ] = "auto"


class ServeSettings(Section, frozen=True, kw_only=True):
    """What `gatelog serve` shows to people: the aggregated API and the console."""

    enabled: Annotated[
        bool, Meta(description="gatelog up serves them too, for those who log in.")
    ] = False
    host: Annotated[str, Meta(description="Address to listen on; 0.0.0.0 in a pod.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0: any.")] = 8443
    cert_file: Annotated[
        str,
        Meta(
            description="Certificate (PEM) of others. Empty: our own in state_dir, registered in "
            "our APIServices."
        ),
    ] = ""
    key_file: Annotated[str, Meta(description="Its key (PEM).")] = ""
    service_namespace: Annotated[
        str, Meta(description="Namespace of the Service that the APIServices name.")
    ] = "gatelog-system"
    service_name: Annotated[str, Meta(description="Name of that Service.")] = "gatelog-serve"
    review_cache_s: Annotated[
        float,
        Meta(
            ge=0,
            le=300,
            description="Seconds for which an answer about a user's rights is kept.",
        ),
    ] = 10.0
    statement_timeout_s: Annotated[
        float,
        Meta(ge=0.1, le=600, description="Seconds after which a query ends."),
    ] = 5.0
    streams_per_user: Annotated[
        int,
        Meta(
            ge=1,
            le=500,
            description="Watches and live pages that one user may have open at a replica.",
        ),
    ] = 50
    console_port: Annotated[
        int,
        Meta(
            ge=0,
            le=65535,
            description="Loopback port of the console of `gatelog up`, without login; 0: any.",
        ),
    ] = 0
    connections: Annotated[
        int,
        Meta(ge=1, le=64, description="Connections to the database."),
    ] = 4
    rates_file: Annotated[
        str,
        Meta(description="Rates (TOML) as for `gatelog usage --rates`. Empty: no cost."),
    ] = ""


class ForecastSettings(Section, frozen=True, kw_only=True):
    """When what waits starts (docs/looking-forward.md)."""

    interval_s: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="Seconds between forecasts beside the projector, such as 60. 0: only "
            "`gatelog forecast`.",
        ),
    ] = 0.0
    budget_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=3600,
            description="Seconds of processor time for a forecast's plays.",
        ),
    ] = 10.0
    label: Annotated[
        str, Meta(description="Label of pods by which runtimes differ, beside queue and shape.")
    ] = "team"


class HealthSettings(Section, frozen=True, kw_only=True):
    """/healthz, /readyz and /metrics."""

    host: Annotated[str, Meta(description="Address to listen on; 0.0.0.0 in a pod.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0: off.")] = 0
    cert_file: Annotated[
        str,
        Meta(description="Certificate (PEM) for TLS. Empty: plain HTTP."),
    ] = ""
    key_file: Annotated[str, Meta(description="Its key (PEM).")] = ""
    report_interval_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=15,
            description="Seconds between a part's reports of its health (table replicas).",
        ),
    ] = 5.0


class LogSettings(Section, frozen=True, kw_only=True):
    """Log lines."""

    format: Annotated[
        Literal["auto", "json", "console"],
        Meta(description="json lines, console columns, or console only on a terminal."),
    ] = "auto"
    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="Lines below this level are not written."),
    ] = "info"


class Settings(Section, frozen=True, kw_only=True):
    """All settings."""

    cluster: Annotated[
        str,
        Meta(
            pattern="^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
            description="Name of the Kubernetes cluster, part of NATS subjects and of the Leases' "
            "names.",
        ),
    ] = "default"
    mode: Annotated[
        Literal["builtin", "kueue"],
        Meta(description="What admits: gatelog's own queues, or Kueue's scheduler."),
    ] = "builtin"
    shards: Annotated[
        int,
        Meta(
            ge=1,
            le=1024,
            description="Shards of the log by namespace, each with its own projector; kueue mode "
            "only.",
        ),
    ] = 1
    state_dir: Annotated[
        str, Meta(description="Directory for embedded storage and generated certificates.")
    ] = ".gatelog"
    event_loop: Annotated[
        EventLoop,
        Meta(
            description="What runs the process's tasks; auto is uvloop where it is installed, "
            "asyncio is for debugging."
        ),
    ] = "auto"
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
