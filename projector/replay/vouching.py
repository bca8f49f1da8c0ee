"""What a log can vouch for that begins with a later epoch: those who came since.

Theory. A log that is lost takes with it what made the groups of before, so a fold of what is left
gives them other rows: other counts, no earlier admission, maybe another id. Who came since is made
of the log alone, and must be equal as ever. The read model knows who came when; the replay is told
so of those whom it took for new (`introduce`). Then one question tells on both sides whether a row
is about somebody of before (`of_before`).

The first complete list of a kind says how many were gone by then, which is of before as well.

Invariant: with `floor` 0 the log vouches for everything, and nothing is asked or changed.
"""

import sqlalchemy as sa

from projector import tables

_GROUP = (
    "EXISTS (SELECT 1 FROM groups o WHERE o.cluster = {row}.cluster AND o.id = {id} "
    "AND o.created_seq <= :floor)"
)


def _group(row: str, column: str = "group_id") -> str:
    return _GROUP.format(row=row, id=f"{row}.{column}")


def _pod(row: str) -> str:
    return (
        f"EXISTS (SELECT 1 FROM pods p WHERE p.cluster = {row}.cluster AND p.uid = {row}.pod_uid "
        f"AND (p.seen_seq <= :floor OR {_group('p')}))"
    )


_OF_BEFORE = {
    "groups": "groups.created_seq <= :floor",
    "roles": _group("roles"),
    "pods": f"(pods.seen_seq <= :floor OR {_group('pods')})",
    "gates": _pod("gates"),
    "history": f"({_group('history')} OR {_pod('history')} OR history.kind = 'RelistCompleted' "
    "AND NOT EXISTS (SELECT 1 FROM history h WHERE h.cluster = history.cluster "
    "AND h.shard = history.shard AND h.kind = history.kind AND h.reason = history.reason "
    "AND h.seq > :floor AND h.seq < history.seq))",
    "waits": _group("waits"),
    "admissions": _group("admissions"),
    "decisions": _group("decisions"),
    # An outcome may come after the loss of its decision.
    "outcomes": "NOT EXISTS (SELECT 1 FROM decisions d WHERE d.cluster = outcomes.cluster "
    f"AND d.id = outcomes.decision_id AND NOT {_group('d')})",
}


def of_before(table: str) -> str:
    """Return the condition that a row is about somebody who came before position `:floor`."""
    return _OF_BEFORE[table]


def introduce(
    live: sa.Connection, again: sa.Connection, cluster: str, shard: int, floor: int
) -> None:
    """Tell the replay which groups and pods of its own came before `floor`; it is written to."""
    g, p = tables.groups.c, tables.pods.c
    mine = (g.cluster == cluster, g.shard == shard)
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
            p.shard == shard,
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
