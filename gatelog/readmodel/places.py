"""Free places: the domains of flavors with a Topology, free amounts there, and holders.

Theory. Nodes, Topologies and places are rows with a begin and an end, so a past moment is queried
like the present; flavors are as they are now. The trees are those by which admission places pods
(`podgroup.admission.topology`), filled from these rows.

A node is *whole* if it is ready, not cordoned, and no group has a place on it; its free amounts are
all that groups can ever have there. The largest group of one pod per node that would fit has a pod
on each whole node. *Fragmentation* is the part of free amounts that it could not have: those on the
other nodes. It is measured in one resource, the resource with a `/` in its name that most nodes
have (devices), else cpu. Where hosts are no level, the node of a pod within a domain is not known:
of n nodes with places for k pods at least n - k are whole.

Invariant: reads only; the free amount of a domain is the sum of the domains below it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from gatelog.readmodel.rows import RolesRow
from podgroup.admission.amounts import PODS
from podgroup.admission.model import PodSet, PodSetAssignment
from podgroup.admission.topology.domains import DomainTree, Path
from podgroup.admission.topology.places import Places
from podgroup.model.objects import FlavorView, NodeView
from podgroup.model.quantities import CPU
from podgroup.model.topology import (
    HOSTNAME,
    TopologyAssignment,
    TopologyDomain,
    TopologyRequest,
    level_name,
)
from podgroup.model.wording import shown

if TYPE_CHECKING:
    from gatelog.readmodel.model import Note, ReadModel

NAMED, _HOSTS = 3, 8
"""Groups and hosts of a domain that are named."""
SHOWN = 50
"""Domains of one level that are shown; the others are counted."""
_MOST = 200_000

_GROUP = "SELECT folded FROM groups WHERE cluster = :cluster AND id = :group_id"
_HOLDS = "{t}.from_at <= :at AND ({t}.to_at IS NULL OR {t}.to_at > :at)"
_NODES = f"""
SELECT n.name, n.ready, n.unschedulable, CAST(n.labels AS TEXT) AS labels,
       CAST(n.allocatable AS TEXT) AS allocatable, CAST(n.taken AS TEXT) AS taken
  FROM nodes n
 WHERE n.cluster = :cluster AND {_HOLDS.format(t="n")}
 ORDER BY n.name, n.from_seq LIMIT :limit
"""
_TOPOLOGIES = f"""
SELECT t.name, CAST(t.levels AS TEXT) AS levels
  FROM topologies t
 WHERE t.cluster = :cluster AND {_HOLDS.format(t="t")}
 ORDER BY t.name, t.from_seq LIMIT :limit
"""
_PLACED = f"""
SELECT g.id, g.namespace, g.name, p.domain, p.level, p.flavor, p.pods, p.from_at AS since,
       CAST(p.requests AS TEXT) AS requests
  FROM placements p JOIN groups g ON g.cluster = p.cluster AND g.id = p.group_id
 WHERE p.cluster = :cluster AND {_HOLDS.format(t="p")}
   AND (p.group_id = :group_id OR :group_id = '')
 ORDER BY p.from_at, g.id, p.pod_set, p.domain LIMIT :limit
"""


class PlacedRow(Struct, frozen=True):
    """Pods of a group in one domain; `requests` are the amounts of each pod."""

    id: str
    namespace: str
    name: str
    domain: str
    level: str
    flavor: str
    pods: int
    since: datetime
    requests: str

    @property
    def amounts(self) -> dict[str, int]:
        """The requests of each pod."""
        return msgspec.json.decode(self.requests, type=dict[str, int])


class Holder(Struct):
    """A group's part of a domain, in the measured resource, and since when."""

    namespace: str
    name: str
    since: datetime
    pods: int = 0
    amount: int = 0


