"""`gatelog switch`: from one way of working to another, checked before and after.

Invariant: exit code 0 without --dry-run means that the new way is in place, checked, and alone.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gatelog.shell import options

if TYPE_CHECKING:
    from gatelog.switching.course import Switch
    from runtime.kube import KubeClient
    from runtime.settings import Settings

HELP = (
    "Change how gatelog works on a cluster that goes on working. Each switch checks what the new "
    "way needs, says what to apply, and, run again afterwards, takes away what the old way left "
    "and checks that the new one works. --dry-run only looks."
)
EPILOG = """[bold]Examples[/]

gatelog switch admission policy --dry-run

gatelog switch certificates cert-manager

gatelog switch queueing kueue --drain

gatelog switch processes three"""

app = typer.Typer(help=HELP, epilog=EPILOG, no_args_is_help=True)

Namespace = Annotated[
    str,
    typer.Option("--namespace", "-n", metavar="NS", help="Where a pod is tried (not stored)."),
]
Installed = Annotated[
    str, typer.Option("--installed", "-N", metavar="NS", help="Where gatelog is installed.")
]
Dry = Annotated[bool, typer.Option("--dry-run", help="Say what would be done; change nothing.")]
_SPACE = "gatelog-system"


@app.command(
    "admission",
    help="What gates pods: policy or webhook alone. Apply the new way first (chart, component of "
    "deploy/, or up --install); both together do no harm.",
)
@options.as_options
def admission(
    where: options.ClusterOptions,
    to: Annotated[
        Literal["policy", "webhook"], typer.Argument(help="What gates pods from now on.")
    ],
    namespace: Namespace = "default",
    dry_run: Dry = False,
) -> None:
    """Run `gatelog switch admission`."""
    from gatelog.switching.admission import Admission

    settings = where.settings()
    _run(settings, lambda kube: Admission(kube, to, namespace), dry=dry_run)


@app.command(
    "certificates",
    help="Whose certificates the webhook serves: own (by helm or each ingest) or cert-manager's.",
)
@options.as_options
def certificates(
    where: options.ClusterOptions,
    to: Annotated[
        Literal["own", "cert-manager"], typer.Argument(help="Who makes them from now on.")
    ],
    namespace: Namespace = "default",
    installed: Installed = _SPACE,
    dry_run: Dry = False,
) -> None:
    """Run `gatelog switch certificates`."""
    from gatelog.switching.certificates import Certificates

    settings = where.settings()
    _run(settings, lambda kube: Certificates(kube, to, installed, namespace), dry=dry_run)


@app.command(
    "queueing",
    help="Who admits: builtin (gatelog's own queues) or kueue (Kueue's scheduler). Holds all "
    "ClusterQueues until it is done: what runs runs on, nothing more is admitted.",
)
@options.as_options
def queueing(
    where: options.ClusterOptions,
    to: Annotated[Literal["builtin", "kueue"], typer.Argument(help="Who admits from now on.")],
    drain: Annotated[
        bool, typer.Option("--drain", help="Evict what is admitted instead of waiting for its end.")
    ] = False,
    namespace: Namespace = "default",
    installed: Installed = _SPACE,
    dry_run: Dry = False,
) -> None:
    """Run `gatelog switch queueing`."""
    from gatelog.switching.queueing import Queueing

    settings = where.settings()
    _run(settings, lambda kube: Queueing(kube, to, installed, namespace, drain=drain), dry=dry_run)


@app.command(
    "processes",
    help="What gatelog runs as: one process (gatelog up) or three deployments. Run it where the "
    "state directory of gatelog up is.",
)
@options.as_options
def processes(
    where: options.ClusterOptions,
    to: Annotated[Literal["one", "three"], typer.Argument(help="What it runs as from now on.")],
    namespace: Namespace = "default",
    installed: Installed = _SPACE,
    dry_run: Dry = False,
    state_dir: options.StateDirOption = None,
) -> None:
    """Run `gatelog switch processes`."""
    from gatelog.shell import statedir
    from gatelog.switching.processes import Processes

    settings = where.settings(state_dir=state_dir)
    state = statedir.of(settings)
    _run(settings, lambda kube: Processes(kube, to, installed, namespace, state), dry=dry_run)


def _run(settings: "Settings", make: "Callable[[KubeClient], Switch]", *, dry: bool) -> None:
    from gatelog.switching.course import carry_out
    from runtime.kube import connect

    async def run() -> None:
        kube = await connect(settings.kubernetes, part="switch")
        try:
            await carry_out(make(kube), lambda line: print(line, flush=True), dry=dry)
        finally:
            await kube.close()

    asyncio.run(run())
