"""Queues, flavors and priorities: from the YAML that a cluster takes, and small changes to them.

In a file of changes a document with kind, metadata and `$patch: delete` takes an object away.

Invariant: what cannot be used is refused with file, line, column and the field's path.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from gatelog.shell.errors import CommandFailed, UsageFailed
from gatelog.whatif import fields
from ingest.kinds import CLUSTER_SCOPED, watched_kinds
from ingest.yamltext import Document, TextError, documents, field_of, read
from podgroup.log.events import DeltaRefused, ObjectApplied
from podgroup.model.objects import (
    ClusterQueueView,
    FlavorQuotas,
    FlavorView,
    NamespaceView,
    NodeView,
    QueueObject,
    Quota,
    ResourceGroup,
    TopologyView,
    kind_of,
)
from podgroup.model.quantities import amount
from podgroup.model.topology import HOSTNAME

MAX_BYTES = 16 * 1024 * 1024
"""Size of a file of objects above which it is refused."""
NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that every namespace has of itself."""

DELETE = "$patch: delete"
"""A line, as in a patch for kustomize, in a document whose object must go."""

_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_NEVER = "1970-01-01T00:00:00Z"

Key = tuple[str, str, str]
"""Kind, namespace and name."""


class ObjectsRefused(CommandFailed):
    """A file of objects, or a change of an object, that cannot be used."""


class Found(NamedTuple):
    """An object and its place; without `view` that of `key` is to go."""

    key: Key
    view: QueueObject | None
    file: str
    line: int


def key_of(view: QueueObject) -> Key:
    """Return what identifies an object."""
    return kind_of(view), view.namespace, view.name


def read_objects(paths: Iterable[Path]) -> list[QueueObject]:
    """Return the objects in files, in their order; a duplicate is refused.

    Raises:
        ObjectsRefused: a file that cannot be read or used; the message names the place.
    """
    found = []
    for one in _in_files(paths):
        if one.view is None:
            raise ObjectsRefused(
                f"{one.file}, line {one.line}: {_titled(one.key)}: {DELETE} is for --change: "
                "leave the object out"
            )
        found.append(one.view)
    return found


def merged(objects: Iterable[QueueObject], paths: Iterable[Path]) -> list[QueueObject]:
    """Return the objects with those of files in place of objects with the same name, or deleted.

    Raises:
        ObjectsRefused: a file that cannot be used, or that deletes an object that does not exist.
    """
    found = {key_of(view): view for view in objects}
    for one in _in_files(paths):
        if one.view is not None:
            found[one.key] = one.view
        elif found.pop(one.key, None) is None:
            names = sorted(_titled(key) for key in found if key[0] == one.key[0])
            raise ObjectsRefused(
                f"{one.file}, line {one.line}: {_titled(one.key)} cannot be deleted: there is "
                f"{', '.join(names) or f'no {one.key[0]}'}"
            )
    return list(found.values())


def _in_files(paths: Iterable[Path]) -> list[Found]:
    found: dict[Key, Found] = {}
    for path in paths:
        for one in _in_file(path):
            if (before := found.get(one.key)) is not None:
                raise ObjectsRefused(
                    f"{one.file}, line {one.line}: {_titled(one.key)} is there twice, first in "
                    f"{before.file}, line {before.line}: remove one of them"
                )
            found[one.key] = one
    return list(found.values())


def with_namespaces(objects: Iterable[QueueObject], names: Iterable[str]) -> list[QueueObject]:
    """Return the objects and those namespaces that are named and not among them."""
    found = list(objects)
    there = {view.name for view in found if isinstance(view, NamespaceView)}
    return found + [
        NamespaceView(uid=f"ns-{name}", name=name, resource_version="", labels={NAME_LABEL: name})
        for name in sorted(set(names) - there)
    ]


def changed(objects: list[QueueObject], texts: Iterable[str]) -> list[QueueObject]:
    """Return the objects with small changes: `clusterqueue/NAME:[FLAVOR/]RESOURCE=AMOUNT`.

    Also `clusterqueue/NAME:cohort=NAME`, `workloadpriorityclass/NAME:value=N`,
    `node/NAME:RESOURCE=AMOUNT` and `resourceflavor/NAME:nodes=N`, so many more.

    Raises:
        UsageFailed: a change that cannot be made; the message says why and what there is.
    """
    for text in texts:
        objects = _with(objects, text)
    return objects


