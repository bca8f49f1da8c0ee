"""The command `gatelog`: its subcommands, and its errors.

Theory. Commands are functions; each is in its own module, which is imported when the command is
called or its help is shown, so that commands start fast and an image with one extra can run the
commands of that extra. Every error of a command ends here as one sentence on stderr.

Invariant: exit code 0 done, 1 failed, 2 asked wrongly, 130 interrupted; a traceback only with
`--debug`, which may stand anywhere on the line.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from gatelog.shell.ending import end, failed
from gatelog.shell.errors import USAGE, NotHere

DEBUG = "--debug"
VIA_CLUSTER = "--via-cluster"
FIRST, ASK, ACT, RUN, DEPLOY = "Ask first", "Ask", "Act", "Run", "Deployments"


class Command(NamedTuple):
    """A command: its function in `gatelog.commands`, its panel of the help, a line that sums it up.

    The function's docstring is its help; `examples` names the text with its examples.
    """

    function: str
    panel: str
    summary: str
    examples: str = "EXAMPLES"


COMMANDS = {
    "why": Command("why:why", FIRST, "Why a group or pod waits or does not run, and what helps."),
    "history": Command("history:history", FIRST, "What happened to a group, line by line."),
    "list": Command("listing:listing", FIRST, "Groups, and queues with what they hold."),
    "usage": Command("usage:usage", FIRST, "Resource-hours used, held, wasted and waited for."),
    "what-if": Command(
        "what_if:what_if", FIRST, "Play a log with another quota, priority or policy."
    ),
    "try": Command("trial:try_", FIRST, "Would these pods start now, and what would make them?"),
    "forecast": Command("forecast:forecast", ASK, "When each group starts that waits."),
    "ask": Command("ask:ask", ASK, "Questions in SQL that have a name."),
    "sql": Command("sql:sql", ASK, "One statement of SQL, read only."),
    "topology": Command("topology:topology", ASK, "Racks and nodes with what is free there."),
    "doctor": Command("doctor:doctor", ASK, "Is everything well, and what to do where it is not?"),
    "parked": Command("parked:parked", ASK, "What was put aside, and how to release it."),
    "replay": Command("replay:replay", ASK, "Verify, rebuild or go back in the read model."),
    "epochs": Command("epochs:epochs", ASK, "Beginnings of the log, and settings in force."),
    "export": Command("export:export", ASK, "The log as a file."),
    "import": Command("export:import_", ASK, "A read model of such a file.", "IMPORT_EXAMPLES"),
    "bundle": Command("bundle:bundle", ASK, "What a report of a defect needs, as one file."),
    "version": Command("version:version", ASK, "Versions of gatelog and what it speaks to."),
    "stop": Command("stopping:stop", ACT, "Stop a group or queue."),
    "resume": Command("stopping:resume", ACT, "Let it go on.", "RESUME_EXAMPLES"),
    "up": Command("up:up", RUN, "All of gatelog in one process."),
    "demo": Command("demo:demo", RUN, "All of it on a simulated cluster, in a minute."),
    "ingest": Command("deployments:ingest", DEPLOY, "Watch the cluster, publish to the log."),
    "project": Command("deployments:project", DEPLOY, "Fold the log, decide, write rows."),
    "actuate": Command("deployments:actuate", DEPLOY, "Carry decisions out."),
    "serve": Command("deployments:serve", DEPLOY, "Aggregated API and console."),
    "migrate": Command("migrate:migrate", DEPLOY, "Make or upgrade tables and streams."),
    "secrets": Command("secrets:secrets", DEPLOY, "Make passwords and keys that are missing."),
    "archive": Command("archive:archive", DEPLOY, "Copy the log to closed files."),
    "prune": Command("prune:prune", DEPLOY, "Take old history away."),
    "rights": Command("rights:rights", DEPLOY, "Print the roles that a user of gatelog up needs."),
    "uninstall": Command("uninstall:uninstall", DEPLOY, "Take gatelog off the cluster."),
}
"""Commands in the order of the help."""


def _loaded(name: str) -> Any:
    """Return a command as typer calls it, with its module imported."""
    from typer.main import get_command_from_info

    from gatelog.shell.options import as_options, epilog
    from gatelog.shell.visible import shown

    row = COMMANDS[name]
    place, _, function = row.function.partition(":")
    module = import_module(f"gatelog.commands.{place}")
    command = getattr(module, function)
    alone = typer.Typer()
    alone.command(
        name,
        help=" ".join((command.__doc__ or "").split()),
        short_help=row.summary,
        epilog=epilog(getattr(module, row.examples)),
        rich_help_panel=row.panel,
    )(shown(as_options(command)))
    (info,) = alone.registered_commands
    return get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode="rich")


class _Loading(Mapping[str, Any]):
    """Commands by name, each imported when it is asked for."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _loaded(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __contains__(self, name: object) -> bool:
        return name in COMMANDS


class _Commands(TyperGroup):
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Loading()  # type: ignore[assignment] # only read

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete a name without importing its command."""
        from typer._click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=row.summary)
            for name, row in COMMANDS.items()
            if name.startswith(incomplete)
        ]


app = typer.Typer(
    name="gatelog",
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib import metadata

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
            help="Ask through the API server, as `kubectl gatelog` does: why, history, try, "
            "queue, usage, top, watch.",
        ),
    ] = False,
) -> None:
    """Options before the command; both act elsewhere."""


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
        if rest[:1] in (["stop"], ["resume"]):
            from gatelog.commands.stopping import plain_dry_run

            rest = plain_dry_run(rest)
        result = app(args=rest, prog_name="gatelog", standalone_mode=False)
    except BrokenPipeError:
        raise
    except NotHere as error:
        from gatelog.commands.elsewhere import ask

        return ask(rest, error)
    except (Exception, KeyboardInterrupt) as error:
        code = failed(error, "gatelog", _help_of(rest), debug=debug)
        if meant := _one_name(rest, error):
            sys.stderr.write(f"  did you mean {meant}?\n")
        return code
    return result if isinstance(result, int) else 0


_SECOND_WORD = re.compile(r"extra argument\S* \((\S+)\)")


def _one_name(arguments: Sequence[str], error: BaseException) -> str:
    """Return the line that was meant by `why NAMESPACE NAME`, "" for any other line."""
    said = getattr(error, "message", "")
    found = _SECOND_WORD.search(said) if isinstance(said, str) else None
    if found is None or arguments[:1] not in (["why"], ["history"]):
        return ""
    at = list(arguments).index(found[1])
    named = at > 1 and "/" not in arguments[at - 1] + found[1]
    return f"gatelog {arguments[0]} {arguments[at - 1]}/{found[1]}" if named else ""


def _help_of(arguments: Sequence[str]) -> str:
    """Return the command line of the help for these arguments."""
    command = next((a for a in arguments if not a.startswith("-")), "")
    return f"gatelog {command} --help" if command in COMMANDS else "gatelog --help"


def main() -> None:
    """Entry point."""
    end(run)


if __name__ == "__main__":
    main()
