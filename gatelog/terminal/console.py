"""The look of answers: timelines, tables and words on a terminal, and the same in a pipe.

Theory. Colour and marks help on a terminal and are dropped elsewhere; piped output keeps long lines
instead of wrapping them, so that grep finds whole rows.

Invariant: text that comes from the cluster is never read as markup.
"""

import os
import re
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gatelog.readmodel.rows import GroupRow, SummaryRow
from gatelog.readmodel.timeline import StoryLine, duration, listed
from gatelog.shell.screen import Screen
from gatelog.shell.visible import raw
from podgroup.model.reasons import succeeded

if TYPE_CHECKING:
    from gatelog.readmodel import explain

PIPED_WIDTH = 10_000
"""Columns in a pipe, where a reader wants a row on one line, unless COLUMNS says otherwise."""
GOOD, BAD, WAIT, OVER, EVICTED, QUIET = (
    "#008700",
    "#d70000",
    "#af5f00",
    "#008787",
    "#af5faf",
    "#767676",
)
"""Colours of the 256 that every terminal has had for long, picked for being readable on black and
on white alike: contrast at least 3.8 to both (the sixteen old colours are not: yellow on white).
"""
_TONES = {"good": GOOD, "bad": BAD, "wait": WAIT}
_STATES = {
    "Composing": WAIT,
    "Queued": WAIT,
    "Blocked": f"bold {BAD}",
    "Admitted": GOOD,
    "Running": GOOD,
    "Finishing": OVER,
    "Finished": OVER,
    "Evicted": EVICTED,
    "Gone": QUIET,
    "Succeeded": OVER,
    "Failed": BAD,
    "Preempted": EVICTED,
    "Deleted": QUIET,
}


class _Trimmed:
    """A stream without the blanks that fill the columns of a table up to the line's end."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        return self._out.write(re.sub(r" +$", "", text, flags=re.MULTILINE))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


def console(stream: TextIO | None = None) -> Console:
    """Return the console for a command's output."""
    out = stream if stream is not None else sys.stdout
    if out.isatty():
        return Screen(file=raw(out), highlight=False)
    width = None if "COLUMNS" in os.environ else PIPED_WIDTH
    return Screen(file=cast(TextIO, _Trimmed(raw(out))), highlight=False, width=width)


def state_text(state: str) -> Text:
    """Return a state in its colour."""
    return Text(state, style=_STATES.get(state, ""))


def timeline(lines: Sequence[StoryLine], start: datetime, *, absolute: bool = False) -> Table:
    """Return a story as a table: time of day (UTC, when it changes) and time since `start`.

    With `absolute` every line has its date and milliseconds instead.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("UTC", style=QUIET, no_wrap=True)
    if not absolute:
        table.add_column("since", justify="right", style=QUIET, no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("what", ratio=2, overflow="fold")
    table.add_column("why", ratio=5, overflow="fold")
    day, last = start.date(), ""
    for line in lines:
        if not absolute and line.at.date() != day:
            day, last = line.at.date(), ""
            table.add_row(Text(f"{day:%m-%d}", style="bold"))
        second = f"{line.at:%H:%M:%S}"
        when = (
            [f"{line.at:%Y-%m-%d %H:%M:%S}.{line.at.microsecond // 1000:03d}"]
            if absolute
            else [
                "" if second == last else second,
                "+" + duration((line.at - start).total_seconds()),
            ]
        )
        last = second
        why = Text()
        if line.rule:
            why.append(f"{line.rule}: ", style="bold")
        why.append(line.because())
        what = Text(line.text(), style=_TONES.get(line.tone, ""))
        table.add_row(*when, state_text(line.state), what, why)
    return table


def missing(sentences: Sequence[str]) -> Table:
    """Return what may be missing from a story, each sentence behind a mark."""
    table = Table.grid(padding=(0, 1))
    for sentence in sentences:
        table.add_row(Text("!", style=f"bold {WAIT}"), Text(sentence, style=WAIT))
    return table


def explained(lines: "Sequence[explain.ExplanationLine]") -> Table:
    """Return the explanation of a group's state: labels, and their texts."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for line in lines:
        table.add_row(Text(line.label), Text(line.text))
    return table


def title(text: str) -> Text:
    """Return a title over several groups."""
    return Text(f"── {text} ──", style=f"bold {OVER}")


def heading(group: GroupRow) -> Text:
    """Return the title line of a group."""
    pods = "1 pod" if group.total_count == 1 else f"{group.total_count} pods"
    what = "single pod" if group.kind == "single" else f"group of {pods}"
    text = Text(group.title, style="bold")
    text.append(f"  {what}, queue {group.queue or '(none)'}", style="not bold")
    if group.cluster_queue:
        text.append(f" → {group.cluster_queue}", style="not bold")
    if group.priority:
        text.append(f", priority {group.priority}", style="not bold")
    text.append("  ")
    text.append_text(state_text(group.standing))
    if group.reason and group.reason not in (group.state, group.standing):
        text.append(f" ({group.reason})", style="not bold")
    return text


def summary(rows: Sequence[SummaryRow]) -> Table:
    """Return a table of groups for reading."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for name in ("group", "state"):
        table.add_column(name, no_wrap=True)
    for name in ("waited", "admitted", "pods", "excess", "replaced", "decisions"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        waited = "" if row.waited_s is None else duration(row.waited_s)
        state = state_text(row.state)
        if row.reason and row.reason != row.state and not succeeded(row.reason):
            state.append(f" ({row.reason})", style=QUIET)
        table.add_row(
            f"{row.namespace}/{row.name}",
            state,
            waited,
            _times(row.admissions),
            str(row.pods_seen),
            str(row.pods_excess or ""),
            str(row.pods_replaced or ""),
            str(row.decisions),
        )
    return table


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def one_of(names: Sequence[str]) -> str:
    """Return names as a choice for a sentence."""
    return listed(names, most=5)
