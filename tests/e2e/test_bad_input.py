"""Bad input from users: each is told what is wrong and where, and nobody else notices.

One `gatelog up --install webhook` on the stand-in serves the whole module. What the webhook can
refuse is refused while its author is looking. What comes past it (kube-system is a namespace it
does not see) is held at the gate by the core with the same clarity: group, pod and field named in
the Event on the pod, in `v_why_pending` and in `gatelog why`. After each case a good group made
beside it runs to its end.
"""

import asyncio
import re
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from podgroup.model.names import (
    ADMISSION_GATE,
    GROUP_NAME,
    GROUP_TOTAL_COUNT,
    MANAGED_LABEL,
    POD_FINALIZER,
    QUEUE_NAME,
    ROLE_HASH,
)
from tests.support.processes import KUEUE, Api, make_queue, pod
from tests.support.stack import Stack, finished, running_stack, runs_to_its_end

# One stack answers for the whole module.
pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
]

JUNK = "kueue.x-k8s.io/junk"
TEAM, UNSEEN = "team", "kube-system"
"""A namespace the webhook guards, and one it does not see."""
SCRIPT = "run=50ms,succeed"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("bad-input")) as one:

        async def queues() -> None:
            async with one.api() as api:
                for namespace in (TEAM, UNSEEN):
                    await make_queue(api, namespace, cpu="100")

        asyncio.run(queues())
        yield one


def bad(
    name: str,
    group: str = "",
    total: int = 1,
    *,
    labels: dict[str, str] | None = None,
    notes: dict[str, str | None] | None = None,
) -> dict[str, Any]:
    """A pod with something wrong in its labels or annotations; None takes one away."""
    body = pod(name, group, total, script=SCRIPT, labels=labels)
    for key, value in (notes or {}).items():
        if value is None:
            del body["metadata"]["annotations"][key]
        else:
            body["metadata"]["annotations"][key] = value
    return body


def gated(body: dict[str, Any]) -> dict[str, Any]:
    """The same pod as if it had been through the webhook."""
    body["metadata"]["labels"][MANAGED_LABEL] = "true"
    body["metadata"]["finalizers"] = [POD_FINALIZER]
    body["spec"]["schedulingGates"] = [{"name": ADMISSION_GATE}]
    return body


async def create(api: Api, namespace: str, body: dict[str, Any], **more: Any) -> Any:
    return await api.call("POST", f"/api/v1/namespaces/{namespace}/pods", body, **more)


