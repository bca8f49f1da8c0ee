"""The admission policies: well formed, in step with names.py, and in step with the webhook.

Every row of the webhook's validation tables is put to the policy's CEL as well: the policy may
refuse nothing that the webhook lets pass, and must refuse whatever it claims to cover.
"""

import functools
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies

from gatelog.cluster.policies import fence, policies
from ingest.webhook.fields import ErrorKind
from ingest.webhook.gatedby import FORM, MAX_BYTES, SHORT
from ingest.webhook.install import Registration, configurations
from ingest.webhook.ownerlabels import copied_labels
from ingest.webhook.policy import (
    ACTUATOR_USER,
    EXCLUDED_NAMESPACES,
    JOB_KINDS,
    NAMESPACE_NAME_LABEL,
    WebhookPolicy,
)
from ingest.webhook.settings import policy_for
from podgroup.model import names
from podgroup.model.keys import bound_of
from runtime import settings as ours
from simcluster import Settings, patches
from simcluster.client import Client
from tests.support.examples import examples
from tests.support.standin import SimCluster
from tests.webhook.cel import Activation
from tests.webhook.cluster import (
    RAW,
    apply,
    created,
    mutated,
    raw_pod,
    recorded_reviews,
    updated,
)
from tests.webhook.test_validation import ANNOTATION, CREATE, LABEL, UPDATE

DEPLOY = Path(__file__).parents[2] / "deploy" / "admission-policy"
Q = {names.QUEUE_NAME: "q"}


@functools.cache
def objects(file: str) -> tuple[RAW, ...]:
    return tuple(yaml.load_all((DEPLOY / file).read_text(), Loader=yaml.CSafeLoader))


def policy(file: str, name: str) -> RAW:
    return next(
        o["spec"]
        for o in objects(file)
        if o["metadata"]["name"] == name and not o["kind"].endswith("Binding")
    )


KIND = "MutatingAdmissionPolicy"
MUTATING, DEFAULTING = "mutating-admission-policy.yaml", "default-queue.yaml"
VALIDATING, OWNERS = "validating-admission-policy.yaml", "owner-labels.yaml"


@pytest.mark.parametrize("file", [MUTATING, DEFAULTING, VALIDATING, OWNERS])
def test_form(file: str) -> None:
    policies = {
        o["metadata"]["name"]: o for o in objects(file) if not o["kind"].endswith("Binding")
    }
    bindings = [o for o in objects(file) if o["kind"].endswith("Binding")]
    assert {b["spec"]["policyName"] for b in bindings} == set(policies)
    for item in objects(file):
        assert item["apiVersion"] == "admissionregistration.k8s.io/v1"
    for item in policies.values():
        spec = item["spec"]
        constraints = spec["matchConstraints"]
        (selector,) = constraints["namespaceSelector"]["matchExpressions"]
        assert selector == {
            "key": NAMESPACE_NAME_LABEL,
            "operator": "NotIn",
            "values": list(EXCLUDED_NAMESPACES),
        }
        for rule in constraints["resourceRules"]:
            owners = item["metadata"]["name"] == "gatelog-owner-labels"
            assert (rule["resources"] == ["pods"]) is not owners
        assert spec["failurePolicy"] in ("Fail", "Ignore")
        assert 1 <= len(spec["matchConditions"]) <= 64


@pytest.mark.parametrize("file", [MUTATING, DEFAULTING, VALIDATING, OWNERS])
def test_every_kueue_name_is_one_of_ours(file: str) -> None:
    known = {v for k, v in vars(names).items() if k.isupper() and isinstance(v, str)}
    text = (DEPLOY / file).read_text()
    used = set(re.findall(rf"(?<![\w.]){re.escape(names.PREFIX)}[-\w]+", text))
    versions = {f"{names.PREFIX}v1beta2"}
    assert used - versions <= known
    assert len(used) >= 2


