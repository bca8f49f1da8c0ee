"""Pods before the door: what the admission webhook says of them, and the log's translation.

Theory. The webhook's own code answers, on requests as the API server would send them, with what the
world knows in place of the API server's answers: labels of namespaces, LocalQueues and classes.
What comes out goes through the translation by which a watch reads pods.

Invariant: a pod is refused here exactly where the webhook refuses it, or the log could not take it.
"""

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from gatelog.trial.answers import Refusal
from gatelog.trial.defaults import completed
from gatelog.trial.manifests import Made, MadePod, SeenObject, patched
from ingest.kinds import watched_kinds
from ingest.webhook import review
from ingest.webhook.admission import AdmissionWebhooks
from ingest.webhook.mutate import Disposition, PatchOp
from ingest.webhook.owners import Owner
from ingest.webhook.pod import OwnerRef
from ingest.webhook.policy import OwnerKind, WebhookPolicy
from ingest.webhook.settings import policy_for
from podgroup.log.events import DeltaRefused, Event, PodApplied
from podgroup.model.names import ADMISSION_GATE, TOPOLOGY_GATE
from podgroup.model.objects import PodView, kinds_watched
from podgroup.state.world import World
from runtime.settings import Settings

_PODS = review.Resource(resource="pods", version="v1")
_OF_SERVER = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields")
"""Metadata that the API server sets, whatever a manifest has."""
_NOT_QUEUED = {
    Disposition.NO_QUEUE.value: "names no queue (label kueue.x-k8s.io/queue-name), and its "
    "namespace has no LocalQueue named default",
    Disposition.NAMESPACE_EXCLUDED.value: "its namespace is excluded from queueing",
    Disposition.OWNER_QUEUED.value: "Kueue queues its owner as a whole",
}


class Arrived(Struct, frozen=True):
    """A pod that was let in; `passes` says why it is not queued, "" if it is."""

    made: MadePod
    view: PodView | None = None
    passes: str = ""


class Answered(Struct):
    """The webhook's and the translation's answers on all pods."""

    arrived: list[Arrived]
    refused: list[Refusal]
    warnings: list[str]


class Known:
    """The webhook's `Lookup`, answered by a world and the owners that are tried."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.owners: dict[tuple[str, str, str], Mapping[str, str]] = {}
        """Labels of the owners that are tried, by kind, namespace and name."""

    async def owner(self, namespace: str, ref: OwnerRef, kind: OwnerKind) -> Owner | None:
        """An owner that is tried, with its labels; any other owner without labels."""
        labels = self.owners.get((kind.kind, namespace, ref.name), {})
        return Owner(ref.uid, dict(labels), None)

    async def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Labels of a namespace; {} for an unknown namespace."""
        found = self._world.namespaces.get(namespace)
        return found.labels if found is not None else {}

    async def has_local_queue(self, namespace: str, name: str) -> bool:
        """Whether a LocalQueue exists."""
        return (namespace, name) in self._world.local_queues

    async def has_priority_class(self, name: str) -> bool:
        """Whether a WorkloadPriorityClass exists."""
        return name in self._world.workload_classes


