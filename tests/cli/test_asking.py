"""`history` and `why` on a read model with a bit of everything, on both databases."""

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from gatelog.examine import readmodel
from gatelog.readmodel import timeline
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.timeline import TimelineEntry, plain
from gatelog.terminal.following import change
from podgroup.model.policy import Policy
from runtime.settings import DatabaseSettings, Settings
from tests.cli.conftest import Ran
from tests.core.test_shared_quota import of, team
from tests.projector.support import Writer
from tests.support.databases import migrated
from tests.support.toy import Toy

Db = tuple[str, Toy]
Gatelog = Callable[..., Ran]


def ask(gatelog: Gatelog, db: Db, command: str, *args: str) -> Ran:
    return gatelog(command, *args, "--db", db[0], "--cluster", "test")


def written(folder: Path, toy: Toy) -> tuple[str, Writer]:
    """A read model of what a toy cluster did so far, and who writes it on."""
    url = f"sqlite:///{folder}/model.sqlite3"
    migrated(url)
    return url, Writer(url).feed(toy.messages)


def test_history_tells_what_when_and_why(gatelog: Gatelog, busy_db: Db) -> None:
    code, out, err = ask(gatelog, busy_db, "history", "ns/a")
    assert (code, err) == (0, "")
    assert "ns/a  group of 3 pods, queue lq → cq" in out
    for words in (
        "created a0, a1, a2",
        "compose: all 3 pods are there",
        "admit: fits the quota of ClusterQueue cq",
        "ungate a0, a1, a2",
        "failed a0",
        "delete excess extra",
        "excess: ",
        "replaced a0",
        "replace: pod a0 ended",
    ):
        assert words in " ".join(out.split()), words
    assert "+0.00 s" in out and max(map(len, out.splitlines())) <= 100


def test_a_pod_leads_to_its_group(gatelog: Gatelog, busy_db: Db) -> None:
    _, of_group, _ = ask(gatelog, busy_db, "history", "ns/b")
    code, of_pod, _ = ask(gatelog, busy_db, "history", "ns/w1")
    assert code == 0 and of_pod == of_group


def test_history_as_json_has_every_row(gatelog: Gatelog, busy_db: Db) -> None:
    code, out, _ = ask(gatelog, busy_db, "history", "ns/a", "--json")
    assert code == 0
    (found,) = json.loads(out)
    assert found["group"]["name"] == "a" and found["group"]["pods_excess"] == 1
    toy = busy_db[1]
    decided = [d for d in toy.decisions if d.name == "a" and d.namespace == "ns"]
    rows = [e for e in found["entries"] if e["source"] == "decision"]
    assert [e["decision"] for e in rows] == [d.id for d in decided]
    assert [e["rule"] for e in rows] == [d.rule for d in decided]


def test_full_history_has_a_line_for_every_row(gatelog: Gatelog, busy_db: Db) -> None:
    _, out, _ = ask(gatelog, busy_db, "history", "ns/b", "--json")
    entries = json.loads(out)[0]["entries"]
    code, full, _ = ask(gatelog, busy_db, "history", "ns/b", "--full", "--utc")
    assert code == 0
    assert full.count("2026-01-01 00:00:") >= len(entries)


def test_the_printed_statement_gives_the_same_rows(gatelog: Gatelog, busy_db: Db) -> None:
    if not busy_db[0].startswith("sqlite"):
        return
    _, statement, _ = ask(gatelog, busy_db, "history", "ns/a", "--sql")
    _, out, _ = ask(gatelog, busy_db, "history", "ns/a", "--json")
    with closing(sqlite3.connect(busy_db[0].removeprefix("sqlite:///"))) as database:
        rows = database.execute(statement).fetchall()
    entries = json.loads(out)[0]["entries"]
    assert len(rows) == len([e for e in entries if e["source"] != "cause"])


