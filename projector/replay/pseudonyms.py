"""Pseudonyms: a log that is safe to publish and still folds, decides and reads the same.

Theory. Names of namespaces, pods, groups, Workloads, queues, flavors, classes, nodes and owners,
and values of labels, annotations and selectors are replaced by a keyed hash, the same everywhere,
so that references still hold. Names that are computed from others (a single pod's Workload, ids of
decisions) are computed again. Sentences keep their words; names that occur in the log are replaced
in them. Free texts of pods and API servers are dropped; an event that could not be decoded keeps
only the object that it is about.

Kept: uids, resource versions, times, amounts, keys of labels, hashes of roles, booleans and
numbers.

Invariant: the same name and the same key give the same pseudonym.
"""

import hashlib
import re
from typing import Any

import msgspec

from podgroup.log.codec import concerned
from podgroup.log.events import (
    Decision,
    DeltaRefused,
    Event,
    OutcomeRecorded,
    PodApplied,
    PodDeleted,
    TimerFired,
    Undecodable,
)
from podgroup.log.records import (
    AnyRecord,
    Concluded,
    Counted,
    Kept,
    ShortageChanged,
    Shortened,
    StartReserved,
    Used,
)
from podgroup.model.ids import decision_id
from podgroup.model.names import (
    GROUP_OWNER,
    JOB_UID,
    POD_GROUP_ROLE,
    PODSET_LABEL,
    ROLE_HASH,
    workload_name,
)
from podgroup.model.objects import MARK_TIMER, Assignment, mark_timer
from podgroup.model.standing import Standing
from projector.replay.log import Entry

_NAMES = frozenset(
    (
        *("name", "namespace", "node", "queue", "cluster_queue", "priority_class", "by"),
        *("cohort", "parent", "checks", "root", "topology"),
    )
)
"""Fields whose text is a name."""
_MAPS = frozenset(("labels", "annotations", "node_selector", "node_labels"))
"""Fields that map keys to values; the values are replaced."""
_SHORT = frozenset(("amounts", "borrowed"))
"""Lists of arrays that begin with the name of a flavor."""
_KEPT = frozenset(("pod_sets", "assignments", "updates", "sets", "ends"))
"""Lists whose items are named by roles or containers, not by users."""
_SAID = frozenset(("message", "sets_problem", "unread"))
_GROUP_IDS = ("group-", "single-")
_AS_IT_IS = frozenset((ROLE_HASH, PODSET_LABEL, POD_GROUP_ROLE, JOB_UID))
"""Keys whose values are roles or uids."""
_LEFT_OUT = "(left out)"
_PLAIN = re.compile(r"|true|false|[0-9]+|\*")
_WORD = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


