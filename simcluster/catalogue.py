"""Which kinds the stand-in serves, and the short schemas of Kueue's.

Theory: only kinds gatelog or its users touch are listed. Kueue's kinds carry just enough schema to
prune unknown top-level fields, default ``spec.active`` and refuse wrong types, which is what the
recorded answers show.

Invariant: the facts here equal the discovery answers of Kubernetes 1.36 and Kueue v1beta2 for the
kinds listed.
"""

from __future__ import annotations

from simcluster.resources import Resource

_ANY: dict[str, object] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_LIST: dict[str, object] = {"type": "array"}
_TEXT: dict[str, object] = {"type": "string"}
_NUMBER: dict[str, object] = {"type": "integer"}
_FLAG: dict[str, object] = {"type": "boolean"}


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


def core() -> list[Resource]:
    """The built-in kinds."""
    return [*_first(), *_workloads(), *_leases(), *_policies(), *_access(), *_extensions()]


def _first() -> list[Resource]:
    return [
        Resource(
            group="",
            plural="pods",
            kind="Pod",
            short_names=("po",),
            status=True,
            generation=True,
            returns_object=True,
            graceful=True,
        ),
        Resource(
            group="",
            plural="namespaces",
            kind="Namespace",
            namespaced=False,
            short_names=("ns",),
            status=True,
            returns_object=True,
        ),
        Resource(
            group="",
            plural="nodes",
            kind="Node",
            namespaced=False,
            short_names=("no",),
            status=True,
        ),
        Resource(
            group="",
            plural="events",
            kind="Event",
            short_names=("ev",),
            create_on_update=True,
            typed_parts=("involvedObject", "source"),
        ),
        Resource(group="", plural="configmaps", kind="ConfigMap", short_names=("cm",)),
        Resource(group="", plural="secrets", kind="Secret"),
        Resource(group="", plural="services", kind="Service", short_names=("svc",), status=True),
        Resource(
            group="",
            plural="serviceaccounts",
            kind="ServiceAccount",
            short_names=("sa",),
            returns_object=True,
        ),
    ]


def _leases() -> list[Resource]:
    return [
        Resource(
            group="coordination.k8s.io",
            plural="leases",
            kind="Lease",
            unconditional=False,
            create_on_update=True,
        ),
        Resource(
            group="scheduling.k8s.io",
            plural="priorityclasses",
            kind="PriorityClass",
            namespaced=False,
            short_names=("pc",),
            generation=True,
        ),
    ]


def _extensions() -> list[Resource]:
    return [
        Resource(
            group="apiregistration.k8s.io",
            plural="apiservices",
            kind="APIService",
            namespaced=False,
            status=True,
        ),
        Resource(
            group="apiextensions.k8s.io",
            plural="customresourcedefinitions",
            kind="CustomResourceDefinition",
            namespaced=False,
            short_names=("crd", "crds"),
            status=True,
            generation=True,
            unconditional=False,
        ),
    ]


def _workloads() -> list[Resource]:
    found = [
        ("apps", "replicasets", "ReplicaSet", "rs"),
        ("apps", "deployments", "Deployment", "deploy"),
        ("apps", "statefulsets", "StatefulSet", "sts"),
        ("batch", "jobs", "Job", ""),
    ]
    return [
        Resource(
            group=group,
            plural=plural,
            kind=kind,
            short_names=(short,) if short else (),
            status=True,
            generation=True,
        )
        for group, plural, kind, short in found
    ]


def _policies() -> list[Resource]:
    group = "admissionregistration.k8s.io"
    kinds = (
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicyBinding",
    )
    found = [
        Resource(group=group, plural=f"{k.lower()}s", kind=k, namespaced=False, generation=True)
        for k in kinds
    ]
    for kind in ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"):
        plural = f"{kind.lower()[:-1]}ies"
        found.append(
            Resource(group=group, plural=plural, kind=kind, namespaced=False, generation=True)
        )
    return found


def _access() -> list[Resource]:
    group = "rbac.authorization.k8s.io"
    found = [
        ("clusterroles", "ClusterRole", False),
        ("clusterrolebindings", "ClusterRoleBinding", False),
        ("roles", "Role", True),
        ("rolebindings", "RoleBinding", True),
    ]
    return [
        Resource(group=group, plural=plural, kind=kind, namespaced=namespaced)
        for plural, kind, namespaced in found
    ]


def kueue(versions: tuple[str, ...]) -> list[Resource]:
    """Kueue's kinds in the served versions; the first is the stored one."""

    def kind(
        plural: str,
        name: str,
        namespaced: bool,
        short: tuple[str, ...],
        schema: dict[str, object],
        status: bool = True,
    ) -> Resource:
        return Resource(
            group="kueue.x-k8s.io",
            versions=versions,
            plural=plural,
            kind=name,
            namespaced=namespaced,
            short_names=short,
            status=status,
            custom=True,
            generation=True,
            unconditional=False,
            typed_parts=(),
            schema=schema,
        )

    priority = _object(value=_NUMBER, description=_TEXT)
    return [
        kind(
            "workloads",
            "Workload",
            True,
            ("kwl", "kueueworkload", "kueueworkloads"),
            WORKLOAD_SCHEMA,
        ),
        kind("localqueues", "LocalQueue", True, ("queue", "queues", "lq"), _SPEC_STATUS),
        kind("clusterqueues", "ClusterQueue", False, ("cq",), _SPEC_STATUS),
        kind(
            "resourceflavors",
            "ResourceFlavor",
            False,
            ("flavor", "flavors", "rf"),
            _object(spec=_ANY),
            status=False,
        ),
        kind(
            "workloadpriorityclasses",
            "WorkloadPriorityClass",
            False,
            ("wpc",),
            priority,
            status=False,
        ),
        kind("admissionchecks", "AdmissionCheck", False, ("ac",), _SPEC_STATUS),
        kind("cohorts", "Cohort", False, ("co",), _SPEC_STATUS),
        kind("topologies", "Topology", False, ("topo",), _object(spec=_ANY), status=False),
    ]
