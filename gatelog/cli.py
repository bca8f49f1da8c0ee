"""The command `gatelog`: what it is asked, and how it says that it cannot.

Theory. Commands are functions; each is in its own module, which imports what it needs when it is
called, so that `--help` and small commands start fast and an image with one extra can run the
commands of that extra. Whatever a command raises ends here as one sentence on stderr.

Invariant: exit code 0 done, 1 failed, 2 asked wrongly, 130 interrupted; a traceback only with
`--debug`, which may stand anywhere on the line.
"""

import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Annotated, Any

import typer

from gatelog.commands import (
    archive,
    ask,
    bundle,
    demo,
    deployments,
    doctor,
    epochs,
    export,
    forecast,
    history,
    listing,
    migrate,
    parked,
    prune,
    replay,
    secrets,
    sql,
    stopping,
    topology,
    uninstall,
    up,
    usage,
    version,
    what_if,
    why,
)
from gatelog.shell.ending import end, failed
from gatelog.shell.errors import USAGE, NotHere
from gatelog.shell.options import as_options, epilog
from gatelog.shell.visible import shown

DEBUG = "--debug"
VIA_CLUSTER = "--via-cluster"

app = typer.Typer(
    name="gatelog",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"gatelog {metadata.version('gatelog')}")
        raise typer.Exit


@app.callback(
    help="Queue plain pods and pod groups by their scheduling gates, and keep an event log of "
    "everything that led to each admission.",
    epilog="Try it without a cluster: [bold]gatelog demo[/]. On your cluster: "
    "[bold]gatelog up --install webhook[/].",
)
def _root(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show and exit."),
    ] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show tracebacks of errors.")] = False,
    via_cluster: Annotated[
        bool,
        typer.Option(
            VIA_CLUSTER,
            help="Ask through the API server, as `kubectl gatelog` does: why, history, queue, "
            "usage, top, watch.",
        ),
    ] = False,
) -> None:
    """Options before the command; both act elsewhere."""


RUN, DEPLOY, ASK, ACT = "Run", "Deployments", "Ask", "Act"


def _add(name: str, command: Callable[..., Any], panel: str, examples: str) -> None:
    """Add a command to the panel of the help that it belongs to; its docstring is its help."""
    help = " ".join((command.__doc__ or "").split())
    made = app.command(name, help=help, epilog=epilog(examples), rich_help_panel=panel)
    made(as_options(command))


_add("up", up.up, RUN, up.EXAMPLES)
_add("demo", demo.demo, RUN, demo.EXAMPLES)
_add("ingest", deployments.ingest, DEPLOY, deployments.EXAMPLES)
_add("project", deployments.project, DEPLOY, deployments.EXAMPLES)
_add("actuate", deployments.actuate, DEPLOY, deployments.EXAMPLES)
_add("serve", deployments.serve, DEPLOY, deployments.EXAMPLES)
_add("migrate", migrate.migrate, DEPLOY, migrate.EXAMPLES)
_add("secrets", secrets.secrets, DEPLOY, secrets.EXAMPLES)
_add("archive", archive.archive, DEPLOY, archive.EXAMPLES)
_add("prune", prune.prune, DEPLOY, prune.EXAMPLES)
_add("uninstall", uninstall.uninstall, DEPLOY, uninstall.EXAMPLES)
_add("history", history.history, ASK, history.EXAMPLES)
_add("why", why.why, ASK, why.EXAMPLES)
_add("forecast", forecast.forecast, ASK, forecast.EXAMPLES)
_add("list", listing.listing, ASK, listing.EXAMPLES)
_add("stop", stopping.stop, ACT, stopping.EXAMPLES)
_add("resume", stopping.resume, ACT, stopping.RESUME_EXAMPLES)
_add("replay", replay.replay, ASK, replay.EXAMPLES)
_add("what-if", what_if.what_if, ASK, what_if.EXAMPLES)
_add("usage", usage.usage, ASK, usage.EXAMPLES)
_add("topology", topology.topology, ASK, topology.EXAMPLES)
_add("ask", ask.ask, ASK, ask.EXAMPLES)
_add("sql", sql.sql, ASK, sql.EXAMPLES)
_add("export", export.export, ASK, export.EXAMPLES)
_add("import", export.import_, ASK, export.IMPORT_EXAMPLES)
_add("epochs", epochs.epochs, ASK, epochs.EXAMPLES)
_add("parked", parked.parked, ASK, parked.EXAMPLES)
_add("doctor", doctor.doctor, ASK, doctor.EXAMPLES)
_add("bundle", bundle.bundle, ASK, bundle.EXAMPLES)
_add("version", version.version, ASK, version.EXAMPLES)


for made in app.registered_commands:
    if made.callback is not None:
        made.callback = shown(made.callback)


_ELSEWHERE = {"top": "list queues", "queue": "list queues", "watch": "why --watch"}
"""Commands that only `kubectl gatelog` has: what to ask here."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line (without the program's name) and return its exit code."""
    if VIA_CLUSTER in arguments:
        from gatelog.viacluster.app import run as ask_cluster

        return ask_cluster([argument for argument in arguments if argument != VIA_CLUSTER])
    debug = DEBUG in arguments
    rest = [argument for argument in arguments if argument != DEBUG]
    if rest and rest[0] in _ELSEWHERE:
        sys.stderr.write(
            f"gatelog: {rest[0]} is a command of kubectl gatelog (here: gatelog {VIA_CLUSTER} "
            f"{rest[0]}); of a read model ask: gatelog {_ELSEWHERE[rest[0]]}\n"
        )
        return USAGE
    try:
        result = app(args=stopping.plain_dry_run(rest), prog_name="gatelog", standalone_mode=False)
    except BrokenPipeError:
        raise
    except NotHere as error:
        from gatelog.commands.elsewhere import ask

        return ask(rest, error)
    except (Exception, KeyboardInterrupt) as error:
        return failed(error, "gatelog", _help_of(rest), debug=debug)
    return result if isinstance(result, int) else 0


def _help_of(arguments: Sequence[str]) -> str:
    """Return the command line whose help fits these arguments."""
    command = next((a for a in arguments if not a.startswith("-")), "")
    known = command in {c.name for c in app.registered_commands}
    return f"gatelog {command} --help" if known else "gatelog --help"


def main() -> None:
    """Entry point."""
    end(run)


if __name__ == "__main__":
    main()
