"""Arrivals: pods as their users create them, and what each does once it may start.

Invariant: arrivals are given in the order of their times.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

from podgroup.model.objects import PodView, QueueObject


class Life(Struct, frozen=True, gc=False, kw_only=True):
    """What a pod does once its gate is gone; all times are seconds.

    `gives_up_s` after its creation its user deletes it if it is at its gate still, `deleted_s`
    after the removal of its gate if it has not ended, `removed_s` after its end if it is there
    still; None: that does not happen.
    """

    run_s: float
    gate_s: float = 0.0
    """From the decision to let it in to the removal of its gate."""
    start_s: float = 0.0
    """From the removal of its gate to running: scheduling, images, containers."""
    phase: Literal["Succeeded", "Failed"] = "Succeeded"
    asked_s: float = 0.0
    """From the decision to stop it to its deletion."""
    stop_s: float = 0.0
    """From its deletion, while it runs, to having ended."""
    gives_up_s: float | None = None
    deleted_s: float | None = None
    removed_s: float | None = None


class Arrival(Struct, frozen=True, gc=False):
    """A pod that is created at `at`, as it is then."""

    at: datetime
    pod: PodView
    life: Life


class Cut(Struct, frozen=True):
    """A Workload that a user deletes at `at`, if it is there, or sets `active`.

    `key`: namespace and name. None in `active`: it is deleted.
    """

    at: datetime
    key: tuple[str, str]
    active: bool | None = None


class Later(Struct, frozen=True):
    """A queue object that is created or changed at `at`; without `view` that of `key` goes."""

    at: datetime
    key: tuple[str, str, str]
    view: QueueObject | None


class Source(Protocol):
    """Where arrivals come from, and what follows the end of one."""

    def arrivals(self) -> Iterator[Arrival]:
        """Yield what comes by itself, in order of time."""

    def stopped(self, pod: PodView, life: Life, at: datetime) -> Arrival | None:
        """Return what comes for a pod asked to stop, if anything does; `pod` as it came."""

    def ended(self, pod: PodView, at: datetime) -> Arrival | None:
        """Return what comes for a pod that ended by itself, if anything does."""
