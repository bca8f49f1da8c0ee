"""Replaying recorded exchanges against another server: what is substituted, what is compared.

Theory: a recording names uids, versions, generated names and continue tokens of its own run. The
first time such a value appears in an answer, the value at the same place of our answer becomes its
counterpart; from then on both directions use the pair, so relations between answers (the version of
a list is the version of the last write, a uid stays) are compared too, not just shapes.
"""

from __future__ import annotations

import re
from typing import Any

_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
_GIVEN = "2026-11-20"  # times the requests themselves contain
_LEARNED = ("uid", "resourceVersion", "continue")


class Pairs:
    """Recorded value to ours."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def learn(self, recorded: Any, ours: Any, key: str = "") -> None:
        """Walk two answers side by side and pair what differs between runs."""
        if isinstance(recorded, dict) and isinstance(ours, dict):
            for name, value in recorded.items():
                if name in ours:
                    self.learn(value, ours[name], name)
            if "generateName" in recorded and "generateName" in ours:
                self.known.setdefault(recorded["name"], ours["name"])
        elif isinstance(recorded, list) and isinstance(ours, list):
            for a, b in zip(recorded, ours, strict=False):
                self.learn(a, b, key)
        elif key in _LEARNED and isinstance(recorded, str) and isinstance(ours, str) and recorded:
            self.known.setdefault(recorded, ours)

    def translate(self, value: Any) -> Any:
        """A recorded value with our counterparts."""
        if isinstance(value, dict):
            return {self.text(k): self.translate(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.translate(item) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def text(self, value: str) -> str:
        """A string: replaced whole, or its long parts (uids, names, tokens)."""
        if value in self.known:
            return self.known[value]
        for old, new in self.known.items():
            if len(old) > 8 and old in value:
                value = value.replace(old, new)
        return value


def comparable(value: Any) -> Any:
    """An answer with the times of the run blanked."""
    if isinstance(value, dict):
        return {k: comparable(v) for k, v in value.items()}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, str) and _TIME.match(value) and not value.startswith(_GIVEN):
        return "<time>"
    return value


def differences(wanted: Any, got: Any, at: str = "") -> list[str]:
    """Paths at which two values differ."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        found = []
        for key in sorted(wanted.keys() | got.keys()):
            a, b = wanted.get(key, "(absent)"), got.get(key, "(absent)")
            found += differences(a, b, f"{at}/{key}")
        return found
    if isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        return [
            d
            for i, (a, b) in enumerate(zip(wanted, got, strict=True))
            for d in differences(a, b, f"{at}[{i}]")
        ]
    return [] if wanted == got else [f"{at}: wanted {wanted!r}, got {got!r}"]
