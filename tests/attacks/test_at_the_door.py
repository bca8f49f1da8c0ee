"""What admission refuses of users and of gatelog's own account, by webhook and policy.

Nothing of gatelog runs here but what stands at the door: the policies as `up --install` makes them,
evaluated by the API server, or the webhook over HTTPS. Users have tokens and roles of their own.
The API server is the stand-in, or the real one that GATELOG_TEST_KUBECONFIG names.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from gatelog.cluster import install
from ingest.registration import webhook
from podgroup.model import names
from runtime.kube import connect
from runtime.settings import KubernetesSettings, Settings, WebhookSettings
from simcluster import Settings as SimSettings
from simcluster.access import User
from simcluster.client import ApiFailure, Client
from tests.attacks import chains
from tests.support import realcluster
from tests.support.processes import Api, server_of
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

ACTUATOR = "system:serviceaccount:gatelog-system:gatelog-actuator"
JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
GATE = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
QUEUED = {names.QUEUE_NAME: "q", "mine": "1"}


EVERYTHING = {
    "metadata": {"name": "everything"},
    "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
}
"""Rights are no bar here: what is refused is refused by admission."""
FOR_ALL = {
    "metadata": {"name": "for-all"},
    "roleRef": {"kind": "ClusterRole", "name": "everything"},
    "subjects": [{"kind": "Group", "name": "system:authenticated"}],
}


class Door(NamedTuple):
    """An API server behind an installed admission, and clients for those who knock."""

    admin: Client
    user: Client
    actuator: Client

    async def queued(self, name: str = "p", **metadata: Any) -> dict[str, Any]:
        """A pod in a queue, as its user makes it."""
        found: dict[str, Any] = await self.user.create("pods", pod(name, **metadata), "default")
        return found

    async def pods(self) -> set[str]:
        """Names of the pods that are there, but for those of other tests."""
        found = [*(await self.admin.list("pods", "default"))["items"]]
        found += (await self.admin.list("pods", "kube-system"))["items"]
        return {p["metadata"]["name"] for p in found if p["spec"].get("schedulerName") == NOBODY}


NOBODY = "nobody"
"""A scheduler that is not there: pods here are never bound, so a deletion ends them at once."""


def pod(name: str, labels: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    wanted = QUEUED if labels is None else labels
    container = {"name": "c", "image": "i"}
    return {
        "metadata": {"name": name, "labels": wanted, **metadata},
        "spec": {"containers": [container], "schedulerName": NOBODY},
    }


async def refused(
    client: Client, name: str, body: Any, kind: str = MERGE, *, sub: str = "", says: str = ""
) -> str:
    """The sentence with which a patch is refused; it must be an admission's."""
    path = f"/api/v1/namespaces/default/pods/{name}" + (f"/{sub}" if sub else "")
    with pytest.raises(ApiFailure) as failure:
        await client.ok("PATCH", path, body, content_type=kind)
    assert failure.value.status == 403, failure.value
    assert "denied" in str(failure.value)
    assert says in str(failure.value), failure.value
    return str(failure.value)


async def allowed(client: Client, name: str, body: Any, kind: str = MERGE, sub: str = "") -> Any:
    path = f"/api/v1/namespaces/default/pods/{name}" + (f"/{sub}" if sub else "")
    return await client.ok("PATCH", path, body, content_type=kind)


@asynccontextmanager
async def stand_in(folder: Path) -> AsyncIterator[tuple[Path, list[Client]]]:
    """The stand-in: its kubeconfig, and clients of an administrator, a user and the actuator."""
    users = {"user": User(name="bob"), "actuator": User(name=ACTUATOR)}
    async with SimCluster(SimSettings(scheduler=False, users=users)) as cluster:
        tokens = (cluster.token, "user", "actuator")
        yield cluster.kubeconfig(folder / "kubeconfig"), [Client(cluster.url, t) for t in tokens]


