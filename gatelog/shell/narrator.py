"""Progress for a person as short lines, for a machine as structured log lines.

Theory. A person at a terminal needs a short line per step and a mark for its result; a log
collector needs events with fields. Both get the same steps through one object, and both on stderr,
so that stdout stays free for a command's output.

Invariant: every line is written in exactly one of the two forms.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.markup import escape

from gatelog.shell.errors import explain
from gatelog.shell.screen import Screen
from gatelog.shell.visible import raw
from runtime.log import configure, get_logger
from runtime.settings import LogSettings

_MARKS = {
    "done": "[green]✓[/]",
    "info": "[cyan]·[/]",
    "warning": "[yellow]![/]",
    "failed": "[red]✗[/]",
}


class Narrator:
    """Writes short lines when stderr is a terminal and log.format is not json.

    With `plain` it writes short lines to other streams too. Beside short lines, log lines below
    warning are left out unless `verbose`.
    """

    def __init__(
        self,
        log: LogSettings,
        part: str,
        *,
        verbose: bool = False,
        plain: bool = False,
    ) -> None:
        self.watched = plain or (log.format != "json" and sys.stderr.isatty())
        self.console = Screen(file=raw(sys.stderr), highlight=False, soft_wrap=True)
        if self.watched and not verbose and log.level == "info":
            log = LogSettings(format=log.format, level="warning")
        configure(log, sys.stderr)
        self._log = get_logger(part)

    def done(self, event: str, sentence: str, **fields: Any) -> None:
        """A step that went well. `event` and `fields` are for logs, `sentence` is for people."""
        self._print("done", event, sentence, fields)

    def info(self, event: str, sentence: str, **fields: Any) -> None:
        """Something worth knowing."""
        self._print("info", event, sentence, fields)

    def warning(self, event: str, sentence: str, **fields: Any) -> None:
        """Something a person should look at; what to do is in the sentence."""
        self._print("warning", event, sentence, fields)

    def failed(self, event: str, sentence: str, **fields: Any) -> None:
        """Something that did not work."""
        self._print("failed", event, sentence, fields)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Show that something is going on, on a terminal."""
        if self.watched and self.console.is_terminal:
            with self.console.status(escape(text)):
                yield
        else:
            yield

    def failure(self, error: BaseException) -> None:
        """Log what ended the process, with its traceback if it was unexpected."""
        said = explain(error)
        if not self.watched:
            self._log.error("failed", message=said.sentence, exc_info=None if said.known else error)

    def say(self, text: str = "") -> None:
        """Print text for a person only."""
        if self.watched:
            self.console.print(text)

    def _print(self, mark: str, event: str, sentence: str, fields: dict[str, Any]) -> None:
        if self.watched:
            self.console.print(f"{_MARKS[mark]} {escape(sentence)}")
        elif mark == "warning":
            self._log.warning(event, message=sentence, **fields)
        elif mark == "failed":
            self._log.error(event, message=sentence, **fields)
        else:
            self._log.info(event, message=sentence, **fields)
