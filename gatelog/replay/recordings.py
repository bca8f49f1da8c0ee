"""Watch recordings as a log: what a cluster's watches said, without any decisions.

A recording is a (gzipped) file of JSON lines `{"t": seconds, "resource": ..., "type": ...,
"object": ...}`, where `resource` is the plural of a kind and `object` is as the API server sent it;
lines of other resources (what users did, remarks) are passed over. It begins in an empty
namespace: every kind is given an empty relist first. Seconds count from the start of the recording,
which the file does not name; the youngest object tells it, to the second: nothing was seen before
it was created.

Invariant: a line that cannot be read stops nothing; it is counted and named. What comes out depends
on the file's bytes alone, so two folds of it, or of a copy, are equal.
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from gatelog.shell.errors import CommandFailed
from ingest.kinds import watched_kinds
from ingest.translate.items import Delta
from podgroup.log.events import Batch, DeltaRefused, Event, RelistCompleted, RelistStarted
from podgroup.model.names import MANAGED_LABEL
from podgroup.model.objects import WATCHED_KINDS, Kind
from projector.replay.files import Header
from projector.replay.log import Entry
from projector.replay.reading import Lines

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class _Line(Struct):
    t: float
    resource: str
    type: str
    object: Raw


class _Meta(Struct, rename="camel", frozen=True):
    creation_timestamp: datetime | None = None


class _Object(Struct):
    metadata: _Meta = _Meta()


class _Dated(Struct):
    t: float
    object: _Object


class Recording:
    """A file of watch items. `unread` lists what could not be read, as `line N: why`."""

    def __init__(self, path: Path, cluster: str) -> None:
        self.path = path
        self.header = Header(cluster=cluster, mode="kueue")
        self.unread: list[str] = []
        self.lines = 0
        self._began = _began(path)
        rows = watched_kinds("")
        self._kinds = {row.paths[0].rpartition("/")[2]: row.kind for row in rows}
        self._translators = {row.kind: row.translator for row in rows}

    async def entries(self) -> AsyncIterator[Entry]:
        """Yield one message per item.

        Raises:
            CommandFailed: the file is none of ours.
        """
        position = 1
        opening: list[Event] = []
        for kind in WATCHED_KINDS:
            opening.append(RelistStarted(kind=kind, relist="recording", reason="recording begins"))
            opening.append(RelistCompleted(kind=kind, relist="recording", resource_version="0"))
        yield Entry(
            position, self._began, Batch(source="watch", events=tuple(opening)), {}, observed=True
        )
        decoder = msgspec.json.Decoder(_Line)
        lines = Lines(self.path)
        for number, raw in enumerate(lines, 1):
            self.lines += 1
            try:
                line = decoder.decode(raw)
            except msgspec.MsgspecError as error:
                self.unread.append(f"line {number}: {error}")
                continue
            item_kind = self._kinds.get(line.resource)
            if item_kind is None:
                continue
            event = self._event(item_kind, line, number)
            if event is not None:
                position += 1
                at = self._began + timedelta(seconds=line.t)
                yield Entry(position, at, Batch(source="watch", events=(event,)), {}, observed=True)
        if lines.problem:
            self.unread.append(lines.problem)
        if not self.lines and not lines.problem:
            raise CommandFailed(f"{self.path}: the file is empty")
        if position == 1:
            raise CommandFailed(
                f"{self.path}: no watch items in {self.lines} lines"
                f"{f' ({lines.problem})' if lines.problem else ''}; a recording has lines like "
                '{"t": 0.1, "resource": "pods", "type": "ADDED", "object": {...}}'
            )

    def _event(self, kind: Kind, line: _Line, number: int) -> Event | None:
        body = b'{"type":"' + line.type.encode() + b'","object":' + bytes(line.object) + b"}"
        if kind == "Pod" and MANAGED_LABEL.encode() not in body:
            return None  # outside the selector that ingest watches with
        item = self._translators[kind].item(body)
        if isinstance(item, Delta):
            event = item.event
            if isinstance(event, DeltaRefused):
                what = f"{event.namespace}/{event.name}: {event.field}: {event.message}"
                self.unread.append(f"line {number}: {line.resource} {what}")
            return event
        self.unread.append(f"line {number}: {line.resource} {line.type}: {item}")
        return None


def _began(path: Path) -> datetime:
    """Return when a recording began; a moment of no meaning if no line tells."""
    decoder = msgspec.json.Decoder(_Dated)
    found = EPOCH
    for raw in Lines(path):
        try:
            line = decoder.decode(raw)
            created = line.object.metadata.creation_timestamp
            if created is not None and created.tzinfo is not None:
                found = max(found, created.astimezone(UTC) - timedelta(seconds=line.t))
        except (msgspec.MsgspecError, OverflowError, ValueError):
            continue  # named when it is folded
    return found
