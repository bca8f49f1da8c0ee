"""Lines about places: each says of what kind it is; reading, playing and comparing them."""

import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tests.oracle.case import GZIP, CaseError
from tests.oracle.compare import Difference
from tests.oracle.topology import PlacementCase, Places, UngaterCase, ungate
from tests.oracle.topology_cycle import CycleCase, Cycles

Kind = Literal["placement", "ungater", "scheduler"]

PLACE_FIELDS = (
    *("steps", "fits", "assignment", "encoded", "reason", "whenEmpty", "ungated"),
    *("step", "admitted", "replaced", "evicted", "pending", "quiescent", "stepsRun"),
)

SCHEMAS: Mapping[str, type[PlacementCase | UngaterCase | CycleCase]] = {
    "placement": PlacementCase,
    "ungater": UngaterCase,
    "scheduler": CycleCase,
}


class _Line(Struct, forbid_unknown_fields=True):
    id: str
    kind: Kind
    case: msgspec.Raw
    outcome: dict[str, Any]
    tags: list[str] = []


class RecordedPlace(Struct):
    """A case about places with what Kueue made of it."""

    id: str
    tags: list[str]
    kind: Kind
    case: PlacementCase | UngaterCase | CycleCase
    outcome: dict[str, Any]

    def played(self) -> dict[str, Any]:
        """Return the outcome that comes out here."""
        if isinstance(self.case, PlacementCase):
            return {"steps": Places(self.case).run()}
        if isinstance(self.case, CycleCase):
            return Cycles(self.case).run()
        return {"ungated": ungate(self.case)}


def about_places(path: Path) -> bool:
    """Tell whether a file has cases about places: their lines say of what kind they are."""
    with path.open("rb") as raw:
        packed = raw.peek(2)[:2] == GZIP
        for line in gzip.GzipFile(fileobj=raw) if packed else raw:
            return b'"kind"' in line[:200]
    return False


def read_places(path: Path) -> Iterator[RecordedPlace]:
    """Yield the cases of a file, gzipped or not.

    Raises:
        CaseError: a line is no case.
    """
    with path.open("rb") as raw:
        packed = raw.peek(2)[:2] == GZIP
        for number, line in enumerate(gzip.GzipFile(fileobj=raw) if packed else raw, 1):
            try:
                found = msgspec.json.decode(line, type=_Line)
                case = msgspec.json.decode(found.case, type=SCHEMAS[found.kind])
            except msgspec.DecodeError as error:
                raise CaseError(f"{path}, line {number}: {error}") from None
            yield RecordedPlace(found.id, found.tags, found.kind, case, found.outcome)


def place_differences(ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[Difference]:
    """Yield what differs, field by field; what one of them lacks differs, too."""
    for name in ("quiescent", "stepsRun"):
        if ours.get(name) != theirs.get(name):
            yield Difference(0, name, ours.get(name), theirs.get(name))
    if "steps" in theirs:
        mine, other = ours["steps"], theirs["steps"]
        for number, pair in enumerate(zip(mine, other, strict=False), 1):
            if pair[0] != pair[1]:
                if pair[0] and pair[1]:
                    yield from _step_differences(number, *pair)
                else:
                    yield Difference(number, "steps", *pair)
        if len(mine) != len(other):
            yield Difference(0, "steps", len(mine), len(other))
    elif ours != theirs:
        yield Difference(0, "ungated", ours, theirs)


def _step_differences(
    step: int, ours: dict[str, Any], theirs: dict[str, Any]
) -> Iterator[Difference]:
    found = False
    for name in ("fits", "whenEmpty", "step", "admitted", "replaced", "evicted", "pending"):
        if ours.get(name) != theirs.get(name):
            found = True
            yield Difference(step, name, ours.get(name), theirs.get(name))
    mine, other = ours.get("podSets", {}), theirs.get("podSets", {})
    for name in sorted(mine.keys() | other.keys()):
        left, right = mine.get(name, {}), other.get(name, {})
        for field, parts in (
            ("reason", (left.get("reason"), right.get("reason"))),
            ("assignment", (_bare(left), _bare(right))),
            ("encoded", (_encoded(left), _encoded(right))),
        ):
            if parts[0] != parts[1]:
                found = True
                yield Difference(step, field, (name, parts[0]), parts[1])
    if not found:
        yield Difference(step, "steps", ours, theirs)


def _bare(one: dict[str, Any]) -> Any:
    found = one.get("assignment")
    return found and {name: part for name, part in found.items() if name != "encoded"}


def _encoded(one: dict[str, Any]) -> Any:
    return (one.get("assignment") or {}).get("encoded")
