"""The fields of objects of a cluster: those of deploy/crds, and those of older versions.

Theory. An API server drops a field that it does not know, or refuses it where a person asks it to
be strict; a play on a queue without the misspelt line would be trusted. So every field must be in
the schema of its kind, in the installed version, or be an earlier name of Kueue's API.

Invariant: fields of the schemas are never refused here.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from ingest.yamltext import Path
from runtime import manifests

_METADATA = frozenset(
    {
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
_PLAIN: dict[str, dict[str, Any]] = {
    "Namespace": {"spec": {"properties": {"finalizers": {}}}, "status": {}},
    "PriorityClass": {
        "value": {},
        "globalDefault": {},
        "description": {},
        "preemptionPolicy": {},
    },
}
"""Kinds of Kubernetes itself: field -> schema."""
_OLDER: dict[str, frozenset[str]] = {
    "ClusterQueue": frozenset({"cohort", "admissionChecks"}),
}
"""Fields of a spec in other versions of Kueue's API."""


def unknown(kind: str, data: dict[str, Any]) -> Path | None:
    """Return the path of the first field of an object that its kind does not have, if any."""
    top = {"apiVersion": {}, "kind": {}, "metadata": {}, **_fields(kind)}
    for name in data:
        if name not in top:
            return (name,)
    for name in data["metadata"]:
        if name not in _METADATA:
            return "metadata", name
    for name, schema in _fields(kind).items():
        if name == "status" or name not in data:
            continue
        older = _OLDER.get(kind, frozenset()) if name == "spec" else frozenset()
        for path in _unknown(data[name], schema, (name,)):
            if len(path) != 2 or path[1] not in older:
                return path
    return None


def known(kind: str, path: Path) -> list[str]:
    """Return the known fields at the place of an unknown one, by name."""
    if path[0] == "metadata":
        return sorted(_METADATA)
    if len(path) == 1:
        return sorted({"metadata", *_fields(kind)} - {"apiVersion", "kind", "status"})
    schema = _fields(kind)[str(path[0])]
    for step in path[1:-1]:
        schema = schema["items"] if isinstance(step, int) else schema["properties"][step]
    return sorted(schema["properties"])


@cache
def _fields(kind: str) -> dict[str, Any]:
    if kind in _PLAIN:
        return _PLAIN[kind]
    for one in manifests.read("crds"):
        if one["kind"] == "CustomResourceDefinition" and one["spec"]["names"]["kind"] == kind:
            found: dict[str, Any] = {}
            for version in one["spec"]["versions"]:
                found |= version["schema"]["openAPIV3Schema"]["properties"]
            return found
    raise KeyError(kind)  # a watched kind without a definition: a defect


def _unknown(data: Any, schema: dict[str, Any], path: Path) -> Iterator[Path]:
    """Yield fields without a schema; values of another type than it says are not looked at."""
    if isinstance(data, dict) and "properties" in schema:
        for name, value in data.items():
            if name in schema["properties"]:
                yield from _unknown(value, schema["properties"][name], (*path, name))
            else:
                yield (*path, name)
    elif isinstance(data, list) and "items" in schema:
        for index, item in enumerate(data):
            yield from _unknown(item, schema["items"], (*path, index))
