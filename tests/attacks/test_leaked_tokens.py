"""What somebody does who has the token of a part's ServiceAccount: by RBAC, and by the fence.

The rights are those of `deploy/`; requests go to the stand-in, or to the API server that
GATELOG_TEST_KUBECONFIG names. What a right allows is listed here whole: one more is a failure.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from simcluster import Settings as SimSettings
from simcluster.access import User
from tests.deploy.manifests import DEPLOY, objects
from tests.support import realcluster
from tests.support.processes import Api, server_of
from tests.support.standin import SimCluster

PARTS = ("ingest", "projector", "actuator", "serve", "doctor")
SPACE = realcluster.NAMESPACE
WEBHOOK = "components/webhook-own-certificates"
RIGHTS = {
    "production": ("base", "doctor", WEBHOOK, "components/serve"),
    "standalone": ("standalone", "standalone/serve"),
}
"""Directories of `deploy/` that grant rights in each profile."""
KUEUE = "kueue.x-k8s.io"
READ = frozenset({"get", "list", "watch"})
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
ASKED = (
    *("/pods", "/pods/status", "/pods/log", "/pods/exec", "/pods/binding", "/pods/eviction"),
    *("/pods/ephemeralcontainers", "/pods/resize", "/secrets", "/configmaps", "/namespaces"),
    *("/nodes", "/services", "/serviceaccounts", "/serviceaccounts/token", "/users"),
    *(f"{KUEUE}/{kind}" for kind in ("workloads", "workloads/status", "localqueues", "cohorts")),
    *(f"{KUEUE}/{kind}" for kind in ("clusterqueues", "clusterqueues/status", "resourceflavors")),
    *(f"{KUEUE}/{kind}" for kind in ("admissionchecks", "workloadpriorityclasses", "topologies")),
    *("apps/deployments", "batch/jobs", "rbac.authorization.k8s.io/clusterroles"),
    *(f"rbac.authorization.k8s.io/{kind}" for kind in ("clusterrolebindings", "rolebindings")),
    *("coordination.k8s.io/leases", "certificates.k8s.io/certificatesigningrequests"),
    *(
        f"admissionregistration.k8s.io/{kind}"
        for kind in ("mutatingwebhookconfigurations", "validatingadmissionpolicybindings")
    ),
    "apiregistration.k8s.io/apiservices",
)
"""Group and resource of what is asked for each verb."""
OBJECTS = ("workloads", "localqueues", "cohorts", "clusterqueues", "resourceflavors")
WATCHED = {
    "/pods": READ,
    "/namespaces": READ,
    "/nodes": READ,
    **{
        f"{KUEUE}/{kind}": READ
        for kind in (*OBJECTS, "admissionchecks", "workloadpriorityclasses", "topologies")
    },
}
ALLOWED: dict[str, dict[str, frozenset[str]]] = {
    # The webhook asks whether the owner of a pod names a queue.
    "ingest": WATCHED | {kind: frozenset({"get"}) for kind in ("apps/deployments", "batch/jobs")},
    "projector": {},
    "actuator": {
        "/pods": frozenset({"get", "patch", "delete"}),
        "/pods/status": frozenset({"patch"}),
        f"{KUEUE}/workloads": frozenset({"get", "create", "patch", "delete"}),
        f"{KUEUE}/workloads/status": frozenset({"patch"}),
        **{f"{KUEUE}/{kind}": frozenset({"get", "patch"}) for kind in OBJECTS[3:]},
        f"{KUEUE}/admissionchecks": frozenset({"get", "patch"}),
        **{f"{KUEUE}/{kind}": frozenset({"get"}) for kind in ("cohorts", "localqueues")},
        f"{KUEUE}/clusterqueues/status": frozenset({"patch"}),
    },
    "serve": {},
    "doctor": {
        "/pods": frozenset({"list"}),
        "/nodes": frozenset({"list"}),
        **{f"{KUEUE}/{kind}": frozenset({"list"}) for kind in OBJECTS if kind != "cohorts"},
        "admissionregistration.k8s.io/mutatingwebhookconfigurations": frozenset({"get", "list"}),
    },
}
"""What each may do in a tenant's namespace, or to what has none; fenced in, the actuator."""
ALONE = {
    what: WATCHED.get(what, frozenset()) | ALLOWED["actuator"].get(what, frozenset())
    for what in WATCHED | ALLOWED["actuator"]
}
"""What the one pod may do by the actuator's account: that of ingest and actuator, no more."""


