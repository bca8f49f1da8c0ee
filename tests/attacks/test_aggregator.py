"""What users send through the API server's proxy, and past it, to be taken for somebody else.

The stand-in's aggregation layer, or that of the API server that GATELOG_TEST_KUBECONFIG names
(kube-apiserver with --requestheader-client-ca-file and --proxy-client-cert-file). Ann may see
namespace `ns`, and not namespace `other`; what she sees there would be somebody else's.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from gatelog.serve.bootstrap import run_serve
from runtime.settings import DatabaseSettings, KubernetesSettings, ServeSettings, Settings
from tests.deploy.compose import free_port
from tests.deploy.manifests import DEPLOY, objects
from tests.projector.support import Writer
from tests.serve.conftest import binding, serve_on, sqlite_model
from tests.support import realcluster
from tests.support.processes import Api, server_of, write_kubeconfig
from tests.support.toy import Toy

__all__ = ["sqlite_model"]

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

GROUPS = "/apis/gatelog.io/v1beta1/namespaces/{}/podgroups"
ADMIN = {"X-Remote-User": "system:admin", "X-Remote-Group": "system:masters"}
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


class Behind(NamedTuple):
    """The API server, ann's token there, and serve itself."""

    url: str
    token: str
    port: int


@pytest.fixture
async def behind(sqlite_model: tuple[str, Writer, Toy], tmp_path: Path) -> AsyncIterator[Behind]:
    place = realcluster.kubeconfig()
    if place is not None:
        async with _real(place, sqlite_model[0], tmp_path) as found:
            yield found
        return
    async for world in serve_on(sqlite_model, tmp_path):
        yield Behind(world.cluster.url, "ann-token", world.port)


@asynccontextmanager
async def _real(place: Path, database: str, folder: Path) -> AsyncIterator[Behind]:
    url, admin = server_of(place)
    async with Api(url, admin) as api:
        config = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
        trust = (await api.call("GET", config, ok=())).get("data", {})
        if "requestheader-client-ca-file" not in trust:
            pytest.skip("the API server has no aggregation layer")
        port = free_port()
        token = await _registered(api, port)
        own = await realcluster.token_of(api, "gatelog-serve")
        write_kubeconfig(place, folder / "serve.kubeconfig", token=own)
        settings = Settings(
            cluster="test",
            state_dir=str(folder / "state"),
            database=DatabaseSettings(url=database),
            serve=ServeSettings(port=port, review_cache_s=0.5),
            kubernetes=KubernetesSettings(kubeconfig=str(folder / "serve.kubeconfig")),
        )
        stop = asyncio.Event()
        task = asyncio.create_task(run_serve(settings, stop))
        try:

            async def answers() -> bool:
                asked = {"Authorization": f"Bearer {admin}"}
                return (await raw(url, GROUPS.format("ns"), asked))[0] == 200

            await api.until("serve answers through the API server", answers)
            yield Behind(url, token, port)
        finally:
            stop.set()
            await task
            for name in ("v1beta1.gatelog.io", "v1beta2.visibility.kueue.x-k8s.io"):
                await api.call("DELETE", f"{SERVICES}/{name}", ok=())


async def _registered(api: Api, port: int) -> str:
    """Apply what the component brings, the Service by a name that leads here; ann's token."""
    group = "/apis/rbac.authorization.k8s.io/v1"
    found = objects(DEPLOY / "components" / "serve-own-certificates")
    await realcluster.give_rights(api)
    order = list(realcluster.ACCESS)
    for obj in sorted(
        (o for o in found if o["kind"] in order), key=lambda o: order.index(o["kind"])
    ):
        await realcluster.apply(api, obj)
    service = {
        "metadata": {"name": "gatelog-serve"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    path = f"/api/v1/namespaces/{realcluster.NAMESPACE}/services"
    await api.call("POST", path, service, ok=())
    for obj in found:
        if obj["kind"] == "APIService":
            obj["spec"]["service"]["port"] = port
            await api.call("POST", SERVICES, obj, ok=())
    for namespace, name in (("ns", "ann"), ("other", "bob")):
        await api.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}, ok=())
        account = {"metadata": {"name": name}}
        await api.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", account, ok=())
        body = binding("RoleBinding", name)
        body["subjects"] = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
        await api.call("POST", f"{group}/namespaces/{namespace}/rolebindings", body, ok=())
    return await realcluster.token_of(api, "ann", "ns")


