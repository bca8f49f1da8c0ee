"""Lives of groups: how they are opened, which pod speaks for them, how they end.

Theory. A pod opens a life, which ends when its last pod and its Workload are gone; the next pod of
that name opens another life. The first pod, the oldest that has not failed, speaks for the group.

Invariant: of a life that has ended only rows are left that are still to be written.
"""

from podgroup.fold.common import (
    end_shortage,
    end_start,
    index,
    new_members,
    note,
    write_admission,
    write_places,
)
from podgroup.fold.group import ending, explained, mirror, spec
from podgroup.fold.naming import claim_name, give_up_name
from podgroup.fold.placing import declare
from podgroup.log.journal import At, WaitRow
from podgroup.model.ids import GroupID, PodUID, group_id
from podgroup.model.names import (
    PRIORITY_CLASS,
    QUEUE_NAME,
    START_LEFT,
    prebuilt_name,
    workload_name,
)
from podgroup.model.objects import PodView
from podgroup.state.facts import cluster_queue_name
from podgroup.state.group import GROUP, Group, Mirror, Spec
from podgroup.state.members import Flag
from podgroup.state.world import World

MAX_EAGER = 2
"""Refusals of a Workload after which changes of pods no longer cause another try."""


def life(world: World, here: At, key: tuple[str, str, str], view: PodView, *, moved: bool) -> Group:
    """Return the present life of a group, or open a new life."""
    kind, namespace, name = key
    # A single pod is its own group: a successor of the same name is another life at once, even
    # while the first is still terminating under the same name (it cannot be, but a relist after a
    # gap may show the new pod before the old pod is known to be gone).
    identity = world.lives.get(key)
    if identity is not None and (kind == GROUP or identity == group_id(kind, PodUID(view.uid))):
        return world.groups[identity]
    # A pod that came from another group may have opened that group, which keeps its id.
    own = group_id(kind, PodUID(view.uid))
    group = Group(
        id=GroupID(f"{own}-{here.position}") if moved else own,
        namespace=namespace,
        name=name,
        kind=kind,
        created_at=here.at,
        created_seq=here.position,
        mirror=Mirror(name=name if kind == GROUP else workload_of(view)),
        spec=Spec(prebuilt="" if kind == GROUP else prebuilt_name(view.labels, view.annotations)),
    )
    world.groups[group.id] = group
    world.lives[key] = group.id
    claim_name(world, group)
    new_members(world, group)
    note(world, here, "GroupSeen", group=group.id, reason=kind, message=f"{namespace}/{name}")
    return group


def workload_of(view: PodView) -> str:
    """Return the name of a single pod's Workload."""
    prebuilt = prebuilt_name(view.labels, view.annotations)
    return prebuilt or workload_name(view.name, view.uid)


def retry_workload(group: Group) -> bool:
    """Let a refused Workload be tried again; tells whether it may."""
    # A rejected creation of the Workload is worth another try once a pod of the group changed, but
    # pods of a running group change all the time: after several refusals the timer decides.
    if group.mirror.workload is not None or group.mirror.refusals > MAX_EAGER:
        return False
    return bool(group.mirror.refused_version) and mirror.retried(group)


def lead(world: World, group: Group) -> bool:
    """Let the first pod speak for the group: queue, total count, class, flags.

    Returns whether anything changed.

    After composition the total stays (B8: a changed total is reported, and has no effect). The
    queue follows the pod while the group holds no quota, unless it is a composed serving group; the
    priority class always follows.
    """
    members = world.members[group.id]
    uid = members.first()
    if uid is None:
        return False
    asked = group.spec
    declared = asked.declared
    declare(world, group)
    news = asked.declared != declared
    labels = (view := world.pods[uid].view).labels
    # Pods that run without an admission stay charged to their queue, whatever is written later.
    settled = asked.queue and members.count(Flag.LIVE)
    composed = group.composition.done
    if group.quota.holding is None and not (asked.serving and composed) and not settled:
        queue = labels.get(QUEUE_NAME, "")
        news = spec.queued(group, queue) or news
    priority_class = labels.get(PRIORITY_CLASS, "")
    news = spec.classed(group, priority_class) or news
    if composed:
        return news
    return _lead_open(world, group, view) or news


def _lead_open(world: World, group: Group, view: PodView) -> bool:
    """Let the first pod speak for a group that is not composed yet."""
    serving = group.spec.serving
    news = spec.led(group, view)
    name = group.mirror.name
    if group.single and group.mirror.workload is None and name != workload_of(view):
        give_up_name(world, group)
        mirror.named(group, workload_of(view))
        claim_name(world, group)
    if serving != group.spec.serving:
        for other in list(world.members[group.id].flags):
            index(world, group, world.pods[other])
    return news or name != group.mirror.name


def report_timer(identity: GroupID) -> str:
    """Return the name of the timer after which a group's reason is reported to its users."""
    return f"report/{identity}/"


def retirable(world: World, group: Group) -> bool:
    """Tell whether no pod and no Workload of a group is left, and nothing is in flight."""
    if len(world.members[group.id]) or group.mirror.workload is not None:
        return False
    return group.mirror.expect is None and not group.departures.disowned


def retire(world: World, here: At, identity: GroupID) -> None:
    """End a life if no pod and no Workload of it is left."""
    group = world.groups.get(identity)
    if group is None or not retirable(world, group):
        return
    ending.gone(group, here.at, cluster_queue_name(world, group))
    explained.said(group, "Gone", None, None, None)
    if group.quota.holding is not None:
        write_admission(world, group, group.quota.holding, released_at=here, reason="Gone")
        write_places(world, group, group.quota.holding, until=here)
    note(world, here, "GroupGone", group=group.id)
    if group.explained.wait is not None:
        close_wait(world, here, group)
    end_shortage(world, here, group)
    end_start(world, here, group, START_LEFT)
    del world.groups[identity]
    del world.members[identity]
    key = (group.kind, group.namespace, group.name)
    if world.lives.get(key) == identity:
        del world.lives[key]
    give_up_name(world, group)
    world.quotas.dequeue(identity)
    world.quotas.discharge(identity)
    world.quotas.charged[identity] = None
    world.meta.timers.pop(report_timer(identity), None)
    world.dirty_groups.pop(identity, None)
    world.journal.groups.discard(identity)
    world.gone_groups[identity] = group


def renewable(world: World, group: Group) -> bool:
    """Tell whether all that is left of a group that is over are pods that came after its end.

    These pods came while pods of the ended life still existed, and bear the group's name. Once they
    alone are left, without a Workload, nothing of the ended life is left to account for.
    """
    members = world.members[group.id]
    if group.single or group.ending.finish is None or not len(members):
        return False
    if group.mirror.workload is not None or group.mirror.expect is not None:
        return False
    return members.count(Flag.GATED) == len(members)


def close_wait(world: World, here: At, group: Group) -> None:
    """End the interval in which the group waited for its current reason."""
    wait = group.explained.wait
    if wait is None:
        return
    world.journal.waits[(group.id, wait.from_seq)] = WaitRow(
        group=group.id,
        reason=wait.reason,
        message=wait.message,
        from_at=wait.from_at,
        from_seq=wait.from_seq,
        # The log's clock may have been set back; an interval never ends before it began.
        to_at=max(wait.from_at, here.at),
        to_seq=here.position,
    )
    explained.waits(group, None)
