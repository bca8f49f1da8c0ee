"""The work queue of a controller: objects that it looks at one after the other.

Invariant: an object is queued once, and looked at in its state of that moment, unless it is gone.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from simcluster.errors import ApiError
from simcluster.store import Rec, Store, Table

AGAIN_S = 0.02
"""Seconds until an object is looked at again after a request for it that failed with 5xx."""


class WorkQueue:
    """Uids in the order in which they came; worked off in one task."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._uids: OrderedDict[str, None] = OrderedDict()
        self._wake = asyncio.Event()

    def add(self, uid: str) -> None:
        """Have an object looked at."""
        self._uids[uid] = None
        self._wake.set()

    async def run(self, look: Callable[[Table, Rec], Awaitable[None]]) -> None:
        """Look at queued objects for ever; an object whose write is refused waits for its next
        change.
        """
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._uids:
                uid, _ = self._uids.popitem(last=False)
                entry = self._store.by_uid.get(uid)
                if entry is None:
                    continue
                try:
                    await look(*entry)
                except ApiError as error:
                    if error.code >= 500:
                        await asyncio.sleep(AGAIN_S)
                        self.add(uid)
