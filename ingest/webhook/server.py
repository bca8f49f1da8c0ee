"""The HTTPS server in front of the admission decisions.

It is on the way of every matched pod creation, so it is bounded in all directions: bytes of a body
and of all bodies, time for a head, a body and a request, requests and connections at once
(`bounds`). Every answer is either an AdmissionReview or a sentence with the fitting HTTP status,
never a traceback.

    POST /mutate--v1-pod, /validate--v1-pod, /mutate-owners
                                                AdmissionReview in, AdmissionReview out
    GET  /healthz, /readyz                      "ok"

A 5xx tells the API server that there is no verdict; failurePolicy then decides on the pod.
Invariant: every request ends up in exactly one of the `counts`.
"""

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from aiohttp import web
from msgspec import Struct

from ingest.webhook import review
from ingest.webhook.admission import AdmissionWebhooks
from ingest.webhook.bounds import Body, Budget
from ingest.webhook.owners import LookupFailed
from runtime.connections import HEAD_S, MAX_CONNECTIONS, Connection, Listener
from runtime.log import get_logger

MUTATE_PATH: Final[str] = "/mutate--v1-pod"
VALIDATE_PATH: Final[str] = "/validate--v1-pod"
LABEL_PATH: Final[str] = "/mutate-owners"

MAX_BODY_BYTES: Final[int] = 3 * 1024 * 1024 + 64 * 1024
"""The API server takes objects of up to 3 MiB (stored objects are half that, so old and new fit
too); the rest is for the envelope.
"""

LARGE_BYTES: Final[int] = 256 * 1024
"""Bodies above this are decoded one after the other: decoded they may be 30 times as large."""

_log = get_logger("webhook")


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds of the server, and its time-outs."""

    timeout_s: float = 4.0
    """Seconds for one request; keep it below the registration's timeoutSeconds."""
    max_body_bytes: int = MAX_BODY_BYTES
    """Larger bodies are refused with 413."""
    max_in_flight: int = 256
    """Requests answered at once; further requests are refused with 503."""
    body_s: float = 2.0
    """Seconds in which a body must arrive."""
    max_connections: int = MAX_CONNECTIONS
    """Connections at once; beyond that the longest idle connection is closed."""
    head_s: float = HEAD_S
    """Seconds for a handshake, and for a first head."""


LIMITS = Limits()


