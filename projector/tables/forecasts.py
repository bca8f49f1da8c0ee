"""Tables of the expected starts of waiting groups, and of their actual starts.

Theory. `gatelog forecast` writes them, from a connection of its own: they are not made from the
log, so a replay does not make or compare them. An estimate stays as it was given; a later,
different estimate has a row of its own.

Invariant: of a group at most one estimate holds (`replaced_at` null, `came` empty).
"""

from sqlalchemy import Index, Table

from projector.tables.base import (
    HOT,
    cluster,
    count,
    document,
    metadata,
    number,
    shard,
    text,
    time,
)

forecasts = Table(
    "forecasts",
    metadata,
    cluster(),
    shard(key=True),
    time("at", "When it was made, the beginning of what was played", null=False),
    number("as_of_seq", "Position of the read model that it was made of"),
    count("plays", "How often the present was played forward"),
    number("took_ms", "Processor time of that, in milliseconds"),
    count("groups", "Groups that waited"),
    document("drawn_from", "What was known: admissions looked at, groups that came lately"),
    comment="One row per cluster: its latest forecast",
    postgresql_with=HOT,
)

estimates = Table(
    "estimates",
    metadata,
    cluster(),
    text("group_id", "Group", key=True),
    time("given_at", "When it was given", null=False, key=True),
    shard(),
    number("as_of_seq", "Position of the read model that it was made of"),
    text("namespace", "Namespace"),
    text("name", "Group name, or the pod's name for a single pod"),
    text("queue", "LocalQueue"),
    text("cluster_queue", "ClusterQueue behind it"),
    number("priority", "Priority"),
    count("position", "Position in the queue of the ClusterQueue, the first is 1; 0: none"),
    time("queued_at", "Since when it had queued"),
    time("expected_at", "When it starts, the median of the plays; null: see never, or too late"),
    time("earliest_at", "One play in ten starts it before"),
    time("latest_at", "Nine plays in ten start it before; null: they do not, in 30 days"),
    time("plain_at", "When it would start after the mean wait of its queue's last day; null: none"),
    text("never", "While what it does not start at all; empty: what runs can make room"),
    time("replaced_at", "When a later estimate took its place; null: none did"),
    text("came", "started or ended (it was over without a start); empty: it waits still"),
    time("came_at", "When that was"),
    comment="One row per estimate of when a group starts, with what came true",
    postgresql_with=HOT,
)

_e = estimates.c
Index(
    "ix_estimates_open",
    _e.cluster,
    _e.shard,
    postgresql_where=_e.came == "",
    sqlite_where=_e.came == "",
)
Index("ix_estimates_came", _e.came_at)
