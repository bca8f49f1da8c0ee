"""Backup and restore as docs/runbook.md has them: the read model is lost, then the log.

One `gatelog up` on the stand-in is stopped, robbed and started again. What ran runs on with its
quota, what waited waits, and nothing is admitted beyond the quota.
"""

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from podgroup.model.names import ADMISSION_GATE
from tests.support.processes import Api, make_queue, pod
from tests.support.stack import Stack

pytestmark = [
    pytest.mark.slow("a backup, a loss and a restore of read model and log"),
    pytest.mark.timeout(240),
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
]

TEAM = "restore"
PODS = f"/api/v1/namespaces/{TEAM}/pods"


@asynccontextmanager
async def stack_of(folder: Path) -> AsyncIterator[tuple[Stack, Api]]:
    stack = Stack(folder)
    try:
        await asyncio.to_thread(stack.start)
        async with stack.api() as api:
            await make_queue(api, TEAM, cpu="3")
            yield stack, api
    finally:
        await asyncio.to_thread(stack.stop)


async def runs(api: Api, *names: str) -> None:
    async def all_run() -> bool:
        found = await api.pods(TEAM)
        return all(found[name]["status"].get("phase") == "Running" for name in names)

    await api.until(f"{', '.join(names)} run", all_run)


async def state(stack: Stack, api: Api, name: str, *states: str) -> None:
    async def told() -> bool:
        marks = ", ".join("?" * len(states))
        query = f"SELECT 1 FROM groups WHERE name = ? AND gone_at IS NULL AND state IN ({marks})"
        return bool(stack.sql(query, name, *states))

    await api.until(f"{name} is {' or '.join(states)}", told)


async def uids(api: Api) -> dict[str, str]:
    return {name: found["metadata"]["uid"] for name, found in (await api.pods(TEAM)).items()}


async def gated(api: Api, name: str) -> bool:
    spec: dict[str, Any] = (await api.pods(TEAM))[name]["spec"]
    return any(gate["name"] == ADMISSION_GATE for gate in spec.get("schedulingGates") or ())


async def test_what_is_lost_is_restored_and_nothing_that_runs_notices(tmp_path: Path) -> None:
    async with stack_of(tmp_path) as (stack, api):
        model, backup = stack.state / "read-model.sqlite3", tmp_path / "backup.sqlite3"
        for name in ("a0", "a1"):
            await api.call("POST", PODS, pod(name, "a", 2, script="run=forever"))
        await runs(api, "a0", "a1")
        await state(stack, api, "a", "Running")

        # A backup while it runs, and work after it.
        with closing(sqlite3.connect(model)) as live, closing(sqlite3.connect(backup)) as copy:
            live.backup(copy)
        await api.call("POST", PODS, pod("b", script="run=forever"))
        await runs(api, "b")
        await api.call("POST", PODS, pod("waits", script="run=forever"))
        await state(stack, api, "waits", "Queued")
        before = await uids(api)

        # The read model is lost; the backup knows neither b nor waits.
        await asyncio.to_thread(stack.up.stop)
        for file in stack.state.glob("read-model.sqlite3*"):
            file.unlink()
        shutil.copy(backup, model)
        await asyncio.to_thread(stack.start)
        await state(stack, api, "b", "Running")
        await state(stack, api, "waits", "Queued")
        verified = await asyncio.to_thread(stack.command, "replay", "--verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        assert await uids(api) == before and await gated(api, "waits")

        # The log is lost.
        await asyncio.to_thread(stack.up.stop)
        shutil.rmtree(stack.state / "nats")
        await asyncio.to_thread(stack.start)
        said = await asyncio.to_thread(stack.command, "epochs")
        assert "epoch 2" in said.stdout, said.stdout
        await state(stack, api, "a", "Running")
        assert await uids(api) == before and await gated(api, "waits")

        # The quota that is held still is given back to who waits.
        await api.call("DELETE", f"{PODS}/b")
        await runs(api, "waits")
