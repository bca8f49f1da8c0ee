"""One huge group, end to end: composed, admitted, run and let go, over HTTP alone.

2,000 pods in `make test`; 5,000 with GATELOG_TEST_HUGE_PODS=5000, which takes 45 s.

The stand-in, nats-server, ingest, projector and actuator run as processes of their own. Two pods
state other totals, so the group is Blocked while most of its pods arrive; they are deleted, and the
group goes its way. What each process spent is printed.

Invariant: at the end every pod ran once, nothing is held, and the quota goes to the next in line.
"""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from podgroup.model.names import MAX_OWNERS
from projector.storage.database import reader
from runtime.embedded import EmbeddedNats
from tests.support.parts import Parts, environment, migrate
from tests.support.processes import KUEUE, TOKEN, Api, Child, Simulator, make_queue, pod

pytestmark = [
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
    pytest.mark.slow("2,000 pods"),
]

SIZE = int(os.environ.get("GATELOG_TEST_HUGE_PODS", "2000"))
ROLES = 2
NAMESPACE, GROUP, AFTER = "huge", "huge", "after"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LIMIT_S = 270


@contextmanager
def processes(folder: Path, nats: EmbeddedNats) -> Iterator[tuple[Simulator, Parts]]:
    """The stand-in; ingest, projector and actuator, started; ended afterwards."""
    simulator = Simulator(folder, "--kubelet", "scripted", "--nodes", "4")
    env = environment(
        nats.settings(), "huge", f"sqlite:///{folder}/gatelog.db", simulator.kubeconfig
    )
    parts = Parts(lambda _: env, folder)
    try:
        simulator.start()
        migrate(env, folder)
        parts.start()
        yield simulator, parts
    finally:
        parts.stop()
        simulator.stop()


class Spent:
    """CPU seconds of each process, stage by stage."""

    def __init__(self, children: list[Child]) -> None:
        self._children = children
        self._before = self._now()
        self._at = time.monotonic()

    def _now(self) -> dict[str, float]:
        ticks = os.sysconf("SC_CLK_TCK")
        found = {}
        for child in self._children:
            stat = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
            found[child.name] = (int(stat[11]) + int(stat[12])) / ticks
        return found

    def stage(self, name: str) -> None:
        now, at = self._now(), time.monotonic()
        each = ", ".join(f"{n} {s - self._before[n]:.1f}" for n, s in now.items())
        print(f"{name}: {at - self._at:.1f} s; CPU s: {each}")
        self._before, self._at = now, at


def member(i: int, total: int = SIZE) -> dict[str, Any]:
    return gated(pod(f"p{i:04d}", GROUP, total, f"{1 + i % ROLES}m", script="run=1s,succeed"))


