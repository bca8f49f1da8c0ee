"""Hours that pods waited by reason, and changes of quota, as questions. Both databases."""

from datetime import timedelta
from typing import Any

import pytest

from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.questions import Scope, questions, readable, statement
from podgroup.log import events as e
from tests.projector.support import Writer
from tests.support.toy import Toy


def asked(url: str, toy: Toy, name: str) -> list[dict[str, Any]]:
    """Rows of a question about all that happened."""
    begin = toy.now.replace(hour=0, minute=0, second=0, microsecond=0)
    scope = Scope(cluster="test", since=begin, until=begin + timedelta(days=2))
    with ReadModel(url, "test") as model:
        return model.dicts(statement(questions()[name], scope, model.dialect).rstrip(";"), {})


@pytest.fixture
def played(url: str) -> tuple[str, Toy]:
    """A group of two waits an hour, until the quota is raised; then the queue goes."""
    toy = Toy(cpu=2)
    toy.pod("runs", cpu=2)
    toy.run("runs")
    toy.pod("b0", "b", 2)
    toy.wait(1800)
    toy.pod("b1", "b", 2)
    toy.wait(3600)
    toy.do(e.ObjectApplied(object=toy.cluster_queue(4)))
    toy.run("b0", "b1")
    toy.wait(600)
    version = toy.bump()
    toy.do(
        e.ObjectDeleted(
            kind="ClusterQueue", namespace="", name="cq", uid="cq", resource_version=version
        )
    )
    toy.wait(60)
    toy.pod("later")
    Writer(url).feed(toy.messages)
    return url, toy


def test_hours_by_reason_are_all_hours_that_pods_waited(played: tuple[str, Toy]) -> None:
    url, toy = played
    rows = asked(url, toy, "reasons")
    hours = {(row["reason"], row["resource"]): float(row["hours"]) for row in rows}
    assert hours["WaitingForPods", "pods"] == pytest.approx(0.5, abs=0.01)
    assert hours["WaitingForQuota", "pods"] == pytest.approx(2.0, abs=0.01)
    assert hours["WaitingForQuota", "cpu"] == pytest.approx(2.0, abs=0.01)
    with ReadModel(url, "test") as model:
        (waited,) = model.dicts(
            "SELECT sum(resource_hours) AS hours FROM v_usage_hourly"
            " WHERE what = 'waited' AND resource = 'cpu'",
            {},
        )
    by_reason = sum(hour for (_, resource), hour in hours.items() if resource == "cpu")
    assert by_reason == pytest.approx(float(waited["hours"]), abs=0.01)


def test_changes_of_quota_say_from_what_to_what(played: tuple[str, Toy]) -> None:
    rows = asked(*played, "changes")
    changes = [(row["cluster_queue"], row["was"], row["nominal"]) for row in rows]
    assert changes == [("cq", None, 2000), ("cq", 2000, 4000), ("cq", 4000, None)]
    shown = readable(list(rows[1]), list(rows[1].values()))
    assert shown[1:] == ("cq", "f", "cpu", "2", "4")
