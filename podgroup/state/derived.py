"""Derived: what rules work out that follows from state and settings, entered and never stored.

Theory. Decisions and records are in the log, and every replay folds them again. Who waits for
quota, what runs is charged without an admission, which pods contradict each other and what
admission remembers can be worked out again at any time: a replay has no use for them, and indices
alone change (`fold.deriving`).

Invariant: a world that was stored and loaded says the same without them.
"""

from msgspec import Struct

from podgroup.model.ids import GroupID
from podgroup.state.quota import Charge


class Derived(Struct, frozen=True, gc=False):
    """Base of what is derived."""


class Waits(Derived, frozen=True):
    """A group waits for quota, or what it asks for is to be looked at again; or it waits not."""

    group: GroupID
    waits: bool


class Charged(Derived, frozen=True):
    """A group is charged what it holds, or what runs of it without an admission.

    The latter as worked out from `source`.
    """

    group: GroupID
    charge: Charge | None
    source: object = None


class Contradicted(Derived, frozen=True):
    """Two pods of a group contradict each other (`Members.contradict`)."""

    group: GroupID
    what: str
    first: str
    second: str


class Reevaluated(Derived, frozen=True):
    """All rules look at a group once more."""

    group: GroupID


class Entered(Derived, frozen=True):
    """What has changed of the account is known where it is decided, as of `at` (seconds)."""

    at: float | None = None


class Corrected(Derived, frozen=True):
    """About a group another decision holds than was made."""

    group: GroupID


class Forgotten(Derived, frozen=True):
    """What deciding remembers cannot be right: all of the account is entered anew."""


class StatusesRead(Derived, frozen=True):
    """No queue has to be looked at for what its condition says."""


class MovesRead(Derived, frozen=True):
    """It was seen which queues moved, and whether they were `reported`."""

    reported: bool


AnyDerived = (
    Waits
    | Charged
    | Contradicted
    | Reevaluated
    | Entered
    | Corrected
    | Forgotten
    | StatusesRead
    | MovesRead
)
