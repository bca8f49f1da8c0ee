"""How pods failed, with what they asked for at the time. Both databases."""

import csv
import io
import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from gatelog import cli
from ingest.translate.pods import PodWire, pod_view
from podgroup.model.names import TERMINATION_TARGET
from podgroup.model.objects import Condition, ContainerEnd, OwnerRef
from tests.projector.support import Writer
from tests.projector.test_views import ask
from tests.support.toy import Toy

ROWS = (
    "SELECT p.name, f.container, f.reason, f.exit_code, f.restarts, f.node, "
    "CAST(f.requests ->> 'cpu' AS int) AS cpu FROM failures f JOIN pods p ON p.uid = f.pod_uid "
    "ORDER BY f.seq, f.container"
)


def killed(toy: Toy, times: int) -> tuple[ContainerEnd, ...]:
    good = ContainerEnd(name="side", finished_at=toy.now)
    at = toy.now + timedelta(seconds=times)
    return (
        good,
        ContainerEnd(
            name="main", exit_code=137, reason="OOMKilled", restarts=times, finished_at=at
        ),
    )


def story() -> Toy:
    """One is killed twice, resized between, and evicted; one is disrupted, another just fails."""
    toy = Toy(cpu=20)
    job = OwnerRef(kind="Job", name="etl", uid="j", controller=True)
    for name in ("a", "b", "c"):
        toy.pod(name, cpu=2, owners=(OwnerRef(kind="Node", name="n", uid="n"), job))
        toy.run(name)
    uid = toy.named("a").uid
    ends = killed(toy, 1)
    toy.change(uid, ends=ends)
    toy.change(uid, ends=ends, conditions=())
    again = tuple(msgspec.structs.replace(end, restarts=end.restarts + 1) for end in ends)
    toy.change(uid, ends=again)  # the same end once more, as lastState after the restart
    toy.change(uid, requests={"cpu": 3000})
    toy.change(uid, ends=killed(toy, 2))
    toy.change(uid, phase="Failed", reason="Evicted", message="The node was low on memory.")
    told = Condition(type="DisruptionTarget", status="True", reason="DeletionByTaintManager")
    other = Condition(type=TERMINATION_TARGET, status="True", reason="x")
    uid = toy.named("b").uid
    toy.change(uid, conditions=(other, told))
    toy.change(uid, conditions=(told, other))
    toy.change(uid, phase="Failed", reason="Terminated", conditions=(told,))
    end = ContainerEnd(name="main", exit_code=3)
    toy.change(toy.named("c").uid, phase="Failed", ends=(end,))
    return toy


WANTED = [
    ("a", "main", "OOMKilled", 137, 1, "node", 2000),
    ("a", "main", "OOMKilled", 137, 2, "node", 3000),
    ("a", "", "Evicted", 0, 0, "node", 3000),
    ("b", "", "DeletionByTaintManager", 0, 0, "node", 2000),
    ("c", "main", "exit code 3", 3, 0, "node", 2000),
]


def told(url: str) -> list[tuple[Any, ...]]:
    return [(*row.values(),) for row in ask(url, ROWS)]


def test_each_failure_is_told_once_with_what_was_asked_for_then(url: str) -> None:
    write = Writer(url).feed(story().messages)
    write.store.close()
    assert told(url) == WANTED
    rows = ask(url, "SELECT name, owner, restarts FROM pods ORDER BY name")
    assert [(r["name"], r["owner"], r["restarts"]) for r in rows] == [
        ("a", "Job/etl", 2),
        ("b", "Job/etl", 0),
        ("c", "Job/etl", 0),
    ]