@asynccontextmanager
async def real(kubeconfig: Path) -> AsyncIterator[tuple[Path, list[Client]]]:
    """The same of a real API server, which is left as it was found."""
    url, token = server_of(kubeconfig)
    async with Api(url, token) as api:
        await realcluster.forget_admission(api)
        await realcluster.give_rights(api)
        bob = {"metadata": {"name": "bob"}}
        await api.call("POST", "/api/v1/namespaces/default/serviceaccounts", bob, ok=())
        user = await realcluster.token_of(api, "bob", "default")
        actuator = await realcluster.token_of(api, "gatelog-actuator")
        admin, *others = [Client(url, t, verified=False) for t in (token, user, actuator)]
        try:
            yield kubeconfig, [admin, *others]
        finally:
            await realcluster.forget_admission(api)
            for path in LEFT:
                await swept(api, path)


async def swept(api: Api, path: str) -> None:
    """Delete what tests of this file made there, and wait until it is gone."""

    async def done() -> bool:
        pods = path.endswith("pods")
        found = (await api.call("GET", path))["items"]
        mine = [
            one["metadata"]["name"]
            for one in found
            if (one["spec"]["schedulerName"] == NOBODY if pods else one["metadata"]["name"] in MADE)
        ]
        for name in mine:
            await api.call("DELETE", f"{path}/{name}", ok=())
            free = {"metadata": {"finalizers": None}}
            await api.merge(f"{path}/{name}", free, ok=())
        return not mine

    await api.until(f"{path} is swept", done)


LEFT = (
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/kube-system/pods",
    *(f"/apis/apps/v1/namespaces/default/{kind}" for kind in ("deployments", "statefulsets")),
    "/apis/batch/v1/namespaces/default/jobs",
    "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
    *(f"/apis/rbac.authorization.k8s.io/v1/clusterrole{kind}" for kind in ("s", "bindings")),
    *(
        f"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolic{kind}"
        for kind in ("ies", "ybindings")
    ),
)
"""Where tests of this file leave something, and the names of all but pods."""
MADE = ("o", "bare", "cq", "everything", "for-all", "zzz-late")


@pytest.fixture(params=["policy", "webhook"])
async def door(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Door]:
    place = realcluster.kubeconfig()
    server = stand_in(tmp_path) if place is None else real(place)
    async with opened(request.param, tmp_path, server) as found:
        yield found


@asynccontextmanager
async def opened(
    how: str, tmp_path: Path, server: AbstractAsyncContextManager[tuple[Path, list[Client]]]
) -> AsyncIterator[Door]:
    """A door, by policy or by webhook; "every pod" after it: of those without a queue too."""
    way, _, every = how.partition(" ")
    chosen = WebhookSettings(
        enabled=True,
        port=0,
        actuator_user=ACTUATOR,
        manage_jobs_without_queue_name=bool(every),
    )
    settings = Settings(webhook=chosen, state_dir=str(tmp_path / "state"))
    async with server as (kubeconfig, clients):
        kube = await connect(KubernetesSettings(kubeconfig=str(kubeconfig)))
        for kind, obj in (("clusterroles", EVERYTHING), ("clusterrolebindings", FOR_ALL)):
            await clients[0].create(f"{kind}.rbac.authorization.k8s.io/v1", obj)
        if realcluster.kubeconfig() is not None:
            await install.install_kinds(kube)
        try:
            if way == "policy":
                await install.install_policy(kube, settings)
                await in_force(clients)
                yield Door(*clients)
                return
            local = msgspec.structs.replace(chosen, url="https://127.0.0.1:0")
            settings = msgspec.structs.replace(settings, webhook=local)
            async with webhook(settings, kube):
                await install.wait_registered(kube)
                await install.install_fence(kube, settings)
                await in_force(clients)
                yield Door(*clients)
        finally:
            for client in clients:
                await client.__aexit__()
            await kube.close()


