"""A group that holds quota while its pods have failed says so wherever it is shown (U2)."""

import json
import re
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from gatelog import cli
from gatelog.examine import stuck
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.explain import explain, lines
from gatelog.readmodel.model import ReadModel
from gatelog.serve.api import finding
from gatelog.serve.console import group as group_page
from gatelog.serve.console import queue as queue_page
from gatelog.serve.console.view import PageView
from gatelog.viacluster import answers
from podgroup.model.commands import ReportPod
from projector.schema.pending import IDLE_REASON
from tests.projector.support import NOW, Writer
from tests.support.toy import Toy

IDLE = "holds quota and runs nothing: 2 pods ended without success, to be replaced"


def test_it_says_so_everywhere_and_no_longer_once_it_has_a_replacement(url: str) -> None:
    toy, writer = Toy(cpu=4), Writer(url)
    for index in range(2):
        toy.pod(f"p{index}", "gang", 2)
    toy.run("p0", "p1")
    toy.end("p0", "p1", phase="Failed")
    toy.wait(6)
    writer.feed(toy.messages)
    reports = [d.command for d in toy.decisions if isinstance(d.command, ReportPod)]
    assert {(one.target.name, one.reason, one.message) for one in reports} == {
        (name, IDLE_REASON, IDLE) for name in ("p0", "p1")
    }
    with ReadModel(url, "test") as model:
        (group,) = model.groups("ns", "gang")
        assert (group.state, group.reason, group.message) == ("Admitted", IDLE_REASON, IDLE)
        life = finding.life(model, "ns", "gang")
        assert life is not None
        assert finding.podgroup(life).status.reason == IDLE_REASON
        said = [one.text for one in lines(explain(model, group, NOW), NOW)]
        assert said[0] == IDLE and "new pods of the same shape" in " ".join(said)
        plugin = answers.why(
            msgspec.json.decode(msgspec.json.encode(finding.podgroup(life))),
            msgspec.json.decode(msgspec.json.encode(finding.explained(model, life))),
            None,
        )
        seen = PageView(at=None, query={}, now=NOW)
        queue = str(queue_page.queue(Asked(model), seen, "cq").body)
        page = str(group_page.group(Asked(model), seen, "ns", "gang").body)
        doctor = next(one for one in stuck.examine(model, NOW) if one.what == "idle quota")
        for text in (plugin, queue, page):
            assert IDLE in text
        assert "ns/gang in ClusterQueue cq for" in doctor.detail
        (row,) = model.dicts("SELECT * FROM v_idle_holders", {})
        assert row["resources"] == {"f": {"cpu": 2000}} and row["idle_seconds"] > 0
        before = len(toy.messages)
        toy.pod("p2", "gang", 2)
        writer.feed(toy.messages[before:])
        assert model.idle() == [] and model.groups("ns", "gang")[0].reason != IDLE_REASON


@pytest.mark.slow_with("postgresql", "the same on the other database; make test plays it on one")
def test_idle_holders_are_listed_with_what_they_cost(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """U2. Two cores for a day at 0.04 an hour."""
    toy = Toy(cpu=4)
    for index in range(2):
        toy.pod(f"p{index}", "gang", 2)
    toy.run("p0", "p1")
    toy.end("p0", "p1", phase="Failed")
    toy.now += timedelta(days=1)
    toy.pod("later", cpu=1)
    Writer(url).feed(toy.messages)
    rates = tmp_path / "rates.toml"
    rates.write_text("[rates]\ncpu = 0.04\n")
    words = ["usage", "--idle", "--rates", str(rates), "--db", url, "--cluster", "test"]
    assert cli.run([*words, "-o", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["namespace"], row["name"], row["resource"]) == ("ns", "gang", "cpu")
    assert row["holds"] == 2 and row["hours"] > 24
    assert abs(row["cost"] - 0.04 * row["hours"]) < 0.001
    assert cli.run(words) == 0
    assert "COST" in capsys.readouterr().out
    rates.write_text("[rates]\nmemory = 0.005\n")
    assert cli.run(words) == 0
    assert "rates.toml has no rate for cpu in f: counted as free" in capsys.readouterr().err
    for period in ("--since", "--until"):
        assert cli.run([*words, period, "1d"]) == 2
        assert "--idle goes without --since and --until" in capsys.readouterr().err


def test_the_printed_command_ends_a_group_whose_every_pod_was_deleted(url: str) -> None:
    """Pods stayed Terminating with their quota, and nothing named what ends it."""
    toy, writer = Toy(cpu=4), Writer(url)
    for index in range(2):
        toy.pod(f"p{index}", "gang", 2)
    toy.run("p0", "p1")
    for name in ("p0", "p1"):
        toy.delete(name)
    toy.end("p0", "p1", phase="Failed")
    toy.wait(60)
    writer.feed(toy.messages)
    assert toy.group("gang").quota.holding is not None and {"p0", "p1"} <= toy.there()
    with ReadModel(url, "test") as model:
        (group,) = model.groups("ns", "gang")
        said = " ".join(one.text for one in lines(explain(model, group, NOW), NOW))
        doctor = next(one for one in stuck.examine(model, NOW) if one.what == "idle quota")
    for text in (said, doctor.remedy):
        printed = re.search(r"kubectl -n (\S+) delete workload (\w+)", text)
        assert printed is not None and printed.groups() == ("ns", group.workload_name)
    toy.delete_workload(group.workload_name)
    toy.wait(1)
    assert not {"p0", "p1"} & toy.there()
    assert "gang" not in {one.name for one in toy.world.groups.values() if one.quota.holding}
