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
            description="NATS server, or several separated by commas: nats://host:4222, "
            "tls://host:4222. Empty: run an embedded server in state_dir (gatelog up only)."
        ),
    ] = ""
    credentials: Annotated[str, Meta(description="Path of a .creds file (JWT and seed).")] = ""
    nkey_seed: Annotated[str, Meta(description="Path of a file with an nkey seed.")] = ""
    user: Annotated[str, Meta(description="User name, with password_file.")] = ""
    password_file: Annotated[str, Meta(description="Path of a file with the password.")] = ""
    tls_ca: Annotated[str, Meta(description="Path of the CA bundle (PEM) of the server.")] = ""
    tls_cert: Annotated[str, Meta(description="Path of our client certificate (PEM).")] = ""
    tls_key: Annotated[str, Meta(description="Path of the key of tls_cert (PEM).")] = ""
    connect_timeout_s: Annotated[
        float, Meta(ge=0.1, le=120, description="Seconds allowed to one attempt to connect.")
    ] = 5.0
    ping_interval_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=300,
            description="Seconds between pings; a server that misses two in a row is left.",
        ),
    ] = 10.0
    embedded_port: Annotated[
        int,
        Meta(ge=0, le=65535, description="Loopback port of the embedded server; 0: any free one."),
    ] = 0


class StreamSettings(Section, frozen=True, kw_only=True):
    """How much of the log is kept, and on how many servers."""

    create: Annotated[
        bool,
        Meta(
            description="Every part makes streams and consumers that are missing. Off, as in "
            "deploy/: only `gatelog migrate` does, with an account of its own, and the parts need "
            "no right to."
        ),
    ] = True
    max_age_s: Annotated[
        int, Meta(ge=3600, description="Seconds after which events and decisions are dropped.")
    ] = 30 * DAY_S
    max_bytes: Annotated[
        int,
        Meta(
            ge=1024**2,
            description="Bytes of EVENTS, as NATS counts them (before compression), "
            "before the oldest go.",
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
            description="Seconds in which a repeated message id is dropped by the server. "
            "Must cover every retry of a publish (60 s), hence the lower bound.",
        ),
    ] = 120


class ArchiveSettings(Section, frozen=True, kw_only=True):
    """Where the log is kept beyond the streams' limits."""

    url: Annotated[
        str,
        Meta(
            description="A directory, s3://bucket/prefix, gs://bucket/prefix or "
            "az://account/container/prefix. Empty: what the streams drop is gone."
        ),
    ] = ""
    parquet: Annotated[
        bool,
        Meta(
            description="Keep the tables of the read model there as well, as Parquet files by day "
            "below parquet/ (docs/usage.md). Needs the extra parquet."
        ),
    ] = False
    every_s: Annotated[
        int,
        Meta(
            ge=0,
            le=30 * DAY_S,
            description="Seconds between the projector's runs of archiving, sooner when a segment "
            "is full; 0: only `gatelog archive` does it.",
        ),
    ] = 3600
    segment_bytes: Annotated[
        int,
        Meta(
            ge=10_000,
            le=GIB,
            description="Bytes of events, before compression, after which a segment is closed.",
        ),
    ] = 64 * 1024**2


class DatabaseSettings(Section, frozen=True, kw_only=True):
    """Where the read model is."""

    url: Annotated[
        str,
        Meta(
            description="postgresql://user@host/name or sqlite:///path. "
            "Empty: SQLite in state_dir. Prefer a password file (PGPASSFILE) to a password here.",
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
            description="PostgreSQL role that `gatelog migrate` lets read all tables and views. "
            "Empty: none.",
        ),
    ] = ""
    retention_days: Annotated[
        int,
        Meta(
            ge=0,
            le=36_500,
            description="Days of history to keep; the projector prunes what was over before, by "
            "whole weeks. 0: keep everything.",
        ),
    ] = 0


