"""Recorded watch streams of a real cluster, as batches of the log."""

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ingest.kinds import watched_kinds
from ingest.translate.items import Delta
from podgroup.engine import Then, new_world, step
from podgroup.fold.records import apply_record
from podgroup.log.events import Batch, Event, RelistCompleted, RelistStarted
from podgroup.log.journal import At
from podgroup.log.records import Concluded
from podgroup.model.objects import WATCHED_KINDS
from podgroup.state.world import World
from projector.replay.files import Export, Header
from projector.replay.log import Entry

FOLDER = Path(__file__).parents[1] / "recordings"
T0 = datetime(2026, 11, 21, 1, tzinfo=UTC)  # after everything in them was created
KINDS = {"pods": "Pod", "workloads": "Workload"}
TRANSLATORS = {row.kind: row.translator for row in watched_kinds("kueue.x-k8s.io/managed=true")}
OUTCOMES = sorted(p.name.removesuffix(".outcome.json") for p in FOLDER.glob("*.outcome.json"))


def lines(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt") as file:
        for line in file:
            yield json.loads(line)


def outcome(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.outcome.json").read_text())
    return found


def opening() -> Batch:
    """Empty relists of every kind: a recording starts with an empty namespace."""
    events: list[Event] = []
    for kind in WATCHED_KINDS:
        events.append(RelistStarted(kind=kind, relist="start"))
        events.append(RelistCompleted(kind=kind, relist="start", resource_version="1"))
    return Batch(source="watch", events=tuple(events))


QUIET_S = 2.9
"""The script that made the recordings waited for three quiet seconds, wrote the outcome down, and
then cleaned up: what comes after the last such pause is not part of the story."""


def story(name: str) -> list[dict[str, Any]]:
    found = [line for line in lines(name) if line["resource"] in KINDS]
    marks = [line["t"] for line in lines(name) if line["resource"] in ("user", "api")]
    for i in range(len(found) - 1, 0, -1):
        if found[i]["t"] - found[i - 1]["t"] >= QUIET_S and found[i]["t"] > max(marks, default=0):
            return found[:i]
    # bad_requests ends without a pause: its last request takes the managed label off.
    left = [i for i, line in enumerate(found) if line["resource"] == "pods" and not managed(line)]
    return found[: left[0]] if left else found


def managed(line: dict[str, Any]) -> bool:
    return "kueue.x-k8s.io/managed" in line["object"]["metadata"].get("labels", {})


def batches(name: str) -> Iterator[tuple[int, datetime, Batch]]:
    """One message per watch item of a managed pod or of a Workload."""
    position = 1
    yield position, T0, opening()
    for line in story(name):
        kind: Any = KINDS[line["resource"]]
        raw = json.dumps({"type": line["type"], "object": line["object"]}).encode()
        item = TRANSLATORS[kind].item(raw)
        assert isinstance(item, Delta), item
        position += 1
        yield (
            position,
            T0 + timedelta(seconds=line["t"]),
            Batch(source="watch", events=(item.event,)),
        )


def folded(name: str) -> World:
    """The world after a recording, as Kueue's own decisions made it: ours are not applied."""
    world = new_world("recorded", "kueue")
    for position, at, batch in batches(name):
        step(world, position, at, batch, Then({}))
    return world


def exported(recording: Path, to: Path) -> Path:
    """Write a recording as a log: Kueue decided there, and rules say what they see of it.

    Watch items of all kinds, dated by the youngest object: nothing was seen before it was created.
    """
    with gzip.open(recording, "rt") as file:
        items = [json.loads(line) for line in file]
    created = [
        (one["t"], (one["object"].get("metadata") or {}).get("creationTimestamp")) for one in items
    ]
    began = max(datetime.fromisoformat(at) - timedelta(seconds=t) for t, at in created if at)
    rows = {row.paths[0].rpartition("/")[2]: row for row in watched_kinds("")}
    world, position = new_world("recorded", "kueue"), 0
    with Export(to, Header(cluster="recorded", mode="kueue")) as out:

        def add(at: datetime, batch: Batch) -> None:
            nonlocal position
            position += 1
            said = step(world, position, at, batch, Then({})).said_now
            for record in said:
                apply_record(world, At(position, at), record)
            made = Concluded(number=position, as_of=position, at=at, records=said) if said else None
            out.add(Entry(position, at, batch, {}, made))

        add(began, opening())
        for one in items:
            row = rows.get(one["resource"])
            if row is None or (row.kind == "Pod" and not managed(one)):
                continue
            item = row.translator.item(
                json.dumps({"type": one["type"], "object": one["object"]}).encode()
            )
            assert isinstance(item, Delta), item
            at = began + timedelta(seconds=one["t"])
            add(at, Batch(source="watch", events=(item.event,)))
    return to
