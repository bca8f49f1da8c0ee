"""Remembering: answers that were given before, bounded in the bytes of memory they take.

Theory. A cache that is bounded in entries alone is as large as users make its entries: pods that
were created and deleted again left half a gigabyte behind. So the bytes of an entry are counted, a
large entry is not kept, and a table that is full is emptied, which costs time only.

An object takes up to fifteen times as many bytes in memory as on the wire: a text of two characters
is five bytes of JSON, and 66 of memory with its place in a list. One formula estimates the bytes,
the same on every machine.

Invariant: a table takes at most `MOST_BYTES`; an answer is the same whether it was remembered.
"""

from collections.abc import Callable, Hashable, Mapping
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from msgspec import Struct

MOST_BYTES: Final = 4 * 1024 * 1024
"""Bytes of memory that the answers of one function take at most."""
LARGE_BYTES: Final = 1024 * 1024
"""Bytes from which an answer, with its question, is not kept."""

P = ParamSpec("P")
T = TypeVar("T")
_NONE: Final = object()


def size_of(value: Any) -> int:
    """Return about how many bytes of memory a value takes, with what it holds."""
    if isinstance(value, str):
        return 56 + (len(value) if value.isascii() else 4 * len(value))
    if isinstance(value, Mapping):
        return 64 + sum(96 + size_of(key) + size_of(inner) for key, inner in value.items())
    if isinstance(value, tuple | list):
        return 56 + 8 * len(value) + sum(map(size_of, value))
    if isinstance(value, bytes):
        return 40 + len(value)
    if isinstance(value, Struct):
        fields = value.__struct_fields__
        return 24 + 8 * len(fields) + sum(size_of(getattr(value, name)) for name in fields)
    return 32


def remembered(function: Callable[P, T]) -> Callable[P, T]:
    """Let a pure function of hashable values remember its answers; what it raises is not kept."""
    table: dict[Hashable, Any] = {}
    held = 0

    @wraps(function)
    def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        nonlocal held
        key: Hashable = (*args, *kwargs.items()) if kwargs else args
        found = table.get(key, _NONE)
        if found is not _NONE:
            return found  # type: ignore[no-any-return] # of the function
        made = function(*args, **kwargs)
        size = size_of(key) + size_of(made)
        if size <= LARGE_BYTES:
            held += size
            if held > MOST_BYTES:
                table.clear()
                held = size
            table[key] = made
        return made

    return asked
