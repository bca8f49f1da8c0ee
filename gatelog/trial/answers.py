"""What is said of pods that are tried: values for command line, API and console.

Theory. A group (or single pod) of those that are tried *starts*, *waits*, is *refused*, or *passes*
without queueing. What it says of others is named in fields of its own, so that who may see one
namespace is shown these fields without the others' names (`own_only`).

Invariant: plain values; amounts are as in tables: cpu in thousandths, others in whole units.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Verdict = Literal["starts", "waits", "refused", "passes"]
"""`passes`: it is not queued; its pods run as soon as they are made, and no quota counts them."""
WORST: tuple[Verdict, ...] = ("refused", "waits", "starts", "passes")
"""Verdicts; the first of these that any group has is that of all."""


class Refusal(Struct, frozen=True):
    """What is refused: the field's path in an object of the manifest, and what is wrong there."""

    object: str
    line: int
    field: str
    message: str


class Given(Struct, frozen=True):
    """What pods of a role are given: how many, of which flavor each resource, and where."""

    role: str
    count: int
    flavors: dict[str, str]
    place: str = ""


class Victim(Struct, frozen=True):
    """A group that would be preempted; `namespace` and `name` are "" for who may not see it."""

    namespace: str
    name: str
    why: str


class Change(Struct, frozen=True):
    """What would make a waiting group start, one of these; `needs` is what else it takes.

    `pods` of role `role`, LocalQueue `queue`, or flavor `flavor`.
    """

    role: str = ""
    pods: int = 0
    queue: str = ""
    flavor: str = ""
    needs: tuple[str, ...] = ()


class Start(Struct, frozen=True):
    """When a group starts that waits, of plays of the present; `unknown` says why that is open.

    One play in ten starts it before `earliest`, nine in ten by `latest`; None: later than played.
    """

    expected: datetime | None = None
    earliest: datetime | None = None
    latest: datetime | None = None
    never: str = ""
    unknown: str = ""


class TriedGroup(Struct, frozen=True, kw_only=True):
    """A group or single pod, with what would become of it.

    `said` are the sentences on why it waits, or how it is admitted; `borrows`: it takes quota of
    its cohort that is not its own queue's.
    """

    namespace: str
    name: str
    kind: str
    pods: int
    verdict: Verdict
    queue: str = ""
    cluster_queue: str = ""
    priority: int = 0
    reason: str = ""
    said: tuple[str, ...] = ()
    blocked: bool = False
    borrows: bool = False
    given: tuple[Given, ...] = ()
    position: int = 0
    victims: tuple[Victim, ...] = ()
    changes: tuple[Change, ...] = ()
    start: Start | None = None


class Answer(Struct, frozen=True, kw_only=True):
    """The answer to one manifest.

    `at` and `seq` are the moment and the position of the log that it is of; `passed_over` are
    objects that make no pods.
    """

    verdict: Verdict
    at: datetime
    seq: int
    mode: str
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()
    groups: tuple[TriedGroup, ...] = ()
    passed_over: tuple[str, ...] = ()

    def own_only(self) -> "Answer":
        """Return the same for who may see the groups' own namespaces alone."""
        return replace(self, groups=tuple(map(_own_only, self.groups)))


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict of all; refused if there are none."""
    found = set(verdicts)
    return next((one for one in WORST if one in found), "refused")


def _own_only(group: TriedGroup) -> TriedGroup:
    victims = tuple(
        one if one.namespace == group.namespace else Victim("", "", one.why)
        for one in group.victims
    )
    return replace(group, victims=victims)
