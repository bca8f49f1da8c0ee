"""Places are those that Kueue gives, in every field, and a difference is not overlooked."""

import copy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podgroup.model.topology import HOSTNAME
from podgroup.model.topology_json import decoded
from tests.oracle.__main__ import main
from tests.oracle.places import PLACE_FIELDS, RecordedPlace, place_differences, read_places
from tests.oracle.topology import PlacementCase, Places, RequestOf, StepOf
from tests.oracle.topology_cycle import CycleCase, Cycles

PLACES = Path(__file__).parent / "places.jsonl.gz"


@pytest.fixture(scope="module")
def recorded() -> list[RecordedPlace]:
    return list(read_places(PLACES))


@pytest.mark.parametrize(
    ("kind", "number"), [("placement", 1600), ("ungater", 200), ("scheduler", 400)]
)
def test_every_case_is_as_kueue_has_it(
    recorded: list[RecordedPlace], kind: str, number: int
) -> None:
    cases = [one for one in recorded if one.kind == kind]
    assert len(cases) == number
    assert [one.id for one in cases if one.played() != one.outcome] == []


def rows_of(case: PlacementCase, step: StepOf, kueues: dict[str, Any]) -> Iterator[str]:
    """The rows of docs/differences.md that may make a step's outcome another than Kueue's."""
    if case.levels[-1] != HOSTNAME:
        yield "P4"
    if step.replace is not None:
        yield "P1"
    for one in step.place.pod_sets if step.place is not None else ():
        asked = one.topology or RequestOf()
        size = asked.slices[0].size if asked.slices else 1
        if size > one.count:
            yield "P2"
        if size > 0 and one.count % size:
            yield "P3"
        if not (asked.required or asked.preferred):
            yield "P5"
        found = kueues["podSets"].get(one.name, {}).get("assignment") or {}
        if len(found.get("domains", ())) > 1:
            yield "P5" if asked.slices else "P6"


def test_places_differ_where_a_row_says_so(
    recorded: list[RecordedPlace],
) -> None:
    """Up to the first difference; later steps of a case begin from other places."""
    page = (Path(__file__).parents[2] / "docs" / "differences.md").read_text()
    seen: Counter[str] = Counter()
    unknown = []
    for one in recorded:
        if not isinstance(one.case, PlacementCase):
            continue
        ours = Places(one.case, better=True).run()
        for step, mine, kueues in zip(one.case.steps, ours, one.outcome["steps"], strict=True):
            if mine != kueues:
                rows = set(rows_of(one.case, step, kueues))
                seen.update(rows)
                if not all(f"| {row} |" in page for row in rows or {"unknown"}):
                    unknown.append(one.id)
                break
    assert unknown == []
    assert min(seen[row] for row in ("P2", "P3", "P4", "P5", "P6")) > 50
    assert seen.total() < len(recorded)


class FullNodes(Cycles):
    """Notes leaves in which workloads hold more than there is."""

    def __init__(self, case: CycleCase) -> None:
        super().__init__(case, as_kueue=False)
        self.overcommitted = 0

    def after_step(self) -> None:
        cache = self.scheduler.cache
        for claim in cache.claims.by_id.values():  # what they wait for is held by others
            cache.objects.places.charge(claim.given, -1)
        for tree in cache.objects.places.trees.values():
            for leaf in tree.leaves.values():
                for name, held in leaf.held.items():
                    self.overcommitted += held > 0 and held > leaf.free.get(name, 0)
        for claim in cache.claims.by_id.values():
            cache.objects.places.charge(claim.given)


def test_no_node_is_overcommitted(recorded: list[RecordedPlace]) -> None:
    """Where nodes stay as they are; other trees of quota may use the same ones."""
    plays = []
    for one in recorded:
        if isinstance(one.case, CycleCase) and not any(
            event.node or event.node_gone or event.fail for event in one.case.events
        ):
            plays.append(FullNodes(one.case))
            plays[-1].run()
    assert sum(bool(play.scheduler.cache.reservations.admitted) for play in plays) > 150
    assert [play.overcommitted for play in plays if play.overcommitted] == []


def test_the_command_counts_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(PLACES), "--every", "110"]) == 0
    printed = capsys.readouterr().out
    assert "20 cases: 20 agree, 0 differ" in printed
    assert all(name in printed for name in PLACE_FIELDS)


def assignments(recorded: list[RecordedPlace]) -> Iterator[dict[str, Any]]:
    for one in recorded:
        for step in one.outcome.get("steps", ()):
            for pods in ((step or {}).get("podSets") or {}).values():
                if "assignment" in pods:
                    yield pods["assignment"]


def test_what_is_encoded_is_read_back(recorded: list[RecordedPlace]) -> None:
    seen = 0
    for one in assignments(recorded):
        read = decoded(one["levels"], one["encoded"] or ())
        assert [
            {"count": domain.count, "values": list(domain.values)} for domain in read.domains
        ] == one["domains"]
        seen += bool(one["domains"])
    assert seen > 1500


def changed(outcome: dict[str, Any], field: str) -> bool:
    """Change one field of an outcome, if it has it."""
    if field in ("quiescent", "stepsRun") and field in outcome:
        outcome[field] = int(outcome[field]) + 1
        return True
    if "ungated" in outcome:
        found = next(iter(outcome["ungated"].values()), None) if field == "ungated" else None
        if found is not None:
            found["elsewhere"] = "x"
        return found is not None
    for step in outcome["steps"]:
        pods: dict[str, Any] = next(iter(((step or {}).get("podSets") or {}).values()), {})
        place = pods.get("assignment") or {}
        if field == "fits" and "fits" in (step or {}):
            step["fits"] = not step["fits"]
        elif field == "whenEmpty" and field in (step or {}):
            step[field]["podSets"] = {}
        elif field == "reason" and field in pods:
            pods[field] += "!"
        elif field == "assignment" and place.get("domains"):
            place["domains"][0]["count"] += 1
        elif field in ("step", "admitted", "replaced", "evicted", "pending") and field in (
            step or {}
        ):
            step[field] = "other"
        elif field == "encoded" and place.get("encoded"):
            place["encoded"][0]["domainCount"] += 1
        else:
            continue
        return True
    if field == "steps":
        outcome["steps"].pop()
        return True
    return False


@pytest.mark.parametrize("field", PLACE_FIELDS)
def test_a_difference_is_seen(recorded: list[RecordedPlace], field: str) -> None:
    seen = 0
    for one in recorded[::10]:
        outcome = copy.deepcopy(one.outcome)
        if changed(outcome, field):
            found = [other.field for other in place_differences(one.outcome, outcome)]
            assert found == [field]
            seen += 1
    assert seen