def test_failures_refuse_pods_that_name_a_queue_and_no_others() -> None:
    for file, name in ((MUTATING, "gatelog-queued-pods"), (OWNERS, "gatelog-owner-labels")):
        spec = policy(file, name)
        assert spec["failurePolicy"] == "Fail"
        assert spec["reinvocationPolicy"] == "IfNeeded"
    default = policy(DEFAULTING, "gatelog-default-queue")
    assert default["failurePolicy"] == "Ignore"
    assert default["paramKind"] == {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue"}
    binding = objects(DEFAULTING)[1]["spec"]
    assert binding["paramRef"] == {"name": "default", "parameterNotFoundAction": "Allow"}


def reached(file: str, name: str, pod: RAW) -> bool:
    spec = policy(file, name)
    labels = pod["metadata"].get("labels", {})
    for wish in spec["matchConstraints"].get("objectSelector", {}).get("matchExpressions", []):
        if (wish["key"] in labels) is not (wish["operator"] == "Exists"):
            return False
    return Activation(pod).matches(spec["matchConditions"])


PARENT = {names.SUSPENDING_PARENT: ""}
MIRROR = {"kubernetes.io/config.mirror": "x"}
REACH: list[Any] = [
    pytest.param(raw_pod(labels=Q), "queued", id="queue"),
    pytest.param(raw_pod(), "default", id="plain"),
    pytest.param(raw_pod(labels={names.QUEUE_NAME: ""}), "", id="empty-queue"),
    pytest.param(raw_pod(labels=Q, annotations=PARENT), "queued", id="parent-and-queue"),
    pytest.param(raw_pod(annotations=PARENT), "queued", id="parent"),
    pytest.param(raw_pod(labels=Q, gated=True), "queued", id="gate-and-queue"),
    pytest.param(raw_pod(labels=Q, annotations=MIRROR), "queued", id="mirror-of-a-user"),
    pytest.param(raw_pod(annotations=MIRROR), "default", id="mirror-without-queue"),
    pytest.param(raw_pod(nodeName="n"), "default", id="bound-without-queue"),
    pytest.param(raw_pod(labels=Q, owner=("apps/v1", "ReplicaSet", "r")), "queued", id="rs"),
    pytest.param(raw_pod(labels=Q, owner=("x.io/v1", "Job", "r")), "queued", id="foreign-job"),
    pytest.param(raw_pod(labels=Q, owner=("v1", "Pod", "driver")), "queued", id="driver-pod"),
    *(
        pytest.param(raw_pod(labels=labels, owner=(f"{k.group}/v1", k.kind, "o")), word, id=k.kind)
        for k in JOB_KINDS
        for labels, word in ((Q, "queued"), (Q | {names.PODSET_LABEL: "main"}, ""), (None, ""))
    ),
]  # fmt: skip


@pytest.mark.parity("B23")
@pytest.mark.parametrize(("pod", "expected"), REACH)
def test_each_pod_meets_at_most_one_mutation(pod: RAW, expected: str) -> None:
    found = [
        word
        for word, file, name in [
            ("queued", MUTATING, "gatelog-queued-pods"),
            ("default", DEFAULTING, "gatelog-default-queue"),
        ]
        if reached(file, name, pod)
    ]
    assert found == ([expected] if expected else [])


def test_owner_that_is_no_controller_does_not_matter() -> None:
    pod = raw_pod(labels=Q | {names.PODSET_LABEL: "main"}, owner=("batch/v1", "Job", "j"))
    assert not reached(MUTATING, "gatelog-queued-pods", pod)
    del pod["metadata"]["ownerReferences"][0]["controller"]
    assert reached(MUTATING, "gatelog-queued-pods", pod)


@pytest.mark.parametrize("labels", [Q, {}])
def test_a_mirror_is_what_a_kubelet_makes(labels: dict[str, str]) -> None:
    pod = raw_pod(labels=labels, annotations=MIRROR | PARENT)
    kubelet = Activation(pod, username="system:node:a", groups=("system:nodes",))
    for file, name in ((MUTATING, "gatelog-queued-pods"), (DEFAULTING, "gatelog-default-queue")):
        assert not kubelet.matches(policy(file, name)["matchConditions"])
    assert refusals(pod, username="system:node:a", groups=("system:nodes",)) == []
    assert refusals(pod, username="system:node:a") != [] != refusals(pod)


def refusals(
    new: RAW, old: RAW | None = None, username: str = "somebody", groups: tuple[str, ...] = ()
) -> list[str]:
    """Messages of the validations that fail, after checking that the policy applies."""
    spec = policy(VALIDATING, "gatelog-pods")
    activation = Activation(new, old, username, groups=groups)
    if not activation.matches(spec["matchConditions"]):
        return []
    activation.define(spec["variables"])
    # Expressions of messages are evaluated for every request, refused or not.
    assert not any("messageExpression" in rule for rule in spec["validations"])
    return [
        str(rule["message"])
        for rule in spec["validations"]
        if not activation.evaluate(rule["expression"])
    ]


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_a_workload_of_another_name_is_refused_by_the_key_that_names_it(where: str) -> None:
    """The text is fixed, so it has to say both."""
    named = {names.GROUP_NAME: "group-a", names.PREBUILT_WORKLOAD: "group-b"}
    total = {names.GROUP_TOTAL_COUNT: "1"}
    seen = Q | {names.MANAGED_LABEL: "true"}
    labels, annotations = (seen | named, total) if where == "labels" else (seen, total | named)
    (text,) = refusals(raw_pod(labels=labels, annotations=annotations, gated=True))
    assert f"metadata.{where}" in text and names.PREBUILT_WORKLOAD in text


COVERED = {
    "spec.terminationGracePeriodSeconds",
    "metadata.ownerReferences",
    "spec.nodeSelector",
    "spec.tolerations",
    "spec.affinity.nodeAffinity",
    "metadata.labels",
    "metadata.annotations",
    *(LABEL(k) for k in (
        names.QUEUE_NAME, names.PREBUILT_WORKLOAD, names.MAX_EXEC_SECONDS, names.MANAGED_LABEL,
        names.GROUP_NAME, names.PRIORITY_CLASS,
    )),
    *(ANNOTATION(k) for k in (
        names.GROUP_NAME, names.PREBUILT_WORKLOAD, names.GROUP_TOTAL_COUNT, names.ELASTIC_JOB,
        names.RETRIABLE_IN_GROUP, names.SUSPENDING_PARENT, names.TOPOLOGY_UNCONSTRAINED,
        names.SLICE_SIZE, names.ADMISSION_GATED_BY, names.POD_GROUP_COUNT, names.POD_GROUP_ROLES,
        names.POD_GROUP_ROLE_COUNT, names.GROUP_OWNER,
    )),
    "metadata.finalizers",
    "spec.schedulingGates",
}  # fmt: skip
BEYOND_CEL = {"VC2-empty-label"}
"""An empty prebuilt label is no name to the policy, an invalid one to the webhook."""


def test_the_form_of_who_gates_is_said_by_the_same_patterns() -> None:
    (rule,) = (
        rule
        for rule in policy(VALIDATING, "gatelog-pods")["validations"]
        if names.ADMISSION_GATED_BY in rule["message"] and "Invalid" in rule["message"]
    )
    assert FORM in rule["expression"] and SHORT in rule["expression"]
    assert f"<= {MAX_BYTES}" in rule["expression"]


AS_LABEL = {ANNOTATION(key): LABEL(key) for key in names.NAMED_BY_ANNOTATION}
"""Fixed messages name the label, and say that the annotation of that name is meant too."""


def oversized(key: str, text: str) -> bool:
    return key.startswith(names.PREFIX) and len(text.encode()) > bound_of(key)


def check(new: RAW, old: RAW | None, errors: list[tuple[ErrorKind, str]]) -> None:
    wanted = {AS_LABEL.get(path, path) for _, path in errors if path in COVERED}
    if any(".requests" in path or ".overhead[" in path for _, path in errors):
        wanted.add("spec.containers[*].resources.requests")
    notes = new["metadata"].get("annotations") or {}
    if old is None and any(oversized(key, text) for key, text in notes.items()):
        wanted.add("metadata.annotations")
    texts = refusals(new, old)
    assert {text.split(": ")[0] for text in texts} == wanted, texts
    assert all("value" in text.lower() or "Forbidden" in text for text in texts)


@pytest.mark.parametrize(("raw", "errors"), [p for p in CREATE if p.id not in BEYOND_CEL])
def test_creations_as_the_webhook_judges_them(raw: RAW, errors: list[Any]) -> None:
    labels = raw["metadata"].get("labels") or {}
    if labels.get(names.QUEUE_NAME):  # mutation has seen it
        labels = {names.MANAGED_LABEL: "true"} | labels
        gates = {"schedulingGates": [{"name": names.ADMISSION_GATE}]}
        raw = raw | {
            "metadata": raw["metadata"] | {"labels": labels}, "spec": raw["spec"] | gates
        }  # fmt: skip
    check(raw, None, errors)


@pytest.mark.parity("B24")
def test_a_queue_named_after_mutation_is_refused() -> None:
    """The server asks a mutating policy that passed a pod by no second time."""
    job = raw_pod(labels=Q | {names.PODSET_LABEL: "main"}, owner=("batch/v1", "Job", "j"))
    for raw in (raw_pod(labels=Q), raw_pod(labels=Q, owner=("apps/v1", "ReplicaSet", "r"))):
        (text,) = refusals(raw)
        assert text.startswith(LABEL(names.QUEUE_NAME)) and "would run uncounted" in text
        assert refusals(raw, raw) == [], "what is there already can still be changed"
    for passed in (job, raw_pod(labels=Q, annotations=PARENT, gated=True)):
        assert refusals(passed) == []


@pytest.mark.parametrize(("old", "new", "errors"), UPDATE)
def test_updates_as_the_webhook_judges_them(old: RAW, new: RAW, errors: list[Any]) -> None:
    check(new, old, errors)


@pytest.mark.parametrize("recorded", recorded_reviews("CREATE") + recorded_reviews("UPDATE"))
async def test_recorded_reviews_pass(recorded: RAW) -> None:
    new, old = recorded["request"]["object"], recorded["request"]["oldObject"]
    assert refusals(new, old, ACTUATOR_USER) == []
    verdict = created(new) if old is None else await updated(old, new, by_gatelog=True)
    assert verdict.allowed


SAID = f"{ANNOTATION(names.POD_GROUP_SETS)}: Invalid value: an amount in it is below zero"


def declares(text: str) -> RAW:
    labels = Q | {names.MANAGED_LABEL: "true", names.GROUP_NAME: "g"}
    return raw_pod(labels=labels, annotations={names.POD_GROUP_SETS: text}, gated=True)


@pytest.mark.parametrize(
    "amounts",
    [
        'cpu: "-100"',
        "cpu: -1",
        '"memory": "-1Gi"',
        "'cpu' :  '-.5'",
        "example.com/gpu: -1",
        '"hugepages-2Mi":"-4Mi"',
        "ephemeral-storage: -1",
    ],
)
def test_sets_with_an_amount_below_zero_are_refused(amounts: str) -> None:
    text = f"[{{name: a, template: {{spec: {{containers: [{{requests: {{{amounts}}}}}]}}}}}}]"
    (said,) = refusals(declares(text))
    assert said.startswith(SAID)
    assert refusals(declares(text), declares(text)) == [], "what is there can still be changed"
    assert refusals(declares(text), declares("[]"))[0].startswith(SAID)


@pytest.mark.parametrize(
    "text",
    [
        "- {name: a, template: {spec: {priority: -5}}}",
        "- {name: a-1, template: {spec: {containers: [{requests: {cpu: 1e-3}}]}}}",
        "- {name: a, template: {spec: {tolerations: [{key: cpu, tolerationSeconds: -1}]}}}",
    ],
)
def test_sets_with_other_numbers_below_zero_pass(text: str) -> None:
    assert refusals(declares(text)) == []


def test_every_rule_has_its_number() -> None:
    ids = [
        line.strip("# ")
        for line in (DEPLOY / VALIDATING).read_text().splitlines()
        if line.startswith("  # V")
    ]
    assert len(ids) == len(policy(VALIDATING, "gatelog-pods")["validations"])


def test_the_first_condition_lets_the_actuator_pass_and_the_second_is_a_label() -> None:
    """What the policies cost the API server depends on how soon they end (bench/NOTES.md)."""
    first, second, _ = policy(VALIDATING, "gatelog-pods")["matchConditions"]
    assert first["name"] == "not-gatelog-itself" and ACTUATOR_USER in first["expression"]
    assert second["expression"].startswith("(has(object.metadata.labels) && ('")
    assert refusals(raw_pod(labels={names.MANAGED_LABEL: "no"}), None) != []
    bad = raw_pod(labels={names.MANAGED_LABEL: "no"})
    assert refusals(bad, raw_pod(), ACTUATOR_USER) == [] != refusals(bad, raw_pod())
    assert refusals(bad, None, ACTUATOR_USER) != [], "it creates none; who shares its account may"
    cheapest = policy(MUTATING, "gatelog-queued-pods")["matchConditions"][0]
    assert cheapest["name"] == "names-a-queue-or-has-a-parent"


NEITHER_HERE_NOR_THERE = (None, "", "g", "Not_Valid", "true", "3", "0", "+3", "x" * 64)
ASKED = (*(getattr(names, word) for word in (
    "QUEUE_NAME", "MANAGED_LABEL", "GROUP_NAME", "GROUP_TOTAL_COUNT", "PRIORITY_CLASS",
    "PREBUILT_WORKLOAD", "MAX_EXEC_SECONDS", "ELASTIC_JOB", "TOPOLOGY_REQUIRED",
    "PODSET_LABEL", "WORKLOAD_ANNOTATION", "LOCAL_QUEUE_LABEL", "CLUSTER_QUEUE_LABEL",
)), "mine")  # fmt: skip
metadata = strategies.dictionaries(
    strategies.sampled_from(ASKED), strategies.sampled_from(NEITHER_HERE_NOR_THERE), max_size=4
).map(lambda drawn: {key: value for key, value in drawn.items() if value is not None})


def skipped(spec: RAW, activation: Activation) -> bool:
    """Whether the last condition saves a request the rules; they must have let it pass."""
    *rest, last = spec["matchConditions"]
    if not activation.matches(rest) or activation.matches([last]):
        return False
    activation.define(spec["variables"])
    broken = [r["message"] for r in spec["validations"] if not activation.evaluate(r["expression"])]
    assert not broken
    return True


@given(metadata, metadata)
@examples(60, brief=20)
def test_what_is_spared_the_rules_breaks_none(
    labels: dict[str, str], annotations: dict[str, str]
) -> None:
    usual = {**Q, names.MANAGED_LABEL: "true", **labels}
    raw = raw_pod(labels=usual, annotations=annotations, gated=True)
    skipped(policy(VALIDATING, "gatelog-pods"), Activation(raw))
    for part in ({}, {"finalizers": [names.POD_FINALIZER]}):
        other = {**raw, "metadata": {**raw["metadata"], **part}}
        bare = {**raw, "spec": raw_pod()["spec"]}
        for old, new in itertools.permutations((raw, other, bare, raw_pod(labels=labels)), 2):
            skipped(policy(VALIDATING, "gatelog-pods"), Activation(new, old))
        skipped(policy(VALIDATING, "gatelog-pods"), Activation(other, other))


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [({}, {}), ({names.PRIORITY_CLASS: "high"}, {"a": "b"}),
     ({names.GROUP_NAME: "g"}, {names.GROUP_TOTAL_COUNT: "2000"})],
)  # fmt: skip
def test_pods_as_most_are_cost_one_look(
    labels: dict[str, str], annotations: dict[str, str]
) -> None:
    spec = policy(VALIDATING, "gatelog-pods")
    usual = {**Q, names.MANAGED_LABEL: "true", "app": "a", **labels}
    raw = raw_pod(labels=usual, annotations=annotations, gated=True)
    assert skipped(spec, Activation(raw))
    assert not skipped(spec, Activation(raw, raw)), "our finalizer is off"
    raw["metadata"]["labels"] |= {names.PODSET_LABEL: "main"}
    raw["metadata"]["annotations"] |= {names.WORKLOAD_ANNOTATION: "w"}
    raw["metadata"]["finalizers"] = [names.POD_FINALIZER]
    jobs = {**raw, "metadata": {**raw["metadata"], "finalizers": ["j", names.POD_FINALIZER]}}
    running = {**raw, "spec": raw_pod()["spec"]}
    assert skipped(spec, Activation(raw, jobs)) and skipped(spec, Activation(running, running))
    assert not skipped(spec, Activation(running, raw)), "the gate is off"
    assert not skipped(spec, Activation(raw)), "the annotation is new"
    raw["metadata"] = {**raw["metadata"], "labels": usual | {"b": ""}}
    assert not skipped(spec, Activation(raw, jobs)), "a label is looked at"


