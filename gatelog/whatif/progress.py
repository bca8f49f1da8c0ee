"""How far a play is: a bar when a person watches, a plain line now and then when not.

Invariant: everything goes to stderr, so that what a command says can be piped.
"""

import time
from datetime import datetime

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

EVERY_S = 5.0
"""Seconds between plain lines."""


class Shown:
    """Shows the simulated time and how many events were folded.

    Without `begin`, which is unknown of a log before it is read, it is the first time given.
    """

    def __init__(self, console: Console, what: str, begin: datetime | None, end: datetime) -> None:
        self._what = what
        self._console = console
        self._begin = begin
        self._end = end
        self._began = time.monotonic()
        self._next = self._began + EVERY_S
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[at]}  {task.fields[events]:,} events"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(what, total=1.0, at="", events=0)

    def __enter__(self) -> "Shown":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, at: datetime, events: int) -> None:
        """Show how far it is."""
        if self._begin is None:
            self._begin = at
        whole_s = max(1.0, (self._end - self._begin).total_seconds())
        done = min(1.0, (at - self._begin).total_seconds() / whole_s)
        when = f"{at:%Y-%m-%d %H:%M}"
        if self._console.is_terminal:
            self._bar.update(self._task, completed=done, at=when, events=events)
        elif (now := time.monotonic()) >= self._next:
            self._next = now + EVERY_S
            rate = events / max(now - self._began, 0.001)
            self._console.print(
                f"{self._what}: {when}, {100 * done:.0f} %, {events:,} events, {rate:,.0f}/s",
                highlight=False,
            )
