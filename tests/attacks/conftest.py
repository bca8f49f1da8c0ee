"""What every attack needs: gatelog on a cluster, an observer, and a bystander.

The cluster is the stand-in, with `gatelog up` on it; or the one that GATELOG_TEST_KUBECONFIG names,
with the three parts, each with the rights of its own account (`tests.support.realcluster`).

`setup` says how admission is installed. `attack` gives a test its own namespace with a quota of
ten CPUs, an API client with all rights (an attacker who got past RBAC and admission), and at the
end holds the two rules that every attack must leave standing.
"""

import uuid
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.attacks.observer import Observer, asks_milli_cpu, runs
from tests.support.processes import KUEUE, Api, make_queue, pod
from tests.support.realcluster import until_lenient
from tests.support.stack import Stack, running_stack

CPUS = 10
"""Quota of an attacked namespace."""
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


class Attack:
    """One attack: whoever writes through `api` may do anything in `namespace`."""

    def __init__(self, stack: Stack, api: Api, observer: Observer, namespace: str) -> None:
        self.stack = stack
        self.api = api
        self.observer = observer
        self.namespace = namespace

    @property
    def base(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    async def create(
        self,
        name: str,
        group: str = "",
        total: int = 0,
        *,
        cpu: str = "1",
        script: str = "run=forever",
        labels: dict[str, str] | None = None,
        **spec: Any,
    ) -> dict[str, Any]:
        """Create a pod as a user does; `spec` are more fields of its spec."""
        body = pod(name, group, total, cpu, script=script, labels=labels)
        body["spec"] |= spec
        found: dict[str, Any] = await self.api.call("POST", self.base, body)
        return found

    async def patch(self, name: str, body: Any, subresource: str = "", **more: Any) -> Any:
        path = f"{self.base}/{name}" + (f"/{subresource}" if subresource else "")
        return await self.api.merge(path, body, **more)

    async def delete(self, name: str, **options: Any) -> Any:
        return await self.api.call("DELETE", f"{self.base}/{name}", options or None)

    async def ungate(self, name: str) -> None:
        """Take all gates off, as a user who wants to run now."""
        await self.patch(name, {"spec": {"schedulingGates": None}})

    async def get(self, name: str) -> dict[str, Any] | None:
        return (await self.api.pods(self.namespace)).get(name)

    async def until_running(self, *names: str) -> None:
        async def all_run() -> bool:
            found = await self.api.pods(self.namespace)
            return all(
                name in found and found[name]["status"].get("phase") == "Running" for name in names
            )

        await self.api.until(f"{', '.join(names)} run", all_run)

    async def until_waiting(self, name: str) -> None:
        """Wait until a group or single pod is known to wait for quota."""

        async def waits() -> bool:
            return self.group(name).get("state") == "Queued"

        await self.api.until(f"{name} waits", waits)

    def group(self, name: str) -> dict[str, Any]:
        """The newest life of a group or single pod in the read model."""
        rows = self.stack.sql(
            "SELECT * FROM groups WHERE namespace = ? AND name = ? ORDER BY created_seq DESC",
            self.namespace,
            name,
        )
        return rows[0] if rows else {}

    def holders(self) -> list[str]:
        """Groups and single pods that hold quota, as the read model says."""
        rows = self.stack.sql(
            "SELECT g.name FROM admissions a JOIN groups g ON g.id = a.group_id "
            "WHERE g.namespace = ? AND a.released_at IS NULL ORDER BY g.name",
            self.namespace,
        )
        return [row["name"] for row in rows]

    def history(self, name: str) -> str:
        return " ".join(self.stack.command("history", f"{self.namespace}/{name}").stdout.split())

    def why(self, name: str) -> str:
        return " ".join(self.stack.command("why", f"{self.namespace}/{name}").stdout.split())

    async def workload(self, name: str) -> dict[str, Any] | None:
        path = f"{KUEUE}/namespaces/{self.namespace}/workloads/{name}"
        found = await self.api.call("GET", path, ok=())
        return found if found.get("kind") == "Workload" else None

    async def without_refusals(self) -> None:
        """Take away what refuses at the door: the attack got past admission."""
        for path in (HOOKS, POLICIES):
            found = await self.api.call("GET", path)
            for one in found["items"]:
                await self.api.call("DELETE", f"{path}/{one['metadata']['name']}")
        await until_lenient(self.api)


SLOW = pytest.mark.slow(
    "the same attack where a policy refuses: tests/webhook and test_other_ways have policies"
)


@pytest.fixture(scope="module", params=["webhook", pytest.param("policy", marks=SLOW)])
def setup(request: pytest.FixtureRequest) -> str:
    """How admission is installed: what `gatelog up --install` is told."""
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def stack(setup: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("attack"), install=setup) as one:
        yield one


@pytest.fixture
async def attack(stack: Stack, request: pytest.FixtureRequest) -> AsyncIterator[Attack]:
    namespace = f"attack-{zlib.crc32(request.node.nodeid.encode()):08x}-{uuid.uuid4().hex[:4]}"
    async with stack.api() as api, Observer(*stack.server) as observer:
        await make_queue(api, namespace, cpu=str(CPUS))
        observer.limit(namespace, CPUS)
        stranger = await _stranger(api, f"stranger-to-{namespace}")
        one = Attack(stack, api, observer, namespace)
        yield one
        assert observer.over == [], "more ran than the quota allows"
        title = f"default/{stranger}"
        left = await api.pods("default")
        assert stranger in left and runs(left[stranger]), "somebody else's pod was stopped"
        written = observer.changes[title][_OWN:]
        assert written == [], f"somebody else's pod was written: {written}"
        await stack.clear(api, namespace)


_OWN = 3
"""Events that a pod goes through by itself: created, bound, running."""


async def _stranger(api: Api, name: str) -> str:
    """A pod that names no queue and bears nothing of ours: nobody but its owner may write to it."""
    body = pod(name, script="run=forever")
    del body["metadata"]["labels"]
    await api.call("POST", "/api/v1/namespaces/default/pods", body)

    async def there() -> bool:
        return (await api.pods("default"))[name]["status"].get("phase") == "Running"

    await api.until(f"{name} runs", there)
    return name


__all__ = ["Attack", "asks_milli_cpu", "runs"]
