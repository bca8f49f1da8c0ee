"""What was reported to the users of a group (`state.Reporting`)."""

from podgroup.model.ids import PodUID
from podgroup.state.group import Group


def conditions(group: Group, step: int) -> None:
    """`step` pods more (or less) have a condition that says that they wait."""
    group.reporting.pods += step


def recounted(group: Group, change: tuple[PodUID, str, str] | None) -> None:
    """A pod declared another size too late, as (pod, old, new); None: that was reported."""
    group.reporting.recounted = change


def reportable(group: Group, key: str) -> None:
    """Users are to get another report ("": none), once it has held for a while."""
    group.reporting.key = key
    group.reporting.due = False


def forgotten(group: Group) -> None:
    """The last report is no longer true: the present reason is to be reported."""
    group.reporting.key = ""


def due(group: Group, due: bool) -> None:
    """The report has held for long enough, or (False) was made."""
    group.reporting.due = due
