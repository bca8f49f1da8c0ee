"""`gatelog ingest | project | actuate`: one deployment each, as they run in a cluster.

Theory. The deployments share settings, log and read model and start alike: NATS must be given (no
other process could reach an embedded server), the health endpoint is served when `health.port` is
set, and SIGTERM ends them in order.

Invariant: each command imports its own deployment only, so it runs with that deployment's extra.
"""

import asyncio
from collections.abc import Awaitable, Callable

from gatelog.shell import options
from gatelog.shell.errors import CommandFailed, UsageFailed
from gatelog.shell.narrator import Narrator
from runtime.health import Checks, serve_health
from runtime.settings import Settings

EXAMPLES = """
GATELOG_CONFIG=/etc/gatelog/gatelog.toml gatelog project
gatelog ingest --config gatelog.toml --set health.port=8080
gatelog actuate --set nats.url=nats://nats:4222
"""

Part = Callable[..., Awaitable[None]]
"""`run_ingest`, `run_projector` or `run_actuator`: (settings, stop, *, checks)."""


def ingest(
    config: options.Config = None,
    assign: options.Assign = None,
    verbose: options.Verbose = False,
) -> None:
    """Watch pods, Workloads and queues, publish what happens to the log, and serve the admission
    webhook if webhook.enabled says so.
    """
    settings = options.settings(config, assign)
    _need_nats(settings, "ingest")

    from ingest.bootstrap import run_ingest

    _run("ingest", settings, verbose, run_ingest)


def project(
    config: options.Config = None,
    assign: options.Assign = None,
    db: options.Database = None,
    verbose: options.Verbose = False,
) -> None:
    """Fold the log, decide, and write the read model. One is active."""
    settings = options.settings(config, assign, database__url=options.database_option(db))
    _need_nats(settings, "project")

    from projector.bootstrap import run_projector

    _run("projector", settings, verbose, _with_forecasts(settings, run_projector))


def actuate(
    config: options.Config = None,
    assign: options.Assign = None,
    verbose: options.Verbose = False,
) -> None:
    """Carry decisions out at the API server. Any number of replicas share the work."""
    settings = options.settings(config, assign)
    _need_nats(settings, "actuate")

    from actuator.bootstrap import run_actuator

    _run("actuator", settings, verbose, run_actuator)


def serve(
    where: options.DatabaseOptions,
    verbose: options.Verbose = False,
) -> None:
    """Show the read model to people through the API server: an aggregated API for kubectl, with the
    rights they have. Reads only; any number of replicas.
    """
    settings = where.settings()

    from gatelog.serve.bootstrap import run_serve
    from gatelog.shell.whereabouts import read_model_at
    from projector.storage.urls import database_url

    _run(
        "serve",
        settings,
        verbose,
        run_serve,
        f"the read model in {read_model_at(database_url(settings))}",
    )


def _with_forecasts(settings: Settings, part: Part) -> Part:
    """Return the part, with forecasts beside it where the settings ask for them."""
    if not settings.forecast.interval_s:
        return part

    from gatelog.forecast.beside import beside_projector

    async def both(settings: Settings, stop: asyncio.Event, *, checks: Checks) -> None:
        beside = asyncio.create_task(beside_projector(settings, stop, checks))
        try:
            await part(settings, stop, checks=checks)
        finally:
            beside.cancel()
            await asyncio.gather(beside, return_exceptions=True)

    return both


def _need_nats(settings: Settings, command: str) -> None:
    if not settings.nats.url:
        raise UsageFailed(
            f"nats.url is not set: gatelog {command} needs a NATS server that the other "
            "deployments share (--set nats.url=nats://host:4222); only `gatelog up` runs its own"
        )


def _run(name: str, settings: Settings, verbose: bool, part: Part, on: str = "") -> None:
    from gatelog.shell.runner import run

    narrator = Narrator(settings.log, name, verbose=verbose)

    async def main(stop: asyncio.Event) -> None:
        narrator.info("started", f"{name} runs on {on or settings.nats.url}; Ctrl-C stops it")
        checks = Checks()
        async with serve_health(settings.health, checks):
            await part(settings, stop, checks=checks)
        if not stop.is_set():
            raise CommandFailed(f"{name} ended by itself, which it never should: see its log")

    try:
        run(main)
    except Exception as error:
        narrator.failure(error)
        raise
