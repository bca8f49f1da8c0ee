"""What preemptions cost and brought, with values worked out by hand. Both databases."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from podgroup.model.names import PRIORITY_CLASS
from projector import tables
from projector.storage.database import writer
from tests.projector.support import Writer
from tests.projector.test_views import ask, minutes, put
from tests.support.toy import Toy

LOW, HIGH = {PRIORITY_CLASS: "low"}, {PRIORITY_CLASS: "high"}


def found(url: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Preemptions by (victim, preemptor), each number a float."""
    rows = ask(url, "SELECT * FROM v_preemptions ORDER BY seq")
    for row in rows:
        lost = row["lost_hours"]
        row["lost_hours"] = json.loads(lost) if isinstance(lost, str) else lost
        for name in ("lost_seconds", "admitted_after_seconds", "ran_seconds"):
            row[name] = None if row[name] is None else float(row[name])
    return {(row["victim_name"], row["preemptor_name"]): row for row in rows}


def near(seconds: float) -> Any:
    """Each message of the toy takes 10 ms: a step of the story some of them."""
    return pytest.approx(seconds, abs=0.3)


class Told:
    """A queue of four cores, where pods of four cores each come one after the other."""

    def __init__(self, url: str) -> None:
        self.url, self.toy, self.writer, self.fed = url, Toy(cpu=4), Writer(url), 0
        self.toy.slow = True

    def ask(self, victim: str, preemptor: str) -> dict[str, Any]:
        """Write what happened since; return the row of one preemption."""
        self.writer.feed(self.toy.messages[self.fed :])
        self.fed = len(self.toy.messages)
        return found(self.url)[victim, preemptor]

    def runs(self, name: str, seconds: float) -> None:
        """One more without a priority comes and runs for some time."""
        self.toy.pod(name, cpu=4)
        self.toy.run(name)
        self.toy.wait(seconds)


def test_cost_and_gain_of_preemptions(url: str) -> None:
    told = Told(url)
    toy = told.toy
    told.runs("work", 600)
    toy.pod("first", cpu=4, labels=LOW)
    row = told.ask("work", "first")
    # 4 cores for 10 minutes.
    assert row["lost_seconds"] == near(600)
    assert row["lost_hours"] == {"cpu": pytest.approx(0.667, abs=0.001)}
    assert (row["brought"], row["admitted_after_seconds"], row["ran_seconds"]) == (
        *("Waiting", None),
        None,
    )
    toy.wait(30)
    toy.end("work", phase="Failed")
    row = told.ask("work", "first")
    assert (row["brought"], row["ran_seconds"]) == ("Admitted", None)
    assert row["admitted_after_seconds"] == near(30)
    toy.run("first")
    toy.wait(20)
    told.writer.heard()
    row = told.ask("work", "first")
    assert (row["brought"], row["preemptor_ended_at"]) == ("Running", None)
    begun = datetime.fromisoformat(str(row["preemptor_started_at"]))
    assert row["ran_seconds"] == pytest.approx((datetime.now(UTC) - begun).total_seconds(), abs=60)

    # The preemptor is preempted itself after 20 seconds, and stops 5 later.
    toy.pod("top", cpu=4, labels=HIGH)
    toy.wait(5)
    toy.end("first", phase="Failed")
    row = told.ask("work", "first")
    assert (row["brought"], row["ran_seconds"]) == ("Preempted", near(25))
    assert row["admitted_after_seconds"] == near(30)
    assert row["lost_hours"] == {"cpu": pytest.approx(0.667, abs=0.001)}
    toy.run("top")
    toy.wait(60)
    toy.end("top")
    row = told.ask("first", "top")
    assert row["lost_hours"] == {"cpu": pytest.approx(4 * 20 / 3600, abs=0.001)}
    assert (row["brought"], row["ran_seconds"]) == ("Ran", near(60))
    assert row["admitted_after_seconds"] == near(5)