def test_all_lives_of_a_name_newest_first(gatelog: Gatelog, busy_db: Db) -> None:
    url, toy = busy_db
    from tests.projector.support import Writer

    before = len(toy.messages)
    toy.pod("single")
    writer = Writer(url).load()
    writer.feed(toy.messages[before:])
    writer.store.close()
    code, out, _ = ask(gatelog, busy_db, "history", "ns/single")
    assert code == 0 and "1 earlier life of this name: add --all" in out
    code, out, _ = ask(gatelog, busy_db, "history", "ns/single", "--all", "--json")
    newer, older = json.loads(out)
    assert code == 0 and newer["group"]["id"] != older["group"]["id"]
    assert newer["group"]["created_at"] > older["group"]["created_at"]
    assert older["group"]["gone_at"] is not None


def test_why_a_group_waits_for_quota(gatelog: Gatelog, busy_db: Db) -> None:
    code, out, err = ask(gatelog, busy_db, "why", "ns/c")
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert "ns/c group of 2 pods, queue lq → cq Queued" in text
    assert "waits for WaitingForQuota, since 2026-01-01" in text
    assert "must be freed in ClusterQueue cq; or others in ClusterQueue cq finish" in text
    assert "position 1 in ClusterQueue cq" in text
    assert "held by ns/a 3 cpu of f" in text and "ns/b 3 cpu of f" in text


def test_why_and_doctor_name_kinds_that_an_older_ingester_does_not_list(
    gatelog: Gatelog, tmp_path: Path
) -> None:
    toy = Toy()
    toy.pod("before")
    said = toy.settings()
    toy.send(structs.replace(said, kinds=(*said.kinds, "Later")))
    toy.pod("behind")
    url, _ = written(tmp_path, toy)
    waits = "nothing is decided before these kinds are listed: Later"
    for words in (("why", "ns/before"), ("why",)):
        code, _, err = ask(gatelog, (url, toy), *words)
        assert code == 0 and waits in err and "upgrade it" in err
    (found,) = (
        one
        for one in readmodel.examine(Settings(cluster="test", database=DatabaseSettings(url=url)))[
            0
        ]
        if one.what == "lists"
    )
    assert found.verdict == "fail" and found.detail == waits and "upgrade it" in found.remedy


def test_why_a_group_waits_for_pods(gatelog: Gatelog, busy_db: Db) -> None:
    code, out, _ = ask(gatelog, busy_db, "why", "ns/half")
    text = " ".join(out.split())
    assert code == 0 and "waits for WaitingForPods" in text
    assert "3 more pods with label kueue.x-k8s.io/pod-group-name=d; 1 of 4 are there" in text


def test_why_a_group_that_is_admitted_or_over(gatelog: Gatelog, busy_db: Db) -> None:
    code, out, _ = ask(gatelog, busy_db, "why", "ns/b")
    assert code == 0 and "no scheduler has said why" in out and "quota granted" in out
    code, out, _ = ask(gatelog, busy_db, "why", "ns/single")
    assert code == 0 and "it is over" in out


@pytest.mark.parametrize("serving", ["true", "false"])
def test_why_a_successor_waits_for_a_pod_that_terminates(
    gatelog: Gatelog, tmp_path: Path, serving: str
) -> None:
    """The actuator was blamed: "no decision to remove the gate was made yet"."""
    toy = Toy()
    toy.slow = True
    mine: dict[str, Any] = {"annotations": {"kueue.x-k8s.io/pod-group-serving": serving}}
    for name in ("a0", "a1"):
        toy.pod(name, "a", 2, **mine)
    toy.run("a0", "a1")
    toy.change(toy.named("a0").uid, deleted_at=toy.now + timedelta(hours=1), grace_s=3600)
    toy.pod("b0", "a", 2, **mine)
    toy.wait(60)
    url, writer = written(tmp_path, toy)
    text = " ".join(ask(gatelog, (url, toy), "why", "ns/b0")[1].split())
    assert toy.gated("b0") and "held up" not in text and "actuator" not in text
    assert "successor 1 pod at its gate: for each that terminates one starts once that" in text
    assert "pod a0 on node" in text
    toy.end("a0", phase="Failed")
    writer.feed([m for m in toy.messages if m[0] > writer.world.meta.position])
    writer.store.close()
    assert "successor" not in ask(gatelog, (url, toy), "why", "ns/b0")[1]


