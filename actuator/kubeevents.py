"""Kubernetes Events: what `kubectl describe` shows about a decision, beside the log.

Theory. Events are for people who look at one object today; the log is the record. So Events go
through events.k8s.io/v1 under a name made from the decision and the event's index, which makes a
repetition an AlreadyExists; they are sent in the background, after the write that they report, with
an eighth of the actuator's requests, and for `HOLD_S` after all urgent requests: ten thousand pods
that can start do not wait for ten thousand Events. When too many Events wait, or the server refuses
them, they are dropped and counted. An Event costs the API server about a sixth of an ungating, so
Events of a course without trouble, which log and object show as well, can be left out.

Invariant: no failure here changes the outcome of a command (but for `EmitEvent`, which awaits its
Events).
"""

import asyncio
import hashlib
import socket
import time
from functools import cache
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from actuator.concurrency import AdaptiveConcurrency
from actuator.fairqueue import ON_BEHALF, Claim
from actuator.kubeapi import KubeApi
from actuator.replies import Reply
from actuator.workloads import GROUP
from podgroup.log.events import Decision
from podgroup.model import limits
from podgroup.model.commands import KubeEvent, ObjectRef
from podgroup.model.names import (
    EVENT_CREATED_WORKLOAD,
    EVENT_FINISHED_WORKLOAD,
    EVENT_OWNER_REFERENCES_ADDED,
    EVENT_STARTED,
    EVENT_UPDATED_WORKLOAD,
)
from runtime.log import get_logger

CONTROLLER: Final = "gatelog"
MAX_WAITING: Final = 20_000
"""Events that may wait to be sent: 0.5 to 1.5 KB each, as bytes."""
HOLD_S: Final = 5.0
"""Seconds that an Event gives way to gates that wait to be taken off; after that it takes turns."""
_SHARE: Final = 8
_NOTES_AT_ONCE: Final = 16
_SCHEDULING: Final = "scheduling.k8s.io/v1"


class Note(Struct, frozen=True, gc=False):
    """An Event to create: the namespace it goes to, and its body, encoded.

    As bytes it takes a third of the room, and many wait while the server is busy.
    """

    namespace: str
    body: msgspec.Raw


Wanted = Literal["all", "failures", "none"]
"""Which Events are written: the setting `actuator.events`, its "auto" settled by the mode."""

ROUTINE: Final = frozenset(
    {
        EVENT_CREATED_WORKLOAD,
        EVENT_UPDATED_WORKLOAD,
        EVENT_OWNER_REFERENCES_ADDED,
        EVENT_STARTED,
        EVENT_FINISHED_WORKLOAD,
    }
)
"""Reasons of Events of a course without trouble, unless they are warnings."""


def wanted_in(mode: str, events: Literal["auto", Wanted]) -> Wanted:
    """Resolve "auto": beside Kueue the Events that its users and tools look for, else failures."""
    if events == "auto":
        return "all" if mode == "kueue" else "failures"
    return events


def is_wanted(event: KubeEvent, wanted: Wanted) -> bool:
    """Tell whether an Event is to be written."""
    if wanted == "failures":
        return event.type != "Normal" or event.reason not in ROUTINE
    return wanted == "all"


def notes(decision: Decision, workload_version: str, wanted: Wanted = "all") -> list[Note]:
    """Return the Events of a decision that are wanted; every call gives the same Events."""
    found: list[Note] = []
    for index, event in enumerate(decision.command.events):
        if not is_wanted(event, wanted):
            continue
        regarding = event.on or decision.command.target
        # Events about cluster-scoped objects live in the namespace "default".
        namespace = regarding.namespace or "default"
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": _name(regarding, decision.id, index), "namespace": namespace},
            "eventTime": decision.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "regarding": _reference(regarding, workload_version),
            "type": event.type,
            "reason": limits.truncate(event.reason, limits.EVENT_REASON_BYTES),
            "action": limits.truncate(event.reason, limits.EVENT_REASON_BYTES),
            "note": limits.cut_to_bytes(event.message, limits.NOTE_BYTES),
            "reportingController": CONTROLLER,
            "reportingInstance": _instance(),
        }
        found.append(Note(namespace, msgspec.Raw(msgspec.json.encode(body))))
    return found


