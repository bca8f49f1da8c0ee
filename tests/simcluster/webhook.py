"""A webhook server over HTTPS with certificates made for the test."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trustme
from aiohttp import web

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class Authority:
    """A CA, and one server certificate for ``hook.tests.svc`` and 127.0.0.1."""

    def __init__(self) -> None:
        ca = trustme.CA()
        server = ca.issue_cert("hook.tests.svc", "127.0.0.1")
        self.bundle = base64.b64encode(ca.cert_pem.bytes()).decode()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.configure_cert(self.context)


@asynccontextmanager
async def serving(authority: Authority, answer: Answer) -> AsyncIterator[str]:
    """A webhook server; yields ``host:port``. ``answer`` makes the response from the request."""

    async def handle(request: web.BaseRequest) -> web.Response:
        review = json.loads(await request.read())
        response = {"uid": review["request"]["uid"], **await answer(review["request"])}
        return web.json_response({**review, "response": response})

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=authority.context)
    await site.start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def json_patch(operations: list[dict[str, Any]]) -> dict[str, Any]:
    raw = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": raw}
