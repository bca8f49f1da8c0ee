"""Pages from templates, which escape the data that they show.

Theory. A page has one template, which gets the rows found and the address (`seen`); pages share the
macros of `parts.html`. A page's body is a fragment, which the frame (`frame.html`) puts between
header and footer.

Invariant: a template that uses an undefined name fails; text is escaped unless it is Markup.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct

from gatelog.readmodel.rates import hours_text
from gatelog.readmodel.starts import sentence
from gatelog.readmodel.timeline import anonymous, duration, plain
from gatelog.serve.console.view import ROWS, PageView
from gatelog.serve.words import amount, quota, rfc

_SENTENCE = 32
"""Letters from which on a cell needs room."""
_SIGNS = {
    "Composing": "…",
    "Queued": "◷",
    "Blocked": "✕",
    "Admitted": "○",
    "Running": "▶",
    "Evicted": "↺",
    "Finishing": "✓",
    "Finished": "✓",
    "Gone": "–",
    "Succeeded": "✓",
    "Failed": "✕",
    "Preempted": "⇤",
    "Deleted": "⌫",
}


class Page(Struct, frozen=True, kw_only=True):
    """A page: its title, its data or a function that returns it, and how it is shown."""

    title: str
    source: Any
    body: Markup

    @property
    def data(self) -> Any:
        """The page's data, for programs; worked out on demand."""
        return self.source() if callable(self.source) else self.source


def page(title: str, data: Any, seen: PageView, template: str, **shown: Any) -> Page:
    """Return a page of a template, under its title unless `heading` is another.

    `data` that takes work is a function that returns it: most pages are looked at.
    """
    given = {"title": title, "heading": title, **shown}
    return Page(title=title, source=data, body=render(template, seen, **given))


def render(template: str, seen: PageView, **shown: Any) -> Markup:
    """Return a template rendered with an address and `shown`."""
    return Markup(environment().get_template(f"{template}.html").render(seen=seen, **shown))


@cache
def environment() -> Environment:
    """Return what makes pages: templates that escape, and the words they may use."""
    made = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=PackageLoader("gatelog.serve.console"),
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "age": age,
        "amount": lambda number, resource: amount(resource, number),
        "duration": duration,
        "hours": hours_text,
        "number": count,
        "plain": plain,
        "quota": lambda number, resource: quota(resource, number),
        "rfc": rfc,
    }
    made.globals |= {"anonymous": anonymous, "cells": cells, "count": count, "held": held_text}
    made.globals |= {"plain": plain, "sentence": sentence, "signs": _SIGNS, "ROWS": ROWS}
    return made


Field = str | int
Columns = Mapping[str, Field | Callable[[Any], Any] | tuple[Callable[[Any], Any], Field]]
"""Columns by heading. A value is a field of the row (for a list the number of the item), a function
or macro of the row, or a pair: a function and the field that it gets.
"""


def cells(columns: Columns, row: Any) -> list[tuple[str, Any, str]]:
    """Return heading, content and class of each cell of a row. By their class sentences get more
    room, and phones hide empty cells.
    """
    found = [(label, _shown(shown, row)) for label, shown in columns.items()]
    return [(label, words, _class(words)) for label, words in found]


def _class(words: str) -> str:
    return "none" if words == "–" else "long" if len(words) > _SENTENCE and "<" not in words else ""


def _shown(shown: Any, row: Any) -> str:
    if callable(shown):
        found = shown(row)
    elif isinstance(shown, tuple):
        found = shown[0](_field(row, shown[1]))
    else:
        found = _field(row, shown)
    return "–" if found is None or found == "" else found if isinstance(found, str) else str(found)


def _field(row: Any, named: Field) -> Any:
    return row[named] if isinstance(named, int) else getattr(row, named)


def count(number: int) -> str:
    """Return a number of things, with thousands apart."""
    return f"{number:,}"


def age(seconds: float) -> str:
    """Return a span of whole seconds, in the form that every other page and command uses."""
    return duration(seconds) if seconds >= 60 else f"{max(0, int(seconds))} s"


def held_text(resources: Mapping[str, Mapping[str, int]]) -> str:
    """Return amounts held."""
    return ", ".join(
        f"{amount(resource, number)} {resource} of {flavor or 'no flavor'}"
        for flavor, held in resources.items()
        for resource, number in held.items()
    )
