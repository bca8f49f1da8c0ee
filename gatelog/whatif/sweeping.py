"""Several values of one setting or field on the same arrivals: a table of their costs.

Theory. A choice such as a least run time has two prices: longer waits, and lost work. Both are
counted in each play, so that a user chooses a value by its gains and costs on their own past. Hours
are of one resource, because hours of several cannot be added.

Invariant: rows are in the order in which the values were given.
"""

from typing import Any, TextIO

from msgspec import Struct, to_builtins

from gatelog.readmodel.rates import unit_name
from gatelog.readmodel.timeline import duration
from gatelog.shell.errors import UsageFailed
from gatelog.terminal.printing import table
from gatelog.whatif.tallying import Tally, hours

MOST = 20
"""Values of a sweep at most."""


class Sweep(Struct, frozen=True):
    """A setting, as `--set` names it, and its values."""

    name: str
    values: tuple[str, ...]

    def assigned(self, value: str) -> str:
        """Return the value as `--set` has it."""
        return f"{self.name}={value}"


class Hours(Struct, frozen=True):
    """Hours of a resource that were used, idle and lost: held by groups that were preempted."""

    resource: str
    used: float
    idle: float
    lost: float


class Row(Struct, frozen=True):
    """The results of one value. Waits are in seconds, of admissions; `waiting` are not admitted."""

    value: str
    admissions: int
    mean_s: float
    p90_s: float
    longest_s: float
    waiting: int
    waiting_total_s: float
    preempted: int
    hours: tuple[Hours, ...]


def read(text: str) -> Sweep:
    """Return a sweep of `NAME=VALUE,VALUE,…`; values that have commas are separated by semicolons.

    Raises:
        UsageFailed: the text is no sweep, or has too many values.
    """
    name, given, rest = text.partition("=")
    values = tuple(one.strip() for one in rest.split(";" if ";" in rest else ",") if one.strip())
    if not given or not name.strip() or not 2 <= len(values) <= MOST:
        raise UsageFailed(
            f"--sweep {text}: write what --set takes with 2 to {MOST} values, such as "
            "queueing.least_run_s=0,300,600; values that have commas are separated by semicolons"
        )
    return Sweep(name.strip(), values)


def row(value: str, tally: Tally) -> Row:
    """Return the results of one value."""
    found = tally.spread(tally.waits)
    longest = max((max(some) for some in tally.waits.values() if some), default=0.0)
    still = [wait for some in tally.waiting.values() for wait in some]
    resources = dict.fromkeys(key.resource for key in sorted(tally.quota))
    return Row(
        value,
        tally.admissions,
        found.total_s / found.count if found.count else 0.0,
        found.p90_s,
        max([longest, *still]),
        len(still),
        sum(still),
        sum(tally.preempted.values()),
        tuple(_hours(tally, resource) for resource in resources),
    )


def _hours(tally: Tally, resource: str) -> Hours:
    def summed(name: str) -> float:
        return sum(
            hours(key, getattr(quota, name))
            for key, quota in tally.quota.items()
            if key.resource == resource
        )

    return Hours(resource, summed("used"), summed("idle"), summed("lost"))


def as_values(sweep: Sweep, rows: list[Row]) -> dict[str, Any]:
    """Return the table as JSON values."""
    return {"sweep": sweep.name, "values": to_builtins(rows)}


def show(sweep: Sweep, rows: list[Row], out: TextIO) -> None:
    """Print the table, and which value lost least of each resource."""
    resources = [one.resource for one in rows[0].hours]
    heads = [sweep.name, "admitted", "mean wait", "p90", "longest", "waiting still", "preempted"]
    heads += [f"{what} {name} {unit_name(name)}" for name in resources for what in ("idle", "lost")]
    cells = []
    for each in rows:
        still = f"{each.waiting}, {duration(each.waiting_total_s)}" if each.waiting else "0"
        line = [each.value, str(each.admissions)]
        line += [duration(one) for one in (each.mean_s, each.p90_s, each.longest_s)]
        line += [still, str(each.preempted)]
        line += [f"{a:,.2f}" for one in each.hours for a in (one.idle, one.lost)]
        cells.append(line)
    out.write("\n")
    table(heads, cells, headers=True, out=out)
    for place, name in enumerate(resources):
        least = min(rows, key=lambda one: one.hours[place].lost)
        most = max(one.hours[place].lost for one in rows)
        if most > 0:
            out.write(
                f"least lost of {name}: {sweep.assigned(least.value)}, "
                f"{least.hours[place].lost:,.2f} {unit_name(name)} (most: {most:,.2f})\n"
            )
