"""Scripts: the behaviour of a bound pod, written in a line: ``run=0.5s,succeed``.

Theory: a script is a start (image pull works or not), a running time, and an end. Users put it in
the annotation ``simcluster/script``; tests may pass a function instead.

Grammar: comma separated steps: ``start=T`` (time to start), ``run=T`` or ``run=forever``,
``succeed``, ``fail=CODE``, ``oom``, ``image-pull-error``, ``unready`` (Running, never Ready),
``term=CODE`` (exit code when asked to stop; 143 unless said), ``linger=T`` (goes on for that long
when asked to stop, its grace period at most) or ``linger=forever``. ``T`` is seconds, or ``250ms``,
``2s``, ``1m``.

Invariant: every text either parses to a ``Script`` or raises ``ScriptError`` naming the step.
"""

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

ANNOTATION = "simcluster/script"
_TIME = re.compile(r"^(\d+(?:\.\d+)?)(ms|s|m)?$")
_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}


class ScriptError(ValueError):
    """A script that cannot be read."""


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A pod's life. ``run_s`` ``None``: until deleted. Exit code 137 with ``oom``. ``linger_s``
    ``None``: as long as the kubelet takes.
    """

    start_s: float | None = None
    run_s: float | None = None
    exit_code: int = 0
    oom: bool = False
    pull_error: bool = False
    ready: bool = True
    term_code: int = 143
    linger_s: float | None = None

    @property
    def reason(self) -> str:
        """Reason of the terminated container."""
        if self.oom:
            return "OOMKilled"
        return "Completed" if self.exit_code == 0 else "Error"


ScriptSource = Callable[[dict[str, Any]], "Script | str | None"]


def _seconds(step: str, text: str) -> float:
    match = _TIME.match(text)
    if match is None:
        raise ScriptError(f"script step {step!r}: {text!r} is no time (try 0.5s, 250ms, 2m)")
    return float(match[1]) * _UNIT[match[2]]


def _code(step: str, text: str) -> int:
    if not text.isdigit() or int(text) > 255:
        raise ScriptError(f"script step {step!r}: exit codes are 0 to 255")
    return int(text)


@lru_cache(maxsize=256)
def parse(text: str) -> Script:
    """Read a script. Raises ``ScriptError``."""
    found: dict[str, Any] = {}
    for step in (part.strip() for part in text.split(",")):
        name, _, value = step.partition("=")
        match name:
            case "start":
                found["start_s"] = _seconds(step, value)
            case "run":
                found["run_s"] = None if value == "forever" else _seconds(step, value)
            case "succeed":
                found["exit_code"] = 0
                found.setdefault("run_s", 0.0)
            case "fail":
                found["exit_code"] = _code(step, value or "1")
                found.setdefault("run_s", 0.0)
            case "oom":
                found |= {"exit_code": 137, "oom": True}
                found.setdefault("run_s", 0.0)
            case "image-pull-error":
                found["pull_error"] = True
            case "unready":
                found["ready"] = False
            case "term":
                found["term_code"] = _code(step, value)
            case "linger":
                found["linger_s"] = math.inf if value == "forever" else _seconds(step, value)
            case _:
                raise ScriptError(
                    f"script step {step!r} is unknown; known: start=T run=T run=forever succeed "
                    "fail=CODE oom image-pull-error unready term=CODE linger=T linger=forever"
                )
    return Script(**found)
