"""Structural schemas of custom kinds: prune unknown fields, set defaults, check types.

Theory: the subset of OpenAPI v3 that decides whether a write succeeds: type, required, enum,
minimum, maxItems, maxLength, pattern, default, properties, additionalProperties, items,
preserve-unknown-fields, nullable. CEL rules are not evaluated.

Invariant: ``shape`` returns a value that contains no field the schema does not know.
"""

import re
from typing import Any

import msgspec

from simcluster.errors import Cause, Obj

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_TOP = frozenset({"kind", "apiVersion", "metadata"})


def shape(
    obj: Obj, schema: Obj | None, known: Obj | None = None
) -> tuple[Obj, list[str], list[Cause]]:
    """The object pruned and defaulted, unknown field paths, and findings.

    ``known``: an object that has this shape; parts that are the same objects there are taken over.
    """
    if schema is None:
        return obj, [], []
    unknown: list[str] = []
    causes: list[Cause] = []
    found: Obj = {key: obj[key] for key in ("kind", "apiVersion", "metadata") if key in obj}
    rest = {key: value for key, value in obj.items() if key not in _TOP}
    found.update(_object(rest, schema, "", unknown, causes, known))
    if any(cause.reason == "FieldValueTypeInvalid" for cause in causes):
        causes.append(
            Cause(
                "<nil>",
                "FieldValueInvalid",
                "Invalid value: null: some validation rules were not checked because the object "
                "was invalid; correct the existing errors to complete validation",
            )
        )
    return found, unknown, causes


def _object(
    value: Obj,
    schema: Obj,
    path: str,
    unknown: list[str],
    causes: list[Cause],
    known: Obj | None = None,
) -> Obj:
    properties: Obj = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    keep = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or extra is True
    found: Obj = {}
    for key, child in value.items():
        at = f"{path}.{key}" if path else key
        if path == "" and key in _TOP:
            continue
        if known is not None and known.get(key, known) is child:
            found[key] = child
        elif key in properties:
            if child is None and not properties[key].get("nullable"):
                continue
            found[key] = _value(child, properties[key], at, unknown, causes)
        elif isinstance(extra, dict):
            found[key] = _value(child, extra, at, unknown, causes)
        elif keep:
            found[key] = child
        else:
            unknown.append(at)
    for key, child_schema in properties.items():
        if key not in found and "default" in child_schema:
            found[key] = child_schema["default"]
    for key in schema.get("required") or ():
        if key not in found:
            at = f"{path}.{key}" if path else key
            causes.append(Cause.required(at))
    return found if found != value or list(found) != list(value) else value


def _value(value: Any, schema: Obj, path: str, unknown: list[str], causes: list[Cause]) -> Any:
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        _limits(value, schema, path, causes)
        return value
    if kind is not None and not _is(value, kind):
        shown = f'"{_name(value)}"'
        text = f"Invalid value: {shown}: {path} in body must be of type {kind}: {shown}"
        causes.append(Cause(path, "FieldValueTypeInvalid", text))
        return value
    if isinstance(value, dict):
        return _object(value, schema, path, unknown, causes)
    if isinstance(value, list) and "items" in schema:
        items = [
            _value(item, schema["items"], f"{path}[{i}]", unknown, causes)
            for i, item in enumerate(value)
        ]
        value = items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    _limits(value, schema, path, causes)
    return value


def _limits(value: Any, schema: Obj, path: str, causes: list[Cause]) -> None:
    shown = msgspec.json.encode(value).decode()
    if "enum" in schema and value not in schema["enum"]:
        causes.append(Cause.unsupported(path, shown, [str(v) for v in schema["enum"]]))
    if isinstance(value, str):
        if "pattern" in schema and not re.search(schema["pattern"], value):
            text = f"{path} in body should match '{schema['pattern']}'"
            causes.append(Cause.invalid(path, shown, text))
        if len(value) > schema.get("maxLength", len(value)):
            text = f"Too long: may not be more than {schema['maxLength']} bytes"
            causes.append(Cause(path, "FieldValueTooLong", text))
    if isinstance(value, int | float) and value < schema.get("minimum", value):
        text = f"{path} in body should be greater than or equal to {schema['minimum']}"
        causes.append(Cause.invalid(path, shown, text))
    if isinstance(value, list) and len(value) > schema.get("maxItems", len(value)):
        text = f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
        causes.append(Cause(path, "FieldValueTooMany", text))


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES.get(kind, (object,)))


def _name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for name, types in _TYPES.items():
        if isinstance(value, types):
            return name
    return "object"
