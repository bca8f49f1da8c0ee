"""Tables for kubectl: columns, and a row or several for each object.

Theory. `kubectl get` asks for a Table (meta.k8s.io/v1) and prints its rows; the object behind a row
comes along as metadata, in full, or not at all, by parameter `includeObject`.

Invariant: every row has one cell per column.
"""

from typing import Any

import msgspec

from gatelog.serve.api.kinds import Kind
from gatelog.serve.api.objects import Object
from gatelog.serve.api.status import bad

_INCLUDE = ("", "Metadata", "Object", "None")


def wanted(accept: str) -> bool:
    """Tell whether an Accept header prefers a Table."""
    for part in accept.split(","):
        words = {word.strip() for word in part.split(";")}
        if "application/json" in words or "*/*" in words:
            return {"as=Table", "g=meta.k8s.io", "v=v1"} <= words
    return False


def columns(kind: Kind) -> list[dict[str, Any]]:
    """Return the definitions of the columns."""
    return [
        {
            "name": c.name,
            "type": c.type,
            "format": c.format,
            "description": c.description,
            "priority": c.priority,
        }
        for c in kind.columns
    ]


def rows(kind: Kind, found: Object, include: str) -> list[dict[str, Any]]:
    """Return the rows of an object.

    Raises:
        Refused: 400, `include` is none of the words there are.
    """
    if include not in _INCLUDE:
        raise bad(f"includeObject is {include[:40]!r}: None, Metadata or Object are allowed")
    shown: Any = None
    if include == "Object":
        shown = msgspec.to_builtins(found)
    elif include != "None":
        shown = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": msgspec.to_builtins(found.metadata),
        }
    return [{"cells": cells, "object": shown} for cells in kind.cells(found)]


def table(
    kind: Kind,
    found: list[Any],
    include: str,
    version: str,
    going_on: str = "",
    *,
    headed: bool = True,
) -> dict[str, Any]:
    """Return a Table of objects; `headed` False leaves the columns out, as a watch does."""
    meta: dict[str, Any] = {"resourceVersion": version}
    if going_on:
        meta["continue"] = going_on
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": columns(kind) if headed else None,
        "rows": [row for one in found for row in rows(kind, one, include)],
    }
