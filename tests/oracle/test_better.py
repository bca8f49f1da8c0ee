"""By the better ways nothing goes wrong that must not, and each difference has its kind."""

from pathlib import Path

import pytest

from podgroup.admission.options import BETTER, KUEUE, SchedulerOptions
from tests.oracle.better import main
from tests.oracle.case import Recorded, read
from tests.oracle.invariants import CheckedPlay
from tests.oracle.kinds import ORDER, decided, kinds, rows
from tests.oracle.play import Play

CASES = Path(__file__).parent / "cases.jsonl.gz"


def cases() -> list[Recorded]:
    return list(read(CASES))


def find(name: str) -> Recorded:
    return next(one for one in cases() if one.id == name)


@pytest.mark.parametrize("recorded", cases(), ids=lambda one: one.id)
def test_what_must_always_hold_holds(recorded: Recorded) -> None:
    play = CheckedPlay(recorded.case)
    play.run()
    assert play.broken == []


def test_by_kueues_ways_it_does_not_hold() -> None:
    """The checks can fail: Kueue's own outcomes break them."""
    broken = []
    for recorded in cases():
        play = CheckedPlay(recorded.case, KUEUE)
        play.run()
        broken += play.broken
    text = "\n".join(broken)
    assert "never settles" in text
    assert "is preempted again for" in text
    assert "is back before" in text
    assert "would fit and waits" in text


def test_there_are_livelocks_among_them() -> None:
    assert sum(not recorded.outcome["quiescent"] for recorded in cases()) >= 3


def test_every_difference_has_a_kind_with_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(CASES), "--every", "4"]) == 0
    assert "0 differ for no known reason" in capsys.readouterr().out


def test_every_way_has_a_row_and_every_row_a_way() -> None:
    assert sorted(rows()) == sorted(SchedulerOptions.__struct_fields__) == sorted(ORDER)
    assert SchedulerOptions() == BETTER
    assert not any(getattr(KUEUE, way) for way in ORDER)


def ended(name: str, ways: SchedulerOptions) -> dict[str, str]:
    """Where everybody is in the end: a ClusterQueue, or the reason of those who wait."""
    final = Play(find(name).case, ways).run()["final"]
    return {one["workload"]: one["clusterQueue"] for one in final["admitted"]} | {
        one["workload"]: one["reason"] for one in final["pending"]
    }


def test_a_livelock_settles_since_what_is_freed_is_kept() -> None:
    recorded = find("find-livelock")
    assert not Play(recorded.case, KUEUE).run()["quiescent"]
    play = Play(recorded.case, BETTER)
    assert play.run()["quiescent"]
    assert len(play.preemptions) == len(set(play.preemptions)) <= 2
    assert "keep_for_preemptor" in list(kinds(recorded.case, recorded.outcome))


def test_victims_for_lack_of_pods_are_as_many_as_it_takes() -> None:
    assert ended("find-pods", KUEUE)["high"] == "WaitingForQuota"
    assert ended("find-pods", BETTER)["high"] == "q"


def test_outcomes_are_compared_by_what_matters() -> None:
    recorded = find("find-pods")
    assert decided(Play(recorded.case, KUEUE).run()) == decided(recorded.outcome)
    assert decided(Play(recorded.case, BETTER).run()) != decided(recorded.outcome)
