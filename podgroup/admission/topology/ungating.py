"""Which pod of a podset goes to which domain, and which pods are ungated.

Theory. An assignment, written out domain by domain, is a list with a place for each rank. A pod
whose index i no other pod has gets place i. A pod that runs elsewhere than its rank says uses up a
place where it is; then places are filled in order, first the places that are no pod's by rank. By
Kueue's way a single pod without a rank, or elsewhere, turns ranks off for all pods: a domain gets
as many of the gated pods as it lacks, in order. A place on a failed node is used up, but its pod
stays gated until there is another place.

Invariant: no pod gets two places and no place two pods. A rank whose pod is missing stays free as
long as there are other places.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from podgroup.model.names import POD_INDEX_OFFSET
from podgroup.model.topology import HOSTNAME, TopologyAssignment

Values = tuple[str, ...]


class GroupPod(Struct, frozen=True, kw_only=True):
    """A live pod of a podset: neither succeeded nor failed."""

    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    node_selector: Mapping[str, str] = {}
    gated: bool = True


class Ranks(Struct, frozen=True, kw_only=True):
    """The labels that have the index of a pod, and of its subgroup, "" for none.

    `each`: a pod without a rank costs no other pod its own.
    """

    index_label: str = ""
    group_label: str = ""
    groups: int = 0
    each: bool = True


class OffsetError(ValueError):
    """The annotation with the first index is no number."""


def ungated(
    assignment: TopologyAssignment,
    count: int,
    pods: Sequence[GroupPod],
    ranks: Ranks,
    failed: Collection[str] = (),
) -> dict[str, dict[str, str]]:
    """Return the node selector of each pod that can be ungated, by name.

    `count` is the podset's; `failed` names nodes. Pods are taken in the order of names.

    Raises:
        OffsetError: by Kueue's way, if the first index that the first pod states is no number.
    """
    pods = sorted(pods, key=lambda pod: pod.name)
    if ranks.each:
        pairs = _each_by_rank(assignment, count, pods, ranks)
    else:
        by_rank = _by_rank(assignment, count, pods, ranks)
        pairs = _in_order(assignment, pods) if by_rank is None else by_rank
    levels = assignment.levels
    by_host = levels[-1] == HOSTNAME
    return {
        pod.name: {**pod.node_selector, **dict(zip(levels, place, strict=True))}
        for pod, place in pairs
        if not (by_host and place[-1] in failed)
    }


def _at(pod: GroupPod, levels: Sequence[str]) -> Values:
    return tuple(pod.node_selector.get(level, "") for level in levels)


def _each_by_rank(
    assignment: TopologyAssignment, count: int, pods: Sequence[GroupPod], ranks: Ranks
) -> list[tuple[GroupPod, Values]]:
    """Pair gated pods with the places of their ranks, and pods without a rank with the rest."""
    places = _places(assignment)
    rank_of = _distinct(pods, count, ranks, len(places))
    taken: set[int] = set()
    elsewhere: list[Values] = []
    for pod in pods:
        if not pod.gated:
            at, rank = _at(pod, assignment.levels), rank_of.pop(pod.name, None)
            if rank is None or places[rank] != at:
                elsewhere.append(at)
            else:
                taken.add(rank)
    wanted = set(rank_of.values())
    spare: dict[Values, list[int]] = {}
    for rank in sorted(range(len(places)), key=lambda rank: (rank not in wanted, -rank)):
        if rank not in taken:
            spare.setdefault(places[rank], []).append(rank)
    taken.update(spare[at].pop() for at in elsewhere if spare.get(at))
    pairs, rest = [], []
    for pod in pods:
        rank = rank_of.get(pod.name)
        if rank is not None and rank not in taken:
            taken.add(rank)
            pairs.append((pod, places[rank]))
        elif pod.gated:
            rest.append(pod)
    left = (place for rank, place in enumerate(places) if rank not in taken)
    return pairs + list(zip(rest, left, strict=False))


def _distinct(pods: Sequence[GroupPod], count: int, ranks: Ranks, most: int) -> dict[str, int]:
    """Return the rank of each pod whose rank is below `most` and no other pod's."""
    try:
        offset = _offset(pods)
    except OffsetError:
        offset = 0
    named = {}
    if ranks.index_label:
        named = {pod.name: _rank(pod, count, offset, ranks) for pod in pods}
    often = Counter(named.values())
    return {
        name: rank
        for name, rank in named.items()
        if rank is not None and rank < most and often[rank] == 1
    }


def _places(assignment: TopologyAssignment) -> list[Values]:
    """Return the place of each rank in an assignment."""
    return [domain.values for domain in assignment.domains for _ in range(domain.count)]


def _by_rank(
    assignment: TopologyAssignment, count: int, pods: Sequence[GroupPod], ranks: Ranks
) -> list[tuple[GroupPod, Values]] | None:
    """Pair gated pods with the places of their ranks; None if ranks do not hold."""
    offset = _offset(pods)
    if not ranks.index_label:
        return None
    places = _places(assignment)
    taken: set[int] = set()
    pairs = []
    for pod in pods:
        rank = _rank(pod, count, offset, ranks)
        if rank is None or rank in taken or rank >= len(places):
            return None
        taken.add(rank)
        if pod.gated:
            pairs.append((pod, places[rank]))
        elif _at(pod, assignment.levels) != places[rank]:
            return None
    return pairs


def _offset(pods: Sequence[GroupPod]) -> int:
    text = pods[0].annotations.get(POD_INDEX_OFFSET) if pods else None
    if text is None:
        return 0
    try:
        return int(text)
    except ValueError:
        raise OffsetError(f"{POD_INDEX_OFFSET}: {text!r} is no number") from None


def _rank(pod: GroupPod, count: int, offset: int, ranks: Ranks) -> int | None:
    index = _index(pod.labels.get(ranks.index_label), count + offset)
    if index is not None and ranks.group_label:
        each = count // ranks.groups
        group = _index(pod.labels.get(ranks.group_label), ranks.groups)
        index = None if group is None or index >= each else index + group * each
    if index is None or not 0 <= index - offset < count:
        return None
    return index - offset


def _index(text: str | None, below: int) -> int | None:
    """Read an unsigned decimal number; leading zeros are valid."""
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if number < below else None


def _in_order(
    assignment: TopologyAssignment, pods: Sequence[GroupPod]
) -> list[tuple[GroupPod, Values]]:
    """Pair gated pods with the places at which no pod is."""
    there = Counter(_at(pod, assignment.levels) for pod in pods if not pod.gated)
    gated = iter([pod for pod in pods if pod.gated])
    pairs: list[tuple[GroupPod, Values]] = []
    for domain in assignment.domains:
        for _ in range(domain.count - there[domain.values]):
            pod = next(gated, None)
            if pod is None:
                return pairs
            pairs.append((pod, domain.values))
    return pairs
