"""The law of a trial: what it says happens, if the same pods are made next.

Programs of users and faults are played; then a manifest is tried in the world as it is stored, and
its pods are made in the world of the projector that went on.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatelog.trial.answers import Answer
from gatelog.trial.deciding import decide
from gatelog.trial.door import Door
from gatelog.trial.manifests import read_manifest
from gatelog.trial.state import decidable
from gatelog.trial.trying import Asked, tried
from ingest.webhook.review import UserInfo
from podgroup.engine import drain_journal
from podgroup.model.policy import Policy
from runtime.settings import Settings
from tests.core.test_due import POLICIES, Wide, programs
from tests.support.examples import examples
from tests.support.rough import Rough

manifests = st.fixed_dictionaries(
    {
        "pods": st.sampled_from([1, 1, 2, 3, 4]),
        "cpu": st.sampled_from([1, 1, 2, 3]),
        "grouped": st.booleans(),
        "priority": st.sampled_from(["", "low", "high"]),
        "queue": st.sampled_from(["lq", "lq", "lq", "nowhere"]),
    }
)


def written(given: dict[str, Any]) -> str:
    """A Job whose pods are tried, each by itself or as a group."""
    labels = {"kueue.x-k8s.io/queue-name": given["queue"]}
    annotations = {}
    if given["priority"]:
        labels["kueue.x-k8s.io/priority-class"] = given["priority"]
    if given["grouped"]:
        labels["kueue.x-k8s.io/pod-group-name"] = "tried"
        annotations["kueue.x-k8s.io/pod-group-total-count"] = str(given["pods"])
    return f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: tried}}
spec:
  parallelism: {given["pods"]}
  template:
    metadata: {{labels: {labels!s}, annotations: {annotations!s}}}
    spec: {{containers: [{{name: c, image: x, resources: {{requests: {{cpu: {given["cpu"]}}}}}}}]}}
"""


@pytest.mark.parity("B39")
@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@examples(40, brief=12)
@given(program=programs, quota=st.sampled_from([1, 2, 3, 6]), manifest=manifests)
def test_what_is_tried_happens_if_it_is_made(
    policy: Policy, strategy: str, program: Any, quota: int, manifest: dict[str, Any]
) -> None:
    wide = Wide(strategy=strategy, policy=policy)
    wide.largest_quota = 1000  # what pods are resized to is another law's matter
    wide.play(program)
    wide.play([["quota", quota], ["fill", 0, 0], ["fill", 1, 0], ["turn", 2]])
    holds(wide, manifest)


def holds(rough: Rough, manifest: dict[str, Any]) -> None:
    """Try a manifest in the stored world, make its pods in the live one, and compare."""
    rough.step_fold(10_000)
    rough.store()
    text = written(manifest)
    asked = Asked(text=text, namespace="ns", at=rough.now)
    answer = tried(decidable(rough.loaded()), asked, Settings())
    assert answer.refusals == ()
    _changes_hold(rough, manifest, answer)
    live = rough.world
    drain_journal(live)
    door = Door(live, Settings())
    pods = read_manifest(text, "ns", door.labelled).pods
    views = [one.view for one in door.ask(pods, answer.at, UserInfo()).arrived if one.view]
    decided = decide(live, views, answer.at)
    assert len(answer.groups) == len(decided.groups)
    for said, identity in zip(answer.groups, decided.groups, strict=True):
        group = live.groups[identity]
        holding, wait = group.quota.holding, group.explained.wait
        admitted = holding is not None and holding.seq == decided.position and holding.admitted
        assert (said.verdict == "starts") == admitted
        assert said.name == group.name
        if admitted:
            given = holding.admission.assignments if holding is not None else ()
            assert [one.flavors for one in said.given] == [dict(one.flavors) for one in given]
        else:
            assert said.reason == (wait.reason if wait is not None else group.explained.reason)
        victims = [
            (one.namespace, one.name)
            for one in live.journal.decisions
            if getattr(one.command, "preempted_by", "") == identity
        ]
        assert [(one.namespace, one.name) for one in said.victims] == victims


def _changes_hold(rough: Rough, manifest: dict[str, Any], answer: Answer) -> None:
    """Fewer pods start the group if that is said, and one more does not."""
    changes = [one for group in answer.groups for one in group.changes]
    for change in changes if manifest["grouped"] else ():
        for pods in range(change.pods, change.pods and manifest["pods"]):
            text = written({**manifest, "pods": pods})
            asked = Asked(text=text, namespace="ns", at=rough.now)
            again = tried(decidable(rough.loaded()), asked, Settings())
            assert (again.verdict == "starts") == (pods == change.pods)