class Room(Struct):
    """A domain: amounts of its nodes (`total`): taken by other pods, held by groups, and free.

    `nodes` counts usable nodes; `unusable` names its other nodes, with reasons. `in_whole` is the
    amount of the measured resource that is free on whole nodes.
    """

    level: str
    path: tuple[str, ...]
    nodes: int = 0
    whole: int = 0
    in_whole: int = 0
    total: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    taken: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    held: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    free: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    holders: dict[str, Holder] = field(default_factory=dict)
    """By group id."""
    unusable: list[tuple[str, str]] = field(default_factory=list)
    below: dict[str, "Room"] = field(default_factory=dict)
    """By the value of the next level."""

    @property
    def name(self) -> str:
        """The end of its path; "" for all nodes of a flavor."""
        return self.path[-1] if self.path else ""

    def most(self) -> list[Holder]:
        """Return the groups with places in it, the largest first."""
        order = sorted(self.holders.items(), key=lambda one: (-one[1].amount, one[0]))
        return [holder for _, holder in order]

    def cannot(self) -> str:
        """Say how many of its nodes cannot be used, and for a single node why."""
        if len(self.unusable) == 1:
            return " ".join(self.unusable[0]) if self.nodes else self.unusable[0][1]
        return f"{len(self.unusable):,} nodes" if self.unusable else ""

    def data(self) -> dict[str, Any]:
        """Return it as a document, with all that is below it."""
        return {
            "level": self.level,
            "path": self.path,
            "nodes": self.nodes,
            "wholeNodes": self.whole,
            "total": self.total,
            "taken": self.taken,
            "held": self.held,
            "free": self.free,
            "heldBy": self.most(),
            "unusable": [{"node": node, "why": why} for node, why in self.unusable],
            "domains": [self.below[name].data() for name in sorted(self.below)],
        }


class FlavorRoom(Struct):
    """All nodes of a flavor. `measure`: the resource in which fragmentation is measured."""

    flavor: str
    topology: str
    levels: tuple[str, ...]
    measure: str
    root: Room
    largest: dict[str, int]
    """Level -> whole nodes in its domain with most whole nodes."""

    @property
    def fragmentation(self) -> float | None:
        """The part of the free amount that is not on whole nodes; None if nothing is free."""
        free = self.root.free.get(self.measure, 0)
        return 1 - self.root.in_whole / free if free else None

    def at(self, path: Sequence[str]) -> Room | None:
        """Return the domain of a path, None if there is none."""
        found: Room | None = self.root
        for value in path:
            found = found.below.get(value) if found is not None else None
        return found

    def data(self, room: Room) -> dict[str, Any]:
        """Return the flavor as a document, with one of its domains."""
        return {
            "flavor": self.flavor,
            "topology": self.topology,
            "levels": self.levels,
            "measure": self.measure,
            "largest": self.largest,
            "fragmentation": self.fragmentation,
            "domain": room.data(),
        }

    def holders(self, room: Room) -> str:
        """Say which groups have places in a domain, the three that have most by name."""
        most = room.most()
        said = [f"{o.namespace}/{o.name} {shown(self.measure, o.amount)}" for o in most[:NAMED]]
        return ", ".join(said + [f"and {len(most) - NAMED:,} more"][: len(most) > NAMED])

    def headline(self) -> str:
        """Say in words how much is free, and how broken up."""
        root, name = self.root, self.measure
        free, total = (shown(name, each.get(name, 0)) for each in (root.free, root.total))
        best = ", ".join(f"{most} in one {level_name(one)}" for one, most in self.largest.items())
        broken = self.fragmentation
        said = f"{free} of {total} {name} free on {root.nodes:,} nodes; whole nodes: {root.whole:,}"
        said += f" ({best})" if best else ""
        return said + ("" if broken is None else f"; fragmentation {broken:.0%}")


