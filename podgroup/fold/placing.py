"""Which role of its group a pod has, where the group declares its roles instead of counting pods.

With a total count the shape of a pod is its role. With declared sets (KEP-976, story 3) the first
of these that applies decides:

1. label pod-group-role: the set of that name, or the set whose name differs by a final "s" alone,
   as in the KEP's own example (`worker`, `workers`). A label that names no set is a mistake to be
   reported: nothing is guessed then.
2. label kueue.x-k8s.io/podset of a pod that is past the gate: admission put it there
3. the pod that declares the sets belongs to the set without a template, if there is just one
4. shape: the template with the pod's role hash; else a template with equal requests, the first that
   has a free place; else a set without a template if the pod has the shape of the declaring pod

In the first draft's dialect the label is the role, as for pods whose owner makes up the group;
a declared count knows one shape, the pod's.
A gated pod that requests more than its role has quota for gets no place in the role.

Invariant: role names that begin with "?" are of pods without a place and never have a count.
"""

from podgroup.fold.common import index
from podgroup.fold.group import spec
from podgroup.log.dialects import (
    COUNT,
    OWNER,
    ROLES,
    SETS,
    TOTAL,
    declaration,
    dialects,
)
from podgroup.model.names import ADMISSION_GATE, POD_GROUP_ROLE, PODSET_LABEL
from podgroup.model.objects import PodView
from podgroup.model.roles import named_by
from podgroup.state.facts import UNPLACED, beyond, set_named
from podgroup.state.group import Group, Role
from podgroup.state.members import Flag
from podgroup.state.pod import Pod
from podgroup.state.world import World


def declare(world: World, group: Group) -> None:
    """Let the first pod that declares sets or roles speak for the group.

    The last declaration stays when no pod declares anything any more: a driver may be gone before
    its workers. A composed group keeps its roles, unless it was adopted from a Workload before
    anything was declared.
    """
    members = world.members[group.id]
    uid = members.declaring()
    if uid is None or group.single:
        return
    if group.spec.dialect == OWNER and len(members.totals) > 1:
        # A replica that is rolled out may have another size: its youngest pod has the new size.
        uid = max(members.flags, key=lambda one: (members.stamps[one][0], one))
    elif group.composition.done and (
        group.spec.dialect or any(TOTAL in dialects(k) for k in members.totals)
    ):
        return
    view = world.pods[uid].view
    key = declaration(view)
    if group.spec.declared == key or (group.spec.owner and dialects(key) != (OWNER,)):
        return
    spec.declared(group, view, key)
    if group.composition.done:
        for role in group.roles.values():
            role.need = needed(group, role.name, role.count)
    replace_all(world, group)


def needed(group: Group, role: str, count: int) -> int:
    """Return how many pods of a role must exist before the group may start."""
    if group.spec.dialect == SETS:
        found = set_named(group, role)
        return 0 if found is not None and found.template else count
    return min(1, count)


def replace_all(world: World, group: Group) -> None:
    """Place every pod of a group anew: one pass, each time the group's declaration changes."""
    for uid in list(world.members[group.id].flags):
        replace(world, group, world.pods[uid])


def replace(world: World, group: Group, pod: Pod) -> None:
    """Place a pod anew, and count it in its new role."""
    name = assigned_role(world, group, pod.view, pod.role)
    if name == pod.role:
        return
    old = group.roles[pod.role]
    new = group.roles.setdefault(name, Role(name=name, requests=pod.view.requests))
    for role, step in ((old, -1), (new, 1)):
        role.seen += step
        role.ungated += step * (pod.ungated_at is not None)
        role.succeeded += step * (pod.view.phase == "Succeeded")
        role.failed += step * (pod.view.phase == "Failed")
        role.excess += step * (pod.fate == "excess")
        role.replaced += step * (pod.fate == "replaced")
    world.members[group.id].drop(pod.view.uid)
    pod.role = name
    pod.larger = larger(group, name, pod.view)
    index(world, group, pod)


def assigned_role(world: World, group: Group, view: PodView, current: str = "") -> str:
    """Return the name of a pod's role; `current` is its present role."""
    if group.single:
        return current or view.role
    if not group.spec.dialect:
        # Shapes change when a pod is admitted; the role that it had when first seen stays.
        name = _adopted(group, view) or current.removeprefix(UNPLACED) or view.role
        # In builtin mode a role hash of the users' choice must not be a way around quota.
        over = world.mode == "builtin" and beyond(group, name, view)
        return UNPLACED + name if over else name
    if group.spec.dialect == COUNT:
        name = view.role if ADMISSION_GATE in view.gates else current or view.role
    elif group.spec.dialect in (ROLES, OWNER):
        name = view.labels.get(POD_GROUP_ROLE, "")
    else:
        name = _set_of(world, group, view, current)
    if not name:
        return UNPLACED + (view.labels.get(POD_GROUP_ROLE) or view.role)
    return UNPLACED + name if beyond(group, name, view) else name


def larger(group: Group, name: str, view: PodView) -> bool:
    """Tell whether a pod requests more of any resource than its role, for which quota is given."""
    known = group.roles[name].requests
    if view.requests is known or view.requests == known:
        return False
    return any(amount > known.get(r, 0) for r, amount in view.requests.items())


def labelled(group: Group, view: PodView) -> str:
    """Return the set that a pod's label names, "" if none."""
    return named_by(view.labels.get(POD_GROUP_ROLE, ""), [one.name for one in group.spec.sets])


def _adopted(group: Group, view: PodView) -> str:
    """Return the role of a pod without a declaration in an adopted Workload, "" if none."""
    if group.single or not group.composition.done or declaration(view):
        return ""
    labels = (view.labels.get(POD_GROUP_ROLE, ""), view.labels.get(PODSET_LABEL, ""))
    return next((name for name in labels if name in group.roles and group.roles[name].count), "")


def _set_of(world: World, group: Group, view: PodView, current: str) -> str:
    if view.labels.get(POD_GROUP_ROLE):
        return labelled(group, view)
    admitted = view.labels.get(PODSET_LABEL, "")
    if ADMISSION_GATE not in view.gates and set_named(group, admitted) is not None:
        return admitted
    bare = [one.name for one in group.spec.sets if not one.template]
    if view.sets_key and len(bare) == 1:
        return bare[0]
    return _by_shape(world, group, view, current) or (
        bare[0] if len(bare) == 1 and view.role == group.spec.declarer_role else ""
    )


def _by_shape(world: World, group: Group, view: PodView, current: str) -> str:
    templates = [one for one in group.spec.sets if one.template]
    same = [one for one in templates if one.role == view.role]
    same = same or [one for one in templates if one.requests == view.requests]
    names = [one.name for one in same]
    if current in names:
        return current
    members = world.members[group.id]
    free = (one.name for one in same if members.count(Flag.ACTIVE, one.name) < one.count)
    return next(free, names[0] if names else "")