TOTAL_PATH = f"metadata.annotations[{GROUP_TOTAL_COUNT}]"
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "count-word": (bad("p1", "g1", notes={GROUP_TOTAL_COUNT: "three"}), TOTAL_PATH, '"three"'),
    "count-zero": (bad("p2", "g1", notes={GROUP_TOTAL_COUNT: "0"}), TOTAL_PATH, "greater than"),
    "count-negative": (bad("p3", "g1", notes={GROUP_TOTAL_COUNT: "-1"}), TOTAL_PATH, '"-1"'),
    "count-half": (bad("p4", "g1", notes={GROUP_TOTAL_COUNT: "1.5"}), TOTAL_PATH, "integer"),
    "count-huge": (bad("p5", "g1", notes={GROUP_TOTAL_COUNT: "9" * 40}), TOTAL_PATH, "integer"),
    "count-absent": (bad("p6", "g1", notes={GROUP_TOTAL_COUNT: None}), TOTAL_PATH, "should be set"),
    "group-absent": (
        bad("p7", notes={GROUP_TOTAL_COUNT: "2"}),
        f"metadata.labels[{GROUP_NAME}]",
        "should be set",
    ),
    "group-name": (bad("p8", "Bad_Name"), f"metadata.labels[{GROUP_NAME}]", "DNS-1123"),
    "queue-name": (
        bad("p9", "g1", labels={QUEUE_NAME: "No_Queue"}),
        f"metadata.labels[{QUEUE_NAME}]",
        "DNS-1123",
    ),
    "role-hash": (
        bad("p10", "g1", notes={ROLE_HASH: "No Hash!"}),
        f"metadata.annotations[{ROLE_HASH}]",
        "DNS-1123",
    ),
    "annotation-large": (
        bad("p11", "g1", notes={"kueue.x-k8s.io/pod-group-note": "x" * 20_000}),
        "metadata.annotations[kueue.x-k8s.io/pod-group-note]",
        "is 20000 bytes long, gatelog takes at most 4096",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_the_webhook_names_pod_group_and_field(stack: Stack, case: str) -> None:
    body, field, words = REFUSED[case]
    name = body["metadata"]["name"]
    async with stack.api() as api:
        answer = await create(api, TEAM, body, ok=(403,))
        assert words in answer["message"]
        assert f"pod {TEAM}/{name}" in answer["message"]
        group = body["metadata"]["labels"].get(GROUP_NAME)
        assert group is None or f"group {group}" in answer["message"]
        assert field in [cause["field"] for cause in answer["details"]["causes"]]
        assert len(answer["message"]) < 600
        assert name not in await api.pods(TEAM)
        await runs_to_its_end(stack, api, TEAM)


async def test_more_annotations_than_the_api_takes(stack: Stack) -> None:
    """300 KiB are refused by the API server; 200 KiB of somebody else's do not concern us."""
    async with stack.api() as api:
        note: dict[str, str | None] = {"example.com/blob": "x" * 300 * 1024}
        answer = await create(api, TEAM, bad("large", notes=note), ok=(422,))
        assert "metadata.annotations" in answer["message"]
        note = {"example.com/blob": "x" * 200 * 1024}
        await create(api, TEAM, bad("foreign", "foreign-group", 1, notes=note))
        await finished(stack, api, TEAM, "foreign-group", ["foreign"])


async def why(stack: Stack, api: Api, name: str, reason: str) -> str:
    """Wait until `v_why_pending` has the reason; return its message."""

    async def row() -> Any:
        query = "SELECT message FROM v_why_pending WHERE name = ? AND reason = ?"
        return stack.sql(query, name, reason)

    found = await api.until(f"{name} waits for {reason}", row)
    return str(found[0]["message"])


async def event(api: Api, namespace: str, on: str, words: str) -> dict[str, Any]:
    """Wait for the Warning that `kubectl describe pod` shows."""

    async def told() -> Any:
        path = f"/api/v1/namespaces/{namespace}/events"
        found = (await api.call("GET", path))["items"]
        return [
            one
            for one in found
            if one["involvedObject"]["name"] == on
            and one["type"] == "Warning"
            and words in one["message"]
        ]

    found: list[dict[str, Any]] = await api.until(f"a Warning on {on}: {words}", told)
    assert len(found) == 1, "said once"
    return found[0]


async def test_a_queue_that_does_not_exist(stack: Stack) -> None:
    async with stack.api() as api:
        await create(api, TEAM, bad("lost", labels={QUEUE_NAME: "absent"}))
        message = await why(stack, api, "lost", "LocalQueueNotFound")
        assert message == f"LocalQueue absent doesn't exist in namespace {TEAM}"
        await event(api, TEAM, "lost", message)
        said = stack.command("why", f"{TEAM}/lost").stdout
        assert message in said
        assert "it takes" in said
        await runs_to_its_end(stack, api, TEAM)
        await make_queue(api, "other", cpu="1")
        body = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": "absent", "namespace": TEAM},
            "spec": {"clusterQueue": f"cq-{TEAM}"},
        }
        await api.call("POST", f"{KUEUE}/namespaces/{TEAM}/localqueues", body)
        await finished(stack, api, TEAM, "lost", ["lost"])


async def test_a_flavor_that_does_not_exist(stack: Stack) -> None:
    async with stack.api() as api:
        await make_queue(api, "flavorless", cpu="4")
        path = f"{KUEUE}/clusterqueues/cq-flavorless"
        queue = await api.call("GET", path)
        queue["spec"]["resourceGroups"][0]["flavors"][0]["name"] = "nowhere"
        await api.call("PUT", path, queue)
        await create(api, "flavorless", bad("adrift", "adrift-group"))
        message = await why(stack, api, "adrift-group", "ClusterQueueInactive")
        assert message == (
            "ClusterQueue cq-flavorless is inactive: ResourceFlavor nowhere doesn't exist"
        )
        await event(api, "flavorless", "adrift", message)
        assert "nowhere" in stack.command("why", "flavorless/adrift-group").stdout
        await runs_to_its_end(stack, api, TEAM)
        body = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ResourceFlavor",
            "metadata": {"name": "nowhere"},
            "spec": {"nodeLabels": {"pool": "a"}},
        }
        await api.call("POST", f"{KUEUE}/resourceflavors", body)
        await finished(stack, api, "flavorless", "adrift-group", ["adrift"])


