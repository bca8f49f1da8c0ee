"""Derived: conclusions of rules that follow from state and settings, entered and never stored.

Theory. Decisions and records are in the log, and every replay folds them again. Which groups wait
for quota, what running pods without an admission are charged, which pods contradict each other and
what admission remembers can be worked out again at any time: a replay does without, and indices
alone change (`fold.deriving`).

Invariant: a world that was stored and loaded is the same without them.
"""

from msgspec import Struct

from podgroup.model.ids import GroupID
from podgroup.state.quota import Charge


class Derived(Struct, frozen=True, gc=False):
    """Base of derived conclusions."""


class Waits(Derived, frozen=True):
    """A group waits for quota (its request is entered anew), or, with `waits` False, no longer."""

    group: GroupID
    waits: bool


class Charged(Derived, frozen=True):
    """A group is charged what it holds, or what its pods take that run without an admission.

    `source` is what the latter was worked out from.
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
    """All rules run for a group once more."""

    group: GroupID


class Entered(Derived, frozen=True):
    """Changes of the quota account were entered into the scheduler, as of `at` (seconds)."""

    at: float | None = None


class Corrected(Derived, frozen=True):
    """For a group the recorded decision holds, and not the rules' own."""

    group: GroupID


class Forgotten(Derived, frozen=True):
    """The scheduler's memory may be wrong: all of the quota account is entered anew."""


class StatusesRead(Derived, frozen=True):
    """Condition Active of every queue was looked at."""


class MovesRead(Derived, frozen=True):
    """Queues whose standing changed were looked at; `reported`: and reported."""

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
