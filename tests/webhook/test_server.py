"""The server over real HTTPS on loopback: what goes in, what comes out, and its bounds."""

import asyncio
import copy
import io
import json
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ingest.webhook.admission import AdmissionWebhooks
from ingest.webhook.owners import Owner
from ingest.webhook.pod import OwnerRef
from ingest.webhook.policy import ACTUATOR_USER, OwnerKind, WebhookPolicy
from ingest.webhook.server import MUTATE_PATH, VALIDATE_PATH, Limits, WebhookServer
from podgroup.model import names
from runtime.certificates import OwnCertificates, server_context
from runtime.listening import ListenError
from tests.webhook.cluster import (
    RAW,
    Cluster,
    apply,
    patch_of,
    raw_pod,
    recorded_reviews,
    review,
)

Q = {names.QUEUE_NAME: "user-queue"}


class Client:
    """Posts reviews to a server and decodes what comes back."""

    def __init__(self, server: WebhookServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        url = self.server.url + path
        async with self.session.post(url, data=io.BytesIO(data), headers=headers) as answer:
            text = await answer.text()
            is_json = answer.content_type == "application/json"
            return answer.status, json.loads(text) if is_json else text

    async def review(self, path: str, body: RAW) -> RAW:
        status, answer = await self.post(path, body)
        assert status == 200, answer
        assert answer["kind"] == "AdmissionReview"
        assert answer["apiVersion"] == "admission.k8s.io/v1"
        assert answer["response"]["uid"] == body["request"]["uid"]
        response: RAW = answer["response"]
        return response


class Slow(Cluster):
    """A cluster that does not answer about owners until told to."""

    def __init__(self) -> None:
        super().__init__()
        self.release = asyncio.Event()

    async def owner(self, namespace: str, ref: OwnerRef, kind: OwnerKind) -> Owner | None:
        await self.release.wait()
        return None


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def client(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Client]:
    certificates = OwnCertificates(tmp_path / "certs", ["localhost", "127.0.0.1"])
    certificates.ensure(datetime.now(UTC))
    tls = server_context()
    certificates.load(tls)
    trust = ssl.create_default_context(cadata=certificates.ca_bundle().decode())
    limits = Limits(timeout_s=2.0)
    server = WebhookServer(AdmissionWebhooks(WebhookPolicy(), cluster), tls=tls, limits=limits)
    await server.start()
    connector = aiohttp.TCPConnector(ssl=trust)
    try:
        async with aiohttp.ClientSession(connector=connector) as session:
            yield Client(server, session)
    finally:
        await server.stop()


async def test_mutation_over_https(client: Client) -> None:
    raw = raw_pod(labels=Q)
    response = await client.review(MUTATE_PATH, review(raw))
    assert response["allowed"]
    assert response["patchType"] == "JSONPatch"
    after = apply(raw, patch_of(response))
    assert after["metadata"]["finalizers"] == [names.POD_FINALIZER]
    assert after["spec"]["schedulingGates"] == [{"name": names.ADMISSION_GATE}]
    assert response["auditAnnotations"] == {"disposition": "gated"}
    assert client.server.url.startswith("https://127.0.0.1:")
    # What mutation made passes validation, and a dry run is no different.
    response = await client.review(VALIDATE_PATH, review(after, dryRun=True))
    assert response == {"uid": "u-1", "allowed": True}
    assert client.server.counts == {("mutate", "gated"): 1, ("validate", "passed"): 1}


async def test_pod_without_queue_passes_untouched(client: Client) -> None:
    response = await client.review(MUTATE_PATH, review(raw_pod()))
    assert response["allowed"]
    assert "patch" not in response
    assert client.server.counts["mutate", "no_queue"] == 1


@pytest.mark.parity("B24")
async def test_a_queue_named_after_mutation_is_refused(client: Client, cluster: Cluster) -> None:
    """The server asks a mutating webhook that passed a pod by no second time."""
    for raw, passes in (
        (raw_pod(labels=Q), False),
        (raw_pod(labels=Q, owner=("apps/v1", "Unknown", "r")), False),
        (raw_pod(labels=Q | {names.MANAGED_LABEL: "true"}, gated=True), True),
        (raw_pod(labels=Q, annotations={names.SUSPENDING_PARENT: ""}, gated=True), True),
        (raw_pod(labels=Q, namespace="kube-system"), True),
    ):
        response = await client.review(VALIDATE_PATH, review(raw))
        assert response["allowed"] is passes, response
        if not passes:
            (cause,) = response["status"]["details"]["causes"]
            assert cause["field"] == f"metadata.labels[{names.QUEUE_NAME}]"
            assert "would run uncounted" in cause["message"]


async def test_a_mirror_is_what_a_kubelet_makes(client: Client) -> None:
    raw = raw_pod(labels=Q, annotations={"kubernetes.io/config.mirror": "x"}, nodeName="n")
    kubelet = {"username": "system:node:n", "groups": ["system:nodes", "system:authenticated"]}
    for user, passes in (
        (kubelet, True),
        ({"username": "system:node:n"}, False),
        ({"username": "bob", "groups": ["system:nodes"]}, False),
    ):
        for path in (MUTATE_PATH, VALIDATE_PATH):
            response = await client.review(path, review(raw, userInfo=user))
            assert response["allowed"] is passes and "patch" not in response


async def test_denial_lists_every_field(client: Client) -> None:
    raw = raw_pod(labels={names.GROUP_NAME: "G!", names.MANAGED_LABEL: "x"})
    response = await client.review(VALIDATE_PATH, review(raw))
    assert not response["allowed"]
    status = response["status"]
    assert (status["code"], status["reason"], status["status"]) == (403, "Forbidden", "Failure")
    assert [(c["reason"], c["field"]) for c in status["details"]["causes"]] == [
        ("FieldValueForbidden", f"metadata.labels[{names.MANAGED_LABEL}]"),
        ("FieldValueInvalid", f"metadata.labels[{names.GROUP_NAME}]"),
        ("FieldValueRequired", f"metadata.annotations[{names.GROUP_TOTAL_COUNT}]"),
    ]
    assert all(c["field"] in status["message"] for c in status["details"]["causes"])
    assert status["message"].endswith("(pod ns/p, group G!)")
    assert status["details"]["name"] == "p"
    assert "patch" not in response


async def test_generated_names_and_missing_namespace(client: Client) -> None:
    raw = raw_pod(labels={names.QUEUE_NAME: "?"})
    raw["metadata"] = {"generateName": "job-", "labels": {names.QUEUE_NAME: "?"}}
    response = await client.review(VALIDATE_PATH, review(raw, namespace="team-a"))
    assert response["status"]["message"].endswith("(pod team-a/job-*)")


async def test_update_and_warnings(client: Client) -> None:
    old = raw_pod(labels=Q, phase="Running")
    new = raw_pod(labels={names.QUEUE_NAME: "other"}, phase="Running")
    response = await client.review(VALIDATE_PATH, review(new, operation="UPDATE", old=old))
    assert "field is immutable" in response["status"]["message"]
    labels, job = {**Q, names.MANAGED_LABEL: "true"}, ("batch/v1", "Job", "j")
    managed = raw_pod(labels=labels, owner=job, gated=True)
    response = await client.review(VALIDATE_PATH, review(managed))
    assert response["allowed"]
    assert "might lead to unexpected behaviour" in response["warnings"][0]


async def test_owner_not_found_is_a_denial(client: Client) -> None:
    raw = raw_pod(labels=Q, owner=("batch/v1", "Job", "gone"))
    response = await client.review(MUTATE_PATH, review(raw))
    assert not response["allowed"]
    assert response["status"]["details"]["causes"][0]["field"] == "metadata.ownerReferences"
    assert "Job/gone" in response["status"]["message"]
    assert client.server.counts["mutate", "refused"] == 1


async def test_no_verdict_when_the_cluster_cannot_be_asked(
    client: Client, cluster: Cluster
) -> None:
    cluster.down = True
    status, text = await client.post(MUTATE_PATH, review(raw_pod()))
    assert status == 500
    assert "the API server did not answer" in text
    assert client.server.counts["mutate", "lookup_failed"] == 1
    # A pod about which nothing need be asked is still served.
    parent = raw_pod(annotations={names.SUSPENDING_PARENT: "x"})
    assert (await client.review(MUTATE_PATH, review(parent)))["allowed"]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"operation": "DELETE"}, VALIDATE_PATH),
        ({"operation": "UPDATE"}, MUTATE_PATH),
        ({"operation": "CONNECT"}, VALIDATE_PATH),
        ({"subResource": "status"}, VALIDATE_PATH),
        ({"resource": {"group": "apps", "version": "v1", "resource": "deployments"}}, MUTATE_PATH),
    ],
)
async def test_what_is_none_of_our_business_passes(client: Client, fields: RAW, path: str) -> None:
    body = review(raw_pod(labels={names.MANAGED_LABEL: "x", **Q}))
    body["request"].update(fields)
    if fields.get("operation") == "DELETE":
        body["request"].update(object=None, oldObject=body["request"]["object"])
    response = await client.review(path, body)
    assert response == {"uid": "u-1", "allowed": True}


