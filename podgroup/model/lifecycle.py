"""The life of a group as a table: its states, and which may follow which.

Theory. A state is worked out from the facts of a group after each message of the log, and one
message may carry a group several steps (composed, admitted, running), so a legal change is a path
of arrows. A group that is over never comes back to life: later pods are another life. A change that
no path allows shows that the group's facts contradict each other, which is a bug of ours: the group
is parked in its present state (`rules.explain`), and all others go on.

The table and the diagram in docs/concepts.md are made from this (tests/deploy/reference.py).
Invariant: every state of a group can be reached from its state before.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from podgroup.model.names import (
    NOT_ADMITTED_CHECKS,
    PENDING_DEACTIVATED,
    PENDING_ON_HOLD,
    WAITING_FOR_REPLACEMENT_PODS,
)

UNBORN: Final = ""
"""The state of a group before rules looked at it for the first time."""
GONE: Final = "Gone"

STATES: Final[Mapping[str, str]] = {
    "Composing": "pods are missing",
    "Queued": "complete, waits for quota",
    "Blocked": "waits for something only a person can mend: pods that contradict each other, a "
    "queue that does not exist, a request larger than any quota",
    "Admitted": "holds quota; nothing runs yet",
    "Running": "holds quota and runs",
    "Evicted": "must stop, or has stopped and waits for new pods or for its queue",
    "Finishing": "is over; finalizers still to come off",
    "Finished": "is over and released",
    GONE: "its last pod and its Workload have left the API server",
}
"""State -> its meaning, in the order of a life."""


PENDING: Final = ("Composing", "Queued", "Blocked", "Evicted")
"""States of a group that waits for quota: lists of waiting groups show them, counts count them."""
ADMITTED: Final = ("Admitted", "Running")
"""States of an admitted group, whose pods may run."""
OVER: Final = ("Finishing", "Finished", GONE)
"""States of a group that is over: it runs nothing and waits for nothing."""


class Stage(NamedTuple):
    """Part of what is pending: groups in `state` that wait for one of `reasons`.

    A stage without reasons has the rest of its state.
    """

    name: str
    state: str
    reasons: tuple[str, ...]
    means: str


QUEUED: Final = "queued"
"""The stage in which a group has a position in its queue."""
STAGES: Final = (
    Stage("composing", "Composing", (), "pods are missing"),
    Stage("composing", "Queued", (WAITING_FOR_REPLACEMENT_PODS,), "pods ended and are missing"),
    Stage(
        "checks", "Queued", (NOT_ADMITTED_CHECKS,), "holds quota; not all admission checks agree"
    ),
    Stage(
        *("stopped", "Queued", (PENDING_ON_HOLD, PENDING_DEACTIVATED)),
        "its queue is stopped, or its Workload is deactivated",
    ),
    Stage(QUEUED, "Queued", (), "waits for quota, at a position in its queue"),
    Stage("blocked", "Blocked", (), "only a person can end its wait"),
    Stage("evicted", "Evicted", (), "stops, or waits to be queued again"),
)
"""Stages, which together are all that is pending; a group is in the first that fits."""


def stage_of(state: str, wait_reason: str) -> str:
    """Return the stage of a pending group, "" for a group that is not pending."""
    fits = (one.name for one in STAGES if one.state == state and _waits_so(one, wait_reason))
    return next(fits, "")


def _waits_so(stage: Stage, wait_reason: str) -> bool:
    return not stage.reasons or wait_reason in stage.reasons


class Arrow(NamedTuple):
    """`after` may follow `before`, and `when` it does."""

    before: str
    after: str
    when: str


_ALIVE = ("Composing", "Queued", "Blocked", "Admitted", "Running", "Evicted")
ARROWS: Final = (
    Arrow(UNBORN, "Composing", "a pod of it is seen"),
    Arrow("Composing", "Queued", "all its pods are there"),
    Arrow("Composing", "Blocked", "its pods contradict each other"),
    Arrow("Blocked", "Composing", "they no longer do"),
    Arrow("Queued", "Blocked", "it can never be admitted as things are"),
    Arrow("Blocked", "Queued", "it can be"),
    Arrow("Queued", "Composing", "its Workload was lost, and what is left is composed anew"),
    Arrow("Queued", "Admitted", "it gets quota"),
    Arrow("Admitted", "Running", "the first pod runs"),
    Arrow("Running", "Admitted", "no pod runs for now"),
    Arrow("Admitted", "Evicted", "it must stop"),
    Arrow("Running", "Evicted", "it must stop"),
    Arrow("Admitted", "Queued", "its admission is withdrawn"),
    Arrow("Running", "Queued", "its admission is withdrawn"),
    Arrow("Evicted", "Queued", "it has stopped, and may be admitted again"),
    Arrow("Queued", "Evicted", "a pod went, and must be replaced before it may be"),
    *(Arrow(state, "Finishing", "it is over") for state in _ALIVE),
    Arrow("Finishing", "Finished", "the last finalizer is off"),
    Arrow("Finished", "Finishing", "a pod came after the end"),
    *(Arrow(state, GONE, "nothing is left of it") for state in STATES if state != GONE),
)


class IllegalTransition(Exception):
    """The facts of a group lead to a state that cannot follow its present state."""


def _reachable(state: str) -> frozenset[str]:
    found: set[str] = set()
    ends = {state}
    while ends:
        ends = {arrow.after for arrow in ARROWS if arrow.before in ends} - found
        found |= ends
    return frozenset(found)


_AFTER: Final = {state: _reachable(state) for state in (UNBORN, *STATES)}


def may_become(before: str, after: str) -> bool:
    """Tell whether a group in state `before` may be in state `after` one message later."""
    return before == after or after in _AFTER.get(before, ())


def next_states(state: str) -> tuple[str, ...]:
    """Return the other states that may follow a state, in the order of a life."""
    return tuple(name for name in STATES if name in _AFTER.get(state, ()) and name != state)
