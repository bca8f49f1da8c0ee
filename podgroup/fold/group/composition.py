"""What of a group was fixed when it was complete (`state.Composition`)."""

from datetime import datetime

from podgroup.state.group import Group


def composed(group: Group, priority: int, at: datetime | None) -> None:
    """A Workload is there or decided on since `at`, which is None if one was before."""
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
    """There is no Workload to say which class gave its priority; None: there is to be one."""
    group.composition.ranked_by = by


def wanted(group: Group, wanted: tuple[tuple[str, int], ...], at: datetime | None) -> None:
    """Its owner wants roles larger than they are, since `at`; none: it does no longer."""
    group.composition.wanted = wanted
    group.composition.wanted_at = at


def reopened(group: Group) -> None:
    """The pods that are left are to be composed anew."""
    group.composition.done = False


def shortened(group: Group, short: tuple[str, str] | None) -> None:
    """Pods are missing, as (reason, message), or are there again: None."""
    group.composition.short = short
    group.composition.was_short = group.composition.was_short or short is not None


def adopted_short(group: Group, short: tuple[str, str] | None, *, ever: bool) -> None:
    """A Workload that was there before us says whether pods are missing, or `ever` were."""
    group.composition.was_short = ever
    if short is not None:
        group.composition.short = short