STAYS: RAW = raw_pod(
    labels={**Q, names.MANAGED_LABEL: "true", "mine": "1"},
    annotations={"a": "1"},
    gated=True,
    owner=("apps/v1", "ReplicaSet", "r"),
)
STAYS["metadata"]["finalizers"] = ["example.com/f", names.POD_FINALIZER]
GONE, NEW_NOTE = ("spec", "schedulingGates", None), ("metadata", "annotations")
CHANGES: list[Any] = [
    ([GONE], True),
    ([GONE, (*NEW_NOTE, {"a": "1", "gatelog.io/queue-position": "1"})], True),
    (
        [GONE, ("spec", "nodeSelector", {"pool": "a"}), ("spec", "tolerations", [{"key": "x"}])],
        True,
    ),
    ([("metadata", "finalizers", ["example.com/f"])], True),
    (
        [GONE, ("metadata", "labels", {**STAYS["metadata"]["labels"], names.PODSET_LABEL: "m"})],
        True,
    ),
    ([(*NEW_NOTE, None)], False),
    ([GONE, ("metadata", "labels", {**STAYS["metadata"]["labels"], "more": "1"})], False),
    ([GONE, ("metadata", "labels", {**STAYS["metadata"]["labels"], "mine": "2"})], False),
    ([(*NEW_NOTE, {"a": "2"})], False),
    ([(*NEW_NOTE, {"a": "1", "b": "1"})], False),
    ([GONE, ("metadata", "labels", {**Q, names.MANAGED_LABEL: "true"})], False),
    ([("metadata", "labels", None)], False),
    ([("metadata", "finalizers", None)], False),
    ([("metadata", "finalizers", [names.POD_FINALIZER])], False),
    ([("metadata", "finalizers", ["example.com/f", "example.com/g", names.POD_FINALIZER])], False),
    ([("metadata", "ownerReferences", None)], False),
    ([("spec", "containers", [])], False),
    ([("spec", "activeDeadlineSeconds", 5)], False),
    ([("spec", "containers", None)], False),
]


