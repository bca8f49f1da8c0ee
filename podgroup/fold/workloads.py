"""Fold of Workload deltas: the group that a Workload belongs to, what it says, what is observed.

Theory. A Workload belongs to a life of a group when it has the group's name and the marker of a
group Workload, or when the single pod owns it. Any other Workload is kept aside, so that a name
conflict can be seen. In kueue mode the Workload's status *is* the admission. In builtin mode the
status is our mirror, and only deletion, `spec.active`, an end and (for a group that was started
before the log has it) an admission are taken from it.

Invariant: `group.workload` is the newest version seen, or None without such an object.
"""

from msgspec.structs import replace

from podgroup.fold import sentences as say
from podgroup.fold.common import (
    end_expectation,
    listed,
    mark,
    new_members,
    note,
    see_version,
    set_owners,
    stale,
    write_places,
)
from podgroup.fold.group import composition, ending, mirror, quota, requeueing, spec
from podgroup.fold.lives import retire
from podgroup.fold.placing import needed, replace_all
from podgroup.fold.reservations import ADOPTED, release, take_over_admission
from podgroup.log.journal import At
from podgroup.model.commands import Admission
from podgroup.model.ids import PodUID, group_id, newer
from podgroup.model.names import (
    ADMITTED,
    EVICTED,
    FINISHED,
    IS_GROUP_WORKLOAD,
    JOB_UID,
    SINGLE_PODSET,
    WAITING_FOR_REPLACEMENT_PODS,
    WORKLOAD_FINALIZER,
)
from podgroup.model.objects import Since, WorkloadView
from podgroup.model.policy import reserves_starts
from podgroup.state.changes import EVERYTHING, of_new_workload, of_workload, same_but_status
from podgroup.state.facts import (
    KUEUE,
    cluster_queue_name,
    condition,
    is_true,
    priority_class_of,
    runs_since_before,
)
from podgroup.state.group import (
    GROUP,
    SINGLE,
    Eviction,
    Finish,
    Group,
    Mirror,
    Role,
)
from podgroup.state.world import World


def workload_applied(world: World, here: At, view: WorkloadView, relist: str) -> None:
    """Fold a created, changed or listed Workload."""
    in_frame = listed(world, "Workload", relist, view.uid)
    key = (view.namespace, view.name)
    group = _owner(world, view)
    known = group.mirror.workload if group is not None else world.workloads.get(key)
    version = known.resource_version if known is not None and known.uid == view.uid else ""
    if stale(world, "Workload", view.resource_version, version, in_frame):
        return
    if group is None and _left_behind(world, view):
        _open_for(world, here, view)
        return
    if group is None:
        world.workloads[key] = view
        world.journal.objects.add(("Workload", *key))
        _mark_by_name(world, key)
        return
    link(world, here, group, view)


def claim(world: World, here: At, uid: str) -> None:
    """Give the group of a pod the Workload that was seen before the pod."""
    pod = world.pods.get(uid)
    if pod is None:
        return
    group = world.groups[pod.group]
    key = (group.namespace, group.mirror.name)
    view = world.workloads.get(key)
    if view is None or group.mirror.workload is not None or not belongs(group, view):
        return
    del world.workloads[key]
    world.journal.objects.add(("Workload", *key))
    link(world, here, group, view)


def _left_behind(world: World, view: WorkloadView) -> bool:
    """Tell whether a Workload is being deleted, waits for our finalizer, and has lost its pods.

    Garbage collection deletes a Workload whose owners are gone. Only Workloads of pods are meant.
    """
    if view.deleted_at is None or WORKLOAD_FINALIZER not in view.finalizers:
        return False
    if (view.namespace, view.name) in world.by_workload:
        return False  # another client's Workload, in the way of a group of ours
    for_pods = view.annotations.get(IS_GROUP_WORKLOAD) == "true" or JOB_UID in view.labels
    owners = {owner.kind for owner in view.owners} | ({"Pod"} if view.owner_pods else set())
    if not for_pods and owners != {"Pod"}:
        return False
    if any(owner.controller and owner.kind != "Pod" for owner in view.owners):
        return False
    return not any(uid in world.pods for uid in view.owner_uids)


