"""Looking at the Leases: who watches, who folds, and whether they still do.

Ages compare the holder's clock with ours, so they are for people only; what replicas do depends on
no such comparison (`runtime.election`).

Invariant: Leases are read, never written.
"""

from datetime import UTC, datetime

from gatelog.examine.findings import Finding, fail, ok, skip
from gatelog.readmodel.timeline import duration
from runtime.kube import KubeClient, KubeError
from runtime.lease import Lease, LeaseStore, lease_name, namespace_of
from runtime.settings import Settings

AREA = "leases"
_TIMEOUT_S = 5.0
_SLACK_S = 5.0


async def examine(kube: KubeClient, settings: Settings) -> list[Finding]:
    """Look at the Leases of ingest and of every shard's projector."""
    if not settings.lease.enabled:
        return [skip(AREA, "holders", "lease.enabled is off: one ingest, one projector per shard")]
    names = {"ingest": lease_name("ingest", settings.cluster)}
    for shard in range(settings.shards):
        what = "projector" if settings.shards == 1 else f"projector {shard}"
        names[what] = lease_name("projector", settings.cluster, shard)
    return [await _one(kube, settings, what, name) for what, name in names.items()]


async def _one(kube: KubeClient, settings: Settings, what: str, name: str) -> Finding:
    namespace = namespace_of(settings.lease.namespace)
    full = f"{namespace}/{name}"
    try:
        lease = await LeaseStore(kube, namespace, name).read(_TIMEOUT_S)
    except KubeError as error:
        return skip(AREA, what, f"{full} cannot be read from here: {error}")
    part = what.split(maxsplit=1)[0]
    remedy = f"is the {part} deployment running, with the same lease.namespace and cluster?"
    if lease is None or not lease.holder:
        return fail(AREA, what, f"no replica holds {full}", remedy)
    age_s = _age_s(lease)
    if age_s is None or age_s > lease.duration_s + _SLACK_S:
        when = "never" if age_s is None else f"{duration(age_s)} ago"
        said = f"{lease.holder} holds {full}, renewed {when}, and no replica took over"
        return fail(AREA, what, said, remedy)
    turns = f"{lease.transitions} transition{'' if lease.transitions == 1 else 's'}"
    return ok(AREA, what, f"{lease.holder} ({full}, {turns})")


def _age_s(lease: Lease) -> float | None:
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(lease.renewed_at)).total_seconds()
    except (ValueError, TypeError):
        return None
