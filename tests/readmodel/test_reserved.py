"""A start that is reserved, as people read it: why, place in line, table, and what it costs."""

from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import text

from gatelog.readmodel import usage
from gatelog.readmodel.explain import explain, lines
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.reserving import ReservedRow, sentence
from podgroup.model.names import MAX_EXEC_SECONDS
from podgroup.model.policy import Policy
from projector.replay.compare import compare
from projector.schema.dialect import home
from projector.storage.database import reader, writer
from tests.projector.support import Writer
from tests.readmodel.test_positions import line, positions
from tests.support.databases import migrated
from tests.support.toy import T0, Toy

POLICY = Policy(longest_wait_s=3600, status_interval_s=1)


@pytest.fixture
def toy() -> Toy:
    """10 cores: 6 are held for 2 h at most, `large` needs 9 and has waited for an hour."""
    toy = Toy(10, policy=POLICY, within="Never")
    toy.pod("holder", cpu=6, labels={MAX_EXEC_SECONDS: "7200"})
    toy.run("holder")
    toy.pod("large", cpu=9)
    toy.wait(3605)
    toy.wait(5)
    toy.pod("urgent", cpu=9, labels={"kueue.x-k8s.io/priority-class": "low"})
    toy.pod("brief", cpu=5, labels={MAX_EXEC_SECONDS: "600"})
    return toy


def said(url: str, seconds: float) -> dict[str, str]:
    """What `why` says of the large group, so long after the begin."""
    with ReadModel(url, "test") as model:
        (group,) = model.groups("ns", "large")
        now = T0 + timedelta(seconds=seconds)
        return {one.label: one.text for one in lines(explain(model, group, now), now)}


def test_why_says_by_when_it_starts_and_who_may_still_pass(url: str, toy: Toy) -> None:
    writer = Writer(url)
    writer.world.policy = POLICY
    writer.feed(toy.messages)
    now = said(url, 3645)
    assert now["position"] == "1 in ClusterQueue cq", "before a higher priority"
    assert now["reserved"].endswith(
        "starts by 02:00:45 UTC at the latest (in 1 h); 1 group in line may still pass it, "
        "ending before"
    )
    assert "was to start by 02:00:45 UTC" in said(url, 7300)["reserved"]
    engine = reader(url)
    assert positions(engine) == line(toy.world)
    with ReadModel(url, "test") as model:
        (group,) = model.groups("ns", "large")
        before = explain(model, group, T0 + timedelta(seconds=60), past=True)
        then = explain(model, group, T0 + timedelta(seconds=3640), past=True)
        assert before.reserved is None
        assert then.reserved is not None and then.reserved.passing is None
    engine.dispose()


def test_that_nothing_may_pass_any_more_is_said_so() -> None:
    reserved = ReservedRow(from_at=T0, start_by=T0 + timedelta(seconds=60), cluster_queue="cq")
    none = sentence(replace(reserved, passing=0), T0)
    assert none.endswith("(in 1 m); no group in line may pass it any more")
    assert "pass" not in sentence(reserved, T0)


def test_the_table_keeps_it_and_usage_says_what_it_cost(url: str, toy: Toy) -> None:
    begun = toy.now
    toy.wait(1000)
    toy.end("holder")
    toy.wait(5)
    writer = Writer(url)
    writer.world.policy = POLICY
    writer.feed(toy.messages)
    with ReadModel(url, "test") as model:
        (row,) = model.dicts("SELECT * FROM reserved_starts WHERE cluster = :cluster", {})
        assert (row["ended"], row["cluster_queue"]) == ("Admitted", "cq")
        history = model.dicts("SELECT message FROM history WHERE kind = 'StartReserved'", {})
        given = {"since": T0, "until": toy.now, "cut": toy.now, "limit": 10}
        (idle,) = usage.idle(model.dicts(usage.quota_query(home(model.dialect)), given))
    assert [one["message"] for one in history] == [
        "in ClusterQueue cq, by 2026-01-01 02:00:45 UTC at the latest"
    ]
    seconds = (toy.now - begun).total_seconds()
    # 4 of 10 cores were free from when it was reserved on.
    assert idle.reserved / 1e9 == pytest.approx(4 * seconds, rel=0.05)


def test_a_start_without_a_bound_says_so(url: str) -> None:
    toy = Toy(10, policy=POLICY)
    toy.pod("holder", cpu=6)
    toy.run("holder")
    toy.pod("large", cpu=9)
    toy.wait(3605)
    writer = Writer(url)
    writer.world.policy = POLICY
    writer.feed(toy.messages)
    assert "once what ran then has ended" in said(url, 3650)["reserved"]
    engine = reader(url)
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT start_by FROM reserved_starts")).all()
    engine.dispose()
    assert [tuple(row) for row in rows] == [(None,)]


def test_a_reserved_start_that_was_changed_is_found(url: str, toy: Toy, tmp_path: Path) -> None:
    """`replay --verify` compares the table as it does the others."""
    again = f"sqlite:///{tmp_path}/again.sqlite3"
    for where in (url, migrated(again)):
        made = Writer(where)
        made.world.policy = POLICY
        made.feed(toy.messages)

    def different() -> list[str]:
        sides = reader(url), reader(again)
        with sides[0].connect() as live, sides[1].connect() as copy:
            found = compare(live, copy, "test", 0)
        for side in sides:
            side.dispose()
        assert any(one.rows for one in found if one.table == "reserved_starts")
        return [one.table for one in found if one.different]

    assert different() == []
    engine = writer(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE reserved_starts SET cluster_queue = 'other'"))
    engine.dispose()
    assert different() == ["reserved_starts"]