def _with(objects: list[QueueObject], text: str) -> list[QueueObject]:
    match = re.fullmatch(r"([a-z]+)/([^:]+):([^=]+)=(.*)", text)
    if match is None:
        raise UsageFailed(
            f"--set {text}: write it as KIND/NAME:FIELD=VALUE, e.g. clusterqueue/research:cpu=60"
        )
    kind, name, field, value = match.groups()
    kinds = {
        "clusterqueue": "ClusterQueue",
        "workloadpriorityclass": "WorkloadPriorityClass",
        "node": "Node",
        "resourceflavor": "ResourceFlavor",
    }
    if kind not in kinds:
        raise UsageFailed(f"--set {text}: {kind} is not one of {', '.join(kinds)}")
    names = [view.name for view in objects if kind_of(view) == kinds[kind]]
    if name not in names:
        raise UsageFailed(
            f"--set {text}: there is no {kinds[kind]} {name}; there is "
            f"{', '.join(sorted(names)) or 'none'}"
        )
    if kind == "resourceflavor":
        return objects + _more_nodes(objects, text, field, value)
    return [
        _field(view, text, field, value) if key_of(view) == (kinds[kind], "", name) else view
        for view in objects
    ]


def _more_nodes(objects: list[QueueObject], text: str, field: str, value: str) -> list[QueueObject]:
    """Return so many nodes like most of a flavor's, in a domain of their own above the hosts."""
    if field != "nodes" or not re.fullmatch(r"[1-9]\d{0,3}", value):
        raise UsageFailed(f"--set {text}: of a ResourceFlavor write nodes=NUMBER, 1 to 9999")
    name = text.partition("/")[2].partition(":")[0]
    flavor = next(one for one in objects if isinstance(one, FlavorView) and one.name == name)
    levels = next(
        (o.levels for o in objects if isinstance(o, TopologyView) and o.name == flavor.topology), ()
    )
    found = [
        one
        for one in objects
        if isinstance(one, NodeView) and one.has_labels(flavor.node_labels, levels)
    ]
    if not levels or not found:
        raise UsageFailed(f"--set {text}: no node is known of flavor {name} with a topology")
    kinds = Counter(tuple(sorted(one.allocatable.items())) for one in found)
    ((most, _),) = kinds.most_common(1)
    like = next(one for one in found if tuple(sorted(one.allocatable.items())) == most)
    above = [level for level in levels if level != HOSTNAME][-1:]
    return [
        replace(
            like,
            name=made,
            uid=made,
            taken={},
            taints=(),
            ready=True,
            unschedulable=False,
            labels={**like.labels, **dict.fromkeys(above, f"new-{name}"), HOSTNAME: made},
        )
        for made in (f"new-{name}-{number}" for number in range(1, int(value) + 1))
    ]


def _field(view: Any, text: str, field: str, value: str) -> QueueObject:
    if isinstance(view, NodeView):
        try:
            return replace(view, allocatable={**view.allocatable, field: amount(field, value)})
        except ValueError as error:
            raise UsageFailed(f"--set {text}: {error}") from None
    if not isinstance(view, ClusterQueueView):
        if field != "value" or not re.fullmatch(r"-?\d{1,9}", value):
            raise UsageFailed(f"--set {text}: of a WorkloadPriorityClass write value=NUMBER")
        changed: QueueObject = replace(view, value=int(value))
        return changed
    if field == "cohort":
        return replace(view, cohort=value)
    flavor, _, resource = field.rpartition("/")
    have = [
        (quotas.name, each)
        for group in view.groups
        for quotas in group.flavors
        for each in quotas.resources
    ]
    meant = [pair for pair in have if pair[1] == resource and flavor in ("", pair[0])]
    if len(meant) != 1:
        among = ", ".join(f"{f}/{r}" for f, r in have) or "no quota at all"
        what = "is in several flavors" if meant else "is not there"
        raise UsageFailed(
            f"--set {text}: {field} {what}: ClusterQueue {view.name} has {among} (and cohort)"
        )
    try:
        nominal = amount(resource, value)
    except ValueError as error:
        raise UsageFailed(f"--set {text}: {error}") from None
    return replace(view, groups=tuple(_group(g, meant[0], nominal) for g in view.groups))


