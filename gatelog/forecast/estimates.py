"""Estimates in tables, and the actual starts.

Theory. An estimate stays for as long as a new estimate would be about equal, so that a group has a
row for each different estimate and not for each forecast: a new estimate replaces it when they
differ by more than `SAME` of the wait that was left, or when its range is over. The actual start
settles all estimates of a group, replaced ones included.

Invariant: an estimate never changes; only its replacement and the actual start are added.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from msgspec import Struct, field
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from gatelog.forecast.estimating import Estimate, Forecast
from podgroup.model.ids import GroupID
from podgroup.state.facts import cluster_queue_name
from podgroup.state.world import World
from projector import tables
from projector.tables.base import SHARD
from projector.times import bound

SAME = 0.2
"""Part of the time to its range's end by which two estimates may differ and say the same."""
LEAST = timedelta(seconds=30)
"""Two estimates that differ by less say the same."""
_DAY = timedelta(days=1)

_STARTED = """
UPDATE estimates
   SET came = 'started',
       came_at = (SELECT min(a.admitted_at) FROM admissions a
                   WHERE a.cluster = estimates.cluster AND a.group_id = estimates.group_id
                     AND a.admitted_seq > estimates.as_of_seq)
 WHERE cluster = :cluster AND shard = 0 AND came = ''
   AND EXISTS (SELECT 1 FROM admissions a
                WHERE a.cluster = estimates.cluster AND a.group_id = estimates.group_id
                  AND a.admitted_seq > estimates.as_of_seq)
"""
_ENDED = """
UPDATE estimates
   SET came = 'ended',
       came_at = coalesce((SELECT coalesce(g.finished_at, g.gone_at) FROM groups g
                            WHERE g.cluster = estimates.cluster AND g.id = estimates.group_id),
                          :now)
 WHERE cluster = :cluster AND shard = 0 AND came = ''
   AND NOT EXISTS (SELECT 1 FROM groups g
                    WHERE g.cluster = estimates.cluster AND g.id = estimates.group_id
                      AND g.finished_at IS NULL AND g.gone_at IS NULL)
"""
_PLAIN = """
SELECT cluster_queue, avg(queue_seconds) AS mean FROM v_admission_latency
 WHERE cluster = :cluster AND admitted_at >= :since AND admitted_at <= :now
   AND queue_seconds IS NOT NULL
 GROUP BY cluster_queue
"""


class Made(Struct):
    """A forecast. `at` is the time it was made at, `seq` the position."""

    world: World
    at: datetime
    seq: int
    forecast: Forecast
    drawn_from: dict[str, int]
    fresh: list[str] = field(default_factory=list)
    """Groups with new estimates; none where nothing was written."""

    @property
    def given(self) -> int:
        """How many that are."""
        return len(self.fresh)


def store(
    connection: Connection,
    made: Made,
) -> list[str]:
    """Write the new estimates of a forecast, in the caller's transaction; return their groups."""
    world, seq, now, forecast = made.world, made.seq, made.at, made.forecast
    estimates = tables.estimates
    mine = (estimates.c.cluster == world.cluster, estimates.c.shard == SHARD)
    standing = {
        row["group_id"]: row
        for row in connection.execute(
            sa.select(estimates).where(
                *mine, estimates.c.came == "", estimates.c.replaced_at.is_(None)
            )
        ).mappings()
    }
    plain = plain_waits(connection, world.cluster, now)
    fresh = []
    said = [one for one in forecast.estimates if not one.unknown]
    for one in said:
        row = _row(world, seq, now, one, plain)
        if not _says_the_same(standing.get(one.group), row, now):
            fresh.append(row)
    over = [row["group_id"] for row in fresh if row["group_id"] in standing]
    over += standing.keys() - {one.group for one in said}
    for start in range(0, len(over), 500):
        some = over[start : start + 500]
        connection.execute(
            sa.update(estimates)
            .where(*mine, estimates.c.replaced_at.is_(None), estimates.c.group_id.in_(some))
            .values(replaced_at=now)
        )
    if fresh:
        connection.execute(sa.insert(estimates), fresh)
    _note(connection, world.cluster, _noted(made))
    return [row["group_id"] for row in fresh]