@pytest.mark.parametrize("recorded", [*recorded_reviews("UPDATE"), *recorded_reviews("DELETE")])
async def test_recorded_reviews_as_posted(client: Client, recorded: RAW) -> None:
    ungating = copy.deepcopy(recorded)
    ungating["request"]["userInfo"]["username"] = ACTUATOR_USER
    response = await client.review(VALIDATE_PATH, ungating)
    assert response == {"uid": recorded["request"]["uid"], "allowed": True}


BAD: list[Any] = [
    pytest.param(b"", "the body is empty", id="empty"),
    pytest.param(b"hello", "not JSON", id="text"),
    pytest.param(b"\xff\xfe", "not JSON", id="bytes"),
    pytest.param(b'{"kind": "AdmissionReview"', "not JSON", id="cut-short"),
    pytest.param(b'{"request": {"object": ' + b"[" * 200_000, "nested too deeply", id="deep"),
    pytest.param(b"[]", "not an AdmissionReview", id="list"),
    pytest.param({}, "its kind is ''", id="object"),
    pytest.param({"kind": "Pod", "apiVersion": "v1"}, "its kind is 'Pod'", id="pod"),
    pytest.param(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"},
        "admissionReviewVersions",
        id="v1beta1",
    ),
    pytest.param(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"},
        "no request",
        id="empty-review",
    ),
    pytest.param(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": 1}},
        "request.uid",
        id="bad-uid",
    ),
    pytest.param(b'{"request": "' + b"\\ud800" + b'"}', "not JSON", id="surrogate"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "sentence"), BAD)
