"""What is said of pods that are tried: values for command line, API and console.

Theory. A group (or single pod) of those that are tried *starts*, *waits*, is *refused*, or *passes*
without queueing. What it says of others is named in fields of its own, so that a user who may see
one namespace is shown these fields without the others' names (`own_only`). The aggregated API
serves these values as they are, and the command line prints the same documents.

Invariant: plain values; amounts are in the sentences, with their units.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

Verdict = Literal["starts", "waits", "refused", "passes"]
"""`passes`: it is not queued; its pods run as soon as they are made, and no quota counts them."""
WORST: tuple[Verdict, ...] = ("refused", "waits", "starts", "passes")
"""Verdicts; the first of these that any group has is that of all."""

EXIT_CODES: dict[Verdict, int] = {"waits": 1, "refused": 2}
"""Exit codes of the commands; 0 for the others."""


class _Part(Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of what answers are made of."""


class Refusal(_Part, frozen=True, kw_only=True):
    """What is refused: a field of an object of the manifest, and what is wrong there."""

    object: Annotated[str, Meta(description="Kind, namespace and name of the object.")]
    line: Annotated[int, Meta(description="Line of the manifest in which the object begins.")]
    field: Annotated[str, Meta(description="Path of the field in the object.")]
    message: Annotated[str, Meta(description="What is wrong, and what to do.")]


class Given(_Part, frozen=True, kw_only=True):
    """What pods of a role are given."""

    role: Annotated[str, Meta(description="Role of the pods; empty where there is one.")] = ""
    count: Annotated[int, Meta(description="How many pods.")]
    flavors: Annotated[dict[str, str], Meta(description="Flavor by resource.")]
    place: Annotated[str, Meta(description="Where, if a place by topology is given.")] = ""


class Victim(_Part, frozen=True, kw_only=True):
    """A group that would be preempted."""

    namespace: Annotated[str, Meta(description="Its namespace; empty if the user may not see it.")]
    name: Annotated[str, Meta(description="Its name; empty if the user may not see it.")]
    why: Annotated[str, Meta(description="By which right.")]


class Change(_Part, frozen=True, kw_only=True):
    """What would make a waiting group start at once: fewer pods, another queue or flavor."""

    role: Annotated[str, Meta(description="Of which role `pods` are, if there are several.")] = ""
    pods: Annotated[int, Meta(description="So many pods would start; 0 if it is no number.")] = 0
    queue: Annotated[str, Meta(description="A LocalQueue of the namespace.")] = ""
    flavor: Annotated[str, Meta(description="Flavors that the pods would be given.")] = ""
    needs: Annotated[tuple[str, ...], Meta(description="What its pods lack for the flavor.")] = ()


class Start(_Part, frozen=True, kw_only=True):
    """When a group starts that waits, of plays of the present."""

    expected: Annotated[datetime | None, Meta(description="Half of the plays start it by then.")]
    earliest: Annotated[datetime | None, Meta(description="One in ten starts it by then.")]
    latest: Annotated[datetime | None, Meta(description="Nine in ten start it by then.")]
    never: Annotated[str, Meta(description="Why it never starts as things are.")] = ""
    unknown: Annotated[str, Meta(description="Why there is no estimate.")] = ""


class TriedGroup(_Part, frozen=True, kw_only=True):
    """A group or single pod, with what would become of it."""

    namespace: Annotated[str, Meta(description="Its namespace.")]
    name: Annotated[str, Meta(description="Its name.")]
    kind: Annotated[str, Meta(description="group or single.")]
    pods: Annotated[int, Meta(description="Pods of it that were tried.")]
    verdict: Annotated[Verdict, Meta(description="starts, waits, or passes without queueing.")]
    queue: Annotated[str, Meta(description="LocalQueue that its pods name.")] = ""
    cluster_queue: Annotated[str, Meta(description="ClusterQueue behind it.")] = ""
    priority: Annotated[int, Meta(description="Priority used for queueing.")] = 0
    reason: Annotated[str, Meta(description="What it would wait for.")] = ""
    said: Annotated[tuple[str, ...], Meta(description="The same in words.")] = ()
    blocked: Annotated[bool, Meta(description="Only a person can end that wait.")] = False
    borrows: Annotated[bool, Meta(description="Its queue takes more than its own.")] = False
    given: Annotated[tuple[Given, ...], Meta(description="What it is given.")] = ()
    position: Annotated[int, Meta(description="Place in its ClusterQueue, from 1; 0: none.")] = 0
    victims: Annotated[tuple[Victim, ...], Meta(description="Groups that would be preempted.")] = ()
    changes: Annotated[tuple[Change, ...], Meta(description="What would start it at once.")] = ()
    start: Annotated[Start | None, Meta(description="When it would start.")] = None


class Answer(_Part, frozen=True, kw_only=True):
    """The answer to one manifest."""

    verdict: Annotated[Verdict, Meta(description="The worst verdict of all groups.")]
    at: Annotated[datetime, Meta(description="The moment that the answer is of.")]
    seq: Annotated[int, Meta(description="Position of the event log at that moment.")]
    mode: Annotated[str, Meta(description="Who decides on quota: builtin or kueue.")]
    refusals: Annotated[tuple[Refusal, ...], Meta(description="Fields that are refused.")] = ()
    warnings: Annotated[tuple[str, ...], Meta(description="Warnings of the webhook.")] = ()
    groups: Annotated[tuple[TriedGroup, ...], Meta(description="Groups and single pods.")] = ()
    passed_over: Annotated[tuple[str, ...], Meta(description="Objects that make no pods.")] = ()

    def own_only(self) -> "Answer":
        """Return the same for a user who may see the groups' own namespaces alone."""
        return replace(self, groups=tuple(map(_own_only, self.groups)))


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict of all; refused if there are none."""
    found = set(verdicts)
    return next((one for one in WORST if one in found), "refused")


def _own_only(group: TriedGroup) -> TriedGroup:
    victims = tuple(
        one if one.namespace == group.namespace else Victim(namespace="", name="", why=one.why)
        for one in group.victims
    )
    return replace(group, victims=victims)
