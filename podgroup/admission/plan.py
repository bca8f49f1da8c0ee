"""A plan: the flavors that a workload would get, how well it fits, and why not better.

Theory. Per podset and resource a flavor is noted with a mode: it fits, it would fit after a
preemption, or it does not fit. The worst resource makes the podset's mode, the worst podset the
plan's mode. A plan borrows as far up the tree as its furthest resource.

Invariant: `usage` is the sum of the requests of podsets with flavors.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from podgroup.admission.model import PodSetAssignment
from podgroup.admission.tree import Usage
from podgroup.model.names import (
    PENDING_EXCEEDS_MAX_QUOTA,
    PENDING_NO_MATCHING_FLAVOR,
    PENDING_WAITING_FOR_QUOTA,
)
from podgroup.model.shortage import Shortage
from podgroup.model.topology import TopologyAssignment


class Mode(IntEnum):
    """How well a plan fits, the worst first."""

    NO_FIT = 0
    PREEMPT = 1
    DEFERRED = 2
    """The plan fits once evictions that are decided already are complete."""
    FIT = 3


MODE_NAMES: Final = {
    Mode.NO_FIT: "NoFit",
    Mode.PREEMPT: "Preempt",
    Mode.DEFERRED: "DeferredFit",
    Mode.FIT: "Fit",
}

_SEVERITY: Final = {
    "": 0,
    PENDING_WAITING_FOR_QUOTA: 1,
    PENDING_EXCEEDS_MAX_QUOTA: 2,
    PENDING_NO_MATCHING_FLAVOR: 3,
}


class Choice(NamedTuple):
    """The flavor of a resource. `tried` is its place, -1 once the last flavor was reached."""

    flavor: str
    mode: Mode
    level: int
    tried: int


class SetPlan(NamedTuple):
    """What a podset would get. `asked` is the request of all its pods."""

    name: str
    pods: int
    asked: Mapping[str, int]
    choices: Mapping[str, Choice]
    reasons: Sequence[str]

    @property
    def mode(self) -> Mode:
        """The worst mode of its resources."""
        if not self.reasons:
            return Mode.FIT
        return min((choice.mode for choice in self.choices.values()), default=Mode.NO_FIT)


class Plan:
    """What a workload would get."""

    __slots__ = ("borrowing", "lacking", "mode", "places", "reason", "sets", "shortages", "usage")

    def __init__(
        self,
        sets: list[SetPlan],
        usage: Usage,
        reason: str,
        shortages: tuple[Shortage, ...] = (),
    ) -> None:
        self.sets = sets
        self.shortages = shortages
        """Shortages in the flavors that were looked at."""
        self.usage = usage
        self.places: Mapping[str, TopologyAssignment] = {}
        """Podset -> the places of its pods, for podsets that have places."""
        self.lacking: Sequence[str] = ()
        """Podsets that have no place."""
        self.mode = min((one.mode for one in sets), default=Mode.NO_FIT)
        self.reason = reason
        """The kind of failure, if the plan does not fit at all or lacks places; else ""."""
        self.borrowing = max((c.level for s in sets for c in s.choices.values()), default=0)

    @property
    def message(self) -> str:
        """The message per podset of what is in the way."""
        return "; ".join(
            f"couldn't assign flavors to pod set {one.name}: {', '.join(sorted(one.reasons))}"
            for one in self.sets
            if one.reasons
        )

    @property
    def tried(self) -> list[dict[str, int]]:
        """The flavor at which the search stopped, per podset and resource."""
        return [{r: choice.tried for r, choice in one.choices.items()} for one in self.sets]

    def also(self, others: Sequence["Plan"]) -> None:
        """Add to the message what is in the way in other flavors."""
        more: dict[str, list[str]] = {}
        for plan in others:
            for one in plan.sets:
                more.setdefault(one.name, []).extend(one.reasons)
        self.sets = [
            one._replace(reasons=list(dict.fromkeys([*one.reasons, *more.get(one.name, ())])))
            for one in self.sets
        ]

    def assignments(self) -> tuple[PodSetAssignment, ...]:
        """Return the assignments of the workload when it is admitted."""
        return tuple(
            PodSetAssignment(
                name=one.name,
                count=one.pods,
                flavors={r: choice.flavor for r, choice in one.choices.items()},
                usage={r: one.asked[r] for r in one.choices},
                topology=self.places.get(one.name),
            )
            for one in self.sets
        )


def gravest(reasons: Sequence[str]) -> str:
    """Return the most severe kind of failure."""
    return max(reasons, key=_SEVERITY.__getitem__, default="")


def mildest(reasons: Sequence[str]) -> str:
    """Return the least severe kind: flavors are alternatives."""
    return min(reasons, key=_SEVERITY.__getitem__)


def overall(groups: Sequence[Sequence[str]]) -> str:
    """Return a podset's kind of failure, from the kinds of all flavors tried in each group."""
    if not groups:
        return PENDING_NO_MATCHING_FLAVOR
    return gravest([mildest(one) for one in groups if one])