async def in_force(clients: list[Client]) -> None:
    """Wait until admission is in force: an API server takes a moment to hear of it."""
    path, queued = "/api/v1/namespaces/default/pods", {"dryRun": "All"}
    bad = pod("probe", labels={names.QUEUE_NAME: "no_name"})
    fenced = f"{path}/probe"
    async with asyncio.timeout(30):
        while True:
            status, made, _ = await clients[1].request("POST", path, pod("probe"), params=queued)
            gated = status < 300 and made["spec"].get("schedulingGates")
            refused, _, _ = await clients[1].request("POST", path, bad, params=queued)
            if gated and refused == 403:
                break
            await asyncio.sleep(0.1)
        await clients[0].create("pods", pod("probe", labels={}), "default")
        another = {"metadata": {"labels": {"another": "1"}}}
        while True:
            status, _, _ = await clients[2].request(
                "PATCH", fenced, another, params=queued, content_type=MERGE
            )
            if status == 403:
                break
            await asyncio.sleep(0.1)
        await clients[0].ok("DELETE", fenced)
        await clients[0].request(
            "PATCH", fenced, {"metadata": {"finalizers": None}}, content_type=MERGE
        )


async def patched(door: Door, **fields: Any) -> int:
    """The status with which the user's change of pod `p` is answered."""
    body = {"metadata": {k: v for k, v in fields.items() if k != "gates"}}
    if "gates" in fields:
        body["spec"] = {"schedulingGates": fields["gates"]}
    path = "/api/v1/namespaces/default/pods/p"
    status, _, _ = await door.user.request("PATCH", path, body, content_type=MERGE)
    return status


OF_PARENT = {names.SUSPENDING_PARENT: "x"}
ON = {names.MANAGED_LABEL: "true"}


@pytest.mark.parity("B27")
async def test_a_mirror_that_a_user_makes_is_gated_and_so_refused(door: Door) -> None:
    """It had passed admission by its annotation, was charged 100,000 CPU, and never ran.

    The server wants a mirror to name its node, and no gated pod to name one.
    """
    mirror = pod("p", {**QUEUED, **ON}, annotations={"kubernetes.io/config.mirror": "x"})
    for node in ("", "does-not-exist"):
        mirror["spec"]["nodeName"] = node
        with pytest.raises(ApiFailure, match=r"spec\.nodeName"):
            await door.user.create("pods", mirror, "default")


