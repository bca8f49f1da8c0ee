"""A periodic look for pods of ours that our watch does not show, since they lack the label.

A found pod goes into the log as an unreadable pod (`DeltaRefused`), once for each thing that it
lacks: so it is parked visibly, `why` knows its name, and an Event on it says what to do. A gauge
counts what the last look found.

Invariant: this optional look stops no other work: a problem is a log line when it changes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from ingest.metrics import IngestMetrics
from podgroup.log.events import DeltaRefused, Event
from podgroup.model.names import MANAGED_LABEL
from podgroup.model.objects import Kind
from runtime.kube_errors import KubeError
from runtime.log import get_logger
from runtime.unlabelled import ListApi, NotListed, Unlabelled, find

FIRST_S = 20.0
"""Seconds after the start at which the first look comes, unless the interval is shorter."""
PAUSE_S = 1.0
"""Seconds between two pages: at a page a second, 100,000 pods take three minutes of a look."""
MOST_SAID = 100
"""Pods that are put into the log after one look; the rest are counted."""
FIELD = f"metadata.labels[{MANAGED_LABEL}]"

log = get_logger("ingest")


class UnlabelledPods:
    """Looks every `interval_s` seconds. `put` takes events into the log."""

    def __init__(
        self,
        api: ListApi,
        put: Callable[[Kind, Iterable[Event], str | None], Awaitable[None]],
        interval_s: float,
        *,
        topology: bool,
        metrics: IngestMetrics | None = None,
    ) -> None:
        self.problem = ""
        self._api = api
        self._put = put
        self._interval_s = interval_s
        self._topology = topology
        self._metrics = metrics
        self._said: dict[str, str] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        await asyncio.sleep(min(FIRST_S, self._interval_s))
        while True:
            await self.look()
            await asyncio.sleep(self._interval_s)

    async def look(self) -> None:
        """Look once, and put new findings into the log."""
        try:
            found = await find(self._api, topology=self._topology, pause_s=PAUSE_S)
        except (KubeError, NotListed) as error:
            if str(error) != self.problem:
                log.warning("unlabelled_not_looked_for", problem=str(error))
            self.problem = str(error)
            return
        self.problem = ""
        if self._metrics:
            self._metrics.unlabelled(len(found))
        new = [one for one in found if self._said.get(one.uid) != one.says][:MOST_SAID]
        known = {one.uid for one in found}
        self._said = {uid: text for uid, text in self._said.items() if uid in known}
        if new:
            await self._put("Pod", tuple(map(_event, new)), None)
            self._said |= {one.uid: one.says for one in new}


def _event(one: Unlabelled) -> DeltaRefused:
    return DeltaRefused(
        kind="Pod",
        namespace=one.namespace,
        name=one.name,
        uid=one.uid,
        resource_version=one.resource_version,
        field=FIELD,
        message=one.says,
        unlabelled=True,
    )
