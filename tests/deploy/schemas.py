"""CRDs as test material: their schemas turned into JSON Schema, and their CEL rules evaluated.

What an API server does with a structural schema: set defaults, prune what is unknown, check what
is left, then evaluate the rules on the object and its predecessor. JSON Schema does the checks
here; instead of pruning, an unknown field is an error, since a field that would be lost is what
these tests look for.

Invariant: `closed` accepts no object that a real API server would change by pruning or refuse.
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import celpy
import jsonschema
import yaml
from celpy.adapter import json_to_cel

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
Json = dict[str, Any]


@cache
def crd(plural: str) -> Json:
    return yaml.load((CRDS / f"{plural}.yaml").read_text(), Loader=yaml.CSafeLoader)


def plurals() -> list[str]:
    return sorted(p.stem for p in CRDS.glob("*.yaml") if p.name != "kustomization.yaml")


def schema(plural: str) -> Json:
    version = crd(plural)["spec"]["versions"][0]
    return version["schema"]["openAPIV3Schema"]


def nodes(plural: str) -> Iterator[tuple[str, Json]]:
    """Every schema node with its path."""

    def walk(node: Json, path: str) -> Iterator[tuple[str, Json]]:
        yield path, node
        for name, child in (node.get("properties") or {}).items():
            yield from walk(child, f"{path}.{name}")
        for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
            if isinstance(node.get(key), dict):
                yield from walk(node[key], path + mark)

    yield from walk(schema(plural), plural)


@cache
def closed(plural: str) -> Json:
    """JSON Schema of the kind, in which unknown fields are errors."""
    root = _closed(schema(plural))
    root["properties"]["metadata"] = {"type": "object"}
    return root


def _closed(node: Json) -> Json:
    found = {key: value for key, value in node.items() if not key.startswith("x-kubernetes-")}
    if "properties" in node:
        found["properties"] = {name: _closed(child) for name, child in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            found[key] = _closed(node[key])
    preserves = node.get("x-kubernetes-preserve-unknown-fields")
    if node.get("type") == "object" and not preserves and "additionalProperties" not in node:
        found["additionalProperties"] = False
    if node.get("format") == "int32":
        found["minimum"] = max(-(2**31), node.get("minimum", -(2**31)))
        found["maximum"] = 2**31 - 1
    return found


def defaulted(value: Any, node: Json) -> Any:
    """The value with defaults, as the API server sets them: from outside inwards."""
    if isinstance(value, dict):
        found = dict(value)
        for name, child in (node.get("properties") or {}).items():
            if name not in found and "default" in child:
                found[name] = deepcopy(child["default"])
            if name in found:
                found[name] = defaulted(found[name], child)
        return found
    if isinstance(value, list) and isinstance(node.get("items"), dict):
        return [defaulted(item, node["items"]) for item in value]
    return value


def problems(plural: str, obj: Json, old: Json | None = None) -> list[str]:
    """What an API server would answer to a create of `obj`, or an update of `old` to it."""
    obj = defaulted(obj, schema(plural))
    errors = _validator(plural).iter_errors(obj)
    found = [f"{error.json_path}: {error.message}" for error in errors]
    found += _duplicates(obj, schema(plural), "$")
    return found or list(_broken_rules(schema(plural), obj, old, "$"))


@cache
def _validator(plural: str) -> Any:
    return jsonschema.Draft202012Validator(closed(plural))


def _duplicates(value: Any, node: Json, path: str) -> list[str]:
    found: list[str] = []
    if isinstance(value, dict):
        for name, child in (node.get("properties") or {}).items():
            if name in value:
                found += _duplicates(value[name], child, f"{path}.{name}")
    elif isinstance(value, list):
        keys = node.get("x-kubernetes-list-map-keys")
        seen = [tuple(item[key] for key in keys) for item in value] if keys else []
        if node.get("x-kubernetes-list-type") == "set":
            seen = [(item,) for item in value]
        if len(set(seen)) < len(seen):
            found.append(f"{path}: duplicate")
        for item in value:
            found += _duplicates(item, node.get("items") or {}, f"{path}[]")
    return found


def _broken_rules(node: Json, value: Any, old: Any, path: str) -> Iterator[str]:
    for rule in node.get("x-kubernetes-validations") or ():
        if "oldSelf" in rule["rule"] and old is None:
            continue
        if not holds(rule["rule"], value, old):
            yield f"{path}{rule.get('fieldPath', '')}: {rule['message']}"
    if isinstance(value, dict):
        for name, child in (node.get("properties") or {}).items():
            if name in value:
                before = old.get(name) if isinstance(old, dict) else None
                yield from _broken_rules(child, value[name], before, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from _broken_rules(node.get("items") or {}, item, None, f"{path}[]")


@cache
def _program(rule: str) -> Any:
    environment = celpy.Environment()
    return environment.program(environment.compile(rule))


def holds(rule: str, value: Any, old: Any = None) -> bool:
    """Evaluate one rule. Objects may lack fields: the rules must guard with has()."""
    seen = old is not None and "oldSelf" in rule
    return _holds(rule, json.dumps(value), json.dumps(old) if seen else "")


@cache
def _holds(rule: str, value: str, old: str) -> bool:
    """By the text of the objects: recordings repeat themselves, and evaluating is slow."""
    names = {"self": _as_cel(value)}
    if old:
        names["oldSelf"] = _as_cel(old)
    return bool(_program(rule).evaluate(names))


@lru_cache(maxsize=16)
def _as_cel(text: str) -> Any:
    return json_to_cel(json.loads(text))
