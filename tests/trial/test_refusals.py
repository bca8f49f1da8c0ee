"""What is refused, and where: as by the webhook, with the field in the object of the manifest."""

import json
from typing import Any

import pytest

from gatelog.trial.answers import Answer
from gatelog.trial.defaults import completed
from gatelog.trial.state import decidable
from gatelog.trial.trying import Asked, tried
from ingest.webhook.settings import policy_for
from podgroup.log import events as e
from podgroup.model.objects import NamespaceView, PriorityClassView
from runtime.settings import Settings
from tests.core.test_laws import reloaded
from tests.support.toy import Toy
from tests.webhook.cluster import RAW, Cluster, created, mutated, recorded_reviews
from tests.webhook.test_validation import CREATE


def asked(text: str, toy: Toy | None = None, *, bound: bool = False) -> Answer:
    """Try a text in the world of a toy, as it is stored."""
    toy = toy or Toy()
    question = Asked(text=text, namespace="ns", at=toy.now, bound=bound)
    return tried(decidable(reloaded(toy.world)), question, Settings())


REVIEWED = [one["request"]["object"] for one in recorded_reviews("CREATE")]
WHOLE = 10**18
"""Numbers from here on are read from a manifest as decimals, so another check refuses them."""


def with_namespace(name: str, toy: Toy | None = None) -> Toy:
    """A toy that has a namespace besides its own."""
    toy = toy or Toy()
    if name != "ns":
        there = NamespaceView(uid=name, name=name, resource_version=toy.bump())
        toy.do(e.ObjectApplied(object=there))
    return toy


def cases() -> list[RAW]:
    """Pods of the webhook's own tests, and of a real API server."""
    found = [*(one.values[0] for one in CREATE), *REVIEWED]
    return [one for one in found if one["spec"].get("terminationGracePeriodSeconds", 0) < WHOLE]


@pytest.mark.parametrize("raw", cases())
async def test_the_webhook_refuses_the_same(raw: RAW) -> None:
    policy = policy_for(Settings())
    sent = raw | {"spec": completed(raw["spec"], {})}
    result, after = await mutated(sent, Cluster(), policy)
    errors = result.errors or created(after, policy).errors
    said = asked(json.dumps(raw), with_namespace(raw["metadata"].get("namespace", "ns")))
    assert [(one.field, one.message) for one in said.refusals] == [
        (error.path, error.message()) for error in dict.fromkeys(errors)
    ]
    assert (said.verdict == "refused") == bool(errors)


JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
    "spec": {
        "template": {
            "metadata": {"annotations": {"kueue.x-k8s.io/pod-group-total-count": "x"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
    },
}


NAMESPACE, TEMPLATE = "metadata.namespace", "spec.template.metadata"


def templated(meta: Any) -> dict[str, Any]:
    """A Job whose template has these metadata."""
    return JOB | {"spec": {"template": {**JOB["spec"]["template"], "metadata": meta}}}


QUEUED = templated({})
"""A Job whose label is copied to its pods."""


@pytest.mark.parametrize("containers", [3, [None], [{"resources": 1}], {"a": 1}])
def test_what_no_api_server_would_take_does_not_stop_the_webhook(containers: Any) -> None:
    template = {"spec": {"containers": containers}}
    answer = asked(json.dumps(JOB | {"metadata": {"name": "j"}, "spec": {"template": template}}))
    assert answer.verdict in ("passes", "refused")


def test_a_field_is_named_where_it_is_in_the_object() -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [JOB]})
    (refusal,) = asked(text).refusals
    assert refusal.object == "Job ns/j"
    assert refusal.field == "items[0].spec.template.metadata.labels[kueue.x-k8s.io/pod-group-name]"


def job_set(jobs: int, *, replicas: int, parallelism: int) -> str:
    """A JobSet whose jobs wait for one another, with pods of one group."""
    labels = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/pod-group-name": "g"}
    template = {"parallelism": parallelism, "template": {"metadata": {"labels": labels}}}
    found = [
        {"name": f"j{n}", "dependsOn": [{}], "replicas": replicas, "template": {"spec": template}}
        for n in range(jobs)
    ]
    meta, spec = {"name": "s", "namespace": "ns"}, {"replicatedJobs": found}
    kind = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    return json.dumps({**kind, "metadata": meta, "spec": spec})


