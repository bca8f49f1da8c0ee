"""Events go when they are old, as etcd's leases take them (kube-apiserver --event-ttl, 1 h).

Invariant: an Event is there for at least its time to live, and gone at most a sweep later.
"""

import asyncio
import time
from datetime import UTC, datetime

from simcluster.store import Store

SWEEPS = 20
"""Sweeps per time to live."""


async def expire_events(store: Store, ttl_s: float) -> None:
    """Remove old Events until cancelled."""
    while True:
        await asyncio.sleep(ttl_s / SWEEPS)
        table = store.tables.get(("", "events"))
        if table is None:
            continue
        limit = datetime.fromtimestamp(time.time() - ttl_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for rec in list(table.iterate()):
            if rec.obj["metadata"]["creationTimestamp"] < limit:
                store.remove(table, rec)
