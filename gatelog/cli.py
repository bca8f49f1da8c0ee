"""The command `gatelog`: what it is asked, and how it says that it cannot.

Theory. Commands are functions; each is in its own module, which imports what it needs when it is
called, so that `--help` and small commands start fast and an image with one extra can run the
commands of that extra. Whatever a command raises ends here as one sentence on stderr.

Invariant: exit code 0 done, 1 failed, 2 asked wrongly, 130 interrupted; a traceback only with
`--debug`, which may stand anywhere on the line.
"""

import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated

import typer

from gatelog.commands import (
    archive,
    bundle,
    creating,
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
    sql,
    stopping,
    switch,
    uninstall,
    up,
    usage,
    version,
    what_if,
    why,
)
from gatelog.shell.ending import end
from gatelog.shell.errors import USAGE, explain
from gatelog.shell.visible import only_visible, shown

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


RUN, ASK = "Run", "Ask"
app.command("up", help=up.HELP, epilog=up.EPILOG, rich_help_panel=RUN)(up.up)
app.command("demo", help=demo.HELP, epilog=demo.EPILOG, rich_help_panel=RUN)(demo.demo)
for _name, _function, _help in deployments.COMMANDS:
    app.command(_name, help=_help, epilog=deployments.EPILOG, rich_help_panel="Deployments")(
        _function
    )
app.command("migrate", help=migrate.HELP, epilog=migrate.EPILOG, rich_help_panel="Deployments")(
    migrate.migrate
)
app.command("archive", help=archive.HELP, epilog=archive.EPILOG, rich_help_panel="Deployments")(
    archive.archive
)
app.command("prune", help=prune.HELP, epilog=prune.EPILOG, rich_help_panel="Deployments")(
    prune.prune
)
app.add_typer(switch.app, name="switch", rich_help_panel="Deployments")
app.command(
    "uninstall", help=uninstall.HELP, epilog=uninstall.EPILOG, rich_help_panel="Deployments"
)(uninstall.uninstall)
app.command("history", help=history.HELP, epilog=history.EPILOG, rich_help_panel=ASK)(
    history.history
)
app.command("why", help=why.HELP, epilog=why.EPILOG, rich_help_panel=ASK)(why.why)
app.command("forecast", help=forecast.HELP, epilog=forecast.EPILOG, rich_help_panel=ASK)(
    forecast.forecast
)
app.command("list", help=listing.HELP, epilog=listing.EPILOG, rich_help_panel=ASK)(listing.listing)
ACT = "Act"
app.command("stop", help=stopping.HELP, epilog=stopping.EPILOG, rich_help_panel=ACT)(stopping.stop)
app.command(
    "resume", help=stopping.RESUME_HELP, epilog=stopping.RESUME_EPILOG, rich_help_panel=ACT
)(stopping.resume)
app.add_typer(creating.app, name="create", rich_help_panel=ACT)
app.command("replay", help=replay.HELP, epilog=replay.EPILOG, rich_help_panel=ASK)(replay.replay)
app.command("what-if", help=what_if.HELP, epilog=what_if.EPILOG, rich_help_panel=ASK)(
    what_if.what_if
)
app.command("usage", help=usage.HELP, epilog=usage.EPILOG, rich_help_panel=ASK)(usage.usage)
app.command("sql", help=sql.HELP, epilog=sql.EPILOG, rich_help_panel=ASK)(sql.sql)
app.command("export", help=export.HELP, epilog=export.EPILOG, rich_help_panel=ASK)(export.export)
app.command("import", help=export.IMPORT_HELP, epilog=export.IMPORT_EPILOG, rich_help_panel=ASK)(
    export.import_
)
app.command("epochs", help=epochs.HELP, epilog=epochs.EPILOG, rich_help_panel=ASK)(epochs.epochs)
app.command("parked", help=parked.HELP, epilog=parked.EPILOG, rich_help_panel=ASK)(parked.parked)
app.command("doctor", help=doctor.HELP, epilog=doctor.EPILOG, rich_help_panel=ASK)(doctor.doctor)
app.command("bundle", help=bundle.HELP, epilog=bundle.EPILOG, rich_help_panel=ASK)(bundle.bundle)
app.command("version", help=version.HELP, epilog=version.EPILOG, rich_help_panel=ASK)(
    version.version
)


for made in (*app.registered_commands, *creating.app.registered_commands):
    if made.callback is not None:
        made.callback = shown(made.callback)


def run(arguments: Sequence[str]) -> int:
    """Run one command line (without the program's name) and return its exit code."""
    if VIA_CLUSTER in arguments:
        from gatelog.viacluster.app import run as ask_cluster

        return ask_cluster([argument for argument in arguments if argument != VIA_CLUSTER])
    debug = DEBUG in arguments
    rest = [argument for argument in arguments if argument != DEBUG]
    try:
        result = app(args=stopping.plain_dry_run(rest), prog_name="gatelog", standalone_mode=False)
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        return _failed(error, rest, debug)
    return result if isinstance(result, int) else 0


def _failed(error: BaseException, arguments: Sequence[str], debug: bool) -> int:
    usage = getattr(error, "format_message", None)
    if usage is not None:
        # A usage error of typer's own; its class differs between typer's releases.
        command = next((a for a in arguments if not a.startswith("-")), "")
        groups = {group.name for group in app.registered_groups}
        known = command in {c.name for c in app.registered_commands} | groups
        help_of = f"gatelog {command} --help" if known else "gatelog --help"
        text = str(usage()).strip()
        if not text:  # a bare `gatelog`: the help was printed already
            return USAGE
        sys.stderr.write(f"gatelog: {text.rstrip('.')} (see {help_of})\n")
        return USAGE
    if type(error).__name__ == "Abort":
        error = KeyboardInterrupt()
    with only_visible():
        if debug:
            traceback.print_exception(error)
        said = explain(error)
        sys.stderr.write(f"gatelog: {said.sentence}\n")
    return said.exit_code


def main() -> None:
    """Entry point."""
    end(run)


if __name__ == "__main__":
    main()
