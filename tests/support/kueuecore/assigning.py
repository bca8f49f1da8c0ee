"""Flavor assignment: which flavor each pod set gets, or why none has room.

Theory: pod sets in order; the resources of one resource group that a pod set asks for get one
flavor together, the first in the ClusterQueue's order that fits; what earlier pod sets take counts.
A request above the nominal quota can never fit; one above what is unused fits once others give
theirs up.

Invariant: ``assign`` only reads; of two equal questions the answers are equal.
"""

from enum import IntEnum
from fractions import Fraction

import msgspec

from simcluster.errors import Obj
from simcluster.nodes import tolerates
from simcluster.quantity import parse
from tests.support.kueuecore.workload import FlavorResource, Info, PodSet, Usage, text


class Mode(IntEnum):
    """How well a request fits, worst first."""

    NO_FIT = 0
    PREEMPT = 1
    FIT = 2


class Group(msgspec.Struct, frozen=True):
    """A resource group: covered resources, and nominal quota per flavor in order of preference."""

    covered: tuple[str, ...]
    flavors: tuple[tuple[str, dict[str, Fraction]], ...]


class ClusterQueue(msgspec.Struct, frozen=True):
    """A ClusterQueue as far as this core knows it. ``selector`` None: no namespace at all."""

    name: str
    strategy: str
    stop: str
    within: str
    selector: Obj | None
    groups: tuple[Group, ...]

    @property
    def nominal(self) -> Usage:
        """Quota per flavor and resource."""
        return {
            (flavor, resource): amount
            for group in self.groups
            for flavor, amounts in group.flavors
            for resource, amount in amounts.items()
        }


class Assignment(msgspec.Struct, frozen=True):
    """Flavors per pod set and resource, and the use they add up to.

    For what does not fit: the ``short`` flavor-resources, a reason, and what to say.
    """

    mode: Mode
    flavors: tuple[dict[str, str], ...] = ()
    usage: Usage = {}
    short: frozenset[FlavorResource] = frozenset()
    reason: str = ""
    message: str = ""


class _Try(msgspec.Struct, frozen=True):
    mode: Mode
    flavor: str = ""
    short: frozenset[FlavorResource] = frozenset()
    reason: str = ""
    why: tuple[str, ...] = ()


def cluster_queue(obj: Obj) -> ClusterQueue:
    """Read a stored ClusterQueue."""
    spec = obj.get("spec") or {}
    groups = tuple(
        Group(
            covered=tuple(group.get("coveredResources") or ()),
            flavors=tuple(
                (
                    flavor["name"],
                    {
                        r["name"]: parse(str(r.get("nominalQuota", "0")))
                        for r in flavor.get("resources") or ()
                    },
                )
                for flavor in group.get("flavors") or ()
            ),
        )
        for group in spec.get("resourceGroups") or ()
    )
    return ClusterQueue(
        name=obj["metadata"]["name"],
        strategy=spec.get("queueingStrategy") or "BestEffortFIFO",
        stop=spec.get("stopPolicy") or "None",
        within=(spec.get("preemption") or {}).get("withinClusterQueue") or "Never",
        selector=spec.get("namespaceSelector"),
        groups=groups,
    )


def assign(queue: ClusterQueue, info: Info, used: Usage, flavors: dict[str, Obj]) -> Assignment:
    """Assign flavors to all pod sets of a Workload, against what is ``used`` now."""
    assumed: Usage = {}
    chosen: list[dict[str, str]] = []
    mode, reason, why = Mode.FIT, "", []
    short: frozenset[FlavorResource] = frozenset()
    for pod_set in info.pod_sets:
        mine: dict[str, str] = {}
        for group, wanted in _by_group(queue, pod_set):
            if group is None:
                found = _Try(
                    Mode.NO_FIT,
                    reason="NoMatchingFlavor",
                    why=tuple(f"resource {name} unavailable in ClusterQueue" for name in wanted),
                )
            else:
                found = _best(group, pod_set, wanted, used, assumed, flavors)
            if found.mode != Mode.FIT:
                text = f"couldn't assign flavors to pod set {pod_set.name}: {', '.join(found.why)}"
                why.append(text)
                reason = reason or found.reason
            mode, short = min(mode, found.mode), short | found.short
            if found.mode == Mode.NO_FIT:
                return Assignment(mode, reason=found.reason, message="; ".join(why))
            for name, amount in wanted.items():
                mine[name] = found.flavor
                key = (found.flavor, name)
                assumed[key] = assumed.get(key, Fraction(0)) + amount
        chosen.append(mine)
    return Assignment(mode, tuple(chosen), assumed, short, reason, "; ".join(why))