def _group(group: ResourceGroup, meant: tuple[str, str], nominal: int) -> ResourceGroup:
    def one(quotas: FlavorQuotas) -> FlavorQuotas:
        if quotas.name != meant[0] or meant[1] not in quotas.resources:
            return quotas
        quota: Quota = replace(quotas.resources[meant[1]], nominal=nominal)
        return replace(quotas, resources={**quotas.resources, meant[1]: quota})

    return replace(group, flavors=tuple(one(quotas) for quotas in group.flavors))


def _in_file(path: Path) -> Iterator[Found]:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ObjectsRefused(
                f"{path}: has {size} bytes; objects may take {MAX_BYTES}: split the file"
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ObjectsRefused(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise ObjectsRefused(f"{path}, line {line}: is not UTF-8") from None
    for part, before in documents(text):
        try:
            document = read(part)
        except TextError as error:
            where = f"{path}, line {error.line + before}, column {error.column}"
            raise ObjectsRefused(f"{where}: {error}") from None
        if document.data is not None:
            yield from _objects(document, str(path), before)


def _objects(document: Document, file: str, before: int) -> Iterator[Found]:
    data = document.data
    if isinstance(data, dict) and data.get("kind") == "List":
        for index, item in enumerate(data.get("items") or ()):
            yield _object(document, item, ("items", index), file, before)
    else:
        yield _object(document, data, (), file, before)


def _object(
    document: Document, data: Any, at: tuple[str | int, ...], file: str, before: int
) -> Found:
    def refuse(path: tuple[str | int, ...], message: str) -> ObjectsRefused:
        line, column = document.position_of((*at, *path))
        return ObjectsRefused(f"{file}, line {line + before}, column {column}: {message}")

    if not isinstance(data, dict):
        raise refuse((), "must be an object with kind, metadata and spec")
    kind = data.get("kind")
    translators = {row.kind: row.translator for row in watched_kinds("")}
    known = sorted(set(translators) - {"Pod", "Workload"})
    if kind not in known:
        raise refuse(("kind",), f"kind {kind!r} is not played: {', '.join(known)} are")
    meta = data.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        raise refuse(("metadata",), "metadata.name is missing")
    name = meta["name"]
    scoped = {} if kind in CLUSTER_SCOPED else {"namespace": meta.get("namespace") or "default"}
    key, line = (kind, scoped.get("namespace", ""), name), document.position_of(at)[0] + before
    if "$patch" in data:
        if data["$patch"] != "delete":
            raise refuse(("$patch",), f"{kind} {name}: $patch: write delete, or the whole object")
        return Found(key, None, file, line)
    if (odd := fields.unknown(kind, data)) is not None:
        there = ", ".join(fields.known(kind, odd))
        raise refuse(
            odd,
            f"{kind} {name}: {field_of(odd)}: there is no such field; there is {there}",
        )
    identity = {"uid": f"{kind}-{scoped.get('namespace', '')}-{name}", "resourceVersion": "1"}
    whole = {
        **data,
        "metadata": {"creationTimestamp": _NEVER, **meta, **identity, **scoped},
        "status": {},
    }
    event = translators[kind].listed(msgspec.json.encode(whole), "")
    if isinstance(event, DeltaRefused):
        path = _path(data, event.field)
        raise refuse(path, f"{kind} {name}: {event.field}: {event.message}".replace(": :", ":"))
    assert isinstance(event, ObjectApplied)
    if problem := getattr(event.object, "problem", ""):
        # In a cluster such an object is read, and says that it cannot be used; here it is mended.
        raise refuse(_path(data, problem.partition(": ")[0]), f"{kind} {name}: {problem}")
    return Found(key, event.object, file, line)


def _path(data: Any, field: str) -> tuple[str | int, ...]:
    """Return where a field's path leads: `[x]` is an index, or the name of an item."""
    path: list[str | int] = []
    for index, key in _STEP.findall(field):
        step: str | int = key
        if index:
            step = int(index) if index.isdecimal() else -1
            for number, item in enumerate(data if isinstance(data, list) else ()):
                if isinstance(item, dict) and item.get("name") == index:
                    step = number
        path.append(step)
        try:
            data = data[step]
        except (LookupError, TypeError):
            break
    return tuple(path)


def _titled(key: Key) -> str:
    kind, namespace, name = key
    return f"{kind} {namespace + '/' if namespace else ''}{name}"
