"""Kill test: every process dies by SIGKILL again and again, and nothing is lost, doubled or wrong.

300 pods in 40 groups share a quota that lets only some of them run at a time. Ingest, projector
and actuator run as three processes and are each killed at random moments; nats-server is killed
twice. Afterwards the cluster is as an undisturbed run leaves it, and the read model is held
against the log itself: folded again from the stream, it must give the same lines of history and
the same decisions.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gatelog.replay.running import verify
from podgroup.codec import decode_batch, decode_decision, split_decisions
from podgroup.engine import new_world, step
from podgroup.names import ADMISSION_GATE, MANAGED_LABEL, POD_FINALIZER
from podgroup.runtime.embedded import EmbeddedNats
from podgroup.runtime.jetstream import connect
from podgroup.runtime.settings import DatabaseSettings, Settings
from podgroup.subjects import DECISIONS, EVENTS, decisions, events_of
from tests.support.processes import GATELOG, TOKEN, Api, Child, Simulator, make_queue, pod

GROUPS, PODS, QUOTA = 40, 300, 60
NAMESPACE, CLUSTER = "kill", "kill"
KILLS, NATS_KILLS = 10, 2
SEED = 20261121


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/gatelog.db"
    found: str = request.getfixturevalue("postgres_database")
    return found


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[EmbeddedNats]:
    server = EmbeddedNats(tmp_path / "nats")
    await server.start()
    yield server
    await server.stop()


def sizes() -> list[int]:
    """40 group sizes that add up to 300, some of them single pods (size 0 stands for one pod)."""
    rnd = random.Random(SEED)
    found = [rnd.randint(1, 12) for _ in range(GROUPS)]
    while sum(found) != PODS:
        i = rnd.randrange(GROUPS)
        if sum(found) < PODS and found[i] < 16:
            found[i] += 1
        elif sum(found) > PODS and found[i] > 1:
            found[i] -= 1
    return found


def gated(name: str, group: str, total: int) -> dict[str, Any]:
    """A pod as admission injects it: there is no webhook here, it would die with ingest."""
    body = pod(name, group, total, script="run=300ms,succeed")
    body["metadata"]["labels"][MANAGED_LABEL] = "true"
    body["metadata"]["finalizers"] = [POD_FINALIZER]
    body["spec"]["schedulingGates"] = [{"name": ADMISSION_GATE}]
    return body


class QuotaWatch:
    """Watches the pods over HTTP and adds up what is past the gate, at every moment."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.using: dict[str, str] = {}
        self.most = 0

    async def run(self) -> None:
        path = f"{self.api.url}/api/v1/namespaces/{NAMESPACE}/pods"
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


async def create_all(api: Api, rnd: random.Random) -> None:
    bodies = []
    for i, size in enumerate(sizes()):
        group = f"g{i:02d}" if size > 1 else ""
        bodies += [gated(f"g{i:02d}-p{j:02d}", group, size) for j in range(size)]
    rnd.shuffle(bodies)
    for body in bodies:
        await api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body)
        await asyncio.sleep(rnd.uniform(0, 0.03))


async def torment(
    children: list[Child], nats: EmbeddedNats, rnd: random.Random, over: asyncio.Event
) -> Counter[str]:
    """Kill and restart: each process at least KILLS times, nats-server NATS_KILLS times."""
    plan = [child.name for child in children for _ in range(KILLS)] + ["nats"] * NATS_KILLS
    rnd.shuffle(plan)
    named = {child.name: child for child in children}
    done: Counter[str] = Counter()
    for name in plan:
        await asyncio.sleep(rnd.uniform(0.1, 0.9))
        if name == "nats":
            nats.kill()
            await asyncio.sleep(rnd.uniform(0, 0.5))
            await nats.start()
        else:
            child = named[name]
            assert child.running, child.tail()
            await asyncio.to_thread(child.kill)
            await asyncio.sleep(rnd.uniform(0, 0.4))
            child.start()
        done[name] += 1
    over.set()
    return done


