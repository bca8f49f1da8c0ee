"""Faults a test can switch on while the server runs.

Theory: what goes wrong between a controller and an API server is an answer that is an error (before
or after the write took effect), a slow answer, a watch that ends, hangs or has lost its history, or
no connection at all. Each is a rule here; which requests a fraction hits is decided by a seeded
generator, so a run can be repeated.

Invariant: with no rule set, ``intercept`` costs one attribute read and changes nothing.
"""

import random
import re
from collections.abc import Callable
from typing import Any, TypedDict, Unpack

import msgspec

from simcluster.errors import ApiError, bad_request, conflict

_REASONS = {
    400: "BadRequest",
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_TEXTS = {
    429: "Too many requests, please try again later.",
    500: "Internal error occurred: simulated fault",
    503: "the server is currently unable to handle the request",
    504: "Timeout: request did not complete within the allotted timeout",
}


class Rule(msgspec.Struct, kw_only=True):
    """One fault on requests whose method and path match (regular expressions, ``search``).

    ``status`` 0 only delays. ``count`` requests are hit (``None``: until cleared), or a
    ``fraction`` of them. ``after``: the request takes effect and only its answer is an error.
    ``text``: what the error says.
    """

    status: int = 0
    method: str = ""
    path: str = ""
    count: int | None = None
    fraction: float = 1.0
    retry_after_s: int | None = None
    delay_ms: float = 0.0
    after: bool = False
    text: str = ""
    hits: int = 0

    def matches(self, method: str, path: str) -> bool:
        """Whether the rule is about this request."""
        if self.count is not None and self.hits >= self.count:
            return False
        return bool(re.search(self.method, method)) and bool(re.search(self.path, path))

    def error(self) -> ApiError:
        """The answer."""
        status = self.status
        if status == 409:
            return conflict("objects", "", "simulated")
        headers: dict[str, str] = {}
        details: dict[str, Any] = {}
        if self.retry_after_s is not None:
            headers["Retry-After"] = str(self.retry_after_s)
            details["retryAfterSeconds"] = self.retry_after_s
        text = self.text or _TEXTS.get(status, "simulated fault")
        return ApiError(status, _REASONS.get(status), text, details or None, headers)


class Command(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /_sim/faults``; every part is optional and they happen in this order."""

    clear: bool = False
    rules: list[Rule] = []
    drop_watches: bool = False
    abrupt: bool = False
    stall_watches: bool | None = None
    compact: bool = False
    refuse_s: float = 0.0


class Matching(TypedDict, total=False):
    """Which requests a rule hits, and how (`Rule`)."""

    method: str
    path: str
    count: int | None
    fraction: float
    retry_after_s: int | None
    after: bool


class Faults:
    """The rules in force, and the actions only the server can do (filled in by it)."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rules: list[Rule] = []
        self.stalled = False
        self.on_drop: Callable[[bool], None] = lambda abrupt: None
        self.on_compact: Callable[[], None] = lambda: None
        self.on_refuse: Callable[[float], None] = lambda seconds: None
        self.on_stall: Callable[[], None] = lambda: None

    def add(self, rule: Rule) -> Rule:
        """Put a rule in force; ``rule.hits`` counts what it hit."""
        self.rules.append(rule)
        return rule

    def answer(self, status: int, **matching: Unpack[Matching]) -> Rule:
        """Answer matching requests with an error."""
        return self.add(Rule(status=status, **matching))

    def delay(self, delay_ms: float, *, method: str = "", path: str = "") -> Rule:
        """Answer matching requests late."""
        return self.add(Rule(delay_ms=delay_ms, method=method, path=path))

    def drop_watches(self, *, abrupt: bool = False) -> None:
        """End every watch now: cleanly, or by resetting its connection."""
        self.on_drop(abrupt)

    def stall_watches(self, stalled: bool = True) -> None:
        """Watches stay open and send nothing until resumed."""
        self.stalled = stalled
        self.on_stall()

    def compact(self) -> None:
        """Forget history: older versions answer 410."""
        self.on_compact()

    def refuse(self, seconds: float) -> None:
        """Close all connections and accept none for a while."""
        self.on_refuse(seconds)

    def clear(self) -> None:
        """No rules, nothing stalled."""
        self.rules.clear()
        self.stall_watches(False)

    def intercept(self, method: str, path: str) -> Rule | None:
        """The rule that hits a request, if any; counts the hit."""
        for rule in self.rules:
            if rule.matches(method, path) and (
                rule.fraction >= 1.0 or self.random.random() < rule.fraction
            ):
                rule.hits += 1
                return rule
        return None

    def command(self, body: bytes) -> None:
        """Run a command sent over HTTP. Raises 400 when it cannot be read."""
        try:
            asked = msgspec.json.decode(body, type=Command)
        except msgspec.DecodeError as error:
            raise bad_request(f"faults: {error}") from None
        if asked.clear:
            self.clear()
        for rule in asked.rules:
            self.add(rule)
        if asked.stall_watches is not None:
            self.stall_watches(asked.stall_watches)
        if asked.compact:
            self.compact()
        if asked.drop_watches:
            self.drop_watches(abrupt=asked.abrupt)
        if asked.refuse_s > 0:
            self.refuse(asked.refuse_s)
