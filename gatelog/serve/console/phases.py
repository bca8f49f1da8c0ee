"""Phases of a group's pods: their times, and how many pods were in each.

Invariant: phases of a pod do not overlap, and a pod counts once at any time.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

BUCKETS = 160
PHASES = ("gated", "starting", "running", "succeeded", "failed", "replaced")
_SHORTEST, _NONE = timedelta(seconds=1), timedelta(0)


class PodRow(Struct, frozen=True, gc=False):
    """A pod of a group, as its picture needs it."""

    name: str
    role: str
    phase: str
    node: str
    fate: str
    exit_reason: str
    created_at: datetime
    ungated_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    gone_at: datetime | None
    seen_at: datetime | None = None

    @property
    def born_at(self) -> datetime:
        """When the pod was created: `seen_at` if within the whole second of `created_at`."""
        seen = self.seen_at
        within = seen is not None and _NONE <= seen - self.created_at < _SHORTEST
        return seen if seen is not None and within else self.created_at

    def as_of(self, moment: datetime) -> "PodRow":
        """Return the pod as it was at a moment, without later times."""

        def by_then(at: datetime | None) -> datetime | None:
            return at if at is not None and at <= moment else None

        over, ran = by_then(self.ended_at), by_then(self.started_at)
        return replace(
            self,
            phase=self.phase if over else "Running" if ran else "Pending",
            node=self.node if by_then(self.ungated_at) else "",
            fate=self.fate if over or by_then(self.gone_at) else "",
            exit_reason=self.exit_reason if over else "",
            ungated_at=by_then(self.ungated_at),
            started_at=ran,
            ended_at=over,
            gone_at=by_then(self.gone_at),
        )


class Span(Struct, frozen=True):
    """A phase of a pod with its begin and end."""

    phase: str
    begin: datetime
    end: datetime


def spans(pod: PodRow, until: datetime) -> list[Span]:
    """Return the phases of a pod up to a time, in order; they do not overlap."""
    over = min(pod.gone_at or until, until)
    failed = bool(pod.exit_reason) or pod.phase == "Failed"
    last = "failed" if failed else "succeeded"
    if pod.fate in ("replaced", "lost", "excess"):
        last = "replaced"
    steps = [
        ("gated", pod.born_at),
        ("starting", pod.ungated_at),
        ("running", pod.started_at),
        (last, pod.ended_at),
    ]
    known: list[tuple[str, datetime]] = []
    for phase, at in steps:
        if at is not None:
            # Clocks differ (a kubelet's counts whole seconds): nothing begins before the last.
            known.append((phase, max(at, known[-1][1]) if known else at))
    known = [(phase, at) for phase, at in known if at < over]
    found = []
    for number, (phase, at) in enumerate(known):
        end = known[number + 1][1] if number + 1 < len(known) else over
        if end > at:
            found.append(Span(phase, at, end))
    return found


def counted(pods: Iterable[PodRow], begin: datetime, end: datetime) -> dict[str, list[int]]:
    """Return how many pods were in a phase, in each of `BUCKETS` equal parts of the time.

    A pod counts once in each part: for the phase that it was in when the part ended, or at last.
    """
    seconds = max((end - begin).total_seconds(), 1.0)
    change = {phase: [0] * (BUCKETS + 1) for phase in PHASES}

    def part(at: datetime) -> int:
        return min(max(int((at - begin).total_seconds() / seconds * BUCKETS), 0), BUCKETS)

    for pod in pods:
        phases = spans(pod, end)
        for number, one in enumerate(phases):
            first, last = part(one.begin), part(one.end)
            if number + 1 == len(phases):
                first = min(first, BUCKETS - 1)
                last = max(last, first + 1)
            change[one.phase][first] += 1
            change[one.phase][last] -= 1
    found: dict[str, list[int]] = {}
    for phase, steps in change.items():
        now, series = 0, []
        for step in steps[:BUCKETS]:
            now += step
            series.append(now)
        found[phase] = series
    return found
