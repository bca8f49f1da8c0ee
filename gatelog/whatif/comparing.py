"""Two plays of the same arrivals compared: groups that gain, groups that lose.

Theory. A group's id is made of the uid of the pod that opened it, so a group is the same one in
both plays.

Invariant: a group that was admitted in only one of the two plays is counted, and never compared.
"""

import bisect
import math
from datetime import datetime
from typing import Any, TextIO

from msgspec import Struct

from gatelog.readmodel.timeline import duration
from gatelog.terminal.printing import table
from gatelog.whatif.reporting import MOST
from gatelog.whatif.tallying import Quota, Start, Tally, spread


class Moved(Struct, frozen=True):
    """How much later a group starts; negative: earlier. Seconds."""

    group: str
    queue: str
    wait_then_s: float
    wait_s: float
    later_s: float


class QueueCalibration(Struct, frozen=True):
    """The agreement for one ClusterQueue, with total waits and the difference in used quota.

    Waits are of all admissions and of groups that still wait. `used_off` is the largest relative
    difference in usage of any flavor and resource.
    """

    queue: str
    only_then: int
    only_now: int
    both: int
    in_order: int
    wait_then_s: float
    wait_s: float
    used_off: float

    @property
    def wait_off(self) -> float:
        """Relative difference of total waits."""
        return _off(self.wait_then_s, self.wait_s)


class Calibration(Struct, frozen=True):
    """How two plays of the same arrivals agree, from how they admit the same groups.

    `in_order` counts those of the `both` admitted groups that are in the same place of the order
    (longest common subsequence); differences are of times of admission. Admissions later than
    `until` are left out.
    """

    only_then: int
    only_now: int
    both: int
    in_order: int
    p50_s: float
    p99_s: float
    until: datetime | None
    queues: list[QueueCalibration] = []

    @property
    def trust(self) -> str:
        """Say how far to trust an answer, from the differences that appear although nothing
        changed.
        """
        wait = max((one.wait_off for one in self.queues), default=0.0)
        used = max((one.used_off for one in self.queues), default=0.0)
        said = (
            f"trust a difference of waits beyond {_percent(wait, 2)}, of quota used beyond "
            f"{_percent(used, 1)}"
        )
        if self.only_then or self.only_now or self.in_order < 0.99 * self.both:
            return f"{said}; of single groups trust none: some are admitted otherwise"
        return said


def calibration(then: Tally, now: Tally, until: datetime | None = None) -> Calibration:
    """Return how far the second is from the first, up to `until`."""
    first, second = (
        {key: start for key, start in (each.starts or {}).items() if not until or start.at <= until}
        for each in (then, now)
    )
    both = [key for key in first if key in second]
    queues = sorted({start.queue for each in (first, second) for start in each.values()})
    differences = [abs((first[key].at - second[key].at).total_seconds()) for key in both]
    found = spread(differences)
    return Calibration(
        len(first) - len(both),
        len(second) - len(both),
        len(both),
        _in_order(first, second, both),
        found.p50_s,
        found.p99_s,
        until,
        [_of_queue(name, (then, now), (first, second)) for name in queues],
    )


def _of_queue(
    queue: str, tallies: tuple[Tally, Tally], starts: tuple[dict[str, Start], dict[str, Start]]
) -> QueueCalibration:
    first, second = ({k: s for k, s in each.items() if s.queue == queue} for each in starts)
    both = [key for key in first if key in second]
    waits = [
        math.fsum(
            wait
            for of_kind in (tally.waits, tally.waiting)
            for kind, some in of_kind.items()
            if kind.queue == queue
            for wait in some
        )
        for tally in tallies
    ]
    keys = {key for tally in tallies for key in tally.quota if key.queue == queue}
    used = [[tally.quota.get(key, Quota()).used for tally in tallies] for key in keys]
    return QueueCalibration(
        queue,
        len(first) - len(both),
        len(second) - len(both),
        len(both),
        _in_order(first, second, both),
        waits[0],
        waits[1],
        max((_off(*each) for each in used), default=0.0),
    )


def _off(then: float, now: float) -> float:
    """Return the difference relative to `then`; one second is none."""
    return 0.0 if abs(now - then) <= 1.0 else abs(now - then) / max(then, 1.0)


def _percent(part: float, least: int) -> str:
    return f"{max(least, math.ceil(100 * part)):,} %"


def _in_order(first: dict[str, Start], second: dict[str, Start], both: list[str]) -> int:
    """Longest increasing run of places; groups of one moment have no order among themselves."""
    ordered = sorted(both, key=lambda key: (first[key].at, second[key].at, key))
    tails: list[Any] = []
    for key in ordered:
        at = second[key].at
        place = bisect.bisect_right(tails, at)
        tails[place : place + 1] = [at]
    return len(tails)


def moved(then: Tally, now: Tally) -> list[Moved]:
    """Return every group of both that starts at another time, most gain first, ties by name."""
    first, second = then.starts or {}, now.starts or {}
    found = [
        Moved(
            first[key].title,
            second[key].queue,
            first[key].wait_s,
            second[key].wait_s,
            (second[key].at - first[key].at).total_seconds(),
        )
        for key in first
        if key in second and first[key].at != second[key].at
    ]
    return sorted(found, key=lambda one: (one.later_s, one.group))


def as_values(then: Tally, now: Tally) -> dict[str, Any]:
    """Return the comparison as JSON values."""
    found = moved(then, now)
    only = calibration(then, now)
    return {
        "earlier": sum(one.later_s < 0 for one in found),
        "later": sum(one.later_s > 0 for one in found),
        "only_then": only.only_then,
        "only_what_if": only.only_now,
        "gain_most": [one for one in found[:MOST] if one.later_s < 0],
        "lose_most": [one for one in found[: -MOST - 1 : -1] if one.later_s > 0],
        "earlier_total_s": -math.fsum(one.later_s for one in found if one.later_s < 0),
        "later_total_s": math.fsum(one.later_s for one in found if one.later_s > 0),
    }


def show(then: Tally, now: Tally, out: TextIO) -> None:
    """Print the groups that gain and the groups that lose."""
    found = as_values(then, now)
    out.write(
        f"\ngroups: {found['earlier']:,} start earlier ({duration(found['earlier_total_s'])} in "
        f"all), {found['later']:,} later ({duration(found['later_total_s'])} in all), "
        f"{found['only_then']:,} start only as it is, {found['only_what_if']:,} only with the "
        "change\n"
    )
    for title, name in (("gain most", "gain_most"), ("lose most", "lose_most")):
        if found[name]:
            out.write(f"\n{title}\n")
            cells = [
                [
                    one.group,
                    one.queue,
                    f"{duration(one.wait_then_s)} → {duration(one.wait_s)}",
                    f"{duration(abs(one.later_s))} {'later' if one.later_s > 0 else 'earlier'}",
                ]
                for one in found[name]
            ]
            table(["group", "queue", "waited", "starts"], cells, headers=True, out=out)