SPOOFED: tuple[dict[str, str], ...] = (
    ADMIN,
    {name.lower(): value for name, value in ADMIN.items()},
    {name.replace("-", "_"): value for name, value in ADMIN.items()},
    {**ADMIN, "X-Remote-Uid": "0", "X-Remote-Extra-Scopes": "all"},
    {**ADMIN, "Connection": "X-Remote-User, X-Remote-Group"},
    {"Connection": "close, X-Remote-User, X-Remote-Group, X-Remote-Uid"},
    {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-User": "system:admin"},
    {"Impersonate-User": "system:admin", "Impersonate-Group": "system:masters"},
    {"X-Remote-User\t": "system:admin"},
)
"""What a user sends along to the API server, hoping that it reaches serve."""
PATHS = (
    GROUPS.format("other"),
    "/apis/gatelog.io/v1beta1/podgroups",
    "/apis/gatelog.io/v1beta1/namespaces/ns/../other/podgroups",
    "/apis/gatelog.io/v1beta1/namespaces/ns/%2e%2e/other/podgroups",
    "/apis/gatelog.io/v1beta1/namespaces/ns%2f..%2fother/podgroups",
    "/apis/gatelog.io/v1beta1//namespaces/other/podgroups",
    "/apis/gatelog.io/v1beta1/namespaces/other/podgroups?fieldSelector=metadata.namespace=ns",
    "/apis/gatelog.io/v1beta1/namespaces/ns/podgroups?fieldSelector=metadata.namespace=other",
    "/apis/gatelog.io/v1beta1/watch/namespaces/other/podgroups",
)


async def raw(url: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """Ask with the path and the headers as they are, byte by byte."""
    host, _, port = url.removeprefix("https://").partition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", *(f"{k}: {v}" for k, v in headers.items())]
    if not any(key.lower() == "connection" for key in headers):
        lines.append("Connection: close")
    writer.write("\r\n".join([*lines, "", ""]).encode())
    try:
        async with asyncio.timeout(10):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            size = next(
                (
                    int(line.split(":")[1])
                    for line in head.lower().split("\r\n")
                    if line.startswith("content-length:")
                ),
                0,
            )
            body = (await reader.readexactly(size)).decode()
    finally:
        writer.close()
    return int(head.split()[1]), body


async def test_no_header_and_no_path_shows_another_namespace(behind: Behind) -> None:
    bearer = {"Authorization": f"Bearer {behind.token}"}
    status, body = await raw(behind.url, GROUPS.format("ns"), bearer)
    assert (status, "PodGroupList" in body) == (200, True), body
    for more in ({}, *SPOOFED):
        for path in PATHS:
            status, body = await raw(behind.url, path, bearer | more)
            assert status != 200 or '"items":[]' in body, (path, more, body[:300])
            assert "far" not in body.replace("far as", ""), (path, more)
    for more in ({}, *SPOOFED):
        status, _ = await raw(behind.url, GROUPS.format("ns"), more)
        assert status in (400, 401, 403), (more, status)


async def test_past_the_proxy_no_header_is_believed(behind: Behind) -> None:
    """Straight to serve, as whoever can reach its port."""
    here = f"https://127.0.0.1:{behind.port}"
    for more in SPOOFED:
        for token in ({}, {"Authorization": f"Bearer {behind.token}"}):
            status, body = await raw(here, GROUPS.format("other"), more | token)
            assert status in (400, 401, 403), (more, status, body[:200])
    status, _ = await raw(here, GROUPS.format("ns"), {"Authorization": f"Bearer {behind.token}"})
    assert status == 200


async def test_what_it_answers_is_no_way_on(behind: Behind) -> None:
    """A redirect or an upgrade would be followed by the API server with its own certificate."""
    headers: dict[str, Any] = {"Authorization": f"Bearer {behind.token}"}
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        for path in (*PATHS, GROUPS.format("ns"), "/apis/gatelog.io/v1beta1/"):
            for more in ({}, upgrade):
                async with session.get(
                    f"{behind.url}{path}", headers=headers | more, allow_redirects=False
                ) as answer:
                    location = answer.headers.get("Location", "")
                    assert answer.status != 101
                    assert not location or location.startswith("/apis/"), (path, location)
