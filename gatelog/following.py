"""Showing what happens while a person watches `gatelog up`: one line per change of a group's state.

Theory. The lines come from the read model like every other answer, so what is shown is what has
been committed. A burst is cut to what can be read; the rest is in SQL.

Invariant: ends only by cancellation; a database that is away for a while ends nothing.
"""

import asyncio

from rich.text import Text

from gatelog.console import state_text
from gatelog.errors import CommandFailed
from gatelog.narrator import Narrator
from gatelog.readmodel import ReadModel
from gatelog.rows import ChangeRow
from gatelog.timeline import plain
from podgroup.runtime.settings import Settings

POLL_S = 0.5
AWAY_S = 5.0
AT_ONCE = 15


async def follow(settings: Settings, narrator: Narrator, after: int) -> None:
    """Print changes of state at positions above `after`, for ever."""
    from projector.database import database_url

    shard = settings.projector.shard
    with ReadModel(database_url(settings), settings.cluster) as model:
        while True:
            await asyncio.sleep(POLL_S)
            try:
                rows = await asyncio.to_thread(model.changes, after, shard)
            except CommandFailed:
                await asyncio.sleep(AWAY_S)
                continue
            if rows:
                after = rows[-1].seq
            for row in rows[:AT_ONCE]:
                # One line each, cut at the edge: it scrolls by.
                narrator.console.print(
                    change(row), overflow="ellipsis", no_wrap=True, soft_wrap=False
                )
            if len(rows) > AT_ONCE:
                narrator.say(f"[dim]          … and {len(rows) - AT_ONCE} more changes[/]")


def change(row: ChangeRow) -> Text:
    """Return one line: when (UTC), which group, its new state, and why."""
    text = Text("  ")
    text.append(f"{row.at:%H:%M:%S}  ", style="dim")
    text.append(f"{row.namespace}/{row.name}  ", style="bold")
    text.append_text(state_text(row.state))
    why = plain(row.why)
    if why:
        text.append(f"  {why}")
    return text
