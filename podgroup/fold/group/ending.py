"""How a group ended (`state.Ending`)."""

from datetime import datetime

from msgspec.structs import replace

from podgroup.state.group import Finish, Group


def finished(group: Group, finish: Finish, at: datetime, cluster_queue: str) -> None:
    """The group ended, at `at`, in a ClusterQueue ("" for none)."""
    group.ending.finish = finish
    group.ending.finished_at = at
    group.ending.cluster_queue = cluster_queue


def written(group: Group) -> None:
    """The Workload says that the group ended."""
    finish = group.ending.finish
    if finish is not None and not finish.written:
        group.ending.finish = replace(finish, written=True)


def start_failed(group: Group, why: str) -> None:
    """A pod can never start with what the admission gives it, so the group has to end.

    `why` is "" once it has ended.
    """
    group.ending.start_failed = why


def gone(group: Group, at: datetime, cluster_queue: str) -> None:
    """Nothing of the group is left, which was in a ClusterQueue ("" for none)."""
    group.ending.gone_at = at
    group.ending.cluster_queue = cluster_queue
