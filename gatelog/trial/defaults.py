"""Defaults that the API server fills into a new pod, as far as a role's hash counts them.

Theory. A tried pod may join existing pods of its group. Pods are alike if a hash is equal over the
spec as the API server completes it: requests that follow from limits, protocols of ports, the
tolerations that its plugin DefaultTolerationSeconds adds, the value of the PriorityClass; empty
fields are left out. Source: Kubernetes, "Admission Controllers in Kubernetes" and the API reference
of Pod.

Invariant: pure; a field of another type than the API's stays as it is, and is refused later.
"""

from collections.abc import Mapping
from typing import Any

from podgroup.model.objects import PriorityClassView

_TROUBLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATED_S = 300
_POINTERS = ("affinity", "securityContext")
"""Fields that are kept although they are empty."""


def completed(spec: Any, classes: Mapping[str, PriorityClassView]) -> Any:
    """Return a pod's spec with what the API server fills in; `classes` are all PriorityClasses."""
    if not isinstance(spec, dict):
        return spec
    found = {k: v for k, v in spec.items() if v not in ({}, [], None) or k in _POINTERS}
    for field in ("containers", "initContainers"):
        if isinstance(found.get(field), list):
            found[field] = [_container(one) for one in found[field]]
    tolerations = found.get("tolerations", [])
    if isinstance(tolerations, list):
        found["tolerations"] = [*tolerations, *_missing(tolerations)]
    chosen = _class(found.get("priorityClassName"), classes)
    found.setdefault("priority", chosen.value if chosen is not None else 0)
    return found


def _container(one: Any) -> Any:
    if not isinstance(one, dict):
        return one
    found = {k: v for k, v in one.items() if v not in ({}, [], None) or k in _POINTERS}
    ports = found.get("ports")
    if isinstance(ports, list):
        found["ports"] = [{"protocol": "TCP", **p} if isinstance(p, dict) else p for p in ports]
    resources = found.get("resources")
    if isinstance(resources, dict):
        limits, requests = resources.get("limits"), resources.get("requests")
        if isinstance(limits, dict) and limits and (requests is None or isinstance(requests, dict)):
            found["resources"] = {**resources, "requests": {**limits, **(requests or {})}}
    return found


def _missing(tolerations: list[Any]) -> list[dict[str, Any]]:
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_S}
        for key in _TROUBLE
        if not any(_covers(one, key) for one in tolerations)
    ]


def _covers(toleration: Any, key: str) -> bool:
    if not isinstance(toleration, dict):
        return False
    keys, effects = (key, "", None), ("NoExecute", "", None)
    return toleration.get("key") in keys and toleration.get("effect") in effects


def _class(name: Any, classes: Mapping[str, PriorityClassView]) -> PriorityClassView | None:
    if isinstance(name, str) and name:
        return classes.get(name)
    defaults = (one for one in classes.values() if one.global_default)
    return min(defaults, key=lambda one: (one.value, one.name), default=None)