@pytest.mark.parametrize(("changes", "spared"), CHANGES)
def test_what_the_actuator_does_all_the_time_is_fenced_in_by_one_look(
    changes: list[tuple[str, str, Any]], spared: bool
) -> None:
    (spec,) = (
        o["spec"]
        for o in fence(ours.Settings())
        if o["kind"].endswith("Policy") and o["metadata"]["name"] == "gatelog-fence"
    )
    after = json.loads(json.dumps(STAYS))
    for part, key, value in changes:
        after[part].pop(key, None)
        if value is not None:
            after[part][key] = value
    assert skipped(spec, Activation(after, STAYS, ACTUATOR_USER)) is spared
    assert not Activation(after, STAYS).matches(spec["matchConditions"]), "of others nothing"
    assert not skipped(spec, Activation(None, STAYS, ACTUATOR_USER)), "deletions are looked at"
    assert not skipped(spec, Activation(after, STAYS, ACTUATOR_USER, "status"))


def queueing(settings: ours.Settings) -> RAW:
    """The spec of the policy that gates pods, as settings have it."""
    (spec,) = (
        o["spec"]
        for o in policies(settings)
        if o["kind"] == KIND and o["metadata"]["name"] == "gatelog-queued-pods"
    )
    return spec


def made(spec: RAW, raw: RAW, **variables: str) -> RAW:
    """What a mutating policy makes of an object, or the merge that makes it so."""
    activation = Activation(raw)
    wanted = [
        v | {"expression": variables.get(v["name"], v["expression"])}
        for v in spec.get("variables", [])
    ]
    activation.define(wanted)
    (mutation,) = spec["mutations"]  # the server converts the object for each
    if mutation["patchType"] == "JSONPatch":
        return patches.json_patch(raw, activation.plain(mutation["jsonPatch"]["expression"]))
    found: RAW = activation.plain(mutation["applyConfiguration"]["expression"])
    return found


