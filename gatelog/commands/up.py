"""`gatelog up`: all parts in one process.

Theory. Settings decide where log and read model are; without any, both are in the state directory.
The command runs until it is asked to stop, and can be killed and started again at any time.

Invariant: on a terminal it prints a line for each step and address; otherwise it logs the same as
events.
"""

import asyncio
from typing import Annotated, Literal

import typer

from gatelog.shell import options
from gatelog.shell.narrator import Narrator

EXAMPLES = """
gatelog up --install webhook
gatelog up --context kind-test --set webhook.host=0.0.0.0 --set webhook.url=https://172.18.0.1:9443
gatelog up --db postgresql://gatelog@localhost/gatelog --set nats.url=nats://localhost:4222
"""

Install = Annotated[
    Literal["webhook", "policy", "none"] | None,
    typer.Option(
        "--install",
        help="How pods get their gate: webhook (served here, Kubernetes 1.30 or later), policy "
        "(MutatingAdmissionPolicy, 1.36 or later), none (another webhook does). webhook and policy "
        "also install Kueue's kinds (CRDs) where they are absent.",
    ),
]
BesideKueue = Annotated[
    bool,
    typer.Option(
        "--beside-kueue",
        help="Start although Kueue's own pod integration is on: two then gate the same pods.",
    ),
]
Mode = Annotated[
    Literal["builtin", "kueue"] | None,
    typer.Option("--mode", help="Who admits: our own quota queues, or Kueue's scheduler."),
]

DEFAULTS = {"forecast.interval_s": 60.0}
"""Defaults of settings for this command: no other process makes forecasts here."""


def up(
    where: options.InstallationOptions,
    install: Install = None,
    beside_kueue: BesideKueue = False,
    mode: Mode = None,
    verbose: options.Verbose = False,
) -> None:
    """Run everything in one process against the current kubeconfig: an event log (embedded
    nats-server), a read model (SQLite) and all three deployments. Keeps its state in .gatelog and
    goes on from there when started again.
    """
    settings = where.settings(mode=mode, defaults=DEFAULTS)
    narrator = Narrator(settings.log, "up", verbose=verbose)

    from gatelog.allinone import Setup, run_up
    from gatelog.readmodel.readiness import Ready
    from gatelog.shell.runner import run
    from gatelog.terminal.following import follow
    from gatelog.terminal.guidance import tell_ready

    async def ready(found: Ready) -> None:
        tell_ready(narrator, settings, found)
        if narrator.watched:
            await follow(settings, narrator, found.position)

    async def main(stop: asyncio.Event) -> None:
        await run_up(settings, stop, narrator, Setup(install, beside_kueue), on_ready=ready)

    run(main)