def test_why_an_admitted_pod_that_has_the_gate_of_another_controller(
    gatelog: Gatelog, tmp_path: Path
) -> None:
    """Kueue calls such a pod admitted and says no more (kubernetes-sigs/kueue #9482)."""
    toy = Toy()
    mine: dict[str, Any] = {"gates": ("kueue.x-k8s.io/admission", "example.com/test")}
    pods = [toy.pod(name, "a", 2, **mine) for name in ("a0", "a1")]
    url, writer = written(tmp_path, toy)
    code, out, _ = ask(gatelog, (url, toy), "why", "ns/a0")
    text = " ".join(out.split())
    assert code == 0 and "now 2 are kept by scheduling gate example.com/test, for" in text
    assert "; quota granted" in text
    assert "it takes that the controller whose gate it is removes it" in text
    assert "queueing.pods_ready_timeout_s" in text
    found = json.loads(ask(gatelog, (url, toy), "why", "ns/a", "--json")[1])
    (kept,) = found["not_running"]
    assert (kept["subject"], kept["pods"], kept["pod"]) == ("example.com/test", 2, "a0")
    for pod in pods:
        toy.change(pod.uid, gates=())
    toy.run("a0", "a1")
    writer.feed([m for m in toy.messages if m[0] > writer.world.meta.position])
    writer.store.close()
    out = ask(gatelog, (url, toy), "why", "ns/a")[1]
    assert "scheduling gate" not in out and "it waits for nothing: admitted" in out


def test_why_a_pod_that_came_to_a_group_that_was_over(gatelog: Gatelog, tmp_path: Path) -> None:
    toy = Toy()
    for name in ("a0", "a1"):
        toy.pod(name, "a", 2)
    toy.run("a0", "a1")
    toy.end("a0", "a1")
    toy.wait(30)
    toy.pod("late", "a", 2)
    url, writer = written(tmp_path, toy)
    writer.store.close()
    code, out, _ = ask(gatelog, (url, toy), "why", "ns/late")
    text = " ".join(out.split())
    assert code == 0 and "it is over: Pods succeeded: 2/2" in text
    assert re.search(r"not started pod late came 29\.\d s after the group had ended", text)
    assert "create it again when the pods of this group are deleted" in text
    found = json.loads(ask(gatelog, (url, toy), "why", "ns/a", "--json")[1])
    assert [pod["name"] for pod in found["not_started"]] == ["late"]


def test_why_without_a_name_lists_what_waits(gatelog: Gatelog, busy_db: Db) -> None:
    code, out, _ = ask(gatelog, busy_db, "why")
    lines = out.splitlines()
    assert code == 0 and lines[0].split()[:3] == ["NAMESPACE", "NAME", "POSITION"]
    assert [line.split()[:2] for line in lines[1:]] == [["ns", "c"], ["ns", "d"]]
    assert "WaitingForQuota" in out and "WaitingForPods" in out
    assert not any(line.endswith(" ") for line in lines)
    assert ask(gatelog, busy_db, "why", "ns")[:2] == (0, out)
    found = json.loads(ask(gatelog, busy_db, "why", "--json")[1])
    assert [(row["name"], row["reason"]) for row in found] == [
        ("c", "WaitingForQuota"),
        ("d", "WaitingForPods"),
    ]
    assert found == json.loads(ask(gatelog, busy_db, "why", "ns", "--json")[1])


def test_why_of_a_namespace_nobody_knows_says_what_it_may_be(gatelog: Gatelog, busy_db: Db) -> None:
    code, out, err = ask(gatelog, busy_db, "why", "c")
    assert (code, out) == (1, "")
    assert "nothing of namespace c" in err and "did you mean ns/c" in err
    code, _, err = gatelog("why", "--db", busy_db[0])
    assert code == 1 and "knows the clusters test" in err