@pytest.mark.parametrize("mode", ["kueue", "builtin"])
@pytest.mark.parametrize(
    ("before", "again"),
    [
        (raw_pod(labels=Q), False),
        (raw_pod(labels=Q | {names.MANAGED_LABEL: "no"}), False),
        (raw_pod(labels=Q, schedulingGates=[{"name": "x.io/own"}]), False),
        (raw_pod(labels=Q | {"i": "7"}, annotations={names.POD_INDEX_LABEL: "i"}), True),
        (raw_pod(annotations=PARENT), False),
        (raw_pod(gated=True), False),
        (raw_pod(labels={names.GROUP_NAME: "g"}, gated=True), False),
    ],
)
def test_what_is_complete_is_not_mutated_again(before: RAW, again: bool, mode: Any) -> None:
    """The server asks a second time because of the first: a mutation is the dearest part."""
    spec = queueing(ours.Settings(mode=mode))
    assert Activation(before).matches(spec["matchConditions"])
    after = made(spec, before)
    gates = [gate["name"] for gate in after["spec"]["schedulingGates"]]
    assert (names.TOPOLOGY_GATE in gates) is (mode == "kueue")
    assert Activation(after).matches(spec["matchConditions"]) is again
    for lost in ("labels", "finalizers"):
        part = {k: v for k, v in after["metadata"].items() if k != lost}
        part["labels"] = {**part.get("labels", {}), **Q}
        assert Activation(after | {"metadata": part}).matches(spec["matchConditions"])
    by_hand = names.ADMISSION_GATE in [g["name"] for g in before["spec"].get("schedulingGates", ())]
    for gate in gates:
        if gate.startswith(names.PREFIX) and not by_hand:
            left = [{"name": other} for other in gates if other != gate]
            fewer = after | {"spec": after["spec"] | {"schedulingGates": left}}
            assert Activation(fewer).matches(spec["matchConditions"])


