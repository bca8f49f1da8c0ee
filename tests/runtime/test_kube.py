"""The client of the API server, against a small server that does what the test says."""

import asyncio
import base64
import contextlib
import json
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
import yarl
from aiohttp import web

from runtime.kube import (
    KubeClient,
    KubeError,
    KubeForbidden,
    KubeUnauthorized,
    KubeUnavailable,
    connect,
    forbidden,
)
from runtime.settings import KubernetesSettings

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Api:
    """A server with one handler; remembers what it was asked."""

    def __init__(self) -> None:
        self.handler: Handler = self._ok
        self.tokens = {"right"}
        self.seen: list[web.Request] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
            return web.json_response({"message": "Unauthorized"}, status=401)
        return await self.handler(request)

    async def _ok(self, request: web.Request) -> web.StreamResponse:
        body = await request.text()
        return web.json_response({"path": request.path_qs, "method": request.method, "got": body})

    @property
    def authorizations(self) -> list[str]:
        return [request.headers.get("Authorization", "") for request in self.seen]


@contextlib.asynccontextmanager
async def serving(api: Api, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", api.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    api.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield
    finally:
        await runner.cleanup()


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    api = Api()
    async with serving(api):
        yield api


def kubeconfig(tmp_path: Path, url: str, user: dict[str, Any], **cluster: Any) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "contexts": [
                    {"name": "here", "context": {"cluster": "c", "user": "u"}},
                    {"name": "wrong", "context": {"cluster": "c", "user": "nobody"}},
                ],
                "clusters": [{"name": "c", "cluster": {"server": url, **cluster}}],
                "users": [
                    {"name": "u", "user": user},
                    {"name": "nobody", "user": {"token": "wrong"}},
                ],
            }
        )
    )
    return path


@contextlib.asynccontextmanager
async def client(path: Path, **settings: Any) -> AsyncIterator[KubeClient]:
    kube = await connect(KubernetesSettings(kubeconfig=str(path), **settings), part="test")
    try:
        yield kube
    finally:
        await kube.close()


@pytest.fixture
async def kube(api: Api, tmp_path: Path) -> AsyncIterator[KubeClient]:
    async with client(kubeconfig(tmp_path, api.url, {"token": "right"})) as kube:
        yield kube


async def test_requests_carry_the_token_and_who_we_are(api: Api, kube: KubeClient) -> None:
    assert kube.server == api.url
    answer = await kube.request(
        "PATCH",
        "/api/v1/namespaces/a/pods/b",
        params={"dryRun": "All", "labelSelector": "a in (b,c)"},
        body=b"[]",
        content_type="application/json-patch+json",
    )
    assert answer.status == 200
    assert answer.json() == {
        "path": "/api/v1/namespaces/a/pods/b?dryRun=All&labelSelector=a+in+(b,c)",
        "method": "PATCH",
        "got": "[]",
    }
    (seen,) = api.seen
    assert seen.headers["Authorization"] == "Bearer right"
    assert seen.headers["Content-Type"] == "application/json-patch+json"
    assert seen.headers["User-Agent"].startswith("gatelog-test/")
    assert answer.headers["content-type"].startswith("application/json")


async def test_statuses_are_answers(api: Api, kube: KubeClient) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "message": "pods is forbidden"}, status=403)

    api.handler = refuse
    answer = await kube.request("GET", "/api/v1/pods")
    assert (answer.status, answer.message()) == (403, "pods is forbidden")
    error = forbidden(answer, "/api/v1/pods", "list")
    assert isinstance(error, KubeForbidden)
    assert str(error) == "not allowed to list /api/v1/pods: pods is forbidden"
    assert await kube.json("GET", "/api/v1/pods") == (403, answer.json())


async def test_json_without_a_body_and_without_json(api: Api, kube: KubeClient) -> None:
    async def empty(_: web.Request) -> web.StreamResponse:
        return web.Response(status=204)

    async def page(_: web.Request) -> web.StreamResponse:
        return web.Response(status=502, text="<html>bad gateway")

    api.handler = empty
    assert await kube.json("DELETE", "/x") == (204, None)
    api.handler = page
    with pytest.raises(KubeUnavailable, match="status 502 without JSON: <html>bad gateway"):
        await kube.json("GET", "/x")
    assert (await kube.request("GET", "/x")).status == 502


