"""Which groups can be verified when the log starts late: those created since.

Theory. When the start of the log is lost, the events that made older groups are lost with it, and a
fold of the rest gives those groups other rows: other counts, no earlier admission, maybe another
id. The rest of the log is complete only once each kind was listed again (`listed_all`); before that
a queue may be unknown that the read model had all along. Groups created later come from the log
alone, and must be equal. The read model has the position at which each group was created; the
replay takes it over for groups that it took for new (`introduce`). Then one condition shows on both
sides whether a row is about an older group (`of_before`). A decision about a group that the replay
lacks counts as about an older group: a missing group shows in the table of groups.

Invariant: with `floor` 0 the log verifies all rows, and nothing is queried or changed.
"""

import sqlalchemy as sa

from podgroup.model.objects import FIRST_KINDS
from projector import tables
from projector.tables.base import SHARD


def _since(row: str, column: str = "group_id") -> str:
    """A group that the database knows, and that came since."""
    return (
        f"EXISTS (SELECT 1 FROM groups o WHERE o.cluster = {row}.cluster AND o.id = {row}.{column} "
        "AND o.created_seq > :floor)"
    )


def _pod_since(row: str) -> str:
    return (
        f"EXISTS (SELECT 1 FROM pods p WHERE p.cluster = {row}.cluster AND p.uid = {row}.pod_uid "
        f"AND p.seen_seq > :floor AND {_since('p')})"
    )


_OF_BEFORE = {
    "groups": "groups.created_seq <= :floor",
    "roles": f"NOT {_since('roles')}",
    "pods": f"(pods.seen_seq <= :floor OR NOT {_since('pods')})",
    "gates": f"NOT {_pod_since('gates')}",
    "pod_waits": f"NOT {_pod_since('pod_waits')}",
    "history": f"(history.group_id <> '' AND NOT {_since('history')} "
    f"OR history.pod_uid <> '' AND NOT {_pod_since('history')})",
    "waits": f"NOT {_since('waits')}",
    "admissions": f"NOT {_since('admissions')}",
    "placements": f"NOT {_since('placements')}",
    "decisions": f"NOT {_since('decisions')}",
    "usage": "usage.from_seq <= :floor",
    "nodes": "nodes.from_seq <= :floor",
    "topologies": "topologies.from_seq <= :floor",
    "shortages": f"NOT {_since('shortages')}",
    "reserved_starts": f"NOT {_since('reserved_starts')}",
    "preemptions": f"NOT {_since('preemptions', 'victim_id')}",
    "outcomes": "NOT EXISTS (SELECT 1 FROM decisions d WHERE d.cluster = outcomes.cluster "
    f"AND d.id = outcomes.decision_id AND {_since('d')})",
}


def of_before(table: str) -> str:
    """Return the condition that a row is about a group that came before position `:floor`."""
    return _OF_BEFORE[table]


def listed_all(again: sa.Connection, cluster: str) -> int | None:
    """Return the position at which the replay had seen every kind; None: not yet."""
    h = tables.history.c
    firsts = sa.select(sa.func.min(h.seq)).where(
        h.cluster == cluster, h.shard == SHARD, h.kind == "RelistCompleted"
    )
    found = list(again.scalars(firsts.group_by(h.reason)))
    return max(found) if len(found) >= len(FIRST_KINDS) else None


def introduce(live: sa.Connection, again: sa.Connection, cluster: str, floor: int) -> None:
    """Mark in the replay which groups and pods of its own came before `floor`; it is written to."""
    g, p = tables.groups.c, tables.pods.c
    mine = (g.cluster == cluster, g.shard == SHARD)
    since = set(live.scalars(sa.select(g.id).where(*mine, g.created_seq > floor)))
    lived = live.execute(
        sa.select(g.kind, g.namespace, g.name, g.gone_at, g.as_of_seq).where(
            *mine, g.created_seq <= floor, g.gone_at.is_(None) | (g.as_of_seq > floor)
        )
    )
    until = {
        (row.kind, row.namespace, row.name): None if row.gone_at is None else row.as_of_seq
        for row in lived
    }
    found = again.execute(
        sa.select(g.id, g.kind, g.namespace, g.name, g.created_seq).where(g.cluster == cluster)
    )
    same = [
        {"one": row.id}
        for row in found
        if (key := (row.kind, row.namespace, row.name)) in until
        and row.id not in since
        and ((end := until[key]) is None or row.created_seq <= end)
    ]
    known = live.scalars(
        sa.select(p.uid).where(
            p.cluster == cluster,
            p.shard == SHARD,
            p.seen_seq <= floor,
            p.gone_at.is_(None) | (p.as_of_seq > floor),
        )
    )
    pods = [{"one": uid} for uid in known]
    of_group = sa.update(tables.groups).where(g.cluster == cluster, g.id == sa.bindparam("one"))
    of_pod = sa.update(tables.pods).where(p.cluster == cluster, p.uid == sa.bindparam("one"))
    if same:
        again.execute(of_group.values(created_seq=floor), same)
    if pods:
        again.execute(of_pod.values(seen_seq=floor), pods)
