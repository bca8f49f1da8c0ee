"""`gatelog topology`: free amounts of racks and nodes, the groups with the rest, fragmentation.

Invariant: reads only.
"""

import sys
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatelog.shell import options
from gatelog.shell.errors import FAILED
from gatelog.shell.since import moment

if TYPE_CHECKING:
    from collections.abc import Callable

    from gatelog.readmodel.places import FlavorRoom, Room
    from gatelog.terminal.printing import Column

EXAMPLES = """
gatelog topology
gatelog topology default --flavor gpu --in block-2
gatelog topology --at 2026-11-22T10:00:00Z
gatelog topology -o json
"""


@dataclass(frozen=True)
class DomainOptions:
    """Which domains are shown, and of when."""

    flavor: Annotated[
        str, typer.Option(metavar="NAME", help="Of this flavor. Default: of all.")
    ] = ""
    within: Annotated[
        str,
        typer.Option(
            "--in", metavar="VALUE[,VALUE]", help="A domain, by its values from the outermost in."
        ),
    ] = ""
    at: Annotated[
        str | None, typer.Option(metavar="TIME|SPAN", help="A past moment. Default: now.")
    ] = None

    def when(self, now: datetime) -> datetime:
        """Return the moment that the options name.

        Raises:
            UsageFailed: the text is no time.
        """
        return now if self.at is None else min(moment("--at", self.at, now), now)


def topology(
    where: options.ReadModelOptions,
    answer: options.TableOptions,
    domains: DomainOptions,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Topology. Default: all.")] = "",
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL statements instead of the answer.")
    ] = False,
) -> int | None:
    """The domains of each flavor with a Topology, from the outermost level to nodes: what is free
    there, which groups have places, which nodes cannot be used, and how far what is free is in
    pieces; now or at any past moment. docs/queues.md says how it is counted.
    """
    from gatelog.readmodel import places
    from gatelog.terminal import lookup, printing

    output = answer.form
    asked: list[str] = []
    path = domains.within.split(",") if domains.within else []
    settings = where.settings(search=True)
    when = domains.when(lookup.clock(settings))
    if not sql:
        lookup.say_where(settings, output)
    with lookup.open_model(settings) as model:
        everything = places.rooms(
            model, when, lambda _, query, given: asked.append(model.statement(query, given))
        )
    if sql:
        sys.stdout.write("\n".join(asked))
        return None
    found = [
        (one, room)
        for one in everything
        if name in ("", one.topology) and domains.flavor in ("", one.flavor)
        if (room := one.at(path)) is not None
    ]
    if not found:
        known = ", ".join(f"{one.topology} (flavor {one.flavor})" for one in everything) or "none"
        sys.stderr.write(f"gatelog: no such topology was known; there is {known}\n")
        return FAILED
    if output in ("json", "yaml"):
        sys.stdout.write(printing.document([one.data(room) for one, room in found], output))
        return None
    for one, room in found:
        if output != "name":
            sys.stdout.write(f"flavor {one.flavor}, topology {one.topology}: {one.headline()}\n")
        printing.show(
            list(places.shown_below(room)),
            _columns(one),
            output,
            names=lambda line: "" if isinstance(line, int) else ",".join(line.path),
            headers=not answer.no_headers,
        )
    return None


def _columns(flavor: "FlavorRoom") -> "list[Column[Room | int]]":
    """Return the columns of a line: a domain, or how many more there are."""
    from gatelog.terminal.printing import Column
    from podgroup.model.topology import level_name
    from podgroup.model.wording import shown

    def column(name: str, text: "Callable[[Room], str]", *, wide: bool = False) -> "Column[Any]":
        return Column(name, lambda line: "" if isinstance(line, int) else text(line), wide)

    def title(line: "Room | int") -> str:
        if isinstance(line, int):
            return f"and {line:,} more"
        return f"{'  ' * (len(line.path) - 1)}{level_name(line.level)} {line.name}"

    def amount(name: str, pick: "Callable[[Room], dict[str, int]]") -> "Column[Any]":
        return column(name, lambda room: shown(flavor.measure, pick(room).get(flavor.measure, 0)))

    return [
        Column("DOMAIN", title),
        amount("FREE", lambda room: room.free),
        amount("HELD", lambda room: room.held),
        amount("OTHERS", lambda room: room.taken),
        amount("OF", lambda room: room.total),
        column("WHOLE NODES", lambda room: f"{room.whole} of {room.nodes}"),
        column("HELD BY", flavor.holders),
        column("NOT USABLE", lambda room: room.cannot()),
        column(
            "ALL THAT IS FREE",
            lambda room: ", ".join(f"{shown(k, room.free[k])} {k}" for k in sorted(room.free)),
            wide=True,
        ),
    ]