async def test_redirects_are_not_followed(api: Api, kube: KubeClient) -> None:
    async def away(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("http://127.0.0.1:1/steal")

    api.handler = away
    assert (await kube.request("GET", "/x")).status == 302


async def test_a_rotated_token_file_is_read_again_once_for_all(api: Api, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("right")
    path = kubeconfig(tmp_path, api.url, {"tokenFile": str(token)})
    async with client(path) as kube:
        assert (await kube.request("GET", "/a")).status == 200
        api.tokens = {"newer"}
        token.write_text("newer")
        answers = await asyncio.gather(*(kube.request("GET", "/b") for _ in range(10)))
        assert [answer.status for answer in answers] == [200] * 10
        assert (await kube.request("GET", "/c")).status == 200
    assert api.authorizations[-1] == "Bearer newer"
    assert 1 <= api.authorizations[1:].count("Bearer right") <= 10


async def test_credentials_that_stay_wrong_are_an_error_that_says_what_to_do(
    api: Api, tmp_path: Path
) -> None:
    path = kubeconfig(tmp_path, api.url, {"token": "stale"})
    async with client(path) as kube:
        with pytest.raises(KubeUnauthorized, match="renew the login") as caught:
            await kube.request("GET", "/a")
        assert "stale" not in str(caught.value)
        assert len(api.seen) == 2, "once with fresh credentials, not for ever"
        with pytest.raises(KubeUnauthorized):
            async with kube.watch("/a", idle_timeout_s=5):
                pass


async def test_the_context_of_the_settings_is_used(api: Api, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, api.url, {"token": "right"})
    async with client(path, context="wrong") as kube:
        with pytest.raises(KubeUnauthorized):
            await kube.request("GET", "/a")


async def test_an_exec_plugin_is_asked_again_after_401(api: Api, tmp_path: Path) -> None:
    counter = tmp_path / "count"
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        "import json, pathlib\n"
        f"path = pathlib.Path({str(counter)!r})\n"
        "n = int(path.read_text()) + 1 if path.exists() else 1\n"
        "path.write_text(str(n))\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1',\n"
        "  'kind': 'ExecCredential', 'status': {'token': f'token{n}'}}))\n"
    )
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(plugin)],
        "interactiveMode": "Never",
    }
    api.tokens = {"token2"}
    async with client(kubeconfig(tmp_path, api.url, {"exec": command})) as kube:
        assert (await kube.request("GET", "/a")).status == 200
    assert api.authorizations == ["Bearer token1", "Bearer token2"]


async def test_a_failing_exec_plugin_may_be_tried_again(tmp_path: Path) -> None:
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", "import sys; print('no network', file=sys.stderr); sys.exit(3)"],
    }
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", {"exec": command})
    with pytest.raises(KubeUnavailable, match="no network"):
        await connect(KubernetesSettings(kubeconfig=str(path)))


async def test_a_refused_connection_is_unavailable(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", {"token": "right"})
    async with client(path) as kube:
        with pytest.raises(KubeUnavailable, match="GET /a"):
            await kube.request("GET", "/a")
        with pytest.raises(KubeUnavailable, match="watch /a"):
            async with kube.watch("/a", idle_timeout_s=5):
                pass


async def test_a_server_that_does_not_answer_is_given_up(api: Api, kube: KubeClient) -> None:
    async def sleep(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    api.handler = sleep
    started = time.monotonic()
    with pytest.raises(KubeUnavailable, match=r"no answer within 0\.2 s"):
        await kube.request("GET", "/a", timeout_s=0.2)
    assert time.monotonic() - started < 15


async def test_an_answer_cut_short_is_unavailable(api: Api, kube: KubeClient) -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"x" * 10)
        assert request.transport is not None
        request.transport.abort()
        return response

    api.handler = half
    with pytest.raises(KubeUnavailable, match="GET /a"):
        await kube.request("GET", "/a")


async def test_requests_at_once_are_bounded(api: Api, tmp_path: Path) -> None:
    now, most = 0, 0

    async def count(_: web.Request) -> web.StreamResponse:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1
        return web.Response()

    api.handler = count
    path = kubeconfig(tmp_path, api.url, {"token": "right"})
    async with client(path, max_connections=3) as kube:
        await asyncio.gather(*(kube.request("GET", "/a") for _ in range(20)))
    assert most == 3


def streaming(*chunks: bytes, then: Callable[[], Awaitable[None]] | None = None) -> Handler:
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0.01)
        if then is not None:
            await then()
        return response

    return stream


