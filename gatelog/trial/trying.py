"""A manifest tried in a world: read, passed or refused, decided on, with helpful changes.

Invariant: decisions change the given world, which the caller throws away; nothing is written.
"""

from collections.abc import Callable, Collection
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from gatelog.forecast.estimating import places
from gatelog.trial.answers import Answer, Refusal, Start, TriedGroup, Verdict, worst
from gatelog.trial.changes import Chances, changes
from gatelog.trial.deciding import decide, group_of
from gatelog.trial.door import Answered, Arrived, Door, refused_at
from gatelog.trial.manifests import MadePod, Unreadable, read_manifest
from ingest.webhook.review import UserInfo
from podgroup.fold.relists import synced, unlisted
from podgroup.log.events import Event
from podgroup.model.ids import GroupID
from podgroup.model.objects import PodView
from podgroup.state.group import SINGLE
from podgroup.state.world import World
from runtime.settings import Settings

_NAMESPACE = "metadata.namespace"
MOST_CHANGED = 3
"""Groups of a manifest for which changes and starts are searched."""
StartOf = Callable[[GroupID, int], Start]
"""Returns when a waiting group starts, at a place in its line."""
Starts = Callable[[World, datetime], StartOf]
"""Prepares that for a world at a moment."""


class NotKnown(Exception):
    """No decision is possible yet; the message says what is awaited."""


class Asked(Struct, frozen=True, kw_only=True):
    """A trial: the text, the namespace of objects without one, the moment, and the user.

    With `bound` objects of other namespaces are refused.
    """

    text: str
    namespace: str
    at: datetime
    user: UserInfo = UserInfo()
    bound: bool = False


def tried(world: World, asked: Asked, settings: Settings, starts: Starts | None = None) -> Answer:
    """Return the answer to a manifest in a world (`state.decidable`), which is changed.

    Raises:
        NotKnown: nothing is decided yet at that moment.
    """
    if not synced(world):
        kinds = ", ".join(sorted(unlisted(world))) or "settings"
        raise NotKnown(f"nothing is decided yet: not known completely are {kinds}")
    at = max(asked.at, world.meta.at or asked.at)
    door = Door(world, settings)
    seq = world.meta.position
    try:
        manifest = read_manifest(asked.text, asked.namespace, door.labelled)
    except Unreadable as error:
        refusal = Refusal(
            object=error.title, line=error.line, field=error.field, message=str(error)
        )
        return Answer(verdict="refused", at=at, seq=seq, mode=world.mode, refusals=(refusal,))
    answered = Answered([], [], manifest.warnings)
    pods = _makeable(world, manifest.pods, asked, answered)
    said = door.ask(pods, at, asked.user)
    for one in manifest.seen:
        if elsewhere := _elsewhere(one.raw["metadata"]["namespace"], asked):
            answered.refused.append(refused_at(one, one.field(_NAMESPACE), elsewhere))
    seen, unread = door.see(manifest.seen, at)
    refusals = [*answered.refused, *said.refused, *unread]
    groups = [] if refusals else _groups(world, said.arrived, seen, at, starts)
    verdicts: list[Verdict] = ["refused"] if refusals else [one.verdict for one in groups]
    return Answer(
        verdict=worst(verdicts),
        at=at,
        seq=seq,
        mode=world.mode,
        refusals=tuple(dict.fromkeys(refusals)),
        warnings=(*answered.warnings, *said.warnings),
        groups=tuple(groups),
        passed_over=tuple(manifest.passed_over),
    )


def _makeable(world: World, pods: list[MadePod], asked: Asked, answered: Answered) -> list[MadePod]:
    """Return pods that may be created; the refusals of others go into `answered`."""
    views = [pod.view for pod in world.pods.values()]
    there = {(view.namespace, view.name) for view in views}
    jobs = {
        (view.namespace, owner.name)
        for view in views
        if view.deleted_at is None
        for owner in view.owners
        if owner.kind == "Job"
    }
    known: dict[str, list[str]] = {}
    found: list[MadePod] = []
    for pod in pods:
        meta = pod.raw["metadata"]
        namespace, name = meta["namespace"], meta["name"]
        wrong = _wrong(world, pod, asked, there, jobs)
        if wrong is not None:
            answered.refused.append(wrong)
        elif pod.controller and pod.named and (namespace, name) in there:
            known.setdefault(pod.title, []).append(name)
        else:
            found.append(pod)
    for pod in pods:
        if (called := known.pop(pod.title, None)) is None:
            continue
        if any(one.title == pod.title for one in found):
            answered.warnings.append(
                f"{pod.title}: {', '.join(called[:5])}{', …' * (len(called) > 5)} "
                "there already: not tried"
            )
        else:
            said = "is there already, with all its pods: choose another name"
            answered.refused.append(refused_at(pod, "metadata.name", said))
    return found


