"""What is printed for `gatelog up` is typed as it is printed, and then it is well again.

On the stand-in, or on the API server that GATELOG_TEST_KUBECONFIG names, with admission by policy
there. Each fault is made as it happens to people; the remedy is read from the table that doctor
prints from, its commands are given to a shell, and within a minute doctor finds nothing that
failed and a new pod gets past its gate. What runs in a cluster is tried in tests/node.
"""

import asyncio
import os
import shlex
import shutil
import signal
import sqlite3
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from gatelog.shell.remedies import Installation, remedy
from simcluster import Settings as SimSettings
from tests.deploy import helm
from tests.deploy.compose import free_port
from tests.support import realcluster
from tests.support.faults.files import locked
from tests.support.faults.processes import disk_kept_full
from tests.support.forking import GATELOG, ran
from tests.support.processes import KUEUE, Api, Child, make_queue, pod, server_of
from tests.support.standin import SimCluster
from tests.support.terminal import MOST_S, Finding, Place, Terminal, failing

pytestmark = [
    pytest.mark.slow("a fault takes its time to be seen"),
    pytest.mark.timeout(240),
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
    pytest.mark.skipif(helm.kubectl() is None, reason="kubectl is what is typed"),
]


class Up(Terminal):
    """A `gatelog up`, the cluster it is for, and a terminal in its directory."""

    at = Installation(how="up")

    def __init__(self, folder: Path, place: Path, way: str) -> None:
        self.folder, self.place, self.way = folder, place, way
        self.state = folder / ".gatelog"
        own = {
            "KUBECONFIG": str(place),
            "GATELOG_STATE_DIR": str(self.state),
            "GATELOG_WEBHOOK_PORT": str(free_port()),
        }
        super().__init__(folder, own, Api(*server_of(place)))
        self.pods = 0
        self.space = f"tried-{uuid.uuid4().hex[:6]}"
        self.child: Child

    def start(self, line: str) -> None:
        """Type the line that runs it."""
        words = shlex.split(line)
        assert words[:2] == ["gatelog", "up"], line
        self.child = Child(
            f"up-{time.monotonic_ns()}", [GATELOG, *words[1:]], self.env, self.folder
        )
        self.child.start()
        self.child.wait_for(r'"event": "ready"|is ready|waits for pods', MOST_S)

    def doctor(self, place: Place) -> list[Finding]:
        """Return what fails; a process that is forked has gatelog loaded."""
        return failing(ran([GATELOG, "doctor", "--json"], self.env, self.folder).stdout)

    def server(self) -> int:
        """The process of the embedded nats-server."""
        for status in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = status.read_bytes().split(b"\0")
                if b"nats-server" in words[0] and str(self.state).encode() in b" ".join(words):
                    return int(status.parent.name)
        raise ProcessLookupError("no nats-server of this gatelog up runs")

    async def pod(self, group: str = "", total: int = 0) -> str:
        self.pods += 1
        name, script = f"p{self.pods}", "run=forever" if group else "run=0.1s,succeed"
        body = pod(name, group, total, script=script)
        await self.api.call("POST", f"/api/v1/namespaces/{self.space}/pods", body)
        return name

    async def past_gate(self, name: str) -> bool:
        found = (await self.api.pods(self.space)).get(name)
        return found is None or not found["spec"].get("schedulingGates")

    async def well(self, since: float) -> None:
        """Wait until doctor finds nothing and a new pod gets past its gate, within MOST_S."""
        try:
            await self.until_nothing_fails()
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.child.tail(8)}") from error
        name = await self.pod()
        await self.api.until(f"{name} past its gate", lambda: self.past_gate(name), MOST_S)
        assert time.monotonic() - since < MOST_S


@pytest.fixture
async def up(tmp_path: Path) -> AsyncIterator[Up]:
    real = realcluster.kubeconfig()
    sim: SimCluster | None = None
    if real is None:
        # With TLS, since kubectl gives its token to no server without.
        settings = SimSettings(kubelet="scripted", kueue_kinds=False)
        sim = await SimCluster(settings, front_proxy=True).__aenter__()
        real = Path(sim.kubeconfig(tmp_path / "kubeconfig"))
    one = Up(tmp_path, real, "policy" if sim is None else "webhook")
    try:
        await asyncio.to_thread(one.start, f"gatelog up --install {one.way}")
        await make_queue(one.api, one.space)
        await one.well(time.monotonic())
        yield one
    finally:
        if sim is None:
            await _leave(one)
        await asyncio.to_thread(one.child.stop)
        await one.api.http.close()
        if sim is not None:
            await sim.__aexit__(None, None, None)


