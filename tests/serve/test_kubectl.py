"""People with kubectl: tables, selectors, rights, watches, explain, and what the page says of it.

Through the stand-in's front proxy, with the real kubectl where one is installed.
"""

import asyncio
import json
import re
from pathlib import Path

import pytest

from podgroup.model.names import PRIORITY_CLASS
from tests.serve.conftest import World, needs_kubectl, yaml_of

pytestmark = [
    needs_kubectl,
    pytest.mark.timeout(180),
    pytest.mark.retried("it waits by the clock, on two cores shared with other tests"),
]
PAGE = Path(__file__).parents[2] / "docs" / "kubectl.md"
STANDS_FOR = {
    "team-a": "ns",
    "training": "a",
    "tuning": "c",
    "research": "cq",
    "user-queue": "lq",
    "training-0": "a0",
}
"""Names of the page, and those of the story here."""


async def test_a_table_as_kubectl_prints_it(both: World):
    code, out, err = await both.kubectl("get", "podgroups.gatelog.io", "-n", "ns")
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["NAME", "QUEUE", "STATE", "PODS", "WHY", "FOR", "AGE"]
    assert [(row[0], row[2], row[3], row[4]) for row in lines[1:]] == [
        ("a", "Running", "2/3", "<none>"),
        ("b", "Running", "1/3", "<none>"),
        ("c", "Queued", "0/2", "WaitingForQuota"),
        ("d", "Composing", "0/4", "WaitingForPods"),
    ]
    _, wide, _ = await both.kubectl("get", "gpg", "-A", "-o", "wide")
    assert "insufficient unused quota for cpu in flavor f" in wide
    assert re.search(r"^other\s+far\s", wide, re.MULTILINE)
    _, text, _ = await both.kubectl("get", "gpg", "c", "-n", "ns", "-o", "yaml")
    found = yaml_of(text)
    assert found["status"]["waiting"]["reason"] == "WaitingForQuota"
    assert found["metadata"]["uid"].startswith("group-")
    _, text, _ = await both.kubectl("get", "gpg", "-n", "ns", "-o", "json")
    assert [one["metadata"]["name"] for one in json.loads(text)["items"]] == ["a", "b", "c", "d"]


async def test_selectors_choose_the_same_on_both_databases(both: World):
    async def names(*args: str) -> list[str]:
        code, out, err = await both.kubectl("get", "gpg", "-A", "-o", "name", *args)
        assert code == 0, err
        return [line.rpartition("/")[2] for line in out.split()]

    assert await names("-l", "team=red") == ["b"]
    assert await names("-l", "team!=red") == ["a", "c", "d", "far"]
    assert await names("-l", "team in (red,blue)") == ["b"]
    assert await names("-l", "team notin (red)") == ["a", "c", "d", "far"]
    assert await names("-l", "team") == ["b"]
    assert await names("-l", "!team") == ["a", "c", "d", "far"]
    assert await names("-l", "kueue.x-k8s.io/pod-group-name=a") == ["a"]
    assert await names("--field-selector", "status.state=Queued") == ["c"]
    assert await names("--field-selector", "status.state!=Running,spec.queue=lq") == [
        *("c", "d", "far"),
    ]
    # What is gone is there for those who ask for it.
    assert await names("--field-selector", "status.state=Gone") == ["single"]
    assert await names("--field-selector", "metadata.name=single") == ["single"]
    assert await names("--chunk-size", "2") == ["a", "b", "c", "d", "far"]


async def test_each_kind_tells_its_part(both: World):
    async def table(*args: str) -> list[list[str]]:
        code, out, err = await both.kubectl("get", *args)
        assert code == 0, err
        return [re.split(r"\s{2,}", line.strip()) for line in out.splitlines()[1:]]

    history = await table("podgrouphistories", "a", "-n", "ns")
    assert "GroupAdmitted" in [row[2] for row in history]
    of_a_pod = await table("gph", "a0", "-n", "ns")
    assert {row[4] for row in of_a_pod} == {"<none>", "a0"}
    assert len(of_a_pod) < len(history)
    reasons = await table("gpr", "c", "-n", "ns")
    assert [row[1] for row in reasons] == ["WaitingForQuota", "WaitingForPods"]
    (admission,) = await table("gpa", "a", "-n", "ns", "-o", "wide")
    assert admission[1:3] == ["1", "cq"]
    assert "3 cpu of f" in admission
    (place,) = await table("gpp", "-n", "ns")
    assert place[:5] == ["c", "cq", "1", "lq", "1"]
    (queue,) = await table("gqu", "-n", "ns")
    assert queue[:4] == ["lq", "cq", "2", "2"]
    (cluster_queue,) = await table("gcu")
    assert cluster_queue[2:4] == ["2", "2"]
    assert "cpu 6/6 (f)" in cluster_queue
    days = await table("gnu", "-n", "ns")
    assert len(days) == 7
    assert days[1][1:4] == ["cpu", "72.000", "3"]


