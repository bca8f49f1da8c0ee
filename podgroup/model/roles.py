"""Role hashes: which pods of a group are interchangeable.

Pods of one role have the same shape as far as admission and scheduling go. Kueue names a role
after the first 8 hex digits of a SHA-256 over that shape as Go's ``encoding/json`` writes it,
so the hash can only be reproduced by writing the same bytes (see `podgroup.model.go_shapes`): an
absent list, map or pointer of the shape is ``null`` and not left out, an empty one stays
empty, quantities are canonical.

The variant ``kep-976`` hashes the field list that KEP-976 gives under "Groups of Pods created
beforehand" (non-Kueue labels, images and preemption policy count too), same serialisation.
Labels that differ from pod to pod, such as a completion index, make every pod a role there.

Invariant: equal shapes give equal hashes; a hash annotation on a pod is the truth and is not
recomputed over what admission added to the spec later (`role_of`).
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from podgroup.model import go_shapes
from podgroup.model.names import PREFIX, ROLE_HASH
from podgroup.model.quantities import QuantityError, canonical

Variant = Literal["kueue", "kep-976"]

HASH_LENGTH: Final[int] = 8


class ShapeError(ValueError):
    """A pod spec field of the wrong type; the message names the field (``spec.tolerations``)."""


def role_hash(pod: Mapping[str, Any], variant: Variant = "kueue") -> str:
    """The 8 hex digits that name the role of a pod, computed from its defaulted spec.

    Args:
        pod: a Pod object (or a pod template) as decoded from the API's JSON.
        variant: the field list, see the module.

    Raises:
        ShapeError: a field of the shape has a type the API does not allow.
    """
    spec = pod.get("spec") or {}
    match variant:
        case "kueue":
            shape = {"spec": _shape(spec)}
        case "kep-976":
            shape = {"metadata": {"labels": _foreign_labels(pod)}, "spec": _kep_shape(spec)}
    try:
        text = go_shapes.encode(shape)
    except UnicodeEncodeError as error:
        raise ShapeError(f"spec: holds text that is not valid Unicode: {error}") from None
    return hashlib.sha256(text).hexdigest()[:HASH_LENGTH]


def role_of(pod: Mapping[str, Any], variant: Variant = "kueue") -> str:
    """The pod's role: its annotation where there is one (even empty), else the hash.

    Raises:
        ShapeError: there is no annotation and the spec cannot be hashed.
    """
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    role: str | None = annotations.get(ROLE_HASH)
    return role_hash(pod, variant) if role is None else role


def named_by(label: str, names: Sequence[str]) -> str:
    """The name that a pod's role label means, ``""`` for none.

    The same name, else the only name that differs by a final ``s``: KEP-976's own example labels
    the pods of set ``workers`` as ``worker``.
    """
    if label in names:
        return label
    close = [name for name in names if label and label in (name + "s", name.removesuffix("s"))]
    return close[0] if len(close) == 1 else ""


def _shape(spec: Mapping[str, Any]) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "affinity": _typed(spec, "affinity", go_shapes.Affinity | None),
        "containers": _containers(spec, "containers"),
        "initContainers": _containers(spec, "initContainers"),
        "nodeSelector": _typed(spec, "nodeSelector", dict[str, str] | None),
        "overhead": _quantities(spec.get("overhead"), "spec.overhead"),
        "priority": _typed(spec, "priority", int | None),
        "resourceClaims": _typed(spec, "resourceClaims", list[go_shapes.PodResourceClaim] | None),
        "runtimeClassName": _typed(spec, "runtimeClassName", str | None),
        "tolerations": _typed(spec, "tolerations", list[go_shapes.Toleration] | None),
        "topologySpreadConstraints": _typed(
            spec, "topologySpreadConstraints", list[go_shapes.TopologySpreadConstraint] | None
        ),
    }
    if spec.get("resources") is not None:
        # Pod-level resources came later; left out when unset so that older hashes hold.
        pod_level = _typed(spec, "resources", dict[str, Any])
        shape["resources"] = _quantities(pod_level.get("requests"), "spec.resources.requests")
    return shape


def _kep_shape(spec: Mapping[str, Any]) -> dict[str, Any]:
    shape = _shape(spec)
    for key in ("containers", "initContainers"):
        for described, container in zip(shape[key] or (), spec.get(key) or (), strict=True):
            described["image"] = container.get("image", "")
    shape["preemptionPolicy"] = _typed(spec, "preemptionPolicy", str | None)
    return shape


def _foreign_labels(pod: Mapping[str, Any]) -> dict[str, str]:
    labels = (pod.get("metadata") or {}).get("labels") or {}
    return {key: value for key, value in labels.items() if not key.startswith(PREFIX)}


def _containers(spec: Mapping[str, Any], key: str) -> list[dict[str, Any]] | None:
    containers = _typed(spec, key, list[dict[str, Any]] | None)
    if containers is None:
        return None
    return [_container(c, f"spec.{key}[{i}]") for i, c in enumerate(containers)]


def _container(container: dict[str, Any], path: str) -> dict[str, Any]:
    resources = _typed(container, "resources", dict[str, Any] | None, path) or {}
    return {
        "ports": _typed(container, "ports", list[go_shapes.ContainerPort] | None, path),
        "resources": {
            "requests": _quantities(resources.get("requests"), f"{path}.resources.requests")
        },
    }


def _quantities(quantities: Any, path: str) -> dict[str, str] | None:
    if quantities is None:
        return None
    if not isinstance(quantities, dict):
        raise ShapeError(f"{path}: must be a map of resource names to quantities")
    try:
        return {name: canonical(str(text)) for name, text in quantities.items()}
    except QuantityError as error:
        raise ShapeError(f"{path}: {error}") from None


def _typed(spec: Mapping[str, Any], key: str, kind: Any, path: str = "spec") -> Any:
    try:
        return msgspec.convert(spec.get(key), kind)
    except msgspec.ValidationError as error:
        raise ShapeError(f"{path}.{key}: {error}") from None