async def all_done(api: Api) -> bool:
    pods = await api.pods(NAMESPACE)
    if len(pods) != PODS:
        return False
    for body in pods.values():
        if body["status"].get("phase") != "Succeeded" or body["metadata"].get("finalizers"):
            return False
    workloads = (
        await api.call("GET", f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/workloads")
    )["items"]
    return len(workloads) == GROUPS and all(
        any(
            c["type"] == "Finished" and c["reason"] == "Succeeded"
            for c in w.get("status", {}).get("conditions", [])
        )
        and not w["metadata"].get("finalizers")
        for w in workloads
    )


@pytest.mark.timeout(300)
@pytest.mark.parity("B18")
async def test_nothing_is_lost_doubled_or_wrong(
    database: str, nats: EmbeddedNats, tmp_path: Path
) -> None:
    rnd = random.Random(SEED)
    simulator = Simulator(tmp_path, "--kubelet", "scripted")
    simulator.start()
    log = nats.settings()
    env = {
        "GATELOG_CLUSTER": CLUSTER,
        "GATELOG_DATABASE_URL": database,
        "GATELOG_NATS_URL": log.url,
        "GATELOG_NATS_USER": log.user,
        "GATELOG_NATS_PASSWORD_FILE": log.password_file,
        "KUBECONFIG": str(simulator.kubeconfig),
        "GATELOG_LOG_FORMAT": "json",
        "GATELOG_STATE_DIR": str(tmp_path / "state"),
    }
    migrate = Child("migrate", [GATELOG, "migrate"], env, tmp_path)
    migrate.start()
    assert migrate.process is not None
    assert await asyncio.to_thread(migrate.process.wait, 60) == 0, migrate.tail()
    children = [Child(n, [GATELOG, n], env, tmp_path) for n in ("ingest", "project", "actuate")]
    over = asyncio.Event()
    try:
        async with Api(simulator.url, TOKEN) as api:
            await make_queue(api, NAMESPACE, cpu=str(QUOTA))
            watch = QuotaWatch(api)
            watching = asyncio.create_task(watch.run())
            for child in children:
                child.start()
            creating = asyncio.create_task(create_all(api, rnd))
            done = await torment(children, nats, random.Random(SEED + 1), over)
            await creating
            try:
                await api.until("the undisturbed end", lambda: all_done(api), 120)
            except AssertionError:
                print(await describe(api), *(c.tail(15) for c in children), sep="\n")
                raise
            assert done == {"ingest": KILLS, "project": KILLS, "actuate": KILLS, "nats": NATS_KILLS}
            assert watch.most <= QUOTA, f"{watch.most} pods of 1 cpu past the gate at once"
            assert watch.most > QUOTA // 2, "the quota was never under pressure"
            watching.cancel()
            await asyncio.sleep(1)
    finally:
        for child in children:
            child.stop()
        simulator.stop()
    await hold_against_the_log(database, nats)
    await verified(database, nats)


async def verified(database: str, nats: EmbeddedNats) -> None:
    """What `gatelog replay --verify` looks at: every table, row by row."""
    settings = Settings(
        cluster=CLUSTER, database=DatabaseSettings(url=database), nats=nats.settings()
    )
    result, tables = await verify(settings, lambda _: None)
    assert not [text for table in tables for text in table.examples]
    assert sum(table.different for table in tables) == 0
    assert not result.differences
    assert {t.table: t.rows for t in tables}["pods"] == PODS


async def describe(api: Api) -> str:
    lines = []
    for name, body in sorted((await api.pods(NAMESPACE)).items()):
        phase, meta = body["status"].get("phase"), body["metadata"]
        if phase != "Succeeded" or meta.get("finalizers"):
            lines.append(
                f"{name} {phase} gates={body['spec'].get('schedulingGates')} "
                f"finalizers={meta.get('finalizers')}"
            )
    return "\n".join(lines)


async def hold_against_the_log(database: str, nats: EmbeddedNats) -> None:
    """The read model is what the log says, line by line."""
    from projector.database import reader as reader_of

    engine = reader_of(database)
    with engine.connect() as connection:

        def rows(sql: str) -> list[Any]:
            return list(connection.execute(sa.text(sql)).all())

        history = rows("select seq, ord, kind, reason, message from history order by seq, ord")
        decided = rows(
            "select id, number, as_of_seq, action, target, rule from decisions order by number"
        )
        states = Counter(row[0] for row in rows("select state from groups"))
        checkpoint = rows("select max(seq) from checkpoints")[0][0]
        doubled = rows(
            "select decision_id, delivery, attempt, status, count(*) from outcomes "
            "group by 1, 2, 3, 4 having count(*) > 1"
        )
    engine.dispose()
    assert states == {"Finished": GROUPS}
    assert not doubled
    assert [row[1] for row in decided] == list(range(1, len(decided) + 1)), "numbers have gaps"
    targets = Counter(
        (row[3], row[4])
        for row in decided
        if row[3] in ("UngatePod", "FinalizePod", "CreateWorkload", "AdmitGroup", "FinishGroup")
    )
    assert set(targets.values()) == {1}, [t for t, n in targets.items() if n > 1]

    bus = await connect(nats.settings(), "test", deadline_s=20)
    world = new_world(CLUSTER)
    recorded: dict[int, dict[str, Any]] = {}
    reader = bus.read(DECISIONS, decisions(CLUSTER, 0), 1)
    while messages := await reader.next(2):
        for message in messages:
            for body in split_decisions(message.body):
                decision = decode_decision(body)
                recorded.setdefault(decision.as_of, {})[decision.id] = decision
    await reader.close()
    assert {d for of in recorded.values() for d in of} == {row[0] for row in decided}
    reader = bus.read(EVENTS, events_of(CLUSTER, 0), 1)
    only_now, only_then = [], []
    while messages := await reader.next(2):
        for message in messages:
            if message.sequence <= checkpoint:
                difference = step(
                    world,
                    message.sequence,
                    message.at,
                    decode_batch(message.body),
                    recorded.get(message.sequence, {}),
                )
                only_now += difference.only_now
                only_then += difference.only_then
    await reader.close()
    await bus.close()
    assert not only_now, only_now[:3]
    assert not only_then, only_then[:3]
    notes = [(n.seq, n.ord, n.kind, n.reason, n.message) for n in world.journal.notes]
    told = [tuple(row) for row in history]
    # The beginning of an epoch is told by the projector when it finds the stream, not by the log.
    assert told[0] == (0, 0, "EpochStarted", "epoch 1", "first start")
    assert told[1:] == notes
