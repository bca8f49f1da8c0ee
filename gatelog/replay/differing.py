"""Decisions that differ, in lines: the past decision, today's decision, and the changed fields.

Invariant: every decision of a difference has exactly one line that begins with its position.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec
from msgspec import Struct

from podgroup.log.events import Decision
from projector.replay.fold import Difference

MOST = 200
"""Characters of a value that are shown."""


class DifferencePrinter:
    """Prints differences as they are found, so that none is kept, and counts decisions."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, difference: Difference) -> None:
        """Print a difference."""
        self.count += len(difference.then) + len(difference.now)
        self.count += len(difference.said_then) + len(difference.said_now)
        for line in lines(difference):
            print(line)


def ignore(difference: Difference) -> None:
    """Ignore a difference: the command does not ask for decisions."""


def lines(difference: Difference) -> Iterator[str]:
    """Return the lines of one place: then, now, and the changed fields of a command."""
    now = list(difference.now)
    for then in difference.then:
        yield _line(difference.position, "then", then)
        same = next((d for d in now if _what(d) == _what(then)), None)
        if same is not None:
            now.remove(same)
            yield _line(difference.position, "now ", same)
            yield from _fields(then, same, difference.titles)
    for decision in now:
        yield _line(difference.position, "now ", decision)
    for mark, records in (("then", difference.said_then), ("now ", difference.said_now)):
        for record in records:
            title = difference.titles.get(record.group, record.group) or "no group"
            said = _short(said_of(record, difference.titles))
            yield f"seq {difference.position}  {mark}  {title}  {said}"


def _what(decision: Decision) -> tuple[str, object]:
    return decision.command.action, decision.command.target


def _line(position: int, mark: str, d: Decision) -> str:
    return (
        f"seq {position}  {mark}  {d.namespace}/{d.name}  {d.rule}: "
        f"{d.command.action} {d.command.target.name} — {d.message}"
    )


def _fields(then: Decision, now: Decision, titles: Mapping[str, str]) -> Iterator[str]:
    for name in then.command.__struct_fields__:
        old, new = getattr(then.command, name), getattr(now.command, name)
        if old != new:
            was, is_ = (_short(_plain(one, titles)) for one in (old, new))
            yield f"    {_words(name)}: {was} then, {is_} now"


def said_of(record: Struct, titles: Mapping[str, str] = {}) -> str:
    """Return a record in words: its kind, and its fields that are not empty."""
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(record).__name__).lower()
    said = _plain(record, titles, left_out="group")
    return f"{kind}: {said}" if said else kind


def _plain(value: object, titles: Mapping[str, str], left_out: str = "") -> str:
    """Return a value in words; ids of groups as their names."""
    match value:
        case None | "" | () | []:
            return "none"
        case str():
            return titles.get(value, value)
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value:%F %TZ}"
        case Struct():
            fields = msgspec.structs.fields(value)
            given = ((f, getattr(value, f.name)) for f in fields if f.name != left_out)
            shown = ((f.name, one) for f, one in given if one != f.default and one is not None)
            return ", ".join(f"{_words(name)} {_plain(one, titles)}" for name, one in shown)
        case Mapping():
            entries = (f"{key} {_plain(one, titles)}" for key, one in value.items())
            return ", ".join(entries) or "none"
        case tuple() | list():
            return "; ".join(_plain(one, titles) for one in value)
        case _:
            return str(value)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _short(text: str) -> str:
    return text if len(text) <= MOST else f"{text[: MOST - 1]}…"
