"""How far a long command is: a bar when a person watches, plain lines now and then when not.

Invariant: everything goes to stderr, so that what a command says can be piped.
"""

import sys
import time
from collections.abc import Callable
from datetime import datetime

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from gatelog.shell.screen import Screen
from gatelog.shell.visible import raw

EVERY_S = 5.0
"""Seconds between plain lines."""


class ProgressReport:
    """Shows how far a command is; `position` is for what does not know its end."""

    def __init__(
        self, what: str, console: Console | None = None, *, every_s: float = EVERY_S
    ) -> None:
        self._what = what
        self._console = console or Screen(file=raw(sys.stderr))
        self._every_s = every_s
        self._began = time.monotonic()
        self._next = self._began + every_s
        self._total = 0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[words]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(what, total=None, words="")

    def __enter__(self) -> "ProgressReport":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def position(self, position: int) -> None:
        """Show a position where the end is not known; on a bar alone."""
        self._bar.update(self._task, words=f"seq {position}")

    def expect(self, first: int, last: int) -> None:
        """Say which positions are to come."""
        self._total = last
        self._bar.update(self._task, total=last, completed=first)

    def __call__(self, position: int, events: int) -> None:
        """Show a position of those expected, and how many events were folded so far."""
        self._total = max(self._total, position)
        where = f"position {position:,} of {self._total:,}"
        self._show(position, self._total, where, events)

    def until(self, begin: datetime | None, end: datetime) -> Callable[[datetime, int], None]:
        """Return a callback that shows simulated time up to an end; it begins at the first time
        given.
        """

        def show(at: datetime, events: int) -> None:
            nonlocal begin
            begin = begin or at
            whole_s = max(1.0, (end - begin).total_seconds())
            done = min(1.0, (at - begin).total_seconds() / whole_s)
            self._show(done, 1.0, f"{at:%Y-%m-%d %H:%M}, {100 * done:.0f} %", events)

        return show

    def say(self, what: str) -> None:
        """Show the work after the last position; in a pipe, only after a while."""
        if self._console.is_terminal:
            self._bar.update(self._task, description=what)
        elif self._next > self._began + self._every_s:  # a line was due before this one
            self._console.print(f"{self._what}: {what}", highlight=False)

    def _show(self, done: float, total: float, where: str, events: int) -> None:
        now = time.monotonic()
        said = f"{where}, {events:,} events, {events / max(now - self._began, 0.001):,.0f}/s"
        if self._console.is_terminal:
            self._bar.update(self._task, completed=done, total=total, words=said)
        elif now >= self._next:
            self._next = now + self._every_s
            self._console.print(f"{self._what}: {said}", highlight=False)