class KubernetesSettings(Section, frozen=True, kw_only=True):
    """How to reach the API server."""

    kubeconfig: Annotated[
        str,
        Meta(
            description="Path of a kubeconfig. Empty: KUBECONFIG, else the service account when in "
            "a pod, else ~/.kube/config."
        ),
    ] = ""
    context: Annotated[str, Meta(description="Context in it. Empty: its current one.")] = ""
    request_timeout_s: Annotated[
        float, Meta(ge=1, le=600, description="Seconds allowed to one request that is no watch.")
    ] = 30.0
    connect_timeout_s: Annotated[
        float, Meta(ge=0.1, le=120, description="Seconds allowed to open a connection.")
    ] = 10.0
    max_connections: Annotated[
        int,
        Meta(ge=1, le=1000, description="Connections to the API server at once, watches apart."),
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
        Meta(ge=10, le=3600, description="Seconds after which we ask the server to end a watch."),
    ] = 290
    idle_grace_s: Annotated[
        float,
        Meta(
            ge=1,
            le=600,
            description="Seconds beyond watch_timeout_s before silence counts as dead.",
        ),
    ] = 15.0
    use_watch_list: Annotated[
        bool, Meta(description="Stream the initial list (KEP-3157) where the server can.")
    ] = True
    batch_bytes: Annotated[
        int, Meta(ge=10_000, le=4_000_000, description="Bytes of one message of the log at most.")
    ] = 1_000_000
    publish_interval_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=1000,
            description="Milliseconds from one message of the log to the next, at least, unless "
            "it is full; what comes after a pause goes at once.",
        ),
    ] = 5
    pod_change_interval_s: Annotated[
        float,
        Meta(
            ge=0,
            le=60,
            description="Seconds from one change of a pod to the next in the log, after twenty at "
            "once of what decisions need and five of what decides nothing (labels, annotations, "
            "...); of those in between only the last is kept. 0: all are.",
        ),
    ] = 5.0
    namespace_changes_per_s: Annotated[
        float,
        Meta(
            ge=0,
            le=1_000_000,
            description="Turns per second, of 2 KiB in the log each, that a namespace has for "
            "changes that decide nothing and for those that a pod has too many of, after a "
            "thousand at once; what is more waits. 0: no bound.",
        ),
    ] = 5.0
    role_hash: Annotated[
        Literal["kueue", "kep-976"],
        Meta(description="Which fields of a pod make its role: Kueue's, or those of KEP-976."),
    ] = "kueue"
    workload_identifier_annotations: Annotated[
        bool,
        Meta(
            description="Read group and prebuilt names from annotations too (gate "
            "WorkloadIdentifierAnnotations). Off: from labels alone."
        ),
    ] = True
    measure_interval_s: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="Seconds from one look at what pods really use (metrics.k8s.io) to the "
            "next, such as 60; metrics servers have something new every 15 to 60. 0: never.",
        ),
    ] = 0.0
    measure_report_s: Annotated[
        float,
        Meta(
            ge=1,
            le=86_400,
            description="Seconds after which mean and peak of those samples go into the log, one "
            "event per pod; also when a pod ends.",
        ),
    ] = 900.0


class WebhookSettings(Section, frozen=True, kw_only=True):
    """The admission webhook, served by the ingest deployment."""

    enabled: Annotated[bool, Meta(description="Serve the webhook.")] = False
    host: Annotated[str, Meta(description="Address to listen on; 0.0.0.0 in a pod.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0: any.")] = 9443
    cert_dir: Annotated[
        str, Meta(description="Directory for certificates that we make. Empty: in state_dir.")
    ] = ""
    cert_file: Annotated[
        str, Meta(description="Path of a certificate (PEM) made by others, e.g. cert-manager.")
    ] = ""
    key_file: Annotated[str, Meta(description="Path of the key of cert_file (PEM).")] = ""
    url: Annotated[
        str,
        Meta(description="https:// address by which the API server reaches us. Empty: a Service."),
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
            description="Seconds for which the webhook goes on answering after SIGTERM, until the "
            "API server sends no more pods here. 0 where no other replica takes over.",
        ),
    ] = 0.0
    manage_jobs_without_queue_name: Annotated[
        bool, Meta(description="Also gate pods that carry no queue label.")
    ] = False
    topology_gate: Annotated[
        bool | Literal["auto"],
        Meta(
            description="Add Kueue's topology gate to every queued pod, so that none is scheduled "
            "before its topology is assigned; gatelog takes it off with its own where none is. "
            "auto: where Kueue's scheduler admits (mode = kueue)."
        ),
    ] = "auto"
    queue_owner_kinds: Annotated[
        tuple[Literal["Deployment", "StatefulSet", "Job"], ...],
        Meta(
            description="Kinds whose queue and priority labels are copied to their pod template. "
            "With mode = kueue never Job, which Kueue queues itself."
        ),
    ] = ("Deployment", "StatefulSet", "Job")
    actuator_user: Annotated[
        str,
        Meta(
            description="User name of the actuator at the API server: nobody else may take the "
            "admission gate off. Empty: service account gatelog-actuator in service_namespace; "
            "gatelog up asks who it is."
        ),
    ] = ""
    failure_policy: Annotated[
        Literal["Fail", "Ignore"],
        Meta(description="What the API server does with pods when the webhook does not answer."),
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
        int, Meta(ge=1, le=10_000, description="Messages of the log per transaction at most.")
    ] = 5000
    commit_interval_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=10_000,
            description="Milliseconds from the beginning of a transaction to that of the next, at "
            "least, while live; what comes after a pause is written at once.",
        ),
    ] = 10
    signing_key_file: Annotated[
        str,
        Meta(
            description="Path of the key (PEM, Ed25519) that decisions are signed with. Empty: "
            "they are not. Each start reads it."
        ),
    ] = ""
    decision_timeout_s: Annotated[
        float,
        Meta(ge=1, le=3600, description="Seconds after which an unseen decision is reissued."),
    ] = 60.0
    open_decisions: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Decisions without outcome that are under way at most; the others wait in "
            "the database. About 1.5 KB of memory each.",
        ),
    ] = 50_000


