"""The page of topologies: which rack and node has what free, who has the rest, at any moment.

Invariant: what a box says of free and held is of its own nodes alone; at most `SHOWN` boxes of a
level are drawn, and how many more there are is said.
"""

from typing import Any

from gatelog.readmodel import places
from gatelog.readmodel.moments import Asked
from gatelog.readmodel.places import NAMED, FlavorRoom, Room
from gatelog.serve.api.status import Refused
from gatelog.serve.console import picture
from gatelog.serve.console.html import Html, h
from gatelog.serve.console.parts import Page, PageView, group_link, page
from gatelog.serve.console.window import fitting, others, slider
from gatelog.serve.words import amount
from podgroup.model.topology import level_name


def topology(asked: Asked, seen: PageView) -> Page:
    """Return the domains of each flavor with a Topology, or those within one (`in`).

    Raises:
        Refused: 404, there is and was no such domain.
    """
    window = fitting(asked, seen, around=True)
    path = [value for value in seen.query.get("in", "").split(",") if value]
    found = places.rooms(asked.model, seen.moment, asked.note)
    here = [(one, room) for one in found if (room := one.at(path)) is not None]
    if path and not here:
        raise Refused(404, f"there is no domain {','.join(path)[:80]} with nodes at that moment")
    body = [
        h(
            "p",
            "A node is whole if no group has a place on it. Fragmentation is the part of what is "
            "free that is not on whole nodes.",
            class_="quiet",
        ),
        others(seen, "/topology", window),
        slider(seen, "/topology", window),
        h("p", h("a", "all domains", href=seen.link("/topology"))) if path else None,
        [_flavor(one, room, seen) for one, room in here]
        or h("p", "No flavor named a Topology.", class_="notice"),
    ]
    title = f"Topology, {' / '.join(path)}" if path else "Topology"
    return page(title, {"topologies": [one.data(room) for one, room in here]}, body)


def _flavor(one: FlavorRoom, room: Room, seen: PageView) -> Html:
    left: dict[int, int] = {}
    return h(
        "section",
        h("h2", f"{one.flavor}: {' / '.join(level_name(level) for level in one.levels)}"),
        h("p", one.headline(), "."),
        _boxes(one, room, seen, left) if room.below else _box(one, room, seen, left),
    )


def _boxes(one: FlavorRoom, room: Room, seen: PageView, left: dict[int, int]) -> Html:
    """Draw the domains below one, as far as boxes of their level are left."""
    domains, more = places.first_below(room, left)
    hosts = len(room.path) + 1 == len(one.levels)
    return h(
        "ul",
        [h("li", _box(one, below, seen, left)) for below in domains],
        h("li", f"and {more:,} more") if more else None,
        class_="domains hosts" if hosts else "domains",
    )


def _box(one: FlavorRoom, room: Room, seen: PageView, left: dict[int, int]) -> list[Any]:
    measure = one.measure
    total, free = (each.get(measure, 0) for each in (room.total, room.free))
    words = f"{amount(measure, free)} of {amount(measure, total)} {measure} free"
    name = f"{level_name(room.level)} {room.name}" if room.level else one.flavor
    link = seen.link("/topology", **{"in": ",".join(room.path)})
    most = room.most()
    held = [
        [
            ", " if number else "",
            group_link(seen, holder.namespace, holder.name),
            f" {amount(measure, holder.amount)}",
        ]
        for number, holder in enumerate(most[:NAMED])
    ]
    return [
        h("p", h("a", name, href=link) if room.below else name, class_="domain"),
        h("p", room.cannot(), class_="notice") if room.unusable else None,
        [h("p", words, class_="num"), picture.bar(total - free, total, f"{name}: {words}")]
        if room.nodes
        else None,
        h("p", f"{room.whole:,} of {room.nodes:,} nodes whole", class_="quiet")
        if room.below
        else None,
        h("p", held, f" and {len(most) - NAMED:,} more" if len(most) > NAMED else "")
        if held
        else None,
        _boxes(one, room, seen, left) if room.below else None,
    ]