def _by_group(
    queue: ClusterQueue, pod_set: PodSet
) -> list[tuple[Group | None, dict[str, Fraction]]]:
    """What a pod set asks for, by resource group; ``pods`` counts only where it is covered."""
    found: list[tuple[Group | None, dict[str, Fraction]]] = []
    left = dict(pod_set.requests)
    for group in queue.groups:
        wanted = {name: left.pop(name) for name in sorted(left) if name in group.covered}
        if wanted:
            found.append((group, wanted))
    left.pop("pods", None)
    if any(left.values()):
        found.insert(0, (None, left))
    return found


def _best(
    group: Group,
    pod_set: PodSet,
    wanted: dict[str, Fraction],
    used: Usage,
    assumed: Usage,
    flavors: dict[str, Obj],
) -> _Try:
    best: _Try | None = None
    why: list[str] = []
    keys = {key for name, _ in group.flavors for key in _labels(flavors.get(name, {}))}
    for name, nominal in group.flavors:
        refused = _refuses(name, flavors.get(name, {}), pod_set.spec, keys)
        if refused:
            why.append(refused)
            found = _Try(Mode.NO_FIT, name, reason="NoMatchingFlavor")
        else:
            found = _measure(name, nominal, wanted, used, assumed)
            why += found.why
        if found.mode == Mode.FIT:
            return found
        if best is None or found.mode > best.mode:
            best = found
    if best is None:
        return _Try(Mode.NO_FIT, reason="NoMatchingFlavor", why=("no flavor in the group",))
    return _Try(best.mode, best.flavor, best.short, best.reason, tuple(why))


def _measure(
    flavor: str, nominal: dict[str, Fraction], wanted: dict[str, Fraction], used: Usage, more: Usage
) -> _Try:
    mode, reason, why = Mode.FIT, "", []
    short: set[FlavorResource] = set()
    for name, amount in wanted.items():
        key, most = (flavor, name), nominal.get(name, Fraction(0))
        before = more.get(key, Fraction(0))
        value, unused = before + amount, most - used.get(key, Fraction(0))
        if value > most:
            why.append(
                f"insufficient quota for {name} in flavor {flavor}, previously considered podsets "
                f"requests ({text(name, before)}) + current podset request ({text(name, amount)}) "
                f"> maximum capacity ({text(name, most)})"
            )
            mode, reason = Mode.NO_FIT, "ExceedsMaxQuota"
        elif value > unused:
            needed = text(name, value - unused)
            why.append(
                f"insufficient unused quota for {name} in flavor {flavor}, {needed} more needed"
            )
            short.add(key)
            mode, reason = min(mode, Mode.PREEMPT), reason or "WaitingForQuota"
    return _Try(mode, flavor, frozenset(short), reason, tuple(why))


def _labels(flavor: Obj) -> dict[str, str]:
    return (flavor.get("spec") or {}).get("nodeLabels") or {}


def _refuses(name: str, flavor: Obj, spec: Obj, keys: set[str]) -> str:
    """Why a pod cannot use a flavor; only selector keys that some flavor of the group names."""
    if not flavor:
        return f"flavor {name} not found"
    selector = {k: v for k, v in (spec.get("nodeSelector") or {}).items() if k in keys}
    if any(_labels(flavor).get(k) != v for k, v in selector.items()):
        return f"flavor {name} doesn't match node affinity"
    described = flavor.get("spec") or {}
    tolerations = [*(spec.get("tolerations") or ()), *(described.get("tolerations") or ())]
    for taint in described.get("nodeTaints") or ():
        if taint.get("effect") == "PreferNoSchedule":
            continue
        if not any(tolerates(t, taint) for t in tolerations):
            return f"untolerated taint {taint.get('key')} in flavor {name}"
    return ""
