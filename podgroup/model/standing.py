"""The state of a queue or cohort: groups that wait or hold quota, what is used and borrowed.

Theory. A standing is worked out from indexes (`state.quota`, the quota tree) when it is due to
be reported, and is in the log as reported: in the status of the object, and in the ledger of usage.

Invariant: a standing is a value; of equal standings in a row one is reported.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from msgspec import Struct

COUNTS_TIMER = "counts//"
"""Name and purpose of the timer by which the standing of queues is reported."""
STARTS_TIMER = "starts//"
"""Name and purpose of the timer by which a group may have waited too long."""


class Amount(Struct, frozen=True, array_like=True, gc=False):
    """Amounts of one resource in one flavor, in the integers of `model.objects`.

    `nominal` is the quota of the queue or cohort itself; `quota` adds what its members lend up
    (both are the same for a ClusterQueue, and 0 for a LocalQueue). `reserved` is the usage of
    groups that hold quota, `used` of admitted groups; `borrowed` is taken from the parent. `spare`
    is what a cohort has left of `quota` for its members, 0 for queues. `unadmitted` is the usage of
    pods that run and were never admitted; none of the others includes it.
    """

    flavor: str
    resource: str
    nominal: int = 0
    quota: int = 0
    reserved: int = 0
    used: int = 0
    borrowed: int = 0
    spare: int = 0
    unadmitted: int = 0


def weighted_use(
    consumed: Mapping[str, Decimal], weights: Mapping[str, float], queue_weight: float
) -> float:
    """Return what a LocalQueue used lately as one number: the least use comes first.

    `consumed` in standard units per resource; a resource without a weight has weight 1.
    """
    total = 0.0
    for resource in sorted(consumed):
        total += float(weights.get(resource, 1)) * float(consumed[resource])
    return total / queue_weight if queue_weight > 0 else float("inf")


class Consumed(Struct, frozen=True, array_like=True, gc=False):
    """What was used lately, as of `at`: decimal text per resource, in standard units."""

    at: datetime
    amounts: tuple[tuple[str, str], ...] = ()


class Standing(Struct, frozen=True, omit_defaults=True, gc=False, kw_only=True):
    """Counts of groups and amounts. `cohort` is the parent, `root` the top of its tree, "" if none.

    `share` is the weighted dominant resource share in thousandths, rounded up; 2^63-1 is without
    limit (Kueue's weighted share). `consumed` is the recent use of a LocalQueue (`records.Used`),
    None where use does not decide.
    """

    pending: int = 0
    reserving: int = 0
    admitted: int = 0
    amounts: tuple[Amount, ...] = ()
    share: int = 0
    cohort: str = ""
    root: str = ""
    consumed: Consumed | None = None


class StandingReport(Struct, frozen=True, gc=False):
    """The standing reported last, for which object (its uid, "" without an object), and when.

    `seq` is the position of the report. Without a standing the queue or cohort is gone.
    """

    uid: str
    seq: int
    at: datetime
    standing: Standing | None = None
