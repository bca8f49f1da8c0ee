"""Whether enough pods of a group are ready (`state.Readiness`)."""

from datetime import datetime

from podgroup.state.group import Group


def readied(group: Group, ready: bool, unready_at: datetime | None) -> None:
    """The group is ready, or not since `unready_at` (None: without quota no time counts)."""
    group.readiness.ready = ready
    group.readiness.unready_at = unready_at
