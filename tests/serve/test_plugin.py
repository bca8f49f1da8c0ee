"""`kubectl gatelog`: the same answers without database and log, with the rights of who asks."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gatelog.viacluster import app
from gatelog.viacluster.apiserver import destination
from tests.serve.conftest import World, needs_kubectl, yaml_of
from tests.serve.test_kubectl import STANDS_FOR, spoken
from tests.trial.test_answers import job

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

Ask = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
def gatelog(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Ask:
    """Run the plugin in a thread: (exit code, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "140")

    async def ask(*args: str, user: str = "ann") -> tuple[int, str, str]:
        capsys.readouterr()
        told = [*args, "--kubeconfig", str(world.kubeconfig(user))]
        code = await asyncio.to_thread(app.run, told)
        said = capsys.readouterr()
        return code, said.out, said.err

    return ask


async def test_why_tells_what_waits_and_what_it_takes(gatelog: Ask):
    code, out, err = await gatelog("why", "-n", "ns")
    assert code == 0, err
    rows = [re.split(r"\s{3,}", line) for line in out.splitlines()]
    assert rows[0][:5] == ["NAME", "STATE", "QUEUE", "POSITION", "WHY"]
    assert [row[:5] for row in rows[1:]] == [
        ["c", "Queued", "lq", "1", "WaitingForQuota"],
        ["d", "Composing", "lq", "<none>", "WaitingForPods"],
    ]
    _, out, _ = await gatelog("why", "c", "-n", "ns")
    assert (await gatelog("why", "ns/c"))[1] == out
    assert "waits for  WaitingForQuota" in out
    assert "insufficient unused quota for cpu in flavor f" in out
    assert "1 in ClusterQueue cq" in out
    _, out, _ = await gatelog("why", "a0", "-n", "ns")
    assert re.match(r"ns/a +Running", out)
    assert "by cq, and holds it" in out
    _, out, _ = await gatelog("why", "c", "-n", "ns", "-o", "yaml")
    assert yaml_of(out)["position"]["position"]["clusterQueue"] == "cq"
    code, out, _ = await gatelog("why", "-n", "ns", "-l", "team=red")
    assert (code, out) == (0, "")


async def test_history_is_told_as_the_command_line_tells_it(gatelog: Ask, world: World):
    from gatelog.readmodel import timeline
    from gatelog.readmodel.model import ReadModel

    code, out, err = await gatelog("history", "a", "-n", "ns")
    assert code == 0, err
    with ReadModel(world.url, "test") as model:
        (group,) = model.groups("ns", "a", 1)
        told = timeline.story_lines(model.entries(group.id))
    for line in told:
        assert line.text().split("\n")[0][:20] in out
    assert len(out.splitlines()) >= len(told)
    assert (await gatelog("history", "ns/a", "-n", "ns"))[1] == out
    code, _, err = await gatelog("history", "ns/a", "-n", "other")
    assert code == 2 and "one namespace" in err
    _, wide, _ = await gatelog("history", "a", "-n", "ns", "-o", "wide")
    assert len(wide.splitlines()) > len(out.splitlines())
    _, text, _ = await gatelog("history", "a", "-n", "ns", "-o", "json")
    assert json.loads(text)["kind"] == "PodGroupHistory"


async def test_queues_usage_and_top_by_rights(gatelog: Ask):
    _, out, _ = await gatelog("queue", "-n", "ns")
    assert re.search(r"^lq\s+cq\s+2\s+2\s", out, re.MULTILINE)
    _, out, _ = await gatelog("queue", "lq", "-n", "ns")
    assert re.search(r"^1\s+c\s+0\s", out, re.MULTILINE)
    _, out, _ = await gatelog("usage", "-n", "ns")
    assert len(out.splitlines()) == 8
    _, out, _ = await gatelog("top", "-n", "ns")
    assert out.startswith("NAME")
    _, out, _ = await gatelog("top", user="lead")
    assert re.search(r"^cq\s+2\s+2\s.*cpu 6/6 \(f\)", out, re.MULTILINE)


async def test_refusals_are_the_servers_own_sentences(gatelog: Ask, world: World, tmp_path: Path):
    code, _, err = await gatelog("why", "-n", "other")
    assert code == 1
    assert 'error: podgroups.gatelog.io is forbidden: User "ann" cannot list' in err
    code, _, err = await gatelog("history", "nobody", "-n", "ns")
    assert (code, "not found" in err) == (1, True)
    code, _, err = await gatelog("why", "-n", "ns", "-A")
    assert (code, "exclude each other" in err) == (2, True)
    code, _, err = await gatelog("why", "c", "-A")
    assert (code, "-n NAMESPACE" in err) == (2, True)
    code, _, err = await gatelog("why", "-o", "html")
    assert code == 2
    service = "apiservices.apiregistration.k8s.io/v1"
    await world.client().delete(service, "v1beta1.gatelog.io")
    code, _, err = await gatelog("why", "-n", "ns")
    assert "does not serve gatelog.io/v1beta1" in err


async def test_a_watch_prints_changes_and_ends_in_time(gatelog: Ask, world: World):
    task = asyncio.ensure_future(gatelog("watch", "-n", "ns", "--timeout", "6"))
    await asyncio.sleep(2)
    before = len(world.toy.messages)
    world.toy.pod("new")
    world.writer.feed(world.toy.messages[before:])
    code, out, err = await task
    assert code == 0, err
    assert "ns/a  Running" in out
    assert "ns/new  Queued" in out


def test_the_namespace_is_that_of_the_context(tmp_path: Path):
    file = tmp_path / "config"
    file.write_text(
        json.dumps(
            {
                "current-context": "one",
                "contexts": [
                    {"name": "one", "context": {"namespace": "team-a"}},
                    {"name": "two", "context": {}},
                ],
            }
        )
    )
    assert destination(str(file), "", "", False).namespace == "team-a"
    assert destination(str(file), "two", "", False).namespace == "default"
    assert destination(str(file), "", "x", False).namespace == "x"
    assert destination(str(file), "", "", True).namespace == ""


@needs_kubectl
async def test_kubectl_finds_the_plugin(world: World):
    code, out, err = await world.kubectl("gatelog", "why", "c", "-n", "ns", user="ann")
    assert code == 0, err
    assert "WaitingForQuota" in out


async def test_every_command_of_the_page_that_is_the_plugins_runs(gatelog: Ask, tmp_path: Path):
    (tmp_path / "job.yaml").write_text(job(1, queue="", group=False))
    commands = [one.removeprefix("gatelog ") for one in spoken() if one.startswith("gatelog ")]
    assert {one.split()[0] for one in commands} == {one.name for one in app.app.registered_commands}
    pattern = re.compile("|".join(rf"\b{k}\b" for k in sorted(STANDS_FOR, key=len, reverse=True)))
    for command in commands:
        told = pattern.sub(lambda found: STANDS_FOR[found[0]], command)
        told = told.replace("job.yaml", str(tmp_path / "job.yaml"))
        args = re.sub(r"--timeout \d+", "--timeout 1", told).split()
        code, _, err = await gatelog(*args, user="")
        assert code == 0, f"{command}: {err}"
