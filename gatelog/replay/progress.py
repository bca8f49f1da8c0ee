"""How far a long replay is: a bar when a person watches, a plain line now and then when not.

Invariant: everything goes to stderr, so that what a command says can be piped.
"""

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

EVERY_S = 5.0
"""Seconds between plain lines."""


class ProgressReport:
    """Shows how far a replay is; `total` is the position to come to, when it is known."""

    def __init__(self, console: Console, what: str = "rebuild", every_s: float = EVERY_S) -> None:
        self.total = 0
        self._what = what
        self._console = console
        self._every_s = every_s
        self._began = time.monotonic()
        self._next = self._began + every_s
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[events]:,} events  {task.fields[rate]:,.0f}/s"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(what, total=None, events=0, rate=0.0)

    def __enter__(self) -> "ProgressReport":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def expect(self, first: int, last: int) -> None:
        """Say which positions are to come."""
        self.total = last
        self._bar.update(self._task, total=last, completed=first)

    def say(self, what: str) -> None:
        """Say what comes after the last position; in a pipe, when it has taken a while so far."""
        if self._console.is_terminal:
            self._bar.update(self._task, description=what)
        elif self._next > self._began + self._every_s:  # a line was due before this one
            self._console.print(f"{self._what}: {what}", highlight=False)

    def __call__(self, position: int, events: int) -> None:
        """Show a position and how many events were folded so far."""
        now = time.monotonic()
        rate = events / max(now - self._began, 0.001)
        self.total = max(self.total, position)
        if self._console.is_terminal:
            self._bar.update(
                self._task, completed=position, total=self.total, events=events, rate=rate
            )
        elif now >= self._next:
            self._next = now + self._every_s
            self._console.print(
                f"{self._what}: position {position:,} of {self.total:,}, {events:,} events, "
                f"{rate:,.0f}/s",
                highlight=False,
            )
