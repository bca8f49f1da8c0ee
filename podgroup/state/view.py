"""What rules see of the state: the objects themselves, by types through which nothing is written.

Theory. Copying what a rule looks at would cost more than the rule. So at run time these are the
classes of `state`, and the stub beside this file says what of them a rule has: properties, and
mappings without a way to put anything in. Parts that are replaced as a whole are frozen and need
no view.

Invariant: a rule that assigns to anything it was given does not pass the type checker.
"""

from podgroup.state.members import Members
from podgroup.state.quota import Quotas
from podgroup.state.world import (
    SINGLE,
    Composition,
    Departures,
    Ending,
    Eviction,
    Explained,
    Finish,
    Group,
    HeldQuota,
    Holding,
    Meta,
    Mirror,
    Pod,
    Readiness,
    Refusal,
    Reporting,
    Requeueing,
    Role,
    Spec,
    World,
)

__all__ = [
    "SINGLE",
    "Composition",
    "Departures",
    "Ending",
    "Eviction",
    "Explained",
    "Finish",
    "Group",
    "HeldQuota",
    "Holding",
    "Members",
    "Meta",
    "Mirror",
    "Pod",
    "Quotas",
    "Readiness",
    "Refusal",
    "Reporting",
    "Requeueing",
    "Role",
    "Spec",
    "World",
]