@cache
def _instance() -> str:
    name = f"{CONTROLLER}-{socket.gethostname()}"
    return limits.truncate(name, limits.EVENT_INSTANCE_BYTES)


def _name(regarding: ObjectRef, decision: str, index: int) -> str:
    digest = hashlib.blake2b(f"{decision}/{index}".encode(), digest_size=8).hexdigest()
    return f"{regarding.name[: limits.OBJECT_NAME - 17].rstrip('.-')}.{digest}"


def _reference(ref: ObjectRef, workload_version: str) -> dict[str, str]:
    match ref.kind:
        case "Pod" | "Namespace":
            version = "v1"
        case "PriorityClass":
            version = _SCHEDULING
        case _:
            version = f"{GROUP}/{workload_version or 'v1beta2'}"
    found = {
        "apiVersion": version,
        "kind": ref.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "uid": ref.uid,
    }
    return {key: value for key, value in found.items() if value}


class Emitter:
    """Sends Events in the background; `run` it beside the loop."""

    def __init__(
        self,
        api: KubeApi,
        concurrency: AdaptiveConcurrency,
        hold_s: float = HOLD_S,
        wanted: Wanted = "all",
    ) -> None:
        self._api = api
        self._concurrency = concurrency
        self._hold_s = hold_s
        self._wanted = wanted
        self._waiting: asyncio.Queue[tuple[float, Note]] = asyncio.Queue(MAX_WAITING)
        """Until when each Event gives way, by `time.monotonic`, and the Event."""
        self._busy = 0
        self._log = get_logger("actuator")
        self.sent = 0
        self.dropped = 0

    async def emit(self, decision: Decision) -> None:
        """Put the Events of an applied decision in the queue; drops them when it is full."""
        if not any(is_wanted(event, self._wanted) for event in decision.command.events):
            return
        until = time.monotonic() + self._hold_s
        for note in await self._notes(decision):
            try:
                self._waiting.put_nowait((until, note))
            except asyncio.QueueFull:
                self._drop(f"{MAX_WAITING} Events are waiting already")

    async def emit_now(self, decision: Decision) -> list[Reply]:
        """Send the Events of a decision and return the answers; AlreadyExists counts as success."""
        return [await self._send(note) for note in await self._notes(decision)]

    async def run(self) -> None:
        """Send what waits, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(_NOTES_AT_ONCE):
                group.create_task(self._sender(number))

    async def drain(self, timeout_s: float) -> None:
        """Wait until nothing waits any more, at most `timeout_s` seconds; the rest is dropped."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while self._waiting.qsize() or self._busy:
            if asyncio.get_running_loop().time() >= deadline:
                self.dropped += self._waiting.qsize()
                self._log.warning(
                    "kube_events_dropped", waiting=self._waiting.qsize(), reason="stopping"
                )
                return
            await asyncio.sleep(0.01)

    async def _sender(self, number: int) -> None:
        while True:
            if number >= max(1, self._concurrency.limit // _SHARE):
                # Not our turn: later senders join in only while the server takes that much.
                await asyncio.sleep(0.2)
                continue
            until, note = await self._waiting.get()
            self._busy += 1
            # A flow for the Events of a namespace: they are not slow where its pods are.
            ON_BEHALF.set(Claim(f"events/{note.namespace}"))
            try:
                if self._waiting.qsize() < MAX_WAITING // 2:  # none is dropped for having waited
                    await self._concurrency.calm(until - time.monotonic())
                await self._send(note)
            finally:
                self._busy -= 1

    async def _send(self, note: Note) -> Reply:
        reply = await self._api.create_event(note.namespace, note.body)
        if reply.ok or reply.there_already:
            self.sent += 1
        else:
            self._drop(f"{reply.status} {reply.message}")
        return reply

    async def _notes(self, decision: Decision) -> list[Note]:
        return notes(decision, await self._version(decision), wanted=self._wanted)

    async def _version(self, decision: Decision) -> str:
        regarded = [event.on or decision.command.target for event in decision.command.events]
        if all(ref.kind == "Pod" for ref in regarded):
            return ""
        return await self._api.workload_version()

    def _drop(self, reason: str) -> None:
        self.dropped += 1
        if self.dropped == 1 or self.dropped % 1000 == 0:
            self._log.warning("kube_events_dropped", dropped=self.dropped, reason=reason)