@pytest.mark.parametrize("path", [MUTATE_PATH, VALIDATE_PATH])
async def test_bad_bodies_get_a_sentence(
    client: Client, path: str, body: Any, sentence: str
) -> None:
    status, text = await client.post(path, body)
    assert status == 400
    assert sentence in text
    assert text.startswith("gatelog webhook: ")
    assert text.count("\n") == 1
    assert "Traceback" not in text


@pytest.mark.parametrize("bad", [None, [], "x", {"metadata": {"labels": [1]}}])
async def test_review_of_something_else_is_refused(client: Client, bad: Any) -> None:
    body = review(raw_pod())
    body["request"]["object"] = bad
    for path in (MUTATE_PATH, VALIDATE_PATH):
        response = await client.review(path, body)
        assert not response["allowed"]
        assert "Pod" in response["status"]["message"]


async def test_bounds(cluster: Cluster) -> None:
    slow = Slow()
    server = WebhookServer(
        AdmissionWebhooks(WebhookPolicy(), slow),
        tls=None,
        limits=Limits(timeout_s=0.3, max_body_bytes=20_000, max_in_flight=2),
    )
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            client = Client(server, session)
            big = review(raw_pod(annotations={"a": "x" * 30_000}))
            status, text = await client.post(MUTATE_PATH, big)
            assert (status, "larger than 20000 bytes" in text) == (413, True)
            owned = review(raw_pod(labels=Q, owner=("batch/v1", "Job", "j")))
            answers = await asyncio.gather(*(client.post(MUTATE_PATH, owned) for _ in range(4)))
            assert sorted(status for status, _ in answers) == [503, 503, 504, 504]
            async with session.get(server.url + "/healthz") as answer:
                assert (answer.status, await answer.text()) == (200, "ok\n")
            async with session.get(server.url + MUTATE_PATH) as answer:
                assert answer.status == 405
    finally:
        await server.stop()
    assert server.counts == {
        ("mutate", "too_large"): 1,
        ("mutate", "timeout"): 2,
        ("mutate", "busy"): 2,
    }
    with pytest.raises(RuntimeError, match="not running"):
        _ = server.url


async def test_a_pod_of_the_largest_size_is_served(client: Client) -> None:
    raw = raw_pod(labels=Q, annotations={"example.com/big": "x" * (3 * 1024 * 1024 - 2000)})
    response = await client.review(MUTATE_PATH, review(raw))
    assert response["allowed"]


async def test_two_servers_on_one_port_fail_with_the_address(client: Client) -> None:
    port = int(client.server.url.rpartition(":")[2])
    second = WebhookServer(AdmissionWebhooks(WebhookPolicy(), Cluster()), tls=None, port=port)
    with pytest.raises(ListenError, match=rf"{port}: address already in use.*webhook\.port"):
        await second.start()
    await second.stop()


async def test_asking_twice_gives_the_same_answer(client: Client) -> None:
    body = review(raw_pod(labels=Q))
    before = copy.deepcopy(body)
    assert await client.review(MUTATE_PATH, body) == await client.review(MUTATE_PATH, body)
    assert body == before
