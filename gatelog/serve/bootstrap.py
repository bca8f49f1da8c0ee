"""Composition root of the serve deployment: builds the parts, serves until asked to stop.

    API server ── trusted proxy, reviews ────────► server ──► people
    database ──── questions (read only) ──────────► server

Health: ready means that the database answers and that the ConfigMap with the trusted front proxy
was read; alive means that the process runs. Temporary failures are retried.

Invariant: everything made here is closed here, in reverse order.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from gatelog.serve.access.frontproxy import CONFIG_MAP, TrustError, read_trust
from gatelog.serve.access.reviewing import Reviews
from gatelog.serve.api.handling import Handling
from gatelog.serve.console.app import MOST_STREAMS, Console
from gatelog.serve.feed import Feed, position
from gatelog.serve.questions import Busy, Questions
from gatelog.serve.server import Door, on_loopback, serving
from gatelog.serve.spending import Spending
from gatelog.serve.tls import Certificates, announce
from gatelog.serve.trials import Trials
from projector.storage.urls import database_url
from runtime import kube as kubernetes
from runtime.background import background
from runtime.certificates import CertificateError
from runtime.health import Checks
from runtime.kube import KubeClient
from runtime.kube_errors import KubeError
from runtime.log import get_logger
from runtime.metrics import of
from runtime.settings import Settings

REFRESH_S = 60.0
RETRY_S = 2.0

log = get_logger("serve")


async def run_serve(
    settings: Settings,
    stop: asyncio.Event,
    *,
    kube: KubeClient | None = None,
    checks: Checks | None = None,
    started: "asyncio.Future[int] | None" = None,
) -> None:
    """Serve until `stop` is set. `started` gets the port once it listens.

    Raises:
        KubeError: the configuration is unusable.
        DatabaseError: there is no such database.
        ListenError, CertificateError: the address or certificate of the settings is unusable.
    """
    async with AsyncExitStack() as stack:
        questions = Questions(database_url(settings), settings)
        stack.callback(questions.close)
        if kube is None:
            kube = await kubernetes.connect(settings.kubernetes, part="serve")
            stack.push_async_callback(kube.close)
        reviews = Reviews(kube, settings.serve.review_cache_s)
        door = Door(reviews)
        certificates = Certificates(settings)
        feed = Feed(questions)
        trials = Trials(settings)
        stack.callback(trials.close)
        handling = Handling(questions, reviews, feed, trials, settings.serve.streams_per_user)
        console = Console(questions, feed, reviews, trials, settings.serve.streams_per_user)

        async def ready() -> str:
            if door.trust is None:
                return "not known yet whose headers to believe"
            try:
                await questions.run(position)
            except Busy as error:
                return str(error)
            if certificates.authority and not announced.is_set():
                return "our authority is not announced to the API server yet"
            return certificates.problem()

        announced = asyncio.Event()
        if checks is not None:
            checks.ready("serve", ready)
            spending = Spending(of(checks, settings))
            await stack.enter_async_context(background(spending.keep(questions)))
        keeping = _renew_for_ever(settings, kube, door, certificates, announced)
        await stack.enter_async_context(background(keeping))
        served = serving(settings.serve, certificates, door, handling, console, ready)
        port = await stack.enter_async_context(served)
        log.info("serving", host=settings.serve.host, port=port)
        if started is not None:
            started.set_result(port)
        await stop.wait()


async def _renew_for_ever(
    settings: Settings,
    kube: KubeClient,
    door: Door,
    certificates: Certificates,
    announced: asyncio.Event,
) -> None:
    """Read the trusted front proxy, renew certificates, announce our own authority; for ever."""
    while True:
        wait_s = REFRESH_S
        problem = await _learn(kube, door, certificates)
        try:
            certificates.refresh()
        except (CertificateError, OSError) as error:
            problem = problem or f"certificate not renewed: {error}"
        if own := certificates.authority:
            refused = await announce(kube, settings, own)
            problem = problem or (refused and f"authority not announced: {refused}")
            announced.set()  # a refusal that lasts is logged: others may have announced it
        if problem:
            log.warning("serve_not_ready", problem=problem)
            wait_s = RETRY_S if door.trust is None else REFRESH_S / 4
        await asyncio.sleep(wait_s)


async def _learn(kube: KubeClient, door: Door, certificates: Certificates) -> str:
    """Read the trusted front proxy; return the problem. On failure the previous trust stays."""
    try:
        status, found = await kube.json("GET", CONFIG_MAP)
        if status == 404:
            return (
                f"GET {CONFIG_MAP}: 404; the API server has no aggregation layer "
                "(kube-apiserver --requestheader-client-ca-file)"
            )
        if status != 200 or not isinstance(found, dict):
            return (
                f"GET {CONFIG_MAP}: {status}; our service account needs Role "
                "extension-apiserver-authentication-reader in kube-system"
            )
        trust = read_trust(found.get("data") or {})
    except (KubeError, TrustError) as error:
        return str(error)
    certificates.believe(trust.authority)
    door.trust = trust
    return ""


@asynccontextmanager
async def local_console(settings: Settings) -> AsyncIterator[str]:
    """Serve the console on loopback without login, for `gatelog up`; yields its address.

    Raises:
        ListenError: `serve.console_port` is taken.
    """
    async with AsyncExitStack() as stack:
        questions = Questions(database_url(settings), settings)
        stack.callback(questions.close)
        trials = Trials(settings)
        stack.callback(trials.close)
        console = Console(questions, Feed(questions), None, trials, MOST_STREAMS)
        yield await stack.enter_async_context(on_loopback(console, settings.serve.console_port))
