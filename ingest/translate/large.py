"""Pods that take much memory: fields that users can make large are left out, the largest first.

Theory. Fields beyond the memory that a pod may take (`MAX_POD_BYTES`) are left out and named; the
group of such a pod waits (reason PodTooLarge), because the nodes that suit it cannot be known. Its
requests, phase and deletion are known whatever is written on it.

Invariant: a pod from `fitting` takes at most `MAX_POD_BYTES` beyond a light pod.
"""

from typing import Any, Final

from msgspec.structs import replace

from podgroup.model.keys import is_ours
from podgroup.model.names import PREFIX
from podgroup.model.objects import PodView
from podgroup.model.remembering import size_of
from podgroup.model.weight import OWN, SHAPE, own_weight, shape_weight

MAX_POD_BYTES: Final = 256 * 1024
"""Bytes of memory that a pod's view may take; a list of 2,000 host names takes half of it."""
MOST_KEPT: Final = 16
"""Entries that stay of a list or map that is left out, where some must stay."""

PATHS: Final = {
    "node_terms": "spec.affinity",
    "tolerations": "spec.tolerations",
    "node_selector": "spec.nodeSelector",
    "requests": "spec.containers[*].resources.requests",
    "resource_claims": "spec.resourceClaims",
    "sets": "metadata.annotations[kueue.x-k8s.io/pod-group-sets]",
    "labels": "metadata.labels",
    "annotations": "metadata.annotations",
    "finalizers": "metadata.finalizers",
    "owners": "metadata.ownerReferences",
    "gates": "spec.schedulingGates",
    "conditions": "status.conditions",
    "ends": "status.containerStatuses",
    "waiting": "status.containerStatuses[*].state",
}


def fitting(view: PodView) -> PodView:
    """Return a pod's view, without what makes it take too much memory."""
    size = own_weight(view) + shape_weight(view)
    if size <= MAX_POD_BYTES:
        return view
    sizes = {name: size_of(getattr(view, name)) for name in (*SHAPE, *OWN)}
    left_out: dict[str, Any] = {}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        if size <= MAX_POD_BYTES:
            break
        left_out[name] = _least(name, getattr(view, name))
        size -= sizes[name] - size_of(left_out[name])
    if "resource_claims" in left_out:
        view = replace(view, generated_claims=())
    named = ", ".join(f"{PATHS[name]} ({sizes[name] // 1024} KiB)" for name in left_out)
    said = (
        f"{named} would take too much memory, gatelog gives a pod {MAX_POD_BYTES // 1024} KiB: say "
        "less there"
    )
    return replace(view, **left_out, too_large=said)


def _least(name: str, value: Any) -> Any:
    """Return the part of a field that is always kept: whose the pod is, and its amounts."""
    match name:
        case "labels" | "annotations":
            ours = [(key, text) for key, text in value.items() if is_ours(key)]
            return dict(sorted(ours, key=lambda pair: len(pair[1]))[: 4 * MOST_KEPT])
        case "requests":
            first = sorted(value, key=lambda key: ("/" in key, key))[: 4 * MOST_KEPT]
            return {key: value[key] for key in first}
        case "finalizers" | "gates":
            kept = sorted(value, key=lambda text: (not text.startswith(PREFIX), text))
            return tuple(kept[:MOST_KEPT])
        case "node_selector":
            return {}
        case "conditions" | "ends" | "waiting" | "owners":
            return value[:MOST_KEPT]
        case _:
            return ()
