"""Elements of SVG as nested calls.

Invariant: text is escaped unless it was made here (`Html`), attributes always.
"""

from html import escape
from typing import Any

from markupsafe import Markup

Html = Markup


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
