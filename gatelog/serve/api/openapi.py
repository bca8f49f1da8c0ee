"""OpenAPI documents, drawn from the types of the objects, for `kubectl explain`.

Theory. The Structs of `objects` say names, types and descriptions; here they become schemas, with
the mark by which kubectl finds the schema of a kind. The API server merges version 2 of all its
servers into one document, and serves version 3 by group.

Invariant: every kind that discovery lists has a schema, and every field of it a description.
"""

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec

from gatelog.serve.api import discovery, objects, visibility
from gatelog.serve.api.kinds import SERVED

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_V2, _V3 = "#/definitions/", "#/components/schemas/"
_STANDARD = {"ObjectMeta": f"{_META}.ObjectMeta", "OwnerReference": f"{_META}.OwnerReference"}


def index() -> dict[str, Any]:
    """Return the list of documents of version 3."""
    return {
        "paths": {
            f"apis/{group}/{number}": {
                "serverRelativeURL": f"/openapi/v3/apis/{group}/{number}?hash={_hash(group)}"
            }
            for group, number in discovery.VERSIONS.items()
        }
    }


@cache
def _hash(group: str) -> str:
    return hashlib.sha256(encoded(group)).hexdigest()[:32].upper()


@cache
def encoded(group: str) -> bytes:
    """Return the document of a group in version 3, as JSON."""
    document = {
        "openapi": "3.0.0",
        "info": _info(),
        "paths": _paths(group, 3),
        "components": {"schemas": schemas(group, _V3)},
    }
    return msgspec.json.encode(document)


@cache
def encoded_v2() -> bytes:
    """Return the document of all groups in version 2, as JSON."""
    definitions: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for group in discovery.VERSIONS:
        definitions |= schemas(group, _V2)
        paths |= _paths(group, 2)
    document = {"swagger": "2.0", "info": _info(), "paths": paths, "definitions": definitions}
    return msgspec.json.encode(document)


def _info() -> dict[str, str]:
    try:
        number = version("gatelog")
    except PackageNotFoundError:
        number = "0"
    return {"title": "gatelog", "version": number}


def schemas(group: str, prefix: str) -> dict[str, Any]:
    """Return the schemas of a group by their names, with references that begin with `prefix`."""
    types: list[type[Any]] = (
        [kind.model for kind in SERVED]
        if group == objects.GROUP
        else [visibility.PendingWorkloadsSummary]
    )
    _, found = msgspec.json.schema_components(types, ref_template=f"{prefix}{{name}}")
    number = discovery.VERSIONS[group]
    made: dict[str, Any] = {}
    for name, raw in found.items():
        schema = _plain(raw, group, number, prefix)
        if name in {kind.__name__ for kind in types}:
            schema["x-kubernetes-group-version-kind"] = [
                {"group": group, "version": number, "kind": name}
            ]
        made[_name(name, group, number)] = schema
    return made


def _name(name: str, group: str, number: str) -> str:
    reverse = ".".join(reversed(group.split(".")))
    return _STANDARD.get(name, f"{reverse}.{number}.{name}")


def _plain(schema: Any, group: str, number: str, prefix: str) -> Any:
    """Return a schema in the words of Kubernetes: no null, no titles, references in `allOf`."""
    if isinstance(schema, list):
        return [_plain(one, group, number, prefix) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = dict(schema)
    found.pop("title", None)
    choices = found.pop("anyOf", None)
    if choices is not None:
        (only,) = [one for one in choices if one != {"type": "null"}]
        found = {**only, **found}
    found.pop("default", None)
    found.pop("required", None) if found.get("properties") else None
    made = {
        key: {name: _plain(one, group, number, prefix) for name, one in value.items()}
        if key == "properties"
        else _plain(value, group, number, prefix)
        for key, value in found.items()
    }
    reference = str(made.pop("$ref", ""))
    if not reference:
        return made
    target = {"$ref": prefix + _name(reference.removeprefix(prefix), group, number)}
    # A reference alone may bear no description in version 3.
    return {"allOf": [target], **made} if made and prefix == _V3 else {**target, **made}


def _paths(group: str, form: int) -> dict[str, Any]:
    number = discovery.VERSIONS[group]
    base = f"/apis/{group}/{number}"
    found: dict[str, Any] = {}
    for one in discovery.resources(group)["resources"]:
        plural, _, sub = one["name"].partition("/")
        within = "/namespaces/{namespace}" if one["namespaced"] else ""
        if "create" in one["verbs"]:
            kind = {"group": group, "version": number, "kind": one["kind"]}
            path = f"{base}{within}/{plural}"
            found[path] = {"post": _operation(kind, "post", within, form, path)}
        if "get" not in one["verbs"]:
            continue
        path = f"{base}{within}/{plural}/{{name}}" + (f"/{sub}" if sub else "")
        kind = {"group": group, "version": number, "kind": one["kind"]}
        found[path] = {"get": _operation(kind, "get", within, form, path)}
        if "list" in one["verbs"]:
            collection = f"{base}{within}/{plural}"
            found[collection] = {"get": _operation(kind, "list", within, form, collection)}
    return found


def _operation(
    kind: dict[str, str], action: str, within: str, form: int, path: str
) -> dict[str, Any]:
    prefix = _V3 if form == 3 else _V2
    schema = {"$ref": prefix + _name(kind["kind"], kind["group"], kind["version"])}
    answer: dict[str, Any] = {"description": "OK"}
    if action != "list":
        answer |= (
            {"content": {"application/json": {"schema": schema}}}
            if form == 3
            else {"schema": schema}
        )
    parameters = []
    for name in [*(["namespace"] if within else []), *(["name"] if action == "get" else [])]:
        own: dict[str, Any] = {"name": name, "in": "path", "required": True}
        own |= {"schema": {"type": "string"}} if form == 3 else {"type": "string"}
        parameters.append(own)
    identity = "".join(part.capitalize() for part in path.strip("/").replace("{", "").split("/"))
    return {
        "operationId": f"{action}{identity.replace('}', '').replace('.', '')}",
        "parameters": parameters,
        "responses": {"200": answer},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": kind,
    }
