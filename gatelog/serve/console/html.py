"""HTML as nested calls.

Invariant: text is escaped unless it was made here (`Html`), attributes always.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from html import escape, unescape
from typing import Any


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


_SENTENCE = 32
"""Letters from which on a cell needs room."""
_TAG = re.compile(r"<[^>]*>")
_VOID = frozenset({"input", "br", "meta", "link", "hr"})


def h(tag: str, *children: Any, **attributes: Any) -> Html:
    """Return an element; None and False leave an attribute or a child out.

    An underscore at an attribute's end is dropped, others become hyphens.
    """
    given = "".join(
        f" {name.rstrip('_').replace('_', '-')}"
        + ("" if value is True else f'="{escape(str(value))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _VOID:
        return Html(f"<{tag}{given}>")
    return Html(f"<{tag}{given}>{join(children)}</{tag}>")


def join(children: Any) -> Html:
    """Return children one after the other, escaped where they are plain text."""
    if isinstance(children, Html):
        return children
    if isinstance(children, (list, tuple)):
        return Html("".join(join(child) for child in children))
    if children is None or children is False:
        return Html("")
    return Html(escape(str(children), quote=False))


def _long(cell: Any) -> str | None:
    """Return the class of a cell with a sentence, which is not squeezed into a column of words."""
    return "long" if type(cell) is str and len(cell) > _SENTENCE else None


def _words(cell: Any) -> str:
    """Return the text of a cell, without elements."""
    return unescape(_TAG.sub("", cell)) if isinstance(cell, Html) else str(cell)


def choices(label: str, given: Iterable[tuple[Any, str, bool]], **attributes: Any) -> Html:
    """Return links of which one is chosen: what each is called, its address, and whether it is."""
    links = [
        h("li", h("a", words, href=link, aria_current="true" if chosen else None))
        for words, link, chosen in given
    ]
    return h("ul", links, **{"class_": "choices", "aria_label": label, **attributes})


Columns = Mapping[Any, str | Callable[[Any], Any]]
"""Of each column its heading, and the field of a row or the function that it shows."""


def listing(
    columns: Columns,
    rows: Iterable[Any],
    caption: str,
    empty: str = "none",
) -> Html:
    """Return a table of rows."""
    cells = [[_cell(shown, row) for shown in columns.values()] for row in rows]
    return table(list(columns), cells, caption, empty)


def _cell(shown: str | Callable[[Any], Any], row: Any) -> Any:
    if not isinstance(shown, str):
        return shown(row)
    found = getattr(row, shown)
    return "–" if found is None or found == "" else str(found)


def table(head: list[Any], rows: list[list[Any]], caption: str, empty: str = "none") -> Html:
    """Return a table with a caption; the first cell of each row is its header.

    Every other cell bears the words of its column, which a phone shows before it, row by row.
    """
    if not rows:
        return h("p", empty, class_="quiet")
    return h(
        "div",
        h(
            "table",
            h("caption", caption),
            h("thead", h("tr", [h("th", one, scope="col") for one in head])),
            h(
                "tbody",
                [
                    h(
                        "tr",
                        h("th", row[0], scope="row"),
                        [
                            h("td", cell, class_=_long(cell), data_label=_words(label))
                            for cell, label in zip(row[1:], head[1:], strict=True)
                        ],
                    )
                    for row in rows
                ],
            ),
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )
