"""A cluster that goes back to a backup of its etcd beneath `gatelog up`, and while it is down.

What ran in the backup runs on with its quota, what ran instead waits, what never was holds nothing,
and what comes later is admitted as ever; history, `epochs`, doctor and `why` say what happened.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from podgroup.model.names import ADMISSION_GATE
from tests.deploy.compose import free_port
from tests.support.processes import Api, make_queue, pod
from tests.support.stack import Stack, started

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
]

TEAM = "restored"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
NOTICED_S = 60.0


@pytest.fixture(params=["sqlite", "postgres"])
def stack(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stack]:
    one = Stack(tmp_path)
    # The registration that a backup holds names the port that was: it has to be the same.
    one.up.env["GATELOG_WEBHOOK_PORT"] = str(free_port())
    if request.param == "postgres":
        one.up.env["GATELOG_DATABASE_URL"] = request.getfixturevalue("postgres_database")
    with started(one):
        yield one


def rows(stack: Stack, query: str) -> list[dict[str, Any]]:
    """What a query finds, on either database."""
    url = stack.up.env.get("GATELOG_DATABASE_URL", "")
    if not url:
        return stack.sql(query)
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.connect() as connection:
            return [dict(row) for row in connection.execute(sa.text(query)).mappings()]
    finally:
        engine.dispose()


async def is_gated(api: Api, name: str) -> bool:
    spec = (await api.pods(TEAM))[name]["spec"]
    return any(gate["name"] == ADMISSION_GATE for gate in spec.get("schedulingGates") or ())


async def runs(api: Api, *names: str, timeout_s: float = NOTICED_S) -> None:
    async def all_run() -> bool:
        found = await api.pods(TEAM)
        return all(
            name in found and found[name]["status"].get("phase") == "Running" for name in names
        )

    await api.until(f"{', '.join(names)} run", all_run, timeout_s)


async def waits(api: Api, stack: Stack, *names: str) -> None:
    async def told() -> bool:
        query = "SELECT name FROM groups WHERE state = 'Queued' AND gone_at IS NULL"
        return set(names) <= {row["name"] for row in rows(stack, query)}

    await api.until(f"{', '.join(names)} wait", told)


async def end(api: Api, name: str) -> None:
    """Delete a pod and wait until it is gone."""
    await api.call("DELETE", f"{PODS}/{name}")

    async def gone() -> bool:
        return name not in await api.pods(TEAM)

    await api.until(f"{name} is gone", gone)


async def backup(api: Api, name: str) -> None:
    await api.call("POST", "/_sim/backup", {"name": name})


async def restore(api: Api, name: str, **more: Any) -> None:
    await api.call("POST", "/_sim/restore", {"name": name, **more})


async def held(stack: Stack) -> int:
    """How much cpu, in thousandths, admissions hold that were not given back."""
    query = "SELECT group_id FROM admissions WHERE released_at IS NULL"
    return len(rows(stack, query))


async def story(api: Api, stack: Stack) -> None:
    """`old` runs on all of the quota and `new` waits: saved. Then `old` ends and `new` runs."""
    await make_queue(api, TEAM, cpu="3")
    await api.call("POST", PODS, pod("old", cpu="3", script="run=forever"))
    await runs(api, "old")
    await api.call("POST", PODS, pod("new", cpu="3", script="run=forever"))
    await waits(api, stack, "new")
    await backup(api, "saved")
    await end(api, "old")
    await runs(api, "new")
    for n in range(20):
        await api.call("POST", PODS, pod(f"never-{n}", cpu="1"))
    await waits(api, stack, "never-19")


async def goes_on(api: Api, stack: Stack) -> None:
    async def told() -> bool:
        query = "SELECT name FROM groups WHERE gone_at IS NULL"
        return {row["name"] for row in rows(stack, query)} == {"old", "new"}

    await api.until("old and new are all there is", told, NOTICED_S)
    await runs(api, "old")
    await waits(api, stack, "new")
    assert await is_gated(api, "new"), "its quota is held by what runs again"
    assert await held(stack) == 1
    # The next to come is seen though versions are still low, and gets its turn.
    await api.call("POST", PODS, pod("next", cpu="3", script="run=forever"))
    await waits(api, stack, "next")
    await end(api, "old")
    await runs(api, "new")
    await end(api, "new")
    await runs(api, "next")


@pytest.mark.parametrize("bump", [0, 1_000_000_000])
async def test_beneath_a_running_gatelog(stack: Stack, bump: int) -> None:
    async with stack.api() as api:
        await story(api, stack)
        await restore(api, "saved", away_s=2.0, bump=bump)
        await goes_on(api, stack)
        await asyncio.to_thread(said, stack)


async def test_while_gatelog_is_down_and_then_again(stack: Stack) -> None:
    async with stack.api() as api:
        await story(api, stack)
        await asyncio.to_thread(stack.up.stop)
        await restore(api, "saved")
        await asyncio.to_thread(stack.start)
        await goes_on(api, stack)
        await restore(api, "saved", away_s=1.0)
        await goes_on(api, stack)
        found = rows(stack, "SELECT message FROM history WHERE kind = 'ClusterRestored'")
        assert len(found) == 2


def said(stack: Stack) -> None:
    """What people are told."""
    found = json.loads(stack.command("epochs", "--json").stdout)
    (line,) = found[-1]["restored"]
    assert "etcd was put back" in line["message"]
    assert "cluster restored" in stack.command("epochs").stdout
    doctor = stack.doctor()
    assert doctor["restored"]["verdict"] == "warn"
    assert "went back to a backup" in doctor["restored"]["detail"]
    assert doctor["parts"]["verdict"] == "ok"
    history = stack.command("history", f"{TEAM}/new", "--all").stdout
    assert "ClusterRestored" in history
    assert stack.command("replay", "--verify").returncode == 0
