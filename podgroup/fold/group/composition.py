"""What was fixed when a group was complete (`state.Composition`)."""

from datetime import datetime

from podgroup.state.group import Group


def composed(group: Group, priority: int, at: datetime | None) -> None:
    """The group has a Workload, or one is decided on; `at` None: it was composed before."""
    composition = group.composition
    composition.done = True
    composition.priority = priority
    if at is not None:
        composition.complete_at = at


def filled(group: Group, total: int) -> None:
    """The Workload is for so many pods."""
    group.composition.total = total


def reprioritized(group: Group, priority: int) -> None:
    """The Workload has another priority."""
    group.composition.priority = priority


def ranked(group: Group, by: str | None) -> None:
    """A class gave the priority, without a Workload to say so; None: a Workload will say it."""
    group.composition.ranked_by = by


def wanted(group: Group, wanted: tuple[tuple[str, int], ...], at: datetime | None) -> None:
    """The pods' owner wants larger roles, since `at`; (): it no longer does."""
    group.composition.wanted = wanted
    group.composition.wanted_at = at


def reopened(group: Group) -> None:
    """The remaining pods are to be composed anew."""
    group.composition.done = False


def shortened(group: Group, short: tuple[str, str] | None) -> None:
    """Pods must be replaced, as (reason, message); None: no pod is missing."""
    group.composition.short = short
    group.composition.was_short = group.composition.was_short or short is not None


def adopted_short(group: Group, short: tuple[str, str] | None, *, ever: bool) -> None:
    """An adopted Workload says whether pods are missing, or `ever` were."""
    group.composition.was_short = ever
    if short is not None:
        group.composition.short = short