def test_a_preemptor_that_is_deleted_before_its_victim_ends_was_never_admitted(url: str) -> None:
    told = Told(url)
    told.runs("work", 360)
    told.toy.pod("impatient", cpu=4, labels=LOW)
    told.toy.wait(3)
    told.toy.delete("impatient")
    told.toy.end("work", phase="Failed")
    row = told.ask("work", "impatient")
    assert row["lost_hours"] == {"cpu": pytest.approx(0.4, abs=0.001)}
    assert row["brought"] == "NeverAdmitted"
    assert row["admitted_after_seconds"] is row["ran_seconds"] is None


def test_a_preemptor_that_gives_way_within_a_second_brought_nothing(url: str) -> None:
    told = Told(url)
    told.toy.slow = False
    told.runs("work", 36)
    told.toy.pod("quick", cpu=4, labels=LOW)
    told.toy.wait(0.2)
    told.toy.pod("top", cpu=4, labels=HIGH)
    row = told.ask("work", "quick")
    assert (row["brought"], row["ran_seconds"]) == ("PreemptedAtOnce", None)
    assert row["lost_hours"] == {"cpu": pytest.approx(0.04, abs=0.001)}
    assert told.ask("quick", "top")["brought"] == "Admitted"
    told.toy.delete("top")
    assert told.ask("quick", "top")["brought"] == "NeverRan"


def test_a_group_that_comes_again_pays_for_its_latest_admission_alone(url: str) -> None:
    """Preempted twice, each time by another: costs and gains are of the admissions beside it."""
    told = Told(url)
    toy = told.toy
    for number, seconds in ((1, 90), (2, 45)):
        toy.pod(f"work-{number}", "work", 1, cpu=4)
        toy.run(f"work-{number}")
        toy.wait(seconds)
        toy.pod(f"top-{number}", cpu=4, labels=HIGH)
        toy.end(f"work-{number}", phase="Failed")
        toy.run(f"top-{number}")
        toy.wait(10 * number)
        toy.end(f"top-{number}")
        toy.delete(f"work-{number}") if number == 1 else None
    for number, seconds in ((1, 90), (2, 45)):
        row = told.ask("work", f"top-{number}")
        assert row["lost_hours"] == {"cpu": pytest.approx(4 * seconds / 3600, abs=0.001)}
        assert (row["brought"], row["ran_seconds"]) == ("Ran", near(10 * number))
    assert len({row["victim_id"] for row in found(url).values()}) == 1


def test_resources_of_all_flavors_are_added_up_and_equal_on_both(url: str) -> None:
    engine = writer(url)
    with engine.begin() as connection:
        held = {
            "spot": {"cpu": 1500, "memory": 3 * 2**40 + 1, "pods": 2},
            "plain": {"cpu": 500, "x/gpu": 1},
        }
        admission: dict[str, Any] = {"group_id": "v", "number": 1, "admitted_seq": 4}
        put(connection, tables.admissions, **admission, admitted_at=minutes(0), resources=held)
        put(
            connection,
            tables.preemptions,
            victim_id="v",
            victim_name="v",
            preemptor_id="p",
            preemptor_name="p",
            seq=9,
            at=minutes(20),
            resources=held,
        )
        nothing = {"victim_id": "v", "victim_name": "e", "preemptor_name": "p"}
        put(connection, tables.preemptions, **nothing, seq=8, at=minutes(20))
        # What had no admission that is known: nothing can be said.
        unknown = {"victim_id": "u", "victim_name": "u", "preemptor_name": "p"}
        put(connection, tables.preemptions, **unknown, seq=9, at=minutes(20), resources=held)
    engine.dispose()
    rows = found(url)
    assert rows["v", "p"]["lost_hours"] == {
        "cpu": 0.666667,
        "memory": pytest.approx((3 * 2**40 + 1) / 3, rel=1e-12),
        "pods": 0.666667,
        "x/gpu": 0.333333,
    }
    assert (rows["v", "p"]["lost_seconds"], rows["v", "p"]["brought"]) == (1200, "")
    assert rows["u", "p"]["lost_seconds"] is rows["u", "p"]["lost_hours"] is None
    assert rows["e", "p"]["lost_hours"] == {}
