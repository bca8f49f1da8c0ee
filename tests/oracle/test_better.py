"""Nothing goes wrong that must not, and each row of docs/differences.md has a place in the code.

How many cases end otherwise than in Kueue is a figure here.
"""

import re
from pathlib import Path

import pytest

from tests.oracle.better import main
from tests.oracle.case import Recorded, read
from tests.oracle.compare import decided
from tests.oracle.invariants import CheckedPlay
from tests.oracle.play import Play

HERE = Path(__file__).parent
CASES = HERE / "cases.jsonl.gz"
ALWAYS = {"Q12", "Q14", "Q17", "Q21"}
"""Rows that hold whatever `Configuration.as_kueue` says, and devices, which are counted before."""


def cases() -> list[Recorded]:
    return list(read(CASES))


def find(name: str) -> Recorded:
    return next(one for one in cases() if one.id == name)


@pytest.mark.parametrize("recorded", cases(), ids=lambda one: one.id)
def test_what_must_always_hold_holds(recorded: Recorded) -> None:
    play = CheckedPlay(recorded.case)
    play.run()
    assert play.broken == []


def test_as_kueue_decides_it_does_not_hold() -> None:
    """The checks can fail: Kueue's own outcomes break them."""
    broken = []
    for recorded in cases():
        play = CheckedPlay(recorded.case, as_kueue=True)
        play.run()
        broken += play.broken
    text = "\n".join(broken)
    assert "never settles" in text
    assert "is preempted again for" in text
    assert "is back before" in text
    assert "would fit and waits" in text


def test_there_are_livelocks_among_them() -> None:
    assert sum(not recorded.outcome["quiescent"] for recorded in cases()) >= 3


OTHERWISE = 11
"""Cases of the file that end otherwise than in Kueue. Whoever changes decisions sees it here: look
at the cases that joined or left, and at their rows in docs/differences.md, before it is changed."""


def test_no_other_case_ends_otherwise_than_in_kueue() -> None:
    ends = [decided(Play(one.case).run()) != decided(one.outcome) for one in cases()]
    assert sum(ends) == OTHERWISE


def test_the_command_counts_what_ends_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(CASES), "--every", "4"]) == 0
    assert "0 break what must hold" in capsys.readouterr().out


def test_every_row_has_its_place_in_the_code_and_every_place_a_row() -> None:
    root = HERE.parents[1]
    rows = re.findall(r"^\| (Q\d+) \|", (root / "docs" / "differences.md").read_text(), re.M)
    code = [file.read_text() for file in (root / "podgroup" / "admission").rglob("*.py")]
    places = set(re.findall(r"\bQ\d+\b", "\n".join(code)))
    assert set(rows) - ALWAYS == places, "name the row of docs/differences.md beside `as_kueue`"
    assert set(rows) > ALWAYS


def ended(name: str, *, as_kueue: bool) -> dict[str, str]:
    """Where everybody is in the end: a ClusterQueue, or the reason of those who wait."""
    final = Play(find(name).case, as_kueue=as_kueue).run()["final"]
    return {one["workload"]: one["clusterQueue"] for one in final["admitted"]} | {
        one["workload"]: one["reason"] for one in final["pending"]
    }


def test_a_livelock_settles_since_what_is_freed_is_kept() -> None:
    recorded = find("find-livelock")
    assert not Play(recorded.case, as_kueue=True).run()["quiescent"]
    play = Play(recorded.case)
    assert play.run()["quiescent"]
    assert len(play.preemptions) == len(set(play.preemptions)) <= 2


def test_victims_for_lack_of_pods_are_as_many_as_it_takes() -> None:
    assert ended("find-pods", as_kueue=True)["high"] == "WaitingForQuota"
    assert ended("find-pods", as_kueue=False)["high"] == "q"


def test_outcomes_are_compared_by_what_matters() -> None:
    recorded = find("find-pods")
    assert decided(Play(recorded.case, as_kueue=True).run()) == decided(recorded.outcome)
    assert decided(Play(recorded.case).run()) != decided(recorded.outcome)
