"""Which fields a Pod has: a typed API drops the others.

Theory: the server decodes a pod into a struct, so a misspelt field vanishes (with a warning, or a
refusal when validation is strict). Top level, spec and containers are checked, which is where
people and controllers misspell.

Invariant: ``pruned`` returns the same object when nothing is unknown.
"""

from typing import Any

from simcluster.errors import Obj

_TOP = frozenset({"kind", "apiVersion", "metadata", "spec", "status"})
_SPEC = frozenset(
    [
        "volumes",
        "initContainers",
        "containers",
        "ephemeralContainers",
        "restartPolicy",
        "terminationGracePeriodSeconds",
        "activeDeadlineSeconds",
        "dnsPolicy",
        "nodeSelector",
        "serviceAccountName",
        "serviceAccount",
        "automountServiceAccountToken",
        "nodeName",
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "shareProcessNamespace",
        "securityContext",
        "imagePullSecrets",
        "hostname",
        "subdomain",
        "affinity",
        "schedulerName",
        "tolerations",
        "hostAliases",
        "priorityClassName",
        "priority",
        "dnsConfig",
        "readinessGates",
        "runtimeClassName",
        "enableServiceLinks",
        "preemptionPolicy",
        "overhead",
        "topologySpreadConstraints",
        "setHostnameAsFQDN",
        "os",
        "hostUsers",
        "schedulingGates",
        "resourceClaims",
        "resources",
        "hostnameOverride",
        "workloadRef",
        "schedulingGroup",
    ]
)
_CONTAINER = frozenset(
    [
        "name",
        "image",
        "command",
        "args",
        "workingDir",
        "ports",
        "envFrom",
        "env",
        "resources",
        "resizePolicy",
        "restartPolicy",
        "restartPolicyRules",
        "volumeMounts",
        "volumeDevices",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "imagePullPolicy",
        "securityContext",
        "stdin",
        "stdinOnce",
        "tty",
    ]
)


def _kept(value: Obj, known: frozenset[str], at: str, unknown: list[str]) -> Obj:
    if value.keys() <= known:
        return value
    unknown.extend(f"{at}{key}" for key in value if key not in known)
    return {key: child for key, child in value.items() if key in known}


def pruned(pod: Obj) -> tuple[Obj, list[str]]:
    """The pod without unknown fields, and their paths."""
    unknown: list[str] = []
    found = _kept(pod, _TOP, "", unknown)
    spec: Any = found.get("spec")
    if not isinstance(spec, dict):
        return found, unknown
    kept = _kept(spec, _SPEC, "spec.", unknown)
    for name in ("initContainers", "containers"):
        items: Any = kept.get(name)
        if not isinstance(items, list) or not all(isinstance(i, dict) for i in items):
            continue
        clean = [
            _kept(item, _CONTAINER, f"spec.{name}[{i}].", unknown) for i, item in enumerate(items)
        ]
        if any(a is not b for a, b in zip(clean, items, strict=True)):
            kept = {**kept, name: clean}
    return (found if kept is spec else {**found, "spec": kept}), unknown
