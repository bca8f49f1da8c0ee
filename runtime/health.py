"""/healthz, /readyz and /metrics for probes and scrapers.

A check is a function that returns what is wrong, or an empty string. Liveness checks say that only
a restart can help; readiness checks say "not now" (not connected, not caught up).

Invariant: a check that raises or takes longer than two seconds counts as failed; the answer names
the failing checks and nothing secret.
"""

import asyncio
import inspect
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from runtime.listening import listen
from runtime.log import get_logger
from runtime.settings import HealthSettings, SettingsError

Check = Callable[[], str | Awaitable[str]]
CHECK_TIMEOUT_S = 2.0

log = get_logger("health")


class Checks:
    """The checks of all parts of a process; shared by the parts."""

    def __init__(self) -> None:
        self._live: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}
        self._failing: dict[str, str] = {}
        self.metrics: Callable[[], bytes] | None = None

    def live(self, name: str, check: Check) -> None:
        """Register a liveness check; a later check of the same name replaces it."""
        self._live[name] = check

    def ready(self, name: str, check: Check) -> None:
        """Register a readiness check; a later check of the same name replaces it."""
        self._ready[name] = check

    async def liveness(self) -> dict[str, str]:
        """Return failing liveness checks and what they say."""
        return await _failing(self._live)

    async def readiness(self) -> dict[str, str]:
        """Return failing checks of both kinds and what they say."""
        self._failing = await _failing({**self._ready, **self._live})
        return self._failing

    @property
    def problems(self) -> dict[str, str]:
        """The problem of each part when `readiness` was called last, "" for none.

        A check is of the part that its name begins with, up to a colon.
        """
        found: dict[str, list[str]] = {part_of(name): [] for name in (*self._ready, *self._live)}
        for name, said in sorted(self._failing.items()):
            rest = name.partition(": ")[2]
            found.setdefault(part_of(name), []).append(f"{rest}: {said}" if rest else said)
        return {part: "; ".join(said) for part, said in found.items()}


def part_of(check: str) -> str:
    """Return the part that a check is of."""
    return check.partition(":")[0]


@asynccontextmanager
async def serve_health(settings: HealthSettings, checks: Checks) -> AsyncIterator[int]:
    """Serve while the context is open; yields the port (0: the setting says off)."""
    if settings.port == 0:
        yield 0
        return
    async with _server(settings, checks) as port:
        log.info("health_served", host=settings.host, port=port, tls=bool(settings.cert_file))
        yield port


@asynccontextmanager
async def _server(settings: HealthSettings, checks: Checks) -> AsyncIterator[int]:
    from aiohttp import web

    async def healthz(_: web.Request) -> web.Response:
        return _answer(await checks.liveness())

    async def readyz(_: web.Request) -> web.Response:
        return _answer(await checks.readiness())

    async def metrics(_: web.Request) -> web.Response:
        if checks.metrics is None:
            raise web.HTTPNotFound(text="no metrics here")
        await checks.readiness()
        return web.Response(
            body=checks.metrics(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    def _answer(failing: dict[str, str]) -> web.Response:
        if not failing:
            return web.Response(text="ok\n")
        text = "".join(f"{name}: {what}\n" for name, what in sorted(failing.items()))
        return web.Response(status=503, text=text)

    app = web.Application(client_max_size=1024)
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        tls = _Fresh(settings).context if settings.cert_file else None
        where = settings.host, settings.port
        await listen(runner, "health", *where, tls=tls)
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


class _Fresh:
    """A TLS context whose handshakes use the certificate that the files hold by then.

    Files that cannot be used, as while they are being replaced, leave the certificate as it was.

    Raises:
        SettingsError: the files cannot be used at the start.
    """

    def __init__(self, settings: HealthSettings) -> None:
        self._cert = Path(settings.cert_file)
        self._key = Path(settings.key_file or settings.cert_file)
        try:
            self._changed, self._now = self._stamp(), self._load()
        except OSError as error:
            raise SettingsError(
                f"health.cert_file = {settings.cert_file!r}, health.key_file = "
                f"{settings.key_file!r}: cannot be used as certificate and key: {error}"
            ) from error
        self.context = self._load()
        self.context.sni_callback = self._greet

    def _stamp(self) -> tuple[int, int]:
        return self._cert.stat().st_mtime_ns, self._key.stat().st_mtime_ns

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._cert, self._key)
        return context

    def _greet(self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        try:
            changed = self._stamp()
            if changed != self._changed:
                self._now, self._changed = self._load(), changed
        except OSError as error:  # an SSLError is one
            log.warning("certificate_unusable", file=str(self._cert), error=str(error))
        connection.context = self._now


async def _failing(checks: dict[str, Check]) -> dict[str, str]:
    failing = {}
    for name, check in checks.items():
        try:
            said = check()
            if inspect.isawaitable(said):
                async with asyncio.timeout(CHECK_TIMEOUT_S):
                    said = await said
        except TimeoutError:
            said = f"no answer within {CHECK_TIMEOUT_S} s"
        except Exception as error:
            said = f"check failed: {type(error).__name__}: {error}"
        if said:
            failing[name] = str(said)
    return failing
