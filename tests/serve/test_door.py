"""Who is let in: certificates, forged headers, tokens, rights that go, and an API server away."""

import asyncio
import base64
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from gatelog.serve.access.callers import Caller, CannotTell, Deed, NotAllowed, NotKnown
from gatelog.serve.access.frontproxy import Trust, TrustError, caller_of, read_trust
from gatelog.serve.access.reviewing import Reviews
from gatelog.serve.tls import announce
from runtime.ca_bundle import trusts
from runtime.certificates import OwnCertificates
from runtime.kube import connect
from runtime.kube_errors import KubeUnavailable
from tests.serve.conftest import World

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

GROUPS = "/apis/gatelog.io/v1beta1/namespaces/ns/podgroups"
FORGED = {"X-Remote-User": "system:admin", "X-Remote-Group": "system:masters"}


async def ask(
    world: World,
    path: str,
    headers: dict[str, str] | None = None,
    cert: Path | None = None,
    form: dict[str, str] | None = None,
) -> tuple[int, Any]:
    """Ask serve itself, past the API server; a `form` is posted."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if cert is not None:
        context.load_cert_chain(cert)
    url = f"https://127.0.0.1:{world.port}{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            "GET" if form is None else "POST", url, headers=headers, data=form, ssl=context
        ) as answer,
    ):
        json = "json" in answer.content_type
        return answer.status, await (answer.json() if json else answer.text())


async def test_replicas_that_announce_at_once_are_all_trusted(world: World, tmp_path: Path):
    """The API server holds one bundle for all; each replica has an authority of its own."""
    made = []
    for number in range(3):
        own = OwnCertificates(tmp_path / str(number), ["gatelog-serve.gatelog-system.svc"])
        own.ensure(datetime.now(UTC))
        made.append(own.ca_bundle())
    kube = await connect(world.settings.kubernetes)
    try:
        said = await asyncio.gather(*(announce(kube, world.settings, one) for one in made))
        assert said == ["", "", ""]
        assert await announce(kube, world.settings, made[0]) == ""
    finally:
        await kube.close()
    for service in world.cluster.objects("apiregistration.k8s.io", "apiservices"):
        bundle = base64.b64decode(service["spec"]["caBundle"])
        assert all(trusts(bundle, one) for one in made)
        assert bundle.count(b"BEGIN CERTIFICATE") == 4, "and the replica that serves"
    status, _, _ = await world.client().request("GET", "/apis/gatelog.io/v1beta1")
    assert status == 200


async def test_forged_headers_are_refused(world: World, tmp_path: Path):
    proxy = world.cluster.proxy
    status, said = await ask(world, GROUPS, FORGED)
    assert status == 401
    assert "without a client certificate" in said["message"]
    # Of the right authority, but another's certificate.
    other = proxy.issue("kubelet", tmp_path / "kubelet.pem")
    status, said = await ask(world, GROUPS, FORGED, other)
    assert status == 401
    assert "'kubelet', which requestheader-allowed-names does not list" in said["message"]
    # Headers of a front proxy beside a token: the token does not make them true.
    bearer = {"Authorization": "Bearer bob-token"}
    status, _ = await ask(world, GROUPS, FORGED | bearer)
    assert status == 401
    # The front proxy itself is believed.
    status, said = await ask(world, GROUPS, FORGED, proxy.client_file)
    assert (status, len(said["items"])) == (200, 4)
    status, said = await ask(world, GROUPS, {"X-Remote-User": "bob"}, proxy.client_file)
    assert status == 403


async def test_a_certificate_of_another_authority_ends_the_connection(world: World):
    from tests.support.standin.frontproxy import FrontProxy

    stranger = FrontProxy()
    with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
        await ask(world, GROUPS, FORGED, stranger.client_file)
    stranger.close()


async def test_tokens_are_reviewed_and_nobody_is_a_guest(world: World):
    status, said = await ask(world, GROUPS)
    assert status == 401
    assert "bring a bearer token" in said["message"]
    status, said = await ask(world, GROUPS, {"Authorization": "Bearer nonsense"})
    assert status == 401
    assert "does not know the bearer token" in said["message"]
    status, said = await ask(world, GROUPS, {"Authorization": f"Bearer {'x' * 20_000}"})
    assert status == 401
    status, said = await ask(world, GROUPS, {"Authorization": "Bearer ann-token"})
    assert (status, len(said["items"])) == (200, 4)
    status, said = await ask(world, GROUPS, {"Authorization": "Bearer bob-token"})
    assert status == 403
    assert 'User "bob" cannot list resource "podgroups"' in said["message"]
    assert (await ask(world, "/healthz"))[0] == 200
    assert (await ask(world, "/readyz")) == (200, "ok\n")


async def test_a_right_that_is_withdrawn_ends_soon(world: World):
    bearer = {"Authorization": "Bearer ann-token"}
    assert (await ask(world, GROUPS, bearer))[0] == 200
    name = "ann-gatelog-ledger-viewer"
    bindings = "rolebindings.rbac.authorization.k8s.io/v1"
    await world.client().delete(bindings, name, "ns")
    async with asyncio.timeout(5):
        while (await ask(world, GROUPS, bearer))[0] != 403:
            await asyncio.sleep(0.1)


class Away:
    """An API server that does not answer, or answers what it should not."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked = 0

    async def json(self, method: str, path: str, *, body: Any = None) -> tuple[int, Any]:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


