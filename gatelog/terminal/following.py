"""Live output while a person watches: `gatelog up` and `gatelog history --follow`.

Theory. The lines come from the read model like every other answer, so they show committed rows. A
burst is cut to a readable length; the rest is in SQL.

Invariant: a database that is away for a while ends nothing. `follow` ends only by cancellation,
`follow_group` also when the group is over.
"""

import asyncio
import time
from collections.abc import Callable, Iterable

from rich.console import Console
from rich.text import Text

from gatelog.readmodel import timeline
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.rows import ChangeRow, GroupRow
from gatelog.readmodel.timeline import TimelineEntry, plain
from gatelog.shell.errors import CommandFailed
from gatelog.shell.narrator import Narrator
from gatelog.terminal.console import QUIET, state_text
from gatelog.terminal.console import timeline as shown
from runtime.settings import Settings

POLL_S = 0.5
AWAY_S = 5.0
AT_ONCE = 15


async def follow(settings: Settings, narrator: Narrator, after: int) -> None:
    """Print changes of state at positions above `after`, for ever."""
    from projector.storage.urls import database_url

    with ReadModel(database_url(settings), settings.cluster) as model:
        while True:
            await asyncio.sleep(POLL_S)
            try:
                rows = await asyncio.to_thread(model.changes, after)
            except CommandFailed:
                await asyncio.sleep(AWAY_S)
                continue
            if rows:
                after = rows[-1].seq
            for row in rows[:AT_ONCE]:
                # One line per change, cut at the edge: the output scrolls by.
                narrator.console.print(
                    change(row), overflow="ellipsis", no_wrap=True, soft_wrap=False
                )
            if len(rows) > AT_ONCE:
                narrator.say(f"[dim]          … and {len(rows) - AT_ONCE} more changes[/]")


def change(row: ChangeRow) -> Text:
    """Return one line: when (UTC), which group, its new state, and why."""
    text = Text("  ")
    text.append(f"{row.at:%H:%M:%S}  ", style=QUIET)
    text.append(f"{row.namespace}/{row.name}  ", style="bold")
    text.append_text(state_text(row.state))
    why = plain(row.why)
    if why:
        text.append(f"  {why}")
    return text


def follow_group(
    model: ReadModel,
    group: GroupRow,
    known: Iterable[TimelineEntry],
    out: Console,
    *,
    full: bool = False,
    absolute: bool = False,
) -> None:
    """Print the history of a group beyond the `known` entries, until the group is over."""
    rows = list(known)
    start = rows[0].at if rows else group.created_at
    seen = {_key(entry) for entry in rows}
    tell = timeline.raw if full else timeline.story_lines
    while True:
        try:
            lives = model.groups(group.namespace, group.name)
            new = [entry for entry in model.entries(group.id) if _key(entry) not in seen]
        except CommandFailed:
            time.sleep(AWAY_S)
            continue
        seen.update(map(_key, new))
        lines = tell(new)
        if lines:
            out.print(shown(lines, start, absolute=absolute))
        now = next((one for one in lives if one.id == group.id), None)
        over = now is None or now.gone_at is not None or now.finished_at is not None
        if over and not new:
            return
        time.sleep(POLL_S)


def _key(entry: TimelineEntry) -> tuple[str, int, int, str]:
    """The identity of an entry, which the end of a wait or a decision's status does not change."""
    return entry.source, entry.seq, entry.ord, entry.decision


def whenever_written(model: ReadModel, show: Callable[[], None]) -> None:
    """Call `show` after each transaction of a projector, until interrupted."""
    last = model.checkpoint()
    while True:
        time.sleep(POLL_S)
        try:
            now = model.checkpoint()
            if now is not None and now != last:
                show()
                last = now
        except CommandFailed:
            time.sleep(AWAY_S)
