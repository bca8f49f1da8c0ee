"""Workload objects: from commands and live sample pods to metadata and spec as the API gets them.

Theory. The log carries no commands, environment or volumes, so the pod template of a Workload
comes from a live pod of each role: its spec as it is now, gates included, and empty template
metadata, which is what Kueue's own pod integration writes. Where no pod is there yet the command
brings the template that the group declared (KEP-976, story 3). Both served versions are supported;
they differ in how a priority class is named.

Invariant: functions here are pure, never change their inputs, and give the same bytes for the same
command and live object; a plan against its own result is `Unchanged`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from actuator.patches import (
    Json,
    Operations,
    Patch,
    Plan,
    Unchanged,
    add,
    guards,
    pointer,
    remove,
    require,
)
from podgroup.model import names
from podgroup.model.commands import (
    CreateWorkload,
    ObjectRef,
    PodSetSpec,
    PriorityRef,
    UpdateWorkload,
)
from podgroup.model.topology import requested
from podgroup.model.topology_json import request

GROUP = "kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
"""Versions of Kueue's API we can write, best first."""
WITH_STATUS = "v1beta2-with-status"
"""The version of gatelog's own CRD at which a new Workload's status is taken (deploy/crds)."""

_CLASS_GROUPS = {"WorkloadPriorityClass": GROUP, "PriorityClass": "scheduling.k8s.io"}
_CLASS_SOURCES = {
    "WorkloadPriorityClass": "kueue.x-k8s.io/workloadpriorityclass",
    "PriorityClass": "scheduling.k8s.io/priorityclass",
}

_API_VERSIONS = {"Pod": "v1", "StatefulSet": "apps/v1"}

_KEPT = frozenset({"name", "image", "resources", "restartPolicy", "ports"})
"""Fields of a container that stay where its Workload would be too large: fields that are counted,
and fields by which people know it.
"""

Samples = Mapping[str, Mapping[str, Any]]
"""Live pods by podset name."""


def workload(command: CreateWorkload, samples: Samples, version: str) -> Json:
    """Return the Workload to create.

    Raises:
        KeyError: `samples` lacks a podset of the command.
    """
    target = command.target
    meta: Json = {
        "name": target.name,
        "namespace": target.namespace,
        "finalizers": [names.WORKLOAD_FINALIZER],
    }
    owners = [owner_reference(owner, command.controller) for owner in command.owners]
    for key, value in (
        ("labels", dict(command.labels)),
        ("annotations", dict(command.annotations)),
        ("ownerReferences", owners),
    ):
        if value:
            meta[key] = value
    spec: Json = {
        "queueName": command.queue,
        "podSets": [
            pod_set(item, samples.get(item.name), topology=command.topology)
            for item in command.pod_sets
        ],
        "priority": command.priority,
        **priority_fields(command.priority_ref, version),
    }
    if command.max_execution_s is not None:
        spec["maximumExecutionTimeSeconds"] = command.max_execution_s
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Workload",
        "metadata": meta,
        "spec": spec,
    }


def pod_set(item: PodSetSpec, sample: Mapping[str, Any] | None, *, topology: bool = True) -> Json:
    """Return one entry of spec.podSets, with the template of a live pod or the declared template.

    Raises:
        KeyError: the podset has neither.
    """
    if item.template:
        spec = json.loads(item.template)
        template = {"metadata": {}, "spec": spec}
        declared: Json = {"name": item.name, "count": item.count, "template": template}
        asked = request(item.topology)
        return {**declared, "topologyRequest": asked} if asked else declared
    if sample is None:
        raise KeyError(item.name)
    found: Json = {
        "name": item.name,
        "count": item.count,
        "template": {"metadata": {}, "spec": template_spec(sample["spec"])},
    }
    asked = request(item.topology) or (topology_request(sample) if topology else {})
    if asked:
        found["topologyRequest"] = asked
    return found


def template_spec(spec: Mapping[str, Any]) -> Json:
    """Return a pod spec in which each container names a variable once, with its last value.

    Pods may repeat a variable, Workloads may not: `env` is a map by name in their schema.
    """
    copy: Json = dict(spec)
    for key in ("initContainers", "containers"):
        if copy.get(key):
            copy[key] = [_named_once(container) for container in copy[key]]
    return copy