@pytest.mark.parametrize("topology", ["true", "false"])
@pytest.mark.parametrize(
    "raw",
    [
        raw_pod(labels=Q),
        raw_pod(labels=Q, annotations=PARENT),
        raw_pod(annotations=PARENT),
        raw_pod(gated=True),
        raw_pod(annotations=PARENT, owner=("batch/v1", "Job", "j")),
        raw_pod(labels=Q | {"i": "7"}, annotations={names.POD_INDEX_LABEL: "i"}),
        raw_pod(labels=Q, annotations={names.POD_INDEX_LABEL: "i"}),
    ],
)
async def test_mutations_add_what_the_webhook_adds(raw: RAW, topology: str) -> None:
    found = made(policy(MUTATING, "gatelog-queued-pods"), raw, topologyGate=topology)
    wanted = WebhookPolicy(topology_gate=topology == "true")
    _, after = await mutated(raw, policy=wanted)
    assert found["spec"]["schedulingGates"] == after["spec"]["schedulingGates"]
    assert found["metadata"]["finalizers"] == after["metadata"]["finalizers"]
    assert found["metadata"]["labels"] == after["metadata"]["labels"]


APPLIED = {"manager": "argo", "operation": "Apply"}
CREATED = {"manager": "kubectl", "operation": "Update"}


