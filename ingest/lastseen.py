"""The last seen state of objects whose status changes far more often than the fields that are read.

A node is written with its heartbeats, a StatefulSet each time that a pod of it becomes ready or
unready. Decisions read a node's labels and amounts and a set's number of pods, so changes of other
fields are no event.

Invariant: in a list each object is news, since an object that a list lacks is gone.
"""

from collections.abc import Iterable

import msgspec

from podgroup.log.events import Event, ObjectApplied, ObjectDeleted, RelistStarted


class LastSeen:
    """A hash of the last view of each object but for its version, by uid."""

    def __init__(self) -> None:
        self._views: dict[str, int] = {}

    def news(self, events: Iterable[Event]) -> tuple[Event, ...]:
        """Return the events that say anything new."""
        return tuple(event for event in events if self._is_news(event))

    def _is_news(self, event: Event) -> bool:
        match event:
            case ObjectApplied(object=view):
                bare = msgspec.structs.replace(view, resource_version="")
                known, seen = self._views.get(view.uid), hash(msgspec.msgpack.encode(bare))
                self._views[view.uid] = seen
                return bool(event.relist) or known != seen
            case ObjectDeleted(uid=uid):
                self._views.pop(uid, None)
            case RelistStarted():
                self._views.clear()
            case _:
                pass
        return True
