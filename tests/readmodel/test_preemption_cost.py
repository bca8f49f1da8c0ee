"""What a preemption cost and brought, as `gatelog ask preempted` and the console say it."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatelog import cli
from gatelog.readmodel import statements
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.rates import hours_text
from gatelog.serve.console.preemptions import preemptions
from gatelog.serve.console.rendering import Page
from gatelog.serve.console.view import PageView
from podgroup.log.events import ObjectApplied
from podgroup.model.names import PRIORITY_CLASS
from podgroup.model.objects import LocalQueueView, NamespaceView
from tests.projector.support import Writer
from tests.support.databases import migrated
from tests.support.toy import Toy

LOW, HIGH = {PRIORITY_CLASS: "low"}, {PRIORITY_CLASS: "high"}


@pytest.fixture
def toy(url: str) -> Toy:
    """Four cores run 10 minutes, end 30 s after `top` of another namespace preempted them, which
    runs 2 minutes; then `next` is preempted after 6 minutes by one that is never admitted.
    """
    toy = Toy(cpu=4)
    toy.slow = True
    theirs = LocalQueueView(
        uid="lq2", namespace="other", name="lq", resource_version=toy.bump(), cluster_queue="cq"
    )
    space = NamespaceView(uid="n2", name="other", resource_version=toy.bump())
    toy.do(ObjectApplied(object=space), ObjectApplied(object=theirs))
    toy.pod("work", cpu=4, labels=LOW)
    toy.run("work")
    toy.wait(600)
    toy.pod("top", cpu=4, namespace="other", labels=HIGH)
    toy.wait(30)
    toy.end("work", phase="Failed")
    toy.run("top")
    toy.wait(120)
    toy.end("top")
    toy.pod("next", cpu=4, labels=LOW)
    toy.run("next")
    toy.wait(360)
    toy.pod("never", cpu=4, namespace="other", labels=HIGH)
    toy.delete("never")
    toy.end("next", phase="Failed")
    Writer(url).feed(toy.messages)
    return toy


def test_ask_tells_what_each_preemption_cost_and_brought(
    url: str, toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["ask", "preempted", "--db", url, "--cluster", "test"]
    assert cli.run(asked) == 0
    head, last, first = capsys.readouterr().out.splitlines()
    at = head.index("lost_hours")
    assert re.split(" {2,}", first[at:])[:2] == ["0.67 core-h of cpu", "Ran"]
    assert re.split(" {2,}", last[at:])[:2] == ["0.40 core-h of cpu", "NeverAdmitted"]
    assert cli.run(["ask", "taken", *asked[2:]]) == 0
    out = capsys.readouterr().out
    assert re.search(r" cpu +\d+\.\d+ core-h ", out), out
    assert cli.run([*asked, "-o", "json"]) == 0
    never, ran = json.loads(capsys.readouterr().out)
    assert float(ran["admitted_after_seconds"]) == pytest.approx(30, abs=0.3)
    assert float(ran["ran_seconds"]) == pytest.approx(120, abs=0.3)
    assert never["admitted_after_seconds"] is never["ran_seconds"] is None


def shown(url: str, toy: Toy, *, quota: bool) -> tuple[Page, list[dict[str, Any]]]:
    seen = PageView(at=None, query={"namespace": "ns"}, now=toy.now, quota=quota)
    with ReadModel(url, "test") as model:
        page = preemptions(Asked(model), seen)
    return page, json.loads(msgspec.json.encode(page.data))["preemptions"]


def test_the_console_shows_cost_and_gain(url: str, toy: Toy) -> None:
    page, rows = shown(url, toy, quota=True)
    assert ">0.67 core-h of cpu<" in page.body and ">admitted after 30 s, ran 2 m<" in page.body
    assert ">0.40 core-h of cpu<" in page.body and ">never admitted<" in page.body
    assert [row["brought"] for row in rows] == ["NeverAdmitted", "Ran"]
    assert rows[1]["lost_hours"] == {"cpu": pytest.approx(0.667, abs=0.001)}


def test_who_sees_the_victim_alone_is_shown_what_it_cost_alone(url: str, toy: Toy) -> None:
    page, rows = shown(url, toy, quota=False)
    assert ">0.67 core-h of cpu<" in page.body and "admitted" not in page.body
    assert all(row["brought"] is row["admitted_after_seconds"] is None for row in rows)
    theirs = PageView(at=None, query={"namespace": "other"}, now=toy.now, quota=False)
    with ReadModel(url, "test") as model:
        page = preemptions(Asked(model), theirs)
    assert "core-h" not in page.body and ">admitted after 30 s, ran 2 m<" in page.body


def test_hours_of_resources_are_in_units_of_people() -> None:
    hours = {"memory": 3 * 2**30, "cpu": 1234.5, "pods": 2, "nvidia.com/gpu": 0.004167}
    assert hours_text(hours) == (
        "1,234.50 core-h of cpu, 3.00 GiB-h of memory, 0.0042 h of nvidia.com/gpu, 2.00 h of pods"
    )


def test_a_page_asks_the_view_of_its_own_rows(tmp_path: Path) -> None:
    """Worked out whole, the view took seconds for a page of a hundred."""
    migrated(f"sqlite:///{tmp_path}/read-model.sqlite3")
    names = ("cluster", "since", "until", "group_id", "namespace", "own", "limit")
    with closing(sqlite3.connect(tmp_path / "read-model.sqlite3")) as database:
        given = dict.fromkeys(names, "")
        plan = database.execute(f"EXPLAIN QUERY PLAN {statements.preempted.PREEMPTED}", given)
        steps = [str(row[3]) for row in plan]
    assert [one for one in steps if one.startswith("MATERIALIZE")] == ["MATERIALIZE page"]
    assert "SEARCH d USING INDEX ix_decisions_preempt (cluster=? AND issued_at>?" in str(steps)
    of_view = [one for one in steps if "preemptions" in one]
    assert of_view and all("victim_id=?" in one for one in of_view)
