"""A StatefulSet that is tried is a group, a LeaderWorkerSet one a replica, by the setting."""

import json
from typing import Any

from podgroup.model.policy import Policy
from tests.support.owned import OWNED
from tests.support.toy import Toy
from tests.trial.test_answers import lines
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
