"""Segments: the names of an archive's files, their order, and the gaps between them.

    <cluster>/0000/<cluster>.0000.e<epoch>.<first>-<last>.jsonl.gz

Numbers are padded with zeros, so names sort as positions do. Positions are inclusive; they count
messages of other clusters in the stream as well, so that segments which follow each other touch.

Invariant: `parse(name_of(...))` gives back the same segment; any other name is None.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

from podgroup.log.subjects import check_cluster

SUFFIX = ".jsonl.gz"
_NAME = re.compile(
    r"(?P<cluster>[A-Za-z0-9_-]{1,63})\.0000\.e(?P<epoch>\d{6})"
    r"\.(?P<first>\d{16})-(?P<last>\d{16})\.jsonl\.gz"
)


class Segment(Struct, frozen=True, order=True):
    """Everything from position `first` to `last`, both included, in file `name`.

    Sorted by epoch, first position, last position, name.
    """

    epoch: int
    first: int
    last: int
    name: str


class Span(Struct, frozen=True):
    """Positions from `first` to `last`, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        """Return the span as words of a sentence."""
        return f"positions {self.first} to {self.last}"


def folder_of(cluster: str) -> str:
    """Return the folder of a cluster's segments."""
    return f"{check_cluster(cluster)}/0000"


def name_of(cluster: str, epoch: int, span: Span) -> str:
    """Return the name of a segment, without its folder."""
    place = f"{check_cluster(cluster)}.0000.e{epoch:06d}"
    return f"{place}.{span.first:016d}-{span.last:016d}{SUFFIX}"


def parse(name: str) -> Segment | None:
    """Return the segment of a name; None if it is no segment's."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    epoch, first, last = (int(found[part]) for part in ("epoch", "first", "last"))
    return Segment(epoch, first, last, name) if 0 < first <= last else None


def chain(segments: Iterable[Segment], first: int) -> tuple[list[Segment], int]:
    """Return the segments that cover positions from `first` on without a gap, and the next one.

    Of overlapping segments the segment that reaches furthest is taken.
    """
    waiting = sorted(segments, key=lambda one: (one.first, -one.last, one.name))
    chosen: list[Segment] = []
    wanted, index = first, 0
    while True:
        best: Segment | None = None
        while index < len(waiting) and waiting[index].first <= wanted:
            if waiting[index].last >= wanted and (best is None or waiting[index].last > best.last):
                best = waiting[index]
            index += 1
        if best is None:
            return chosen, wanted
        chosen.append(best)
        wanted = best.last + 1


def gaps(segments: Iterable[Segment], first: int) -> list[Span]:
    """Return the gaps from `first` on up to the end of the last segment, in order."""
    found: list[Span] = []
    wanted = first
    for one in sorted(segments, key=lambda one: one.first):
        if one.first > wanted:
            found.append(Span(wanted, one.first - 1))
        wanted = max(wanted, one.last + 1)
    return found
