"""Fold of queue objects, priority classes and namespaces: the objects that admission looks up.

Theory. These objects are few and change rarely, so a change may go over all groups once: groups
whose admission can differ are touched, and the ClusterQueue is marked for a full look.

Invariant: of two versions of one object the newer stays, in whatever order they come.
"""

from typing import Any

import msgspec

from podgroup.fold import marking, nodes
from podgroup.fold import sentences as say
from podgroup.fold.common import listed, mark, note, see_version, stale
from podgroup.log.events import ObjectDeleted
from podgroup.log.journal import At, QuotaRow, UsageRow
from podgroup.model.commands import WriteQueueStatus
from podgroup.model.objects import (
    DEVICE_KINDS,
    QUEUE_KINDS,
    ClusterQueueView,
    CohortView,
    FlavorView,
    LocalQueueView,
    Marked,
    NodeView,
    QueueObject,
    TopologyView,
    kind_of,
)
from podgroup.model.standing import Amount, Standing, StandingReport
from podgroup.state.facts import asks_for_nodes
from podgroup.state.group import Group
from podgroup.state.quota import QueueKey
from podgroup.state.world import World


def object_applied(world: World, here: At, view: QueueObject, relist: str) -> bool:
    """Fold a created, changed or listed object; tell whether admission reads what changed."""
    if isinstance(view, NodeView) and not asks_for_nodes(world):
        return False
    kind = kind_of(view)
    in_frame = listed(world, kind, relist, view.uid)
    store, key = world.objects_of(kind), QUEUE_KINDS[kind].key(view.namespace, view.name)
    known = store.get(key)
    version = known.resource_version if known is not None and known.uid == view.uid else ""
    if stale(world, kind, view.resource_version, version, in_frame):
        return False
    if isinstance(view, Marked):
        view = marking.carried(world, known, view)
    elif isinstance(view, NodeView | TopologyView):
        placing = known if isinstance(known, NodeView | TopologyView) else None
        view = nodes.carried(world, here, placing, view)
    store[key] = view
    world.journal.objects.add((kind, view.namespace, view.name))
    if isinstance(view, ClusterQueueView):
        before = known if isinstance(known, ClusterQueueView) else None
        _quota(world, here, view.name, before, view)
    if isinstance(view, Marked | CohortView | LocalQueueView):
        world.unannounced[(kind, view.namespace, view.name)] = None
    if isinstance(view, ClusterQueueView | LocalQueueView):
        _note_stop(world, here, kind, known, view)
    if known is not None and _asked_for(known) == _asked_for(view):
        return False  # admission reads neither its status nor other changed fields
    _concerns(world, kind, view.namespace, view.name)
    if isinstance(view, FlavorView):
        nodes.forget_unasked(world, here)
    return True


def object_deleted(world: World, here: At, event: ObjectDeleted) -> QueueObject | None:
    """Fold the end of an object, and return the object; None if it was unknown."""
    kind, namespace, name = event.kind, event.namespace, event.name
    see_version(world, kind, event.resource_version)
    store, key = world.objects_of(kind), QUEUE_KINDS[kind].key(namespace, name)
    known = store.get(key)
    if known is None or known.uid != event.uid:
        return None
    del store[key]
    if isinstance(known, Marked):
        marking.forgotten(world, known)
    if isinstance(known, ClusterQueueView):
        _quota(world, here, name, known, None)
    if isinstance(known, NodeView | TopologyView):
        nodes.written(world, known, here)
    world.journal.objects.add((kind, namespace, name))
    if (kind, namespace, name) in world.standings:
        record_status(world, here, (kind, namespace, name), "", None)
    _concerns(world, kind, namespace, name)
    if isinstance(known, FlavorView):
        nodes.forget_unasked(world, here)
    return known


def places_known(world: World) -> None:
    """Let Topologies count from now on: all nodes are known."""
    for name in world.topologies:
        _concerns(world, "Topology", "", name)


def _quota(
    world: World, here: At, name: str, old: ClusterQueueView | None, new: ClusterQueueView | None
) -> None:
    """Write down the nominal quota of a ClusterQueue, if it changed."""
    before, after = nominal_quota(old), nominal_quota(new)
    if before != after:
        row = QuotaRow(name, here.position, here.at, after)
        world.journal.quotas[name, here.position] = row


def nominal_quota(view: ClusterQueueView | None) -> dict[str, dict[str, int]]:
    """Return flavor -> resource -> nominal quota; {} for a queue that does not exist."""
    return {
        flavor.name: {resource: quota.nominal for resource, quota in flavor.resources.items()}
        for group in (view.groups if view is not None else ())
        for flavor in group.flavors
    }


def _asked_for(view: QueueObject) -> QueueObject:
    if isinstance(view, Marked):
        view = msgspec.structs.replace(view, marked=False, marking="")
    if isinstance(view, ClusterQueueView | CohortView | LocalQueueView):
        return msgspec.structs.replace(view, resource_version="", active=())
    if kind_of(view) in DEVICE_KINDS:
        return msgspec.structs.replace(view, resource_version="", uid="")
    return msgspec.structs.replace(view, resource_version="")


