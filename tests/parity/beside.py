"""`python -m tests.parity.beside NAME=KUBECONFIG ...`: the same pods on several real clusters.

Each cluster is a Kubernetes API server with scheduler, without kubelets, and one controller of pods
with builtin queues: the first is the one that the others are held against (Kueue with its pod
integration), the others run gatelog. Every scenario has nodes, a queue and a namespace of its own,
so that scenarios run side by side. Printed is a line per scenario and cluster: `equal`, the rows of
docs/differences.md that explain what differs, or `DIFFERS` with both outcomes. The exit status is
the number of the last kind.

Invariant: an outcome is read from the cluster alone, from pods and Workloads, the same way for all.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from podgroup.model.topology_json import read
from tests.conformance.lab import MERGE, Lab
from tests.support.processes import KUEUE, server_of

HOST = "kubernetes.io/hostname"
RACK = "example.com/rack"
BLOCK = "example.com/block"
ASKS = "kueue.x-k8s.io/podset-"
INDEX = "kueue.x-k8s.io/pod-group-pod-index"
CONDITIONS = ("QuotaReserved", "Admitted", "Evicted", "Finished")
AT_ONCE = 5  # scenarios

Scenario = Callable[["World"], Awaitable[None]]
SCENARIOS: dict[str, tuple[Scenario, str]] = {}


def scenario(rows: str = "") -> Callable[[Scenario], Scenario]:
    """Keep a scenario with the rows that may explain a difference, by space."""

    def keep(play: Scenario) -> Scenario:
        SCENARIOS[play.__name__.replace("_", "-")] = (play, rows)
        return play

    return keep


class World:
    """One scenario on one cluster: two blocks of two racks of two nodes of four cpu."""

    def __init__(self, name: str, server: str, token: str) -> None:
        self.name = name
        self.lab = Lab(server, token, f"beside-{name}", settle=4.0)
        self.ranked = False
        self.kept: dict[str, Any] = {}

    async def call(self, method: str, path: str, body: Any = None, *, ok: Any = None) -> Any:
        headers = MERGE if method == "PATCH" else {"Content-Type": "application/json"}
        data = None if body is None else json.dumps(body)
        url = f"{self.lab.server}{path}"
        return (await self.lab.req(method, url, ok=ok, data=data, headers=headers))[1]

    async def make(self, plural: str, kind: str, spec: Any, namespace: str = "") -> None:
        path = f"{KUEUE}/namespaces/{namespace}/{plural}" if namespace else f"{KUEUE}/{plural}"
        name = "user-queue" if namespace else f"beside-{self.name}"
        body = {
            "apiVersion": KUEUE.removeprefix("/apis/"),
            "kind": kind,
            "metadata": {"name": name},
        }
        await self.call("POST", path, body | {"spec": spec})

    async def start(self) -> None:
        own = f"beside-{self.name}"
        await self.lab.start()
        levels = [{"nodeLabel": level} for level in (BLOCK, RACK, HOST)]
        await self.make("topologies", "Topology", {"levels": levels})
        flavor = {"nodeLabels": {"pool": own}, "topologyName": own}
        await self.make("resourceflavors", "ResourceFlavor", flavor)
        quota = [{"name": own, "resources": [{"name": "cpu", "nominalQuota": "100"}]}]
        queue = {
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quota}],
        }
        await self.make("clusterqueues", "ClusterQueue", queue)
        await self.make("localqueues", "LocalQueue", {"clusterQueue": own}, own)
        high = {"metadata": {"name": "beside-high"}, "value": 100}
        await self.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", high)
        for place in (f"{b}{r}{n}" for b in "ab" for r in "01" for n in "01"):
            await self.node(place)
        await asyncio.sleep(1.5)

    def full(self, place: str) -> str:
        return f"{self.name}-{place}"

    async def node(self, place: str, cpu: str = "4") -> None:
        """Add a node whose name says where it is: block, rack, number."""
        name = self.full(place)
        labels = {"pool": f"beside-{self.name}", BLOCK: place[:1], RACK: place[:2], HOST: name}
        await self.call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        size = {"cpu": cpu, "memory": "64Gi", "pods": "20"}
        status: dict[str, Any] = {"capacity": size, "allocatable": size}
        await self.spec(place, taints=None)
        await self.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})
        await self.ready(place, True)

    async def ready(self, place: str, is_ready: bool) -> None:
        said = {"type": "Ready", "status": "True" if is_ready else "False", "reason": "Beside"}
        body = {"status": {"conditions": [said]}}
        await self.call("PATCH", f"/api/v1/nodes/{self.full(place)}/status", body)

    async def spec(self, place: str, **fields: Any) -> None:
        await self.call("PATCH", f"/api/v1/nodes/{self.full(place)}", {"spec": fields})

    async def remove(self, place: str) -> None:
        await self.call("DELETE", f"/api/v1/nodes/{self.full(place)}")

    async def group(self, name: str, *roles: tuple[int, str, dict[str, str]], **more: Any) -> None:
        """Create a group of roles: each a count, a cpu request, and what it asks of topology."""
        total = sum(count for count, _, _ in roles)
        number = 0
        for count, cpu, asks in roles:
            annotations = {ASKS + key: value for key, value in asks.items()}
            for _ in range(count):
                await self.pod(f"{name}-{number}", name, total, cpu, annotations, **more)
                number += 1
        await self.lab.settle(limit=25)

    async def pod(
        self, name: str, group: str, total: int, cpu: str, annotations: dict[str, str], **more: Any
    ) -> None:
        ranks: dict[str, str] = more.get("ranks", {})
        labels = {INDEX: ranks[name]} if name in ranks else {}
        spec = {"priorityClassName": more["priority"]} if "priority" in more else {}
        self.ranked = self.ranked or bool(ranks)
        await self.lab.pod(
            name, group, total, cpu, labels=labels, annotations=annotations, spec=spec, ok=None
        )

    def on(self, place: str) -> list[str]:
        """The names of the pods that a node has."""
        name = self.full(place)
        return sorted(n for n, o in self.lab.pods.items() if o["spec"].get("nodeName") == name)

    async def fail(self, *pods: str) -> None:
        for pod in pods:
            await self.lab.set_phase(pod, "Failed", ok=None)

    async def replace(self, *pods: str) -> None:
        """Create for each a pod that is like it, as the owner of a failed one does."""
        for pod in pods:
            old = self.lab.pods[pod]
            meta = old["metadata"]
            asks = {k: v for k, v in meta["annotations"].items() if k.startswith(ASKS)}
            total = int(meta["annotations"]["kueue.x-k8s.io/pod-group-total-count"])
            cpu = old["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            new = f"{pod}-new"
            rank = {new: meta["labels"][INDEX]} if INDEX in meta["labels"] else {}
            group = meta["labels"]["kueue.x-k8s.io/pod-group-name"]
            await self.pod(new, group, total, cpu, asks, ranks=rank)
        await self.lab.settle(limit=25)

    async def placed(self, group: str) -> None:
        """Wait until a group is admitted; Kueue collects changes of nodes while more arrive."""
        await self.lab.until("admitted", lambda: self.lab.cond(group, "Admitted") == "True", 30)
        await self.lab.settle(limit=25)

    def places(self, workload: Any) -> list[dict[str, int]]:
        found = []
        for one in workload.get("status", {}).get("admission", {}).get("podSetAssignments", []):
            place = read(one["topologyAssignment"]) if "topologyAssignment" in one else None
            domains = place.domains if place is not None else ()
            found.append({d.values[-1].removeprefix(f"{self.name}-"): d.count for d in domains})
        return found

    def pods(self) -> dict[str, Any]:
        """Where pods are: each by name where they have ranks, else how many a node has."""
        found = {}
        for name, pod in sorted(self.lab.pods.items()):
            if pod["status"]["phase"] in ("Failed", "Succeeded"):
                continue
            node = pod["spec"].get("nodeName", "").removeprefix(f"{self.name}-")
            found[name] = node or ("gated" if pod["spec"].get("schedulingGates") else "unbound")
        if self.ranked:
            return found
        return dict(sorted(Counter(f"{n.split('-')[0]} {at}" for n, at in found.items()).items()))

    def outcome(self) -> dict[str, Any]:
        workloads = {}
        for name, workload in sorted(self.lab.wls.items()):
            said = {
                c["type"]: [c["status"], c["reason"], c["message"].replace(f"{self.name}-", "")]
                for c in workload.get("status", {}).get("conditions", [])
                if c["type"] in CONDITIONS
            }
            workloads[name] = {"places": self.places(workload), "conditions": said}
        return {"pods": self.pods(), "workloads": workloads}

    def keep(self, moment: str) -> None:
        """Take the outcome of a moment before the end."""
        self.kept[moment] = self.outcome()

    async def stop(self) -> dict[str, Any]:
        kept = self.kept | {"end": self.outcome()}
        own = f"beside-{self.name}"
        for place in (n for b in "ab" for r in "01" for n in (f"{b}{r}0", f"{b}{r}1", f"{b}{r}2")):
            await self.remove(place)
        await self.call("DELETE", f"{KUEUE}/namespaces/{own}/localqueues/user-queue")
        for plural in ("clusterqueues", "resourceflavors", "topologies"):
            await self.call("DELETE", f"{KUEUE}/{plural}/{own}")
        await self.call("DELETE", f"/api/v1/namespaces/{own}")
        await self.lab.stop()
        return kept


def asks(**what: str) -> dict[str, str]:
    """Annotations: `required=RACK` is podset-required-topology, `slice_size` podset-slice-size."""
    levels = {"required", "preferred", "unconstrained", "slice_required"}
    return {k.replace("_", "-") + ("-topology" if k in levels else ""): v for k, v in what.items()}


@scenario()
async def required_rack(w: World) -> None:
    await w.group("a", (6, "1", asks(required=RACK)))
    await w.group("b", (2, "1", asks(required=RACK)))


@scenario()
async def required_block(w: World) -> None:
    await w.group("a", (12, "1", asks(required=BLOCK)))


@scenario()
async def required_host(w: World) -> None:
    await w.group("a", (2, "1", asks(required=HOST)))
    await w.group("b", (3, "1", asks(required=HOST)))
    await w.group("c", (2, "1", asks(required=HOST)))


@scenario("P6")
async def preferred_rack(w: World) -> None:
    await w.group("a", (10, "1", asks(preferred=RACK)))


@scenario("P6")
async def preferred_rack_over_blocks(w: World) -> None:
    await w.group("a", (3, "1", asks(required=RACK)))
    await w.group("b", (20, "1", asks(preferred=RACK)))


@scenario("P5")
async def unconstrained(w: World) -> None:
    await w.group("a", (1, "1", asks(required=HOST)))
    await w.group("b", (6, "1", asks(unconstrained="true")))


@scenario("P5")
async def nothing_asked(w: World) -> None:
    await w.group("a", (1, "1", asks(required=HOST)))
    await w.group("b", (5, "1", {}))


@scenario("P5")
async def slices(w: World) -> None:
    await w.group("a", (2, "1", asks(required=HOST)))
    await w.group("b", (8, "1", asks(required=BLOCK, slice_required=RACK, slice_size="4")))


@scenario("P2")
async def slice_larger_than_group(w: World) -> None:
    await w.group("a", (2, "1", asks(required=BLOCK, slice_required=RACK, slice_size="4")))


@scenario("P3")
async def pods_beside_slices(w: World) -> None:
    await w.group("a", (6, "1", asks(required=BLOCK, slice_required=HOST, slice_size="4")))


@scenario()
async def two_pod_sets(w: World) -> None:
    await w.group("a", (4, "1", asks(required=RACK)), (2, "2", asks(required=RACK)))


@scenario()
async def leader_and_workers(w: World) -> None:
    one = asks(required=RACK, group_name="all")
    await w.group("a", (1, "2", one), (5, "1", one))


@scenario()
async def larger_than_a_rack(w: World) -> None:
    await w.group("a", (9, "1", asks(required=RACK)))
    await w.group("b", (40, "1", asks(preferred=RACK)))


@scenario()
async def ranks(w: World) -> None:
    numbers = {f"a-{i}": str(7 - i) for i in range(8)}
    await w.group("a", (8, "1", asks(required=BLOCK)), ranks=numbers)


@scenario("P7")
async def one_wrong_rank(w: World) -> None:
    numbers = {f"a-{i}": str(7 - i) for i in range(8)} | {"a-0": "1"}
    await w.group("a", (8, "1", asks(required=BLOCK)), ranks=numbers)


@scenario()
async def failed_pod_replaced(w: World) -> None:
    await w.group("a", (6, "1", asks(required=RACK)), ranks={f"a-{i}": str(i) for i in range(6)})
    await w.fail("a-2")
    await w.replace("a-2")


async def lose(w: World, how: str, size: int) -> None:
    """A group has a rack; its first node fails, then its pods there, and they are replaced."""
    await w.group("a", (size, "1", asks(required=RACK)))
    w.keep("placed")
    if how == "deleted":
        await w.remove("a00")
    elif how == "tainted":
        await w.spec("a00", taints=[{"key": "broken", "value": "yes", "effect": "NoSchedule"}])
    else:
        await w.ready("a00", False)
    await w.lab.settle(limit=25)
    w.keep("node lost")
    lost = w.on("a00")
    await w.fail(*lost)
    await w.lab.settle(limit=25)
    w.keep("pods lost")
    await w.replace(*lost)


@scenario()
async def node_not_ready(w: World) -> None:
    await w.node("a02")
    await lose(w, "not ready", 8)


@scenario()
async def node_tainted(w: World) -> None:
    await w.node("a02")
    await lose(w, "tainted", 8)


@scenario()
async def node_deleted(w: World) -> None:
    await w.node("a02")
    await lose(w, "deleted", 8)


@scenario()
async def node_deleted_no_room(w: World) -> None:
    await lose(w, "deleted", 8)


@scenario()
async def node_not_ready_no_room(w: World) -> None:
    await lose(w, "not ready", 8)


@scenario("P1")
async def two_nodes_deleted(w: World) -> None:
    await w.node("a02")
    await w.node("a12")
    await w.group("a", (8, "1", asks(preferred=RACK)))
    for place in sorted({p for one in w.places(w.lab.wls["a"]) for p in one}):
        await w.remove(place)
    await w.lab.settle(limit=25)


@scenario()
async def cordoned_while_waiting(w: World) -> None:
    for place in ("a00", "a10", "b00", "b10"):
        await w.spec(place, unschedulable=True)
    await asyncio.sleep(2)
    await w.group("a", (6, "1", asks(required=RACK)))
    w.keep("cordoned")
    await w.spec("b10", unschedulable=None)
    await w.placed("a")


@scenario()
async def node_joins(w: World) -> None:
    await w.group("a", (10, "1", asks(required=RACK)))
    w.keep("waits")
    await w.node("b12")
    await w.placed("a")


@scenario("P9")
async def groups_compete(w: World) -> None:
    for name in "abcde":
        await w.group(name, (5, "1", asks(required=RACK)))
    w.keep("one waits")
    for pod in [n for n in w.lab.pods if n.startswith("b-")]:
        await w.lab.set_phase(pod, "Succeeded", ok=None)
    await w.placed("e")


@scenario()
async def preemption_for_a_place(w: World) -> None:
    for name in "abcd":
        await w.group(name, (7, "1", asks(required=RACK)))
    await w.group("e", (6, "1", asks(required=RACK)), priority="beside-high")


async def run(name: str, cluster: tuple[str, str], gate: asyncio.Semaphore) -> Any:
    async with gate:
        world = World(name, *cluster)
        await world.start()
        try:
            await SCENARIOS[name][0](world)
        finally:
            kept = await world.stop()
        return kept


def known(workload: Any) -> Any:
    """The conditions that are compared.

    Those that are True, whatever their message says of times, and why it waits. What an evicted
    group waits for, and Admitted before it ever was True, are known differences without a number.
    """
    conditions = workload["conditions"]
    evicted = conditions.get("Evicted", ["False"])[0] == "True"
    said = {k: v[:2] for k, v in conditions.items() if v[0] == "True"}
    if "QuotaReserved" not in said and not evicted:
        said["QuotaReserved"] = conditions.get("QuotaReserved", [])
    return workload | {"conditions": said}


def same(one: Any, other: Any) -> bool:
    """Whether two moments are equal; the messages of `other` may say more than those of `one`."""
    if one["pods"] != other["pods"] or one["workloads"].keys() != other["workloads"].keys():
        return False
    for name, workload in one["workloads"].items():
        mine, theirs = known(workload), known(other["workloads"][name])
        why, said = (w["conditions"].pop("QuotaReserved", []) for w in (mine, theirs))
        if mine != theirs or why[:2] != said[:2]:
            return False
        if why[2:] and why[2] not in said[2]:
            return False
    return True


async def main(named: list[str]) -> int:
    only = [a for a in named if "=" not in a] or list(SCENARIOS)
    clusters = {k: server_of(Path(v)) for k, v in (a.split("=") for a in named if "=" in a)}
    gates = {c: asyncio.Semaphore(AT_ONCE) for c in clusters}
    jobs = {
        (s, c): asyncio.ensure_future(run(s, at, gates[c]))
        for s in only
        for c, at in clusters.items()
    }
    first, *others = clusters
    unexplained = 0
    for one in only:
        wanted = await jobs[one, first]
        for other in others:
            found = await jobs[one, other]
            rows = SCENARIOS[one][1]
            equal = all(same(wanted[m], found[m]) for m in wanted)
            verdict = "equal" if equal else rows or "DIFFERS"
            unexplained += verdict == "DIFFERS"
            print(f"{one:28} {other:10} {verdict}", flush=True)
            if verdict != "equal":
                show(first, wanted, other, found)
    return unexplained


def show(first: str, wanted: Any, other: str, found: Any) -> None:
    for moment in wanted:
        if not same(wanted[moment], found[moment]):
            print(f"    {moment}: {first}: {json.dumps(wanted[moment])}")
            print(f"    {moment}: {other}: {json.dumps(found[moment])}")


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