def gated(found: dict[str, Any]) -> dict[str, Any]:
    """A pod as the webhook leaves it."""
    found["metadata"]["labels"]["kueue.x-k8s.io/managed"] = "true"
    found["metadata"]["finalizers"] = ["kueue.x-k8s.io/managed"]
    found["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    return found


async def create(api: Api, bodies: list[dict[str, Any]]) -> None:
    left = iter(bodies)

    async def creator() -> None:
        for body in left:
            await api.call("POST", PODS, body)

    await asyncio.gather(*(creator() for _ in range(16)))


class Model:
    """The read model, read by SQL."""

    def __init__(self, url: str) -> None:
        self._engine = reader(url)

    def one(self, query: str) -> tuple[Any, ...]:
        """The only row; () when there is none."""
        with self._engine.connect() as connection:
            found = connection.execute(sa.text(query)).one_or_none()
        return () if found is None else tuple(found)

    async def until(self, api: Api, query: str, *wanted: object) -> None:
        async def come() -> bool:
            return self.one(query) == wanted

        try:
            await api.until(f"{query} -> {wanted}", come, LIMIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}, is {self.one(query)}") from error


STATE = f"SELECT state, reason FROM groups WHERE name = '{GROUP}'"


@pytest.mark.timeout(300)
@pytest.mark.parity("B16")
async def test_a_huge_group_runs_to_its_end(own_nats: EmbeddedNats, tmp_path: Path) -> None:
    with processes(tmp_path, own_nats) as (simulator, parts):
        async with Api(simulator.url, TOKEN) as api:
            try:
                spent = Spent([simulator, *parts])
                await lives(api, spent, Model(f"sqlite:///{tmp_path}/gatelog.db"))
            except AssertionError:
                print(parts.tail(15))
                raise
            assert all(child.running for child in parts)


async def lives(api: Api, spent: Spent, model: Model) -> None:
    quota_m = sum(1 + i % ROLES for i in range(SIZE))
    await make_queue(api, NAMESPACE, cpu=f"{quota_m}m")

    strangers = [member(SIZE + i, total=SIZE + 1 + i) for i in range(2)]
    await create(api, strangers)
    await create(api, [member(i) for i in range(SIZE)])
    everybody = "SELECT count(*) FROM pods WHERE gone_at IS NULL"
    await model.until(api, everybody, SIZE + 2)
    assert model.one(STATE) == ("Blocked", "DifferentTotalCounts")
    spent.stage(f"{SIZE} pods created, while the group is blocked")

    for body in strangers:
        await api.call("DELETE", f"{PODS}/{body['metadata']['name']}")
    await model.until(api, "SELECT count(*) FROM pods WHERE ungated_at IS NOT NULL", SIZE)
    spent.stage("composed, admitted and ungated")

    await model.until(api, f"SELECT state FROM groups WHERE name = '{GROUP}'", "Finished")
    held = "SELECT count(*) FROM pods WHERE finalizer AND gone_at IS NULL"
    await model.until(api, held, 0)
    spent.stage("ran, finished and let go")

    await over_http(api)
    in_the_read_model(model, quota_m)
    # What the group held goes to the next that needs all of it.
    await api.call("POST", PODS, gated(pod(AFTER, cpu=f"{quota_m}m", script="run=10ms,succeed")))
    await model.until(api, f"SELECT state FROM groups WHERE name = '{AFTER}'", "Finished")
    spent.stage("the next one ran")


async def over_http(api: Api) -> None:
    pods = await api.pods(NAMESPACE)
    assert len(pods) == SIZE
    assert {p["status"]["phase"] for p in pods.values()} == {"Succeeded"}
    assert not any(p["metadata"].get("finalizers") for p in pods.values())
    assert not any(p["spec"].get("schedulingGates") for p in pods.values())
    found = await api.call("GET", f"{KUEUE}/namespaces/{NAMESPACE}/workloads/{GROUP}")
    uids = {p["metadata"]["uid"] for p in pods.values()}
    owners = [o["uid"] for o in found["metadata"]["ownerReferences"]]
    assert len(owners) == len(set(owners)) == min(SIZE, MAX_OWNERS)
    assert set(owners) <= uids
    assert sorted(s["count"] for s in found["spec"]["podSets"]) == [SIZE // ROLES] * ROLES
    true = {c["type"] for c in found["status"]["conditions"] if c["status"] == "True"}
    assert "Finished" in true
    assert not found["metadata"].get("finalizers")


def in_the_read_model(model: Model, quota_m: int) -> None:
    assert model.one("SELECT count(*), sum(gone_at IS NULL) FROM pods") == (SIZE + 2, SIZE)
    sums = "sum(gated), sum(finalizer), sum(phase = 'Succeeded')"
    rows = f"SELECT {sums} FROM pods WHERE gone_at IS NULL"
    assert model.one(rows) == (0, 0, SIZE)
    assert model.one("SELECT count(*), sum(removed_at IS NOT NULL) FROM gates") == (SIZE + 2, SIZE)
    counts = "SELECT count(*), sum(count), sum(pods_succeeded) FROM roles WHERE count > 0"
    assert model.one(counts) == (ROLES, SIZE, SIZE)
    for action, times in (("CreateWorkload", 1), ("AdmitGroup", 1), ("UngatePod", SIZE)):
        query = f"SELECT count(*), count(DISTINCT target) FROM decisions WHERE action = '{action}'"
        assert model.one(query) == (times, times), action
    assert model.one("SELECT count(*) FROM decisions WHERE status IS NULL") == (0,)
    assert model.one("SELECT count(*) FROM parked") == (0,)
    given = "SELECT resources, released_at IS NOT NULL FROM admissions"
    resources, returned = model.one(given)
    assert str(quota_m) in str(resources)
    assert returned == 1