def _wrong(
    world: World,
    pod: MadePod,
    asked: Asked,
    there: Collection[tuple[str, str]],
    jobs: Collection[tuple[str, str]],
) -> Refusal | None:
    """Return why the API server or the question does not let a pod be made, as far as is known."""
    meta = pod.raw["metadata"]
    namespace, name = meta["namespace"], meta["name"]
    if elsewhere := _elsewhere(namespace, asked):
        return refused_at(pod, _NAMESPACE, elsewhere)
    if namespace not in world.namespaces:
        said = f"namespace {namespace} is not there: make it first, with its LocalQueue"
        return refused_at(pod, _NAMESPACE, said)
    if not pod.controller and pod.named and (namespace, name) in there:
        said = f"pod {namespace}/{name} is there already: choose another name"
        return refused_at(pod, "metadata.name", said)
    for owner in meta.get("ownerReferences") or () if pod.controller == "Job" else ():
        if (namespace, owner["name"]) in jobs:
            said = f"Job {namespace}/{owner['name']} is there already: choose another name"
            return refused_at(pod, "metadata.name", said)
    spec = pod.raw.get("spec")
    name_of_class = spec.get("priorityClassName") if isinstance(spec, dict) else None
    if isinstance(name_of_class, str) and name_of_class and name_of_class not in world.classes:
        said = f"no PriorityClass has the name {name_of_class}: kubectl get priorityclasses"
        return refused_at(pod, pod.field("spec.priorityClassName"), said)
    return None


def _elsewhere(namespace: object, asked: Asked) -> str:
    """Say that an object is of a namespace that is not asked about, "" if it may be tried."""
    if not asked.bound or namespace == asked.namespace:
        return ""
    return f"is {namespace}: objects of namespace {asked.namespace} can be tried here"


def _groups(
    world: World,
    arrived: list[Arrived],
    seen: list[Event],
    at: datetime,
    starts: Starts | None,
) -> list[TriedGroup]:
    groups = [_passing(one) for one in arrived if one.view is None]
    views = [one.view for one in arrived if one.view is not None]
    if views:
        groups += _decided(world, views, seen, at, starts)
    return groups


def _passing(one: Arrived) -> TriedGroup:
    meta = one.made.raw["metadata"]
    return TriedGroup(
        namespace=meta["namespace"],
        name=meta["name"],
        kind=SINGLE,
        pods=1,
        verdict="passes",
        said=(one.passes,),
    )


def _decided(
    world: World,
    views: list[PodView],
    seen: list[Event],
    at: datetime,
    starts: Starts | None,
) -> list[TriedGroup]:
    deciding = world.quotas.deciding
    before = None if deciding is None else Chances(deciding.scheduler, at.timestamp(), 0)
    decided = decide(world, views, at, seen)
    uids = {view.uid for view in views}
    positions = places(world) if before is not None else {}
    found = [group_of(world, decided, g, uids, positions.get(g, 0)) for g in decided.groups]
    if before is None:
        return found
    waiting = [n for n, g in enumerate(found) if g.verdict == "waits" and _for_quota(g)]
    waiting = waiting[:MOST_CHANGED]
    after = before
    if waiting and len(found) > 1:  # the others of the manifest keep their quota
        after = Chances(world.quotas.scheduler, at.timestamp(), decided.position)
    start_of = None
    if starts is not None and not all(found[number].blocked for number in waiting):
        start_of = starts(world, at)
    for number in waiting:
        group, identity = found[number], decided.groups[number]
        # Its victims still hold quota in the state before it came.
        chances = before if group.victims else after
        group = replace(group, changes=tuple(changes(world, identity, chances)))
        if start_of is not None and not group.blocked:
            group = replace(group, start=start_of(identity, group.position))
        found[number] = group
    return found


def _for_quota(group: TriedGroup) -> bool:
    """Return whether a group waits for quota or place, even for ever."""
    return bool(group.position or group.victims or (group.blocked and group.cluster_queue))
