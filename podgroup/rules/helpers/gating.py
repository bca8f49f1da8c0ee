"""Who holds a group's admission back by annotation admission-gated-by (KEP-6915 of Kueue).

Theory. Another controller may have something to do before a group is admitted; its pods name it
when they are created, and it takes its name off when it is done. Kueue reads the annotation of one
pod; here each pod at its gate that can still run speaks for its group, and who is named by any of
them holds it back. A prebuilt Workload speaks for itself, as with Kueue. A group that holds quota
is held back by nobody.

Invariant: nothing is changed here; the work is that of the different values there are.
"""

from podgroup.model.names import ADMISSION_GATED_BY, admission_gates
from podgroup.state.group import Group
from podgroup.state.world import World

SHOWN = 5
"""Names that are shown."""
SHOWN_CHARS = 63
"""Characters of each."""


def gated_by(world: World, group: Group) -> str:
    """Return the names, as the annotation of a Workload has them; "" if nobody holds it back."""
    texts = _texts(world, group)
    if len(texts) == 1:
        return next(iter(texts))
    return ",".join(sorted({name for text in texts for name in admission_gates(text)}))


def held_back(world: World, group: Group) -> str:
    """Say who holds a group back, "" if nobody does."""
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
