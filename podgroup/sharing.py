"""Sharing: parts of views that say the same are the same object.

Theory. Pods of one role differ in name, uid and times; their labels, requests, tolerations and so
on are equal, and so is most of two successive views of one pod. A decoder makes each of them anew,
which would be most of the memory of a large cluster. When a view is taken over, what equals the
view of its pod before comes from there, the rest from tables of values seen lately.

Tables are bounded: one that is full is emptied, which costs memory only. Their keys tell apart
what compares equal and would be written differently (the order of a mapping, the offset of a
time), so nothing depends on what a process has seen before.

Invariant: sharing changes the identity of values, never a value; a shared mapping never changes.
"""

from datetime import datetime
from typing import Any, Final, TypeVar

from msgspec.structs import force_setattr

from podgroup.objects import Condition, PodView

MOST: Final = 20_000
"""Values that a table remembers."""

_T = TypeVar("_T")
_values: dict[Any, Any] = {}
_times: dict[Any, datetime] = {}
_maps: dict[Any, Any] = {}

_HASHABLE: Final = (
    "namespace",
    "writer",
    "role",
    "qos",
    "priority_class",
    "scheduler",
    "node",
    "phase",
    "finalizers",
    "gates",
    "owners",
    "tolerations",
    "node_terms",
)
_MAPS: Final = ("labels", "annotations", "requests", "node_selector")


def one(value: _T) -> _T:
    """Return the value that stands for all equal ones: a text, a number, a tuple without times."""
    if len(_values) >= MOST:
        _values.clear()
    shared: _T = _values.setdefault(value, value)
    return shared


def one_time(value: datetime) -> datetime:
    """Return the time that stands for all that are equal and written with the same offset."""
    if len(_times) >= MOST:
        _times.clear()
    return _times.setdefault((value, value.tzinfo), value)


def one_map(value: dict[str, _T]) -> dict[str, _T]:
    """Return the mapping that stands for all equal ones of the same order."""
    key = tuple(value.items())
    shared: dict[str, _T] | None = _maps.get(key)
    if shared is None:
        if len(_maps) >= MOST:
            _maps.clear()
        shared = _maps[key] = {one(name): one(content) for name, content in key}
    return shared


def one_map_of_times(value: dict[str, datetime]) -> dict[str, datetime]:
    """Return the mapping that stands for all with the same times, offsets included."""
    key = tuple((name, time, time.tzinfo) for name, time in value.items())
    if len(_maps) >= MOST:
        _maps.clear()
    shared: dict[str, datetime] = _maps.setdefault(key, value)
    return shared


def share_new(view: PodView) -> None:
    """Let a view share what other pods said: a pod's first, or one that says other things."""
    for name in _HASHABLE:
        if value := getattr(view, name):
            force_setattr(view, name, one(value))
    for name in _MAPS:
        if pairs := getattr(view, name):
            force_setattr(view, name, one_map(pairs))
    force_setattr(view, "created_at", one_time(view.created_at))
    if view.conditions:
        force_setattr(view, "conditions", _conditions(view.conditions, ()))


def share(view: PodView, before: PodView) -> None:
    """Let a view share what the one before said: same name, time of creation, labels, annotations.

    Written out field by field: this is done for nearly every event.
    """
    put = force_setattr
    put(view, "uid", before.uid)
    put(view, "name", before.name)
    put(view, "namespace", before.namespace)
    put(view, "labels", before.labels)
    put(view, "annotations", before.annotations)
    if view.created_at.tzinfo is before.created_at.tzinfo:
        put(view, "created_at", before.created_at)
    if view.requests == before.requests:
        put(view, "requests", before.requests)
    if view.finalizers == before.finalizers:
        put(view, "finalizers", before.finalizers)
    if view.role == before.role:
        put(view, "role", before.role)
    if view.phase == before.phase:
        put(view, "phase", before.phase)
    else:
        put(view, "phase", one(view.phase))
    if node := view.node:
        put(view, "node", before.node if node == before.node else one(node))
    if scheduler := view.scheduler:
        put(view, "scheduler", one(scheduler))
    if qos := view.qos:
        put(view, "qos", one(qos))
    if writer := view.writer:
        put(view, "writer", one(writer))
    if (owners := view.owners) and owners == before.owners:
        put(view, "owners", before.owners)
    if (tolerations := view.tolerations) and tolerations == before.tolerations:
        put(view, "tolerations", before.tolerations)
    if (selector := view.node_selector) and selector == before.node_selector:
        put(view, "node_selector", before.node_selector)
    if (terms := view.node_terms) and terms == before.node_terms:
        put(view, "node_terms", before.node_terms)
    if conditions := view.conditions:
        known = before.conditions
        put(view, "conditions", known if conditions == known else _conditions(conditions, known))


def _conditions(
    conditions: tuple[Condition, ...], known: tuple[Condition, ...]
) -> tuple[Condition, ...]:
    found = []
    timeless = True
    for condition in conditions:
        timeless = timeless and condition.at is None
        if condition in known:
            found.append(known[known.index(condition)])
            continue
        for name in ("type", "status", "reason", "message"):
            force_setattr(condition, name, one(getattr(condition, name)))
        found.append(one(condition) if condition.at is None else condition)
    return one(tuple(found)) if timeless else tuple(found)
