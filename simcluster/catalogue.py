"""Which kinds the stand-in serves, and the short schemas of Kueue's.

Theory: only kinds gatelog or its users touch are listed. Kueue's kinds carry just enough schema to
prune unknown top-level fields, default ``spec.active`` and refuse wrong types, which is what the
recorded answers show.

Invariant: the facts here equal the discovery answers of Kubernetes 1.36 and Kueue v1beta2 for the
kinds listed.
"""

from typing import Any

import msgspec

from simcluster.resources import Resource

_ANY: dict[str, object] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_LIST: dict[str, object] = {"type": "array"}
_TEXT: dict[str, object] = {"type": "string"}
_NUMBER: dict[str, object] = {"type": "integer"}


def _object(**properties: dict[str, object]) -> dict[str, object]:
    return {"type": "object", "properties": properties}


_CONDITIONS: dict[str, object] = {"type": "array", "items": _ANY}
_QUEUE_STATUS: dict[str, object] = _ANY

WORKLOAD_SCHEMA = _object(
    spec={
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            "podSets": {
                "type": "array",
                "items": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "required": ["template"],
                    "properties": {"name": _TEXT, "count": _NUMBER, "template": _ANY},
                },
            },
            "queueName": _TEXT,
            "active": {"type": "boolean", "default": True},
            "priority": _NUMBER,
        },
    },
    status={
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            "conditions": _CONDITIONS,
            "admission": _ANY,
            "reclaimablePods": _LIST,
            "admissionChecks": _LIST,
        },
    },
)
_SPEC_STATUS = _object(spec=_ANY, status=_QUEUE_STATUS)


_ADMISSION = "admissionregistration.k8s.io"
_DRA = "resource.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_WORKLOAD = ("kwl", "kueueworkload", "kueueworkloads")


def _kind(group: str, plural: str, kind: str, *short: str, **facts: Any) -> Resource:
    return Resource(group=group, plural=plural, kind=kind, short_names=short, **facts)


def _wide(group: str, plural: str, kind: str, *short: str, **facts: Any) -> Resource:
    """A kind whose objects belong to no namespace."""
    return _kind(group, plural, kind, *short, namespaced=False, **facts)


def core() -> list[Resource]:
    """The built-in kinds."""
    answered: dict[str, Any] = {"status": True, "returns_object": True}
    kept: dict[str, Any] = {"status": True, "generation": True}
    parts = ("involvedObject", "source")
    crds = {**kept, "unconditional": False}
    return [
        _kind("", "pods", "Pod", "po", generation=True, graceful=True, **answered),
        _wide("", "namespaces", "Namespace", "ns", **answered),
        _wide("", "nodes", "Node", "no", status=True),
        _kind("", "events", "Event", "ev", create_on_update=True, typed_parts=parts),
        _kind("", "configmaps", "ConfigMap", "cm"),
        _kind("", "secrets", "Secret"),
        _kind("", "services", "Service", "svc", status=True),
        _kind("", "serviceaccounts", "ServiceAccount", "sa", returns_object=True),
        _kind("apps", "replicasets", "ReplicaSet", "rs", **kept),
        _kind("apps", "deployments", "Deployment", "deploy", **kept),
        _kind("apps", "statefulsets", "StatefulSet", "sts", **kept),
        _kind("batch", "jobs", "Job", **kept),
        _kind("coordination.k8s.io", "leases", "Lease", unconditional=False, create_on_update=True),
        _kind(_DRA, "resourceclaims", "ResourceClaim", status=True),
        _kind(_DRA, "resourceclaimtemplates", "ResourceClaimTemplate"),
        _wide(_DRA, "deviceclasses", "DeviceClass", generation=True),
        _wide("scheduling.k8s.io", "priorityclasses", "PriorityClass", "pc", generation=True),
        *(
            _wide(_ADMISSION, f"{kind.lower()}s", kind, generation=True)
            for kind in (
                "MutatingWebhookConfiguration",
                "ValidatingWebhookConfiguration",
                "MutatingAdmissionPolicyBinding",
                "ValidatingAdmissionPolicyBinding",
            )
        ),
        *(
            _wide(_ADMISSION, f"{kind.lower()[:-1]}ies", kind, generation=True)
            for kind in ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
        ),
        _wide(_RBAC, "clusterroles", "ClusterRole"),
        _wide(_RBAC, "clusterrolebindings", "ClusterRoleBinding"),
        _kind(_RBAC, "roles", "Role"),
        _kind(_RBAC, "rolebindings", "RoleBinding"),
        _wide("apiregistration.k8s.io", "apiservices", "APIService", status=True),
        _wide(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            *("crd", "crds"),
            **crds,
        ),
    ]


def kueue(versions: tuple[str, ...]) -> list[Resource]:
    """Kueue's kinds in the served versions; the first version is stored.

    Workloads at v1beta2 come with the version of gatelog's CRD at which they keep their status.
    """

    def kind(
        plural: str, name: str, *short: str, schema: dict[str, object] = _SPEC_STATUS, **facts: Any
    ) -> Resource:
        return _kind(
            "kueue.x-k8s.io",
            plural,
            name,
            *short,
            versions=versions,
            custom=True,
            generation=True,
            unconditional=False,
            typed_parts=(),
            schema=schema,
            **{"status": True, "namespaced": False} | facts,
        )

    spec, priority = _object(spec=_ANY), _object(value=_NUMBER, description=_TEXT)
    workload = kind("workloads", "Workload", *_WORKLOAD, schema=WORKLOAD_SCHEMA, namespaced=True)
    if "v1beta2" in versions:
        whole = ("v1beta2-with-status",)
        workload = msgspec.structs.replace(workload, versions=versions + whole, whole=whole)
    return [
        workload,
        kind("localqueues", "LocalQueue", "queue", "queues", "lq", namespaced=True),
        kind("clusterqueues", "ClusterQueue", "cq"),
        kind(
            "resourceflavors",
            "ResourceFlavor",
            "flavor",
            "flavors",
            "rf",
            schema=spec,
            status=False,
        ),
        kind(
            "workloadpriorityclasses", "WorkloadPriorityClass", "wpc", schema=priority, status=False
        ),
        kind("admissionchecks", "AdmissionCheck", "ac"),
        kind("cohorts", "Cohort", "co"),
        kind("topologies", "Topology", "topo", schema=spec, status=False),
    ]
