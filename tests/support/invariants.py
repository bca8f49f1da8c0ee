"""What must hold after any fault, seen from outside: cluster, quota, log and read model.

The read model is held against the log itself: folded again from the stream, it must give the same
lines of history and the same decisions, and `replay --verify` must find every table the same.
"""

import json
from collections import Counter
from typing import Any

import sqlalchemy as sa

from gatelog.replay.online import verify
from podgroup.engine import Then, new_world, step
from podgroup.log.codec import decode_batch, decode_conclusion, split_conclusions
from podgroup.log.events import Decision
from podgroup.log.records import Concluded
from podgroup.log.subjects import DECISIONS, EVENTS, decisions, events_of
from podgroup.model.names import ADMISSION_GATE, MANAGED_LABEL, POD_FINALIZER
from runtime.jetstream import connect
from runtime.settings import DatabaseSettings, NatsSettings, Settings
from tests.support.processes import Api, pod


def gated(name: str, group: str, total: int) -> dict[str, Any]:
    """A pod as admission injects it: there is no webhook here, it would die with ingest."""
    body = pod(name, group, total, script="run=300ms,succeed")
    body["metadata"]["labels"][MANAGED_LABEL] = "true"
    body["metadata"]["finalizers"] = [POD_FINALIZER]
    body["spec"]["schedulingGates"] = [{"name": ADMISSION_GATE}]
    return body


class QuotaWatch:
    """Watches the pods over HTTP and adds up what is past the gate, at every moment."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.using: dict[str, str] = {}
        self.most = 0

    async def run(self) -> None:
        path = f"{self.api.url}/api/v1/namespaces/{self.namespace}/pods"
        params = {"watch": "1", "resourceVersion": "0"}
        async with self.api.http.get(path, params=params, timeout=None) as answer:
            async for line in answer.content:
                item = json.loads(line)
                body = item["object"]
                name = body["metadata"].get("name", "")
                done = body.get("status", {}).get("phase") in ("Succeeded", "Failed")
                if item["type"] == "DELETED" or done or body["spec"].get("schedulingGates"):
                    self.using.pop(name, None)
                else:
                    self.using[name] = name
                self.most = max(self.most, len(self.using))


async def all_done(api: Api, namespace: str, pods: int, groups: int) -> bool:
    """Every pod succeeded and nothing of ours is left on it or on its Workload."""
    found = await api.pods(namespace)
    if len(found) != pods:
        return False
    for body in found.values():
        if body["status"].get("phase") != "Succeeded" or body["metadata"].get("finalizers"):
            return False
    workloads = (
        await api.call("GET", f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads")
    )["items"]
    return len(workloads) == groups and all(
        any(
            c["type"] == "Finished" and c["reason"] == "Succeeded"
            for c in w.get("status", {}).get("conditions", [])
        )
        and not w["metadata"].get("finalizers")
        for w in workloads
    )


async def verified(database: str, nats: NatsSettings, cluster: str, pods: int) -> None:
    """What `gatelog replay --verify` looks at: every table, row by row."""
    settings = Settings(cluster=cluster, database=DatabaseSettings(url=database), nats=nats)
    result, tables = await verify(settings, lambda _: None)
    # Assertions outside of test modules say nothing by themselves.
    examples = [f"{table.table}: {text}" for table in tables for text in table.examples]
    assert not examples, "\n".join(examples)
    assert sum(table.different for table in tables) == 0, tables
    assert not result.differences, result.differences
    assert {t.table: t.rows for t in tables}["pods"] == pods


async def hold_against_the_log(
    database: str, nats: NatsSettings, cluster: str, groups: int
) -> None:
    """The read model is what the log says, line by line."""
    from projector.storage.database import reader as reader_of

    engine = reader_of(database)
    with engine.connect() as connection:

        def rows(sql: str) -> list[Any]:
            return list(connection.execute(sa.text(sql)).all())

        history = rows("select seq, ord, kind, reason, message from history order by seq, ord")
        decided = rows(
            "select id, number, as_of_seq, action, target, rule from decisions order by number"
        )
        concluded = rows("select number from conclusions")
        states = Counter(row[0] for row in rows("select state from groups"))
        checkpoint = rows("select max(seq) from checkpoints")[0][0]
        # A killed nats-server or a stopped actuator may lead to another delivery, under the same
        # number, of what was just settled: the write is then made twice and changes nothing. It
        # must not come out differently, unless it is a Workload's status, of which newer ones have
        # been written meanwhile: what the API server refuses then, it refuses rightly.
        at_odds = rows(
            "select decision_id, count(distinct o.status) from outcomes o "
            "join decisions d on d.cluster = o.cluster and d.id = o.decision_id "
            "where o.status <> 'retrying' and d.action <> 'WriteWorkloadStatus' "
            "group by 1 having count(distinct o.status) > 1 "
            "and sum(case when o.status = 'rejected' then 1 else 0 end) > 0"
        )
    engine.dispose()
    assert states == {"Finished": groups}, states
    assert not at_odds, at_odds
    # Records are numbered along with decisions.
    numbers = sorted([row[1] for row in decided] + [row[0] for row in concluded])
    assert numbers == list(range(1, len(numbers) + 1)), "numbers have gaps"
    targets = Counter(
        (row[3], row[4])
        for row in decided
        if row[3] in ("UngatePod", "FinalizePod", "CreateWorkload", "AdmitGroup", "FinishGroup")
    )
    assert set(targets.values()) == {1}, [t for t, n in targets.items() if n > 1]

    bus = await connect(nats, "test", deadline_s=20)
    world = new_world(cluster)
    recorded: dict[int, dict[str, Any]] = {}
    records: dict[int, Concluded] = {}
    reader = bus.read(DECISIONS, decisions(cluster), 1)
    while messages := await reader.next(2):
        for message in messages:
            for body in split_conclusions(message.body):
                made = decode_conclusion(body)
                if isinstance(made, Decision):
                    recorded.setdefault(made.as_of, {})[made.id] = made
                else:
                    records[made.as_of] = made
    await reader.close()
    assert {d for of in recorded.values() for d in of} == {row[0] for row in decided}
    reader = bus.read(EVENTS, events_of(cluster), 1)
    only_now: list[object] = []
    only_then: list[object] = []
    while messages := await reader.next(2):
        for message in messages:
            if message.sequence <= checkpoint:
                difference = step(
                    world,
                    message.sequence,
                    message.at,
                    decode_batch(message.body),
                    Then(recorded.get(message.sequence, {}), records.get(message.sequence)),
                )
                only_now += difference.only_now + difference.said_now
                only_then += difference.only_then + difference.said_then
    await reader.close()
    await bus.close()
    assert not only_now, only_now[:3]
    assert not only_then, only_then[:3]
    notes = [(n.seq, n.ord, n.kind, n.reason, n.message) for n in world.journal.notes]
    told = [tuple(row) for row in history]
    # The beginning of an epoch is told by the projector when it finds the stream, not by the log.
    assert told[0] == (0, 0, "EpochStarted", "epoch 1", "first start")
    assert told[1:] == notes