def _open_for(world: World, here: At, view: WorkloadView) -> None:
    """Open a life for a Workload that outlived its pods, so that the rules release it."""
    kind = SINGLE if JOB_UID in view.labels else GROUP
    group = Group(
        id=group_id(kind, PodUID(view.uid)),
        namespace=view.namespace,
        name=view.name,
        kind=kind,
        created_at=here.at,
        created_seq=here.position,
        mirror=Mirror(name=view.name),
    )
    world.groups[group.id] = group
    world.lives.setdefault((kind, view.namespace, view.name), group.id)
    world.by_workload[(view.namespace, view.name)] = group.id
    new_members(world, group)
    note(world, here, "GroupSeen", group=group.id, reason=say.LEFT_BEHIND, message=view.name)
    link(world, here, group, view)


def workload_deleted(world: World, here: At, view: WorkloadView) -> None:
    """Fold the end of a Workload."""
    key = (view.namespace, view.name)
    see_version(world, "Workload", view.resource_version)
    other = world.workloads.get(key)
    if other is not None and other.uid == view.uid:
        del world.workloads[key]
        world.journal.objects.add(("Workload", *key))
        _mark_by_name(world, key)
    identity = world.by_workload.get(key)
    group = world.groups.get(identity) if identity is not None else None
    if group is None or group.mirror.workload is None or group.mirror.workload.uid != view.uid:
        return
    workload_is_gone(world, here, group)


def workload_is_gone(world: World, here: At, group: Group) -> None:
    """A group's Workload is gone: a watch saw it go, or two writes in a row did not find it."""
    name = group.mirror.name
    note(world, here, "WorkloadGone", group=group.id, message=say.workload(name))
    mirror.gone(group, lost=group.ending.finish is None and group.composition.done)
    end_expectation(world, group, None)
    set_owners(world, group, frozenset())
    mark(world, group.id)
    retire(world, here, group.id)


def unlink(world: World, group: Group) -> None:
    """Forget a group's Workload that was not deleted: nothing is stopped."""
    mirror.unserved(group)
    end_expectation(world, group, None)
    set_owners(world, group, frozenset())
    mark(world, group.id)


def _mark_by_name(world: World, key: tuple[str, str]) -> None:
    # The group of this name was, or is now, blocked by another client's Workload.
    identity = world.by_workload.get(key)
    if identity is not None:
        mark(world, identity)


def _owner(world: World, view: WorkloadView) -> Group | None:
    identity = world.by_workload.get((view.namespace, view.name))
    group = world.groups.get(identity) if identity is not None else None
    if group is None:
        return None
    # A Workload stays its group's, whatever people do to its annotations and owners.
    known = group.mirror.workload is not None and group.mirror.workload.uid == view.uid
    return group if known or belongs(group, view) else None


def belongs(group: Group, view: WorkloadView) -> bool:
    """Tell whether a Workload of a group's name is the group's and not another client's."""
    if group.mirror.workload is not None and group.mirror.workload.uid == view.uid:
        return True
    if group.spec.prebuilt:
        # By its name the Workload's author said which pods are meant, unless another object
        # controls the Workload, or it was made for another pod.
        others = (owner for owner in view.owners if owner.controller and owner.kind != "Pod")
        made_for = view.labels.get(JOB_UID, "")
        ours = not group.single or not made_for or group.id.startswith(f"{group.kind}-{made_for}")
        return group.spec.prebuilt == view.name and ours and not any(others)
    if group.single:
        # The id of a single pod's life begins with its uid.
        return any(group.id.startswith(f"{group.kind}-{uid}") for uid in view.owner_uids)
    return view.annotations.get(IS_GROUP_WORKLOAD) == "true"


