"""Lists: selectors, pages, versions.

Theory: a list is a sorted snapshot at one version; the continue token names the version and the key
to go on after, so pages are consistent while history reaches back, and 410 afterwards.

Invariant: the items of all pages of one list are exactly the objects at the first page's version.
"""

import base64
import bisect
from collections.abc import Mapping
from typing import Any

import msgspec

from simcluster import objects, selectors
from simcluster.errors import ApiError, Cause, Obj, bad_request, expired, invalid
from simcluster.requests import Target, integer
from simcluster.store import Rec, Store

_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


class Page:
    """One answer: the version, the items, and where to go on."""

    __slots__ = ("items", "remaining", "token", "version")

    def __init__(self, version: int, items: list[Rec], token: str, remaining: int) -> None:
        self.version = version
        self.items = items
        self.token = token
        self.remaining = remaining

    def metadata(self) -> Obj:
        """List metadata."""
        found: Obj = {"resourceVersion": str(self.version)}
        if self.token:
            found["continue"] = self.token
            if self.remaining > 0:
                found["remainingItemCount"] = self.remaining
        return found


def _token(version: int, rec: Rec) -> str:
    start = f"/{rec.namespace}/{rec.name}\0"
    raw = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": version, "start": start})
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _parse(token: str) -> tuple[int, tuple[str, str]]:
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        found: Any = msgspec.json.decode(raw)
        _, namespace, name = found["start"].rstrip("\0").split("/")
        return int(found["rv"]), (namespace, name)
    except (ValueError, KeyError, TypeError, msgspec.DecodeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None


def wanted_version(query: Mapping[str, str]) -> int:
    """The resourceVersion parameter; 0 when absent. Raises as the server does for non-numbers."""
    text = query.get("resourceVersion", "")
    if text and not text.isdigit():
        raise ApiError(
            500,
            None,
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": '
            "invalid syntax",
        )
    return int(text or 0)


def check(query: Mapping[str, str]) -> None:
    """Refuse combinations of version parameters that make no sense (422)."""
    match = query.get("resourceVersionMatch", "")
    version = query.get("resourceVersion", "")
    text = ""
    if match and not version and "sendInitialEvents" not in query:
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif match and query.get("continue"):
        text = "resourceVersionMatch is forbidden when continue is provided"
    elif match == "Exact" and version == "0":
        text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    if text:
        cause = Cause.forbidden("resourceVersionMatch", text)
        raise invalid("ListOptions", "meta.k8s.io", "", [cause])
    if match not in ("", "Exact", "NotOlderThan"):
        cause = Cause.unsupported("resourceVersionMatch", f'"{match}"', ("Exact", "NotOlderThan"))
        raise invalid("ListOptions", "meta.k8s.io", "", [cause])


def too_large(version: int, current: int) -> ApiError:
    """504 for a version the server has not reached."""
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {version}, current: {current}",
        {
            "causes": [
                {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            ],
            "retryAfterSeconds": 1,
        },
        {"Retry-After": "1"},
    )


def page(store: Store, target: Target, query: Mapping[str, str], keep: int) -> Page:
    """One page of a list. Raises 400, 410, 422."""
    check(query)
    table = store.table(target.route.resource)
    limit = integer(query, "limit")
    holds = selectors.combined(
        query.get("labelSelector", ""), query.get("fieldSelector", ""), target.plural
    )
    version, after = store.version, None
    if query.get("continue"):
        asked, after = _parse(query["continue"])
        version = store.version if asked < 0 else asked
    elif query.get("resourceVersionMatch") == "Exact":
        version = wanted_version(query)
    found = table.sorted(target.namespace, version, keep)
    if found is None:
        if after is None:
            raise expired("The resourceVersion for the provided list is too old.")
        again = _token(-1, Rec({}, after[0], after[1], 0))
        raise _expired_page(again)
    return _cut(found, holds, after, limit, version)


def _expired_page(token: str) -> ApiError:
    error = expired(_CONTINUE_EXPIRED)
    error.continue_token = token
    return error


def _cut(
    found: list[Rec],
    holds: selectors.Predicate | None,
    after: tuple[str, str] | None,
    limit: int,
    version: int,
) -> Page:
    start = 0
    if after is not None:
        start = bisect.bisect_right(found, after, key=lambda r: (r.namespace, r.name))
    if not limit:
        rest = found[start:] if start else found
        items = rest if holds is None else [r for r in rest if holds(r.obj)]
        return Page(version, items, "", 0)
    items = []
    for i in range(start, len(found)):
        if holds is not None and not holds(found[i].obj):
            continue
        if len(items) == limit:
            # The count of what remains is only known without a selector.
            remaining = 0 if holds else len(found) - i
            return Page(version, items, _token(version, items[-1]), remaining)
        items.append(found[i])
    return Page(version, items, "", 0)


def encoded(target: Target, found: Page, as_metadata: bool) -> bytes:
    """The list as JSON, joined from encodings the objects already have."""
    route = target.route
    described = found.metadata()
    if route.resource.custom:
        described.setdefault("continue", "")  # lists of custom kinds always print it
    meta = msgspec.json.encode(described)
    if as_metadata:
        head = b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":'
        items = [msgspec.json.encode(objects.partial(rec)) for rec in found.items]
        if not items:  # as the server prints it
            return b"".join((head, meta, b',"items":null}'))
    else:
        kind = route.resource.list_kind
        head = f'{{"kind":"{kind}","apiVersion":"{route.api_version}","metadata":'.encode()
        items = [objects.item(route, rec) for rec in found.items]
    return b"".join((head, meta, b',"items":[', b",".join(items), b"]}"))