def trimmed(body: Json) -> Json:
    """Return a Workload whose templates lack fields that are not counted, with a note of that.

    For a mirror that would be too large for the API server otherwise: the pods themselves have
    their env, args, volumes and so on.
    """
    meta: Json = body["metadata"]
    notes = {**(meta.get("annotations") or {}), names.TEMPLATE: names.TRIMMED}
    spec: Json = {**body["spec"], "podSets": _trimmed(body["spec"]["podSets"])}
    return {**body, "metadata": {**meta, "annotations": notes}, "spec": spec}


def _trimmed(pod_sets: Sequence[Json]) -> list[Json]:
    found = []
    for item in pod_sets:
        spec: Json = {k: v for k, v in item["template"]["spec"].items() if k != "volumes"}
        for key in ("initContainers", "containers"):
            if spec.get(key):
                spec[key] = [{k: v for k, v in c.items() if k in _KEPT} for c in spec[key]]
        found.append({**item, "template": {**item["template"], "spec": spec}})
    return found


def heaviest(body: Mapping[str, Any]) -> str:
    """Say how large a Workload is, and which fields take most."""
    sizes: dict[str, int] = {}
    for item in body["spec"]["podSets"]:
        spec = item["template"]["spec"]
        where = f"template of podset {item['name']}, "
        for key in ("initContainers", "containers"):
            for number, container in enumerate(spec.get(key) or ()):
                for name, value in container.items():
                    sizes[f"{where}{key}[{number}].{name}"] = _bytes(value)
        for name, value in spec.items():
            if name not in ("initContainers", "containers"):
                sizes[f"{where}{name}"] = _bytes(value)
    for name, value in body["metadata"].items():
        sizes[f"metadata.{name}"] = _bytes(value)
    most = max(sizes, key=lambda name: (sizes[name], name))
    return f"it takes {_bytes(body)} bytes, {sizes[most]} of them for {most}"


def _bytes(value: object) -> int:
    return len(json.dumps(value, separators=(",", ":")).encode())


def _named_once(container: Json) -> Json:
    variables = container.get("env")
    if not variables:
        return container
    last = {variable["name"]: at for at, variable in enumerate(variables)}
    named = [one for at, one in enumerate(variables) if last[one["name"]] == at]
    return {**container, "env": named}


def topology_request(pod: Mapping[str, Any]) -> Json:
    """Return spec.podSets[].topologyRequest, or {} if the pod does not wait for a topology.

    Without the topology gate Kueue could not place the pod after admission, so none is asked for.
    """
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
    if names.TOPOLOGY_GATE not in gates:
        return {}
    return request(requested(pod["metadata"].get("annotations") or {}))


def owner_reference(owner: ObjectRef, controller: bool = False) -> Json:
    """Return an owner reference; only the controlling one blocks the owner's deletion."""
    found: Json = {
        "apiVersion": _API_VERSIONS.get(owner.kind, f"{GROUP}/{VERSIONS[0]}"),
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    }
    if controller:
        found |= {"controller": True, "blockOwnerDeletion": True}
    return found


def priority_fields(ref: PriorityRef | None, version: str) -> Json:
    """Return the fields of spec that name the priority class, {} for none."""
    if ref is None:
        return {}
    if version == "v1beta1":
        return {
            "priorityClassName": ref.name,
            "priorityClassSource": _CLASS_SOURCES[ref.kind],
        }
    reference = {"group": _CLASS_GROUPS[ref.kind], "kind": ref.kind, "name": ref.name}
    return {"priorityClassRef": reference}


def ours(command: CreateWorkload, live: Mapping[str, Any]) -> bool:
    """Return whether an existing Workload is the one that this command would have created.

    Single pods: controlled by the same pod (by uid). Groups: marked as a group's Workload, with
    the same podsets and counts.
    """
    meta = live["metadata"]
    if command.controller:
        wanted = {owner.uid for owner in command.owners}
        owners = meta.get("ownerReferences") or ()
        return any(ref.get("controller") and ref.get("uid") in wanted for ref in owners)
    marked = (meta.get("annotations") or {}).get(names.IS_GROUP_WORKLOAD) == "true"
    return marked and _counts(live) == sorted((p.name, p.count) for p in command.pod_sets)


