"""`as_kueue` everything is decided as Kueue decided it, and a difference is not overlooked."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.__main__ import main
from tests.oracle.case import CaseError, Recorded, read
from tests.oracle.compare import FIELDS, differences
from tests.oracle.play import Play

CASES = Path(__file__).parent / "cases.jsonl.gz"


def cases() -> list[Recorded]:
    return list(read(CASES))


@pytest.mark.parametrize("recorded", cases(), ids=lambda one: one.id)
def test_a_case_is_decided_as_kueue_decided_it(recorded: Recorded) -> None:
    played = Play(recorded.case, as_kueue=True).run()
    assert list(differences(played, recorded.outcome)) == []


def test_two_plays_are_equal() -> None:
    for recorded in cases()[::7]:
        assert Play(recorded.case, as_kueue=True).run() == Play(recorded.case, as_kueue=True).run()


def run(capsys: pytest.CaptureFixture[str], *files: Path) -> tuple[int, str]:
    status = main([str(file) for file in files])
    printed = capsys.readouterr()
    return status, printed.out + printed.err


def lines() -> list[dict[str, Any]]:
    with gzip.open(CASES) as packed:
        return [json.loads(line) for line in packed]


def written(path: Path, *some: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in some))
    return path


def test_a_file_may_be_packed_or_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some = lines()[:3]
    plain = written(tmp_path / "plain.jsonl", *some)
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    status, text = run(capsys, plain, packed)
    assert status == 0
    assert "6 cases: 6 agree, 0 differ" in text
    assert all(name in text for name in FIELDS)


def other_outcomes() -> list[tuple[str, Any]]:
    def admitted(outcome: dict[str, Any]) -> None:
        outcome["final"]["admitted"].pop()

    def usage(outcome: dict[str, Any]) -> None:
        queue = next(q for q, used in outcome["final"]["usage"].items() if used)
        outcome["final"]["usage"][queue] = {}

    def message(outcome: dict[str, Any]) -> None:
        outcome["steps"][0]["heads"][0]["message"] += "!"

    def order(outcome: dict[str, Any]) -> None:
        outcome["steps"][0]["heads"][0]["order"] = 99

    def missing(outcome: dict[str, Any]) -> None:
        outcome["steps"].pop()

    def livelock(outcome: dict[str, Any]) -> None:
        outcome["quiescent"] = not outcome["quiescent"]

    return [
        ("final.admitted", admitted),
        ("final.usage", usage),
        ("head.message", message),
        ("head.order", order),
        ("steps", missing),
        ("quiescent", livelock),
    ]


@pytest.mark.parametrize("field, change", other_outcomes(), ids=lambda one: str(one)[:20])
def test_a_difference_is_told_by_field(
    field: str,
    change: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = next(
        line
        for line in lines()
        if line["outcome"]["final"]["admitted"]
        and any(line["outcome"]["final"]["usage"].values())
        and line["outcome"]["steps"][0]["heads"][0]["order"] is not None
    )
    change(one["outcome"])
    status, text = run(capsys, written(tmp_path / "f.jsonl", one))
    assert status == 1
    row = next(line for line in text.splitlines() if line.startswith(f"{field} "))
    assert row.split() == [field, "0", "1"]


def test_what_is_not_known_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = lines()[0]
    one["case"]["clusterQueues"][0]["priorityBoost"] = 3
    path = written(tmp_path / "f.jsonl", lines()[1], one)
    status, text = run(capsys, path)
    assert status == 2
    assert "line 2" in text
    assert "`priorityBoost`" in text
    assert "$.case.clusterQueues[0]" in text


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]", b"\x1f\x8b\x00bad"])
def test_a_broken_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(CaseError, match=r"f\b"):
        list(read(path))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="nothing"):
        list(read(tmp_path / "nothing"))


@pytest.mark.parametrize(
    "part, field, value",
    [
        ("clusterQueues", "strategy", "RandomFIFO"),
        ("clusterQueues", "preemption", {"withinClusterQueue": "Sometimes"}),
        ("workloads", "created", "yesterday"),
    ],
)
def test_a_word_that_is_not_known_is_refused(
    part: str, field: str, value: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = lines()[0]
    one["case"][part][0][field] = value
    status, text = run(capsys, written(tmp_path / "f.jsonl", one))
    assert status == 2
    assert f"$.case.{part}[0].{field}" in text


def test_an_amount_that_is_none_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = lines()[0]
    one["case"]["workloads"][0]["podSets"][0]["requests"] = {"cpu": "much"}
    status, text = run(capsys, written(tmp_path / "f.jsonl", one))
    assert status == 2
    assert "much" in text
