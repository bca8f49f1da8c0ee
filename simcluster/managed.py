"""The managedFields entries of an object: after an update, and after a server-side apply.

Theory: an entry is one manager, one operation, one version and one subresource. An update makes its
writer the owner of changed fields. An apply makes its writer the owner of exactly the sent fields,
removes fields that it sent before and no longer sends, and conflicts with other owners of fields
that it would change.

Invariant: entries are ordered as the server orders them (Apply first, then time, manager,
subresource), and an entry with an empty set does not exist.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from simcluster import fields
from simcluster.errors import ApiError, Obj
from simcluster.fields import Fields
from simcluster.merging import ATOMIC, ATOMIC_ITEMS, MAP_KEYS, SETS, by_key, item_key


class Writer(msgspec.Struct, frozen=True):
    """The writer: manager name, version of the API used, subresource (empty: the object itself)."""

    manager: str
    api_version: str
    subresource: str = ""
    operation: str = "Update"

    def owns(self, entry: Obj) -> bool:
        """Whether a managedFields entry is this writer's."""
        return (
            bool(entry.get("manager") == self.manager)
            and entry.get("operation") == self.operation
            and entry.get("subresource", "") == self.subresource
            and (self.operation == "Apply" or entry.get("apiVersion") == self.api_version)
        )

    def entry(self, owned: Fields, time: str) -> Obj:
        """A managedFields entry."""
        found: Obj = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": time,
            "fieldsType": "FieldsV1",
            "fieldsV1": owned,
        }
        if self.subresource:
            found["subresource"] = self.subresource
        return found


def _ordered(entries: list[Obj]) -> list[Obj]:
    return sorted(
        entries,
        key=lambda e: (e["operation"], e["time"], e["manager"], e.get("subresource", "")),
    )


BEFORE_FIRST_APPLY = "before-first-apply"
"""The owner of existing fields when an object without managedFields is applied to."""


def cleared(meta: Obj) -> bool:
    """Whether metadata that a client wants says that the entries are to be forgotten."""
    return meta.get("managedFields") in ([], [{}])


def after_update(entries: list[Obj], old: Obj, new: Obj, writer: Writer, time: str) -> list[Obj]:
    """Entries after ``writer`` turned ``old`` into ``new`` (both as ``fields.tracked``)."""
    own, gone = None, None
    if old is not new:
        own, gone, _ = fields.compare(old, new)
    if not own and not gone:
        return entries
    found: list[Obj] = []
    mine: Fields = {}
    for entry in entries:
        held: Fields | None = entry["fieldsV1"]
        if writer.owns(entry):
            mine = (fields.minus(entry["fieldsV1"], gone) if gone else held) or {}
            if own or not mine:
                continue
            found.append(entry if mine == held else {**entry, "fieldsV1": mine})
            continue
        for lost in (own, gone):
            if lost and held:
                held = fields.minus(held, lost)
        if held:
            found.append(entry if held == entry["fieldsV1"] else {**entry, "fieldsV1": held})
    if own:
        found.append(writer.entry(fields.union(mine, own) if mine else own, time))
    return _ordered(found)


class Applied(msgspec.Struct, frozen=True):
    """The ownership after an apply: all of the writer's fields, and those that changed hands."""

    owned: Fields
    changed: Fields

    def restricted(self, keep: Callable[[str], bool]) -> "Applied":
        """Only the top-level fields an endpoint may touch."""
        return Applied(
            {k: v for k, v in self.owned.items() if keep(k)},
            {k: v for k, v in self.changed.items() if keep(k)},
        )


