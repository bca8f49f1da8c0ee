"""Patches of pods: what a command means for the object as it is, as bytes the API server checks.

Theory. A patch carries its own precondition, so that nothing can slip between reading and writing.
Three forms are used, each where it is exact:

    JSON patch (RFC 6902)   ungating; `test` operations compare the uid and the resource version, or
                            (`ungate_unread`) every single value the patch relies on
    strategic merge         the label by which pods are watched, and finalizers:
                            `$deleteFromPrimitiveList` takes our entry out of the list and leaves
                            those of others (kueue#3899), `metadata.uid` is the guard.
                            Conditions, which are merged by type: a repetition changes nothing, and
                            it takes the API server a third less than a server-side apply

A key that is already there with another value is a conflict and never overwritten: pods may be
admitted with another controller's node selector or labels, and only a person can decide between
them.

Invariant: functions here are total and pure; applying a patch twice equals applying it once.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from msgspec import Struct

from podgroup.model.commands import ObjectRef, ReportPod, StopPod, UngatePod
from podgroup.model.names import (
    ADMITTED_CONDITION,
    MANAGED_LABEL,
    MANAGED_VALUE,
    POD_FINALIZER,
    TERMINATION_TARGET,
)
from podgroup.model.objects import Toleration

Json = dict[str, Any]
Operations = list[Json]


class Patch(Struct, frozen=True):
    """Operations of a JSON patch, to be sent as they are."""

    operations: Operations


class Unchanged(Struct, frozen=True):
    """Nothing to write: the object already is as the command wants it."""


class Conflict(Struct, frozen=True):
    """The object has other values where the command wants its own; `message` names them all."""

    message: str


Plan = Patch | Unchanged | Conflict


@lru_cache(maxsize=1024)
def pointer(*parts: str | int) -> str:
    """Return the JSON pointer (RFC 6901) of a path."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def require(path: str, value: Any) -> Json:
    """Return the operation that lets the patch pass only if `value` is at `path`."""
    return {"op": "test", "path": path, "value": value}


def add(path: str, value: Any) -> Json:
    """Return the operation that puts `value` at `path`."""
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> Json:
    """Return the operation that removes the value at `path`."""
    return {"op": "remove", "path": path}


_UNTRACK: Operations = [add("/metadata/managedFields", [{}])]
"""How a client clears managedFields.
https://kubernetes.io/docs/reference/using-api/server-side-apply/#clearing-managedfields
"""


def guards(live: Mapping[str, Any]) -> Operations:
    """Return the tests that pin an object that was just read: same life, same version."""
    meta = live["metadata"]
    return [
        require("/metadata/uid", meta["uid"]),
        require("/metadata/resourceVersion", meta["resourceVersion"]),
    ]


def gates_of(pod: Mapping[str, Any]) -> list[str]:
    """Return the names of a pod's scheduling gates, in their order."""
    return [gate["name"] for gate in pod.get("spec", {}).get("schedulingGates") or ()]


def ungate(command: UngatePod, pod: Mapping[str, Any], *, untrack: bool = False) -> Plan:
    """Return the plan for `command` on a pod that was just read.

    A pod without the gates is left alone, whatever else differs: it may be scheduled, and its
    selector is frozen then (KEP-3521). `untrack` as in `ungate_unread`.
    """
    gates = gates_of(pod)
    present = [index for index, gate in enumerate(gates) if gate in command.gates]
    if not present:
        return Unchanged()
    clashes = list(_clashes(command, pod))
    if clashes:
        return Conflict("; ".join(clashes))
    operations = guards(pod)
    # From the back, so that the indices of the gates still to come stay what they were.
    operations += [remove(pointer("spec", "schedulingGates", index)) for index in present[::-1]]
    for path, wanted in _maps(command):
        operations += _merge_map(pod, path, wanted, command.replaces)
    operations += _append_tolerations(pod, command.tolerations)
    return Patch(operations + _UNTRACK if untrack else operations)


