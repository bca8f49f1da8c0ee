"""Pods of StatefulSets and LeaderWorkerSets: both ways of admission make the same members of them.

Pods are as the controllers write them; the labels that a LeaderWorkerSet's own webhook adds may be
there or not, since it may be asked after ours.
"""

from typing import Any

import pytest
import yaml

from ingest.webhook.owned import member
from ingest.webhook.owners import Owner
from ingest.webhook.pod import read_pod
from ingest.webhook.policy import WebhookPolicy
from podgroup.model import names
from runtime import manifests
from runtime.settings import QueueingSettings, Settings
from tests.webhook.cel import Activation
from tests.webhook.cluster import RAW, Cluster, created, mutated, raw_pod
from tests.webhook.test_admission_policy import made, queueing, refusals

Q = {names.QUEUE_NAME: "q"}
BOTH = ("LeaderWorkerSet", "StatefulSet")
LWS = "leaderworkerset.sigs.k8s.io/"


def of_set(name: str = "web", number: int = 0, **fields: Any) -> RAW:
    """A pod as the StatefulSet controller makes it."""
    labels = {
        "apps.kubernetes.io/pod-index": str(number),
        "controller-revision-hash": f"{name}-7d4b9c5f6",
        "statefulset.kubernetes.io/pod-name": f"{name}-{number}",
    }
    return _named(f"{name}-{number}", ("apps/v1", "StatefulSet", name), labels, fields)


def leader(number: int = 0, size: str = "4", *, late: bool = False, **fields: Any) -> RAW:
    """The leader of a replica; `late`: LeaderWorkerSet's own webhook has seen it."""
    labels = {f"{LWS}name": "llm", f"{LWS}worker-index": "0"}
    labels |= {f"{LWS}group-index": str(number), f"{LWS}group-key": "689ce1b5"} if late else {}
    notes = {f"{LWS}size": size}
    fields["annotations"] = notes | fields.get("annotations", {})
    return _named(f"llm-{number}", ("apps/v1", "StatefulSet", "llm"), labels, fields)


def worker(number: int = 0, index: int = 1, size: str = "4", **fields: Any) -> RAW:
    """A worker of a replica."""
    labels = {
        f"{LWS}name": "llm",
        f"{LWS}group-index": str(number),
        f"{LWS}group-key": "689ce1b5",
        f"{LWS}template-revision-hash": "55d6c7d6bc",
    }
    notes = {f"{LWS}size": size, f"{LWS}leader-name": f"llm-{number}"}
    fields["annotations"] = notes | fields.get("annotations", {})
    owner = ("apps/v1", "StatefulSet", f"llm-{number}")
    return _named(f"llm-{number}-{index}", owner, labels, fields)


def _named(
    name: str, owner: tuple[str, str, str], labels: dict[str, str], fields: dict[str, Any]
) -> RAW:
    fields["labels"] = Q | labels | fields.get("labels", {})
    found = raw_pod(owner=owner, **fields)
    found["metadata"]["name"] = name
    return found


IN_SET = ("web", "main", "StatefulSet/web")
LEADER = ("llm-0", "leader", "LeaderWorkerSet/llm/4")
MEMBERS: list[Any] = [
    pytest.param(of_set(), BOTH, IN_SET, id="set"),
    pytest.param(of_set(), ("StatefulSet",), IN_SET, id="set-alone"),
    pytest.param(of_set(), ("LeaderWorkerSet",), None, id="set-is-not-named"),
    pytest.param(of_set(), (), None, id="off"),
    pytest.param(leader(), BOTH, LEADER, id="leader"),
    pytest.param(leader(late=True), BOTH, LEADER, id="leader-later"),
    pytest.param(worker(), BOTH, ("llm-0", "worker", "LeaderWorkerSet/llm/4"), id="worker"),
    pytest.param(
        worker(1, 2), BOTH, ("llm-1", "worker", "LeaderWorkerSet/llm/4"), id="of-another-replica"
    ),
    pytest.param(leader(), ("StatefulSet",), None, id="leaders-are-no-set"),
    pytest.param(leader(size="0"), BOTH, None, id="size-is-none"),
    pytest.param(leader(size="x"), BOTH, None, id="size-is-no-number"),
    pytest.param(of_set(annotations={names.SUSPENDING_PARENT: "x"}), BOTH, None, id="kueues"),
    pytest.param(of_set(labels={names.GROUP_NAME: "own"}), BOTH, None, id="group-of-its-own"),
    pytest.param(of_set(annotations={names.GROUP_NAME: "own"}), BOTH, None, id="annotated-group"),
    pytest.param(of_set(annotations={names.GROUP_TOTAL_COUNT: "3"}), BOTH, None, id="counted"),
    pytest.param(of_set(labels={names.PREBUILT_WORKLOAD: "w"}), BOTH, None, id="prebuilt"),
    pytest.param(
        _named("r-1", ("apps/v1", "ReplicaSet", "r"), {}, {}), BOTH, None, id="of-a-deployment"
    ),
    pytest.param(
        _named("x-0", ("apps.kruise.io/v1", "StatefulSet", "x"), {}, {}), BOTH, None, id="anothers"
    ),
]  # fmt: skip