BODIES = {
    "nothing": b"",
    "garbage": b"\x00\xff not json",
    "a-list": b"[]",
    "another-kind": b'{"kind": "Pod", "apiVersion": "v1"}',
    "no-request": b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}',
    "another-object": b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":'
    b'{"uid":"u","operation":"CREATE","object":{"metadata":{"labels":7}}}}',
}


@pytest.mark.parametrize("case", BODIES)
async def test_a_body_that_is_no_review(stack: Stack, case: str) -> None:
    async with stack.api() as api:
        found = await api.call("GET", f"{CONFIGURATIONS}/gatelog-pods")
        config = found["webhooks"][0]["clientConfig"]
        url = re.sub(r"\?.*", "", config["url"])
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        async with api.http.post(url, data=BODIES[case], ssl=context) as answer:
            text = await answer.text()
        assert answer.status == 400, text
        assert text.startswith("gatelog webhook: ")
        assert len(text.splitlines()) == 1
        assert "Traceback" not in text
        await runs_to_its_end(stack, api, TEAM)


def unequal(group: str, first: dict[str, Any], second: dict[str, Any]) -> list[dict[str, Any]]:
    return [bad(f"{group}-a", group, 2, **first), bad(f"{group}-b", group, 2, **second)]


# group -> its pods, the reason, words that must be said (the pod, the field, the value)
PAST: dict[str, tuple[list[dict[str, Any]], str, tuple[str, ...]]] = {
    "word": (
        [bad("word-a", "word", notes={GROUP_TOTAL_COUNT: "three"})],
        "BadTotalCount",
        ("pod word-a", GROUP_TOTAL_COUNT, "'three'"),
    ),
    "zero": (
        [bad("zero-a", "zero", notes={GROUP_TOTAL_COUNT: "0"})],
        "BadTotalCount",
        ("pod zero-a", GROUP_TOTAL_COUNT, "'0'"),
    ),
    "uncounted": (
        [bad("uncounted-a", "uncounted", notes={GROUP_TOTAL_COUNT: None})],
        "BadTotalCount",
        ("pod uncounted-a", GROUP_TOTAL_COUNT, "None"),
    ),
    "huge": (
        [bad("huge-a", "huge", notes={GROUP_TOTAL_COUNT: "9" * 4000})],
        "BadTotalCount",
        ("pod huge-a", GROUP_TOTAL_COUNT, "999..."),
    ),
    "queues": (
        unequal("queues", {}, {"labels": {QUEUE_NAME: "other"}}),
        "DifferentQueues",
        ("'queues-a'", "'queues-b'", QUEUE_NAME, "user-queue", "other"),
    ),
    "counts": (
        unequal("counts", {}, {"notes": {GROUP_TOTAL_COUNT: "3"}}),
        "DifferentTotalCounts",
        ("'counts-a'", "'counts-b'", GROUP_TOTAL_COUNT, "2", "3"),
    ),
    "hash": (
        [bad("hash-a", "hash", notes={ROLE_HASH: "No Hash!"})],
        "BadRoleHash",
        ("pod hash-a", ROLE_HASH, "'No Hash!'"),
    ),
    "Bad_Name": (
        [bad("name-a", "Bad_Name")],
        "BadGroupName",
        ("pod name-a", GROUP_NAME, "'Bad_Name'"),
    ),
}


@pytest.fixture(scope="module")
def past_the_webhook(stack: Stack) -> None:
    """All of them at once, in a namespace that the webhook does not see."""

    async def make() -> None:
        async with stack.api() as api:
            for pods, _, _ in PAST.values():
                for body in pods:
                    await create(api, UNSEEN, gated(body))

    asyncio.run(make())


