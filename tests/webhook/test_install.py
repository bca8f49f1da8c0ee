"""The registration: what it reaches, what it must not reach, and the manifests made from it."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from ingest.webhook.install import (
    Registration,
    ServiceEndpoint,
    UrlEndpoint,
    configurations,
)
from ingest.webhook.server import LABEL_PATH, MUTATE_PATH, VALIDATE_PATH
from ingest.webhook.settings import policy_for
from podgroup.model import names
from runtime.settings import IngestSettings, QueueingSettings, Settings, WebhookSettings
from tests.webhook.cel import Activation
from tests.webhook.cluster import RAW, raw_pod, recorded_reviews

DEPLOY = Path(__file__).parents[2] / "deploy" / "webhook"
Q = {names.QUEUE_NAME: "q"}
PARENT = {names.SUSPENDING_PARENT: ""}


def hooks(registration: Registration | None = None) -> dict[str, RAW]:
    both = configurations(registration or Registration())
    return {hook["name"]: hook for configuration in both for hook in configuration["webhooks"]}


def reached(name: str, new: RAW, old: RAW | None = None, username: str = "somebody") -> bool:
    """Whether the API server would call a webhook for a pod in an ordinary namespace."""
    hook = hooks()[name]
    for expression in hook.get("objectSelector", {}).get("matchExpressions", []):
        assert expression["operator"] == "DoesNotExist"
        if expression["key"] in new["metadata"].get("labels", {}):
            return False
    return Activation(new, old, username).matches(hook["matchConditions"])


def test_shape() -> None:
    mutating, validating = configurations(Registration())
    assert mutating["kind"] == "MutatingWebhookConfiguration"
    assert validating["kind"] == "ValidatingWebhookConfiguration"
    operations = {"queued.mpod.gatelog": ["CREATE"], "unqueued.mpod.gatelog": ["CREATE"]}
    operations["owners.mpod.gatelog"] = ["CREATE", "UPDATE"]
    operations["vpod.validate.gatelog"] = ["CREATE", "UPDATE"]
    assert {name: hook["rules"][0]["operations"] for name, hook in hooks().items()} == operations
    for name, hook in hooks().items():
        assert name.count(".") == 2
        assert hook["sideEffects"] == "None"
        assert hook["admissionReviewVersions"] == ["v1"]
        assert hook["matchPolicy"] == "Equivalent"
        assert 1 <= hook["timeoutSeconds"] <= 5
        owners = name.startswith("owners")
        assert (hook["rules"][0]["resources"] == ["pods"]) is not owners
        assert hook["namespaceSelector"]["matchExpressions"][0]["values"] == [
            "kube-system",
            "gatelog-system",
        ]
        assert hook["clientConfig"]["service"]["path"] == (
            "/mutate-owners"
            if owners
            else "/validate--v1-pod"
            if name.startswith("vpod")
            else "/mutate--v1-pod"
        )


def test_a_webhook_that_is_away_blocks_only_pods_that_name_a_queue() -> None:
    policies = {name: hook["failurePolicy"] for name, hook in hooks().items()}
    assert policies == {
        "owners.mpod.gatelog": "Fail",
        "queued.mpod.gatelog": "Fail",
        "unqueued.mpod.gatelog": "Ignore",
        "vpod.validate.gatelog": "Fail",
    }
    blocking = ["queued.mpod.gatelog", "vpod.validate.gatelog"]
    bystanders = [
        raw_pod(),
        raw_pod(labels={"app": "x"}, annotations={"a": "b"}),
        raw_pod(labels={"provreq.kueue.x-k8s.io/x": "y"}),
    ]
    assert not any(reached(name, pod) for name in blocking for pod in bystanders)
    relaxed = hooks(Registration(failure_policy="Ignore"))
    assert {hook["failurePolicy"] for hook in relaxed.values()} == {"Ignore"}


MUTATED: list[Any] = [
    pytest.param(raw_pod(labels=Q), ["queued"], id="queue"),
    pytest.param(raw_pod(annotations=PARENT), ["queued"], id="parent"),
    pytest.param(raw_pod(labels=Q, annotations=PARENT), ["queued"], id="queue-and-parent"),
    pytest.param(raw_pod(), ["unqueued"], id="plain"),
    pytest.param(raw_pod(labels={names.GROUP_NAME: "g"}), ["unqueued"], id="group-without-queue"),
    pytest.param(raw_pod(labels={names.QUEUE_NAME: ""}), [], id="empty-queue-is-refused-later"),
]


@pytest.mark.parametrize(("pod", "expected"), MUTATED)
def test_each_pod_is_mutated_at_most_once(pod: RAW, expected: list[str]) -> None:
    calls = [n for n in ("queued", "unqueued") if reached(f"{n}.mpod.gatelog", pod)]
    assert calls == expected


def test_validation_reaches_changes_of_kueue_metadata() -> None:
    hook = "vpod.validate.gatelog"
    labelled, annotated = raw_pod(labels=Q), raw_pod(annotations={names.GROUP_TOTAL_COUNT: "1"})
    assert reached(hook, labelled)
    assert reached(hook, annotated)
    assert reached(hook, raw_pod(), labelled)
    assert reached(hook, raw_pod(), annotated)
    assert not reached(hook, raw_pod(labels={"a": "b"}), raw_pod())
    going = raw_pod(labels=Q)
    going["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    assert not reached(hook, going, labelled)
    held = raw_pod(labels=Q | {names.MANAGED_LABEL: "true"})
    assert reached(hook, going, held)  # it would be lost sight of
    held["metadata"]["deletionTimestamp"] = going["metadata"]["deletionTimestamp"]
    assert not reached(hook, held, held)
    own = "system:serviceaccount:gatelog-system:gatelog-actuator"
    assert not reached(hook, labelled, labelled, username=own)
    assert reached(hook, labelled, username=own)
    for operation in ("CREATE", "UPDATE"):
        for recorded in recorded_reviews(operation):
            request = recorded["request"]
            new = request["object"]
            deleting = "deletionTimestamp" in new["metadata"]
            assert reached(hook, new, request["oldObject"]) is not deleting


def test_options() -> None:
    every = hooks(Registration(every_pod=True))
    assert every["unqueued.mpod.gatelog"]["failurePolicy"] == "Fail"
    assert "owners.mpod.gatelog" not in hooks(Registration(label_kinds=()))
    named = hooks(Registration(actuator_user="o'brien"))["vpod.validate.gatelog"]
    (condition,) = [c for c in named["matchConditions"] if c["name"] == "not-gatelog-itself"]
    assert Activation(raw_pod(), raw_pod(), username="you").evaluate(condition["expression"])
    assert not Activation(raw_pod(), raw_pod(), username="o'brien").evaluate(
        condition["expression"]
    )
    # A person who runs `gatelog up` under their own account may create pods with it, and change
    # of them what the actuator never does.
    assert Activation(raw_pod(), username="o'brien").evaluate(condition["expression"])
    was = raw_pod(
        labels={names.QUEUE_NAME: "a", names.MANAGED_LABEL: "true"}, annotations={"x": ""}
    )
    for labels, notes in (
        ({names.QUEUE_NAME: "b"}, {}),
        ({names.QUEUE_NAME: "a", names.GROUP_NAME: "g"}, {}),
        ({names.QUEUE_NAME: "a"}, {names.GROUP_TOTAL_COUNT: "2"}),
    ):
        change = Activation(raw_pod(labels=labels, annotations=notes), was, username="o'brien")
        assert change.evaluate(condition["expression"])
    ours = raw_pod(
        labels={names.QUEUE_NAME: "a", names.PODSET_LABEL: "main"}, annotations={"y": "1"}
    )
    assert not Activation(ours, was, username="o'brien").evaluate(condition["expression"])
    assert (
        hooks(Registration(excluded_namespaces=()))["queued.mpod.gatelog"]["namespaceSelector"]
        == {}
    )
    by_url = hooks(Registration(endpoint=UrlEndpoint("https://h:9443/"), ca_bundle=b"PEM"))
    assert by_url["vpod.validate.gatelog"]["clientConfig"] == {
        "url": "https://h:9443/validate--v1-pod",
        "caBundle": base64.b64encode(b"PEM").decode(),
    }
    for bad in (Registration(endpoint=UrlEndpoint("http://h")), Registration(timeout_s=31)):
        with pytest.raises(ValueError, match=r"https://|30 s"):
            configurations(bad)


def test_manifest_equals_what_install_builds() -> None:
    written = list(yaml.safe_load_all((DEPLOY / "configuration.yaml").read_text()))
    for configuration in written:
        assert configuration["metadata"].pop("annotations") == {
            "cert-manager.io/inject-ca-from": "gatelog-system/gatelog-webhook"
        }
    assert written == list(configurations(Registration()))
    paths = {hook["clientConfig"]["service"]["path"] for one in written for hook in one["webhooks"]}
    assert paths == {MUTATE_PATH, VALIDATE_PATH, LABEL_PATH}, "what the server answers"


def test_service_and_certificate_fit_the_endpoint() -> None:
    service = yaml.safe_load((DEPLOY / "service.yaml").read_text())
    endpoint = ServiceEndpoint()
    assert service["metadata"]["name"] == endpoint.name
    assert service["metadata"]["namespace"] == endpoint.namespace
    assert service["spec"]["ports"][0]["port"] == endpoint.port
    assert service["spec"]["ports"][0]["targetPort"] == WebhookSettings().port
    _, certificate = yaml.safe_load_all((DEPLOY / "certificate.yaml").read_text())
    assert f"{endpoint.name}.{endpoint.namespace}.svc" in certificate["spec"]["dnsNames"]


def test_policy_of_the_settings() -> None:
    builtin = policy_for(Settings())
    assert not builtin.counts("batch", "Job")
    assert builtin.known("batch", "Job") is not None
    beside = policy_for(Settings(mode="kueue"))
    assert beside.counts("batch", "Job")
    assert beside.topology_gate and not builtin.topology_gate
    no_gate = WebhookSettings(topology_gate=False, service_namespace="queues")
    assert not policy_for(Settings(mode="kueue", webhook=no_gate)).topology_gate
    assert policy_for(Settings(webhook=no_gate)).actuator_user == (
        "system:serviceaccount:queues:gatelog-actuator"
    )
    assert [k.kind for k in builtin.label_kinds] == ["Deployment", "StatefulSet", "Job"]
    assert [k.kind for k in beside.label_kinds] == ["Deployment", "StatefulSet"]
    webhook = WebhookSettings(excluded_namespaces=("a",), topology_gate=True)
    policy = policy_for(Settings(webhook=webhook))
    assert policy.topology_gate and policy.annotated_names
    off = QueueingSettings(topology_aware_scheduling=False)
    ingest = IngestSettings(workload_identifier_annotations=False)
    policy = policy_for(Settings(webhook=webhook, queueing=off, ingest=ingest))
    assert not policy.topology_gate and not policy.annotated_names
    assert policy.namespace_selector.expressions[0].values == ("a",)