def spec_for(kinds: tuple[str, ...]) -> RAW:
    return queueing(Settings(mode="builtin", queueing=QueueingSettings(owned_groups=kinds)))  # type: ignore[arg-type]


def by_policy(raw: RAW, kinds: tuple[str, ...]) -> RAW:
    """A pod as the API server has it once the mutating policy is through."""
    spec = spec_for(kinds)
    assert Activation(raw).matches(spec["matchConditions"])
    return made(spec, raw)


def owners_of(raw: RAW) -> Cluster:
    """A cluster in which the pod's controller is."""
    (of,) = raw["metadata"]["ownerReferences"]
    cluster = Cluster()
    cluster.owners["ns", of["kind"], of["name"]] = Owner(of["uid"], {})
    return cluster


def said(raw: RAW) -> tuple[str, str, str] | None:
    meta = raw["metadata"]
    notes, labels = meta.get("annotations", {}), meta["labels"]
    owner = notes.get(names.GROUP_OWNER)
    if owner is None:
        return None
    assert notes[names.SERVING] == "true"
    return labels[names.GROUP_NAME], labels[names.POD_GROUP_ROLE], owner


@pytest.mark.parametrize(("raw", "kinds", "wanted"), MEMBERS)
async def test_both_ways_make_a_pod_the_same_member(
    raw: RAW, kinds: tuple[str, ...], wanted: tuple[str, str, str] | None
) -> None:
    policy = WebhookPolicy(enabled_kinds=(), owned_kinds=kinds)
    _, once = await mutated(raw, owners_of(raw), policy)
    result, again = await mutated(once, owners_of(raw), policy)
    assert said(once) == wanted and again == once and result.patch == ()
    assert said(by_policy(raw, kinds)) == wanted
    if wanted is not None:
        assert created(once).allowed and refusals(once) == []
        assert by_policy(once | {"spec": raw["spec"]}, kinds)["metadata"] == once["metadata"]


@pytest.mark.parametrize(
    "text", ["", "StatefulSet", "Deployment/web", "LeaderWorkerSet/llm", "StatefulSet/We b"]
)
def test_an_owner_that_can_have_no_group_is_refused_by_both(text: str) -> None:
    labels = Q | {names.MANAGED_LABEL: "true", names.GROUP_NAME: "g"}
    raw = raw_pod(labels=labels, annotations={names.GROUP_OWNER: text}, gated=True)
    verdict = created(raw)
    (error,) = verdict.errors
    (refused,) = refusals(raw)
    path = f"metadata.annotations[{names.GROUP_OWNER}]: Invalid value"
    assert str(error).startswith(path) and refused.startswith(path)


def test_a_pod_without_a_name_is_no_member_yet() -> None:
    raw = of_set()
    raw["metadata"]["name"] = ""
    assert member(read_pod(raw), BOTH) is None


def test_the_component_changes_what_the_setting_changes() -> None:
    root = manifests.root()
    text = (root / "components/owned-groups/kustomization.yaml").read_text()
    (policy,) = yaml.safe_load(text)["patches"]
    test, change = yaml.safe_load(policy["patch"])
    for operation in (test, change):
        index = int(operation["path"].split("/")[3])
        assert spec_for(())["variables"][index]["name"] == "ownedGroups"
    found = spec_for(BOTH)["variables"][index]["expression"]
    assert change["value"] == found == "['LeaderWorkerSet', 'StatefulSet']"
