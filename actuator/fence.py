"""The fence: what a command may not do, even if it is signed.

Theory. A decision may come from a client that has the projector's key, so the fence also bounds
what a command may touch. `forbidden` looks at the command: its kind fits, its names are names and
no paths, it removes gates of ours only, and it puts no identity on a pod that would move the pod to
another queue or group. `outside` looks at the pod: it must name a queue, or bear our label or
finalizer. For ungating, most of the work, the API server tests this in the patch itself; before a
pod is stopped, deleted or labelled again it is read, unless its uid was seen inside before.

Invariant: no request changes or deletes a pod that is known to be outside, and a pod is deleted
only once it is known to be inside.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from podgroup.model.commands import (
    AnyCommand,
    CreateWorkload,
    ObjectRef,
    UngatePod,
    UpdateWorkload,
)
from podgroup.model.names import (
    ADMISSION_GATE,
    ELASTIC_JOB_GATE,
    GROUP_NAME,
    MANAGED_LABEL,
    MANAGED_VALUE,
    POD_FINALIZER,
    PREBUILT_WORKLOAD,
    PREFIX,
    PRIORITY_CLASS,
    QUEUE_NAME,
    TOPOLOGY_GATE,
    is_dns_label,
    is_dns_subdomain,
)

MAX_KNOWN: Final = 50_000
"""Pods that are remembered as inside, the least recently seen go first; some 150 bytes each."""
_GATES: Final = frozenset((ADMISSION_GATE, TOPOLOGY_GATE, ELASTIC_JOB_GATE))
_IDENTITY: Final = frozenset(
    (QUEUE_NAME, MANAGED_LABEL, GROUP_NAME, PRIORITY_CLASS, PREBUILT_WORKLOAD)
)
"""Labels and annotations that say whose a pod is: only its owner writes them."""
_OURS: Final = (PREFIX, "gatelog.io/")


class Known:
    """Uids of pods that were seen inside: a pod of ours stays ours while we write to it."""

    def __init__(self) -> None:
        self._uids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids

    def add(self, uid: str) -> None:
        """Remember a pod."""
        self._uids[uid] = None
        self._uids.move_to_end(uid)
        if len(self._uids) > MAX_KNOWN:
            self._uids.popitem(last=False)


def forbidden(command: AnyCommand, *, labels_of_checks: bool) -> str:
    """Return why a command is never carried out, "" if it may be.

    `labels_of_checks`: admission checks may want labels and annotations of any name on pods, as
    with Kueue; else a command puts only ours there, or those that the Workload it names asks for
    (`unasked`).
    """
    target = command.target
    kind = command.about.kind
    if kind and target.kind != kind:
        return f"{command.action} is for a {kind}, not for a {target.kind}"
    if kind == "Pod" and not target.uid:
        return "it names no uid: a pod is written only if it is the one that was decided about"
    for ref in _refs(command):
        if not _named(ref):
            return f"{ref.kind} {ref.namespace!r}/{ref.name!r} is no name of an object"
    if isinstance(command, UngatePod):
        return _beyond_ungating(command, labels_of_checks)
    return ""


def strange_keys(command: UngatePod) -> bool:
    """Return whether a command puts keys on a pod that only a check can have asked for."""
    return bool(command.workload) and any(
        not key.startswith(_OURS) for key in (*command.labels, *command.annotations)
    )


def unasked(command: UngatePod, workload: Mapping[str, Any]) -> str:
    """Return what a command puts on a pod that no ready check of its Workload wants, "" if nothing.

    A check's state is written by its controller, which may put anything on the pods it lets start.
    """
    asked: dict[str, set[tuple[str, str]]] = {"labels": set(), "annotations": set()}
    for check in (workload.get("status") or {}).get("admissionChecks") or ():
        if check.get("state") == "Ready":
            for update in check.get("podSetUpdates") or ():
                for kind, found in asked.items():
                    found.update((update.get(kind) or {}).items())
    for kind, wanted in (("labels", command.labels), ("annotations", command.annotations)):
        for key, value in wanted.items():
            if not key.startswith(_OURS) and (key, value) not in asked[kind]:
                return f"no ready admission check of Workload {command.workload} wants {kind} {key}"
    return ""


def outside(pod: Mapping[str, Any]) -> str:
    """Return why a pod is not ours, "" if it is."""
    meta = pod.get("metadata") or {}
    labels = meta.get("labels") or {}
    if labels.get(QUEUE_NAME) or labels.get(MANAGED_LABEL) == MANAGED_VALUE:
        return ""
    if POD_FINALIZER in (meta.get("finalizers") or ()):
        return ""
    return (
        f"outside of the fence: the pod names no queue ({QUEUE_NAME}), is not labelled "
        f"{MANAGED_LABEL} and does not carry finalizer {POD_FINALIZER}"
    )


def _refs(command: AnyCommand) -> Iterator[ObjectRef]:
    yield command.target
    for event in command.events:
        if event.on is not None:
            yield event.on
    if isinstance(command, CreateWorkload | UpdateWorkload):
        for pod_set in command.pod_sets or ():
            if pod_set.sample is not None:
                yield pod_set.sample


def _named(ref: ObjectRef) -> bool:
    """Return whether namespace and name are valid: they become parts of a path."""
    scoped = bool(ref.namespace) or ref.kind in ("Pod", "Workload")
    return is_dns_subdomain(ref.name) and (not scoped or is_dns_label(ref.namespace))


def _beyond_ungating(command: UngatePod, labels_of_checks: bool) -> str:
    strange = sorted(set(command.gates) - _GATES)
    if strange:
        return f"gate {strange[0]!r} is not ours to take away"
    for kind, wanted in (("label", command.labels), ("annotation", command.annotations)):
        for key in wanted:
            others = labels_of_checks or bool(command.workload)
            if key in _IDENTITY or not (others or key.startswith(_OURS)):
                return f"{kind} {key!r} is not ours to put on a pod"
    replaced = [key for key in command.replaces if not key.startswith(_OURS)]
    return f"annotation {replaced[0]!r} is not ours to replace" if replaced else ""