class Cluster:
    """Clients by token, and an administrator's."""

    def __init__(self, admin: Api, parts: dict[str, Api]) -> None:
        self.admin = admin
        self.parts = parts

    async def may(self, part: str, verb: str, what: str, namespace: str, name: str = "") -> bool:
        """Ask the API server, as the part itself."""
        group, _, kind = what.partition("/")
        resource, _, sub = kind.partition("/")
        attributes = {"verb": verb, "group": group, "resource": resource, "subresource": sub}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {**attributes, "namespace": namespace, "name": name}},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        found: dict[str, Any] = await self.parts[part].call("POST", path, review)
        return bool(found["status"]["allowed"])


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    place = realcluster.kubeconfig()
    async with _stand_in("production") if place is None else _real(place) as found:
        yield found


@asynccontextmanager
async def _stand_in(profile: str) -> AsyncIterator[Cluster]:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{SPACE}")
    users = {
        f"{part}-token": User(name=f"system:serviceaccount:{SPACE}:gatelog-{part}", groups=groups)
        for part in PARTS
    }
    tokens = {part: f"{part}-token" for part in PARTS}
    async with (
        SimCluster(SimSettings(scheduler=False, users=users)) as sim,
        Api(sim.url, sim.token) as admin,
        _clients(sim.url, admin, tokens, profile) as found,
    ):
        yield found


@asynccontextmanager
async def _real(place: Path) -> AsyncIterator[Cluster]:
    url, token = server_of(place)
    async with Api(url, token) as admin, _clients(url, admin, {}, "production") as found:
        yield found


@asynccontextmanager
async def _clients(
    url: str, admin: Api, tokens: dict[str, str], profile: str
) -> AsyncIterator[Cluster]:
    for obj in sorted(_rights(profile), key=lambda one: _ORDER.index(one["kind"])):
        await realcluster.apply(admin, obj)
    parts = {
        part: Api(url, tokens.get(part) or await realcluster.token_of(admin, f"gatelog-{part}"))
        for part in PARTS
    }
    try:
        yield Cluster(admin, parts)
    finally:
        for api in parts.values():
            await api.http.close()


_ORDER = list(realcluster.ACCESS)


def _rights(profile: str) -> list[dict[str, Any]]:
    places = RIGHTS[profile]
    return [one for place in places for one in objects(DEPLOY / place) if one["kind"] in _ORDER]


@pytest.mark.parametrize("part", PARTS)
async def test_a_token_opens_what_its_part_needs_and_no_more(cluster: Cluster, part: str) -> None:
    assert await _open(cluster, part) == ALLOWED[part]
    leases = {"ingest": "gatelog-ingest-default", "projector": "gatelog-projector-default-0"}
    for verb in ("get", "update", "patch", "delete"):
        assert not await cluster.may(part, verb, "/secrets", SPACE, "gatelog-nats"), verb
        for one, name in leases.items():
            may = await cluster.may(part, verb, "coordination.k8s.io/leases", SPACE, name)
            own = one == part and verb in ("get", "update")
            assert may is (own or (part == "doctor" and verb == "get")), (part, verb, name)


async def _open(cluster: Cluster, part: str) -> dict[str, frozenset[str]]:
    """What a token opens in a tenant's namespace; no right to more rights is among it."""
    for verb in ("escalate", "bind", "impersonate"):
        for what in ("rbac.authorization.k8s.io/clusterroles", "/users", "/groups"):
            assert not await cluster.may(part, verb, what, "", "x")
    found = {
        what: frozenset(
            [verb for verb in VERBS if await cluster.may(part, verb, what, "tenant", "x")]
        )
        for what in ASKED
    }
    return {what: verbs for what, verbs in found.items() if verbs}


async def test_the_one_account_of_one_pod_opens_what_two_parts_need_and_no_secret() -> None:
    async with _stand_in("standalone") as cluster:
        assert await _open(cluster, "actuator") == ALONE
        for verb in VERBS:
            assert not await cluster.may("actuator", verb, "/secrets", SPACE, "gatelog-nats")
            for api in ("v1beta1.gatelog.io", "v1.apps"):
                what = "apiregistration.k8s.io/apiservices"
                own = api == "v1beta1.gatelog.io" and verb in ("get", "patch")
                assert await cluster.may("actuator", verb, what, "", api) is own, (verb, api)


@pytest.mark.parametrize("profile", list(RIGHTS))
def test_roles_for_people_write_no_status_and_no_part_is_root(profile: str) -> None:
    """Who writes a status says what is admitted, used and ready: controllers, not people."""
    rights = _rights(profile)
    bound = {one["roleRef"]["name"] for one in rights if one["kind"].endswith("Binding")}
    for obj in rights:
        rules = obj.get("rules", ())
        written = {verb for rule in rules for verb in rule["verbs"]} - READ
        everything = [one for rule in rules for one in (*rule["verbs"], *rule["resources"])]
        assert "*" not in everything, obj["metadata"]["name"]
        if obj["kind"] == "ClusterRole" and obj["metadata"]["name"] not in bound:
            subresources = [one for rule in rules for one in rule["resources"] if "/" in one]
            assert not written or not subresources, obj["metadata"]["name"]
