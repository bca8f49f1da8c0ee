"""The output of `up` once all parts run: what is watched, where the answers are, what to try.

Invariant: every command line printed works as printed, from this directory.
"""

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gatelog.shell.narrator import Narrator
from gatelog.shell.whereabouts import near, read_model_at
from runtime.settings import Settings

if TYPE_CHECKING:
    from gatelog.readmodel.readiness import Ready


def tell_ready(narrator: Narrator, settings: Settings, ready: "Ready") -> None:
    """Say that it is ready, and how to ask."""
    from projector.storage.urls import database_url

    absent = f" ({', '.join(ready.missing)} not installed)" if ready.missing else ""
    url = database_url(settings)
    narrator.done(
        "ready",
        f"ready: watching {ready.kinds} kinds{absent}, caught up at seq {ready.sequence}",
        kinds=ready.kinds,
        missing=list(ready.missing),
        sequence=ready.sequence,
        database=read_model_at(url),
    )
    narrator.say()
    where = state_option(settings)
    narrator.say(f"  who waits, and why   {query_command(WHY, where)}")
    narrator.say(f"  the story of a group {program()} history NAMESPACE/NAME{where}")
    narrator.say("  [dim]Ctrl-C stops; nothing is lost[/]")
    narrator.say()


WHY = "SELECT namespace, name, reason, message FROM v_why_pending"


def program() -> str:
    """Return how to call this program from here: its name, or its path if that is not on PATH."""
    mine = Path(sys.argv[0]).absolute()
    found = shutil.which("gatelog")
    if mine.name != "gatelog" or (found and Path(found).absolute() == mine):
        return "gatelog"
    return shlex.quote(near(str(mine)))


def query_command(query: str, where: str) -> str:
    """Return the command line that runs a query on the read model; `where` names it."""
    return f'{program()} sql "{query}"{where}'


def state_option(settings: Settings) -> str:
    """Return ` --state-dir DIR` unless it is the default one and holds the read model."""
    if settings.database.url:
        return f" --db {shlex.quote(read_model_at(settings.database.url))}"
    if settings.state_dir == ".gatelog":
        return ""
    return f" --state-dir {shlex.quote(near(settings.state_dir))}"
