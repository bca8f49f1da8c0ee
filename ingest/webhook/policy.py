"""An installation's policy for the webhook, with the owners that it leaves to others.

A pod made by a Job that Kueue queues is already accounted for through the Job; taking it again
would count it twice. Which kinds that are depends on the cluster: with Kueue beside gatelog it
is the list of frameworks enabled there, with gatelog alone it is empty.

A kind can be *known* without being *enabled*: the walk up the owners goes on through known
kinds (a ReplicaSet on the way to its Deployment) and ends at unknown ones. ``v1 Pod`` is not
known on purpose, other than in Kueue: the workers of a driver pod are members of its group
and are gated by their own label (KEP-976, story 3), not let through because the driver is.

Invariant: a policy is a value; two replicas with the same settings decide alike.
"""

from typing import Final

import msgspec

from podgroup.model.names import DEFAULT_PRIORITY_CLASS, DEFAULT_QUEUE
from podgroup.model.objects import Requirement, Selector
from podgroup.model.roles import Variant

NAMESPACE_NAME_LABEL: Final[str] = "kubernetes.io/metadata.name"
"""The API server keeps this label on every namespace, equal to its name."""

OWN_NAMESPACE: Final[str] = "gatelog-system"
ACTUATOR_USER: Final[str] = f"system:serviceaccount:{OWN_NAMESPACE}:gatelog-actuator"
"""The account under which `deploy/base` runs the actuator."""
SERVICE_ACCOUNT: Final[str] = "system:serviceaccount:"
"""How user names of service accounts begin; any other name is a person's."""
EXCLUDED_NAMESPACES: Final[tuple[str, ...]] = ("kube-system", OWN_NAMESPACE)
MAX_INT32: Final[int] = 2**31 - 1
MAX_GRACE_S: Final[int] = 86_400
"""As deploy/admission-policy has it."""


class OwnerKind(msgspec.Struct, frozen=True):
    """A kind of controller: its API group, and its plural for the path of a GET."""

    group: str
    kind: str
    plural: str


JOB_KINDS: Final[tuple[OwnerKind, ...]] = (
    OwnerKind("batch", "Job", "jobs"),
    OwnerKind("jobset.x-k8s.io", "JobSet", "jobsets"),
    OwnerKind("kubeflow.org", "MPIJob", "mpijobs"),
    OwnerKind("kubeflow.org", "PyTorchJob", "pytorchjobs"),
    OwnerKind("kubeflow.org", "TFJob", "tfjobs"),
    OwnerKind("kubeflow.org", "XGBoostJob", "xgboostjobs"),
    OwnerKind("kubeflow.org", "PaddleJob", "paddlejobs"),
    OwnerKind("kubeflow.org", "JAXJob", "jaxjobs"),
    OwnerKind("trainer.kubeflow.org", "TrainJob", "trainjobs"),
    OwnerKind("ray.io", "RayJob", "rayjobs"),
    OwnerKind("ray.io", "RayCluster", "rayclusters"),
    OwnerKind("ray.io", "RayService", "rayservices"),
    OwnerKind("sparkoperator.k8s.io", "SparkApplication", "sparkapplications"),
    OwnerKind("workload.codeflare.dev", "AppWrapper", "appwrappers"),
)
"""Kinds for which Kueue has an integration of its own; enabled unless settings say otherwise."""

