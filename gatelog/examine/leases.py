"""The Leases: the leaders of ingest and projector, and whether they still work.

Ages compare the holder's clock with the API server's, so they are for people only; replicas never
make such a comparison (`runtime.election`). A Lease that looks old, or comes from the future, is
read again: if it was renewed meanwhile the holder works and its clock is wrong.

Invariant: Leases are read, never written.
"""

import asyncio
from datetime import datetime

from gatelog.examine.findings import Finding, fail, ok, skip, warn
from gatelog.examine.nodes import by_server, skewed
from gatelog.readmodel.timeline import duration
from gatelog.shell.remedies import UNKNOWN, Installation, remedy
from runtime.clock import MOST_S
from runtime.kube import KubeClient, KubeError
from runtime.lease import Lease, LeaseStore, lease_name, namespace_of
from runtime.settings import Settings

AREA = "leases"
_TIMEOUT_S = 5.0
_SLACK_S = 5.0


async def examine(
    kube: KubeClient, settings: Settings, at: Installation = UNKNOWN
) -> list[Finding]:
    """Look at the Leases of ingest and of the projector."""
    if not settings.lease.enabled:
        return [ok(AREA, "holders", "lease.enabled is off: one ingest, one projector")]
    return [
        await _one(kube, settings, part, lease_name(part, settings.cluster), at)
        for part in ("ingest", "projector")
    ]


async def _one(
    kube: KubeClient, settings: Settings, what: str, name: str, at: Installation
) -> Finding:
    namespace = namespace_of(settings.lease.namespace)
    full = f"{namespace}/{name}"
    try:
        store = LeaseStore(kube, namespace, name)
        lease = await store.read(_TIMEOUT_S)
        age_s = None if lease is None else _age_s(lease)
        usual_s = settings.lease.retry_period_s + MOST_S
        if lease is not None and lease.holder and not -MOST_S <= (age_s or 0.0) <= usual_s:
            await asyncio.sleep(settings.lease.retry_period_s + 1)
            again = await store.read(_TIMEOUT_S)
            if again is not None and again.holder and again.renewed_at != lease.renewed_at:
                skew = skewed(-(_age_s(again) or 0.0))
                said = f"{again.holder} renews {full}, and its clock is {skew} the API server's"
                return warn(AREA, what, said, remedy("clock", at))
    except KubeError as error:
        return skip(AREA, what, f"{full} cannot be read from here: {error}")
    part = what.split(maxsplit=1)[0]
    doing = f"is the {part} deployment running, with the same lease.namespace and cluster?"
    if lease is None or not lease.holder:
        return fail(AREA, what, f"no replica holds {full}", doing)
    if age_s is None or age_s > lease.duration_s + _SLACK_S:
        when = "never" if age_s is None else f"{duration(age_s)} ago"
        said = f"{lease.holder} holds {full}, renewed {when}, and no replica took over"
        return fail(AREA, what, said, doing)
    turns = f"{lease.transitions} transition{'' if lease.transitions == 1 else 's'}"
    return ok(AREA, what, f"{lease.holder} ({full}, {turns})")


def _age_s(lease: Lease) -> float | None:
    """Return how long ago it was renewed, if the holder's clock is right; None: never."""
    try:
        return by_server() - datetime.fromisoformat(lease.renewed_at).timestamp()
    except (ValueError, TypeError):
        return None
