"""How it looks: timelines, tables and words on a terminal, and the same without one.

Theory. Colour and marks help on a terminal and are dropped elsewhere; what is piped keeps long
lines instead of wrapping them, so that grep finds what it looks for.

Invariant: text that comes from the cluster is never read as markup.
"""

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gatelog.rows import GroupRow, SummaryRow
from gatelog.timeline import Line, duration, listed

PIPED_WIDTH = 160
_TONES = {"good": "green", "bad": "red", "wait": "yellow"}
_STATES = {
    "Composing": "yellow",
    "Queued": "yellow",
    "Blocked": "bold red",
    "Admitted": "green",
    "Running": "green",
    "Finishing": "cyan",
    "Finished": "cyan",
    "Evicted": "magenta",
    "Gone": "dim",
}


def console(stream: TextIO | None = None) -> Console:
    """Return the console for a command's output."""
    out = stream if stream is not None else sys.stdout
    width = None if out.isatty() or "COLUMNS" in os.environ else PIPED_WIDTH
    return Console(file=out, highlight=False, width=width)


def state_text(state: str) -> Text:
    """Return a state in its colour."""
    return Text(state, style=_STATES.get(state, ""))


def timeline(lines: Sequence[Line], start: datetime, *, absolute: bool = False) -> Table:
    """Return a story as a table; times relative to `start` unless `absolute` (UTC)."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("when", justify="left" if absolute else "right", style="dim", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("what", ratio=5, overflow="fold")
    table.add_column("why", ratio=8, overflow="fold")
    for line in lines:
        when = (
            f"{line.at:%Y-%m-%d %H:%M:%S}.{line.at.microsecond // 1000:03d}"
            if absolute
            else "+" + duration((line.at - start).total_seconds())
        )
        why = Text()
        if line.rule:
            why.append(f"{line.rule}: ", style="bold")
        why.append(line.because())
        what = Text(line.text(), style=_TONES.get(line.tone, ""))
        table.add_row(when, state_text(line.state), what, why)
    return table


def title(text: str) -> Text:
    """Return a title over several groups."""
    return Text(f"── {text} ──", style="bold cyan")


def heading(group: GroupRow) -> Text:
    """Return the title line of a group."""
    what = "single pod" if group.kind == "single" else f"group of {group.total_count} pods"
    text = Text(group.title, style="bold")
    text.append(f"  {what}, queue {group.queue or '(none)'}", style="not bold")
    if group.cluster_queue:
        text.append(f" → {group.cluster_queue}", style="not bold")
    if group.priority:
        text.append(f", priority {group.priority}", style="not bold")
    text.append("  ")
    text.append_text(state_text(group.state))
    if group.reason and group.reason != group.state:
        text.append(f" ({group.reason})", style="not bold")
    return text


def summary(rows: Sequence[SummaryRow]) -> Table:
    """Return a table of groups for reading."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for name in ("group", "state"):
        table.add_column(name, no_wrap=True)
    for name in ("waited", "admitted", "pods", "surplus", "replaced", "decisions"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        waited = "" if row.waited_s is None else duration(row.waited_s)
        state = state_text(row.state)
        if row.reason and row.reason not in ("Succeeded", row.state):
            state.append(f" ({row.reason})", style="dim")
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
