"""`gatelog up` as a child process on the stand-in cluster."""

import asyncio
import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podgroup.model.objects import WATCHED_KINDS
from tests.support.forking import GATELOG, ran
from tests.support.processes import Api, Child, Simulator, make_queue, pod

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

NS = "/api/v1/namespaces/ns/pods"
GATE = "kueue.x-k8s.io/admission"


@pytest.fixture
def simulator(tmp_path: Path) -> Iterator[Simulator]:
    one = Simulator(tmp_path, "--kubelet", "scripted", "--nodes", "2", "--no-kueue")
    one.start()
    yield one
    one.stop()


def up(folder: Path, simulator: Simulator, *args: str, name: str = "up") -> Child:
    argv = [GATELOG, "up", "--state-dir", str(folder / "state"), *args]
    return Child(name, argv, {"KUBECONFIG": str(simulator.kubeconfig)}, folder)


def ask(folder: Path, simulator: Simulator, *args: str) -> subprocess.CompletedProcess[str]:
    env = {"KUBECONFIG": str(simulator.kubeconfig), "PATH": "/usr/bin:/bin", "COLUMNS": "100"}
    return ran([GATELOG, *args, "--state-dir", str(folder / "state")], env, folder)


def events(child: Child, name: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in child.text().splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("event") == name]


async def phase(api: Api, name: str, wanted: str) -> None:
    async def check() -> bool:
        found = (await api.pods("ns")).get(name)
        return found is not None and found["status"].get("phase") == wanted

    await api.until(f"{name} {wanted}", check)


async def test_pods_wait_at_the_gate_run_and_finish_across_a_kill(
    tmp_path: Path, simulator: Simulator
) -> None:
    child = up(tmp_path, simulator, "--install", "webhook", "--set", "webhook.port=0")
    child.start()
    try:
        child.wait_for('"event": "ready"')
        (ready,) = events(child, "ready")
        assert ready["kinds"] == len(WATCHED_KINDS) and ready["missing"] == []
        assert ready["database"].endswith("read-model.sqlite3")
        assert len(events(child, "installed")) == 14  # eight kinds, three fences and their bindings
        async with Api(simulator.url, simulator.token) as api:
            await make_queue(api, "ns", cpu="4")
            await api.call("POST", NS, pod("hog", cpu="4", script="run=forever"))
            await phase(api, "hog", "Running")
            for number in (0, 1):
                script = "run=0.2s,succeed"
                await api.call("POST", NS, pod(f"p{number}", "g", 2, cpu="2", script=script))
            pods = await api.pods("ns")
            assert {"name": GATE} in pods["p0"]["spec"]["schedulingGates"]

            child.kill()
            child.start()
            child.wait_for(r'"event": "ready"(?s:.*)"event": "ready"')
            why = ask(tmp_path, simulator, "why", "ns/g")
            assert why.returncode == 0 and "WaitingForQuota" in why.stdout, why
            assert "held by" in why.stdout and "ns/hog 4 cpu" in why.stdout

            await api.call("DELETE", f"{NS}/hog")
            await api.call("POST", NS, pod("late", cpu="1", script="run=0.1s,succeed"))
            for name in ("p0", "p1", "late"):
                await phase(api, name, "Succeeded")

            async def released() -> bool:
                left = await api.pods("ns")
                return all(not left[n]["metadata"].get("finalizers") for n in ("p0", "p1", "late"))

            await api.until("finalizers gone", released)
        examined = ask(tmp_path, simulator, "doctor")
        assert examined.returncode == 0, examined.stdout + examined.stderr
        assert "all is well" in examined.stdout and "by webhook" in examined.stdout
        child.stop()
        assert child.process is not None and child.process.returncode == 0, child.tail()
        assert "webhook stays registered" in events(child, "webhook_stays")[0]["message"]
        history = ask(tmp_path, simulator, "history", "ns/g")
        assert "finished: Succeeded" in history.stdout and "admit:" in history.stdout
        refused = ask(tmp_path, simulator, "doctor")
        assert refused.returncode == 1 and "nothing listens there" in " ".join(
            refused.stdout.split()
        )
    finally:
        child.stop()
        print(child.tail(60))


def test_two_on_one_state_directory_are_refused_and_a_stop_lets_go(
    tmp_path: Path, simulator: Simulator
) -> None:
    first = up(tmp_path, simulator)
    first.start()
    try:
        first.wait_for('"event": "ready"')
        (missing,) = events(first, "kinds_missing")
        assert "clusterqueues" in missing["message"] and "--install" in missing["message"]
        second = ask(tmp_path, simulator, "up")
        assert second.returncode == 1
        assert first.process is not None
        assert f"(process {first.process.pid})" in second.stderr
        assert second.stderr.startswith("gatelog: another gatelog runs on the state directory")
        first._end(signal.SIGINT)
        assert first.process.returncode == 0, first.tail()
        first.start()
        first.wait_for(r'"event": "ready"(?s:.*)"event": "ready"')
    finally:
        first.stop()
        print(first.tail(60))


async def test_a_person_who_watches_sees_what_happens(tmp_path: Path, simulator: Simulator) -> None:
    """On a terminal: steps, then a line per change of a group's state; no log lines."""
    master, slave = pty.openpty()
    argv = [GATELOG, "up", "--state-dir", "state", "--install", "webhook"]
    child = subprocess.Popen(
        [*argv, "--set", "webhook.port=0"],
        env={"KUBECONFIG": str(simulator.kubeconfig), "PATH": "/usr/bin:/bin", "COLUMNS": "100"},
        cwd=tmp_path,
        stderr=slave,
        stdin=subprocess.DEVNULL,
    )
    os.close(slave)
    seen: list[str] = []

    async def until(words: str) -> None:
        async with asyncio.timeout(30):
            while words not in "".join(seen):
                seen.append((await asyncio.to_thread(os.read, master, 65536)).decode())

    try:
        await until(f"ready: watching {len(WATCHED_KINDS)} kinds")
        async with Api(simulator.url, simulator.token) as api:
            await make_queue(api, "ns", cpu="4")
            await api.call("POST", NS, pod("a", "g", 2))
            await until("Composing")
            await api.call("POST", NS, pod("b", "g", 2))
            await until("Running")
        child.send_signal(signal.SIGINT)
        await until("the webhook stays registered")
        assert await asyncio.to_thread(child.wait, 20) == 0
        text = "".join(seen)
        assert "read model in state/read-model.sqlite3" in text
        assert "gatelog history NAMESPACE/NAME --state-dir state" in text
        assert "WaitingForPods" in text and '"level"' not in text and "Traceback" not in text
    finally:
        child.kill()
        child.wait()
        os.close(master)


def test_no_cluster_and_a_part_that_fails_end_with_a_sentence(
    tmp_path: Path, simulator: Simulator
) -> None:
    gone = tmp_path / "gone.kubeconfig"
    gone.write_text(simulator.kubeconfig.read_text().replace(simulator.url, "http://127.0.0.1:9"))
    argv = ("up", "--kubeconfig", str(gone))
    refused = ask(tmp_path, simulator, *argv)
    assert refused.returncode == 1
    last = refused.stderr.splitlines()[-1]
    assert last.startswith("gatelog: GET /version") and "Traceback" not in refused.stderr
    taken = ("up", "--install", "webhook", "--set", f"webhook.port={simulator.url.rsplit(':')[-1]}")
    failed = ask(tmp_path, simulator, *taken)
    assert failed.returncode == 1
    assert "address already in use" in failed.stderr.splitlines()[-1]
    assert "Traceback" not in failed.stderr
