"""Times, spans and amounts as people and Kubernetes write them.

Invariant: pure but for the clock of `ago`; amounts come as the read model has them: cpu in
thousandths, all else whole.
"""

import re
from datetime import UTC, datetime

from podgroup.model.quantities import MAX_INT64
from podgroup.model.wording import UNLIMITED, at_least

_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BYTES = ("memory", "ephemeral-storage", "storage")


def rfc(at: datetime | None) -> str | None:
    """Return a time as Kubernetes writes it, to the second."""
    return None if at is None else at.strftime("%Y-%m-%dT%H:%M:%SZ")


def micro(at: datetime) -> str:
    """Return a time to the microsecond."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def quota(resource: str, number: int) -> str:
    """Return a quota, or its free part, as a Kubernetes quantity if it has a limit."""
    return UNLIMITED if number >= MAX_INT64 else amount(resource, number)


def is_bytes(resource: str) -> bool:
    """Tell whether amounts of a resource are bytes."""
    return resource.startswith((*_BYTES, "hugepages-"))


def natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """Return the key by which names sort as people count: hero-2 before hero-10, then by letter."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(int(one), "") if one.isdecimal() else (-1, one) for one in parts], name


def amount(resource: str, number: float) -> str:
    """Return an amount as a Kubernetes quantity; `≥` before one too large to be counted."""
    whole = round(number)
    if whole >= MAX_INT64:
        return at_least(resource)
    if resource == "cpu":
        return str(whole // 1000) if whole % 1000 == 0 else f"{whole}m"
    if is_bytes(resource):
        power = 0
        while power < len(_BINARY) and whole and whole % 1024 == 0:
            whole //= 1024
            power += 1
        return f"{whole}{_BINARY[power - 1]}" if power else str(whole)
    return str(whole)


def ago(text: str | None) -> str:
    """Return how long ago a time of the API was, "" for none."""
    if not text:
        return ""
    return span((datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds())


def span(seconds: float) -> str:
    """Return a span as kubectl writes ages: `45s`, `3m20s`, `5h`, `12d`."""
    s = max(0, int(seconds))
    if s < 120:
        return f"{s}s"
    if s < 600:
        return f"{s // 60}m{s % 60}s" if s % 60 else f"{s // 60}m"
    if s < 3 * 3600:
        return f"{s // 60}m"
    if s < 8 * 3600:
        return f"{s // 3600}h{s % 3600 // 60}m" if s % 3600 >= 60 else f"{s // 3600}h"
    return f"{s // 3600}h" if s < 48 * 3600 else f"{s // 86400}d"
