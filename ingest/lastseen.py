"""What was last seen of objects whose status changes far more often than what is read of them.

A StatefulSet is written each time that a pod of it is ready or not. What decisions read of it is
how many pods it wants, so a change of anything else is no event.

Invariant: in a list each object is news, since what a list lacks is gone.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from podgroup.log.events import Event, ObjectApplied, ObjectDeleted, RelistStarted
from podgroup.model.objects import QueueObject


class LastSeen:
    """The last view of each object, by uid, but for its version."""

    def __init__(self) -> None:
        self._views: dict[str, QueueObject] = {}

    def news(self, events: Iterable[Event]) -> tuple[Event, ...]:
        """Return the events that say anything new."""
        return tuple(event for event in events if self._is_news(event))

    def _is_news(self, event: Event) -> bool:
        match event:
            case ObjectApplied(object=view):
                bare = replace(view, resource_version="")
                known = self._views.get(view.uid)
                self._views[view.uid] = bare
                return bool(event.relist) or known != bare
            case ObjectDeleted(uid=uid):
                self._views.pop(uid, None)
            case RelistStarted():
                self._views.clear()
            case _:
                pass
        return True