@pytest.mark.parametrize("group", PAST)
@pytest.mark.usefixtures("past_the_webhook")
async def test_what_comes_past_the_webhook_is_held(stack: Stack, group: str) -> None:
    pods, reason, words = PAST[group]
    async with stack.api() as api:
        message = await why(stack, api, group, reason)
        assert all(word in message for word in words), message
        assert len(message) < 400
        row = stack.sql("SELECT state, namespace FROM groups WHERE name = ?", group)
        assert row == [{"state": "Blocked", "namespace": UNSEEN}]
        for body in pods:
            found = await event(api, UNSEEN, body["metadata"]["name"], message)
            assert found["reason"] == "ErrWorkloadCompose"
        said = stack.command("why", f"{UNSEEN}/{group}")
        assert reason in said.stdout
        assert f"{UNSEEN}/{group}" in said.stdout
        assert "it takes" in said.stdout
        there = await api.pods(UNSEEN)
        for body in pods:
            kept = there[body["metadata"]["name"]]
            assert kept["spec"]["schedulingGates"] == [{"name": ADMISSION_GATE}]
            assert kept["metadata"]["finalizers"] == [POD_FINALIZER]
        workloads = await api.call("GET", f"{KUEUE}/namespaces/{UNSEEN}/workloads")
        assert group not in [one["metadata"]["name"] for one in workloads["items"]]
        await runs_to_its_end(stack, api, TEAM)


async def test_an_annotation_beyond_its_bound_hides_nothing_of_a_pod(stack: Stack) -> None:
    """200 KiB in one of our annotations: left out and said on the pod; the group runs."""
    async with stack.api() as api:
        await create(api, UNSEEN, gated(bad("good-half", "halves", 2)))
        await why(stack, api, "halves", "WaitingForPods")
        huge: dict[str, str | None] = {JUNK: "x" * 200 * 1024}
        await create(api, UNSEEN, gated(bad("bad-half", "halves", 2, notes=huge)))
        said = f"metadata.annotations[{JUNK}] is 204800 bytes long"
        assert (await event(api, UNSEEN, "bad-half", said))["reason"] == "PodRefused"
        await finished(stack, api, UNSEEN, "halves", ["good-half", "bad-half"])
        assert not stack.sql("SELECT * FROM parked WHERE object = ?", f"Pod {UNSEEN}/bad-half")
        await runs_to_its_end(stack, api, TEAM)


async def test_an_affinity_that_compares_with_a_word(stack: Stack) -> None:
    """The API server takes any text as bound of Gt and Lt (core/v1 NodeSelectorRequirement)."""
    body = bad("worded", "worded-group")
    expression = {"key": "pool", "operator": "Gt", "values": ["many"]}
    body["spec"]["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [expression]}]
            }
        }
    }
    async with stack.api() as api:
        await create(api, TEAM, body)
        await why(stack, api, "worded-group", "NoMatchingFlavor")
        await runs_to_its_end(stack, api, TEAM)


async def test_without_a_webhook_the_core_holds_alone(stack: Stack) -> None:
    """Last here: takes the webhook away, in a guarded namespace; the next start brings it back."""
    async with stack.api() as api:
        kind = CONFIGURATIONS.rpartition("/")[0]
        for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            await api.call("DELETE", f"{kind}/{plural}/gatelog-pods")
        plain = bad("plain", "plain-group")
        await create(api, TEAM, plain)
        await create(api, TEAM, gated(bad("odd", "odd-group", notes={GROUP_TOTAL_COUNT: "many"})))
        message = await why(stack, api, "odd-group", "BadTotalCount")
        assert "pod odd" in message
        assert "schedulingGates" not in (await api.pods(TEAM))["plain"]["spec"]
        warned = stack.doctor()["gating"]
        assert warned["verdict"] != "ok", warned
        await asyncio.to_thread(stack.up.stop)
        await asyncio.to_thread(stack.start)
        answer = await create(api, TEAM, REFUSED["count-word"][0], ok=(403,))
        assert GROUP_TOTAL_COUNT in answer["message"]
        await runs_to_its_end(stack, api, TEAM)


def test_nothing_of_it_was_an_error_of_ours(stack: Stack) -> None:
    """Whatever was refused, set aside or blocked: no defect was logged, nothing crashed."""
    assert stack.up.running
    assert "Traceback" not in stack.up.text()
    assert not stack.log_lines("webhook_defect")
    query = "SELECT * FROM parked WHERE reason NOT IN ('DeltaRefused')"
    assert stack.sql(query) == []
