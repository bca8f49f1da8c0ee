"""`gatelog switch`: from webhook to policies and back, checked before and after.

Invariant: exit code 0 means that a pod which names a queue gets its gate by the way that was asked
for, and by no other.
"""

import asyncio
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gatelog.shell import options

if TYPE_CHECKING:
    from podgroup.runtime.settings import Settings

HELP = (
    "Let pods get their gate by policy or by webhook alone: checks that the new way is in place, "
    "takes the registration of the old one away, and checks that a pod gets its gate. Apply the "
    "new way first (chart, component of deploy/, or up --install); both together do no harm."
)
EPILOG = """[bold]Examples[/]

gatelog switch policy --dry-run

gatelog switch policy -n team-a

gatelog switch webhook"""


def switch(
    to: Annotated[
        Literal["policy", "webhook"], typer.Argument(help="What gates pods from now on.")
    ],
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-n", metavar="NS", help="Where the pod is tried (not stored)."
        ),
    ] = "default",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go; change nothing.")
    ] = False,
    config: options.Config = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.KubeContext = None,
    assign: options.Assign = None,
) -> None:
    """Run `gatelog switch`; see HELP."""
    settings = options.of_cluster(config, kubeconfig, context, assign)
    asyncio.run(_run(settings, to, namespace, dry_run))


async def _run(
    settings: "Settings", to: Literal["policy", "webhook"], namespace: str, dry: bool
) -> None:
    from gatelog.switching import switch as carry_out
    from podgroup.runtime.kube import connect

    kube = await connect(settings.kubernetes, part="switch")
    try:
        await carry_out(kube, to, namespace, print, dry=dry)
    finally:
        await kube.close()