PASSED_KINDS: Final[tuple[OwnerKind, ...]] = (
    OwnerKind("apps", "Deployment", "deployments"),
    OwnerKind("apps", "StatefulSet", "statefulsets"),
    OwnerKind("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "leaderworkersets"),
    OwnerKind("apps", "ReplicaSet", "replicasets"),
)
"""Kinds the walk passes through without their counting: Kueue queues their pods as pods."""


LABEL_KINDS: Final[tuple[OwnerKind, ...]] = (
    OwnerKind("apps", "Deployment", "deployments"),
    OwnerKind("apps", "StatefulSet", "statefulsets"),
    OwnerKind("batch", "Job", "jobs"),
)
"""Kinds whose own queue label can be copied to their pods (`ingest.webhook.ownerlabels`)."""


class WebhookPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the admission decisions; the defaults suit a cluster with Kueue's core."""

    manage_jobs_without_queue_name: bool = False
    """Take every pod of the selected namespaces, whether or not it names a queue."""

    namespace_selector: Selector = Selector(
        expressions=(
            Requirement(key=NAMESPACE_NAME_LABEL, operator="NotIn", values=EXCLUDED_NAMESPACES),
        )
    )
    """Namespaces that are queued at all; overrides an explicit queue name (kueue, locked on)."""

    enabled_kinds: tuple[OwnerKind, ...] = JOB_KINDS
    """Owner kinds that another controller queues; ``()`` where gatelog is alone."""

    external_kinds: tuple[OwnerKind, ...] = ()
    """Further owner kinds to treat as enabled (Kueue: ``integrations.externalFrameworks``)."""

    label_kinds: tuple[OwnerKind, ...] = ()
    """Kinds whose queue and priority labels are copied to their pod template."""

    owned_kinds: tuple[str, ...] = ()
    """Kinds whose pods make up a group (`ingest.webhook.owned`)."""

    actuator_user: str = ACTUATOR_USER
    """Who alone may take the gate, the finalizer and the managed label off."""

    role_hash: Variant = "kueue"
    """Field list of the role hash."""

    topology_gate: bool = False
    """Add the topology gate too, where Kueue's scheduler assigns topologies: its ungater takes it
    off, and gatelog with its own where none was assigned."""

    annotated_names: bool = True
    """Annotations can name groups and prebuilt Workloads (Kueue gate
    WorkloadIdentifierAnnotations); off: labels alone do."""

    untracked: bool = False
    """Remove managedFields from queued pods (actuator.managed_fields)."""

    default_queue_name: str = DEFAULT_QUEUE
    """LocalQueue that pods without a queue label get where a namespace has it; ``""`` = never."""

    default_priority_class: str = DEFAULT_PRIORITY_CLASS
    """WorkloadPriorityClass set where it exists and the pod names none; ``""`` = never."""

    max_total_count: int = MAX_INT32
    """Largest group accepted, in pods; a podset count is an int32 in the Workload API."""

    max_grace_s: int = MAX_GRACE_S
    """Longest time, in seconds, a pod may ask for (queueing.termination_grace_max_s)."""

    def counts(self, group: str, kind: str) -> bool:
        """Whether an owner of this kind takes its pods out of gatelog's hands."""
        return _find(group, kind, (*self.enabled_kinds, *self.external_kinds)) is not None

    def known(self, group: str, kind: str) -> OwnerKind | None:
        """The kind, when the walk up the owners may go through it."""
        return _find(
            group,
            kind,
            (*self.enabled_kinds, *self.external_kinds, *JOB_KINDS, *PASSED_KINDS),
        )


def _find(group: str, kind: str, kinds: tuple[OwnerKind, ...]) -> OwnerKind | None:
    return next((k for k in kinds if k.group == group and k.kind == kind), None)


def selects(selector: Selector, labels: dict[str, str]) -> bool:
    """Whether a label selector matches (meta/v1 LabelSelector; an empty one matches all).

    Raises:
        ValueError: an expression has an operator that label selectors do not know.
    """
    return all(labels.get(k) == v for k, v in selector.labels.items()) and all(
        _holds(requirement, labels) for requirement in selector.expressions
    )


def selects_by_name_only(selector: Selector) -> bool:
    """Whether a namespace's name alone decides, so that its labels need not be read."""
    keys = {*selector.labels, *(r.key for r in selector.expressions)}
    return keys <= {NAMESPACE_NAME_LABEL}


def _holds(requirement: Requirement, labels: dict[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case other:
            raise ValueError(
                f"namespace selector on {requirement.key!r}: operator {other!r} is not one of "
                "In, NotIn, Exists, DoesNotExist"
            )
