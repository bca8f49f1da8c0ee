"""`gatelog uninstall`: take gatelog off a cluster, and leave nothing stuck.

Invariant: exit code 0 means that all that was asked for is removed.
"""

import asyncio
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gatelog.shell import options, statedir
from gatelog.shell.errors import CommandFailed
from gatelog.terminal.printing import document

if TYPE_CHECKING:
    from gatelog.removal.removing import Step, Wish
    from runtime.settings import Settings

EXAMPLES = """
gatelog uninstall --dry-run
gatelog uninstall
gatelog uninstall --gates keep                    (to install it again: what waits goes on waiting)
gatelog uninstall --also crds --also data         (queues, log and passwords too)
"""


@dataclass(frozen=True)
class WishOptions:
    """The objects to remove."""

    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what would go and what would start; change nothing."),
    ] = False
    gates: Annotated[
        Literal["open", "keep"],
        typer.Option(
            help="Pods that wait: open (they start, whatever quota there is) or keep (they wait "
            "until gatelog is back or they are deleted; labels and Workloads stay too)."
        ),
    ] = "open"
    also: Annotated[
        list[str] | None,
        typer.Option(
            metavar="crds|data",
            help="crds: Kueue's kinds that gatelog installed, with all queues. data: the log's "
            "volume, Secrets, the namespace. May be repeated. The database is never touched.",
        ),
    ] = None
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NS", help="Where gatelog is installed.")
    ] = "gatelog-system"


def uninstall(
    answer: options.OutputOptions,
    where: options.ClusterOptions,
    what: WishOptions,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask on a terminal.")] = False,
    state_dir: options.StateDirOption = None,
) -> None:
    """Take gatelog off the cluster of the kubeconfig: admission first, then the deployments, then
    finalizers and gates of pods, then Workloads, then its own objects. Pods that run run on. May be
    interrupted and repeated. Queues, CRDs and data stay unless --also names them.
    """
    from gatelog.removal.removing import Wish
    from gatelog.shell.errors import UsageFailed

    output = answer.form
    wanted = set(what.also or ())
    if wanted - {"crds", "data"}:
        raise UsageFailed(f"--also {' '.join(sorted(wanted))}: it knows crds and data")
    settings = where.settings(state_dir=state_dir)
    if not what.dry_run and (running := statedir.of(settings).in_use()):
        raise CommandFailed(f"{running}. It would put its labels back")
    of = what.namespace, what.gates
    wish = Wish(*of, wanted, what.dry_run)  # type: ignore[arg-type] # checked above
    if sys.stdin.isatty() and not (yes or what.dry_run):
        typer.confirm("Remove gatelog from this cluster? --dry-run says what goes", abort=True)
    steps = asyncio.run(_run(settings, wish, quiet=output is not None))
    if output is not None:
        whole = {"dry_run": what.dry_run, "steps": [step._asdict() for step in steps]}
        sys.stdout.write(document(whole, output))


async def _run(settings: "Settings", wish: "Wish", *, quiet: bool) -> "list[Step]":
    from gatelog.removal.removing import Removal, leftovers
    from runtime.kube import connect

    def tell(line: str) -> None:
        if not quiet:
            print(line, flush=True)

    kube = await connect(settings.kubernetes, part="uninstall")
    began = time.monotonic()
    done = []
    try:
        tell(f"{'would remove' if wish.dry else 'removing'} gatelog from {kube.server}:")
        removal = Removal(kube, wish, lambda line: tell(f"  ... {line}"))
        for step in await removal.steps():
            found = await step()
            done.append(found)
            tell(f"  {found.name:<12} {found.objects:>6}  {found.detail}")
        if wish.dry:
            tell("nothing was changed")
            return done
        left = await leftovers(kube, wish.gates)
    finally:
        await kube.close()
    if left:
        raise CommandFailed(
            f"{left} pods have finalizers, gates or labels of gatelog again: something still runs "
            "that puts them there (a `gatelog up` elsewhere?). Stop it, then run gatelog uninstall "
            "again"
        )
    tell(f"done in {time.monotonic() - began:.1f} s; {_stays(wish)}")
    return done


def _stays(wish: "Wish") -> str:
    kept = [
        text
        for name, text in (
            ("crds", "CRDs and queues (--also crds)"),
            ("data", "the log's volume, Secrets and namespace (--also data)"),
        )
        if name not in wish.also
    ]
    kept.append("the database")
    return "what stays: " + ", ".join(kept)