def enter_outcomes(connection: Connection, cluster: str, now: datetime) -> None:
    """Enter the actual starts and ends of estimated groups, in the caller's transaction."""
    given = {"cluster": cluster}
    connection.execute(sa.text(_STARTED), given)
    connection.execute(sa.text(_ENDED), bound(connection.dialect.name, {**given, "now": now}))


def plain_waits(connection: Connection, cluster: str, now: datetime) -> dict[str, float]:
    """Return the mean wait of the last day per ClusterQueue, in seconds: the plain alternative."""
    given = {"cluster": cluster, "since": now - _DAY, "now": now}
    rows = connection.execute(sa.text(_PLAIN), bound(connection.dialect.name, given)).mappings()
    return {row["cluster_queue"]: float(row["mean"]) for row in rows}


def _row(
    world: World,
    seq: int,
    now: datetime,
    one: Estimate,
    plain: Mapping[str, float],
) -> dict[str, Any]:
    def at(seconds: float | None) -> datetime | None:
        return None if seconds is None else now + timedelta(seconds=seconds)

    group = world.groups[GroupID(one.group)]
    queue = cluster_queue_name(world, group)
    since = group.requeueing.queued_at or group.created_at
    mean = plain.get(queue)
    return {
        "cluster": world.cluster,
        "group_id": one.group,
        "given_at": now,
        "shard": SHARD,
        "as_of_seq": seq,
        "namespace": group.namespace,
        "name": group.name,
        "queue": group.spec.queue,
        "cluster_queue": queue,
        "priority": group.composition.priority,
        "position": one.position,
        "queued_at": group.requeueing.queued_at,
        "expected_at": at(one.expected_s),
        "earliest_at": at(one.earliest_s),
        "latest_at": at(one.latest_s),
        "plain_at": None if mean is None else max(now, since + timedelta(seconds=mean)),
        "never": one.never,
        "replaced_at": None,
        "came": "",
        "came_at": None,
    }


def _says_the_same(old: Any, new: Mapping[str, Any], now: datetime) -> bool:
    if old is None or old["never"] != new["never"]:
        return False
    for name in ("expected_at", "latest_at"):
        before, after = old[name], new[name]
        if (before is None) != (after is None):
            return False
        if before is None:
            continue
        if before < now:
            return False
        room = max(LEAST, SAME * ((old["latest_at"] or before) - old["given_at"]))
        if abs(after - before) > room:
            return False
    return True


def note_on(connection: Connection, cluster: str, now: datetime) -> None:
    """Note that forecasts are made, before the first; what another process wrote stays."""
    insert = (sqlite if connection.dialect.name == "sqlite" else postgresql).insert
    row = _row_of(cluster, {"at": now, "as_of_seq": 0})
    connection.execute(insert(tables.forecasts).on_conflict_do_nothing(), [row])


def _noted(made: Made) -> dict[str, Any]:
    return {
        "at": made.at,
        "as_of_seq": made.seq,
        "plays": made.forecast.plays,
        "took_ms": round(1000 * made.forecast.took_s),
        "groups": len(made.forecast.estimates),
        "drawn_from": dict(made.drawn_from),
    }


def _note(connection: Connection, cluster: str, what: Mapping[str, Any]) -> None:
    table = tables.forecasts
    connection.execute(sa.delete(table).where(table.c.cluster == cluster, table.c.shard == SHARD))
    connection.execute(sa.insert(table), [_row_of(cluster, what)])


def _row_of(cluster: str, what: Mapping[str, Any]) -> dict[str, Any]:
    blank = {"plays": 0, "took_ms": 0, "groups": 0, "drawn_from": {}}
    return {"cluster": cluster, "shard": SHARD, **blank, **what}
