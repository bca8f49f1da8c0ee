"""A StatefulSet that is tried is a group, a LeaderWorkerSet one a replica, by the setting."""

import json
from typing import Any

import msgspec

from gatelog.trial.answers import Answer
from gatelog.trial.state import decidable
from gatelog.trial.trying import Asked, tried
from podgroup.log import events as e
from podgroup.model.objects import NamespaceView, StatefulSetView
from podgroup.model.policy import Policy
from runtime.settings import Settings
from tests.core.test_laws import reloaded
from tests.support.owned import OWNED, Owners
from tests.support.toy import Toy
from tests.trial.test_answers import job, lines
from tests.trial.test_refusals import asked

BOX = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
QUEUED: dict[str, Any] = {
    "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "lq"}},
    "spec": {"containers": [BOX]},
}


def stateful_set(replicas: int) -> str:
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "web", "namespace": "ns"},
            "spec": {"replicas": replicas, "template": QUEUED},
        }
    )


def leader_worker_set(replicas: int, size: int) -> str:
    template = {"size": size, "workerTemplate": QUEUED}
    return json.dumps(
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "llm", "namespace": "ns"},
            "spec": {"replicas": replicas, "leaderWorkerTemplate": template},
        }
    )


def test_a_stateful_set_that_is_tried_is_one_group() -> None:
    answer = asked(stateful_set(3), Toy(cpu=3, policy=OWNED))
    (group,) = answer.groups
    assert (answer.verdict, group.name, group.kind, group.pods) == ("starts", "web", "group", 3)
    waits = asked(stateful_set(4), Toy(cpu=3, policy=OWNED))
    assert waits.verdict == "waits" and lines(waits)["waits for"].startswith("ExceedsMaxQuota")


def test_each_replica_that_is_tried_is_a_group() -> None:
    answer = asked(leader_worker_set(2, 2), Toy(cpu=3, policy=OWNED))
    assert [(g.name, g.pods, g.verdict) for g in answer.groups] == [
        ("llm-0", 2, "starts"),
        ("llm-1", 2, "waits"),
    ]


def test_without_the_setting_each_pod_is_tried_by_itself() -> None:
    answer = asked(stateful_set(3), Toy(cpu=3, policy=Policy()))
    assert [(g.kind, g.verdict) for g in answer.groups] == [("single", "starts")] * 3


def test_who_asks_of_one_namespace_changes_no_set_of_another() -> None:
    """What a set of another namespace holds would be free if it was scaled down in a trial."""
    toy = Owners(cpu=3)
    web = StatefulSetView(
        uid="web", namespace="ns", name="web", resource_version=toy.bump(), replicas=3
    )
    toy.sets["web"], toy.sizes["web"] = web, 1
    toy.do(e.ObjectApplied(object=web))
    toy.member("web", 0)
    for view in (
        NamespaceView(uid="mine", name="mine", resource_version=toy.bump()),
        msgspec.structs.replace(
            toy.world.local_queues["ns", "lq"],
            uid="lq-mine",
            namespace="mine",
            resource_version=toy.bump(),
        ),
    ):
        toy.do(e.ObjectApplied(object=view))
    mine = json.loads(job(1))
    mine["metadata"]["namespace"] = "mine"
    text = f"{json.dumps(mine)}\n---\n{stateful_set(0)}"

    def said(text: str, *, bound: bool) -> Answer:
        question = Asked(text=text, namespace="mine", at=toy.now, bound=bound)
        return tried(decidable(reloaded(toy.world)), question, Settings())

    assert said(json.dumps(mine), bound=True).verdict == "waits"
    assert said(text, bound=False).verdict == "starts"
    (refusal,) = said(text, bound=True).refusals
    assert (refusal.object, refusal.line) == ("StatefulSet ns/web", 3)
    assert refusal.field == "metadata.namespace" and "can be tried here" in refusal.message
