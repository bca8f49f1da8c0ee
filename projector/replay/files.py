"""Exports: a log in a file, and the file as a log.

A file is JSON lines, gzipped unless its name ends in `.jsonl` (docs/replay.md is its reference):

    {"format": "gatelog-export", "version": 1, "cluster": ..., "mode": ..., "epoch": 1, ...}
    {"position": 1, "at": "...", "batch": {...}, "decisions": [...]}       one per message, in order
    {"end": true, "messages": 2, "sha256": "..."}              so that cuts and changes are noticed

`batch` is a message of EVENTS and each decision one of DECISIONS, as the streams have them;
`concluded` are the records made there besides. An
event that could not be decoded is kept beside them, by its place.

Invariant: an export of a whole log folds to what the log folds to.
"""

import gzip
import hashlib
import os
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, cast

import msgspec
from msgspec import Raw, Struct

from podgroup.log.codec import (
    decode_batch,
    decode_concluded,
    decode_decision,
    encode_batch,
    encode_concluded,
    encode_decision,
    is_from,
    is_records,
    is_strange,
)
from podgroup.log.events import Batch, Event, SettingsRecorded, Undecodable
from podgroup.model.policy import Policy
from projector.replay.log import Entry
from projector.replay.reading import Lines

FORMAT = "gatelog-export"
VERSION = 1
_CHUNK = 256 * 1024
"""Bytes compressed at once: enough that the interpreter lets others run meanwhile."""


class FileRefused(Exception):
    """A file that cannot be used at all; the message says why and what to do."""


class Header(Struct, kw_only=True):
    """The first line: `policy` is the input of decisions besides the log.

    `base` and `epoch` are those of the log's positions, `last` is its end.

    `stream_created_at`, in a segment of an archive, separates streams of the same name; `settings`
    are in force where the file begins, so that it can be folded alone. None: the file begins with
    an epoch, which has its settings, or they are unknown.

    `selection` describes the omitted messages, "" for none: decisions in the file may depend on
    them.
    """

    format: str = FORMAT
    version: int = VERSION
    cluster: str
    mode: str
    policy: Policy = Policy()
    epoch: int = 1
    base: int = 0
    last: int = 0
    written_at: datetime | None = None
    stream_created_at: datetime | None = None
    settings: SettingsRecorded | None = None
    selection: str = ""
    unknown: int = 0
    """Events left out of a selection because it is unknown whether they belong to it."""
    pseudonymised: bool = False


class _Lost(Struct, frozen=True):
    """An event that could not be decoded: its place, why, and its bytes in base64."""

    at: int
    error: str
    raw: str


class _Line(Struct, omit_defaults=True, kw_only=True):
    position: int = 0
    at: datetime | None = None
    batch: Raw = Raw()
    decisions: list[Raw] = []
    concluded: Raw = Raw()
    lost: list[_Lost] = []
    end: bool = False
    messages: int = 0
    sha256: str = ""
    first: int = 0
    last: int = 0
    decided: int = 0


class Covered(Struct, frozen=True):
    """The content of an archive's file: every position from `first` to `last`.

    `decided` is the number of the last decision up to there.
    """

    first: int
    last: int
    decided: int


class Export:
    """Writes a file; a context manager. The file gets its name when it is complete.

    `covered`, if it is set before the end, is written in the last line. `size` counts the bytes of
    the lines, before compression.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self.messages = 0
        self.decisions = 0
        self.size = 0
        self.covered: Covered | None = None
        self._digest = hashlib.sha256()
        self._waiting = bytearray()
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._header = header

    def __enter__(self) -> "Export":
        """Begin the file.

        Raises:
            OSError: the file cannot be written there.
        """
        if self._path.suffix == ".jsonl":  # people who name a file so read it with jq or less
            self._file: BinaryIO = self._part.open("wb")
        else:
            self._file = cast("BinaryIO", gzip.open(self._part, "wb", compresslevel=6))
        self._write(self._header)
        return self

    def add(self, entry: Entry) -> None:
        """Write one message with its decisions."""
        events: list[Event | Undecodable] = []
        lost: list[_Lost] = []
        for place, event in enumerate(entry.batch.events):
            if isinstance(event, Undecodable):
                lost.append(_Lost(place, event.error, b64encode(event.raw).decode()))
            else:
                events.append(event)
        batch = msgspec.structs.replace(entry.batch, events=tuple(events))
        decisions = [encode_decision(d) for d in entry.recorded.values()]
        if entry.concluded is not None:
            decisions.append(encode_concluded(entry.concluded))
        self._add(entry.position, entry.at, encode_batch(batch), decisions, lost)

    def add_raw(
        self, position: int, at: datetime, body: bytes, decisions: list[bytes], source: str
    ) -> None:
        """Write a message as it is in its stream, with decisions as they are in theirs.

        A body that does not fit into a line is kept as an event that cannot be decoded, as is an
        event that `source` may not publish.
        """
        lost: list[_Lost] = []
        try:
            _json.decode(body)
            fits = b"\n" not in body and is_from(body, source)
        except msgspec.MsgspecError:
            fits = False
        whole = decode_batch(body, source)
        if not fits or any(map(is_strange, whole.events)):
            lost = [
                _Lost(place, event.error, b64encode(event.raw).decode())
                for place, event in enumerate(whole.events)
                if isinstance(event, Undecodable)
            ]
            known = tuple(e for e in whole.events if not isinstance(e, Undecodable))
            body = encode_batch(msgspec.structs.replace(whole, events=known))
        self._add(position, at, body, decisions, lost)

    def _add(
        self, position: int, at: datetime, body: bytes, made: list[bytes], lost: list[_Lost]
    ) -> None:
        decisions = [Raw(one) for one in made if not is_records(one)]
        line = _Line(position=position, at=at, batch=Raw(body), decisions=decisions, lost=lost)
        for one in made:
            if is_records(one):
                line.concluded = Raw(one)
        self._write(line)
        self.messages += 1
        self.decisions += len(decisions)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the file; a file that was not completed is removed."""
        if kind is None:
            whole = self.covered or Covered(0, 0, 0)
            self._write(
                _Line(
                    end=True,
                    messages=self.messages,
                    sha256=self._digest.hexdigest(),
                    first=whole.first,
                    last=whole.last,
                    decided=whole.decided,
                )
            )
            self._file.write(self._waiting)
        self._file.close()
        if kind is None:
            os.replace(self._part, self._path)
        else:
            self._part.unlink(missing_ok=True)

    def _write(self, line: object) -> None:
        text = msgspec.json.encode(line) + b"\n"
        self._digest.update(text)
        self.size += len(text)
        self._waiting += text
        if len(self._waiting) >= _CHUNK:
            self._file.write(self._waiting)
            self._waiting.clear()


