"""The stand-in for Kueue's core: a recorded story replayed, and each rule on its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simcluster import Settings
from simcluster.client import ApiFailure, Client
from tests.simcluster.make import owner, pod
from tests.simcluster.replay import Pairs, comparable
from tests.support.kueuecore import KueueCore
from tests.support.recordings import lines
from tests.support.standin import SimCluster

KIND = "{}.kueue.x-k8s.io/v1beta2".format
WORKLOADS, NS = KIND("workloads"), "default"
RECORDING = "external_workloads_under_kueue"


@pytest.fixture
def settings() -> Settings:
    return Settings(controllers=(KueueCore,), future_version_wait_s=0.1)


class Story:
    """A ClusterQueue of so many CPUs, and every version of every Workload, by name."""

    def __init__(self, client: Client, cluster: SimCluster, namespace: str = NS) -> None:
        self.client = client
        self.namespace = namespace
        self.versions: dict[str, list[dict[str, Any]]] = {}
        cluster.store.hooks.append(self.seen)

    def seen(self, table: Any, change: Any) -> None:
        if table.resource.plural == "workloads":
            self.versions.setdefault(change.rec.name, []).append(change.rec.obj)

    async def queue(self, cpu: str = "10", name: str = "cq", **more: Any) -> None:
        flavor = {"name": "lab-flavor", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
        spec = {
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
        }
        meta = {"name": "lab-flavor"}
        await self.client.create(KIND("resourceflavors"), {"metadata": meta})
        body = {"metadata": {"name": name}, "spec": spec | more}
        await self.client.create(KIND("clusterqueues"), body)
        body = {"metadata": {"name": "user-queue"}, "spec": {"clusterQueue": name}}
        await self.client.create(KIND("localqueues"), body, self.namespace)

    async def workload(self, name: str, cpu: str = "1", count: int = 1, **spec: Any) -> None:
        template = {"spec": pod("x", cpu=cpu)["spec"]}
        pod_set = {"name": "main", "count": count, "template": template}
        body = {
            "metadata": {"name": name},
            "spec": {"queueName": "user-queue", "podSets": [pod_set], **spec},
        }
        await self.client.create(WORKLOADS, body, self.namespace)
        await self.calm()

    async def calm(self) -> None:
        """Until nothing was written for a while."""
        before = -1
        while before != (before := sum(len(v) for v in self.versions.values())):
            await asyncio.sleep(0.03)

    def now(self, name: str) -> dict[str, str]:
        """Condition type to reason, with `!` before those that are False."""
        status = self.versions[name][-1].get("status", {})
        return {
            c["type"]: ("" if c["status"] == "True" else "!") + c["reason"]
            for c in status.get("conditions", ())
        }

    def message(self, name: str, kind: str = "QuotaReserved") -> str:
        status = self.versions[name][-1]["status"]
        return str(next(c["message"] for c in status["conditions"] if c["type"] == kind))

    async def status(self, name: str, conditions: dict[str, str], **more: Any) -> None:
        """Merge conditions (reason, `!` for False) and other fields into the status."""
        found = {c["type"]: c for c in self.versions[name][-1]["status"].get("conditions", ())}
        for kind, reason in conditions.items():
            found[kind] = {
                "type": kind,
                "status": "False" if reason.startswith("!") else "True",
                "reason": reason.lstrip("!"),
                "message": "",
                "lastTransitionTime": "2026-11-21T00:00:00Z",
            }
        patch = {"status": {"conditions": list(found.values()), **more}}
        await self.client.patch(WORKLOADS, name, patch, self.namespace, sub="status")
        await self.calm()

    async def release(self, name: str, **more: str) -> None:
        """What the owner of pods does after an eviction."""
        conditions = {"QuotaReserved": "!Pending", "Admitted": "!NoReservation", **more}
        await self.status(name, conditions, admission=None)

    async def spec(self, name: str, **spec: Any) -> None:
        await self.client.patch(WORKLOADS, name, {"spec": spec}, self.namespace)
        await self.calm()


@pytest.fixture
async def story(cluster: SimCluster, client: Client) -> Story:
    return Story(client, cluster)


async def test_the_recorded_story_has_the_same_statuses(
    cluster: SimCluster, client: Client
) -> None:
    """Every version of both Workloads, times aside, manager names included."""
    items = [x for x in lines(RECORDING) if x["resource"] in ("user", "workloads", "pods")]
    space = next(x["object"] for x in items if x["resource"] == "workloads")["metadata"]
    namespace = space["namespace"]
    await client.create("namespaces", {"metadata": {"name": namespace}})
    story = Story(client, cluster, namespace)
    await story.queue(name=f"cq-{namespace}")
    boss = owner(await client.create("pods", pod("owner", gates=("x/y",)), namespace))
    pairs = Pairs()
    recorded: dict[str, list[dict[str, Any]]] = {}

    def following(place: int, name: str) -> dict[str, Any]:
        return next(
            x["object"]
            for x in items[place:]
            if x["resource"] == "workloads" and x["object"]["metadata"]["name"] == name
        )

    for place, item in enumerate(items):
        found = item["object"]
        if item["resource"] == "workloads" and item["type"] != "DELETED":
            recorded.setdefault(found["metadata"]["name"], []).append(found)
        if item["resource"] != "user":
            continue
        match found["action"].split():
            case ["create", "workload", name]:
                wanted = following(place, name)
                meta = {"name": name, "ownerReferences": [boss]}
                body = {"metadata": meta, "spec": wanted["spec"]}
                got = await client.create(WORKLOADS, body, namespace)
                pairs.learn(wanted, got)
            case ["release", "quota", *_]:
                status = following(place, "low")["status"]
                patch = {"conditions": pairs.translate(status["conditions"]), "admission": None}
                await _status(client, namespace, "low", patch)
            case ["finish", name]:
                conditions = following(place, name)["status"]["conditions"]
                patch = {"conditions": pairs.translate(conditions)}
                await _status(client, namespace, name, patch)
            case ["reclaim", *_]:
                status = following(place, "low")["status"]
                await _status(
                    client, namespace, "low", {k: status[k] for k in ("reclaimablePods",)}
                )
            case ["delete", "owner", "pod"]:
                await client.delete("pods", "owner", namespace)
        await story.calm()
    (core,) = cluster.controllers
    assert isinstance(core, KueueCore) and sum(core.used[f"cq-{namespace}"].values()) == 0
    for name, then in recorded.items():
        ours = story.versions[name][:-1]  # the last is the deletion by garbage collection
        assert [_essence(o) for o in ours] == [_essence(pairs.translate(w)) for w in then], name


async def _status(client: Client, namespace: str, name: str, status: dict[str, Any]) -> None:
    await client.patch(
        WORKLOADS, name, {"status": status}, namespace, sub="status", fieldManager="Python"
    )


def _essence(workload: dict[str, Any]) -> dict[str, Any]:
    entries = workload["metadata"]["managedFields"]
    managers = {(e["manager"], e["operation"], e.get("subresource", "")) for e in entries}
    managers = {m for m in managers if m[2]}
    return {"status": comparable(workload.get("status", {})), "managers": managers}


async def test_priority_then_age_and_what_does_not_fit_is_passed_over(story: Story) -> None:
    await story.queue()
    await story.workload("hog", "9", priority=5)
    await story.workload("big", "5")
    await story.workload("older")
    await story.workload("newer")
    await story.workload("important", priority=1)
    assert story.now("big") == {"QuotaReserved": "!WaitingForQuota", "Admitted": "!NoReservation"}
    assert story.now("older")["Admitted"] == "Admitted"
    assert story.now("newer")["QuotaReserved"] == "!WaitingForQuota"
    assert story.message("newer").endswith("for cpu in flavor lab-flavor, 1 more needed")
    await story.status("hog", {"Finished": "Succeeded"})
    assert story.now("big")["Admitted"] == "Admitted"
    assert story.now("important")["Admitted"] == "Admitted"


async def test_strict_fifo_lets_nobody_past(story: Story) -> None:
    await story.queue(queueingStrategy="StrictFIFO")
    await story.workload("hog", "9", priority=5)
    await story.workload("big", "5", priority=1)
    await story.workload("small")
    assert story.now("big")["QuotaReserved"] == "!WaitingForQuota"
    assert story.now("small") == {}, "nobody has looked at it"
    await story.status("hog", {"Finished": "Succeeded"})
    assert story.now("small")["Admitted"] == "Admitted"


async def test_what_exceeds_the_quota_is_told_so(story: Story) -> None:
    await story.queue("4")
    await story.workload("huge", "5")
    assert story.now("huge")["QuotaReserved"] == "!ExceedsMaxQuota"
    assert "current podset request (5) > maximum capacity (4)" in story.message("huge")


async def test_the_fewest_go_and_their_quota_stays_until_their_owner_gives_it_up(
    story: Story,
) -> None:
    await story.queue()
    for name, cpu, priority in (("a", "4", 0), ("b", "3", 1), ("c", "3", 1)):
        await story.workload(name, cpu, priority=priority)
    await story.workload("high", "4", priority=9)
    evicted = [n for n in "abc" if story.now(n).get("Evicted") == "Preempted"]
    assert evicted == ["a"], "the least important one is enough"
    assert story.now("a")["Preempted"] == "InClusterQueue"
    assert story.now("a")["QuotaReserved"] == "QuotaReserved"
    assert story.now("high")["QuotaReserved"] == "!WaitingForPreemptedWorkloads"
    await story.workload("small", "0", priority=1)
    assert story.now("small") == {}, "whoever waits for his own preemptions blocks the queue"
    await story.release("a", Requeued="Preempted")
    assert story.now("high")["Admitted"] == "Admitted"
    assert story.now("a")["QuotaReserved"] == "!WaitingForQuota"
    await story.status("high", {"Finished": "Succeeded"})
    assert story.now("a")["Evicted"] == "!QuotaReserved"
    assert story.message("a", "Preempted").startswith("Previously: Preempted to accommodate")


async def test_who_need_not_go_is_put_back(story: Story) -> None:
    await story.queue()
    await story.workload("tiny", "1")
    await story.workload("large", "9", priority=1)
    await story.workload("high", "9", priority=9)
    assert "Evicted" not in story.now("tiny"), "taken first, but without need"
    assert story.now("large")["Evicted"] == "Preempted"


async def test_equals_are_not_preempted(story: Story) -> None:
    await story.queue("1")
    await story.workload("first", priority=3)
    await story.workload("second", priority=3)
    assert "Evicted" not in story.now("first")
    assert story.now("second")["QuotaReserved"] == "!WaitingForQuota"


async def test_short_of_pods_or_not_to_be_requeued_stays_out(story: Story) -> None:
    await story.queue("1")
    await story.workload("w")
    await story.workload("rival", priority=9)
    short = {"WaitingForReplacementPods": "Preempted", "Requeued": "Preempted"}
    await story.release("w", **short)
    await story.status("rival", {"Finished": "Succeeded"})
    assert story.now("w")["QuotaReserved"] == "!Pending", "nobody looks at it"
    await story.status("w", {"WaitingForReplacementPods": "!PodsReady", "Requeued": "!Preempted"})
    assert story.now("w")["QuotaReserved"] == "!PendingEvaluation"
    await story.status("w", {"Requeued": "Preempted"})
    assert story.now("w")["Admitted"] == "Admitted"


async def test_who_queues_already_stays_when_it_becomes_short_of_pods(story: Story) -> None:
    await story.queue("1")
    await story.workload("hog")
    await story.workload("w")
    await story.status("w", {"WaitingForReplacementPods": "PodsFailed"})
    await story.status("hog", {"Finished": "Succeeded"})
    assert story.now("w")["Admitted"] == "Admitted"


async def test_deactivation_frees_quota_at_once_and_can_be_taken_back(story: Story) -> None:
    await story.queue("1")
    await story.workload("w")
    await story.workload("next")
    await story.spec("w", active=False)
    assert story.now("w")["Evicted"] == "Deactivated"
    assert story.message("w", "Evicted") == "The workload is deactivated"
    assert story.now("next")["Admitted"] == "Admitted"
    await story.release("w", Requeued="!Deactivated")
    await story.status("next", {"Finished": "Succeeded"})
    assert story.now("w")["Admitted"] == "!NoReservation"
    await story.spec("w", active=True)
    assert story.now("w")["Requeued"] == "Reactivated"
    assert story.now("w")["Admitted"] == "Admitted"


async def test_a_stopped_queue_drains_and_starts_again(story: Story) -> None:
    await story.queue("1")
    await story.workload("w")
    stop = {"spec": {"stopPolicy": "HoldAndDrain"}}
    await story.client.patch(KIND("clusterqueues"), "cq", stop)
    await story.calm()
    assert story.now("w")["Evicted"] == "ClusterQueueStopped"
    await story.release("w", Requeued="!ClusterQueueStopped")
    await story.client.patch(KIND("clusterqueues"), "cq", {"spec": {"stopPolicy": None}})
    await story.calm()
    assert story.now("w")["Requeued"] == "ClusterQueueRestarted"
    assert story.now("w")["Admitted"] == "Admitted"


async def test_queues_that_come_late_and_namespaces_that_do_not_match(story: Story) -> None:
    await story.workload("w")
    assert story.message("w") == "LocalQueue user-queue doesn't exist"
    await story.queue(namespaceSelector={"matchLabels": {"team": "a"}})
    await story.calm()
    assert "doesn't match ClusterQueue selector" in story.message("w")
    await story.client.patch("namespaces", NS, {"metadata": {"labels": {"team": "a"}}})
    await story.calm()
    assert story.now("w")["Admitted"] == "Admitted"


async def test_flavors_go_by_order_taint_and_selector(story: Story) -> None:
    flavors = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": "2"}]}
        for name in ("tainted", "spot", "reserved")
    ]
    await story.queue(resourceGroups=[{"coveredResources": ["cpu"], "flavors": flavors}])
    taint = {"key": "t", "value": "v", "effect": "NoSchedule"}
    for name, spec in (
        ("tainted", {"nodeTaints": [taint]}),
        ("spot", {"nodeLabels": {"kind": "spot"}}),
        ("reserved", {"nodeLabels": {"kind": "reserved"}}),
    ):
        body = {"metadata": {"name": name}, "spec": spec}
        await story.client.create(KIND("resourceflavors"), body)
    await story.workload("a", "2")
    await story.workload("b", "2")
    chosen = [
        story.versions[n][-1]["status"]["admission"]["podSetAssignments"][0]["flavors"]["cpu"]
        for n in ("a", "b")
    ]
    assert chosen == ["spot", "reserved"]
    await story.workload("c", "2")
    assert "untolerated taint t in flavor tainted" in story.message("c")


async def test_reclaimable_pods_free_quota_and_never_come_back(story: Story) -> None:
    await story.queue("2")
    await story.workload("w", count=2)
    await story.workload("next")
    assert story.now("next")["QuotaReserved"] == "!WaitingForQuota"
    await story.status("w", {}, reclaimablePods=[{"name": "main", "count": 1}])
    assert story.now("next")["Admitted"] == "Admitted"
    for wrong, text in (
        ([], "cannot be removed"),
        ([{"name": "main", "count": 3}], "less or equal"),
    ):
        with pytest.raises(ApiFailure, match=text):
            await story.status("w", {}, reclaimablePods=wrong)


async def test_what_holds_quota_is_protected(story: Story) -> None:
    await story.queue()
    await story.workload("w")
    with pytest.raises(ApiFailure, match="immutable"):
        await story.spec("w", podSets=[])
    admission = {"clusterQueue": "other", "podSetAssignments": []}
    with pytest.raises(ApiFailure, match="immutable"):
        await story.status("w", {}, admission=admission)
    with pytest.raises(ApiFailure, match="must be set while quota is reserved"):
        await story.status("w", {}, admission=None)


async def test_without_the_setting_nobody_admits() -> None:
    async with SimCluster(Settings()) as cluster, Client(cluster.url, cluster.token) as client:
        story = Story(client, cluster)
        await story.queue()
        await story.workload("w")
        assert story.now("w") == {}
