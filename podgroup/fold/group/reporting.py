"""What was reported to the users of a group (`state.Reporting`)."""

from podgroup.model.ids import PodUID
from podgroup.state.group import Group


def conditions(group: Group, step: int) -> None:
    """So many pods more (or less) have a condition that says that they wait."""
    group.reporting.pods += step


def recounted(group: Group, change: tuple[PodUID, str, str] | None) -> None:
    """A pod declares another size, too late, as (pod, old, new); None: that was reported."""
    group.reporting.recounted = change


def reportable(group: Group, key: str) -> None:
    """There is something else to tell users, or nothing (""), and it has to hold for a while."""
    group.reporting.key = key
    group.reporting.due = False


def forgotten(group: Group) -> None:
    """What was reported last is not so: say what holds now."""
    group.reporting.key = ""


def due(group: Group, due: bool) -> None:
    """What there is to report has held for long enough, or was reported."""
    group.reporting.due = due