@pytest.mark.parametrize(
    ("annotations", "cpu"), [({"kueue.x-k8s.io/junk": "x" * 5000}, "1"), ({}, "1e300")]
)
async def test_what_gatelog_could_not_read_is_refused(
    door: Door, annotations: dict[str, str], cpu: str
) -> None:
    junk = pod("p", annotations=annotations)
    junk["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    with pytest.raises(ApiFailure, match=r"at most (4096|1M)"):
        await door.user.create("pods", junk, "default")
    junk["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    del junk["metadata"]["annotations"]
    await door.user.create("pods", junk, "default")
    assert await patched(door, annotations=annotations) == (403 if annotations else 200)


@pytest.mark.parity("B26")
@pytest.mark.parametrize("labels", [QUEUED, {"mine": "1"}])
async def test_what_waits_for_its_parent_is_not_let_go_by_its_user(
    door: Door, labels: dict[str, str]
) -> None:
    made = await door.user.create("pods", pod("p", labels, annotations=OF_PARENT), "default")
    assert made["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]
    assert await patched(door, gates=[], labels=ON) == 403
    assert await patched(door, gates=[]) == 403
    assert await patched(door, annotations={names.SUSPENDING_PARENT: None}) == 403
    assert await patched(door, labels={**QUEUED, **ON}) == 200, "its parent may queue it"
    assert await patched(door, gates=[]) == 403


@pytest.mark.parity("B25")
async def test_a_gate_of_ones_own_is_no_way_into_a_queue(door: Door) -> None:
    gated = pod("p", {})
    gated["spec"]["schedulingGates"] = [{"name": names.ADMISSION_GATE}]
    await door.user.create("pods", gated, "default")
    assert await patched(door, labels=QUEUED) == 200
    assert await patched(door, gates=[]) == 403
    assert await patched(door, gates=[], labels={names.QUEUE_NAME: None}) == 403
    assert await patched(door, labels={names.QUEUE_NAME: None}) == 200
    assert await patched(door, gates=[], labels=ON) == 403
    assert await patched(door, gates=[]) == 403, "row B30: ours while it bears the gate"
    for marks in (ON, QUEUED, {**QUEUED, **ON}):
        assert await patched(door, labels=marks) == 200, "it waits at its gate"
        assert await patched(door, gates=[]) == 403
    await door.user.ok("DELETE", "/api/v1/namespaces/default/pods/p")


async def test_a_pod_that_is_going_is_not_put_into_a_queue(door: Door) -> None:
    """By webhook it was not asked about, and what runs out its grace period was charged."""
    await door.user.create("pods", pod("p", {}, finalizers=["example.com/f"]), "default")
    await door.user.ok("DELETE", "/api/v1/namespaces/default/pods/p")
    assert await patched(door, labels=ON) == 403
    assert await patched(door, labels=QUEUED) == 403
    assert await patched(door, finalizers=None) == 200


@pytest.mark.parametrize("door", ["policy every pod", "webhook every pod"], indirect=True)
async def test_where_every_pod_is_queued_none_is_left_out(door: Door) -> None:
    made = await door.user.create("pods", pod("p", {}, annotations=OF_PARENT), "default")
    assert made["metadata"]["finalizers"] == [names.POD_FINALIZER]
    assert await patched(door, gates=[]) == 403
    bound = pod("bound", {})
    bound["spec"]["nodeName"] = "does-not-exist"
    with pytest.raises(ApiFailure, match=r"spec\.nodeName"):
        await door.user.create("pods", bound, "default")


async def test_no_chain_of_three_requests_gets_past(door: Door) -> None:
    """Ten thousand of them: `python -m tests.attacks.chains 10000`."""
    chance = random.Random(21)
    for _ in range(40):
        chain = chains.draw(chance)
        assert await chains.run(door.user, chain) == "", chain


@pytest.mark.parity("B24")
async def test_a_queue_that_another_policy_names_too_late_is_no_way_round(door: Door) -> None:
    """Such a pod had come out without a gate, and ran uncounted; a webhook of ours comes later."""
    labels = json.dumps({names.QUEUE_NAME: "q"})
    late = f"Object{{metadata: Object.metadata{{labels: {labels}}}}}"
    policy = {
        "metadata": {"name": "zzz-late"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                     "resources": ["pods"]},
                ]
            },
            "reinvocationPolicy": "IfNeeded",
            "mutations": [
                {"patchType": "ApplyConfiguration",
                 "applyConfiguration": {"expression": late}}
            ],
        },
    }  # fmt: skip
    binding = {"metadata": {"name": "zzz-late"}, "spec": {"policyName": "zzz-late"}}
    group = "admissionregistration.k8s.io/v1"
    await door.admin.create(f"mutatingadmissionpolicies.{group}", policy)
    await door.admin.create(f"mutatingadmissionpolicybindings.{group}", binding)
    await late_in_force(door)
    said, gates = "", []
    try:
        made = await door.user.create("pods", pod("p", {"mine": "1"}), "default")
        gates = made["spec"].get("schedulingGates", [])
    except ApiFailure as failure:
        said = str(failure)
    assert "would run uncounted" in said or gates == [{"name": names.ADMISSION_GATE}]


async def late_in_force(door: Door) -> None:
    """Wait until the policy of somebody else is: pods without a queue are named one, or refused."""
    async with asyncio.timeout(30):
        while True:
            try:
                made = await door.user.create("pods", pod("p", {}), "default", dryRun="All")
            except ApiFailure:
                return
            if names.QUEUE_NAME in made["metadata"].get("labels", {}):
                return
            await asyncio.sleep(0.1)


