"""Plays a case as if nobody had written a field of its queues: what the field is worth there."""

from typing import Any

import msgspec

from tests.oracle.case import Case

PLACES = {"ClusterQueue": "clusterQueues", "LocalQueue": "localQueues", "Cohort": "cohorts"}
"""Where a case has the objects of a kind."""


def without(case: Case, kind: str, path: str) -> Case:
    """Return the case without the field at `path` (as cases spell it, `*` is each) of a kind."""
    raw = msgspec.to_builtins(case)
    for one in raw.get(PLACES[kind]) or ():
        _drop(one, path.split("."))
    return msgspec.convert(raw, Case)


def _drop(at: Any, way: list[str]) -> None:
    name, *rest = way
    if name == "*":
        for inner in at.values() if isinstance(at, dict) else at:
            _drop(inner, rest)
    elif not rest:
        at.pop(name, None)
    elif at.get(name) is not None:
        _drop(at[name], rest)
