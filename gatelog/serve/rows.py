"""Rows of the read model as `gatelog serve` reads them.

Invariant: fields are named as the columns they come from; times are aware and in UTC.
"""

from datetime import datetime
from typing import Any

import msgspec

from gatelog.answers.rows import GroupRow


class LifeRow(GroupRow, frozen=True, kw_only=True):
    """One life of a group with the labels of its first pod, and its place in line if it queues."""

    created_seq: int
    shard: int
    labels: Any = None
    place: int = -1
    local_place: int = -1
    expected_at: datetime | None = None
    earliest_at: datetime | None = None
    latest_at: datetime | None = None
    never: str | None = None
    """Of an estimate: while what it does not start; None: there is no estimate."""
    forecast_at: datetime | None = None

    def label_texts(self) -> dict[str, str]:
        """Labels by key; SQLite keeps a document as text."""
        found = msgspec.json.decode(self.labels) if isinstance(self.labels, str) else self.labels
        return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


class LineRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group in line."""

    id: str
    namespace: str
    name: str
    queue: str
    cluster_queue: str
    priority: int
    workload_name: str
    created_at: datetime
    complete_at: datetime | None
    queued_at: datetime | None
    place: int
    local_place: int


class ObjectRow(msgspec.Struct, frozen=True):
    """A queue object and the projector's record of it."""

    namespace: str
    name: str
    uid: str
    folded: bytes | None


class CountRow(msgspec.Struct, frozen=True):
    """How many groups of a LocalQueue are in a state."""

    cluster_queue: str
    namespace: str
    queue: str
    state: str
    groups: int
    oldest: datetime | None


class HeldRow(msgspec.Struct, frozen=True):
    """What the groups of a LocalQueue hold of one resource of one flavor."""

    cluster_queue: str
    namespace: str
    queue: str
    flavor: str
    resource: str
    amount: float
    groups: int


class AdmissionRow(msgspec.Struct, frozen=True):
    """One admission of a group; `flavors` and `resources` are documents."""

    number: int
    cluster_queue: str
    flavors: Any
    resources: Any
    queued_at: datetime | None
    admitted_at: datetime
    released_at: datetime | None
    release_reason: str
    decided_by: str


class UsageRow(msgspec.Struct, frozen=True):
    """What pods of a namespace used on a day."""

    namespace: str
    day: str
    resource: str
    resource_hours: float
    pods: int


class PositionRow(msgspec.Struct, frozen=True):
    """How far a shard is folded."""

    shard: int
    seq: int
    written_at: datetime
