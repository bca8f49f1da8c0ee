"""What a group holds now, and held then, is less by what its succeeded pods gave back. Both
databases.
"""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from gatelog.readmodel.explain import explain
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.statements.holders import HOLDING, HoldingRow
from podgroup.model.policy import Policy
from tests.projector.support import Writer
from tests.support.toy import Toy

HOUR = timedelta(hours=1)


def half_done(every_s: int = 1) -> Toy:
    """Of a group of four pods two have succeeded for an hour; `next` waits.

    `every_s`: how often the ledger gets how much queues hold; 0: there is none.
    """
    toy = Toy(cpu=4, policy=Policy(status_interval_s=every_s))
    toy.wait(2)
    for index in range(4):
        toy.pod(f"a{index}", "a", 4)
    toy.run("a0", "a1", "a2", "a3")
    toy.pod("next", cpu=3)
    toy.wait(3600)
    toy.end("a0")
    toy.end("a1")
    toy.wait(2)
    toy.wait(3600)
    toy.end("a2", phase="Failed")
    toy.wait(2)
    return toy


def amounts(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, str) else value


@pytest.fixture(params=[1, 0], ids=["ledger", "no ledger"])
def played(request: pytest.FixtureRequest, url: str) -> tuple[str, Toy]:
    toy = half_done(request.param)
    Writer(url).feed(toy.messages)
    return url, toy


def test_what_ended_pods_gave_back_is_held_by_no_group(played: tuple[str, Toy]) -> None:
    url, _ = played
    with ReadModel(url, "test") as model:
        (row,) = model.dicts("SELECT * FROM v_held", {})
        assert amounts(row["resources"]) == {"f": {"cpu": 2000}}
        (holder,) = model.holders("cq")
        assert holder.resources == {"f": {"cpu": 2000}}
        (queue,) = model.quota("ClusterQueue", name="cq")
        assert queue.held == 2000, "the ledger says the same"


def test_who_asks_for_nothing_holds_nothing(url: str) -> None:
    """It is admitted, and no holder that a group waits for."""
    toy = Toy(cpu=2)
    toy.pod("free", cpu=0)
    toy.pod("runs", cpu=2)
    toy.pod("next", cpu=1)
    Writer(url).feed(toy.messages)
    with ReadModel(url, "test") as model:
        (waiting,) = model.groups("ns", "next")
        for past in (False, True):
            holders = explain(model, waiting, toy.now, past=past).holders
            assert [one.name for one in holders] == ["runs"]


def test_a_past_moment_has_what_was_held_then(played: tuple[str, Toy]) -> None:
    url, toy = played
    with ReadModel(url, "test") as model:
        (waiting,) = model.groups("ns", "next")
        for ago, held in ((timedelta(), 2000), (1.5 * HOUR, 4000)):
            at = toy.now - ago
            (holder,) = explain(model, waiting, at, past=True).holders
            assert holder.resources == {"f": {"cpu": held}}
            given = {"queue": "cq", "at": at, "limit": 5, "offset": 0}
            (row,) = model.rows(HoldingRow, HOLDING[model.dialect], given)
            assert row.resources == {"f": {"cpu": held}}


def test_hours_of_a_queue_end_with_the_pods(played: tuple[str, Toy]) -> None:
    """Four cores for an hour, then two for another."""
    url, _ = played
    with ReadModel(url, "test") as model:
        (row,) = model.dicts(
            "SELECT sum(amount_hours) AS hours, max(admissions) AS n FROM v_queue_usage_hourly", {}
        )
    assert float(row["hours"]) == pytest.approx(6.0, abs=0.02) and row["n"] == 1