def test_why_a_group_that_runs_is_short_of_a_pod(gatelog: Gatelog, tmp_path: Path) -> None:
    toy = Toy()
    for name in ("a0", "a1"):
        toy.pod(name, "a", 2)
    toy.run("a0", "a1")
    toy.end("a0", phase="Failed")
    url, writer = written(tmp_path, toy)
    code, out, _ = ask(gatelog, (url, toy), "why", "ns/a")
    text = " ".join(out.split())
    assert code == 0 and "failed pod a0" in text and "no pod has its place" in text
    assert "it takes new pods of the same shape" in text
    told = len(toy.messages)
    toy.pod("a2", "a", 2)
    toy.run("a2")
    writer.feed(toy.messages[told:])
    writer.store.close()
    found = json.loads(ask(gatelog, (url, toy), "why", "ns/a", "--json")[1])
    assert found["not_replaced"] == []


def test_why_as_json(gatelog: Gatelog, busy_db: Db) -> None:
    code, out, _ = ask(gatelog, busy_db, "why", "ns/c", "--json")
    found = json.loads(out)
    assert code == 0 and found["group"]["wait_reason"] == "WaitingForQuota"
    assert [h["name"] for h in found["holders"]] == ["a", "b"] and found["position"] == 1
    assert found["holders"][0]["resources"] == {"f": {"cpu": 3000}}


def test_nothing_found_says_what_it_may_be(gatelog: Gatelog, busy_db: Db) -> None:
    code, out, err = ask(gatelog, busy_db, "history", "ns/singel")
    assert (code, out) == (1, "")
    assert "no group or pod ns/singel" in err and "did you mean ns/single" in err
    code, _, err = ask(gatelog, busy_db, "why", "elsewhere/a")
    assert code == 1 and "ns/a" in err
    code, _, err = ask(gatelog, busy_db, "why", "far/zzzzzzzzzz")
    assert code == 1 and "projector last wrote" in err and "kueue.x-k8s.io/queue-name" in err


def test_the_wrong_cluster_is_noticed(gatelog: Gatelog, busy_db: Db) -> None:
    code, _, err = gatelog("why", "ns/a", "--db", busy_db[0])
    assert code == 1 and "knows the clusters test" in err and "--cluster" in err


def test_names_are_parameters_and_never_sql(gatelog: Gatelog, busy_db: Db) -> None:
    code, _, err = ask(gatelog, busy_db, "history", "ns/a' OR '1'='1")
    assert code == 1 and "no group or pod" in err


def test_a_database_that_is_no_read_model(gatelog: Gatelog, tmp_path: object) -> None:
    file = f"{tmp_path}/other.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE t (x)")
    code, _, err = gatelog("why", "a/b", "--db", file)
    assert code == 1 and "gatelog migrate" in err


def test_summary_and_checkpoint_agree_with_the_world(busy_db: Db) -> None:
    url, toy = busy_db
    with ReadModel(url, "test") as model:
        rows = {row.name: row for row in model.summary()}
        checkpoint = model.checkpoint()
        unresolved = model.unresolved(datetime(2027, 1, 1, tzinfo=UTC))
        assert model.unresolved(datetime(2020, 1, 1, tzinfo=UTC)) == 0
        assert model.parked().kept == 0
    assert set(rows) == {"single", "a", "b", "c", "d"}
    assert rows["a"].decisions == len([d for d in toy.decisions if d.name == "a"])
    assert rows["c"].waited_s is None and rows["a"].admissions == 1
    assert checkpoint is not None and checkpoint.seq == toy.position
    assert checkpoint.folded and checkpoint.stream_seq == toy.position
    assert unresolved == 0


def test_rows_come_with_aware_times_and_in_order(busy_db: Db) -> None:
    url, _ = busy_db
    with ReadModel(url, "test") as model:
        (group,) = model.groups("ns", "a")
        entries: list[TimelineEntry] = model.entries(group.id)
    assert [e.seq for e in entries] == sorted(e.seq for e in entries)
    assert all(e.at.tzinfo is not None for e in entries)
    lines = timeline.story_lines(entries)
    assert [line.at for line in lines] == sorted(line.at for line in lines)