async def test_watch_lines_may_be_megabytes_long(api: Api, kube: KubeClient) -> None:
    items = [
        json.dumps({"n": n, "pad": "x" * size}).encode()
        for n, size in enumerate([10, 200_000, 3_000_000, 10])
    ]
    whole = b"\n".join(items) + b"\n"
    cuts = [whole[i : i + 70_001] for i in range(0, len(whole), 70_001)]
    api.handler = streaming(*cuts)
    async with kube.watch("/w", {"watch": "1"}, idle_timeout_s=10) as watch:
        assert watch.status == 200
        assert [line async for line in watch] == items
    assert api.seen[0].query_string == "watch=1"


async def test_a_line_beyond_the_bound_ends_the_watch(api: Api, kube: KubeClient) -> None:
    api.handler = streaming(b"{}\n", *[b"x" * 1_000_000] * 9)
    async with kube.watch("/w", idle_timeout_s=10) as watch:
        lines = watch.lines()
        assert await anext(lines) == b"{}"
        with pytest.raises(KubeUnavailable, match="8388608 bytes"):
            await anext(lines)


async def test_a_status_can_be_looked_at_before_iterating(api: Api, kube: KubeClient) -> None:
    async def gone(_: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "code": 410}, status=410)

    api.handler = gone
    async with kube.watch("/w", idle_timeout_s=10) as watch:
        assert watch.status == 410
        assert json.loads(await watch.read())["code"] == 410


async def test_silence_is_a_dead_connection(api: Api, kube: KubeClient) -> None:
    api.handler = streaming(b"{}\n", then=lambda: asyncio.sleep(30))
    started = time.monotonic()
    async with kube.watch("/w", idle_timeout_s=0.4) as watch:
        lines = watch.lines()
        assert await anext(lines) == b"{}"
        with pytest.raises(KubeUnavailable, match=r"silent for 0\.4 s"):
            await anext(lines)
    assert time.monotonic() - started < 15


async def test_a_watch_may_last_longer_than_any_request_timeout(api: Api, tmp_path: Path) -> None:
    api.handler = streaming(*[b"{}\n"] * 150)
    path = kubeconfig(tmp_path, api.url, {"token": "right"})
    async with client(path, request_timeout_s=1.0) as kube:
        started = time.monotonic()
        async with kube.watch("/w", idle_timeout_s=5) as watch:
            assert len([line async for line in watch]) == 150
        assert time.monotonic() - started > 1.2


async def test_a_watch_cut_off_is_unavailable(api: Api, kube: KubeClient) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"a":1}\n{"b":')
        await asyncio.sleep(0.05)
        assert request.transport is not None
        request.transport.abort()
        return response

    api.handler = cut
    async with kube.watch("/w", idle_timeout_s=5) as watch:
        lines = watch.lines()
        assert await anext(lines) == b'{"a":1}'
        with pytest.raises(KubeUnavailable, match="cut off"):
            await anext(lines)
    api.handler = streaming(b'{"a":1}\n{"b":')
    async with kube.watch("/w", idle_timeout_s=5) as watch:
        with pytest.raises(KubeUnavailable, match="middle of an item"):
            assert [line async for line in watch]


async def test_a_running_watch_survives_a_token_refresh(api: Api, tmp_path: Path) -> None:
    more = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        if request.path != "/w":
            return web.Response()
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"1\n")
        await more.wait()
        await response.write(b"2\n")
        return response

    api.handler = stream
    token = tmp_path / "token"
    token.write_text("right")
    path = kubeconfig(tmp_path, api.url, {"tokenFile": str(token)})
    async with client(path) as kube, kube.watch("/w", idle_timeout_s=5) as watch:
        lines = watch.lines()
        assert await anext(lines) == b"1"
        api.tokens = {"newer"}
        token.write_text("newer")
        assert (await kube.request("GET", "/a")).status == 200
        more.set()
        assert [line async for line in lines] == [b"2"]


async def test_watches_do_not_use_up_the_requests(api: Api, tmp_path: Path) -> None:
    async def stream(request: web.Request) -> web.StreamResponse:
        return (
            await streaming(b"1\n", then=lambda: asyncio.sleep(30))(request)
            if (request.path == "/w")
            else web.Response()
        )

    api.handler = stream
    path = kubeconfig(tmp_path, api.url, {"token": "right"})
    async with client(path, max_connections=1) as kube, contextlib.AsyncExitStack() as stack:
        for _ in range(5):
            await stack.enter_async_context(kube.watch("/w", idle_timeout_s=30))
        assert (await kube.request("GET", "/a", timeout_s=2)).status == 200