class Pseudonyms:
    """Replaces names. Every entry must be shown to `learn` first, in any order."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._known: dict[str, str] = {}
        self._phrases: re.Pattern[str] | None = None
        self._decisions: dict[str, str] = {}

    def name(self, text: str) -> str:
        """Return the pseudonym of a name; "" stays."""
        if _PLAIN.fullmatch(text):
            return text
        found = self._known.get(text)
        if found is None:
            digest = hashlib.blake2b(text.encode(), key=self._key, digest_size=6).hexdigest()
            found = self._known[text] = f"x{digest}"
            if not _WORD.fullmatch(text):
                self._phrases = None
        return found

    def _said(self, sentence: str) -> str:
        """Replace known names in a sentence: values that are no words first, then words."""
        if self._phrases is None:
            odd = sorted((t for t in self._known if not _WORD.fullmatch(t)), key=len, reverse=True)
            self._phrases = re.compile("|".join(map(re.escape, odd)) or r"(?!)")
        sentence = self._phrases.sub(lambda found: self._known[found[0]], sentence)
        return _WORD.sub(lambda word: self._known.get(word[0], word[0]), sentence)

    def learn(self, entry: Entry) -> None:
        """Take in names that others are computed from, and all that sentences may mention."""
        for event in entry.batch.events:
            if isinstance(event, PodApplied | PodDeleted):
                pod = event.pod
                self._known[workload_name(pod.name, pod.uid)] = workload_name(
                    self.name(pod.name), pod.uid
                )
            if isinstance(event, Undecodable):
                self._undecodable(event)
            else:
                self._walk(msgspec.to_builtins(event), "")
        for decision in entry.recorded.values():
            self._walk(msgspec.to_builtins(decision), "")

    def entry(self, entry: Entry) -> Entry:
        """Return the entry under pseudonyms."""
        events = tuple(
            self._undecodable(event) if isinstance(event, Undecodable) else self._event(event)
            for event in entry.batch.events
        )
        recorded = [self._decision(d) for d in entry.recorded.values()]
        batch = msgspec.structs.replace(entry.batch, events=events)
        said = self._concluded(entry.concluded)
        return Entry(entry.position, entry.at, batch, {d.id: d for d in recorded}, said)

    def _concluded(self, concluded: Concluded | None) -> Concluded | None:
        """Replace the names that sentences of records mention."""
        if concluded is None:
            return None
        records = tuple(r if isinstance(r, int) else self._record(r) for r in concluded.records)
        return msgspec.structs.replace(concluded, records=records)

    def _record(self, record: AnyRecord) -> AnyRecord:
        said = {
            name: self._text(value, "message")
            for name in ("wait_message", "message", "text", "key", "name")
            if isinstance(value := getattr(record, name, None), str)
        }
        if isinstance(record, Shortened) and record.short is not None:
            reason, message = record.short
            return Shortened(record.group, (reason, self._text(message, "message")))
        if isinstance(record, ShortageChanged):
            short = [
                msgspec.structs.replace(
                    one,
                    flavor=self.name(one.flavor),
                    node=self.name(one.node),
                    lender=self.name(one.lender),
                )
                for one in record.shortages
            ]
            return ShortageChanged(record.group, self.name(record.cluster_queue), tuple(short))
        if isinstance(record, Kept | StartReserved):
            plain = msgspec.to_builtins(record.assignments)
            assignments = msgspec.convert(
                self._walk(plain, "assignments"), tuple[Assignment, ...] | None
            )
            queue = self.name(record.cluster_queue)
            return msgspec.structs.replace(record, cluster_queue=queue, assignments=assignments)
        if isinstance(record, Used):
            # Names of namespaces and queues hold no "/".
            queue = "/".join(map(self.name, record.queue.split("/")))
            return msgspec.structs.replace(record, queue=queue)
        if isinstance(record, Counted):
            named = {"namespace": self.name(record.namespace), "name": self.name(record.name)}
            standing = msgspec.to_builtins(record.standing)
            hidden = msgspec.convert(self._walk(standing, ""), Standing | None)
            return msgspec.structs.replace(record, standing=hidden, **named)
        return msgspec.structs.replace(record, **said) if said else record

    def _undecodable(self, event: Undecodable) -> Undecodable:
        """Keep its place and its object, so that it stops the same group."""
        about = concerned(event.raw)
        if about is None:
            return Undecodable(error=_LEFT_OUT, raw=b"{}")
        pod = about.kind == "Pod"
        said = {
            "uid": about.uid,
            "namespace": self.name(about.namespace),
            "name": self.name(about.name)
            if pod
            else self._known.get(about.name, "") or self.name(about.name),
        }
        for field, found in (("labels", about.labels), ("annotations", about.annotations)):
            if isinstance(found, dict):
                texts = {k: v for k, v in found.items() if isinstance(v, str)}
                said[field] = self._field(field, texts, "")
        return Undecodable(error=_LEFT_OUT, raw=msgspec.json.encode({about.kind.lower(): said}))

    def _event(self, event: Event) -> Event:
        if isinstance(event, OutcomeRecorded):
            known = self._decisions.get(event.decision, event.decision)
            return msgspec.structs.replace(event, decision=known, message="", by="")
        if isinstance(event, TimerFired) and event.timer.startswith(f"{MARK_TIMER}/"):
            _, kind, name = event.timer.split("/", 2)
            return msgspec.structs.replace(event, timer=mark_timer(kind, self.name(name)))
        plain = self._walk(msgspec.to_builtins(event), "")
        if isinstance(event, PodApplied | PodDeleted):
            for said in (plain["pod"], *plain["pod"].get("conditions", ())):
                said.pop("message", None)
        elif isinstance(event, DeltaRefused):
            plain["message"] = _LEFT_OUT
        found: Event = msgspec.convert(plain, Event)
        return found

    def _decision(self, decision: Decision) -> Decision:
        found = msgspec.convert(self._walk(msgspec.to_builtins(decision), ""), Decision)
        target = found.command.target
        place = f"{target.kind}/{target.namespace}/{target.name}/{target.uid}"
        new = decision_id(found.as_of, found.group, found.rule, place)  # type: ignore[arg-type] # a position is an int on the wire
        self._decisions[decision.id] = new
        return msgspec.structs.replace(found, id=new)

    def _walk(self, value: Any, field: str) -> Any:
        match value:
            case str():
                return self._text(value, field)
            case dict():
                return {key: self._field(key, item, field) for key, item in value.items()}
            case list() | tuple():
                return [self._walk(item, field) for item in value]
            case _:
                return value

    def _field(self, key: str, value: Any, within: str) -> Any:
        if key in _MAPS and isinstance(value, dict):
            return {k: self._marked(k, v) for k, v in value.items()}
        if key == "taken" and isinstance(value, dict):
            nodes = any(isinstance(amounts, dict) for amounts in value.values())
            return {self.name(k): v for k, v in value.items()} if nodes else value
        if key == "flavors" and isinstance(value, dict):
            return {resource: self.name(flavor) for resource, flavor in value.items()}
        if key == "name" and within in _KEPT:
            return value
        if key == "because" and isinstance(value, str):
            return self.name(value)
        if key in _SHORT and isinstance(value, list | tuple):
            return [[self.name(flavor), *rest] for flavor, *rest in value]
        if key == "template":
            return "{}" if value else ""
        if key == "group" and isinstance(value, str) and not value.startswith(_GROUP_IDS):
            return self.name(value)
        if key == "values" or (key == "value" and isinstance(value, str)):
            return (
                [self.name(v) for v in value]
                if isinstance(value, list | tuple)
                else self.name(value)
            )
        return self._walk(value, key)

    def _marked(self, key: str, value: str) -> str:
        """Replace the value of a label, annotation or selector."""
        if key == GROUP_OWNER:
            kind, slash, rest = value.partition("/")
            name, more, size = rest.partition("/")
            return f"{kind}{slash}{self.name(name)}{more}{size}"
        return value if key in _AS_IT_IS else self.name(value)

    def _text(self, text: str, field: str) -> str:
        if field in _NAMES:
            return self.name(text)
        if field in _SAID:
            return self._said(text)
        return text