@pytest.mark.parametrize(
    ("text", "line", "field", "words"),
    [
        ("{", 2, "", "column 1"),
        ("a: 1\n]", 2, "", "column 1"),
        ("", 1, "kind", "no object that makes pods"),
        ("[]", 1, "", "must be an object"),
        ("kind: Pod", 1, "apiVersion", "is missing"),
        ("apiVersion: v1\nkind: Pod", 1, "metadata.name", "is missing"),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: s}", 1, "kind", "(Service s)"),
        ("---\napiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d}", 2, "kind", "nodes"),
        (json.dumps(JOB | {"spec": {"parallelism": -1}}), 1, "spec.parallelism", "whole number"),
        (json.dumps(JOB | {"spec": {"parallelism": 10**6}}), 1, "spec.parallelism", "at once"),
        (json.dumps(JOB | {"spec": {}}), 1, "spec.template", "is missing"),
        (json.dumps(JOB | {"metadata": {"name": "j", "namespace": 1}}), 1, NAMESPACE, "text"),
        (json.dumps(JOB | {"spec": JOB["spec"] | {"parallelism": 0}}), 1, "spec", "makes no pods"),
        (f"{json.dumps(QUEUED)}\n---\n{json.dumps(QUEUED)}", 3, "metadata.name", "before it"),
        (json.dumps(templated({"labels": 4})), 1, f"{TEMPLATE}.labels", "must be an object"),
        (json.dumps(templated({"annotations": [1]})), 1, f"{TEMPLATE}.annotations", "an object"),
        (json.dumps(templated([])), 1, TEMPLATE, "must be an object"),
        (job_set(2, replicas=1001, parallelism=0), 1, "", "templates without any"),
        (job_set(2, replicas=1, parallelism=1001), 1, "", "more than 2000 pods"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(
    text: str, line: int, field: str, words: str
) -> None:
    (refusal,) = asked(text).refusals
    assert (refusal.line, refusal.field) == (line, field)
    assert words in refusal.message


def test_a_name_that_is_taken_and_a_namespace_of_others_are_refused() -> None:
    toy = Toy()
    toy.pod("there")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "there", "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    (refusal,) = asked(json.dumps(pod), toy).refusals
    assert refusal.field == "metadata.name"
    pod["metadata"] = {"name": "new", "namespace": "other"}
    (refusal,) = asked(json.dumps(pod), toy).refusals
    assert (refusal.field, "is not there" in refusal.message) == (NAMESPACE, True)
    toy = with_namespace("other", toy)
    assert asked(json.dumps(pod), toy).refusals == ()
    (refusal,) = asked(json.dumps(pod), toy, bound=True).refusals
    assert (refusal.field, "can be tried here" in refusal.message) == (NAMESPACE, True)


def test_an_owner_is_known_by_its_namespace_and_by_the_name_that_it_will_have() -> None:
    """Beside Kueue the pods of a Job that names a queue are Kueue's, and no other Job's of that
    name are."""
    toy = with_namespace("other", Toy(mode="kueue"))
    queued = {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    job = JOB | {"spec": {"template": {"spec": JOB["spec"]["template"]["spec"]}}}
    jobs = [
        job | {"metadata": {"generateName": "j-", **queued}},
        job | {"metadata": {"name": "j", "namespace": "other", **queued}},
        job | {"metadata": {"name": "j"}},
    ]
    answer = asked("\n---\n".join(map(json.dumps, jobs)), toy)
    said = [(one.namespace, one.verdict, "its owner" in one.said[0]) for one in answer.groups]
    assert said == [("ns", "passes", True), ("other", "passes", True), ("ns", "passes", False)]


def test_a_priority_class_that_is_not_there_is_refused_as_by_the_api_server() -> None:
    spec = JOB["spec"]["template"]["spec"] | {"priorityClassName": "urgent"}
    job = JOB | {"spec": {"template": {"metadata": {}, "spec": spec}}}
    toy = Toy()
    (refusal,) = asked(json.dumps(job), toy).refusals
    assert refusal.field == "spec.template.spec.priorityClassName"
    urgent = PriorityClassView(uid="u", name="urgent", resource_version=toy.bump(), value=9)
    toy.do(e.ObjectApplied(object=urgent))
    answer = asked(json.dumps(job), toy)
    assert (answer.refusals, answer.groups[0].priority) == ((), 9)