async def test_tls_is_checked_against_the_ca_of_the_kubeconfig(tmp_path: Path) -> None:
    ca, server_tls = certificate()
    api = Api()
    async with serving(api, server_tls):
        authority = base64.b64encode(ca).decode()
        good = kubeconfig(
            tmp_path, api.url, {"token": "right"}, **{"certificate-authority-data": authority}
        )
        async with client(good) as kube:
            assert (await kube.request("GET", "/a")).status == 200
        distrusting = kubeconfig(tmp_path, api.url, {"token": "right"})
        async with client(distrusting) as kube:
            with pytest.raises(KubeUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
                await kube.request("GET", "/a")
        careless = kubeconfig(
            tmp_path, api.url, {"token": "right"}, **{"insecure-skip-tls-verify": True}
        )
        async with client(careless) as kube:
            assert (await kube.request("GET", "/a")).status == 200


def certificate() -> tuple[bytes, ssl.SSLContext]:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return authority.cert_pem.bytes(), context


@pytest.mark.parametrize(
    "text", ["", "[]", "just words", "a: [", "current-context: x\n", "contexts: 5\n"]
)
async def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(KubeError, match=str(path)) as caught:
        await connect(KubernetesSettings(kubeconfig=str(path)))
    assert not {"TypeError", "AttributeError", "NoneType"} & set(str(caught.value).split(" "))


async def test_a_missing_kubeconfig_and_an_unknown_context_are_named(tmp_path: Path) -> None:
    with pytest.raises(KubeError, match=r"kubernetes\.kubeconfig = .*no such file"):
        await connect(KubernetesSettings(kubeconfig=str(tmp_path / "none")))
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", {"token": "x"})
    with pytest.raises(KubeError, match="nowhere"):
        await connect(KubernetesSettings(kubeconfig=str(path), context="nowhere"))


async def test_no_cluster_at_all_is_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(KubeError, match="no cluster to talk to: set"):
        await connect(KubernetesSettings())


async def test_close_is_safe_to_repeat_and_ends_requests(kube: KubeClient) -> None:
    await kube.close()
    await kube.close()
    with pytest.raises(KubeUnavailable):
        await kube.request("GET", "/a")


@pytest.mark.parametrize(
    ("path", "params", "asked"),
    [
        ("/api/v1/pods", None, "/api/v1/pods"),
        ("/api/v1/a/b.c-d", {"fieldManager": "gatelog"}, "/api/v1/a/b.c-d?fieldManager=gatelog"),
        # What needs quoting is quoted, and cannot become another parameter or another path.
        ("/api/v1/a b", {"labelSelector": "x=y,!z"}, "/api/v1/a%20b?labelSelector=x%3Dy%2C!z"),
        ("/api/v1/a", {"continue": "t&limit=9 +"}, "/api/v1/a?continue=t%26limit%3D9+%2B"),
        ("/api/v1/a?labelSelector=x%3Dy,z", None, "/api/v1/a?labelSelector=x%3Dy%2Cz"),
        ("/api/v1/pods/x?dryRun=All", {"force": "true"}, "/api/v1/pods/x?dryRun=All&force=true"),
    ],
)
async def test_paths_and_parameters_arrive_as_they_were_meant(
    api: Api, kube: KubeClient, path: str, params: dict[str, str] | None, asked: str
) -> None:
    assert (await kube.request("GET", path, params=params)).status == 200
    (request,) = api.seen
    assert request.url.query == yarl.URL(asked).query
    assert request.url.path == yarl.URL(asked).path


async def test_a_server_may_have_a_path_of_its_own(api: Api, tmp_path: Path) -> None:
    async with client(kubeconfig(tmp_path, f"{api.url}/k8s/one", {"token": "right"})) as kube:
        await kube.request("GET", "/api/v1/pods", params={"limit": "5"})
        await kube.request("GET", "/api/v1/pods", params={"labelSelector": "a=b"})
        async with kube.watch("/api/v1/pods", {"watch": "1"}, idle_timeout_s=5) as watch:
            assert watch.status == 200
    assert [request.path_qs for request in api.seen] == [
        "/k8s/one/api/v1/pods?limit=5",
        "/k8s/one/api/v1/pods?labelSelector=a%3Db",
        "/k8s/one/api/v1/pods?watch=1",
    ]
