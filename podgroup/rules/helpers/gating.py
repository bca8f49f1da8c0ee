"""Which controllers hold a group's admission back by annotation admission-gated-by (KEP-6915).

Theory. Another controller may have work to do before a group is admitted. The group's pods name
the controller when they are created, and it takes its name off when it is done. Kueue reads the
annotation of one pod; here a controller holds the group back if any gated pod that can still run
names it. A prebuilt Workload speaks for itself, as with Kueue. The admission of a group that holds
quota is never held back.

Invariant: nothing is changed here; the work depends on the number of different values.
"""

from podgroup.model.names import ADMISSION_GATED_BY, admission_gates
from podgroup.state.group import Group
from podgroup.state.world import World

SHOWN = 5
"""Names that are shown."""
SHOWN_CHARS = 63
"""Characters of each name that are shown."""


def gated_by(world: World, group: Group) -> str:
    """Return the names, as a Workload's annotation has them; "" if none gates the group."""
    texts = _texts(world, group)
    if len(texts) == 1:
        return next(iter(texts))
    return ",".join(sorted({name for text in texts for name in admission_gates(text)}))


def held_back(world: World, group: Group) -> str:
    """Name the controllers that hold a group back, "" if none does."""
    texts = _texts(world, group)
    if not texts:
        return ""
    names = sorted({name for text in texts for name in admission_gates(text)})
    shown = ", ".join(name[:SHOWN_CHARS] or "a controller without a name" for name in names[:SHOWN])
    return f"admission is gated by {shown}{' and others' if names[SHOWN:] else ''}"


def _texts(world: World, group: Group) -> set[str]:
    texts = set(world.members[group.id].gated_by)
    workload = group.mirror.workload
    if group.spec.prebuilt and workload is not None:
        texts.add(workload.annotations.get(ADMISSION_GATED_BY, ""))
    return texts - {""}
