"""Pods that bear our gate or finalizer without our label: found, said once, named by doctor."""

from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from gatelog.examine import unlabelled as doctor
from ingest.unlabelled import UnlabelledPods
from podgroup.log.events import DeltaRefused, Event
from podgroup.model.commands import EmitEvent
from podgroup.model.names import (
    ADMISSION_GATE,
    GROUP_NAME,
    MANAGED_LABEL,
    POD_FINALIZER,
    QUEUE_NAME,
    TOPOLOGY_GATE,
)
from podgroup.model.objects import Kind
from runtime.kube import KubeClient, connect
from runtime.settings import KubernetesSettings, Settings
from runtime.unlabelled import PAGE, find
from simcluster import Settings as ClusterSettings
from tests.support.standin import SimCluster
from tests.support.toy import Toy


def pod(
    name: str, *gates: str, labels: dict[str, str] | None = None, **meta: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": labels or {}, **meta},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            **({"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}),
        },
    }


@pytest.fixture
async def cluster() -> AsyncIterator[SimCluster]:
    async with SimCluster(ClusterSettings(scheduler=False)) as found:
        yield found


@pytest.fixture
async def kube(cluster: SimCluster, tmp_path: Path) -> AsyncIterator[KubeClient]:
    config = cluster.kubeconfig(tmp_path / "kubeconfig")
    client = await connect(KubernetesSettings(kubeconfig=str(config)))
    yield client
    await client.close()


OURS = {MANAGED_LABEL: "true", QUEUE_NAME: "q"}
UNSEEN = [
    pod("by-hand", ADMISSION_GATE),
    pod("label-lost", "example.com/other", ADMISSION_GATE, finalizers=[POD_FINALIZER]),
    pod("false", ADMISSION_GATE, labels={MANAGED_LABEL: "false"}),
    pod("member", ADMISSION_GATE, labels={GROUP_NAME: "g"}),
    pod("topology", TOPOLOGY_GATE),
    pod("running", finalizers=[POD_FINALIZER]),
]
SEEN = [
    pod("queued", ADMISSION_GATE, labels=OURS, finalizers=[POD_FINALIZER]),
    pod("plain"),
    pod("others", "example.com/other", finalizers=["example.com/f"]),
]


async def test_each_is_found_and_no_other(cluster: SimCluster, kube: KubeClient) -> None:
    for one in (*UNSEEN, *SEEN):
        await cluster.create("", "pods", one, "default")
    found = {one.name: one for one in await find(kube, topology=True)}
    assert set(found) == {one["metadata"]["name"] for one in UNSEEN}
    assert found["running"].bears == POD_FINALIZER and "Terminating" in found["running"].says
    assert (
        "kubectl label pod -n default by-hand kueue.x-k8s.io/managed=true" in found["by-hand"].says
    )
    beside_kueue = {one.name for one in await find(kube, topology=False)}
    assert beside_kueue == set(found) - {"topology"}, "that gate is Kueue's to take off"


async def test_long_lists_are_read_by_pages_and_no_further_than_asked(
    cluster: SimCluster, kube: KubeClient
) -> None:
    for number in range(PAGE + 20):
        await cluster.create("", "pods", pod(f"p{number:04}", ADMISSION_GATE), "default")
    assert len(await find(kube, topology=True)) == PAGE + 20
    assert len(await find(kube, topology=True, most=1)) == PAGE


async def test_what_is_found_goes_into_the_log_once(cluster: SimCluster, kube: KubeClient) -> None:
    put: list[Event] = []

    async def into(kind: Kind, events: Iterable[Event], position: str | None) -> None:
        assert kind == "Pod" and position is None
        put.extend(events)

    looking = UnlabelledPods(kube, into, 60.0, topology=True)
    await looking.look()
    assert put == []
    await cluster.create("", "pods", pod("lost", ADMISSION_GATE), "default")
    await looking.look()
    await looking.look()
    (event,) = put
    assert isinstance(event, DeltaRefused) and event.unlabelled and event.name == "lost"
    finding = await doctor.examine(kube, Settings(mode="builtin"))
    assert finding.verdict == "fail" and "pod default/lost" in finding.detail


def test_the_pod_gets_one_event_that_says_what_it_lacks_and_what_to_do() -> None:
    toy = Toy()
    lost = DeltaRefused(
        kind="Pod",
        namespace="ns",
        name="lost",
        uid="u-lost",
        resource_version="5",
        field=f"metadata.labels[{MANAGED_LABEL}]",
        message="it lacks the label",
        unlabelled=True,
    )
    toy.act = False
    toy.do(lost)
    toy.do(lost)
    (said,) = [d for d in toy.decisions if d.rule == "refuse"]
    assert isinstance(said.command, EmitEvent), "its status is not ours to write"
    (event,) = said.command.events
    assert (event.type, event.reason) == ("Warning", "Unmanaged")
    assert event.message.endswith("it lacks the label") and said.command.target.uid == "u-lost"
    parked = toy.world.journal.parked
    assert [row.object for row in parked] == ["Pod ns/lost"], "why finds it by its name"


async def test_a_list_of_none_is_read(kube: KubeClient) -> None:
    """The API server writes it as null where it is asked for metadata alone."""
    assert await find(kube, topology=True) == []
