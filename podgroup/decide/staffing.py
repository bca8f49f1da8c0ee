"""Rules about places: which pods fill them, which are beyond, which failures have been made good.

Per role with count n, A active and I inactive pods (terms of KEP-976 "Retrying Failed Pods"):

    excess    solid pods beyond n (active, not on their way out): deleted, by the active order, last
              first. A pod that is terminating but still bound keeps its place (B4): its successor
              waits gated instead of being deleted.
    replaced  A + I - n inactive pods, at most I: released, failed first (B20)
    absent    n - A: while positive the group is short of pods

In groups that declare sets or roles, whose pods may come one by one while it runs, n is for the
last two the most places that were taken at once; excess is beyond the declared count.

Rules, in this order: excess, own (new pods become owners of the Workload), replace. A failed pod is
released only when no pod is missing among the owners, so that the Workload is never owned by
nothing. Pods of a role that the Workload does not have stay gated (B7).

Invariant: deleting excess never takes a role below its count.
"""

from podgroup.changes import WORKLOAD
from podgroup.commands import FinalizePod, UpdateWorkload
from podgroup.decide.closing import delete_excess
from podgroup.decide.context import Deciding, normal, pod_ref, workload_free, workload_ref
from podgroup.decide.order import active_key, replace_key, start_key
from podgroup.decide.rule import Line, Rule
from podgroup.decide.timing import may_run
from podgroup.members import Flag
from podgroup.names import EVENT_OWNER_REFERENCES_ADDED, MAX_OWNERS, RULE_REPLACED
from podgroup.records import Peaked, Shortened
from podgroup.view import Group, Members, Role


def staffing(d: Deciding, group: Group) -> None:
    """Run the rules of this module on a composed group."""
    if not group.composition.done or group.ending.finish is not None or group.mirror.lost:
        return
    if group.single:
        return
    members, roles = d.members(group), group.roles
    names = sorted(roles)
    for name in names:
        _excess(d, group, members, roles[name])
    if group.spec.dialect:
        _peaks(d, group)
    unowned = _own(d, group)
    if not unowned and members.count(Flag.INACTIVE):
        for name in names:
            _replace(d, group, roles[name])
    _shortage(d, group)


def _excess(d: Deciding, group: Group, members: Members, role: Role) -> None:
    limit = role.count - role.succeeded_gone
    if not role.count or members.count(Flag.SOLID, role.name) <= limit:
        return
    pods = sorted((d.pod(u) for u in members.with_flags(Flag.SOLID, role.name)), key=active_key)
    for pod in pods[limit:]:
        if pod.free:
            delete_excess(
                d, group, pod, f"role {role.name} has {role.count} places, this one is beyond"
            )


def _own(d: Deciding, group: Group) -> bool:
    """Make new pods owners of the Workload; return whether a pod is still missing."""
    workload = group.mirror.workload
    if workload is None:
        return True
    members = d.members(group)
    if not members.sets[Flag.UNOWNED]:
        return False
    room = MAX_OWNERS - len(members.owned)
    if room <= 0:
        return False
    missing = [
        pod
        for pod in (d.pod(uid) for uid in members.listed(Flag.UNOWNED))
        if pod.role in group.roles and group.roles[pod.role].count
    ]
    if not missing:
        return False
    if workload_free(group):
        chosen = sorted(missing, key=start_key)[:room]
        d.emit(
            group,
            "own",
            "OwnerReferencesAdded",
            f"{len(chosen)} new pods own the Workload",
            UpdateWorkload(
                target=workload_ref(group),
                add_owners=tuple(pod_ref(pod) for pod in chosen),
                events=normal(
                    EVENT_OWNER_REFERENCES_ADDED, f"Added {len(chosen)} owner reference(s)"
                ),
            ),
        )
    return True


def _replace(d: Deciding, group: Group, role: Role) -> None:
    members = d.members(group)
    inactive = members.count(Flag.INACTIVE, role.name)
    active = members.count(Flag.ACTIVE, role.name) + role.succeeded_gone
    over = min(inactive, inactive + active - _places(group, role))
    if not role.count or over <= 0:
        return
    pods = sorted(
        (d.pod(u) for u in members.listed(Flag.INACTIVE) if members.roles[u] == role.name),
        key=replace_key,
    )
    for pod in pods[:over]:
        if pod.held and pod.free and not may_run(d, pod):
            d.emit(
                group,
                RULE_REPLACED,
                "PodReplaced",
                f"pod {pod.view.name} ended and another pod of role {role.name} has its place",
                FinalizePod(target=pod_ref(pod)),
            )


def _peaks(d: Deciding, group: Group) -> None:
    """Declared roles: remember how many places were taken at once in this admission.

    A worker that its driver never created is not missing; one that failed is. Before the group is
    admitted, and again after it was evicted, only what comes first has to be there.
    """
    members = d.members(group)
    for role in group.roles.values():
        active = min(role.count, members.count(Flag.ACTIVE, role.name) + role.succeeded_gone)
        peak = max(role.peak, active) if group.quota.holding is not None else active
        if peak != role.peak:
            d.record(Peaked(group.id, role.name, peak))


def _places(group: Group, role: Role) -> int:
    """Return how many places of a role count as given: those that were taken, if it declares."""
    return max(role.need, role.peak) if group.spec.dialect else role.count


def absent(d: Deciding, group: Group) -> int:
    """Return how many pods are missing; with fast admission a role with any pod misses none."""
    members = d.members(group)
    missing = 0
    for name, role in group.roles.items():
        active = members.count(Flag.ACTIVE, name) + role.succeeded_gone
        if group.spec.dialect:
            missing += max(0, _places(group, role) - active) if role.count else 0
        elif group.spec.fast:
            missing += 1 if role.count and not active else 0
        else:
            missing += max(0, role.count - active)
    return missing


def _shortage(d: Deciding, group: Group) -> None:
    """Keep `group.short`, from which condition WaitingForReplacementPods is written.

    While short the reason stays what it was when the shortage began, unless an eviction says more.
    """
    short, evicted = group.composition.short, group.requeueing.evicted
    if not absent(d, group):
        short = None
    elif evicted is not None:
        short = (evicted.reason, evicted.message)
    elif short is None:
        short = ("PodsFailed", "Some Failed pods need replacement")
    if short != group.composition.short:
        d.record(Shortened(group.id, short))


STAFF = Rule(
    run=staffing,
    reads=WORKLOAD,
    says=(
        Line("excess", "a pod is beyond its role's count", "deletes it"),
        Line("own", "a new pod of an admitted group", "makes it an owner of the Workload"),
        Line(
            "replace",
            "a pod of the same role has a failed pod's place",
            "releases the failed one, the one that failed first before others",
        ),
    ),
)