def link(world: World, here: At, group: Group, view: WorkloadView) -> None:
    """Take over a Workload as the group's, or a new version of it."""
    before, ranked_by = group.mirror.workload, priority_class_of(group)
    if before is not None and before.uid != view.uid:
        # Deleted and created anew while no watch ran: our writes went to the former Workload.
        note(world, here, "WorkloadGone", group=group.id, message=say.workload(before.name))
        mirror.replaced(group)
        end_expectation(world, group, None)
    refused = group.mirror.refused
    mirror.seen(group, view, first=before is None)
    if group.quota.holding is not None and priority_class_of(group) != ranked_by:
        world.quotas.news[group.id] = None
    bound = before.max_execution_s if before is not None else None
    if view.max_execution_s != bound and reserves_starts(world.policy):
        world.quotas.bounded(group.id)
    if before is None:
        note(world, here, "WorkloadSeen", group=group.id, message=say.workload(view.name))
    owned = _take_owners(world, group, before, view)
    expectation, made = group.mirror.expect, False
    if expectation is not None:
        version = expectation.result_version
        # The Workload exists, whatever became of the answer to its creation. The answer may never
        # come: a Workload that is deleted meanwhile keeps its name until we release it.
        made = expectation.action == "CreateWorkload" and before is None
        stays = expectation.action == "DeleteWorkload" and view.deleted_at is None
        if made or (version and not stays and not newer(version, view.resource_version)):
            end_expectation(world, group, None, indexed=False)
    # A Workload with an impossible amount composes no group, unless pods were started under it.
    usable = not view.problem or _stood(world, group, view)
    if not group.composition.done and view.deleted_at is None and usable:
        _adopt(world, here, group, view)
    if view.because and (before is None or view.because != before.because):
        happened = "GroupResumed" if view.active else "GroupStopped"
        note(world, here, happened, group=group.id, message=view.because)
    if "Workload" in world.meta.rewound:
        over = group.ending.finish is not None and not is_true(view, FINISHED)
        if over or (group.mirror.lost and view.deleted_at is None):
            world.meta.undone.add(group.id)
    if view.deleted_at is not None and group.ending.finish is None:
        if not group.mirror.lost:
            note(world, here, "WorkloadDeletionRequested", group=group.id)
        mirror.lost(group, True)
    _take_finish(world, here, group, view)
    if world.mode == "kueue":
        _take_admission(world, here, group, view)
    else:
        if before is None and group.quota.holding is None and group.ending.finish is None:
            # A Workload that is new and admitted has an admission of an earlier epoch.
            if _stood(world, group, view):
                take_over_admission(world, here, group, view, decided_by=ADOPTED)
            else:
                mirror.distrust_checks(group)
        if group.mirror.checks_stale and all(check.state == "Pending" for check in view.checks):
            mirror.trust_checks(group)
    changed = EVERYTHING
    if world.mode != "kueue" and before is None and made and not refused:
        changed = of_new_workload(world, group, view)
    elif world.mode != "kueue" and before and not owned and same_but_status(before, view):
        changed = of_workload(world, group)
    mark(world, group.id, changed)


def _stood(world: World, group: Group, view: WorkloadView) -> bool:
    """Tell whether a new Workload has an admission under which pods were started.

    Until the log has settings, or all pods of a restored cluster are listed, every admission counts
    (see `disbelieve`).
    """
    if not is_true(view, ADMITTED) or not view.cluster_queue:
        return False
    listing = world.meta.settings is None or "Pod" in world.meta.rewound
    return listing or runs_since_before(world, group)


def disbelieve(world: World, here: At, since: int = 0) -> None:
    """Release adopted admissions since position `since` under which no pod was started.

    Any user may create a Workload with any status, so its admission is believed only where pods run
    that bear the marks of a start. Lists come before the settings, so this is decided afterwards.
    """
    for identity in sorted(world.groups):
        group = world.groups[identity]
        holding = group.quota.holding
        if holding is None or holding.decided_by != ADOPTED or holding.seq < since:
            continue
        if not runs_since_before(world, group):
            release(world, here, group, "NeverStarted")


def _take_owners(
    world: World, group: Group, before: WorkloadView | None, view: WorkloadView
) -> bool:
    """Take over the owners, which may be a thousand and seldom change; tell whether they did."""
    if (
        before is not None
        and before.uid == view.uid
        and before.owner_pods == view.owner_pods
        and before.owners == view.owners
    ):
        return False
    return set_owners(world, group, frozenset(view.owner_uids))