DEED = Deed(verb="list", group="gatelog.io", version="v1beta1", resource="podgroups")
ANN = Caller(name="ann")


@pytest.mark.parametrize(
    "answer",
    [
        KubeUnavailable("gone"),
        (403, {"message": "no"}),
        (500, None),
        (200, ["no review"]),
    ],
)
async def test_no_answer_is_never_a_yes(answer: Any):
    reviews = Reviews(Away(answer), 10)
    with pytest.raises(CannotTell):
        await reviews.permit(ANN, DEED)
    with pytest.raises(CannotTell):
        await reviews.caller("token")


@pytest.mark.parametrize("status", [{}, {"allowed": "yes"}, {"allowed": True, "denied": True}])
async def test_only_a_plain_yes_allows(status: Any):
    reviews = Reviews(Away((201, {"status": status})), 10)
    with pytest.raises(NotAllowed):
        await reviews.permit(ANN, DEED)


async def test_answers_are_kept_shortly_and_questions_shared():
    api = Away((201, {"status": {"allowed": True}}))
    reviews = Reviews(api, 0.2)
    await asyncio.gather(*(reviews.permit(ANN, DEED) for _ in range(50)))
    assert api.asked == 1
    await reviews.permit(Caller(name="ann", groups=("other",)), DEED)
    assert api.asked == 2
    await asyncio.sleep(0.25)
    api.answer = (201, {"status": {"allowed": False}})
    with pytest.raises(NotAllowed):
        await reviews.permit(ANN, DEED)


def headers(*pairs: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(pairs))


def certificate(name: str) -> dict[str, Any]:
    return {"subject": ((("organizationName", "x"),), (("commonName", name),))}


def test_headers_become_a_caller():
    trust = Trust(authority="", names=frozenset({"proxy"}))
    found = caller_of(
        trust,
        certificate("proxy"),
        headers(
            ("X-Remote-User", "ann"),
            ("X-Remote-Group", "team-a"),
            ("x-remote-group", "team-b"),
            ("X-Remote-Extra-Acme.com%2Fproject", "one"),
            ("X-Remote-Extra-Acme.com%2Fproject", "two"),
            ("X-Remote-Uid", "42"),
        ),
    )
    assert found == Caller(
        name="ann",
        groups=("team-a", "team-b", "system:authenticated"),
        uid="42",
        extra=(("acme.com/project", ("one", "two")),),
    )
    assert caller_of(trust, certificate("proxy"), headers()) is None
    with pytest.raises(NotKnown, match="allowed-names"):
        caller_of(trust, certificate("other"), headers(("X-Remote-User", "ann")))
    anybody = Trust(authority="")
    assert caller_of(anybody, certificate("other"), headers(("X-Remote-User", "a"))) is not None


@pytest.mark.parametrize(
    ("data", "word"),
    [
        ({}, "no aggregation layer"),
        ({"requestheader-client-ca-file": "nonsense"}, "no certificate"),
    ],
)
def test_a_config_map_that_says_nothing_is_named(data: dict[str, str], word: str):
    with pytest.raises(TrustError, match=word):
        read_trust(data)


def test_lists_of_the_config_map_are_read(tmp_path: Path):
    from tests.support.standin.frontproxy import FrontProxy

    proxy = FrontProxy()
    data = proxy.config_map()["data"]
    assert read_trust(data).names == {"front-proxy-client"}
    assert read_trust({**data, "requestheader-allowed-names": "[]"}).names == frozenset()
    with pytest.raises(TrustError, match="requestheader-allowed-names"):
        read_trust({**data, "requestheader-allowed-names": "front-proxy-client"})
    proxy.close()
