"""The present, read from the read model: the world, how long quota was held, recent arrivals.

Theory. The world is the start state of a projector. The holders of quota and their times are in
`admissions`: the newest `MOST_RUNS` rows show how long groups run, the rows of the last day are the
arrivals. For a group that is gone the read model has counts and requests per role, and no node
selectors: it comes again with those of a present group of its queue and role, if there is one.

Where Kueue decides, gatelog's own admission plays in its place, and only pods that gatelog knows
take part.

Invariant: one transaction that reads; nothing is written.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import Connection, text

from gatelog.forecast.playing import Coming, Present
from gatelog.forecast.record import Asked, Waited, Waits
from gatelog.forecast.spans import Key, Run, Runtimes
from podgroup.admission.model import PodSet, Workload
from podgroup.engine import load_world, recall_waiting
from podgroup.fold.deciding import line_up
from podgroup.model.ids import GroupID
from podgroup.state import asked
from podgroup.state.facts import cluster_queue_name
from podgroup.state.group import Group
from podgroup.state.world import World
from projector.schema.usage_views import FIRST_LABELS
from projector.storage.loading import Loaded, load_state
from projector.times import bound

MOST_RUNS = 10_000
"""Admissions that are looked at, the newest."""
LATELY = timedelta(days=1)
"""Arrivals of this stretch are repeated."""
QUIET = timedelta(hours=1)
"""Time without arrivals that most plays put before a log of less than a day: whether arrivals go on
as in the few known minutes is unknown.
"""

_RUNS = f"""
SELECT a.group_id, a.number, a.cluster_queue, a.queued_at, a.admitted_at, a.released_at,
       a.release_reason, g.namespace, g.queue, g.priority,
       {FIRST_LABELS.format("a")} AS labels
  FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
 WHERE a.cluster = :cluster AND g.shard = 0 AND a.admitted_at <= :now
 ORDER BY a.admitted_at DESC, a.group_id, a.number LIMIT :limit
"""

_ROLES = """
SELECT group_id, name, count, requests FROM roles
 WHERE cluster = :cluster AND count > 0 AND group_id IN (
       SELECT group_id FROM admissions WHERE cluster = :cluster AND admitted_at >= :since)