def rooms(model: "ReadModel", at: datetime, note: "Note | None" = None) -> list[FlavorRoom]:
    """Return what each flavor with a Topology has at a moment, by name."""
    given = {"at": at, "limit": _MOST, "group_id": ""}

    def asked(title: str, query: str) -> list[dict[str, Any]]:
        if note is not None:
            note(title, query, given)
        return model.dicts(query, given)

    topologies = {
        row["name"]: msgspec.json.decode(row["levels"], type=tuple[str, ...])
        for row in asked("topologies", _TOPOLOGIES)
    }
    if not topologies:
        return []
    views = [row.view for row in model.objects("ResourceFlavor")]
    flavors = [
        view for view in views if isinstance(view, FlavorView) and view.topology in topologies
    ]
    nodes = [
        NodeView(
            name=row["name"],
            ready=bool(row["ready"]),
            unschedulable=bool(row["unschedulable"]),
            labels=msgspec.json.decode(row["labels"]),
            allocatable=msgspec.json.decode(row["allocatable"]),
            taken=msgspec.json.decode(row["taken"]),
        )
        for row in asked("nodes", _NODES)
    ]
    if note is not None:
        note("places of pods", _PLACED, given)
    return worked_out(topologies, flavors, nodes, list(model.rows(PlacedRow, _PLACED, given)))


def places_of(model: "ReadModel", group_id: str, at: datetime) -> list[str]:
    """Say where the pods of a group have places, by the domains above hosts."""
    given = {"at": at, "limit": _MOST, "group_id": group_id}
    rows = list(model.rows(PlacedRow, _PLACED, given))
    if not rows:
        return []
    known = {
        (one.flavor, room.path if level != HOSTNAME else room.path[-1:]): (one.levels, room.path)
        for one in rooms(model, at)
        for level in one.levels[-1:]
        for room in _all(one.root)
        if room.level == level
    }
    pods: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        key = tuple(row.domain.split(","))
        levels, path = known.get((row.flavor, key), ((row.level,) * len(key), key))
        above = [f"{level_name(level)} {value}" for level, value in zip(levels, path, strict=True)]
        pods[", ".join(above[:-1])][above[-1]] += row.pods
    return [_located(where, hosts) for where, hosts in sorted(pods.items())]


def _located(where: str, hosts: Mapping[str, int]) -> str:
    named = ", ".join(f"{name}: {count:,}" for name, count in list(hosts.items())[:_HOSTS])
    more = f" and {len(hosts) - _HOSTS:,} more" if len(hosts) > _HOSTS else ""
    count = sum(hosts.values())
    pods = f"{count:,} pod{'' if count == 1 else 's'}"
    return f"{where + ': ' if where else ''}{pods} ({named}{more})"


def best_of(model: "ReadModel", group_id: str, at: datetime) -> list[tuple[str, str]]:
    """Return the domains with most free, at the level that a group asks for, and their holders."""
    levels = {
        level
        for row in model.rows(RolesRow, _GROUP, {"group_id": group_id})
        for role in row.roles
        for level in _asked_for(role.topology)
    }
    found = []
    for one in rooms(model, at) if levels else ():
        at_level = [room for room in _all(one.root) if room.level in levels]
        order = sorted(at_level, key=lambda room: (-room.free[one.measure], room.path))
        for room in order[:NAMED]:
            free, total = (shown(one.measure, n[one.measure]) for n in (room.free, room.total))
            broken = (
                f"{free} of {total} {one.measure} free, {room.whole} of {room.nodes} nodes whole"
            )
            held = f"held there by {one.holders(room)}" if room.holders else ""
            found.append((f"{level_name(room.level)} {'/'.join(room.path)}: {broken}", held))
    return found


def _asked_for(request: TopologyRequest) -> list[str]:
    level = request.required or request.preferred
    return [level] if level else [layer.topology for layer in request.slices[:1]]


def worked_out(
    topologies: dict[str, tuple[str, ...]],
    flavors: Iterable[FlavorView],
    nodes: Sequence[NodeView],
    held: Sequence[PlacedRow],
) -> list[FlavorRoom]:
    """Return the trees of flavors with their free amounts."""
    places = Places(better=True)
    for name, levels in topologies.items():
        places.set_topology(name, levels)
    for node in nodes:
        places.set_node(node)
    places.build(flavors, [])
    for one in held:
        pod_set = PodSet(name="", count=one.pods, requests=tuple(sorted(one.amounts.items())))
        domain = TopologyDomain(values=tuple(one.domain.split(",")), count=one.pods)
        where = TopologyAssignment(levels=(one.level,), domains=(domain,))
        flavor = {"": one.flavor}
        given = PodSetAssignment(name="", count=one.pods, flavors=flavor, topology=where)
        places.charge(((pod_set, given),))
    return [_of_flavor(name, places.trees[name], nodes, held) for name in sorted(places.trees)]


