"""The golden logs with every text taken away: what acts on the cluster is decided the same.

Each reason and message of ours becomes a token. What follows from it is then said by fields alone,
which `redeciding` fills in for logs from before them. What Kubernetes says of pods, and Kueue of
Workloads beside it, has no such fields: of these the messages become tokens.

The rules are asked after each message, and what was recorded takes effect. What they decide
otherwise than recorded, texts aside, must be what they decide otherwise with all words there.
"""

import asyncio
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from podgroup.log import records as r
from podgroup.log.codec import decode_batch, encode_batch
from podgroup.log.events import Decision
from podgroup.model.commands import (
    AnyCommand,
    EmitEvent,
    ReportPod,
    ReportQueue,
    WriteQueueStatus,
    WriteWorkloadStatus,
)
from podgroup.redeciding import filled, told
from projector.replay.fold import Beginning, Redeciding, fold
from projector.replay.log import Entry
from tests.golden import rows as golden

TEXTS = {"reason", "message", "error", "because"}
SHOWS = (EmitEvent, ReportPod, ReportQueue, WriteQueueStatus, WriteWorkloadStatus)
"""Commands that do nothing but say how things stand."""
SAYS = (r.Pending, r.Explained, r.Shortened, r.Reportable, r.Reported, r.ChecksReported, r.Parked)
"""Records of texts."""
LOGS = golden.logs("v1")


def token(text: str) -> str:
    return f"w{blake2b(text.encode(), digest_size=5).hexdigest()}" if text else ""


def without_words(value: Any, kept: frozenset[str] = frozenset()) -> Any:
    """Return builtins with tokens for texts; `kept` are names of what keeps its reasons."""
    if isinstance(value, list):
        return [without_words(each, kept) for each in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, each in value.items():
        if name in TEXTS and isinstance(each, str):
            found[name] = each if name == "reason" and "" in kept else token(each)
        elif name in kept:
            found[name] = without_words(each, kept | {""})
        else:
            found[name] = without_words(each, kept)
    return found


class Wordless:
    """A golden log whose decisions and records bear fields, and no words with `away`."""

    def __init__(self, path: Path, *, away: bool, fields: bool = True) -> None:
        self.log = golden.FileLog(path)
        self.header = self.log.header
        self.away, self.fields = away, fields
        others = {"pod", "workload"} if self.header.mode == "kueue" else {"pod"}
        self.kept = frozenset(others)

    async def entries(self) -> Any:
        async for entry in self.log.entries():
            yield self.entry(entry)

    def entry(self, entry: Entry) -> Entry:
        recorded = {one.id: self.decision(one) for one in entry.recorded.values()}
        batch, concluded = entry.batch, entry.concluded
        if self.away:
            plain = msgspec.json.decode(encode_batch(batch))
            body = msgspec.json.encode(without_words(plain, self.kept))
            batch = decode_batch(body)
        if concluded is not None:
            said = [one if isinstance(one, int) else self.record(one) for one in concluded.records]
            concluded = structs.replace(concluded, records=tuple(said))
        return structs.replace(entry, batch=batch, recorded=recorded, concluded=concluded)

    def decision(self, one: Decision) -> Decision:
        if self.fields:
            one = structs.replace(one, command=filled(one))
        if not self.away:
            return one
        return msgspec.convert(without_words(msgspec.to_builtins(one)), Decision)

    def record(self, one: r.AnyRecord) -> r.AnyRecord:
        if self.fields:
            one = told(one)
        if not self.away:
            return one
        match one:
            case r.Pending():
                return structs.replace(one, reason=token(one.reason), message=token(one.message))
            case r.Explained():
                given = {n: getattr(one, n) for n in ("wait", "wait_message", "reason", "message")}
                changed = {n: token(text) for n, text in given.items() if text is not None}
                return structs.replace(one, **changed)
            case r.Shortened(short=(reason, message)):
                return structs.replace(one, short=(token(reason), token(message)))
            case r.Parked():
                return structs.replace(one, message=token(one.message), reason=token(one.reason))
        return one


def without_texts(value: Any) -> Any:
    if isinstance(value, list):
        return [without_texts(each) for each in value]
    if isinstance(value, dict):
        left = {n: without_texts(v) for n, v in value.items()}
        return {n: v for n, v in left.items() if n not in TEXTS | {"events", "effect", "status"}}
    return value


def acts(rule: str, command: AnyCommand) -> bytes:
    return msgspec.json.encode((rule, without_texts(msgspec.to_builtins(command))), order="sorted")


def decided_otherwise(log: Wordless) -> dict[tuple[int, bytes], int]:
    """Return (position, what acts) -> how much more often it is decided now than it was then."""
    found: Counter[tuple[int, bytes]] = Counter()
    header = log.header
    begin = Beginning(header.cluster, header.mode, header.policy, header.epoch, header.base)
    done = asyncio.run(fold(log.entries(), begin, redecide=Redeciding()))
    assert not log.log.unread
    for each in done.differences:
        for sign, made, said in ((1, each.now, each.said_now), (-1, each.then, each.said_then)):
            for one in made:
                if not isinstance(one.command, SHOWS):
                    found[each.position, acts(one.rule, one.command)] += sign
            for record in said:
                if not isinstance(record, SAYS):
                    found[each.position, msgspec.json.encode(record)] += sign
    return {place: number for place, number in found.items() if number}


@pytest.mark.parametrize("path", LOGS, ids=[path.name.partition(".")[0] for path in LOGS])
def test_without_words_the_same_is_decided(path: Path) -> None:
    then = decided_otherwise(Wordless(path, away=False))
    assert decided_otherwise(Wordless(path, away=True)) == then


@pytest.mark.parametrize("path", [path for path in LOGS if path.name.startswith("time-rows")])
def test_without_words_and_fields_it_is_not(path: Path) -> None:
    """What the test above would say if a field was missing."""
    then = decided_otherwise(Wordless(path, away=False))
    assert decided_otherwise(Wordless(path, away=True, fields=False)) != then