def test_history_tells_exit_code_signal_restarts_and_what_ended_a_pod(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    toy = story()
    write = Writer(url).feed(toy.messages)
    write.store.close()
    rows = ask(
        url,
        "SELECT kind, reason, message FROM v_group_timeline "
        "WHERE source = 'failure' AND name = 'a' ORDER BY seq, ord",
    )
    told = [": ".join(row.values()) for row in rows]
    assert told[0] == (
        "ContainerFailed: OOMKilled: container main, exit code 137 (signal 9), restarts before: 1"
    )
    assert [one.split(": ")[:2] for one in told[1:]] == [
        ["ContainerFailed", "OOMKilled"],
        ["PodEnded", "Evicted"],
    ]
    given = ["--db", url, "--cluster", toy.world.cluster]
    assert cli.run(["history", f"{toy.named('a').namespace}/a", *given]) in (0, None)
    out = capsys.readouterr().out
    assert "container failed a" in out and "exit code 137 (signal 9)" in out
    assert "ended by node or cluster a" in out


def test_who_is_held_up_hears_what_a_resized_pod_takes_beyond_its_admission(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    toy = Toy(cpu=4)
    toy.pod("big", cpu=2)
    toy.run("big")
    toy.change(toy.named("big").uid, requests={"cpu": 4000})
    toy.pod("next", cpu=2)
    Writer(url).feed(toy.messages).store.close()
    assert cli.run(["why", "ns/next", "--db", url, "--cluster", toy.world.cluster]) in (0, None)
    out = " ".join(capsys.readouterr().out.split())
    assert "ns/big 2 cpu of" in out and "it takes 2 cpu of" in out
    assert "more than it was given, which is charged too" in out


def test_a_projector_that_starts_anywhere_tells_the_same(url: str) -> None:
    messages = story().messages
    for first in range(0, len(messages), 5):
        write = Writer(url).load()
        write.feed(messages[first : first + 5])
        write.store.close()
    assert told(url) == WANTED


def test_restarts_are_read_from_the_status() -> None:
    raw = msgspec.json.encode(
        {
            "metadata": {"uid": "u", "name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {
                "containerStatuses": [
                    {
                        "name": "main",
                        "restartCount": 7,
                        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                    }
                ]
            },
        }
    )
    view = pod_view(msgspec.json.decode(raw, type=PodWire), raw, "kueue")
    assert [(end.reason, end.restarts) for end in view.ends] == [("OOMKilled", 7)]


def test_what_was_preempted_has_not_failed(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    toy = Toy(cpu=2)
    toy.slow = True
    toy.pod("low", cpu=2, labels={"kueue.x-k8s.io/priority-class": "low"})
    toy.run("low")
    toy.pod("high", cpu=2, labels={"kueue.x-k8s.io/priority-class": "high"})
    ended = ContainerEnd(name="main", reason="Error", exit_code=143)
    toy.change(toy.named("low").uid, phase="Failed", ends=(ended,))
    Writer(url).feed(toy.messages).store.close()
    words = ["usage", "--failures", "--since", "2025-12-31T00:00:00Z", "--db", url]
    words += ["--until", "2026-01-02T00:00:00Z", "--cluster", "test", "-o", "json"]
    assert cli.run(words) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == []
    kept = ask(url, "SELECT count(*) AS n FROM failures")[0]["n"]
    assert kept, "the read model has it all the same"


def test_the_command_tells_failures_and_restarts_by_owner_and_shape(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write = Writer(url).feed(story().messages)
    write.store.close()
    common = ["usage", "--failures", "--since", "2025-12-31T00:00:00Z", "--db", url]
    common += ["--until", "2026-01-02T00:00:00Z", "--cluster", "test"]
    assert cli.run([*common, "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {(r["namespace"], r["owner"]) for r in rows} == {("ns", "Job/etl")}
    found = sorted((r["what"], r["asked"]["cpu"], r["times"], r["pods"]) for r in rows)
    assert found == [
        ("DeletionByTaintManager", "2", 1, 1),
        ("Evicted", "3", 1, 1),
        ("OOMKilled", "2", 1, 1),
        ("OOMKilled", "3", 1, 1),
        ("Restarted", "3", 2, 1),
        ("exit code 3", "2", 1, 1),
    ]
    assert rows[0]["what"] == "Restarted" and rows[0]["last_at"] is None
    assert cli.run([*common, "-o", "csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [line["what"] for line in lines] == [r["what"] for r in rows]
    assert lines[0]["asked"] == "cpu=3"
    assert cli.run(common) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split()[:4] == ["NAMESPACE", "OWNER", "LIKE", "WHAT"]
    assert out[1].split()[2:] == ["a", "Restarted", "2", "1", "cpu=3", "-"]
    assert cli.run([*common, "--since", "2026-01-01T20:00:00Z", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [], "pods that were over by then"
    assert cli.run([*common, "--by", "queue"]) == 2
    assert "--failures" in capsys.readouterr().err