class WebhookServer:
    """Serves one `AdmissionWebhooks` over HTTPS (or plain HTTP where ``tls`` is None, for tests).

    Args:
        admission: the decisions.
        tls: server context with a certificate; see `runtime.certificates`.
        host: address to listen on; loopback by default.
        port: port, 0 for any free one.
        limits: of size and time.
    """

    def __init__(
        self,
        admission: AdmissionWebhooks,
        *,
        tls: ssl.SSLContext | None,
        host: str = "127.0.0.1",
        port: int = 0,
        limits: Limits = LIMITS,
    ) -> None:
        self._admission = admission
        self._tls = tls
        self._host = host
        self._port = port
        self._limits = limits
        self._in_flight = 0
        self._budget = Budget()
        self._large = asyncio.Lock()
        self._leaving = False
        self._runner: web.AppRunner | None = None
        self._listener: Listener | None = None
        self.counts: Counter[tuple[str, str]] = Counter()
        """Requests by (``mutate``, ``validate`` or ``label``, outcome); outcomes are the mutation's
        dispositions, ``passed``, ``refused``, ``labelled``, and ``bad_request``, ``too_large``,
        ``busy``, ``timeout``, ``lookup_failed``, ``error`` for requests without a verdict."""
        self.answered: Callable[[str, float], None] | None = None
        """Called for each request taken up: the word it is counted under, and its seconds."""

    @property
    def url(self) -> str:
        """Address actually listened on, with the port the system chose.

        Raises:
            RuntimeError: the server is not running.
        """
        if self._listener is None:
            raise RuntimeError("the webhook server is not running: call start() first")
        host, port = self._listener.address
        host = f"[{host}]" if ":" in host else host
        return f"{'https' if self._tls else 'http'}://{host}:{port}"

    async def start(self) -> None:
        """Begins to listen.

        Raises:
            ListenError: the address cannot be listened on.
        """
        app = web.Application(client_max_size=self._limits.max_body_bytes)
        app.router.add_post(MUTATE_PATH, self._mutate)
        app.router.add_post(VALIDATE_PATH, self._validate)
        app.router.add_post(LABEL_PATH, self._label)
        app.router.add_get("/healthz", _ok)
        app.router.add_get("/readyz", _ok)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=self._limits.timeout_s)
        await runner.setup()
        assert runner.server is not None
        listener = Listener(
            runner.server, self._tls, most=self._limits.max_connections, head_s=self._limits.head_s
        )
        try:
            listener.start("webhook", self._host, self._port)
        except BaseException:
            await runner.cleanup()
            raise
        self._runner, self._listener = runner, listener
        _log.info("webhook_listening", url=self.url)

    async def linger(self, seconds: float) -> None:
        """Goes on answering for some seconds, and ends each connection with its next answer.

        Endpoints that are gone are still called for a moment, over connections that are open.
        """
        if seconds > 0:
            self._leaving = True
            await asyncio.sleep(seconds)

    async def stop(self) -> None:
        """Stops listening and lets requests under way finish, for as long as a request may take."""
        if self._runner is not None and self._listener is not None:
            await self._listener.stop()
            await self._runner.shutdown()
            assert self._runner.server is not None
            self._runner.server.pre_shutdown()
            await self._runner.server.shutdown(self._limits.timeout_s)
            await self._runner.cleanup()
            self._runner = self._listener = None

    async def _mutate(self, request: web.Request) -> web.Response:
        return await self._bounded("mutate", request)

    async def _validate(self, request: web.Request) -> web.Response:
        return await self._bounded("validate", request)

    async def _label(self, request: web.Request) -> web.Response:
        return await self._bounded("label", request)

    async def _bounded(self, which: str, request: web.Request) -> web.Response:
        connection = request.protocol
        assert isinstance(connection, Connection)
        connection.begin()
        try:
            with Body(self._budget, request) as body:
                answer = await self._received(which, body, connection)
            if self._leaving:
                answer.force_close()
            return answer
        finally:
            connection.end()

    async def _received(self, which: str, body: Body, connection: Connection) -> web.Response:
        try:
            async with asyncio.timeout(self._limits.body_s):
                data = await body.read(self._limits.max_body_bytes)
        except TimeoutError:
            text = f"the body did not arrive within {self._limits.body_s} s"
            return self._failure(which, "timeout", 408, text)
        except web.HTTPRequestEntityTooLarge:
            most = self._limits.max_body_bytes
            text = f"the body is larger than {most} bytes, the most accepted here"
            return self._failure(which, "too_large", 413, text)
        except (web.RequestPayloadError, ConnectionError):
            if body.given_up:
                text = "too many bytes in flight: an unfinished body was given up"
                return self._failure(which, "busy", 503, text)
            return self._failure(which, "error", 400, "the body ended before it was complete")
        connection.arrived()
        if self._in_flight >= self._limits.max_in_flight:
            text = f"{self._limits.max_in_flight} requests are under way already; try again"
            return self._failure(which, "busy", 503, text)
        return await self._in_time(which, data)

    async def _in_time(self, which: str, data: bytes) -> web.Response:
        self._in_flight += 1
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                if len(data) <= LARGE_BYTES:
                    return await self._answer(which, data)
                async with self._large:
                    return await self._answer(which, data)
        except TimeoutError:
            text = (
                f"no answer within {self._limits.timeout_s} s: the API server was slow to be asked"
            )
            return self._failure(which, "timeout", 504, text)
        except LookupFailed as error:
            return self._failure(which, "lookup_failed", 500, str(error))
        except review.ReviewError as error:
            return self._failure(which, "bad_request", 400, str(error))
        except Exception:
            # A defect of ours: the details belong in our log, not in the caller's message.
            _log.exception("webhook_defect", webhook=which)
            return self._failure(which, "error", 500, "internal error; see the webhook's log")
        finally:
            self._in_flight -= 1
            if self.answered is not None:
                self.answered(which, time.monotonic() - began_s)

    async def _answer(self, which: str, data: bytes) -> web.Response:
        asked = review.decode(data)
        match which:
            case "mutate":
                answer = await self._admission.mutate(asked)
            case "validate":
                answer = await self._admission.validate(asked)
            case _:
                answer = await self._admission.label(asked)
        self.counts[which, answer.outcome] += 1
        if not answer.response.allowed:
            _log.info(
                "pod_refused",
                webhook=which,
                namespace=asked.namespace,
                pod=asked.name,
                message=(answer.response.status or {}).get("message"),
            )
        return web.Response(body=review.encode(answer.response), content_type="application/json")

    def _failure(self, which: str, outcome: str, status: int, sentence: str) -> web.Response:
        self.counts[which, outcome] += 1
        _log.warning("webhook_no_verdict", webhook=which, outcome=outcome, message=sentence)
        return web.Response(status=status, text=f"gatelog webhook: {sentence}\n")


async def _ok(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")
