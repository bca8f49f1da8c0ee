"""What must hold after a fault, held against the API server, the read model and the log.

    decisions    numbers without a gap; one final outcome each; no two in effect for one target
    audit        finalizers, gates, quota and conditions of everything at rest (tests.e2e.audit)
    verify       the log, folded again, gives the same rows and the same decisions. A fold starts at
                 the beginning of an epoch, without what was known before: of a log that was damaged
                 it is held against those who came since

Invariant: each returns what is wrong, in words that name the object; nothing is repaired here.
"""

import asyncio
from typing import Any

import sqlalchemy as sa

from gatelog.replay.online import verify
from projector.storage.database import reader
from tests.chaos.lab import CLUSTER, Lab
from tests.e2e.audit import Cluster, audit
from tests.support.processes import KUEUE

ONCE = ("UngatePod", "FinalizePod", "CreateWorkload")
"""Commands whose target, once written, is never written again. Targets name the object's uid."""


async def newest(lab: Lab) -> int:
    """Sequence of the newest message of the log."""
    async with lab.jetstream() as stream:
        info = await stream.stream_info("EVENTS")
    return int(info.state.last_seq)


async def committed(lab: Lab) -> int:
    """Sequence up to which the projector has committed the log; 0: nothing yet."""
    rows = await asyncio.to_thread(_rows, lab, "select seq - base from checkpoints")
    return int(rows[0][0]) if rows else 0


def _rows(lab: Lab, sql: str) -> list[Any]:
    engine = reader(lab.database_url)
    try:
        with engine.connect() as connection:
            return list(connection.execute(sa.text(sql)).all())
    finally:
        engine.dispose()


async def decisions(lab: Lab) -> list[str]:
    """What is wrong with the decisions and their outcomes."""
    return await asyncio.to_thread(_decisions, lab)


def _decisions(lab: Lab) -> list[str]:
    wrong = []
    # Records are numbered along with decisions; a run makes fewer than their table keeps.
    made = "select number from decisions union all select number from conclusions order by number"
    numbers = [row[0] for row in _rows(lab, made)]
    if numbers != list(range(1, len(numbers) + 1)):
        wrong.append("numbers of decisions and records have gaps")
    final = "select decision_id, count(*) from outcomes where status in ('applied', 'rejected')"
    final += " group by decision_id, delivery having count(distinct status) > 1"
    wrong += [f"decision {row[0]} was both applied and rejected" for row in _rows(lab, final)]
    words = ", ".join(f"'{action}'" for action in ONCE)
    twice = f"select action, target, count(*) from decisions where action in ({words})"
    twice += " and (status is null or status = 'applied') group by 1, 2 having count(*) > 1"
    wrong += [
        f"{n} decisions in effect for {action} {target}" for action, target, n in _rows(lab, twice)
    ]
    return wrong


async def at_rest(lab: Lab, namespace: str, quota_cpu: int, timeout_s: float) -> list[str]:
    """What the audit of the namespace finds, once it has stopped changing for the better."""
    end = asyncio.get_running_loop().time() + timeout_s
    while True:
        pods = (await lab.api.call("GET", f"/api/v1/namespaces/{namespace}/pods"))["items"]
        path = f"{KUEUE}/namespaces/{namespace}/workloads"
        workloads = (await lab.api.call("GET", path))["items"]
        wrong = audit(Cluster(pods, workloads), quota_cpu * 1000)
        if not wrong or asyncio.get_running_loop().time() > end:
            return wrong
        await asyncio.sleep(0.25)


async def left_over(lab: Lab, namespace: str, timeout_s: float) -> list[str]:
    """Workloads that still hold a finalizer after their pods have gone."""
    end = asyncio.get_running_loop().time() + timeout_s
    path = f"{KUEUE}/namespaces/{namespace}/workloads"
    while True:
        workloads = (await lab.api.call("GET", path))["items"]
        held = [w["metadata"]["name"] for w in workloads if w["metadata"].get("finalizers")]
        if not held or asyncio.get_running_loop().time() > end:
            return [f"Workload {name} has no pods and keeps its finalizer" for name in held]
        await asyncio.sleep(0.25)


async def epoch(lab: Lab) -> int:
    """Number of the present epoch; 1 unless the log was damaged."""
    return int((await asyncio.to_thread(_rows, lab, "select epoch from checkpoints"))[0][0])


async def replayed(lab: Lab) -> list[str]:
    """What `gatelog replay --verify` finds different."""
    result, tables = await verify(lab.settings, lambda _: None)
    wrong = [f"verify, {table.table}: {text}" for table in tables for text in table.examples]
    wrong += [f"verify, decisions: {found}" for found in result.differences]
    return wrong[:10]


async def parked(lab: Lab) -> int:
    """Messages that were set aside."""
    sql = f"select count(*) from parked where cluster = '{CLUSTER}'"
    return int((await asyncio.to_thread(_rows, lab, sql))[0][0])
