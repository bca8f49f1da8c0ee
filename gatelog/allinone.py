"""`gatelog up`: all parts in one process, on one log and one read model; on a laptop or in a pod.

Theory. The parts are the same as in three deployments and know nothing of each other; here they
share one connection to NATS and one client of the API server, and the log and the database are in
the state directory unless settings name others. A part that cannot work as it was set up ends the
process with its error. A part that fails by a defect is started again, after a pause that grows,
while the others go on: requests to the webhook do not wait for the projector.

Invariant: parts start after log and tables exist, and end before the log's server does.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec

from gatelog.cluster import clusterinfo, install, policies
from gatelog.readmodel import readiness
from gatelog.readmodel.readiness import Ready
from gatelog.shell import statedir
from gatelog.shell.errors import CommandFailed
from gatelog.shell.named import by_kubeconfig
from gatelog.shell.narrator import Narrator
from gatelog.shell.whereabouts import near, read_model_at
from runtime.backoff import Backoff
from runtime.embedded import EmbeddedError, EmbeddedNats
from runtime.health import Checks, serve_health
from runtime.jetstream import Bus, BusError, BusUnavailable
from runtime.jetstream import connect as connect_bus
from runtime.kube import KubeClient
from runtime.kube import connect as connect_kube
from runtime.kube_errors import KubeError, KubeUnavailable
from runtime.listening import ListenError
from runtime.log import get_logger
from runtime.service import innermost
from runtime.settings import Settings, SettingsError

_CONNECT_S = 30.0
_LOOK_S = 2.0
"""Seconds between looks whether the embedded server still stores messages."""
_AGAIN_S = 20.0
"""Seconds that a server gets to store a message before it is restarted again."""

_GOOD_S = 60.0
"""Seconds that a part must work until its next failure counts as the first again."""

_STARTS_S = 5.0
"""Seconds that a restarted part gets until its own checks report."""

OnReady = Callable[[Ready], Awaitable[None]]


class Setup(NamedTuple):
    """How admission is set up; `beside_kueue`: also where Kueue gates pods itself."""

    way: install.Way | None = None
    """None goes on with a webhook that this address was registered for earlier."""
    beside_kueue: bool = False


GO_ON = Setup()


async def run_up(
    settings: Settings,
    stop: asyncio.Event,
    narrator: Narrator,
    setup: Setup = GO_ON,
    *,
    on_ready: OnReady | None = None,
    farewell: bool = True,
) -> None:
    """Run everything until `stop`.

    `farewell`: say at the end what stays. `on_ready` is called once, when every kind is watched
    and the log is folded up to its end.

    Raises:
        CommandFailed: the state directory is in use, Kueue gates pods itself, or the cluster cannot
            be set up.
        BusError, KubeError, DatabaseError, EmbeddedError: a part cannot work; the message says why.
    """
    state = statedir.of(settings)
    async with AsyncExitStack() as stack:
        stack.enter_context(state.hold(_identity(settings)))
        settings, server = await stack.enter_async_context(_log(settings, state, narrator))
        bus = await connect_bus(settings.nats, "gatelog-up", deadline_s=_CONNECT_S)
        stack.push_async_callback(bus.close)
        if server is not None:
            keeping = asyncio.create_task(keep_storing(server, bus))
            stack.callback(keeping.cancel)
        await bus.ensure_streams(settings.streams)
        await _database(settings, narrator)
        from gatelog.serve.bootstrap import local_console

        console = await stack.enter_async_context(local_console(settings))
        narrator.done("console", f"console for this machine: {console}", url=console)
        kube = await connect_kube(settings.kubernetes)
        stack.push_async_callback(kube.close)
        version = await clusterinfo.version(kube)
        narrator.done("cluster", f"Kubernetes {version.text} at {kube.server}", server=kube.server)
        if not setup.beside_kueue:
            await _kueue_leaves_pods_alone(kube, narrator)
        settings, registered = await _cluster(kube, settings, narrator, setup.way)
        # The state directory is ours alone, so there is no other process to take turns with.
        settings = msgspec.structs.replace(
            settings, lease=msgspec.structs.replace(settings.lease, enabled=False)
        )

        async def ready(checks: Checks) -> None:
            if registered:
                url = await install.wait_registered(kube)
                said = f"pods that name a queue are gated by the webhook at {url}"
                narrator.done("webhook", said)
            found = await readiness.wait_ready(settings, bus, checks)
            if on_ready is not None:
                await on_ready(found)

        await _parts(settings, stop, bus, kube, ready)
    if farewell:
        _farewell(narrator, settings)


def _identity(settings: Settings) -> str:
    named = by_kubeconfig(settings.kubernetes.kubeconfig, settings.kubernetes.context)
    return named.identity if named is not None else ""


def _farewell(narrator: Narrator, settings: Settings) -> None:
    narrator.info("stopped", "stopped; the next `gatelog up` goes on from here")
    if settings.webhook.enabled and settings.webhook.url and not settings.webhook.cert_file:
        narrator.warning(
            "webhook_stays",
            "the webhook stays registered: until gatelog runs again, pods that name a queue are "
            "refused. To take it out: kubectl delete "
            "mutatingwebhookconfiguration,validatingwebhookconfiguration gatelog-pods",
        )


@asynccontextmanager
async def _log(
    settings: Settings, state: statedir.StateDir, narrator: Narrator
) -> AsyncIterator[tuple[Settings, EmbeddedNats | None]]:
    if settings.nats.url:
        narrator.done("log", f"event log on {settings.nats.url}", url=settings.nats.url)
        yield settings, None
        return
    server = EmbeddedNats(state.nats)
    url = await server.start()
    narrator.done(
        "log",
        f"event log: nats-server on {url}, files in {near(str(state.nats))}",
        url=url,
        pid=server.pid,
    )
    try:
        yield msgspec.structs.replace(settings, nats=server.settings()), server
    finally:
        await server.stop()


async def keep_storing(server: EmbeddedNats, bus: Bus, again_s: float = _AGAIN_S) -> None:
    """Restart the server when it no longer stores messages, until cancelled.

    On a full disk a restart itself may fail, since the server's address is written; the restart is
    tried again after `again_s`, after any error.

    After a failed write, as on a full disk, the server stores nothing for as long as it lives, even
    if there is room again (nats-server 2.15, measured); in a cluster its liveness probe restarts
    it.
    """
    log, unstarted = get_logger("up"), False
    while True:
        await asyncio.sleep(_LOOK_S)
        if not bus.unstored and not unstarted:
            continue
        log.warning("nats_restarted", problem=bus.unstored)
        try:
            await server.stop()
            await server.start()
        except (EmbeddedError, OSError) as error:
            log.error("nats_not_started", error=str(error))
            unstarted = True
        else:
            unstarted = False
        await asyncio.sleep(again_s)


async def _database(settings: Settings, narrator: Narrator) -> None:
    from projector.storage import database
    from projector.upkeep import migrate

    url = database.database_url(settings)
    await asyncio.to_thread(migrate.upgrade, url)
    narrator.done("database", f"read model in {read_model_at(url)}", schema=migrate.head())


async def _kueue_leaves_pods_alone(kube: KubeClient, narrator: Narrator) -> None:
    """Refuse to run beside a Kueue that gates and ungates pods itself; nothing is written yet."""
    configuration = (await clusterinfo.admission(kube)).kueue_pods
    if not configuration:
        return
    taken = await clusterinfo.kueue_pod_frameworks(kube)
    if taken:
        raise CommandFailed(
            f"Kueue queues pods itself on {kube.server} ({', '.join(taken)} in "
            "integrations.frameworks of kueue-manager-config): both would gate and ungate the same "
            "pods. Take them out and restart Kueue, or say --beside-kueue if it serves other queues"
        )
    if taken is None:
        narrator.warning(
            "kueue_unknown",
            f"Kueue is installed ({configuration}) and its configuration cannot be read: see that "
            f"integrations.frameworks has none of {', '.join(clusterinfo.POD_FRAMEWORKS)}",
        )


async def _cluster(
    kube: KubeClient, settings: Settings, narrator: Narrator, way: install.Way | None
) -> tuple[Settings, bool]:
    """Set the cluster up as asked; return the settings and whether a webhook is to be awaited."""
    way = way or await _as_before(kube, settings, narrator)
    if way in ("webhook", "policy"):
        kinds = await install.install_kinds(kube)
        for name in kinds.applied:
            narrator.done("installed", f"installed {name}", object=name)
        for sentence in kinds.left:
            narrator.info("kinds_left", sentence)
    else:
        missing = (await clusterinfo.kueue(kube)).missing
        if missing:
            narrator.warning(
                "kinds_missing",
                f"the cluster does not serve {', '.join(missing)} ({clusterinfo.KUEUE_GROUP}): "
                "nothing can be admitted until they are installed (--install webhook or policy, "
                "or kubectl apply -k deploy/crds)",
            )
    if way in ("policy", "webhook") or settings.webhook.enabled:
        settings = await install.as_ourselves(kube, settings)
        _tell_user(narrator, settings)
    if way == "policy":
        for name in await install.install_policy(kube, settings):
            narrator.done("installed", f"installed {name}", object=name)
    if way == "webhook":
        settings = await install.webhook_settings(kube, settings)
        for name in await install.install_fence(kube, settings):
            narrator.done("installed", f"installed {name}", object=name)
        return settings, True
    return settings, False


def _tell_user(narrator: Narrator, settings: Settings) -> None:
    user = settings.webhook.actuator_user
    narrator.done("actuator", f"only {user} takes the gate off queued pods", user=user)
    if not policies.fenced(settings):
        narrator.info(
            "not_fenced",
            f"{user} is no service account, so gatelog-fence is not put round it: what gatelog "
            "does with it is limited by its rights alone (docs/security.md)",
        )


async def _as_before(
    kube: KubeClient, settings: Settings, narrator: Narrator
) -> install.Way | None:
    """Go on serving a webhook that is registered for us; no other process would."""
    registered = await install.registered_url(kube)
    if registered and registered == install.own_url(settings):
        narrator.info("webhook_again", "the webhook is registered for this address: serving it")
        return "webhook"
    if registered and not settings.webhook.enabled:
        narrator.warning(
            "webhook_elsewhere",
            f"the webhook is registered at {registered}, which is not served here: unless another "
            "gatelog serves it, pods that name a queue are refused (--install webhook registers "
            "this one instead)",
        )
    return None


async def _parts(
    settings: Settings,
    stop: asyncio.Event,
    bus: Bus,
    kube: KubeClient,
    ready: Callable[[Checks], Coroutine[Any, Any, None]],
) -> None:
    from actuator.bootstrap import run_actuator
    from ingest.bootstrap import run_ingest
    from projector.bootstrap import run_projector

    checks = readiness.expecting("ingest", "projector")

    async with serve_health(settings.health, checks), asyncio.TaskGroup() as group:
        waiting = group.create_task(ready(checks), name="readiness")
        parts: tuple[tuple[str, Callable[[], Coroutine[Any, Any, None]]], ...] = (
            ("ingest", lambda: run_ingest(settings, stop, bus=bus, kube=kube, checks=checks)),
            ("projector", lambda: run_projector(settings, stop, bus=bus, checks=checks)),
            ("actuator", lambda: run_actuator(settings, stop, bus=bus, kube=kube, checks=checks)),
        )
        if settings.serve.enabled:
            from gatelog.serve.bootstrap import run_serve

            parts = (*parts, ("serve", lambda: run_serve(settings, stop, kube=kube, checks=checks)))
        if settings.forecast.interval_s:
            from gatelog.forecast.beside import beside_projector

            group.create_task(beside_projector(settings, stop, checks), name="forecast")
        for name, part in parts:
            group.create_task(supervised(name, part, stop, checks), name=name)
        await stop.wait()
        waiting.cancel()


def _in_vain(error: BaseException | None, worked: bool) -> bool:
    """Return whether a restart of a part would not help: the error says what to do.

    The failure of a part that has `worked` is no fault of its set-up, and the others go on.
    """
    from projector.storage.store import StaleProjector, StoreDamaged
    from projector.storage.urls import DatabaseError, DatabaseUnavailable

    if isinstance(error, StaleProjector):
        return True
    if worked or isinstance(error, (BusUnavailable, KubeUnavailable, DatabaseUnavailable)):
        return False
    ours = (CommandFailed, SettingsError, BusError, KubeError, ListenError, EmbeddedError)
    return isinstance(error, (*ours, DatabaseError, StoreDamaged))


def _said_until(at: float, said: str) -> str:
    """Return the error of a part that failed, "" from `at` on: not each part has a check."""
    return said if time.monotonic() < at else ""


async def supervised(
    name: str,
    part: Callable[[], Coroutine[Any, Any, None]],
    stop: asyncio.Event,
    checks: Checks,
    backoff: Backoff | None = None,
    good_s: float = _GOOD_S,
) -> None:
    """Run a part until `stop`, again and again if it fails; readiness shows the failure.

    It does so until the part's own checks report, or the part has worked for a few seconds.

    Raises:
        CommandFailed: the part ended by itself.
        BusError, KubeError, DatabaseError, SettingsError, ListenError, StoreDamaged: the part
            cannot work as it was set up, and never has for `good_s` seconds.
        StaleProjector: another projector works in its place.
    """
    waits, log = backoff or Backoff(first_s=1.0, ceiling_s=30.0), get_logger("up")
    worked = False
    while True:
        began = time.monotonic()
        try:
            await part()
        except Exception as error:
            cause = innermost(error)
            if time.monotonic() - began > good_s:
                worked = True
                waits.reset()
            if _in_vain(cause, worked):
                raise
            wait_s, said = next(waits), f"failed and is started again: {cause}"
            log.error("part_failed", part=name, error=str(cause), wait_s=wait_s, exc_info=error)
        else:
            if stop.is_set():
                return
            raise CommandFailed(
                f"{name} ended by itself, which it never should: see the log above it"
            )
        until = time.monotonic() + wait_s + _STARTS_S
        checks.ready(name, partial(_said_until, until, said))
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await stop.wait()
        if stop.is_set():
            return