def apply(live: Obj, sent: Obj, writer: Writer, force: bool) -> tuple[Obj, Applied]:
    """Server-side apply: the merged object and the new ownership.

    Raises 409 naming the conflicting fields unless ``force``.
    """
    config = {k: v for k, v in sent.items() if k not in ("kind", "apiVersion")}
    meta = config.get("metadata") or {}
    config["metadata"] = {k: v for k, v in meta.items() if k not in fields.UNTRACKED}
    owned = {
        key: value
        for key, value in fields.leaves(config, apply=True).items()
        if key != "f:metadata" or value
    }
    entries: list[Obj] = live["metadata"].get("managedFields") or []
    previous = next((e["fieldsV1"] for e in entries if writer.owns(e)), None)
    merged = _merge(live, config, "")
    before, after = fields.tracked(live, None, None), fields.tracked(merged, None, None)
    changed, _, _ = fields.compare(before, after)
    if changed and not force:
        _refuse_conflicts(entries, changed, writer)
    if previous is not None:
        dropped = fields.minus(previous, owned)
        others = [e["fieldsV1"] for e in entries if not writer.owns(e)]
        for held in others:
            dropped = fields.minus(dropped, held) if dropped else None
        if dropped:
            merged = _without(merged, dropped, "")
    return merged, Applied(owned, changed or {})


def after_apply(entries: list[Obj], applied: Applied, writer: Writer, time: str) -> list[Obj]:
    """Entries after an apply: the writer owns the sent fields, others lose the changed fields."""
    previous = next((e for e in entries if writer.owns(e)), None)
    same = previous is not None and previous["fieldsV1"] == applied.owned
    if same and not applied.changed:
        return entries
    found: list[Obj] = []
    for entry in entries:
        if writer.owns(entry):
            continue
        held = fields.minus(entry["fieldsV1"], applied.changed)
        if held:
            found.append(entry if held == entry["fieldsV1"] else {**entry, "fieldsV1": held})
    if applied.owned:
        found.append(writer.entry(applied.owned, time))
    return _ordered(found)


def _refuse_conflicts(entries: list[Obj], changed: Fields, writer: Writer) -> None:
    causes: list[Obj] = []
    for entry in entries:
        if writer.owns(entry):
            continue
        who = f'conflict with "{entry["manager"]}"'
        if entry.get("subresource"):
            who += f' with subresource "{entry["subresource"]}"'
        if entry["operation"] == "Update":
            who += f" using {entry['apiVersion']}"
        causes.extend(
            {"reason": "FieldManagerConflict", "message": who, "field": path}
            for path in fields.intersects(entry["fieldsV1"], changed)
        )
    if causes:
        count = f"{len(causes)} conflict{'s' if len(causes) > 1 else ''}"
        lines = ", ".join(f"{c['message']}: {c['field']}" for c in causes)
        raise ApiError(409, "Conflict", f"Apply failed with {count}: {lines}", {"causes": causes})


def _merge(live: Any, sent: Any, name: str) -> Any:
    if isinstance(live, dict) and isinstance(sent, dict) and name not in ATOMIC:
        found = dict(live)
        for key, value in sent.items():
            if value is None:
                continue
            found[key] = _merge(live.get(key), value, key) if key in live else value
        return found
    if isinstance(live, list) and isinstance(sent, list):
        if name in SETS:
            return [*live, *(item for item in sent if item not in live)]
        if name in MAP_KEYS:
            left, right = by_key(name, live), by_key(name, sent)
            if left is not None and right is not None:
                for key, item in right.items():
                    whole = key not in left or name in ATOMIC_ITEMS
                    left[key] = item if whole else _merge(left[key], item, "")
                return list(left.values())
    return sent


def _without(value: Any, dropped: Fields, name: str) -> Any:
    """The value without the members an applier gave up and no other owns."""
    if isinstance(value, dict):
        found: Obj = {}
        for key, child in value.items():
            lost = dropped.get(f"f:{key}")
            if lost is None:
                found[key] = child
            elif lost and isinstance(child, dict | list):
                rest = _without(child, lost, key)
                if rest or "." not in lost:
                    found[key] = rest
        return found
    if isinstance(value, list):
        kept = []
        for item in value:
            key = item_key(name, item) if name in MAP_KEYS else "v:" + _text(item)
            lost = dropped.get(key or "")
            if lost is None:
                kept.append(item)
            elif lost and "." not in lost:
                kept.append(_without(item, lost, ""))
        return kept
    return value


def _text(item: Any) -> str:
    return msgspec.json.encode(item).decode()
