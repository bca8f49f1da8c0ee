"""The ways in which a pod says how large its group is, and telling them apart.

    total   pod-group-total-count: the pods of the group, all created beforehand (KEP-976, story 2)
    sets    pod-group-sets: sets of pods, some of which are created later (KEP-976, story 3)
    count   pod-group-count: as many pods of one shape (first draft of KEP-976, story 2)
    roles   pod-group-roles: so many roles, each with a pod-group-role-count (first draft, story 3)
    owner   pod-group-owner: the pods of a StatefulSet, or of a replica of a LeaderWorkerSet

A declaration is one text per pod. Pods of one group must have the same declaration; a pod may have
none (a driver's workers have none) where other pods declare the group.

Invariant: equal declarations mean the same, and a text with a line break states several.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from podgroup.model.keys import KEYS
from podgroup.model.names import (
    LEADER_WORKER_SET,
    MAX_INT32,
    MAX_ROLES,
    POD_GROUP_COUNT,
    POD_GROUP_ROLE_COUNT,
    POD_GROUP_ROLES,
    POD_GROUP_SETS,
    STATEFUL_SET,
    integer,
    is_dns_subdomain,
)
from podgroup.model.objects import DeclaredSet, PodView

TOTAL: Final = "total"
SETS: Final = "sets"
COUNT: Final = "count"
ROLES: Final = "roles"
OWNER: Final = "owner"

ANNOTATIONS: Final[dict[str, str]] = {key.dialect: key.name for key in KEYS if key.size}
"""Dialect -> the annotation that states the size in it."""
_SAID = (COUNT, ROLES, TOTAL, OWNER)
_STATED = tuple(ANNOTATIONS[dialect] for dialect in _SAID)


class Owner(NamedTuple):
    """The owner of a group's pods; `size` is pods per replica, 0 where the object says it."""

    kind: str
    name: str
    size: int = 0

    @property
    def title(self) -> str:
        """Kind and name, in people's spelling."""
        return f"{self.kind} {self.name}"


def declaration(view: PodView) -> str:
    """Return what a pod declares, "" for nothing: `dialect/value`, one line per dialect."""
    return _declaration(view.sets_key, *map(view.annotations.get, _STATED))


@lru_cache(256)
def _declaration(sets_key: str, *stated: str | None) -> str:
    """Return the text of a declaration; remembered, as pods of a template declare the same."""
    found = [f"{SETS}/{sets_key}"] if sets_key else []
    for dialect, text in zip(_SAID, stated, strict=True):
        if text is not None:
            found.append(f"{dialect}/{text}" if text.isascii() else f"{dialect}/{text!r}")
    if len(found) == 1 and "\n" not in found[0]:
        return found[0]
    return "\n".join(part.replace("\n", " ") for part in found)


def declares_alike(view: PodView, other: PodView) -> bool:
    """Tell whether two pods declare the same in the same words, without making the texts.

    Every pod is asked when it gets the annotation of its admission: an eighth of that event's cost.
    """
    mine, others = view.annotations.get, other.annotations.get
    return view.sets_key == other.sets_key and list(map(mine, _STATED)) == list(
        map(others, _STATED)
    )


def dialects(declared: str) -> tuple[str, ...]:
    """Return the dialects of a declaration, none for ""."""
    return tuple(part.partition("/")[0] for part in declared.split("\n")) if declared else ()


def declared(view: PodView) -> str:
    """Return a pod's declaration in words, for people."""
    found = [f"{POD_GROUP_SETS}: {summary(view.sets)}"] if view.sets_key else []
    for dialect in _SAID:
        text = view.annotations.get(ANNOTATIONS[dialect])
        if text is not None:
            found.append(f"{ANNOTATIONS[dialect]}: {text[:60]}")
    return ", ".join(found) or "nothing"


def summary(sets: tuple[DeclaredSet, ...]) -> str:
    """Return sets in words, `1 x driver, 10 x workers`."""
    return ", ".join(f"{one.count} x {one.name}" for one in sets) or "no sets"


def declared_count(view: PodView) -> int:
    """Return the count of pods in the first draft's annotation, 0 if it is no count."""
    return _within(view.annotations.get(POD_GROUP_COUNT, ""), MAX_INT32)


def declared_roles(view: PodView) -> int:
    """Return the number of roles in the first draft's annotation, 0 if it is no such number."""
    return _within(view.annotations.get(POD_GROUP_ROLES, ""), MAX_ROLES)


def role_count(view: PodView) -> int:
    """Return how many pods the role of a pod has: 1 without the annotation, 0 if it is no count."""
    return _within(view.annotations.get(POD_GROUP_ROLE_COUNT, "1"), MAX_INT32)


def declared_owner(declaration: str) -> Owner | None:
    """Return the owner that a declaration names, None without an owner that can have a group."""
    _, _, said = declaration.partition(f"{OWNER}/")
    kind, _, rest = said.partition("/")
    name, _, size = rest.partition("/")
    if kind == STATEFUL_SET and is_dns_subdomain(name) and not size:
        return Owner(kind, name)
    pods = _within(size, MAX_INT32)
    if kind == LEADER_WORKER_SET and is_dns_subdomain(name) and pods:
        return Owner(kind, name, pods)
    return None


def _within(text: str, most: int) -> int:
    found = integer(text) or 0
    return found if 0 < found <= most else 0
