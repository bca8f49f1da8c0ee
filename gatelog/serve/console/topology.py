"""The page of topologies: free capacity of racks and nodes, and its holders, at any moment.

Invariant: the amounts of a box are sums of its own nodes alone; at most `SHOWN` boxes of a level
are drawn, with the number of the rest.
"""

from typing import Any

from gatelog.readmodel import places
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.places import NAMED, FlavorRoom, Room
from gatelog.serve.api.status import Refused
from gatelog.serve.console import picture
from gatelog.serve.console.rendering import Page, page
from gatelog.serve.console.view import PageView
from gatelog.serve.console.window import fitting, slider
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
    title = f"Topology, {' / '.join(path)}" if path else "Topology"
    data = {"topologies": [one.data(room) for one, room in here]}
    flavors = [
        {
            "title": f"{one.flavor}: {' / '.join(level_name(level) for level in one.levels)}",
            "headline": one.headline(),
            "box": _box(one, room, {}),
            "whole": not room.below,
        }
        for one, room in here
    ]
    time = slider(seen, "/topology", window)
    return page(title, data, seen, "topology", flavors=flavors, within=bool(path), time=time)


def _box(one: FlavorRoom, room: Room, left: dict[int, int]) -> dict[str, Any]:
    """Return the box of a domain, and boxes of domains below it as far as `left` allows."""
    measure = one.measure
    total, free = (each.get(measure, 0) for each in (room.total, room.free))
    words = f"{amount(measure, free)} of {amount(measure, total)} {measure} free"
    name = f"{level_name(room.level)} {room.name}" if room.level else one.flavor
    domains, more = places.first_below(room, left) if room.below else ([], 0)
    held = [(holder, amount(measure, holder.amount)) for holder in room.most()]
    return {
        "name": name,
        "path": ",".join(room.path),
        "room": room,
        "words": words,
        "bar": picture.bar(total - free, total, f"{name}: {words}"),
        "held": held[:NAMED],
        "more_held": max(0, len(held) - NAMED),
        "below": [_box(one, below, left) for below in domains],
        "more": more,
        "hosts": len(room.path) + 1 == len(one.levels),
    }
