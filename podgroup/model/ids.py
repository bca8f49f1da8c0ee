"""Identities: names that must never be mixed up, as distinct types.

A name such as `team-a/train` repeats over time; an identity does not. A group's id is made from
the uid of the pod that opened this life of the group, a decision's id from what caused it, so both
come out the same whenever the log is folded again.

Invariant: every id here is a pure function of events.
"""

from hashlib import blake2b
from typing import NewType

PodUID = NewType("PodUID", str)
GroupID = NewType("GroupID", str)
DecisionID = NewType("DecisionID", str)

Position = NewType("Position", int)
"""Place of a message in the log: the stream sequence plus the base of its epoch.

Equal to the JetStream sequence in the first epoch. When a stream is recreated or rolled back its
sequences start over; the base (table `epochs`) keeps positions growing, so that every order and
every key built on them stays total.
"""


def group_id(kind: str, opening: PodUID) -> GroupID:
    """Return the id of the life of a group that pod `opening` begins.

    The kind is part of it because a gated single pod may be given a group name later and then
    opens a life of that group with the same uid.
    """
    return GroupID(f"{kind}-{opening}")


def decision_id(cause: Position, group: str, rule: str, target: str) -> DecisionID:
    """Return the deterministic id of a decision: cause, group, rule and target name it."""
    digest = blake2b(f"{group}\n{rule}\n{target}".encode(), digest_size=6).hexdigest()
    return f"d{cause}-{digest}"  # type: ignore[return-value] # made for each decision


def newer(candidate: str, known: str) -> bool:
    """Tell whether resource version `candidate` is later than `known` ("" is before all).

    KEP-5504: integers without leading zeros, so length first, then text.
    """
    digits, others = len(candidate), len(known)
    return candidate > known if digits == others else digits > others