@pytest.mark.parametrize(
    ("entries", "setting", "gone"),
    [
        ([CREATED], "clear", True),
        ([CREATED], "keep", False),
        ([APPLIED, CREATED], "clear", False),
        ([], "clear", False),
    ],
)
async def test_field_owners_of_a_queued_pod_go_where_a_setting_says_so(
    entries: list[RAW], setting: Any, gone: bool
) -> None:
    actuator = ours.ActuatorSettings(managed_fields=setting)
    settings = ours.Settings(mode="builtin", actuator=actuator)
    raw = raw_pod(labels=Q)
    if entries:
        raw["metadata"]["managedFields"] = entries
    found = made(queueing(settings), raw)
    _, after = await mutated(raw, policy=policy_for(settings))
    wanted = None if gone or not entries else entries
    assert found["metadata"].get("managedFields") == wanted
    assert after["metadata"].get("managedFields") == wanted


OWNED = {names.QUEUE_NAME: "q", "app": "a"}


@pytest.mark.parametrize(
    ("labels", "template", "wanted"),
    [
        (OWNED, {"app": "a"}, {names.QUEUE_NAME: "q"}),
        (OWNED | {names.PRIORITY_CLASS: "high"}, None,
         {names.QUEUE_NAME: "q", names.PRIORITY_CLASS: "high"}),
        (OWNED, {names.QUEUE_NAME: "other"}, {names.QUEUE_NAME: "q"}),
        (OWNED, {names.QUEUE_NAME: "q"}, {}),
        ({"app": "a"}, {"app": "a"}, {}),
        (None, None, {}),
    ],
)  # fmt: skip
def test_an_owners_queue_is_copied_to_its_template(
    labels: dict[str, str] | None, template: dict[str, str] | None, wanted: dict[str, str]
) -> None:
    metadata = {} if template is None else {"labels": template}
    raw: dict[str, Any] = {
        "metadata": {"name": "d", "labels": labels},
        "spec": {"template": {"metadata": metadata}},
    }
    if labels is None:
        del raw["metadata"]["labels"]
    patch = copied_labels(raw)
    after = apply(raw, patch)
    found = after["spec"]["template"]["metadata"].get("labels") or {}
    assert found == {**(template or {}), **wanted}
    assert copied_labels(after) == ()
    (hook,) = (h for h in configurations(Registration())[0]["webhooks"] if "owners" in h["name"])
    asked = bool(labels and names.QUEUE_NAME in labels) and Activation(raw).matches(
        hook["matchConditions"]
    )
    assert bool(asked) is bool(wanted)
    if reached(OWNERS, "gatelog-owner-labels", raw):
        same = made(policy(OWNERS, "gatelog-owner-labels"), raw)["spec"]["template"]["metadata"][
            "labels"
        ]
        assert {**(template or {}), **same} == found
    else:
        assert not wanted


LEFT: list[dict[str, str] | None] = [
    None,
    {},
    {"app": "a"},
    {names.QUEUE_NAME: ""},
    {names.PRIORITY_CLASS: "high"},
    {names.QUEUE_NAME: "other"},
    {names.QUEUE_NAME: "other", names.PRIORITY_CLASS: ""},
]
"""What is left of an owner's labels once a person has changed them; None: no labels at all."""