async def test_a_user_cannot_take_a_pod_out_of_its_queue(door: Door) -> None:
    made = await door.queued(finalizers=["example.com/f"])
    assert made["metadata"]["finalizers"] == ["example.com/f", names.POD_FINALIZER]
    assert made["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]
    off = {"metadata": {"labels": {names.MANAGED_LABEL: None}}}
    false = {"metadata": {"labels": {names.MANAGED_LABEL: "false"}}}
    alone = {"metadata": {"finalizers": ["example.com/f"]}}
    for _ in ("waiting", "admitted"):
        await refused(door.user, "p", off, says="delete the pod to take it out")
        await refused(door.user, "p", false, says=names.MANAGED_LABEL)
        await refused(door.user, "p", alone, says="when the pod has ended")
        await allowed(door.user, "p", {"metadata": {"annotations": {"any": "thing"}}})
        if _ == "waiting":
            await refused(door.user, "p", GATE, JSON, says="only gatelog takes the gate")
            await allowed(door.actuator, "p", GATE, JSON)
    # Whoever may delete a pod deletes it, and its finalizers come off; sight of it is not lost.
    await door.user.ok("DELETE", "/api/v1/namespaces/default/pods/p")
    await refused(door.user, "p", off, says="would not be counted")
    await allowed(door.user, "p", {"metadata": {"finalizers": [names.POD_FINALIZER]}})
    strip = {"metadata": {"$deleteFromPrimitiveList/finalizers": [names.POD_FINALIZER]}}
    await allowed(door.actuator, "p", strip, STRATEGIC)
    assert not await door.pods()


EXPECTED = Path(__file__).parents[1] / "conformance" / "expected" / "bad_requests.json"


@pytest.mark.parity("B22")
async def test_what_the_conformance_suite_drops_is_the_actuators_to_drop(door: Door) -> None:
    """Its expected answer holds for the one account under which `gatelog up` and the suite run."""
    assert json.loads(EXPECTED.read_text())["answers"]["drop-managed"] == 200
    await door.queued()
    drop = {"metadata": {"labels": {names.MANAGED_LABEL: None}}}
    await refused(door.user, "p", drop)
    await allowed(door.actuator, "p", drop)


async def test_administrators_are_users_here(door: Door) -> None:
    """Who is to do it all the same takes the policy's binding or the registration away first."""
    await door.queued()
    await refused(door.admin, "p", GATE, JSON)


async def test_what_is_not_in_a_queue_is_its_owners(door: Door) -> None:
    """Its gate is that of another controller; with ours it would be in one (row B30)."""
    for name, gate in (("free", "example.com/gate"), ("ours", names.ADMISSION_GATE)):
        gated = pod(name, labels={})
        gated["spec"]["schedulingGates"] = [{"name": gate}]
        await door.user.create("pods", gated, "default")
    await allowed(door.user, "free", GATE, JSON)
    await refused(door.user, "ours", GATE, JSON)
    await door.user.create("pods", pod("plain", labels={}), "default")
    await allowed(door.user, "plain", {"metadata": {"labels": {"a": "b"}}})


FENCED: list[Any] = [
    ("image", [{"op": "replace", "path": "/spec/containers/0/image", "value": "evil"}], JSON, ""),
    ("deadline", {"spec": {"activeDeadlineSeconds": 5}}, MERGE, ""),
    ("affinity", {"spec": {"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}}}, MERGE, ""),
    ("label-of-the-user", {"metadata": {"labels": {"mine": "2"}}}, MERGE, ""),
    ("new-label", {"metadata": {"labels": {"new": "2"}}}, MERGE, ""),
    ("annotation-of-the-user", {"metadata": {"annotations": {"a": None}}}, MERGE, ""),
    ("finalizer-of-another", {"metadata": {"finalizers": [names.POD_FINALIZER]}}, MERGE, ""),
    ("new-finalizer", {"metadata": {"finalizers": [
        "example.com/f", "example.com/g", names.POD_FINALIZER]}}, MERGE, ""),
    ("owner", {"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]}}, MERGE, ""),
    ("phase", {"status": {"phase": "Failed"}}, STRATEGIC, "status"),
    ("condition-of-the-kubelet", {"status": {"conditions": [
        {"type": "Ready", "status": "True"}]}}, STRATEGIC, "status"),
    ("label-through-status", {"metadata": {"labels": {names.PODSET_LABEL: "m"}}}, STRATEGIC,
     "status"),
]  # fmt: skip


async def test_the_fence_keeps_the_actuator_to_its_work(door: Door) -> None:
    await door.queued(finalizers=["example.com/f"], annotations={"a": "1"})
    for what, body, kind, sub in FENCED:
        says = await refused(door.actuator, "p", body, kind, sub=sub, says="gatelog-fence")
        assert "gatelog" in says.partition("denied request: ")[2], what
    said = {"type": names.ADMITTED_CONDITION, "status": "False", "reason": "x", "message": "m"}
    await allowed(door.actuator, "p", {"status": {"conditions": [said]}}, STRATEGIC, "status")
    await allowed(door.actuator, "p", {"metadata": {"labels": {names.PODSET_LABEL: "main"}}})
    admit = [
        *GATE,
        {"op": "add", "path": "/spec/nodeSelector", "value": {"pool": "a"}},
        {"op": "add", "path": "/spec/tolerations/-", "value": {"key": "x", "operator": "Exists"}},
        {"op": "add", "path": "/metadata/labels/of-the-check", "value": "1"},
    ]
    await allowed(door.actuator, "p", admit, JSON)


async def test_the_fence_keeps_the_actuator_off_others_pods(door: Door) -> None:
    space = "kube-system"
    await door.admin.create("pods", pod("victim", labels={}), space)
    await door.admin.create("pods", pod("plain", labels={}), "default")
    for path in (
        f"/api/v1/namespaces/{space}/pods/victim",
        "/api/v1/namespaces/default/pods/plain",
    ):
        with pytest.raises(ApiFailure, match="pods alone that name a queue"):
            await door.actuator.ok("DELETE", path)
    await refused(door.actuator, "plain", {"metadata": {"labels": {names.PODSET_LABEL: "m"}}})
    assert await door.pods() == {"victim", "plain"}
    await door.queued("excess")
    await door.actuator.ok("DELETE", "/api/v1/namespaces/default/pods/excess")


@pytest.mark.parametrize("door", ["policy every pod", "webhook every pod"], indirect=True)
async def test_a_surplus_pod_without_a_queue_can_be_deleted(door: Door) -> None:
    """Its finalizer goes first; from then on the label alone says that it is ours."""
    made = await door.user.create("pods", pod("excess", labels={"mine": "1"}), "default")
    assert made["metadata"]["labels"] == {"mine": "1", names.MANAGED_LABEL: "true"}
    strip = {"metadata": {"$deleteFromPrimitiveList/finalizers": [names.POD_FINALIZER]}}
    made = await allowed(door.actuator, "excess", strip, STRATEGIC)
    assert not made["metadata"].get("finalizers")
    await door.actuator.ok("DELETE", "/api/v1/namespaces/default/pods/excess")
    assert not await door.pods()


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job"])
async def test_an_owner_that_names_a_queue_passes_it_on(door: Door, kind: str) -> None:
    plural = {"Deployment": "deployments.apps/v1", "StatefulSet": "statefulsets.apps/v1"}.get(
        kind, "jobs.batch/v1"
    )
    labels = {names.QUEUE_NAME: "q", names.PRIORITY_CLASS: "high"}
    inner = {"containers": [{"name": "c", "image": "i"}], "schedulerName": NOBODY}
    if kind == "Job":
        inner["restartPolicy"] = "Never"
    template = {"metadata": {"labels": {"app": "a"}}, "spec": inner}
    spec: dict[str, Any] = {"template": template}
    if kind != "Job":
        spec["selector"] = {"matchLabels": {"app": "a"}}
    owner = {"metadata": {"name": "o", "labels": labels}, "spec": spec}
    made = await door.user.create(plural, owner, "default")
    assert labelled(made) == {"app": "a", **labels}
    bare = {"metadata": {"name": "bare"}, "spec": spec}
    made = await door.user.create(plural, bare, "default")
    assert labelled(made) == {"app": "a"}
    if kind != "Job":  # a Job's template is fixed once it is made
        later = {"metadata": {"labels": {names.QUEUE_NAME: "late"}}}
        made = await door.user.patch(plural, "bare", later, "default")
        assert labelled(made) == {"app": "a", names.QUEUE_NAME: "late"}


@pytest.mark.parity("B33")
@pytest.mark.parametrize("kind", ["deployments", "statefulsets"])
@pytest.mark.parametrize("left", [{}, {"app": "a"}, {names.PRIORITY_CLASS: "high"}])
async def test_an_owner_may_lose_its_queue_and_its_pods_keep_theirs(
    door: Door, kind: str, left: dict[str, str]
) -> None:
    """Row B33: the pods' own label counts, and who wants them out of the queue changes that."""
    inner = {"containers": [{"name": "c", "image": "i"}], "schedulerName": NOBODY}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": inner}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    labels = {**left, names.QUEUE_NAME: "q"}
    plural = f"{kind}.apps/v1"
    await door.user.create(
        plural, {"metadata": {"name": "o", "labels": labels}, "spec": spec}, "default"
    )
    for queue in ("late", None):
        later = {"metadata": {"labels": {names.QUEUE_NAME: queue}}}
        made = await door.user.patch(plural, "o", later, "default")
        assert labelled(made)[names.QUEUE_NAME] == "late"
    assert (made["metadata"].get("labels") or {}) == left
    out = {"spec": {"template": {"metadata": {"labels": {names.QUEUE_NAME: None}}}}}
    made = await door.user.patch(plural, "o", out, "default")
    assert names.QUEUE_NAME not in labelled(made)


def labelled(owner: Any) -> dict[str, str]:
    """Labels of its template, but for those by which a Job knows its pods."""
    found = owner["spec"]["template"]["metadata"]["labels"]
    return {k: v for k, v in found.items() if not k.endswith(("job-name", "controller-uid"))}


async def test_the_fence_keeps_the_actuator_off_what_queues_grant(door: Door) -> None:
    path = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
    meta = {"name": "cq", "labels": {"a": "1"}, "finalizers": ["example.com/f"]}
    version = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue"}
    body = {**version, "metadata": meta, "spec": {"stopPolicy": "None"}}
    await door.admin.ok("POST", path, body)
    mark = "kueue.x-k8s.io/resource-in-use"
    grants: tuple[dict[str, Any], ...] = (
        {"spec": {"stopPolicy": "Hold"}},
        {"metadata": {"labels": {"a": "2"}}},
        {"metadata": {"finalizers": []}},
        {"metadata": {"finalizers": ["example.com/f", "example.com/g", mark]}},
    )
    for what in grants:
        with pytest.raises(ApiFailure, match="gatelog-queue-fence"):
            await door.actuator.ok("PATCH", f"{path}/cq", what, content_type=MERGE)
    for finalizers in (["example.com/f", mark], ["example.com/f"]):
        kept = {"metadata": {"finalizers": finalizers}}
        await door.actuator.ok("PATCH", f"{path}/cq", kept, content_type=MERGE)


async def test_the_actuator_alone_creates_workloads_with_a_status(door: Door) -> None:
    """Others have the version without: what a status says is gatelog's word."""
    path = "/apis/kueue.x-k8s.io/{}/namespaces/default/workloads"
    whole, plain = "v1beta2-with-status", "v1beta2"
    said = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "waits"}
    said["lastTransitionTime"] = "2026-11-24T12:00:00Z"
    one = {"name": "c", "image": "x"}
    sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": [one]}}}]

    def body(name: str, version: str) -> dict[str, Any]:
        head = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "Workload"}
        rest = {"metadata": {"name": name}, "spec": {"podSets": sets}}
        return {**head, **rest, "status": {"conditions": [said]}}

    with pytest.raises(ApiFailure, match="gatelog-new-workloads"):
        await door.admin.ok("POST", path.format(whole), body("a", whole))
    made = await door.admin.ok("POST", path.format(plain), body("b", plain))
    assert "status" not in made
    mine = await door.actuator.ok("POST", path.format(whole), body("c", whole))
    assert mine["status"]["conditions"] == [said]
