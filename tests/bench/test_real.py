"""`python -m bench real` on the stand-in: it measures, bears ended watches, and leaves nothing."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.cluster import GATE, UNGATED, PodWatch, ungate
from bench.elsewhere import Cluster, Unusable, trust
from bench.real import Shape, Table, body, pids_of, requests_of, shapes
from simcluster.settings import Settings
from tests.support.processes import Simulator
from tests.support.stack import Stack, running_stack
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

QUEUES = ("clusterqueues", "resourceflavors", "localqueues", "workloads")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("real")) as one:
        yield one


def bench(simulator: Simulator, *options: str) -> "subprocess.CompletedProcess[str]":
    login = ("--server", simulator.url, "--token", simulator.token, "--insecure")
    return subprocess.run(
        [sys.executable, "-m", "bench", "real", *login, *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


async def left(stack: Stack) -> list[str]:
    """What of a run is still there."""
    async with stack.api() as api:
        paths = ["/api/v1/namespaces", "/api/v1/pods"]
        paths += [f"/apis/kueue.x-k8s.io/v1beta2/{kind}" for kind in QUEUES]
        found: list[Any] = []
        for path in paths:
            found += (await api.call("GET", path))["items"]
        metas = [one["metadata"] for one in found]
        return [m["name"] for m in metas if "gatelog-bench" in m["name"] + m.get("namespace", "")]


@pytest.mark.slow("it measures a whole stack")
async def test_every_shape_is_measured_beside_bare_pods_and_nothing_is_left(stack: Stack) -> None:
    assert stack.up.process is not None
    done = bench(
        stack.simulator,
        *("--singles", "4", "--groups", "3x2,5", "--rounds", "2"),
        *("--pids", f"gatelog={stack.up.process.pid}"),
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    figures = {line["name"]: line for line in lines}
    assert set(figures) == {
        f"real.{shape}.{what}"
        for shape in ("singles_4", "groups_of_3", "group_of_5")
        for what in ("wall", "cpu.gatelog")
    }
    for name, figure in figures.items():
        assert figure["value"] > 0 or name.endswith("cpu.gatelog")
        assert figure["samples"] == 2
        assert figure["machine"] and figure["at"]
        if name.endswith("wall"):
            assert figure["limit"] > 0
            workloads = {"singles_4": 4, "groups_of_3": 2, "group_of_5": 1}
            assert f"pods, {workloads[name.split('.')[1]]} Workloads;" in figure["note"]
    assert await left(stack) == []


@pytest.mark.slow("it measures a whole stack")
async def test_a_run_that_is_told_to_stop_leaves_nothing(stack: Stack) -> None:
    argv = [sys.executable, "-m", "bench", "real", "--server", stack.simulator.url, "--insecure"]
    argv += ["--token", stack.simulator.token, "--singles", "3000", "--groups", ""]
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 30
    while not await left(stack):
        assert time.monotonic() < end
        await asyncio.sleep(0.05)
    await asyncio.sleep(3)  # it creates pods by now
    child.terminate()
    _, said = await asyncio.to_thread(child.communicate, timeout=90)
    assert child.returncode == 130, said
    assert "nothing is left behind" in said
    assert await left(stack) == []


@pytest.mark.slow("it waits a quarter of a minute for gates that nobody removes")
def test_a_cluster_without_gatelog_is_told_and_left_as_it_was(tmp_path: Path) -> None:
    simulator = Simulator(tmp_path)
    simulator.start()
    try:
        done = bench(simulator, "--singles", "2", "--groups", "")
        again = bench(simulator, "--singles", "0", "--groups", "", "--token", "wrong")
    finally:
        simulator.stop()
    assert done.returncode == again.returncode == 2
    assert "without gate kueue.x-k8s.io/admission" in done.stderr
    assert "left behind" not in done.stderr
    assert "401" in again.stderr
    assert "left behind" not in again.stderr


async def test_a_watch_goes_on_where_it_was_when_the_server_ends_it(tmp_path: Path) -> None:
    async with SimCluster(Settings(scheduler=False)) as server:
        async with Cluster(server.url, server.token, trust(insecure=True)) as cluster:
            await cluster.claim()
            async with PodWatch(cluster, cluster.namespace) as watch:
                for number in range(6):
                    name = f"p{number}"
                    await cluster.create(body(name, cluster.queue, "", 0, bare=True))
                    if number == 2:
                        server.faults.drop_watches()
                    elif number == 4:
                        server.faults.drop_watches(abrupt=True)
                        server.compact()
                    await ungate(cluster, cluster.namespace, name, GATE)
                    await watch.until(UNGATED, [name], 10)
                assert sorted(watch.seen[UNGATED]) == [f"p{number}" for number in range(6)]
                assert watch.opened >= 3
                await cluster.create(body("stays", cluster.queue, "", 0, bare=True))
                with pytest.raises(Unusable, match="1 of 1 pods still have their gate"):
                    await Table(cluster, {}, 1, 0.1)._ungated(watch, ["stays"])
            await cluster.release()
        assert not server.objects("", "pods")
        assert [n["metadata"]["name"] for n in server.objects("", "namespaces")].count(
            cluster.namespace
        ) == 0


@pytest.mark.slow("it measures a whole stack")
async def test_finalizers_that_nobody_takes_off_do_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bench.elsewhere.LET_GO_S", 0.5)
    async with SimCluster(Settings(scheduler=False)) as server:
        async with Cluster(server.url, server.token, trust(insecure=True)) as cluster:
            await cluster.claim()
            held = body("held", cluster.queue, "", 0, bare=True)
            held["metadata"]["finalizers"] = ["example.com/held"]
            await cluster.create(held)
            await cluster.release()
        assert not server.objects("", "pods")


def test_what_is_asked_for_is_read_or_refused() -> None:
    assert shapes(500, "10x100, 2000") == [Shape(0, 500), Shape(10, 100), Shape(2000, 1)]
    assert [s.name for s in shapes(5, "10x3,7")] == ["singles_5", "groups_of_10", "group_of_7"]
    assert pids_of(f"api={os.getpid()}") == {"api": os.getpid()}
    for singles, groups in ((0, "x"), (0, "0x4"), (0, "10x0"), (10_001, ""), (0, "200x100")):
        with pytest.raises(Unusable, match=r"--groups|at most"):
            shapes(singles, groups)
    for text in ("api", "api=x", "=1", "api=999999999"):
        with pytest.raises(Unusable, match="--pids"):
            pids_of(text)
    with pytest.raises(Unusable, match=r"nowhere\.pem"):
        trust(ca="/nowhere.pem")


def test_bare_pods_are_seen_by_no_queue() -> None:
    bare = body("p", "q", "g", 3, bare=True)
    assert "labels" not in bare["metadata"]
    assert bare["spec"]["schedulingGates"] == [{"name": GATE}]


def test_requests_are_counted_without_lists_watches_and_leases() -> None:
    text = "\n".join(
        f'apiserver_request_total{{code="200",{labels}}} {count}'
        for labels, count in (
            ('resource="pods",subresource="",verb="POST"', "5"),
            ('resource="pods",subresource="binding",verb="POST"', "4"),
            ('resource="pods",subresource="",verb="LIST"', "9"),
            ('resource="leases",subresource="",verb="PUT"', "9"),
            ('resource="",subresource="/healthz",verb="GET"', "9"),
            ('resource="workloads",subresource="status",verb="PATCH"', "1.2e+03"),
        )
    )
    expected = {"POST pods": 5, "POST pods/binding": 4, "PATCH workloads/status": 1200}
    assert requests_of(text) == Counter(expected)