def _adopt(world: World, here: At, group: Group, view: WorkloadView) -> None:
    """Take roles and counts from a Workload that existed before us."""
    for pod_set in view.pod_sets:
        name = pod_set.name
        if group.single and name == SINGLE_PODSET:
            name = next(iter(group.roles), name)
        role = group.roles.setdefault(name, Role(name=name))
        role.count = pod_set.count
        role.requests = role.requests or pod_set.requests
        role.topology = pod_set.topology
        role.need = needed(group, name, pod_set.count)
    composition.composed(group, view.priority or 0, view.created_at)
    composition.filled(group, sum(pod_set.count for pod_set in view.pod_sets))
    requeueing.queued(group, view.created_at)
    replace_all(world, group)
    # The Workload says it if pods are missing already, which is not new then.
    short = condition(view, WAITING_FOR_REPLACEMENT_PODS)
    is_short = short is not None and short.status == "True"
    missing = (short.reason, short.message) if short is not None and is_short else None
    composition.adopted_short(group, missing, ever=short is not None)
    if group.spec.serving:
        spec.queued(group, view.queue)
    note(world, here, "GroupComplete", group=group.id, reason="adopted", message=_counts(group))


def _counts(group: Group) -> str:
    return say.counts([(role.count, role.name) for role in group.roles.values() if role.count])


def _take_finish(world: World, here: At, group: Group, view: WorkloadView) -> None:
    finished = condition(view, FINISHED)
    if finished is None or finished.status != "True":
        return
    if group.ending.finish is None:
        finish = Finish(finished.reason, finished.message, here.at)
        at = finished.at or here.at
        ending.finished(group, finish, at, cluster_queue_name(world, group))
        note(world, here, "GroupFinished", group.id, "", finished.reason, finished.message)
        release(world, here, group, "Finished")
    ending.written(group)


def _take_admission(world: World, here: At, group: Group, view: WorkloadView) -> None:
    """Follow conditions Admitted and Evicted, and status.admission, since Kueue decides.

    An eviction that is seen together with its admission comes after it: an evicted group that holds
    quota has to stop, in whatever order and with whatever pause both were written.
    """
    evicted = condition(view, EVICTED)
    stops = evicted is not None and evicted.status == "True"
    if not stops and group.requeueing.evicted is not None and evicted is not None:
        requeueing.forgiven(group)
    if group.ending.finish is not None:
        return
    if view.cluster_queue:
        _follow_admission(world, here, group, view)
    if evicted is not None and stops:
        known = group.requeueing.evicted
        if known is None or known.reason != evicted.reason:
            requeueing.evicted(group, Eviction(evicted.reason, evicted.message, here.at))
            note(world, here, "GroupEvicted", group.id, "", evicted.reason, evicted.message)
    if not view.cluster_queue and group.quota.holding is not None:
        known = group.requeueing.evicted
        release(world, here, group, known.reason if known is not None else "NoReservation")


def _follow_admission(world: World, here: At, group: Group, view: WorkloadView) -> None:
    """Let a group hold the quota of status.admission, once its condition Admitted is True."""
    holding, admitted = group.quota.holding, is_true(view, ADMITTED)
    given = Admission(cluster_queue=view.cluster_queue, assignments=view.assignments)
    if holding is not None and _without_places(given) != _without_places(holding.admission):
        # The quota was given up and admitted again, and no delta shows that.
        release(world, here, group, "NoReservation")
        holding = None
    if holding is None:
        if admitted:
            take_over_admission(world, here, group, view, decided_by=KUEUE)
        return
    if given != holding.admission:
        # Kueue places pods, and moves them, after it has admitted their Workload.
        write_places(world, group, holding, until=here)
        since = Since(seq=here.position, at=here.at)
        holding = replace(holding, admission=given, moved=since)
        write_places(world, group, holding)
    quota.changed(group, replace(holding, admitted=admitted))


def _without_places(given: Admission) -> Admission:
    """Return an admission without the fields that Kueue changes while it holds."""
    plain = (replace(one, place=None, topology=False, usage={}) for one in given.assignments)
    return replace(given, assignments=tuple(plain))
