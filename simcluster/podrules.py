"""Validation of new pods, and of changes of existing pods.

Theory: the rules that matter for gates are KEP-3521 and KEP-3838: gates may only go; while gated
the node selector may gain keys and required node affinity may be narrowed; once ungated the spec is
frozen except for image, deadline and added tolerations. Texts follow the recorded refusals.

Invariant: ``update_causes(pod, pod)`` is empty.
"""

import difflib
from fractions import Fraction
from typing import Any

import msgspec

from simcluster.errors import Cause, Obj
from simcluster.names import LABEL_TEXT, is_label, is_subdomain, qualified_fault
from simcluster.quantity import QuantityError, parse

FROZEN = (
    "pod updates may not change fields other than "
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_MIRROR = "kubernetes.io/config.mirror"
_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")


def go(value: Any) -> str:
    """A value as the server prints it in a message."""
    return msgspec.json.encode(value, order="sorted").decode()


def create_causes(pod: Obj) -> list[Cause]:
    """Findings in a new pod's spec (metadata is checked elsewhere)."""
    spec = pod["spec"]
    found: list[Cause] = []
    containers = spec.get("containers") or []
    if not containers:
        found.append(Cause.required("spec.containers"))
    found += _containers(containers)
    if spec["restartPolicy"] not in _RESTART:
        shown = go(spec["restartPolicy"])
        found.append(Cause.unsupported("spec.restartPolicy", shown, _RESTART))
    if spec["dnsPolicy"] not in _DNS:
        found.append(Cause.unsupported("spec.dnsPolicy", go(spec["dnsPolicy"]), _DNS))
    for i, container in enumerate(spec.get("initContainers") or ()):
        found += _resources(container.get("resources") or {}, f"spec.initContainers[{i}].resources")
    found += _resources(spec.get("resources") or {}, "spec.resources")
    found += _resources({"limits": spec.get("overhead") or {}}, "spec.overhead")
    found += _gates(spec)
    for key in spec.get("nodeSelector") or {}:
        if fault := qualified_fault(key):
            found.append(Cause.invalid("spec.nodeSelector", go(key), fault))
    name = spec.get("nodeName")
    if name and not is_subdomain(name):
        found.append(Cause.invalid("spec.nodeName", go(name), "must be a valid node name"))
    mirror = (pod["metadata"].get("annotations") or {}).get(_MIRROR)
    if mirror is not None and not name:
        text = "must set spec.nodeName if mirror pod annotation is set"
        found.append(Cause.invalid(f"metadata.annotations[{_MIRROR}]", go(mirror), text))
    return found


def _gates(spec: Obj) -> list[Cause]:
    found: list[Cause] = []
    seen: set[str] = set()
    for i, gate in enumerate(spec.get("schedulingGates") or ()):
        name, at = gate.get("name", ""), f"spec.schedulingGates[{i}]"
        if name in seen:
            found.append(Cause.duplicate(at, go(name)))
        elif fault := qualified_fault(name):
            found.append(Cause.invalid(at, go(name), fault))
        seen.add(name)
    if seen and spec.get("nodeName"):
        text = "cannot be set until all schedulingGates have been cleared"
        found.append(Cause.forbidden("spec.nodeName", text))
    return found


def _containers(containers: list[Obj]) -> list[Cause]:
    found: list[Cause] = []
    seen: set[str] = set()
    for i, container in enumerate(containers):
        at = f"spec.containers[{i}]"
        name = container.get("name", "")
        if not name:
            found.append(Cause.required(f"{at}.name"))
        elif not is_label(name):
            found.append(Cause.invalid(f"{at}.name", go(name), LABEL_TEXT))
        elif name in seen:
            found.append(Cause.duplicate(f"{at}.name", go(name)))
        seen.add(name)
        if not container.get("image"):
            found.append(Cause.required(f"{at}.image"))
        found += _resources(container.get("resources") or {}, f"{at}.resources")
    return found


def _resources(resources: Obj, at: str) -> list[Cause]:
    found: list[Cause] = []
    known: dict[tuple[str, str], Fraction] = {}
    for kind in ("limits", "requests"):
        for name, text in (resources.get(kind) or {}).items():
            try:
                known[kind, name] = parse(str(text))
            except QuantityError as error:
                found.append(Cause.invalid(f"{at}.{kind}[{name}]", go(text), str(error)))
                continue
            if known[kind, name] < 0:
                why = "must be greater than or equal to 0"
                found.append(Cause.invalid(f"{at}.{kind}[{name}]", go(text), why))
    for (kind, name), asked in known.items():
        limit = known.get(("limits", name))
        if kind == "requests" and limit is not None and asked > limit:
            shown = resources["limits"][name]
            why = f"must be less than or equal to {name} limit of {shown}"
            found.append(Cause.invalid(f"{at}.requests", go(resources["requests"][name]), why))
    return found


def update_causes(old: Obj, new: Obj) -> list[Cause]:
    """Findings in a changed spec, in the server's order."""
    before, after = old["spec"], new["spec"]
    if before is after or before == after:
        return []
    found = _added_gates(before, after)
    if found:
        return found
    allowed = dict(after)
    for name in ("containers", "initContainers"):
        allowed[name] = _images_of(before.get(name) or [], after.get(name) or [])
        if not allowed[name] and name not in before:
            del allowed[name]
    for name in ("activeDeadlineSeconds", "schedulingGates"):
        _restore(allowed, before, name)
    if before.get("terminationGracePeriodSeconds", 0) < 0:
        _restore(allowed, before, "terminationGracePeriodSeconds")
    found += _tolerations(before, after)
    _restore(allowed, before, "tolerations")
    if before.get("schedulingGates"):
        found += _while_gated(before, after)
        _restore(allowed, before, "nodeSelector")
        if not found:
            _restore(allowed, before, "affinity")
    if not found and allowed != before:
        found.append(Cause.forbidden("spec", f"{FROZEN}\n{_difference(before, allowed)}"))
    return found


def _restore(allowed: Obj, before: Obj, name: str) -> None:
    if name in before:
        allowed[name] = before[name]
    else:
        allowed.pop(name, None)


def _added_gates(before: Obj, after: Obj) -> list[Cause]:
    old = {gate["name"] for gate in before.get("schedulingGates") or ()}
    return [
        Cause.forbidden(
            f"spec.schedulingGates[{i}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'",
        )
        for i, gate in enumerate(after.get("schedulingGates") or ())
        if gate.get("name") not in old
    ]


def _images_of(before: list[Obj], after: list[Obj]) -> list[Obj]:
    if len(before) != len(after):
        return after
    return [
        {**new, "image": old["image"]} if "image" in old else new
        for old, new in zip(before, after, strict=True)
    ]


def _tolerations(before: Obj, after: Obj) -> list[Cause]:
    # By hash: the server's time for comparing each with each is waited for, not spent (`server`).
    new = {_untimed(one) for one in after.get("tolerations") or ()}
    if all(_untimed(one) in new for one in before.get("tolerations") or ()):
        return []
    text = "existing toleration can not be modified except its tolerationSeconds"
    return [Cause.forbidden("spec.tolerations", text)]


def _untimed(toleration: Obj) -> frozenset[tuple[str, object]]:
    return frozenset(item for item in toleration.items() if item[0] != "tolerationSeconds")


def _while_gated(before: Obj, after: Obj) -> list[Cause]:
    found: list[Cause] = []
    old, new = before.get("nodeSelector") or {}, after.get("nodeSelector") or {}
    if any(new.get(key) != value for key, value in old.items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        found.append(Cause.invalid("spec.nodeSelector", go(new), text))
    found += _affinity(before, after)
    return found


def _terms(spec: Obj) -> list[Obj]:
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node.get(_REQUIRED) or {}
    return required.get("nodeSelectorTerms") or []


def _affinity(before: Obj, after: Obj) -> list[Cause]:
    """Required node affinity may only be narrowed; preferred terms are free (KEP-3838)."""
    old, new = _terms(before), _terms(after)
    at = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if old and len(old) != len(new):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [Cause.invalid(at, go(new), text)]
    for i, (b, a) in enumerate(zip(old, new, strict=False)):
        for part in ("matchExpressions", "matchFields"):
            kept = a.get(part) or []
            if any(item not in kept for item in b.get(part) or ()):
                text = "only additions are allowed (no mutations or deletions)"
                return [Cause.invalid(f"{at}[{i}]", go(a), text)]
    return []


def _difference(before: Obj, after: Obj) -> str:
    """A small unified difference; the server prints its internal struct in the same spirit."""
    left = msgspec.json.format(msgspec.json.encode(before, order="sorted"), indent=1).decode()
    right = msgspec.json.format(msgspec.json.encode(after, order="sorted"), indent=1).decode()
    lines = difflib.unified_diff(left.splitlines(), right.splitlines(), lineterm="", n=3)
    return "\n".join(list(lines)[2:]) + "\n"