_json: msgspec.json.Decoder[Raw] = msgspec.json.Decoder(Raw)


class _Format(Struct):
    format: str
    version: int


class FileLog:
    """An export as a log. `unread` describes afterwards the lines that could not be read.

    `covered` is, after the last line, the span that the last line of an archive's file names.

    Raises:
        FileRefused: the file is no export, or of a later format.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unread: list[str] = []
        self.lines = 0
        self.covered: Covered | None = None
        self.header = self._first(next(iter(Lines(path)), b""))

    def _first(self, line: bytes) -> Header:
        try:
            known = msgspec.json.decode(line, type=_Format)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            known = _Format("", 0)
        if known.format != FORMAT:
            raise FileRefused(f"{self.path}: is no export of gatelog")
        if known.version > VERSION:
            raise FileRefused(
                f"{self.path}: was written by a later gatelog (format version {known.version}, "
                f"this one reads up to {VERSION}): use that one or a newer"
            )
        try:
            return msgspec.json.decode(line, type=Header)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FileRefused(f"{self.path}: its first line is damaged: {error}") from None

    async def entries(self) -> AsyncIterator[Entry]:
        """Yield every message that can be read; positions must grow."""
        decoder = msgspec.json.Decoder(_Line)
        lines = Lines(self.path)
        digest = hashlib.sha256()
        ended, messages, position = False, 0, 0
        for number, raw in enumerate(lines, 1):
            if ended:
                if raw.strip():
                    self.unread.append(f"line {number}: goes on after its last line; not read")
                    break
                continue
            self.lines = number
            if number == 1:
                digest.update(raw + b"\n")
                continue
            try:
                line = decoder.decode(raw)
                if line.end:
                    ended = True
                    self._ends(line, messages, digest.hexdigest())
                    continue
                digest.update(raw + b"\n")
                entry = _entry(line)
            except UnicodeDecodeError as error:
                self.unread.append(f"line {number}: byte {error.start} of a text is not UTF-8")
                continue
            except (msgspec.MsgspecError, ValueError) as error:
                self.unread.append(f"line {number}: {error}")
                continue
            if entry.position <= position:
                self.unread.append(f"line {number}: position {entry.position} is out of order")
                continue
            position = entry.position
            messages += 1
            yield entry
        if lines.problem:
            self.unread.append(lines.problem)
        elif not ended:
            self.unread.append("the file has no last line: it is truncated")

    def _ends(self, line: _Line, messages: int, digest: str) -> None:
        if line.messages != messages:
            self.unread.append(f"has {messages} of its {line.messages} messages")
        elif line.sha256 and line.sha256 != digest and not self.unread:
            self.unread.append(
                "its lines are not those it was written with (sha256 differs): it was changed, "
                "or damaged where that does not show"
            )
        if line.last:
            self.covered = Covered(line.first, line.last, line.decided)


def _entry(line: _Line) -> Entry:
    if line.at is None or line.position <= 0 or not bytes(line.batch):
        raise ValueError("a message needs position, at and batch")
    decisions = [decode_decision(raw) for raw in line.decisions]
    batch = decode_batch(bytes(line.batch))
    if line.lost:
        batch = msgspec.structs.replace(batch, events=tuple(_merged(batch, line.lost)))
    said = decode_concluded(line.concluded) if bytes(line.concluded) else None
    return Entry(line.position, line.at, batch, {d.id: d for d in decisions}, said)


def _merged(batch: Batch, lost: list[_Lost]) -> Iterator[Event | Undecodable]:
    places = {one.at: one for one in lost}
    total = len(batch.events) + len(lost)
    if len(places) < len(lost) or min(places) < 0 or max(places) >= total:
        raise ValueError("its undecodable events are not in their places")
    known = iter(batch.events)
    for place in range(total):
        if place in places:
            one = places[place]
            yield Undecodable(error=one.error, raw=b64decode(one.raw))
        else:
            yield next(known)