async def test_explain_describes_every_field(world: World):
    code, out, err = await world.kubectl("explain", "podgroups.gatelog.io.status", "--recursive")
    assert code == 0, err
    for field in ("clusterQueue", "waiting", "pods", "running", "admittedTime"):
        assert field in out
    code, out, _ = await world.kubectl("explain", "podgroups.gatelog.io.spec.queue")
    assert "LocalQueue that the pods name." in out


async def test_everybody_sees_their_own_namespace_and_no_other(world: World):
    for user, own, foreign in (("ann", "ns", "other"), ("bob", "other", "ns")):
        code, out, err = await world.kubectl("get", "gpg", "-n", own, "-o", "name", user=user)
        assert code == 0, err
        assert out.strip()
        for args in (["-n", foreign], ["-A"], ["-n", foreign, "x"]):
            code, out, err = await world.kubectl("get", "gpg", *args, user=user)
            assert code == 1
            assert f'User "{user}" cannot' in err
            assert "Forbidden" in err
    code, _, err = await world.kubectl("get", "gcu", user="ann")
    assert code == 1
    assert "cannot list" in err
    code, _, err = await world.kubectl("get", "gcu", user="lead")
    assert code == 0, err


async def test_a_watch_shows_what_changes(world: World):
    code = asyncio.create_task(
        world.kubectl("get", "gpg", "-n", "ns", "-w", "--request-timeout=8s", wait_s=40)
    )
    await asyncio.sleep(3)
    before = len(world.toy.messages)
    world.toy.pod("new", labels={"team": "blue"})
    world.writer.feed(world.toy.messages[before:])
    _, out, _ = await code
    lines = [line.split() for line in out.splitlines()]
    assert [row[0] for row in lines[:5]] == ["NAME", "a", "b", "c", "d"]
    assert ["new", "lq"] in [row[:2] for row in lines[5:]]


async def test_pending_workloads_as_kueue_serves_them(both: World):
    base = "/apis/visibility.kueue.x-k8s.io/v1beta2"
    code, out, err = await both.kubectl("get", "--raw", f"{base}/clusterqueues/cq/pendingworkloads")
    assert code == 0, err
    assert json.loads(out)["items"] == [
        {
            "metadata": {
                "name": "c",
                "namespace": "ns",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "priority": 0,
            "localQueueName": "lq",
            "positionInClusterQueue": 0,
            "positionInLocalQueue": 0,
        }
    ]
    before = len(both.toy.messages)
    for i in range(3):
        both.toy.pod(f"next{i}", cpu=3)
        both.toy.pod(f"urgent{i}", cpu=6, labels={PRIORITY_CLASS: "low"})
    both.writer.feed(both.toy.messages[before:])
    local = f"{base}/namespaces/ns/localqueues/lq/pendingworkloads?limit=3&offset=1"
    code, out, err = await both.kubectl("get", "--raw", local, user="ann")
    assert code == 0, err
    items = json.loads(out)["items"]
    assert [one["positionInLocalQueue"] for one in items] == [1, 2, 3]
    assert [one["positionInClusterQueue"] for one in items] == [1, 2, 3]
    assert [one["priority"] for one in items] == [1, 0, 0]
    code, out, _ = await both.kubectl(
        "get", "--raw", f"{base}/clusterqueues/cq/pendingworkloads?limit=0"
    )
    assert json.loads(out)["items"] == []
    code, _, err = await both.kubectl("get", "--raw", f"{base}/clusterqueues/no/pendingworkloads")
    assert code == 1
    assert 'clusterqueue.visibility.kueue.x-k8s.io "no" not found' in err
    code, _, err = await both.kubectl("get", "--raw", local.replace("/ns/", "/other/"), user="ann")
    assert "forbidden" in err.lower()


def spoken() -> list[str]:
    blocks = re.findall(r"```console\n(.+?)```", PAGE.read_text(), re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ kubectl ") for line in lines if line.startswith("$ kubectl ")]


async def test_every_command_of_the_page_runs(world: World):
    commands = [one for one in spoken() if not one.startswith("gatelog ")]
    assert len(commands) >= 10
    pattern = re.compile("|".join(rf"\b{k}\b" for k in sorted(STANDS_FOR, key=len, reverse=True)))
    for command in commands:
        told = pattern.sub(lambda found: STANDS_FOR[found[0]], command)
        args = [one.strip("'\"") for one in re.findall(r"'[^']*'|\"[^\"]*\"|\S+", told)]
        if "--watch" in args:
            args.append("--request-timeout=1s")
        code, _, err = await world.kubectl(*args)
        assert code == 0 or "--watch" in args, f"{command}: {err}"
