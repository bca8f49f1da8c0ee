"""The state of the log itself: position, relists, timers, and what could not be read.

Invariant: it is stored with the checkpoint, so it has the same position as everything else.
"""

from datetime import datetime

from msgspec import Struct, field

from podgroup.log.events import SettingsRecorded
from podgroup.log.records import Used


class Frame(Struct):
    """A relist under way. `seen` is not stored: a restarted projector re-reads it from the log."""

    relist: str
    started_seq: int
    seen: set[str] = field(default_factory=set)


class Timer(Struct, frozen=True):
    """A timer the fold asked for; it fires as an event."""

    due_at: datetime
    group: str
    purpose: str


class Refusal(Struct, rename={"reported": "told"}):
    """A pod that cannot be read: what is wrong with it, and whether it was reported.

    Stored under the names that read models have had from the start.
    """

    namespace: str
    name: str
    message: str
    reported: bool = False
    parked: str = ""
    """The `seq/ord` under which the refusal was parked; "" when none is open."""
    unlabelled: bool = False
    """The pod bears our gate or finalizer, and lacks our label."""


class Meta(Struct, rename={"unreported": "untold"}):
    """The state of the log itself. Stored with the checkpoint."""

    position: int = 0
    at: datetime | None = None
    """Timestamp of the message at `position`."""
    epoch: int = 1
    decisions: int = 0
    versions: dict[str, str] = {}
    """Highest resource version seen per kind: an older delta is a duplicate."""
    synced: set[str] = field(default_factory=set)
    """Kinds that had one complete relist in this epoch."""
    missing: set[str] = field(default_factory=set)
    """Kinds that are not installed."""
    frames: dict[str, Frame] = {}
    timers: dict[str, Timer] = {}
    refused: dict[str, Refusal] = {}
    """Pods that cannot be read, by uid: the latest few."""
    unreported: int = 0
    """How many of these pods were not reported yet."""
    given_up: dict[str, str] = {}
    """Decisions that were parked, the latest few: `group: why` -> `seq/ord` it is listed under."""
    settings: SettingsRecorded | None = None
    """The settings of decisions that the log has; None: it has none (yet)."""
    unsettled: bool = False
    """The log is about to have settings, and nothing is decided before."""
    decided_in: int = 0
    """Epoch of the last decision."""
    used: dict[str, Used] = {}
    """Recent use of LocalQueues that share by it: `namespace/name` -> the record."""
    incarnation: str = ""
    """The history of `versions`: the last `ClusterRestored`, "" if there was none."""
    restored_seq: int = 0
    restored_at: datetime | None = None
    """Position and time of the last `ClusterRestored`."""
    rewound: set[str] = field(default_factory=set)
    """Kinds that were not listed completely since then: their listed objects are believed."""
    undone: set[str] = field(default_factory=set)
    """Groups with facts in the log that the restored cluster lacks, until all is listed."""
    counted_at: datetime | None = None
    """When the standing of queues was last reported."""
