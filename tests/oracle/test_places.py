"""Places are those that Kueue gives, in every field, and a difference is not overlooked."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podgroup.admission.topology.encoding import decoded
from tests.oracle.__main__ import main
from tests.oracle.topology import PLACE_FIELDS, RecordedPlace, place_differences, read_places

PLACES = Path(__file__).parent / "places.jsonl.gz"


@pytest.fixture(scope="module")
def recorded() -> list[RecordedPlace]:
    return list(read_places(PLACES))


@pytest.mark.parametrize(("kind", "number"), [("placement", 1600), ("ungater", 200)])
def test_every_case_is_as_kueue_has_it(
    recorded: list[RecordedPlace], kind: str, number: int
) -> None:
    cases = [one for one in recorded if one.kind == kind]
    assert len(cases) == number
    assert [one.id for one in cases if one.played() != one.outcome] == []


def test_the_command_counts_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(PLACES), "--every", "9"]) == 0
    printed = capsys.readouterr().out
    assert "200 cases: 200 agree, 0 differ" in printed
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
    for one in recorded[::25]:
        outcome = copy.deepcopy(one.outcome)
        if changed(outcome, field):
            found = [other.field for other in place_differences(one.outcome, outcome)]
            assert found == [field]
            seen += 1
    assert seen