class LeaseSettings(Section, frozen=True, kw_only=True):
    """Replicas of ingest and projector: one works, the others stand by (Kubernetes Leases)."""

    enabled: Annotated[
        bool,
        Meta(
            description="Hold a Lease while watching (ingest) or folding (projector). Off: run one "
            "of each."
        ),
    ] = False
    namespace: Annotated[
        str,
        Meta(description="Namespace of the Leases. Empty: our own in a pod, else default."),
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
            description="Seconds without renewal after which the leader itself stops; less than "
            "duration_s.",
        ),
    ] = 7.0
    retry_period_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=60,
            description="Seconds between renewals, and between looks of those who stand by; less "
            "than renew_deadline_s.",
        ),
    ] = 1.5


class QueueingSettings(Section, frozen=True, kw_only=True):
    """Choices that decisions depend on. Time-outs hold in builtin mode: Kueue has its own."""

    label_keys_to_copy: Annotated[
        tuple[str, ...],
        Meta(description="Labels that go from pods to their Workload; pods must agree on them."),
    ] = ()
    annotation_keys_to_copy: Annotated[
        tuple[str, ...],
        Meta(
            description="Annotations that go from pods to their Workload; pods must agree on them."
        ),
    ] = ()
    exclude_resource_prefixes: Annotated[
        tuple[str, ...],
        Meta(
            description="Resources whose names begin like this are not counted against quota "
            "(Kueue's resources.excludeResourcePrefixes). Builtin mode: Kueue has its own."
        ),
    ] = ()
    wait_for_pods_ready: Annotated[
        Literal["auto", "on", "off"],
        Meta(
            description="When the Workload's condition PodsReady is written. on: always, as "
            "Kueue does with waitForPodsReady. off: never. auto: in kueue mode once all pods are "
            "ready, so that Kueue evicts nothing that runs, whether it waits or not; in builtin "
            "mode as on if pods_ready_timeout_s is set."
        ),
    ] = "auto"
    pods_ready_timeout_s: Annotated[
        int,
        Meta(
            ge=0,
            le=30 * DAY_S,
            description="Seconds an admitted group has to get ready before it is evicted; 0: off.",
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
            description="Seconds until a group that was not ready in time queues again; "
            "doubles each time.",
        ),
    ] = 60
    requeuing_backoff_max_s: Annotated[
        int, Meta(ge=1, le=DAY_S, description="Seconds that this may become at most.")
    ] = 3600
    requeuing_limit: Annotated[
        int,
        Meta(
            ge=-1,
            le=1000,
            description="Evictions for not being ready before a group is deactivated; "
            "-1: no limit.",
        ),
    ] = -1
    compatibility: Annotated[
        Literal["better", "kueue"],
        Meta(
            description="How builtin mode decides on quota. kueue: exactly as Kueue's scheduler, "
            "weak points included (rows Q of docs/differences.md)."
        ),
    ] = "better"
    workloads: Annotated[
        Literal["all", "groups"],
        Meta(
            description="Which of what is queued has a Workload. groups: not single pods, each of "
            "which costs the API server a third less; kubectl get podgroups lists them all the "
            "same, kubectl get workloads does not. One that admission checks, a maximum execution "
            "time or requeuing_limit may concern keeps its Workload. Builtin mode."
        ),
    ] = "all"
    fair_sharing: Annotated[
        tuple[Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"], ...],
        Meta(
            max_length=2,
            description="Strategies by which shares decide who may be preempted within a cohort "
            "(Kueue's fairSharing.preemptionStrategies), tried in this order; empty: shares do "
            "not decide. Builtin mode.",
        ),
    ] = ()
    usage_half_life_s: Annotated[
        int,
        Meta(
            ge=-1,
            description="Seconds in which what a LocalQueue used comes to count half, in "
            "ClusterQueues whose admissionScope asks for admission fair sharing (Kueue's "
            "usageHalfLifeTime). 0: all is forgotten at once; -1: there is no such sharing. "
            "Builtin mode.",
        ),
    ] = -1
    usage_sampling_s: Annotated[
        int,
        Meta(
            ge=1,
            description="Seconds between looks at use (Kueue's usageSamplingInterval); an "
            "admission counts at once for what it will have used by then.",
        ),
    ] = 300
    usage_weights: Annotated[
        tuple[Annotated[str, Meta(pattern=r"^[^=,\s]+=[0-9]+(\.[0-9]+)?$")], ...],
        Meta(
            max_length=32,
            description="What a unit of a resource counts for (Kueue's resourceWeights), as "
            "`cpu=1`, `nvidia.com/gpu=10`; 1 where nothing is said.",
        ),
    ] = ()
    status_interval_s: Annotated[
        int,
        Meta(
            ge=0,
            le=DAY_S,
            description="Seconds at least between two writes of counts and usage into the status "
            "of a queue, and between two rows of table usage about it; 0: neither is written. "
            "Builtin mode.",
        ),
    ] = 5
    topology_aware_scheduling: Annotated[
        bool,
        Meta(
            description="Heed the topology that Kueue assigns (gate TopologyAwareScheduling). "
            "Off: none is asked for, and its scheduling gate is never left on a pod."
        ),
    ] = True
    elastic_jobs: Annotated[
        bool,
        Meta(
            description="Let a new slice of an elastic Workload replace the annotations of the "
            "one before (gate ElasticJobsViaWorkloadSlices). Off: that is a conflict."
        ),
    ] = False
    fast_quota_release: Annotated[
        bool,
        Meta(
            description="Release the quota of an evicted group once all its running pods are "
            "being deleted (gate FastQuotaReleaseInPodIntegration). Off: once they have ended."
        ),
    ] = False
    stop_unadmitted: Annotated[
        bool,
        Meta(
            description="Stop pods of a queue that were made without a gate, while admission was "
            "away: they are deleted. Off: they run, and are charged to their ClusterQueue."
        ),
    ] = False
    skip_reassignment: Annotated[
        bool,
        Meta(
            description="Do not queue the Workload of an evicted single pod again: it goes with "
            "its pod (gate SkipReassignmentForPodOwnedWorkloads; kueue mode). Off: it is queued "
            "again after a preemption or the failure of a node."
        ),
    ] = True
    retention_after_deactivation_s: Annotated[
        int,
        Meta(
            ge=-1,
            le=365 * DAY_S,
            description="Seconds until the pods of a group that a time-out or check deactivated "
            "are deleted; 0: at once, -1: never.",
        ),
    ] = -1


class ActuatorSettings(Section, frozen=True, kw_only=True):
    """Carrying out decisions."""

    decision_keys_file: Annotated[
        str,
        Meta(
            description="Path of the public keys (PEM, Ed25519, one or several) of those whose "
            "decisions are carried out; others are parked. Read again when it changes. Empty: all "
            "are carried out that are in the stream."
        ),
    ] = ""
    max_in_flight: Annotated[
        int, Meta(ge=1, le=1000, description="Requests to the API server at once at most.")
    ] = 64
    max_attempts: Annotated[
        int, Meta(ge=1, le=100, description="Tries of one decision before it is parked.")
    ] = 20
    retry_first_s: Annotated[
        float, Meta(ge=0.01, le=60, description="Seconds before the first retry.")
    ] = 0.5
    retry_ceiling_s: Annotated[
        float, Meta(ge=0.1, le=3600, description="Seconds between retries at most.")
    ] = 30.0
    ack_wait_s: Annotated[
        float,
        Meta(ge=1, le=600, description="Seconds after which a silent actuator loses a decision."),
    ] = 15.0
    events: Annotated[
        Literal["auto", "all", "failures", "none"],
        Meta(
            description="Kubernetes Events to write. failures: warnings, why a pod waits, is "
            "stopped or deleted; all: also that a Workload was made, a pod started, a group "
            "finished, one or more requests per pod; auto: all in kueue mode, where users know "
            "them from Kueue, else failures."
        ),
    ] = "auto"


class ServeSettings(Section, frozen=True, kw_only=True):
    """What `gatelog serve` shows to people: the aggregated API and the console."""

    host: Annotated[str, Meta(description="Address to listen on; 0.0.0.0 in a pod.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0: any.")] = 8443
    cert_file: Annotated[
        str,
        Meta(
            description="Path of a certificate (PEM) made by others, e.g. cert-manager. Empty: we "
            "make our own in state_dir, and write its authority into our APIServices."
        ),
    ] = ""
    key_file: Annotated[str, Meta(description="Path of the key of cert_file (PEM).")] = ""
    service_namespace: Annotated[
        str, Meta(description="Namespace of the Service that the APIServices name.")
    ] = "gatelog-system"
    service_name: Annotated[str, Meta(description="Name of that Service.")] = "gatelog-serve"
    review_cache_s: Annotated[
        float,
        Meta(
            ge=0,
            le=300,
            description="Seconds for which an answer of the API server about somebody's rights is "
            "kept; so long a right that was withdrawn may last.",
        ),
    ] = 10.0
    statement_timeout_s: Annotated[
        float,
        Meta(ge=0.1, le=600, description="Seconds after which a question to the database ends."),
    ] = 5.0
    streams_per_user: Annotated[
        int,
        Meta(
            ge=1,
            le=500,
            description="Watches, and live pages of the console, that one user may have open at a "
            "replica at most, and never more than are then left for others; one more is answered "
            "with 429.",
        ),
    ] = 50
    console_port: Annotated[
        int,
        Meta(
            ge=0,
            le=65535,
            description="Loopback port of the console of `gatelog up`, without login; 0: any free "
            "one.",
        ),
    ] = 0
    connections: Annotated[
        int,
        Meta(ge=1, le=64, description="Connections to the database; more questions wait."),
    ] = 4
    rates_file: Annotated[
        str,
        Meta(
            description="Path of a TOML file of what resources cost, as for `gatelog usage "
            "--rates`. Empty: usage is shown without cost."
        ),
    ] = ""


class ForecastSettings(Section, frozen=True, kw_only=True):
    """When what waits starts (docs/looking-forward.md)."""

    interval_s: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="Seconds from one forecast to the next, such as 60, made beside the "
            "projector (`gatelog up`, `gatelog project`) in a process of its own. 0: none but "
            "those of `gatelog forecast`.",
        ),
    ] = 0.0
    budget_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=3600,
            description="Seconds of processor time after which a forecast begins no further play "
            "(it plays 10 to 60).",
        ),
    ] = 20.0
    label: Annotated[
        str, Meta(description="Label of pods that tells runtimes apart, beside queue and shape.")
    ] = "team"


