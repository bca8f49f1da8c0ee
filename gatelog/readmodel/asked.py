"""The statements behind a page of the console, which can be shown and pasted.

Invariant: each statement that a page runs is noted, in order.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from gatelog.readmodel.model import ReadModel

T = TypeVar("T", bound=msgspec.Struct)


class Asked:
    """One page's questions: runs them and remembers their statements."""

    def __init__(self, model: ReadModel) -> None:
        self.model = model
        self.statements: list[tuple[str, str]] = []

    def rows(self, title: str, kind: type[T], query: str, given: Mapping[str, Any]) -> list[T]:
        """Return the rows of a statement and note it under a title."""
        self.note(title, query, given)
        return list(self.model.rows(kind, query, given))

    def note(self, title: str, query: str, given: Mapping[str, Any]) -> None:
        """Note a statement that another module runs."""
        self.statements.append((title, self.model.statement(query, given)))