def may_untrack(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod's managedFields may be cleared: no client applied the pod server-side.

    An apply is compared with its entry. The API server puts entries of applies first.
    """
    entries = pod["metadata"].get("managedFields")
    return bool(entries) and entries[0].get("operation") == "Update"


def ungate_unread(
    command: UngatePod, *, annotated: bool = True, untrack: bool = False
) -> Operations | None:
    """Return a patch that needs no look at the pod first, or None if there cannot be one.

    It applies exactly if the pod is labelled as managed (`fence`), has these gates and no others,
    in this order, and none of the keys that it adds, and (unless `annotated`) no annotation at all;
    otherwise the API server answers 422 and writes nothing, and the caller reads the pod and uses
    `ungate`. (A `test` for null holds for a missing key, but not below a missing object.)
    Tolerations cannot be tested for absence from a list, so a command with tolerations always reads
    first.

    `untrack` clears managedFields, of a pod that `may_untrack`: from then on the API server does
    not compute with each write which manager owns which field, which is half of what a patch of a
    pod costs.
    """
    if command.tolerations or not command.gates:
        return None
    gates = "/spec/schedulingGates"
    operations = [
        require("/metadata/uid", command.target.uid),
        require(pointer("metadata", "labels", MANAGED_LABEL), MANAGED_VALUE),
        require(gates, [{"name": name} for name in command.gates]),
        remove(gates),
    ]
    if untrack:
        operations += [require(pointer("metadata", "managedFields", 0, "operation"), "Update")]
        operations += _UNTRACK
    for parent, wanted in (("labels", command.labels), ("annotations", command.annotations)):
        if wanted and parent == "annotations" and not annotated:
            path = pointer("metadata", parent)
            operations += [require(path, None), add(path, dict(wanted))]
            continue
        for key, value in wanted.items():
            path = pointer("metadata", parent, key)
            operations += [require(path, None), add(path, value)]
    if command.node_selector:
        path = pointer("spec", "nodeSelector")
        operations += [require(path, None), add(path, dict(command.node_selector))]
    return operations


def without_finalizer(uid: str, finalizer: str = POD_FINALIZER) -> Json:
    """Return the strategic merge patch that takes one finalizer out, if it is there."""
    return {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [finalizer]}}


def managed_again(uid: str) -> Json:
    """Return the strategic merge patch that puts the label back by which pods are watched."""
    return {"metadata": {"uid": uid, "labels": {MANAGED_LABEL: MANAGED_VALUE}}}


def termination_target(command: StopPod, at: datetime) -> Json:
    """Return the merge into `pods/status`: the condition that says why the pod is stopped.

    `at` is the time of the decision, so that a repetition says the very same.
    """
    return _condition(command.target, TERMINATION_TARGET, "True", command, at)


def admitted_condition(command: ReportPod, at: datetime) -> Json:
    """Return the merge into `pods/status`: why the pod waits, or that it no longer does."""
    return _condition(command.target, ADMITTED_CONDITION, command.status, command, at)


def _condition(
    target: ObjectRef, kind: str, status: str, said: StopPod | ReportPod, at: datetime
) -> Json:
    condition = {
        "type": kind,
        "status": status,
        "reason": said.reason,
        "message": said.message,
        "lastTransitionTime": seconds(at),
    }
    return {"metadata": {"uid": target.uid}, "status": {"conditions": [condition]}}


def delete_options(uid: str, grace_s: int | None = None) -> Json:
    """Return DeleteOptions that spare a successor of the same name ("" for no precondition).

    `grace_s` is the grace period in seconds, None for the object's own.
    """
    options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    return options


def seconds(at: datetime) -> str:
    """Return a time as metav1.Time writes it: UTC, whole seconds."""
    # strftime leaves out the leading zeros of a year below 1000.
    return at.astimezone(UTC).replace(tzinfo=None, microsecond=0).isoformat() + "Z"


def toleration(view: Toleration) -> Json:
    """Return a toleration as the API writes it."""
    written = {
        "key": view.key,
        "operator": view.operator,
        "value": view.value,
        "effect": view.effect,
    }
    found: Json = {key: value for key, value in written.items() if value}
    if view.seconds is not None:
        found["tolerationSeconds"] = view.seconds
    return found


def _maps(command: UngatePod) -> Iterator[tuple[tuple[str, str], Mapping[str, str]]]:
    yield ("metadata", "labels"), command.labels
    yield ("metadata", "annotations"), command.annotations
    yield ("spec", "nodeSelector"), command.node_selector


def _clashes(command: UngatePod, pod: Mapping[str, Any]) -> Iterator[str]:
    for (part, name), wanted in _maps(command):
        live = pod[part].get(name) or {}
        for key, value in wanted.items():
            gives_way = name == "annotations" and key in command.replaces
            if key in live and live[key] != value and not gives_way:
                yield (
                    f"{part}.{name}[{key!r}] is {live[key]!r} but {value!r} is wanted: "
                    "set by the pod's creator or by another controller"
                )


def _merge_map(
    pod: Mapping[str, Any],
    path: tuple[str, str],
    wanted: Mapping[str, str],
    replaces: tuple[str, ...],
) -> Iterator[Json]:
    part, name = path
    live = pod[part].get(name)
    # Other differences are conflicts, found before; "add" replaces an old value.
    new = {
        key: value
        for key, value in wanted.items()
        if key not in (live or {}) or (key in replaces and (live or {})[key] != value)
    }
    if not new:
        return
    if not live:
        yield add(pointer(part, name), new)
        return
    for key, value in new.items():
        yield add(pointer(part, name, key), value)


def _append_tolerations(pod: Mapping[str, Any], wanted: tuple[Toleration, ...]) -> Iterator[Json]:
    live = pod["spec"].get("tolerations")
    known = [_normal(found) for found in live or ()]
    new: list[Json] = []
    for item in wanted:
        written = toleration(item)
        if _normal(written) not in known:
            known.append(_normal(written))
            new.append(written)
    if new and not live:
        yield add("/spec/tolerations", new)
        return
    for written in new:
        yield add("/spec/tolerations/-", written)


def _normal(written: Mapping[str, Any]) -> Json:
    """Return a toleration in a normal form: empty fields left out, an empty operator as Equal."""
    found = {key: value for key, value in written.items() if value not in ("", None)}
    found.setdefault("operator", "Equal")
    return found