def test_changes_of_state_come_once_and_in_order(busy_db: Db) -> None:
    url, toy = busy_db
    with ReadModel(url, "test") as model:
        changes = model.changes(0)
        middle = changes[len(changes) // 2].seq
        assert [c for c in changes if c.seq > middle] == model.changes(middle)
        assert model.changes(toy.position) == []
    assert [(c.seq, c.ord) for c in changes] == sorted({(c.seq, c.ord) for c in changes})
    states = [c.state for c in changes if c.name == "single"]
    assert states[0] in ("Queued", "Admitted") and "Finished" in states
    (last,) = [c for c in changes if c.name == "c" and c.state == "Queued"]
    assert change(last).plain.endswith(f"ns/c  Queued  {plain(last.why)}")
    assert last.why.startswith("WaitingForQuota: ")


def test_why_names_who_runs_without_admission(gatelog: Gatelog, tmp_path: Path) -> None:
    """In the ClusterQueue that waits, and in another one of its cohort."""
    toy = Toy(policy=Policy(status_interval_s=5))
    team(toy, "red", 4)
    team(toy, "blue", 4)
    toy.pod("sly", cpu=100, labels=of("red"), gated=False)
    toy.run("sly")
    toy.wait(6)
    toy.pod("r", labels=of("red"))
    toy.pod("b", cpu=5, labels=of("blue"))
    url, writer = written(tmp_path, toy)
    writer.store.close()
    for name in ("ns/r", "ns/b"):
        code, out, _ = gatelog("why", name, "--db", url, "--cluster", "test")
        text = " ".join(out.split())
        assert code == 0 and "held by ns/sly runs without admission, 100 cpu for" in text, text


def test_why_says_what_is_short_where_and_who_could_give_it_back(
    gatelog: Gatelog, tmp_path: Path
) -> None:
    toy = Toy(policy=Policy(status_interval_s=5))
    team(toy, "red", 4, reclaim_within_cohort="LowerPriority")
    team(toy, "blue", 4, borrows=3)
    for number in range(7):
        toy.pod(f"b{number}", labels=of("blue"))
    toy.run(*(f"b{number}" for number in range(7)))
    toy.wait(6)
    toy.pod("more", labels=of("blue"))
    toy.pod("mine", cpu=3, labels=of("red"))
    url, writer = written(tmp_path, toy)
    writer.store.close()

    def why(name: str) -> str:
        code, out, _ = gatelog("why", name, "--db", url, "--cluster", "test")
        assert code == 0
        return " ".join(out.split())

    text = why("ns/more")
    assert "position 1 in ClusterQueue blue" in text
    assert (
        "needs 1 cpu; 0 are free in ClusterQueue blue (flavor f): it may not borrow more; "
        "without borrowing limits it could have 1 Kueue couldn't assign" in text
    )
    assert "cohort lab has 1 of 8 cpu of f left" in text
    text = why("ns/mine")
    assert "needs 3 cpu; 1 is free in Cohort lab (flavor f)" in text
    assert "borrowed ClusterQueue blue borrows 3 of 4 cpu" not in text
    assert "ClusterQueue blue borrows 3 cpu of f, held by ns/b6 1 (priority 0), ns/b5 1" in text
    assert "and 2 more" in text
    assert (
        "reclaim ClusterQueue red holds 0 of 4 cpu of f of its own: it can take back 4 from groups "
        "of a priority below 0 of a ClusterQueue that borrows" in text
    )
    code, out, _ = gatelog("why", "ns/mine", "--json", "--db", url, "--cluster", "test")
    found = json.loads(out)
    assert code == 0 and found["short_of"][0]["limited_by"] == "cohort"
    assert {one["name"] for one in found["pools"]} == {"lab", "red", "blue"}
    assert len(found["borrowers"]) == 7