class Door:
    """The door as `settings` set it up, before a world."""

    def __init__(self, world: World, settings: Settings) -> None:
        mode, policy = world.mode, world.policy
        queueing = msgspec.structs.replace(
            settings.queueing,
            owned_groups=policy.owned_groups,
            termination_grace_max_s=policy.termination_grace_max_s,
        )
        settings = msgspec.structs.replace(settings, mode=mode, queueing=queueing)
        self._policy: WebhookPolicy = policy_for(settings)
        self._known = Known(world)
        self._classes = world.classes
        self._webhooks = AdmissionWebhooks(self._policy, self._known)
        copied = world.policy.annotation_keys_to_copy
        named = settings.ingest.workload_identifier_annotations
        variant = settings.ingest.role_hash
        rows = watched_kinds(
            "",
            variant,
            annotated_names=named,
            copied=copied,
            kinds=kinds_watched(mode, policy),
        )
        self._translators = {row.kind: row.translator for row in rows}

    def labelled(self, group: str, kind: str, data: Mapping[str, Any]) -> tuple[PatchOp, ...]:
        """Return what the webhook changes of an owner; its labels are known from now on.

        The owner has a name and a namespace, be it that the API server gives them.
        """
        meta = data["metadata"]
        labels = meta.get("labels")
        key = kind, meta["namespace"], meta["name"]
        self._known.owners[key] = labels if isinstance(labels, dict) else {}
        for one in self._policy.label_kinds:
            if (one.group, one.kind) == (group, kind):
                where = review.Resource(resource=one.plural, group=group)
                asked = review.Request(uid="try", operation="CREATE", resource=where, object=data)
                return _patch(_said(self._webhooks.label(asked)).response)
        return ()

    def see(self, objects: list[SeenObject], at: datetime) -> tuple[list[Event], list[Refusal]]:
        """Return the events of a watch for objects, where their kind is watched."""
        events: list[Event] = []
        refused: list[Refusal] = []
        for number, one in enumerate(objects):
            translator = self._translators.get(one.raw["kind"])
            if translator is None:
                continue
            event = translator.listed(_encoded(one.raw, number, at), "")
            if isinstance(event, DeltaRefused):
                refused.append(refused_at(one, one.field(event.field), event.message))
            else:
                events.append(event)
        return events, refused

    def ask(self, pods: list[MadePod], at: datetime, user: review.UserInfo) -> Answered:
        """Return the answers on pods that are created at a moment, in their order."""
        answered = Answered([], [], [])
        for number, made in enumerate(pods):
            self._one(number, made, at, user, answered)
        return answered

    def _one(
        self, number: int, made: MadePod, at: datetime, user: review.UserInfo, answered: Answered
    ) -> None:
        meta = {k: v for k, v in made.raw["metadata"].items() if k not in _OF_SERVER}
        raw = {"metadata": meta, "spec": completed(made.raw.get("spec") or {}, self._classes)}
        asked = review.Request(
            uid="try",
            operation="CREATE",
            resource=_PODS,
            namespace=meta["namespace"],
            name=meta["name"],
            object=raw,
            user_info=user,
        )
        mutated = _said(self._webhooks.mutate(asked))
        if self._refused(made, mutated.response, answered):
            return
        if mutated.outcome != Disposition.GATED.value:  # the webhook has read gated pods
            read = self._translators["Pod"].listed(
                _encoded({**raw, "status": _NEW}, number, at), ""
            )
            if isinstance(read, DeltaRefused):
                answered.refused.append(refused_at(made, made.field(read.field), read.message))
                return
        whole = patched(raw, _patch(mutated.response))
        validated = _said(self._webhooks.validate(msgspec.structs.replace(asked, object=whole)))
        if self._refused(made, validated.response, answered):
            return
        if mutated.outcome != Disposition.GATED.value:
            why = _NOT_QUEUED.get(mutated.outcome, mutated.outcome)
            answered.arrived.append(Arrived(made, passes=why))
            return
        event = self._translators["Pod"].listed(_encoded({**whole, "status": _NEW}, number, at), "")
        if isinstance(event, DeltaRefused):
            answered.refused.append(refused_at(made, made.field(event.field), event.message))
            return
        assert isinstance(event, PodApplied)
        for gate in event.pod.gates:
            said = f"{made.title} starts once its scheduling gate {gate} is taken off, too"
            if gate not in _OF_GATELOG and said not in answered.warnings:
                answered.warnings.append(said)
        answered.arrived.append(Arrived(made, event.pod))

    def _refused(self, made: MadePod, response: review.Response, answered: Answered) -> bool:
        for one in response.warnings:
            if one not in answered.warnings:
                answered.warnings.append(one)
        if response.allowed:
            return False
        for cause in (response.status or {})["details"]["causes"]:
            answered.refused.append(refused_at(made, made.field(cause["field"]), cause["message"]))
        return True


_OF_GATELOG = (ADMISSION_GATE, TOPOLOGY_GATE)
_NEW = {"phase": "Pending"}
_NEWER = 2**62
"""A resource version above any in the log: objects with older versions count as known."""


def _encoded(raw: dict[str, Any], number: int, at: datetime) -> bytes:
    """Return an object as the API server stores it, created as the `number`-th of its kind."""
    meta = {k: v for k, v in raw["metadata"].items() if k not in _OF_SERVER}
    given = {"uid": f"try-{number:05}", "resourceVersion": str(_NEWER + number)}
    stamp = {"creationTimestamp": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
    return msgspec.json.encode({"status": {}, **raw, "metadata": {**meta, **given, **stamp}})


def refused_at(one: Made, field: str, message: str) -> Refusal:
    """Return the refusal of a field, with its place in the manifest."""
    return Refusal(object=one.title, line=one.line, field=field, message=message)


def _said(asked: Any) -> Any:
    """Return the result of a coroutine that waits for nothing: all answers are at hand."""
    try:
        asked.send(None)
    except StopIteration as done:
        return done.value
    asked.close()
    raise RuntimeError("the webhook waits for something that a world does not have")


def _patch(response: review.Response) -> tuple[PatchOp, ...]:
    if not response.patch:
        return ()
    return msgspec.json.decode(base64.b64decode(response.patch), type=tuple[PatchOp, ...])
