"""The declaration of a group's pods (`state.Spec`)."""

from podgroup.log.dialects import (
    COUNT,
    OWNER,
    ROLES,
    SETS,
    declared_count,
    declared_owner,
    declared_roles,
    dialects,
)
from podgroup.model.names import (
    FAST_ADMISSION,
    GROUP_TOTAL_COUNT,
    MAX_INT32,
    SERVING,
    integer,
    prebuilt_name,
)
from podgroup.model.objects import DeclaredSet, PodView
from podgroup.state.group import Group, Spec


def declared(group: Group, view: PodView, key: str) -> None:
    """A pod that declares sets, roles or a count speaks for the group; `key` is its declaration."""
    spec = group.spec
    spec.declared = key
    spec.dialect = dialects(key)[0]
    spec.declarer_role = view.role
    spec.sets = view.sets if spec.dialect == SETS else ()
    spec.declared_roles = declared_roles(view) if spec.dialect == ROLES else 0
    spec.declared_count = declared_count(view) if spec.dialect == COUNT else 0
    if spec.dialect == OWNER:
        of = declared_owner(key)
        spec.owner = f"{of.kind}/{of.name}" if of is not None else ""
        spec.declared_count = of.size if of is not None else 0


def recounted(group: Group, sets: tuple[DeclaredSet, ...]) -> None:
    """The devices of the group's declared sets were counted anew."""
    if sets is not group.spec.sets:
        group.spec.sets = sets


def queued(group: Group, queue: str) -> bool:
    """The pods, or an adopted Workload, name a queue; tells if the queue is new."""
    if queue == group.spec.queue:
        return False
    group.spec.queue = queue
    return True


def classed(group: Group, priority_class: str) -> bool:
    """The first pod names a priority class; tells if the class is new."""
    if priority_class == group.spec.priority_class:
        return False
    group.spec.priority_class = priority_class
    return True


def led(group: Group, view: PodView) -> bool:
    """The first pod speaks for a group that is not composed; tells if anything is new."""
    spec = group.spec
    said = (spec.fast, spec.prebuilt, spec.total, spec.serving)
    several = not group.single
    spec.fast = several and view.annotations.get(FAST_ADMISSION) == "true"
    spec.prebuilt = prebuilt_name(view.labels, view.annotations)
    spec.total = _total(spec, view) if several else 1
    spec.serving = several and view.annotations.get(SERVING) == "true"
    return said != (spec.fast, spec.prebuilt, spec.total, spec.serving)


def _total(spec: Spec, view: PodView) -> int:
    """Return the number of pods that a group declares, 0 if it is not known."""
    if spec.dialect == SETS:
        return sum(one.count for one in spec.sets)
    if spec.dialect:
        return spec.declared_count
    total = integer(view.annotations.get(GROUP_TOTAL_COUNT, "")) or 0
    return total if 0 < total <= MAX_INT32 else 0
