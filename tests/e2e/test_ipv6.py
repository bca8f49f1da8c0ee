"""Everything over IPv6: log, database, webhook, aggregated API, health; and over both families."""

import asyncio
import socket
from pathlib import Path

import aiohttp
import pytest

from runtime.listening import EVERYWHERE, bound
from tests.deploy.compose import free_port
from tests.standstill.stack import Stack

HOSTS = ("[::1]", "127.0.0.1")
pytestmark = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")


async def test_everywhere_is_both_families() -> None:
    listening = bound(EVERYWHERE, 0, 8)
    with listening:
        port = listening.getsockname()[1]
        for host in ("::1", "127.0.0.1"):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
    for alone, other in (("::1", "127.0.0.1"), ("127.0.0.1", "::1")):
        with bound(alone, 0, 8) as listening, pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(other, listening.getsockname()[1])


@pytest.mark.slow("eight processes, which reach each other over IPv6")
@pytest.mark.timeout(180)
@pytest.mark.retried("it waits by the clock, on two cores shared with other tests")
async def test_the_parts_reach_each_other_over_ipv6_alone(tmp_path: Path) -> None:
    stack = Stack(tmp_path, 1.0, host="::1")
    try:
        await stack.start()  # a pod got past its gate: NATS and PostgreSQL listen on ::1
        webhook, serve = free_port(), free_port()
        stack.doctors_account = "administrator"
        own = {"GATELOG_SERVE_HOST": "::", "GATELOG_SERVE_PORT": str(serve)}
        stack.add("serve-1", own)
        own = {
            "GATELOG_WEBHOOK_ENABLED": "true",
            "GATELOG_WEBHOOK_HOST": "::",
            "GATELOG_WEBHOOK_PORT": str(webhook),
            "GATELOG_WEBHOOK_URL": f"https://[::1]:{webhook}",
        }
        own["KUBECONFIG"] = str(stack.kubeconfig)
        stack.add("ingest-3", own)
        await stack.until_well()
        tls = aiohttp.TCPConnector(ssl=False)
        async with aiohttp.ClientSession(connector=tls) as session:
            for host in HOSTS:
                for port in (stack.health["projector-1"], stack.health["serve-1"]):
                    async with session.get(f"http://{host}:{port}/metrics") as answer:
                        assert answer.status == 200
                async with session.get(f"https://{host}:{serve}/readyz") as answer:
                    assert (answer.status, await answer.text()) == (200, "ok\n")
                async with session.get(f"https://{host}:{webhook}/readyz") as answer:
                    assert answer.status < 500
        assert stack.sim is not None
        group, plural = "admissionregistration.k8s.io", "mutatingwebhookconfigurations"
        await stack.api.until("the webhook is registered", lambda: _registered(stack), 30)
        (found,) = stack.sim.objects(group, plural)
        assert found["webhooks"][0]["clientConfig"]["url"].startswith(f"https://[::1]:{webhook}/")
        assert await stack.pod()  # the API server has asked it, and believed its certificate
        code, said = await stack.doctor()
        assert code == 0, said
    finally:
        await stack.close()


async def _registered(stack: Stack) -> bool:
    assert stack.sim is not None
    group = "admissionregistration.k8s.io"
    return bool(stack.sim.objects(group, "validatingwebhookconfigurations"))