def _note_stop(
    world: World, here: At, kind: str, known: Any, view: ClusterQueueView | LocalQueueView
) -> None:
    """Write down that a person stopped or resumed a queue, if a reason was given."""
    before = ("None", "") if known is None else (known.stop_policy, known.because)
    if not view.because or before == (view.stop_policy, view.because):
        return
    happened = "QueueResumed" if view.stop_policy == "None" else "QueueStopped"
    if view.stop_policy == before[0]:
        happened = "QueueCreated" if known is None else "QueueReasonGiven"
    place = f"{view.namespace}/{view.name}" if view.namespace else view.name
    message = say.queue_stopped(kind, place, view.because)
    note(world, here, happened, reason=view.stop_policy, message=message)


def expect_condition(world: World, command: WriteQueueStatus) -> None:
    """Give a queue the condition that was decided, until a view of the object shows it."""
    on, said = command.target, command.condition
    store, key = world.objects_of(on.kind), QUEUE_KINDS[on.kind].key(on.namespace, on.name)
    known = store.get(key)
    if known is not None and known.uid == on.uid:
        active = (said.status, said.reason, said.message)
        store[key] = msgspec.structs.replace(known, active=active)
        world.journal.objects.add((on.kind, on.namespace, on.name))


def record_status(
    world: World, here: At, queue: QueueKey, uid: str, standing: Standing | None
) -> None:
    """Take over the standing of a queue or cohort that was reported, and write it to the ledger."""
    if standing is not None:
        world.meta.counted_at = here.at
    journal, known = world.journal, world.standings.get(queue)
    if known is not None and known.standing is not None:
        for amount in known.standing.amounts:
            key = (*queue, amount.flavor, amount.resource, known.seq)
            journal.usage[key] = _usage(queue, amount, known, here)
    now = StandingReport(uid, here.position, here.at, standing)
    journal.standings[queue] = now
    if standing is None:
        world.standings.pop(queue, None)
        return
    world.standings[queue] = now
    for amount in standing.amounts:
        key = (*queue, amount.flavor, amount.resource, now.seq)
        journal.usage[key] = _usage(queue, amount, now)


def _usage(
    queue: QueueKey, amount: Amount, report: StandingReport, until: At | None = None
) -> UsageRow:
    kind, namespace, name = queue
    return UsageRow(
        kind=kind,
        namespace=namespace,
        name=name,
        amount=amount,
        standing=report.standing or Standing(),
        from_at=report.at,
        from_seq=report.seq,
        to_at=until.at if until is not None else None,
        to_seq=until.position if until is not None else None,
    )


def mark_conditions_stale(world: World) -> None:
    """Have the conditions of all queues looked at, since an object that they depend on changed."""
    world.unannounced.update(
        dict.fromkeys(("ClusterQueue", "", name) for name in world.cluster_queues)
    )
    world.unannounced.update(dict.fromkeys(("ResourceFlavor", "", name) for name in world.flavors))
    world.unannounced.update(dict.fromkeys(("AdmissionCheck", "", name) for name in world.checks))
    world.unannounced.update(dict.fromkeys(("Cohort", "", name) for name in world.cohorts))
    world.unannounced.update(dict.fromkeys(("LocalQueue", *key) for key in world.local_queues))


def _concerns(world: World, kind: str, namespace: str, name: str) -> None:
    """Touch the groups whose admission may now be decided otherwise."""
    if kind in DEVICE_KINDS:
        return  # `fold.claims` knows which groups these concern
    if kind == "Node":
        world.quotas.objects[kind, namespace, name] = None
        return
    if kind == "StatefulSet":
        there = (g for g in world.groups.values() if g.namespace == namespace)
        for identity in sorted(g.id for g in there if g.spec.owner_name == name):
            mark(world, identity)
        return
    if kind == "AdmissionCheck":
        for queue in sorted(world.cluster_queues):
            if name in world.cluster_queues[queue].checks:
                _concerns(world, "ClusterQueue", "", queue)
        return
    if kind in ("ClusterQueue", "Cohort", "ResourceFlavor", "Topology"):
        mark_conditions_stale(world)
        world.quotas.mark_all()
    elif kind == "LocalQueue":
        world.quotas.mark((kind, namespace, name))
    if kind in ("Cohort", "ResourceFlavor", "Topology"):
        world.quotas.recall()
    world.quotas.objects[kind, namespace, name] = None
    # In an order that a restart does not change.
    for group in sorted(world.groups.values(), key=lambda g: g.id):
        if group.ending.finish is not None:
            continue
        if kind in ("WorkloadPriorityClass", "PriorityClass"):
            if not group.composition.done:
                mark(world, group.id)
        elif kind == "LocalQueue":
            if group.spec.queue == name and group.namespace == namespace:
                mark(world, group.id)
        elif kind == "ResourceFlavor":
            # Pods that are to start in a flavor wait while it does not exist.
            if group.quota.holding is not None and _uses(group, name):
                mark(world, group.id)
        elif kind == "Namespace":
            if group.namespace == name and group.quota.holding is None:
                mark(world, group.id)
        elif kind == "ClusterQueue":
            local = world.local_queues.get((group.namespace, group.spec.queue))
            holds = (
                group.quota.holding is not None
                and group.quota.holding.admission.cluster_queue == name
            )
            if holds or (local is not None and local.cluster_queue == name):
                mark(world, group.id)


def _uses(group: Group, flavor: str) -> bool:
    assignments = (
        group.quota.holding.admission.assignments if group.quota.holding is not None else ()
    )
    return any(flavor in assignment.flavors.values() for assignment in assignments)
