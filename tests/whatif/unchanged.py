"""Changes that change nothing: rules are asked on every message, and agree with the record."""

import asyncio
from pathlib import Path
from typing import Any

from gatelog.whatif import reading, replaying, reporting
from gatelog.whatif.reading import Asked, Past
from gatelog.whatif.replaying import Change, Found
from runtime.settings import Settings

UNRELATED = """apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: no-pod-names-it}
value: 7
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: of-no-queue}
spec: {}
"""


def change(*small: str, objects: Path | None = None, factor: float = 1.0, **policy: Any) -> Change:
    """Return a change."""
    there = [objects] if objects is not None else []
    return Change(given=[], objects=there, small=list(small), policy=policy, factor=factor)


def read(path: Path, since: str = "1990-01-01") -> Past:
    """Return what a log says."""
    asked = Asked(since, "", "team")
    return asyncio.run(reading.read_file(str(path), Settings(), asked, lambda at, events: None))


def played(path: Path, other: Change) -> tuple[Past, Found]:
    """Return what a log says, and what comes of it if something is other."""
    past = read(path)
    return past, replaying.alternatives(past, other, db=None)


def beside_nothing(path: Path, folder: Path) -> tuple[Past, Found]:
    """Return what comes of a log beside objects that concern none of its groups."""
    objects = folder / "unrelated.yaml"
    objects.write_text(UNRELATED)
    return played(path, change(objects=objects))


def exact(past: Past, found: Found) -> None:
    """Nobody left the record, and every figure is what it was."""
    assert found.departures == []
    assert found.other is not None and found.other is not past.then
    assert reporting.as_values(found.other) == reporting.as_values(past.then)
    assert found.other.starts == past.then.starts