def _of_flavor(
    name: str, tree: DomainTree, nodes: Sequence[NodeView], held: Sequence[PlacedRow]
) -> FlavorRoom:
    mine = [node for node in nodes if tree.belongs(node)]
    measure = _measured(mine)
    root = Room(level="", path=())
    members: dict[Path, list[NodeView]] = defaultdict(list)
    for node in mine:
        path = tree.path_of(node)
        if tree.suits(node):
            members[path].append(node)
        else:
            why = "cordoned" if node.ready else "not ready"
            for room in _down(root, tree.levels, path):
                room.unusable.append((node.name, why))
    for leaf in tree.leaves.values():
        many = len(members[leaf.path])
        whole = max(0, many - leaf.held.get(PODS, 0))
        for room in _down(root, tree.levels, leaf.path):
            room.nodes += many
            room.whole += whole
            room.in_whole += max(0, leaf.free.get(measure, 0)) * whole // many
            for node in members[leaf.path]:
                _add(room.total, node.allocatable)
                _add(room.taken, node.taken)
            _add(room.held, leaf.held)
            for resource, amount in leaf.free.items():
                room.free[resource] += max(0, amount - leaf.held.get(resource, 0))
    for one in held:
        here = tree.leaves.get(tuple(one.domain.split(",")))
        if here is None or (one.flavor != name and not tree.by_host):
            continue
        for room in _down(root, tree.levels, here.path):
            new = Holder(one.namespace, one.name, one.since)
            holder = room.holders.setdefault(one.id, new)
            holder.pods += one.pods
            holder.amount += one.pods * one.amounts.get(measure, 0)
    upper = tree.levels[: -1 if tree.by_host else None]
    most = dict.fromkeys(upper, 0)
    for room in _all(root):
        if room.level in most:
            most[room.level] = max(most[room.level], room.whole)
    return FlavorRoom(name, tree.name, tree.levels, measure, root, most)


def _measured(nodes: Iterable[NodeView]) -> str:
    """Return the device that most nodes have, else cpu."""
    found: dict[str, int] = defaultdict(int)
    for node in nodes:
        for resource, amount in node.allocatable.items():
            if "/" in resource and amount:
                found[resource] += 1
    return min(found, key=lambda one: (-found[one], one), default=CPU)


def _down(root: Room, levels: Sequence[str], path: Path) -> Iterator[Room]:
    """Yield the domains from all nodes down to a path; missing domains are made."""
    yield root
    for depth, level in enumerate(levels):
        new = Room(level=level, path=path[: depth + 1])
        root = root.below.setdefault(path[depth], new)
        yield root


def _all(root: Room) -> Iterator[Room]:
    yield root
    for room in root.below.values():
        yield from _all(room)


def _add(amounts: dict[str, int], more: Mapping[str, int]) -> None:
    for resource, amount in more.items():
        amounts[resource] += amount


def first_below(room: Room, left: dict[int, int]) -> tuple[list[Room], int]:
    """Return the domains just below `room`, as many as are `left` of their level; how many more."""
    names, depth = sorted(room.below), len(room.path)
    many = min(left.setdefault(depth, SHOWN), len(names))
    left[depth] -= many
    return [room.below[name] for name in names[:many]], len(names) - many


def shown_below(root: Room) -> Iterator[Room | int]:
    """Yield the domains below `root`, in order, `SHOWN` of a level; a number: so many more exist.

    A level's share is used up from the first domain on, so that shown domains are contiguous.
    """
    left: dict[int, int] = {}

    def below(room: Room) -> Iterator[Room | int]:
        domains, more = first_below(room, left)
        for one in domains:
            yield one
            yield from below(one)
        if more:
            yield more

    return below(root)
