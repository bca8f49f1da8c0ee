"""Leader election on the stand-in's Leases: who works, for how long, and who never at once."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runtime.election import Elector
from runtime.kube import KubeClient, KubeForbidden, KubeUnavailable, connect
from runtime.kube_answer import Answer
from runtime.lease import LeaseStore, lease_name, namespace_of
from runtime.metrics import Metrics
from runtime.settings import KubernetesSettings, LeaseSettings, SettingsError
from runtime.settings_source import load
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

NAME = "gatelog-ingest-default"
PATH = f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{NAME}"
SHORT = LeaseSettings(
    enabled=True, namespace="default", duration_s=2, renew_deadline_s=1.0, retry_period_s=0.2
)


class Cut:
    """A client of the API server whose line can be cut, and who may be told to be slow."""

    def __init__(self, kube: KubeClient) -> None:
        self.kube = kube
        self.cut = False
        self.forbid = False

    async def request(self, method, path, *, body=None, timeout_s=None):
        if self.cut:
            raise KubeUnavailable("the line is cut")
        if self.forbid:
            return Answer(403, b'{"message": "leases is forbidden"}', {})
        return await self.kube.request(method, path, body=body, timeout_s=timeout_s)


class Replica:
    """An elector and a work that notes when it ran."""

    def __init__(self, kube: KubeClient, settings: LeaseSettings = SHORT) -> None:
        self.line = Cut(kube)
        self.metrics = Metrics()
        self.elector = Elector(self.line, settings, NAME, metrics=self.metrics)
        self.stop = asyncio.Event()
        self.give_up = asyncio.Event()
        self.working = False
        self.terms: list[list[float]] = []
        self.task: asyncio.Task[None] | None = None

    def start(self) -> "Replica":
        self.task = asyncio.create_task(self.elector.run(self.work, self.stop))
        return self

    async def work(self) -> None:
        self.give_up.clear()
        self.working = True
        self.terms.append([time.monotonic(), 0.0])
        try:
            ended = [asyncio.create_task(e.wait()) for e in (self.stop, self.give_up)]
            await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.working = False
            self.terms[-1][1] = time.monotonic()

    async def until_working(self, timeout_s: float = 40) -> float:
        begin = time.monotonic()
        while not self.working:
            assert time.monotonic() < begin + timeout_s, self.elector.problem
            await asyncio.sleep(0.01)
        return time.monotonic() - begin


@pytest.fixture
async def kube(tmp_path: Path) -> AsyncIterator[KubeClient]:
    async with SimCluster() as sim:
        path = str(sim.kubeconfig(tmp_path / "kubeconfig"))
        client = await connect(KubernetesSettings(kubeconfig=path))
        yield client
        await client.close()


@pytest.fixture
async def replicas(kube: KubeClient) -> AsyncIterator[list[Replica]]:
    found = [Replica(kube), Replica(kube)]
    yield found
    for each in found:
        if each.task is not None:
            each.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await each.task
    times = sorted((begin, end) for each in found for begin, end in each.terms)
    for (_, end), (begin, _) in itertools.pairwise(times):
        assert end <= begin, "two worked at once"


async def lease(kube: KubeClient) -> dict:
    status, body = await kube.json("GET", PATH)
    assert status == 200
    return body


def metric(replica: Replica, text: str) -> bool:
    return text in replica.metrics().decode()


async def test_one_works_and_the_other_is_told_when_it_stops(kube, replicas):
    one, two = replicas
    one.start()
    await one.until_working()
    two.start()
    await asyncio.sleep(1)
    assert not two.working
    assert (two.elector.problem, two.elector.holder) == ("", one.elector.identity)
    held = (await lease(kube))["spec"]
    assert (held["holderIdentity"], held["leaseDurationSeconds"]) == (one.elector.identity, 2)
    assert held["leaseTransitions"] == 1
    assert metric(one, f'gatelog_lease_is_leader{{lease="{NAME}"}} 1.0')
    assert metric(two, f'gatelog_lease_is_leader{{lease="{NAME}"}} 0.0')
    one.stop.set()
    # Released, not run out: within a look of the other one, far below the Lease's duration.
    assert await two.until_working() < 1
    assert (await lease(kube))["spec"]["leaseTransitions"] == 2
    assert metric(one, f'gatelog_lease_changes_total{{change="released",lease="{NAME}"}} 1.0')


async def test_a_leader_that_cannot_renew_stops_before_another_begins(kube, replicas):
    one, two = replicas
    one.start()
    await one.until_working()
    two.start()
    one.line.cut = True
    cut_at = time.monotonic()
    await two.until_working()
    assert one.terms[0][1] - cut_at <= SHORT.renew_deadline_s + 0.3
    assert "cut" in one.elector.problem
    one.line.cut = False
    await asyncio.sleep(0.6)
    assert not one.working  # back on standby, and in the picture
    assert (one.elector.problem, one.elector.holder) == ("", two.elector.identity)
    assert metric(one, f'gatelog_lease_changes_total{{change="lost",lease="{NAME}"}} 1.0')


async def test_a_loop_that_stood_still_finds_its_time_over_at_once(kube, replicas):
    one, two = replicas
    one.start()
    await one.until_working()
    time.sleep(SHORT.renew_deadline_s + 0.1)  # as SIGSTOP: no renewal, no timers
    await asyncio.sleep(0.05)
    assert one.terms[0][1] > 0
    two.start()
    await asyncio.sleep(0)


async def test_clocks_that_differ_do_not_matter(kube, replicas):
    """A Lease renewed in a year ago's or next year's time is watched like any other."""
    one, two = replicas
    store = LeaseStore(kube, "default", NAME)
    found = await store.write(None, holder="stranger", duration_s=2, timeout_s=5)
    assert found is not None
    for year in ("2001", "2099"):
        body = await lease(kube)
        body["spec"]["renewTime"] = f"{year}-01-01T00:00:00.000000Z"
        await kube.json("PUT", PATH, body=body)
    one.start()
    assert await one.until_working() >= 1.9
    two.start()
    await asyncio.sleep(0.5)
    assert not two.working


async def test_of_two_writers_one_is_refused(kube):
    first, second = (LeaseStore(kube, "default", NAME) for _ in range(2))
    assert await first.read(5) is None
    made = await first.write(None, holder="a", duration_s=2, timeout_s=5)
    assert made is not None
    assert await second.write(None, holder="b", duration_s=2, timeout_s=5) is None
    again = await first.write(made, holder="a", duration_s=2, timeout_s=5)
    assert again is not None
    assert again.spec["acquireTime"] == made.spec["acquireTime"]
    assert await second.write(made, holder="b", duration_s=2, timeout_s=5) is None
    kept = await first.read(5)
    assert kept is not None
    assert (kept.holder, kept.transitions) == ("a", 1)


async def test_what_others_write_beside_it_stays_and_a_deleted_lease_is_made_again(kube, replicas):
    one, _ = replicas
    one.start()
    await one.until_working()
    body = {"metadata": {"annotations": {"team": "x"}}}
    await kube.json("PATCH", PATH, body=body, content_type="application/merge-patch+json")
    await asyncio.sleep(1)
    kept = await lease(kube)
    assert kept["metadata"]["annotations"] == {"team": "x"}
    assert one.working
    await kube.json("DELETE", PATH)
    await asyncio.sleep(1)
    assert (await lease(kube))["spec"]["holderIdentity"] == one.elector.identity
    assert len(one.terms) == 1


async def test_work_that_gives_up_hands_over(kube, replicas):
    one, two = replicas
    one.start()
    await one.until_working()
    two.start()
    await asyncio.sleep(0.3)
    one.give_up.set()
    await asyncio.sleep(1)
    assert len(one.terms) + len(two.terms) >= 2
    assert one.working != two.working


async def test_a_role_without_the_rule_is_named_and_tried_again(kube, replicas):
    one, _ = replicas
    one.line.forbid = True
    one.start()
    await asyncio.sleep(0.3)
    assert "not allowed to get" in one.elector.problem
    assert NAME in one.elector.problem
    one.line.forbid = False
    await one.until_working()
    assert one.elector.problem == ""
    with pytest.raises(KubeForbidden):
        one.line.forbid = True
        await LeaseStore(one.line, "default", NAME).read(5)


async def test_the_error_of_the_work_ends_it_and_frees_the_lease(kube):
    elector = Elector(kube, SHORT, NAME, metrics=Metrics())

    async def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await elector.run(work, asyncio.Event())
    assert (await lease(kube))["spec"]["holderIdentity"] == ""


def test_names_are_names_of_objects():
    assert lease_name("ingest", "default") == NAME
    assert lease_name("projector", "prod-1") == "gatelog-projector-prod-1-0"
    for wrong in ("Prod_1", "prod_1", "-", ""):
        with pytest.raises(SettingsError, match="cluster = "):
            load(None, {"GATELOG_CLUSTER": wrong})
    assert namespace_of("ops") == "ops"
    assert namespace_of("") == "default"
