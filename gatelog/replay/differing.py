"""Decisions that differ, in lines: what was decided then, what would be now, and what that changes.

Invariant: every decision of a difference has exactly one line that begins with its position.
"""

from collections.abc import Iterator

import msgspec

from podgroup.log.events import Decision
from projector.replay.fold import Difference

MOST = 200
"""Characters of a value that are shown."""


class DifferencePrinter:
    """Prints differences as they are found, so that none is kept, and counts decisions."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, difference: Difference) -> None:
        """Print one."""
        self.count += len(difference.then) + len(difference.now)
        self.count += len(difference.said_then) + len(difference.said_now)
        for line in lines(difference):
            print(line)


def ignore(difference: Difference) -> None:
    """Take no notice: what is asked for is not the decisions."""


def lines(difference: Difference) -> Iterator[str]:
    """Return the lines of one place: then, now, and which fields of a command are others."""
    now = list(difference.now)
    for then in difference.then:
        yield _line(difference.position, "then", then)
        same = next((d for d in now if _what(d) == _what(then)), None)
        if same is not None:
            now.remove(same)
            yield _line(difference.position, "now ", same)
            yield from _fields(then, same)
    for decision in now:
        yield _line(difference.position, "now ", decision)
    for mark, records in (("then", difference.said_then), ("now ", difference.said_now)):
        for record in records:
            yield f"seq {difference.position}  {mark}  {record.group}  {_text(record)}"


def _what(decision: Decision) -> tuple[str, object]:
    return decision.command.action, decision.command.target


def _line(position: int, mark: str, d: Decision) -> str:
    return (
        f"seq {position}  {mark}  {d.namespace}/{d.name}  {d.rule}: "
        f"{d.command.action} {d.command.target.name} — {d.message}"
    )


def _fields(then: Decision, now: Decision) -> Iterator[str]:
    for name in then.command.__struct_fields__:
        old, new = getattr(then.command, name), getattr(now.command, name)
        if old != new:
            yield f"    {name}: {_text(old)} then, {_text(new)} now"


def _text(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MOST else f"{text[: MOST - 1]}…"
