"""Recorded watch lines, as the API server wrote them, for the tests of ingest."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ingest.kinds import Watched, watched_kinds
from podgroup.model.objects import Kind

RECORDINGS = Path(__file__).parents[1] / "recordings"
FILES = sorted(
    path.name.removesuffix(".jsonl.gz")
    for path in RECORDINGS.glob("*.jsonl.gz")
    if path.name != "api_exchanges.jsonl.gz"
)
TABLE: dict[Kind, Watched] = {row.kind: row for row in watched_kinds("kueue.x-k8s.io/managed=true")}
_KINDS: dict[str, Kind] = {"pods": "Pod", "workloads": "Workload"}


def recorded(name: str) -> Iterator[tuple[Kind, dict[str, Any]]]:
    """Yield (kind, watch item) of the pods and Workloads of a recording, in order."""
    with gzip.open(RECORDINGS / f"{name}.jsonl.gz") as lines:
        for line in lines:
            found = json.loads(line)
            if found.get("resource") in _KINDS:
                item = {"type": found["type"], "object": found["object"]}
                yield _KINDS[found["resource"]], item


def exchanges() -> dict[str, dict[str, Any]]:
    """Return recorded request/answer pairs by what they show."""
    with gzip.open(RECORDINGS / "api_exchanges.jsonl.gz") as lines:
        return {found["what"]: found for found in map(json.loads, lines)}


def as_line(item: dict[str, Any]) -> bytes:
    return json.dumps(item, separators=(",", ":")).encode()


def first_pod(name: str = "single_pod_lifecycle") -> dict[str, Any]:
    return next(item["object"] for kind, item in recorded(name) if kind == "Pod")
