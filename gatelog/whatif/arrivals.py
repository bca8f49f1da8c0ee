"""Arrivals: pods as their users create them, and what each does once it may start.

Invariant: arrivals are given in the order of their times.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, Protocol

from msgspec import Struct

from podgroup.log.events import OutcomeRecorded
from podgroup.model.objects import CheckView, PodView, QueueObject, WorkloadView
from podgroup.model.policy import Policy

AT_ONCE = (0.0,)


class Life(Struct, frozen=True, gc=False, kw_only=True):
    """The times of a pod, mostly after its gate is gone; in seconds.

    `gives_up_s` after its creation its user deletes it if it is at its gate still, `deleted_s`
    after the removal of its gate if it has not ended, `removed_s` after its end if it is there
    still; None: that does not happen.
    """

    run_s: float
    gate_s: float = 0.0
    """From the decision to let it in to the removal of its gate."""
    opened_s: float | None = None
    """From its creation to the removal of its gate by another than gatelog."""
    start_s: float = 0.0
    """From the removal of its gate to running: scheduling, images, containers."""
    ready_s: tuple[float, ...] = AT_ONCE
    """From running to being ready, to not being so any more, and so on in turn."""
    phase: Literal["Succeeded", "Failed"] = "Succeeded"
    asked_s: float = 0.0
    """From the decision to stop it to its deletion."""
    stop_s: float = 0.0
    """From its deletion, while it runs, to having ended."""
    gives_up_s: float | None = None
    deleted_s: float | None = None
    removed_s: float | None = None
    stays: bool = False
    """The pod stays after its end, until it is removed."""
    forced: bool = False
    """The client that deletes it also removes gatelog's finalizer."""


class Arrival(Struct, frozen=True, gc=False):
    """A pod that is created at `at`, as it is then."""

    at: datetime
    pod: PodView
    life: Life


class Write(Struct, frozen=True):
    """Another client's write to a Workload at `at`, if the Workload exists.

    `key`: namespace and name. `fields` get new values, conditions by type; None: it is deleted.
    With `made` the Workload is created so, if there is none.
    """

    at: datetime
    key: tuple[str, str]
    fields: Mapping[str, Any] | None = None
    made: WorkloadView | None = None


class Later(Struct, frozen=True):
    """A queue object that is created or changed at `at`; without `view` that of `key` goes."""

    at: datetime
    key: tuple[str, str, str]
    view: QueueObject | None


class Verdict(Struct, frozen=True):
    """A controller's answer to a check, `after_s` seconds after the round began."""

    after_s: float
    said: CheckView


class Attempt(Struct, frozen=True):
    """The result of a decision `after_s` later: it is carried out, or `refused`.

    None: no result before the end of the log. `decided`: when it was decided.
    """

    decided: datetime
    after_s: float | None
    refused: OutcomeRecorded | None = None


class Delays:
    """Delays of decisions, besides those of a pod's life: none.

    `checks`: controllers answer for admission checks; else there are no checks.
    """

    checks = False

    def fires_at(self, timer: str, due_at: datetime) -> datetime | None:
        """Return when a timer is heard of that is due then, None for never."""
        return due_at

    def attempt(self, on: tuple[str, str]) -> Attempt | None:
        """Return what becomes of the next decision on it, None: nothing is known.

        `on`: namespace and name of a Workload to make, or "" and a pod's uid.
        """
        return None

    def verdicts(self, key: tuple[str, str], checks: tuple[str, ...]) -> list[Verdict]:
        """Return what controllers say of the checks of a reservation, in order of time."""
        return []


class Source(Protocol):
    """A source of arrivals, and of arrivals that follow an end."""

    delays: Delays

    def arrivals(self) -> Iterator[Arrival]:
        """Yield independent arrivals, in order of time."""

    def stopped(self, pod: PodView, life: Life, at: datetime) -> Arrival | None:
        """Return the arrival that follows a stop, None for none; `pod` as it came."""

    def ended(self, pod: PodView, at: datetime) -> Arrival | None:
        """Return the arrival that follows a pod that ended by itself, None for none."""


class Scenario(Struct, frozen=True, kw_only=True):
    """The input of a play: arrivals, objects (`later`: their changes), and times."""

    source: Source
    objects: Iterable[QueueObject]
    later: Iterable[Later | Write] = ()
    begin: datetime
    until: datetime | None = None
    policy: Policy | None = None
