"""Which fields of an object's spec no wire shape has: fields that are set and have no effect.

Invariant: a field that is named here changes nothing that gatelog does.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct, inspect

from podgroup.model.limits import OBJECT_NAME

MOST = 16
"""Fields that are named for one object."""


class _Item(Struct):
    """An object, or the watch line that holds an object."""

    spec: Any = None
    object: "_Item | None" = None


_items = msgspec.json.Decoder(_Item)


def unread(raw: bytes, wire: type[Struct]) -> tuple[str, ...]:
    """Return the paths below spec of the object in `raw` that `wire` does not read, sorted."""
    item = _items.decode(raw)
    spec = (item.object or item).spec
    return tuple(sorted(set(_beyond(spec, _field(_shape(wire), "spec"), "")))[:MOST])


@cache
def _shape(wire: type[Struct]) -> inspect.Type:
    return inspect.type_info(wire)


def _field(shape: inspect.Type, name: str) -> inspect.Type | None:
    assert isinstance(shape, inspect.StructType)
    return next((f.type for f in shape.fields if f.encode_name == name), None)


def _beyond(value: Any, shape: inspect.Type | None, path: str) -> Iterator[str]:
    if value is None:
        return
    if shape is None:
        yield path[:OBJECT_NAME]
    elif isinstance(shape, inspect.UnionType):
        for part in shape.types:
            yield from _beyond(value, part, path)
    elif isinstance(shape, inspect.StructType) and isinstance(value, dict):
        for name, inner in value.items():
            yield from _beyond(inner, _field(shape, name), f"{path}.{name}".removeprefix("."))
    elif isinstance(shape, inspect.VarTupleType) and isinstance(value, list):
        for inner in value:
            yield from _beyond(inner, shape.item_type, f"{path}[]")
