"""What-if against the oracle of queues: a past on other queues, changed to those of its cases."""

import json
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatelog.whatif.arrivals import Later
from gatelog.whatif.objects import key_of, read_objects
from podgroup.model.policy import Policy
from tests.oracle.case import read
from tests.whatif import cases
from tests.whatif.logs import write_log
from tests.whatif.test_trace import what_if

CASES = Path(__file__).parents[1] / "oracle" / "cases.jsonl.gz"
BOTH = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")


def play(
    folder: Path, told: list[cases.Story], policy: Policy, capsys: pytest.CaptureFixture[str]
) -> tuple[dict[str, Any], Path]:
    """Return what a what-if from unlimited quota to that of the cases says, and its read model."""
    log, past, change, kinds, database = (
        folder / name
        for name in ("log.jsonl.gz", "past.yaml", "change.yaml", "f.yaml", "db.sqlite3")
    )
    past.write_text(cases.manifests(told, limited=False))
    change.write_text(cases.manifests(told, limited=True))
    kinds.write_text(cases.flavors(told))
    flavors = read_objects([kinds])
    later = [Later(cases.GONE, key_of(view), None) for view in flavors]
    later += [Later(cases.BACK, key_of(view), view) for view in flavors]
    objects = flavors + read_objects([past])
    write_log(cases.Past(told), objects, log, cases.BEGIN, policy=policy, later=later)
    given = ("--since", "2000-01-01", "--change", change, "--db", database)
    return what_if(capsys, log, *given), database


Preempted = tuple[datetime, str, str]
"""When, who, and why."""


def rows(database: Path) -> tuple[list[cases.Admitted], list[Preempted]]:
    """Return who was admitted, in order, and who was preempted when and why."""
    with closing(sqlite3.connect(database)) as connection:
        admitted = connection.execute(
            "SELECT a.admitted_at, g.name, a.cluster_queue, a.flavors FROM admissions a "
            "JOIN groups g ON g.id = a.group_id JOIN decisions d ON d.id = a.decided_by "
            "ORDER BY d.number"
        ).fetchall()
        preempted = connection.execute("SELECT at, victim_name, policy FROM preemptions").fetchall()
    return [
        cases.Admitted(datetime.fromisoformat(at), name, queue, json.loads(flavors))
        for at, name, queue, flavors in admitted
    ], [(datetime.fromisoformat(at), name, why) for at, name, why in preempted]


def differs(
    story: cases.Story, admitted: list[cases.Admitted], preempted: list[Preempted]
) -> str | None:
    """Say in what a play differs from the oracle, None if its beginning did not come about.

    After the end of a case its pods end one by one here, and others give way or get in. Queues that
    share nothing have no order at one moment.
    """
    names = set(story.names())
    mine = [one for one in admitted if one.group in names and one.at < story.end()]
    if [one for one in mine if one.at < cases.GONE] != story.held():
        return None
    came = [replace(one, at=_moment(one.at)) for one in mine if one.at >= cases.GONE]
    then, wanted = (
        sorted(each, key=lambda one: (one.at, story.tree(one.queue)))
        for each in (came, story.admitted())
    )
    if then != wanted:
        return f"{story.name}: {then} for {wanted}"
    gave_way = sorted((who, why) for at, who, why in preempted if who in names and at < story.end())
    return "" if gave_way == story.preempted() else f"{story.name}: {gave_way} gave way"


def _moment(at: datetime) -> datetime:
    """Return the time of the event that an admission follows: a victim is back a second later."""
    return at - timedelta(seconds=(at - cases.BACK).total_seconds() % cases.STEP_S)


@pytest.mark.parametrize("strategies, at_least", [((), 15), (BOTH, 8)], ids=["quota", "shares"])
def test_a_past_on_the_queues_of_a_case_comes_to_what_the_oracle_says(
    strategies: tuple[str, ...],
    at_least: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Who, when, in which order, with which flavors, and who gave way to whom."""
    told = cases.stories(list(read(CASES)), strategies)
    policy = Policy(compatibility="kueue", fair_sharing=strategies)
    found, database = play(tmp_path, told, policy, capsys)
    assert found["calibration"]["only_then"] == found["calibration"]["p99_s"] == 0
    assert found["then"]["preempted"] == {}
    came = [differs(story, *rows(database)) for story in told]
    assert [said for said in came if said] == []
    assert came.count("") >= at_least
