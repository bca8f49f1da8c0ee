"""Sharing: parts of views that say the same are the same object.

Theory. Pods of one role differ in name, uid and times; their labels, requests, tolerations and so
on are equal, and so is most of two successive views of one pod. A decoder makes each of them anew,
which would be most of the memory of a large cluster. When a view is taken over, what equals the
view of its pod before comes from there, the rest from tables of values seen lately.

Tables are bounded in the bytes of what they hold: a full table is emptied, which costs memory
only. A view that is heavy (`weight`) shares nothing here: its namespace has a table of its own
(`fold.weighing`), which lets go of what is deleted. Keys of tables tell apart
what compares equal and would be written differently (the order of a mapping, the offset of a
time), so nothing depends on what a process has seen before.

Invariant: no view is changed; its copy equals it, and a shared mapping never changes.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from podgroup.model.meaning import Means, Shared, Write, compiled, declared
from podgroup.model.objects import Condition, PodView
from podgroup.model.remembering import size_of
from podgroup.model.weight import SHAPE, is_light, own_weight

MOST: Final = 20_000
"""Values that a table remembers."""
MOST_BYTES: Final = 8 * 1024 * 1024
"""Bytes that values, and maps, take at most."""

_T = TypeVar("_T")
_values: dict[Any, Any] = {}
_times: dict[Any, datetime] = {}
_maps: dict[Any, Any] = {}
_bytes: Final = {"values": 0, "maps": 0}
"""What the tables take."""


def _room(table: dict[Any, Any], name: str, value: Any) -> None:
    """Make room in a table for a value that it does not have."""
    _bytes[name] += size_of(value)
    if len(table) >= MOST or _bytes[name] > MOST_BYTES:
        table.clear()
        _bytes[name] = size_of(value)


def intern(value: _T) -> _T:
    """Return the shared value that equals this: a text, a number, a tuple without times."""
    known: _T | None = _values.get(value)
    if known is not None:
        return known
    if value is not None:
        _room(_values, "values", value)
        _values[value] = value
    return value


def intern_time(value: datetime) -> datetime:
    """Return the shared time that equals this and is written with the same offset."""
    if len(_times) >= MOST:
        _times.clear()
    return _times.setdefault((value, value.tzinfo), value)


def intern_map(value: Mapping[str, _T]) -> Mapping[str, _T]:
    """Return the shared mapping that equals this and has the same order."""
    key = tuple(value.items())
    shared: Mapping[str, _T] | None = _maps.get(key)
    if shared is None:
        _room(_maps, "maps", key)
        shared = _maps[key] = {intern(name): intern(content) for name, content in key}
    return shared


def intern_times(value: dict[str, datetime]) -> dict[str, datetime]:
    """Return the shared mapping with the same times, offsets included."""
    key = tuple((name, time, time.tzinfo) for name, time in value.items())
    shared: dict[str, datetime] | None = _maps.get(key)
    if shared is None:
        _room(_maps, "maps", key)
        shared = _maps[key] = value
    return shared


_BLANK: Final = PodView(
    uid="", namespace="", name="", resource_version="", created_at=datetime.min.replace(tzinfo=UTC)
)
_NO_SHAPE: Final = {name: getattr(_BLANK, name) for name in SHAPE}


def resembling(view: PodView, like: PodView) -> PodView | None:
    """Return `view` sharing the values of another pod's view `like`; None if too much differs."""
    notes, labels, known = view.annotations, view.labels, like.labels
    if (notes and list(notes) != list(like.annotations)) or len(view.node_selector) > 1:
        return None  # equal mappings may be written differently
    if len(view.requests) > 1 and list(view.requests) != list(like.requests):
        return None
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


def joining(view: PodView, like: PodView | None) -> PodView:
    """Return the view of a new pod with shared values; `like` is another pod of its group.

    The first pod of a group is compared with the first pod of the group before: often one template
    made both, and the comparison takes a quarter of looking its values up.
    """
    if not is_light(view):
        return shared(view)
    other = _first_of_a_group[0] if like is None else like
    apart = like is None and view.sets  # mappings in them, too, may be written differently
    made = (None if apart else resembling(view, other)) or shared(view, other)
    if like is None:
        _first_of_a_group[0] = made
    return made


_first_of_a_group: Final = [_BLANK]
"""The pod that was seen first of the latest group, as it was then."""


def shared(view: PodView, like: PodView = _BLANK) -> PodView:
    """Return a view with shared values, where it is the pod's first or differs much from before.

    `like` has mostly the same values: another pod of the group, or the pod itself before.
    Comparing with `like` costs less than looking values up.
    """
    if not is_light(view):
        if own_weight(view):
            return view
        own: PodView = _shared(replace(view, **_NO_SHAPE), like)
        return replace(own, **{name: getattr(view, name) for name in SHAPE})
    made: PodView = _shared(view, like)
    return made


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


def _time(value: datetime, _: datetime) -> datetime:
    return intern_time(value)


_HOW: Final[Mapping[Shared, Callable[[Any, Any], Any]]] = {
    Shared.MAP: _map_as,
    Shared.TIME: _time,
    Shared.CONDITIONS: _conditions,
}
_MEANING: Final = declared(PodView)
_NAMES: Final[Mapping[str, Any]] = {
    **{how.name: function for how, function in _HOW.items()},
    "values": _values,
    "intern": intern,
}


def _field(name: str, means: Means, known: str) -> str:
    """Return the argument that gives a copy the field of `view`, shared with that of `known`."""
    if means.shared is Shared.NO:
        return f"{name}=view.{name}"
    value = f"{means.shared.name}(view.{name}, {known}.{name})"
    if means.shared is Shared.VALUE:  # most are equal, and to compare costs less than a call
        value = f"values.get(view.{name}) or intern(view.{name})"
    if means.shared in (Shared.VALUE, Shared.CONDITIONS):
        value = f"{known}.{name} if view.{name} == {known}.{name} else {value}"
    return f"{name}={value}"


def _fields(known: str, by: Write | None = None) -> str:
    """Return the arguments for what these writes change, or for all that is shared."""
    return ", ".join(
        _field(name, means, known)
        for name, means in _MEANING.items()
        if (means.shared is not Shared.NO if by is None else means.by and by in means.by)
    )


_STATUS: Final = " or ".join(
    f"view.{name} != before.{name}"
    for name, means in _MEANING.items()
    if means.by is Write.STATUS and means.shared is not Shared.NO
)
renewed: Final[Callable[[PodView, PodView], PodView | None]] = compiled(
    "view, before",
    f"made if (made := replace(before, {_fields('before', Write.STATUS)}) if {_STATUS} "
    f"else replace(before, {_fields('before', Write.METADATA)})) == view "
    "and view.created_at.tzinfo is before.created_at.tzinfo else None",
    replace=replace,
    **_NAMES,
)
"""Return `view` sharing the values of the pod's view before; None if too much differs.

This is done for nearly every event. A status was written, or metadata: to copy the view before with
the fields that such writes change, and to compare the copy once, costs less than going over all
fields. A value that did not change is the same object as before.
"""
_shared = compiled("view, like", f"replace(view, {_fields('like')})", replace=replace, **_NAMES)
