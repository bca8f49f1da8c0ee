"""Results of plays, in columns for people and as values for programs.

Theory. One play is shown by itself, two side by side: a column of two is `then → what-if`.
Amounts are in units of people: cpu in cores, everything else as it is counted, times in hours.

Invariant: the JSON has the values of the tables, by the same names.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

from gatelog.readmodel.rates import unit_name
from gatelog.readmodel.timeline import duration
from gatelog.terminal.printing import table
from gatelog.whatif.tallying import Key, Kind, Quota, Spread, Tally, hours

MOST = 10
"""Groups that are named among those that gain or lose most."""


def waits(tally: Tally, by: Callable[[Kind], tuple[str, ...]]) -> dict[tuple[str, ...], Any]:
    """Return waits per value of `by`: a Spread, and how many groups still wait, how long so far."""
    kinds: dict[tuple[str, ...], list[Kind]] = {}
    for kind in sorted({*tally.waits, *tally.waiting}):
        kinds.setdefault(by(kind), []).append(kind)
    found = {}
    for key, some in kinds.items():
        still = [wait for kind in some for wait in tally.waiting.get(kind, ())]
        found[key] = (tally.spread(some), len(still), sum(still))
    return found


def by_queue(kind: Kind) -> tuple[str, ...]:
    """Queue and priority."""
    return kind.queue, str(kind.priority)


def by_team(kind: Kind) -> tuple[str, ...]:
    """Value of the team label."""
    return (kind.team or "(none)",)


def as_values(tally: Tally) -> dict[str, Any]:
    """Return a play as JSON values."""

    def rows(by: Callable[[Kind], tuple[str, ...]], names: Sequence[str]) -> list[dict[str, Any]]:
        return [
            dict(zip(names, key, strict=True))
            | {name: getattr(spread, name) for name in Spread.__struct_fields__}
            | {"waiting": still, "waiting_total_s": so_far}
            for key, (spread, still, so_far) in waits(tally, by).items()
        ]

    return {
        "begin": tally.begin,
        "end": tally.end,
        "admissions": tally.admissions,
        "waits": rows(by_queue, ("queue", "priority")),
        "waits_by_team": rows(by_team, ("team",)),
        "quota": [
            {"queue": key.queue, "flavor": key.flavor, "resource": key.resource}
            | {"unit": unit_name(key.resource)}
            | {
                f"{name}_hours": round(hours(key, getattr(quota, name)), 6)
                for name in Quota.__struct_fields__
            }
            for key, quota in sorted(tally.quota.items())
        ],
        "preempted": dict(sorted(tally.preempted.items())),
        "evicted": dict(sorted(tally.evicted.items())),
    }


def show(tally: Tally, other: Tally | None, out: TextIO) -> None:
    """Print a play, or two side by side."""
    for title, by, names in (
        ("waits by queue and priority", by_queue, ("queue", "priority")),
        (f"waits by {tally.label}", by_team, (tally.label,)),
    ):
        both = [waits(each, by) for each in (tally, other) if each is not None]
        keys = sorted({key for each in both for key in each})
        if by is by_team and [k for k in keys if k != ("(none)",)] == []:
            continue
        out.write(f"\n{title}\n")
        cells = [[*key, *_side_by_side([_waits(each.get(key)) for each in both])] for key in keys]
        heads = [*names, "admitted", "p50", "p90", "p99", "total", "waiting still"]
        table(heads, cells, headers=True, out=out)
    out.write("\nquota\n")
    tallies = [each for each in (tally, other) if each is not None]
    cells = [
        [
            *(key.queue, key.flavor, key.resource, unit_name(key.resource)),
            *_side_by_side([_quota(key, each.quota.get(key)) for each in tallies]),
        ]
        for key in sorted({key for each in tallies for key in each.quota})
    ]
    heads = ["queue", "flavor", "resource", "unit"]
    heads += ["nominal", "used", "idle", "borrowed", "lent", "lost", "used %"]
    table(heads, cells, headers=True, out=out)
    queues = sorted({q for each in tallies for q in (*each.preempted, *each.evicted)})
    out.write("\npreemptions\n" if queues else "\npreemptions: none\n")
    if queues:
        cells = [
            [
                queue or "(none)",
                *_side_by_side(
                    [(str(each.preempted[queue]), str(each.evicted[queue])) for each in tallies]
                ),
            ]
            for queue in queues
        ]
        table(["queue", "preempted", "evicted otherwise"], cells, headers=True, out=out)


def _side_by_side(columns: Sequence[Iterable[str]]) -> list[str]:
    return [
        each[0] if len(set(each)) == 1 else " → ".join(each) for each in zip(*columns, strict=True)
    ]


def _waits(found: Any) -> tuple[str, ...]:
    spread, still, so_far = found or (Spread(0, 0.0, 0.0, 0.0, 0.0), 0, 0.0)
    if spread.count:
        times = [duration(getattr(spread, name)) for name in ("p50_s", "p90_s", "p99_s", "total_s")]
    else:
        times = ["-"] * 4
    return str(spread.count), *times, f"{still}, {duration(so_far)} so far" if still else "0"


def _quota(key: Key, quota: Quota | None) -> tuple[str, ...]:
    quota = quota or Quota()
    names = ("nominal", "used", "idle", "borrowed", "lent", "lost")
    amounts = [f"{hours(key, getattr(quota, name)):,.2f}" for name in names]
    share = f"{100 * quota.used / quota.nominal:.1f}" if quota.nominal else "-"
    return *amounts, share