def made_for(command: CreateWorkload, live: Mapping[str, Any]) -> bool:
    """Return whether this command made an existing Workload: they have an owner in common.

    Pods have one life, so a Workload of an earlier life of the group has none in common. To wait
    until our own Workload goes would be to wait for ever: only a later command deletes it.
    """
    owners = {ref.get("uid") for ref in live["metadata"].get("ownerReferences") or ()}
    return any(owner.uid in owners for owner in command.owners)


def _counts(live: Mapping[str, Any]) -> list[tuple[str, int]]:
    pod_sets = live.get("spec", {}).get("podSets") or ()
    return sorted((p["name"], p.get("count", 1)) for p in pod_sets)


def update(
    command: UpdateWorkload, live: Mapping[str, Any], samples: Samples, version: str
) -> Plan:
    """Return what `command` means for a Workload that was just read."""
    spec: Json = {}
    if command.queue is not None:
        spec["queueName"] = command.queue
    if command.pod_sets is not None:
        spec["podSets"] = [pod_set(item, samples.get(item.name)) for item in command.pod_sets]
        if (live["metadata"].get("annotations") or {}).get(names.TEMPLATE) == names.TRIMMED:
            spec["podSets"] = _trimmed(spec["podSets"])
    if command.priority is not None:
        spec["priority"] = command.priority
    if command.active is not None:
        spec["active"] = command.active
    spec |= priority_fields(command.priority_ref, version)
    live_spec = live.get("spec") or {}
    changes: Operations = [
        add(pointer("spec", key), value)
        for key, value in spec.items()
        if live_spec.get(key) != value
    ]
    changes += _bound_execution(command.max_execution_s, live_spec)
    changes += _add_labels(command.labels, live["metadata"].get("labels"))
    changes += _gate_by(command.gated_by, live["metadata"].get("annotations"))
    owners = live["metadata"].get("ownerReferences")
    changes += _add_owners(command.add_owners, owners, controller=command.controller)
    return Patch([*guards(live), *changes]) if changes else Unchanged()


def _bound_execution(seconds: int | None, live_spec: Mapping[str, Any]) -> Operations:
    key = "maximumExecutionTimeSeconds"
    if seconds is None or live_spec.get(key, 0) == seconds:
        return []
    path = pointer("spec", key)
    return [add(path, seconds)] if seconds else [remove(path)]


def _add_labels(wanted: Mapping[str, str], live: Mapping[str, str] | None) -> Operations:
    new = {key: value for key, value in wanted.items() if (live or {}).get(key) != value}
    if new and not live:
        return [add("/metadata/labels", new)]
    return [add(pointer("metadata", "labels", key), value) for key, value in new.items()]


def _gate_by(names_left: str | None, live: Mapping[str, str] | None) -> Operations:
    key = names.ADMISSION_GATED_BY
    known = (live or {}).get(key, "")
    if names_left is None or not known or names_left == known:
        return []  # Kueue lets nothing be added
    path = pointer("metadata", "annotations", key)
    return [add(path, names_left)] if names_left else [remove(path)]


def _add_owners(
    wanted: Sequence[ObjectRef],
    live: Sequence[Mapping[str, Any]] | None,
    *,
    controller: bool = False,
) -> Operations:
    known = {reference.get("uid") for reference in live or ()}
    new: Operations = []
    for owner in wanted:
        if owner.uid not in known:
            known.add(owner.uid)
            new.append(owner_reference(owner, controller))
    path = "/metadata/ownerReferences"
    if new and not live:
        return [add(path, new)]
    return [add(path + "/-", reference) for reference in new]


def without_finalizer(live: Mapping[str, Any]) -> Plan:
    """Return the patch that takes our finalizer out of a Workload that was just read.

    Custom resources know no strategic merge, so the entry is named by its index and tested.
    """
    finalizers: Sequence[str] = live["metadata"].get("finalizers") or ()
    if names.WORKLOAD_FINALIZER not in finalizers:
        return Unchanged()
    path = pointer("metadata", "finalizers", finalizers.index(names.WORKLOAD_FINALIZER))
    uid = live["metadata"]["uid"]
    tests = [require("/metadata/uid", uid), require(path, names.WORKLOAD_FINALIZER)]
    return Patch([*tests, remove(path)])
