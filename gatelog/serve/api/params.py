"""Parameters of a request, read strictly.

Theory. A parameter that the API server would refuse is refused here, with its name and the allowed
values; a parameter that the API server ignores is ignored. Sizes are always bounded.

Invariant: every wrong value is a `Refused` with 400 and a sentence.
"""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gatelog.serve.api.selectors import Term, read_fields, read_labels
from gatelog.serve.api.status import Refused, bad

MOST = 500
"""Most objects of one page; a continue token leads to the next page."""
MOST_ROWS = 100_000
"""Most rows of a statement behind an answer."""
_LONGEST = 4096
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_TRUE, _FALSE = ("1", "t", "true"), ("", "0", "f", "false")
_DIGITS = 18


class PageStart(Struct, frozen=True):
    """Where a page begins: behind this object."""

    namespace: str = ""
    name: str = ""
    id: str = ""


Page = tuple[list[Any], PageStart | None]
"""Objects, and where the next page begins; None after the last."""


class Listing(Struct, frozen=True, kw_only=True):
    """The parameters of a list or a watch."""

    limit: int = MOST
    after: PageStart = PageStart()
    labels: tuple[Term, ...] = ()
    fields: tuple[Term, ...] = ()
    watch: bool = False
    bookmarks: bool = False
    resource_version: str = ""
    timeout_s: int = 0


def read_listing(query: Mapping[str, str]) -> Listing:
    """Return what the parameters of a list ask for.

    Raises:
        Refused: 400, one of them cannot be read; 410, the continue token is none of ours.
    """
    for key, value in query.items():
        if len(value) > _LONGEST or "\x00" in value:
            raise bad(f"parameter {key[:40]!r} is longer than {_LONGEST} bytes or holds a NUL")
    limit = whole(query, "limit", 0)
    if "sendInitialEvents" in query:
        # What client libraries take as the word of a server without streaming lists (KEP-3157).
        raise Refused(422, "sendInitialEvents is not served here: list first, then watch")
    version = query.get("resourceVersion", "")
    if version and not (version.isascii() and version.isdigit() and len(version) <= _DIGITS):
        raise bad(f"resourceVersion {version[:40]!r}: a whole number from a list, or nothing")
    return Listing(
        limit=min(limit or MOST, MOST),
        after=read_place(query.get("continue", "")),
        labels=read_labels(query.get("labelSelector", "")),
        fields=read_fields(query.get("fieldSelector", "")),
        watch=flag(query, "watch"),
        bookmarks=flag(query, "allowWatchBookmarks"),
        resource_version=version,
        timeout_s=whole(query, "timeoutSeconds", 0),
    )


def whole(query: Mapping[str, str], name: str, default: int) -> int:
    """Return a parameter that is a whole number from 0 on.

    Raises:
        Refused: the value is not a whole number.
    """
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise bad(f"parameter {name} is {text[:40]!r}: a whole number from 0 on is allowed")
    return int(text)


def flag(query: Mapping[str, str], name: str) -> bool:
    """Return a boolean parameter.

    Raises:
        Refused: the value is not a boolean.
    """
    text = query.get(name, "").lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise bad(f"parameter {name} is {text[:40]!r}: true or false are allowed")


def name(text: str, what: str) -> str:
    """Return a name from a path.

    Raises:
        Refused: no object can be called so.
    """
    if len(text) > 253 or not _NAME.fullmatch(text):
        raise bad(
            f"{what} {text[:60]!r} is no name: lower case letters, digits, - and . are allowed"
        )
    return text


def token(place: PageStart) -> str:
    """Return the continue token of a page that ends at `place`."""
    text = json.dumps([1, place.namespace, place.name, place.id], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_place(text: str) -> PageStart:
    """Return where a page begins, by its token.

    Raises:
        Refused: 410, it is none of ours.
    """
    if not text:
        return PageStart()
    try:
        padded = text + "=" * (-len(text) % 4)
        version, *parts = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
        if version == 1 and len(parts) == 3 and all(isinstance(p, str) for p in parts):
            if not any("\x00" in part for part in parts):
                return PageStart(*parts)
    except (ValueError, TypeError, RecursionError):
        pass
    raise Refused(410, "the continue token is none of ours: ask for the list from its beginning")
