"""Managed fields: the owners of each field, in the server's form (KEP-555).

Theory: a field set is a nested dict in FieldsV1 form (``f:name``, ``k:{...}``, ``v:...``, ``.``). A
write is the difference of two objects; added and changed fields become the writer's; changed and
removed fields stop being any other manager's. So the removal of a gate leaves no trace of its own:
its writer shows only by fields that it set in the same write.

Invariant: sets are never changed in place, so entries are shared between versions of an object and
all bare members are one empty set; work is proportional to what the write changed (equal subtrees
are skipped by identity).
"""

from functools import lru_cache
from typing import Any

import msgspec

from simcluster.errors import Obj
from simcluster.merging import ATOMIC, ATOMIC_ITEMS, MAP_KEYS, SETS, by_key

Fields = dict[str, Any]
UNTRACKED = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "generation",
        "managedFields",
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)


_BARE: Fields = {}
"""A member with nothing below it."""


@lru_cache(maxsize=8192)
def _field(name: str) -> str:
    """The member of a field: the same text for the same name, which saves making and keeping it."""
    return f"f:{name}"


def leaves(value: Any, name: str = "", *, apply: bool = False) -> Fields:
    """The set of a whole value; ``apply``: as an applier owns it (no ``.`` in maps)."""
    if not value or name in ATOMIC:
        return _BARE
    if isinstance(value, dict):
        found: Fields = {} if apply else {".": _BARE}
        for key, child in value.items():
            below = child and isinstance(child, dict | list)
            found[_field(key)] = leaves(child, key, apply=apply) if below else _BARE
        return found
    if isinstance(value, list):
        if name in MAP_KEYS and (items := by_key(name, value)) is not None:
            found = {} if apply else {".": _BARE}
            whole = name in ATOMIC_ITEMS
            for key, item in items.items():
                found[key] = _BARE if whole else {".": _BARE, **leaves(item, apply=apply)}
            return found
        if name in SETS:
            found = {} if apply else {".": _BARE}
            return found | {_member(item): _BARE for item in value}
    return _BARE


def _member(item: Any) -> str:
    return "v:" + msgspec.json.encode(item).decode()


def compare(old: Any, new: Any, name: str = "") -> tuple[Fields | None, Fields | None, bool]:
    """(added or changed below, removed below, changed as a whole) between two values."""
    if old is new or old == new:
        return None, None, False
    if old is None:
        old = {} if isinstance(new, dict) else [] if isinstance(new, list) else None
    if isinstance(old, dict) and isinstance(new, dict) and name not in ATOMIC:
        return (*_compare_items(old, new, "f:", name), False)
    if isinstance(old, list) and isinstance(new, list):
        if name in MAP_KEYS:
            left, right = by_key(name, old), by_key(name, new)
            if left is not None and right is not None:
                return (*_compare_items(left, right, "", name), False)
        if name in SETS:
            left = {_member(item): item for item in old}
            right = {_member(item): item for item in new}
            return (*_compare_items(left, right, "", name), False)
    return None, None, True


def _compare_items(
    old: dict[str, Any], new: dict[str, Any], prefix: str, name: str
) -> tuple[Fields | None, Fields | None]:
    own: Fields = {}
    gone: Fields = {}
    whole = name in ATOMIC_ITEMS
    for key, value in new.items():
        before = old.get(key, old)  # `old` itself marks absence
        if before is value:
            continue
        at = _field(key) if prefix else key
        child = key if prefix else ""
        if before is old and key not in old:
            own[at] = _BARE if whole else leaves(value, child)
            continue
        if before == value:
            continue
        if whole or not isinstance(value, dict | list):
            own[at] = _BARE
            continue
        added, removed, changed = compare(before, value, child)
        if changed:
            own[at] = _BARE
        if added:
            own[at] = added
        if removed:
            gone[at] = removed
    for key in [key for key in old if key not in new]:
        at = _field(key) if prefix else key
        gone[at] = _BARE if whole else leaves(old[key], key if prefix else "")
    return own or None, gone or None


def tracked(obj: Obj, base: Obj | None, parts: tuple[str, ...] | None) -> Obj:
    """The tracked part of an object; ``parts``: only these top-level fields (a status write)."""
    found: Obj = dict(base or {})
    for key, value in obj.items():
        if key in ("kind", "apiVersion") or (parts is not None and key not in parts):
            continue
        if key == "metadata":
            found[key] = {k: v for k, v in value.items() if k not in UNTRACKED}
        else:
            found[key] = value
    found.setdefault("metadata", {})
    return found


def union(a: Fields, b: Fields) -> Fields:
    """Members of either."""
    if not a or not b:
        if a is b or a == b:
            return a
        # A bare member joined with members below it becomes an explicit one.
        full = a or b
        return full if "." in full else {".": {}, **full}
    found = dict(a)
    for key, value in b.items():
        found[key] = union(found[key], value) if key in found else value
    return found


def minus(a: Fields, b: Fields) -> Fields | None:
    """Members of ``a`` that are not in ``b``; ``None`` when none is left."""
    found: Fields = {}
    for key, value in a.items():
        if key not in b:
            found[key] = value
            continue
        other = b[key]
        if not value:
            if other and "." not in other:
                found[key] = value  # b names only members below this field
            continue
        if not other:
            rest = {k: v for k, v in value.items() if k != "."} or None
        else:
            rest = minus(value, other)
        if rest is not None:
            found[key] = {} if set(rest) == {"."} else rest
    return found or None


def bare(fields: Fields) -> Fields:
    """Top-level sets are merged without the root's own membership."""
    return {key: value for key, value in fields.items() if key != "."}


def intersects(a: Fields, b: Fields) -> list[str]:
    """Dotted paths that are in both (conflicts of an apply), as the server names them."""
    found: list[str] = []
    for key, value in b.items():
        if key not in a or key == ".":
            continue
        text = f".{key[2:]}" if key.startswith("f:") else f"[{key[2:]}]"
        if not value or not a[key]:
            found.append(text)
        else:
            found.extend(text + rest for rest in intersects(a[key], value))
    return found
