"""The report at the end of the demo: every group's story, a summary, and what to try next.

Theory. All of it is read from the database that the demo leaves behind, after all parts have
stopped: any user can query the same later.

Invariant: every command line printed works as printed.
"""

from collections.abc import Sequence

from msgspec import Struct
from rich.console import Console
from rich.text import Text

from gatelog.demo.cluster import NAMESPACE
from gatelog.demo.stories import Story
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.timeline import duration, story_lines
from gatelog.shell.whereabouts import near, read_model_at
from gatelog.terminal import console, guidance
from runtime.settings import Settings

QUERY = "SELECT name, at, kind, reason, message FROM v_group_timeline WHERE name = 'night' ORDER BY seq, ord"  # noqa: E501 - one line to paste


class Played(Struct, frozen=True):
    """How a story ended; `problem` is "" when it went well."""

    story: Story
    problem: str
    took_s: float


def show(settings: Settings, played: Sequence[Played], took_s: float) -> None:
    """Print the report to stdout."""
    from projector.storage.urls import database_url

    url = database_url(settings)
    out = console.console()
    with ReadModel(url, settings.cluster) as model:
        for one in played:
            out.print()
            out.print(console.title(one.story.title))
            for name in one.story.groups:
                _group(out, model, name)
        out.print()
        out.print(console.title("all groups"))
        out.print(console.summary(model.summary()))
    out.print()
    _closing(out, settings, url, played, took_s)


def _group(out: Console, model: ReadModel, name: str) -> None:
    for row in model.groups(NAMESPACE, name, 1):
        entries = model.entries(row.id)
        out.print()
        out.print(console.heading(row))
        out.print(
            console.timeline(story_lines(entries), entries[0].at if entries else row.created_at)
        )


def _closing(
    out: Console,
    settings: Settings,
    url: str,
    played: Sequence[Played],
    took_s: float,
) -> None:
    problems = [one for one in played if one.problem]
    for one in problems:
        out.print(Text(f"✗ {one.story.title}: {one.problem}", style="red"))
    good = len(played) - len(problems)
    out.print(f"{good} of {len(played)} stories as they should be, {duration(took_s)} in all.")
    where = f" --state-dir {near(settings.state_dir)}"
    if settings.database.url:
        where = f" --db {settings.database.url}"
    out.print()
    kind = "an SQLite database" if url.startswith("sqlite") else "a PostgreSQL database"
    out.print(f"The read model is {kind}: [bold]{read_model_at(url)}[/]")
    out.print("Ask it:")
    for command in (
        f"{guidance.program()} history {NAMESPACE}/tuning{where}",
        f"{guidance.program()} why {NAMESPACE}/night{where}",
        guidance.query_command(QUERY, where),
    ):
        out.print(f"  {command}", soft_wrap=True, markup=False)
    out.print()
    out.print("On a cluster of your own:")
    out.print(f"  {guidance.program()} up --install webhook", markup=False)
