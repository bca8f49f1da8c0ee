"""gatelog up on the stand-in, as one thing to test against: HTTP, NATS, SQL and the command line.

A `Stack` is two child processes: the stand-in with its scripted kubelet, and `gatelog up --install`
(webhook, unless told) with everything embedded. What tests see of it is what users and operators
see: answers of the API server, the read model by SQL, the streams, and what the commands print.

Invariant: nothing here reaches into a process; both can be ended and started again.
"""

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from podgroup.runtime.embedded import running
from podgroup.runtime.jetstream import Bus, connect
from tests.support.processes import GATELOG, Api, Child, Simulator, pod

START_S = 60.0


class Stack:
    """The stand-in and `gatelog up` in `folder`."""

    def __init__(self, folder: Path, *simulator: str, install: str = "webhook") -> None:
        self.good = 0
        self.state = folder / "state"
        self.simulator = Simulator(folder, "--kubelet", "scripted", *simulator)
        self.env = {
            "KUBECONFIG": str(self.simulator.kubeconfig),
            "GATELOG_STATE_DIR": str(self.state),
            "GATELOG_WEBHOOK_PORT": "0",
            "GATELOG_LOG_FORMAT": "json",
        }
        self.up = Child("up", [GATELOG, "up", "--install", install], self.env, folder)

    def start(self) -> None:
        if not self.simulator.running:
            self.simulator.start()
        self.up.start()
        self.up.wait_for(rf'(?s)(?:"event": "ready".*){{{self.up.starts}}}', START_S)

    def stop(self) -> None:
        self.up.stop()
        self.simulator.stop()

    def api(self) -> Api:
        return Api(self.simulator.url, self.simulator.token)

    def command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a gatelog command; what it printed is in `stdout` and `stderr`."""
        return subprocess.run(
            [GATELOG, *words],
            env={**self.up.env, **self.env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def doctor(self) -> dict[str, dict[str, str]]:
        """What `gatelog doctor` says, by what it looked at."""
        done = self.command("doctor", "--json")
        return {found["what"]: found for found in json.loads(done.stdout)}

    def sql(self, query: str, *values: object) -> list[dict[str, Any]]:
        """Rows of the read model, read by another process as anybody could."""
        place = f"file:{self.state / 'read-model.sqlite3'}?mode=ro"
        with closing(sqlite3.connect(place, uri=True, timeout=10)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query, values)]

    async def bus(self) -> Bus:
        """A connection to the embedded server, as `gatelog doctor` makes one."""
        settings = running(self.state / "nats")
        assert settings is not None, self.up.tail()
        return await connect(settings, "test", deadline_s=20)

    def log_lines(self, event: str) -> list[dict[str, Any]]:
        """Lines that `gatelog up` logged under a name."""
        lines = (line for line in self.up.text().splitlines() if line.startswith("{"))
        return [found for found in map(json.loads, lines) if found.get("event") == event]


@contextmanager
def running_stack(folder: Path, *simulator: str, install: str = "webhook") -> Iterator[Stack]:
    """A stack that is ready, ended afterwards."""
    stack = Stack(folder, *simulator, install=install)
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()


async def runs_to_its_end(stack: Stack, api: Api, namespace: str) -> None:
    """Create a good group of two and wait until it has run, been let go and is told as finished."""
    stack.good += 1
    name = f"good-{stack.good}"
    names = [f"{name}-{i}" for i in range(2)]
    for one in names:
        body = pod(one, name, 2, script="run=50ms,succeed")
        await api.call("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    await finished(stack, api, namespace, name, names)


async def finished(
    stack: Stack, api: Api, namespace: str, name: str, pods: list[str], timeout_s: float = 60
) -> None:
    """Wait until the pods have succeeded and are let go, and the group is told as finished."""

    async def let_go() -> bool:
        found = await api.pods(namespace)
        return all(
            found[one]["status"].get("phase") == "Succeeded"
            and not found[one]["metadata"].get("finalizers")
            for one in pods
        )

    async def told() -> bool:
        query = "SELECT state FROM groups WHERE namespace = ? AND name = ? AND state = 'Finished'"
        return bool(stack.sql(query, namespace, name))

    await api.until(f"pods of {namespace}/{name} succeed and are let go", let_go, timeout_s)
    await api.until(f"{namespace}/{name} is told as finished", told, timeout_s)
