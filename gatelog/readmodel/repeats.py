"""Writes that are repeated without effect, and groups without progress, in sentences.

Theory. A write that is refused, or that another writer undoes each time, is decided again with
growing pauses, for as long as its group wants it. Otherwise only the group's lack of progress would
show it. So `why` reports it for a group and `doctor` for all groups. A write is no longer reported
once the API server took it, or once it was not tried for longer than the longest pause.

Invariant: pure; a sentence names the write, how often, since when and its result.
"""

from datetime import datetime, timedelta

from gatelog.readmodel.rows import RepeatedRow, StandingRow
from gatelog.readmodel.timeline import duration
from podgroup.model.names import MANAGED_LABEL

TIMES = 3
"""As often as this a write must have been tried, without effect."""
WINDOW = timedelta(hours=2)
LATELY = timedelta(minutes=35)
"""The longest pause between two tries is 30 min."""
TOO_LONG = timedelta(minutes=10)
"""A group that is over is released in seconds."""
PUT_BACK = "KeepPod"
MOST = 3
"""Repeated writes, or groups, that are named at most."""
_KEPT = 300
"""Characters of the API server's answer."""


def sentence(row: RepeatedRow, now: datetime) -> str:
    """Say how often a write was tried, and its result."""
    what = " ".join(row.target.split(" ")[:2])
    since = (
        f"{row.times} times since {row.since:%Y-%m-%d %H:%M:%S} UTC, "
        f"last {duration((now - row.last_at).total_seconds())} ago"
    )
    if row.action == PUT_BACK:
        return f"label {MANAGED_LABEL} was taken off {what} and put back {since}"
    status = f" ({row.http_status})" if row.http_status else ""
    said = row.said[:_KEPT] or "no reason given"
    return f"{row.action} of {what} was {row.status}{status} {since}: {said}"


def advice(row: RepeatedRow) -> str:
    """Say what ends it."""
    if row.action == PUT_BACK:
        return (
            "who takes it off is in the API server's audit log; admission refuses that where it is "
            "installed (docs/security.md). The pod stays charged meanwhile"
        )
    if row.status == "obsolete":
        return "the object is gone, and no watch has said so: is ingest watching (gatelog doctor)?"
    return (
        "mend what the API server has against it (a right of the actuator's account, a policy or "
        "webhook of another client, a quota); it is tried again by itself, at once when "
        "the object changes, else within a minute (a Workload that no group waits for: 30 min)"
    )


def standing(row: StandingRow) -> str:
    """Say in which state a group without progress is, since when and why."""
    since = f" since {row.since:%Y-%m-%d %H:%M:%S} UTC" if row.since is not None else ""
    why = f": {row.parked}" if row.parked else ""
    return f"{row.namespace}/{row.name} is {row.state}{since}{why}"