@pytest.mark.parametrize("labels", LEFT)
@pytest.mark.parametrize("template", [None, {}, {"labels": {}}, {"labels": OWNED}])
def test_an_owner_whose_queue_goes_or_changes_is_judged_alike_by_both_ways(
    labels: dict[str, str] | None, template: RAW | None
) -> None:
    """The server evaluates conditions for owners that named a queue before; an error refuses."""
    raw: RAW = {"metadata": {"name": "d"}, "spec": {"template": {}}}
    old: RAW = {"metadata": {"name": "d", "labels": OWNED}, "spec": {"template": {}}}
    if labels is not None:
        raw["metadata"]["labels"] = labels
    if template is not None:
        raw["spec"]["template"]["metadata"] = template
    (hook,) = (h for h in configurations(Registration())[0]["webhooks"] if "owners" in h["name"])
    patch = copied_labels(raw)
    assert Activation(raw, old).matches(hook["matchConditions"]) is bool(patch)
    chosen = policy(OWNERS, "gatelog-owner-labels")["matchConditions"]
    assert Activation(raw, old).matches(chosen) is bool((labels or {}).get(names.QUEUE_NAME))
    if patch:
        same = made(policy(OWNERS, "gatelog-owner-labels"), raw)["spec"]["template"]["metadata"][
            "labels"
        ]
        assert same.items() <= apply(raw, patch)["spec"]["template"]["metadata"]["labels"].items()


LACKING: list[RAW] = [
    {},
    {"labels": {}},
    {"labels": {"app": "a"}},
    {"annotations": {"a": "b"}},
    {"labels": Q},
    {"labels": Q, "annotations": {}, "finalizers": []},
]


@pytest.mark.parametrize("new", LACKING)
@pytest.mark.parametrize("old", [None, *LACKING])
@pytest.mark.parametrize("of_owners", [False, True])
def test_no_condition_is_an_error_whatever_of_its_metadata_an_object_lacks(
    new: RAW, old: RAW | None, of_owners: bool
) -> None:
    """An error in a condition refuses the request where the failure policy is Fail."""
    spec: RAW = {"template": {"metadata": {"labels": {"app": "a"}}}} if of_owners else {}
    activation = Activation(
        {"metadata": new, "spec": spec}, None if old is None else {"metadata": old, "spec": spec}
    )
    hooks = [h for one in configurations(Registration()) for h in one["webhooks"]]
    judges = [(h["name"].startswith("owners."), h["matchConditions"]) for h in hooks]
    for file in (MUTATING, DEFAULTING, VALIDATING, OWNERS):
        for one in objects(file):
            if "matchConditions" in one["spec"]:
                judges.append((file == OWNERS, one["spec"]["matchConditions"]))
    asked = [conditions for owners, conditions in judges if owners is of_owners]
    assert len(asked) >= (2 if of_owners else 6)
    for conditions in asked:
        assert activation.matches(conditions) in (True, False)


async def test_a_namespace_with_a_default_queue_takes_pods_that_name_none() -> None:
    """The policy's parameter is the LocalQueue `default` of the pod's own namespace."""
    settings = Settings(scheduler=False)
    async with SimCluster(settings) as cluster, Client(cluster.url, cluster.token) as client:
        for obj in (*objects(DEFAULTING), *objects(MUTATING)):
            plural = obj["kind"].lower() + "s"
            plural = plural.replace("policys", "policies")
            await client.create(f"{plural}.{obj['apiVersion']}", obj)
        await client.create("namespaces", {"metadata": {"name": "with"}})
        queues = "localqueues.kueue.x-k8s.io/v1beta2"
        await client.create(queues, {"metadata": {"name": "default"}, "spec": {}}, "with")
        taken = await client.create("pods", raw_pod(namespace="with"), "with")
        left = await client.create("pods", raw_pod(namespace="default"), "default")
    assert taken["metadata"]["labels"][names.QUEUE_NAME] == "default"
    assert names.ADMISSION_GATE in [gate["name"] for gate in taken["spec"]["schedulingGates"]]
    assert names.QUEUE_NAME not in left["metadata"].get("labels", {})
    assert "schedulingGates" not in left["spec"]


@pytest.mark.parametrize("file", [MUTATING, DEFAULTING, OWNERS])
def test_what_becomes_a_label_is_said_to_be_a_text(file: str) -> None:
    """The server's type checker refuses a map of literals and of what it knows nothing about."""
    for obj in objects(file):
        for mutation in obj["spec"].get("mutations", []):
            text = (mutation.get("applyConfiguration") or mutation["jsonPatch"])["expression"]
            values = re.findall(r'"kueue[^"]*": *([a-z]\w*)', text)
            assert set(values) <= {"string", "has"}, values
