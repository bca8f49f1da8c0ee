"""Sharing: parts of views that say the same are the same object.

Theory. Pods of one role differ in name, uid and times; their labels, requests, tolerations and so
on are equal, and so is most of two successive views of one pod. A decoder makes each of them anew,
which would be most of the memory of a large cluster. When a view is taken over, what equals the
view of its pod before comes from there, the rest from tables of values seen lately.

Tables are bounded: one that is full is emptied, which costs memory only. Their keys tell apart
what compares equal and would be written differently (the order of a mapping, the offset of a
time), so nothing depends on what a process has seen before.

Invariant: no view is changed; the one that is made equals it, and a shared mapping never changes.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from podgroup.model.objects import Condition, PodView

MOST: Final = 20_000
"""Values that a table remembers."""

_T = TypeVar("_T")
_values: dict[Any, Any] = {}
_times: dict[Any, datetime] = {}
_maps: dict[Any, Any] = {}


def intern(value: _T) -> _T:
    """Return the value that stands for all equal ones: a text, a number, a tuple without times."""
    if len(_values) >= MOST:
        _values.clear()
    shared: _T = _values.setdefault(value, value)
    return shared


def intern_time(value: datetime) -> datetime:
    """Return the time that stands for all that are equal and written with the same offset."""
    if len(_times) >= MOST:
        _times.clear()
    return _times.setdefault((value, value.tzinfo), value)


def intern_map(value: Mapping[str, _T]) -> Mapping[str, _T]:
    """Return the mapping that stands for all equal ones of the same order."""
    key = tuple(value.items())
    shared: Mapping[str, _T] | None = _maps.get(key)
    if shared is None:
        if len(_maps) >= MOST:
            _maps.clear()
        shared = _maps[key] = {intern(name): intern(content) for name, content in key}
    return shared


def intern_times(value: dict[str, datetime]) -> dict[str, datetime]:
    """Return the mapping that stands for all with the same times, offsets included."""
    key = tuple((name, time, time.tzinfo) for name, time in value.items())
    if len(_maps) >= MOST:
        _maps.clear()
    shared: dict[str, datetime] = _maps.setdefault(key, value)
    return shared


_BLANK: Final = PodView(
    uid="", namespace="", name="", resource_version="", created_at=datetime.min.replace(tzinfo=UTC)
)


def renewed(view: PodView, before: PodView) -> PodView | None:
    """Return `view` with all it has in common with the view before, None if it says much else.

    This is done for nearly every event. A status was written, or metadata: a copy of the view
    before that takes over what such a write changes, and one comparison of the two, cost less than
    going over the fields. What did not change is the very object that it was before.
    """
    phase, node, conditions = view.phase, view.node, view.conditions
    if phase != before.phase or node != before.node or conditions != before.conditions:
        made = replace(
            before,
            resource_version=view.resource_version,
            phase=before.phase if phase == before.phase else intern(phase),
            node=before.node if node == before.node else intern(node),
            conditions=_conditions(conditions, before.conditions),
            started_at=view.started_at,
            reason=view.reason,
            message=view.message,
            ends=view.ends,
        )
    else:
        labels, gates, finalizers = view.labels, view.gates, view.finalizers
        made = replace(
            before,
            resource_version=view.resource_version,
            labels=before.labels if labels == before.labels else intern_map(labels),
            gates=before.gates if gates == before.gates else intern(gates),
            finalizers=before.finalizers if finalizers == before.finalizers else intern(finalizers),
            writer=intern(view.writer),
            written_at=view.written_at,
            deleted_at=view.deleted_at,
            grace_s=view.grace_s,
        )
    if made != view or view.created_at.tzinfo is not before.created_at.tzinfo:
        return None
    return made


def resembling(view: PodView, like: PodView) -> PodView | None:
    """Return `view` with all it has in common with another pod's, None if it says much else."""
    notes, labels, known = view.annotations, view.labels, like.labels
    if (notes and list(notes) != list(like.annotations)) or len(view.node_selector) > 1:
        return None  # equal mappings may be written differently
    same = labels == known and list(labels) == list(known)
    made = replace(
        like,
        uid=view.uid,
        name=view.name,
        resource_version=view.resource_version,
        created_at=intern_time(view.created_at),
        labels=known if same else intern_map(labels),
    )
    return made if made == view else None


def shared(view: PodView, like: PodView = _BLANK) -> PodView:
    """Return a view that shares what others say: a pod's first, or one that says other things.

    `like` says mostly the same, as another pod of the group does, or the pod itself before:
    comparing costs less than looking up.
    """
    return replace(
        view,
        namespace=_as(view.namespace, like.namespace),
        created_at=intern_time(view.created_at),
        labels=_map_as(view.labels, like.labels),
        annotations=_map_as(view.annotations, like.annotations),
        phase=_as(view.phase, like.phase),
        role=_as(view.role, like.role),
        node=_as(view.node, like.node),
        scheduler=_as(view.scheduler, like.scheduler),
        qos=_as(view.qos, like.qos),
        writer=_as(view.writer, like.writer),
        priority_class=_as(view.priority_class, like.priority_class),
        finalizers=_as(view.finalizers, like.finalizers),
        gates=_as(view.gates, like.gates),
        requests=like.requests if view.requests == like.requests else intern_map(view.requests),
        node_selector=intern_map(view.node_selector) if view.node_selector else view.node_selector,
        owners=_as(view.owners, like.owners),
        tolerations=_as(view.tolerations, like.tolerations),
        node_terms=_as(view.node_terms, like.node_terms),
        conditions=_conditions(view.conditions, like.conditions),
    )


def _as(value: _T, known: _T) -> _T:
    return known if value == known else intern(value)


def _map_as(value: Mapping[str, str], known: Mapping[str, str]) -> Mapping[str, str]:
    return known if value == known and list(value) == list(known) else intern_map(value)


def _conditions(
    conditions: tuple[Condition, ...], known: tuple[Condition, ...]
) -> tuple[Condition, ...]:
    if conditions == known:
        return known
    timeless = True
    for condition in conditions:
        timeless = timeless and condition.at is None
    if timeless and (shared := _values.get(conditions)) is not None:
        return shared  # type: ignore[no-any-return] # equal, so of its type
    found = []
    for condition in conditions:
        if condition in known:
            found.append(known[known.index(condition)])
            continue
        made = replace(
            condition,
            type=intern(condition.type),
            status=intern(condition.status),
            reason=intern(condition.reason),
            message=intern(condition.message),
        )
        found.append(intern(made) if made.at is None else made)
    return intern(tuple(found)) if timeless else tuple(found)