class HealthSettings(Section, frozen=True, kw_only=True):
    """/healthz, /readyz and /metrics."""

    host: Annotated[str, Meta(description="Address to listen on; 0.0.0.0 in a pod.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0: off.")] = 0
    cert_file: Annotated[
        str,
        Meta(
            description="Path of a certificate (PEM) to serve TLS with; read again when it "
            "changes. Empty: plain HTTP."
        ),
    ] = ""
    key_file: Annotated[str, Meta(description="Path of the key of cert_file (PEM).")] = ""
    report_interval_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=15,
            description="Seconds from one word of a part about how it is to the next "
            "(table replicas, gatelog doctor).",
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
            description="Name of the Kubernetes cluster: 1 to 63 small letters, digits and -, as "
            "in names of objects (it is part of the Leases' names and of NATS subjects).",
        ),
    ] = "default"
    mode: Annotated[
        Literal["builtin", "kueue"],
        Meta(description="Who admits: our own quota queues, or Kueue's scheduler."),
    ] = "builtin"
    shards: Annotated[
        int,
        Meta(
            ge=1,
            le=1024,
            description="Shards of the log by namespace, each with a projector of its own (kueue "
            "mode only: in builtin mode quota is shared by all namespaces).",
        ),
    ] = 1
    state_dir: Annotated[
        str, Meta(description="Directory for embedded storage and generated certificates.")
    ] = ".gatelog"
    event_loop: Annotated[
        EventLoop,
        Meta(
            description="What runs the process's tasks; auto is uvloop where it is installed. "
            "asyncio is slower and changes nothing else: for debugging, or where uvloop is "
            "suspected."
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