"""

Shape = tuple[tuple[int, tuple[tuple[str, int], ...]], ...]


def read(
    connection: Connection, cluster: str, now: datetime, label: str
) -> tuple[Loaded, Present] | None:
    """Return the stored state and the begin of plays, None before the first commit."""
    loaded = load_state(connection, cluster)
    if loaded is None:
        return None
    world = load_world(cluster, loaded.checkpoint.mode, loaded)
    if world.mode == "kueue":
        world.mode = "builtin"
        world.policy = msgspec.structs.replace(world.policy, longest_wait_s=0)
        line_up(world)
    recall_waiting(world)
    world.loaded = False
    return loaded, present_of(connection, world, now, label)


def present_of(connection: Connection, world: World, now: datetime, label: str) -> Present:
    """Return what plays of a world begin with."""
    keys = {str(group.id): _key(world, group, label) for group in world.groups.values()}
    rows = _rows(
        connection,
        _RUNS,
        {"cluster": world.cluster, "now": now, "limit": MOST_RUNS},
    )
    since = rows[-1]["admitted_at"] if rows else now
    roles: dict[str, list[Mapping[str, Any]]] = {}
    for row in _rows(connection, _ROLES, {"cluster": world.cluster, "since": since}):
        roles.setdefault(row["group_id"], []).append(row)
    runs, waits = [], []
    came: dict[str, tuple[datetime, Workload, Key]] = {}
    samples = _samples(world)
    for row in rows:
        mine = roles.get(row["group_id"])
        if not mine:
            continue
        key = (
            (row["cluster_queue"], row["namespace"], row["queue"]),
            str((row["labels"] or {}).get(label, "")),
            _shape((each["count"], each["requests"]) for each in mine),
        )
        over = row["release_reason"] == "Finished"
        # A run that was cut short, or goes on, gives only a lower bound.
        held = (row["released_at"] or now) - row["admitted_at"]
        runs.append(Run(key, max(0.0, held.total_seconds()), over))
        if row["queued_at"] is not None:
            waited = (row["admitted_at"] - row["queued_at"]).total_seconds()
            waits.append(Waited(Asked.of(key, row["priority"]), max(0.0, waited), over=True))
        if row["number"] == 1 and row["queued_at"] is not None:
            sets = tuple(_pod_set(world, samples, row, each) for each in mine)
            came[row["group_id"]] = (row["queued_at"], _workload(row, sets), key)
    for identity in world.quotas.waiting:
        group, key = world.groups[GroupID(identity)], keys[identity]
        since_when = group.requeueing.queued_at
        if since_when is None or since_when > now:
            continue
        asked_for = Asked.of(key, group.composition.priority)
        waits.append(Waited(asked_for, (now - since_when).total_seconds(), over=False))
        if not group.quota.admissions:
            came[identity] = (since_when, asked.workload(world, group), key)
    begin = max(now - LATELY, min((at for at, _, _ in came.values()), default=now))
    if len(rows) == MOST_RUNS:
        begin = max(begin, since)
    ordered = sorted((one for one in came.values() if one[0] >= begin), key=lambda one: one[0])
    return Present(
        world=world,
        now=now.timestamp(),
        runtimes=Runtimes(runs),
        waits=Waits(waits),
        keys=keys,
        coming=[Coming((at - begin).total_seconds(), work, key) for at, work, key in ordered],
        span_s=(now - begin).total_seconds(),
        quiet_s=min(QUIET, LATELY - (now - begin)).total_seconds(),
        returns={str(group.id) for group in world.groups.values() if _returns(world, group)},
    )


def _rows(connection: Connection, query: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    rows = connection.execute(text(query), bound(connection.dialect.name, given)).mappings()
    return [{name: _value(name, value) for name, value in row.items()} for row in rows]


def _value(name: str, value: Any) -> Any:
    """Even out what the two databases give."""
    if isinstance(value, str) and name.endswith("_at"):
        return datetime.fromisoformat(value)
    if isinstance(value, str) and name in ("labels", "requests"):
        return msgspec.json.decode(value)
    return value


def _key(world: World, group: Group, label: str) -> Key:
    first = world.members[group.id].first()
    pod = world.pods.get(first) if first is not None else None
    value = pod.view.labels.get(label, "") if pod is not None else ""
    shape = _shape((role.count, role.requests) for role in group.roles.values() if role.count)
    return (cluster_queue_name(world, group), group.namespace, group.spec.queue), value, shape


def _shape(roles: Any) -> Shape:
    return tuple(sorted((count, tuple(sorted(requests.items()))) for count, requests in roles))


def _samples(world: World) -> dict[tuple[str, str, str], PodSet]:
    """Return pods that show where pods of a queue and role may run."""
    found: dict[tuple[str, str, str], PodSet] = {}
    for group in world.groups.values():
        for role in group.roles.values():
            where = (group.namespace, group.spec.queue, role.name)
            if role.count and where not in found:
                shown = asked.sample_of(world, group, role)
                found[where] = asked.shaped_like(shown, role.name)
    return found


def _pod_set(
    world: World,
    samples: Mapping[tuple[str, str, str], PodSet],
    row: Mapping[str, Any],
    role: Mapping[str, Any],
) -> PodSet:
    name = role["name"]
    sample = samples.get((row["namespace"], row["queue"], name)) or PodSet(name=name, count=1)
    return msgspec.structs.replace(
        asked.asking(world, sample, role["requests"]), count=role["count"]
    )


def _workload(row: Mapping[str, Any], sets: tuple[PodSet, ...]) -> Workload:
    return Workload(
        id="",
        uid="",
        namespace=row["namespace"],
        queue=row["queue"],
        created=0.0,
        priority=row["priority"],
        pod_sets=sets,
    )


def _returns(world: World, group: Group) -> bool:
    """Return whether a group's pods would be made again: by a controller, or by their author."""
    first = world.members[group.id].first()
    pod = world.pods.get(first) if first is not None else None
    return not group.single or (
        pod is not None and any(owner.controller for owner in pod.view.owners)
    )