async def _leave(up: Up) -> None:
    await up.api.call("DELETE", f"/api/v1/namespaces/{up.space}", ok=())
    await up.api.call("DELETE", f"{KUEUE}/clusterqueues/cq-{up.space}", ok=())

    async def gone() -> bool:
        return (await up.api.call("GET", f"/api/v1/namespaces/{up.space}", ok=()))[
            "kind"
        ] == "Status"

    with suppress(AssertionError):
        await up.api.until("the namespace is gone", gone, 20)
    await realcluster.forget_admission(up.api)


async def test_objects_that_are_gone(up: Up) -> None:
    await realcluster.forget_admission(up.api)
    await up.until_printed("objects")
    lines = up.ways("objects")
    (line,) = [one for one in lines if one.endswith(up.way)]
    began = time.monotonic()
    await asyncio.to_thread(up.child.stop)
    await asyncio.to_thread(up.start, line)
    await up.well(began)


async def test_gatelog_up_is_away(up: Up) -> None:
    await asyncio.to_thread(up.child.kill)
    name = await up.pod() if up.way == "policy" else ""
    (line,) = up.ways("part away")
    began = time.monotonic()
    await asyncio.to_thread(up.start, line)
    await up.well(began)
    assert not name or await up.past_gate(name)


async def test_the_log_has_no_streams(up: Up) -> None:
    await asyncio.to_thread(up.child.stop)
    (folder,) = (up.state / "nats").glob("**/streams/EVENTS")
    shutil.rmtree(folder)
    (line,) = up.ways("streams")
    began = time.monotonic()
    await asyncio.to_thread(up.type, line)
    await asyncio.to_thread(up.start, "gatelog up")
    await up.well(began)


async def test_the_read_model_has_no_schema(up: Up) -> None:
    await asyncio.to_thread(up.child.stop)
    file = up.state / "read-model.sqlite3"
    for one in up.state.glob("read-model.sqlite3*"):
        one.unlink()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE other (x)")
        connection.commit()
    await up.until_printed("schema")
    (line,) = up.ways("schema")
    began = time.monotonic()
    await asyncio.to_thread(up.type, line)
    await asyncio.to_thread(up.start, "gatelog up")
    await up.well(began)


async def test_the_read_model_is_locked(up: Up) -> None:
    with locked(up.state / "read-model.sqlite3"):
        name = await up.pod()
        await up.until_printed("database", detail="none can write")
        assert not await up.past_gate(name)
    began = time.monotonic()
    assert not up.ways("database"), "it is tried again by itself"
    await up.well(began)


async def test_the_disk_of_the_log_is_full(up: Up) -> None:
    async with disk_kept_full(up.server, look_s=0.1):
        await up.pod()
        await up.until_printed("nats full")
        assert not up.ways("nats full"), "it is restarted by itself"
        began = time.monotonic()
    await up.well(began)


async def test_the_logs_server_does_not_answer(up: Up) -> None:
    pid = up.server()
    os.kill(pid, signal.SIGSTOP)
    try:
        await up.until_printed("nats away")
        assert remedy("nats away", up.at) == "start gatelog up again"
        began = time.monotonic()
        await asyncio.to_thread(up.child.stop)
        await asyncio.to_thread(up.start, "gatelog up")
        await up.well(began)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def test_a_group_whose_pods_were_deleted_and_a_queue_that_was_stopped(up: Up) -> None:
    names = [await up.pod("train", 2) for _ in range(2)]

    async def running() -> bool:
        found = await up.api.pods(up.space)
        return all(found[one]["status"].get("phase") == "Running" for one in names)

    async def gone() -> bool:
        return not set(names) & set(await up.api.pods(up.space))

    child: Any = None
    if realcluster.kubeconfig() is not None:
        words = ["python", "-m", "tests.support.kubelet", str(up.place)]
        child = await asyncio.create_subprocess_exec(*words, env=up.env | {"PYTHONPATH": "."})
    try:
        await up.api.until("they run", running)
        for one in names:
            await up.api.call("DELETE", f"/api/v1/namespaces/{up.space}/pods/{one}")
        (line,) = up.ways("deleted group")
        began = time.monotonic()
        await asyncio.to_thread(
            up.type, line.replace("NAMESPACE", up.space).replace("GROUP", "train")
        )
        await up.api.until("they are gone", gone, MOST_S)
        await up.well(began)
    finally:
        if child is not None:
            child.terminate()
    queue = f"cq-{up.space}"
    await asyncio.to_thread(up.type, f"gatelog stop clusterqueue {queue}")
    name = await up.pod()
    await asyncio.sleep(2)
    assert not await up.past_gate(name)
    line, _ = up.ways("queue stopped")
    began = time.monotonic()
    await asyncio.to_thread(up.type, line.replace("QUEUE", queue))
    await up.api.until("the pod starts", lambda: up.past_gate(name), MOST_S)
    await up.well(began)
