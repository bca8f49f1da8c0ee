"""Groups of a time with how long each waited and ran: as sacct lists jobs of Slurm.

Theory. A group waits for as long as it exists and holds no quota, also after an eviction; it ran
from the start of its first pod to the end of its last. A label of its pods names its owner.

Invariant: one row per life, the newest first; of lives that touch the time from `since`
to `until`.
"""

from datetime import datetime

from gatelog.readmodel.rows import GroupRow
from gatelog.readmodel.statements.groups import GROUP_COLUMNS, of_page
from projector.schema.dialect import home
from projector.schema.ended import ended_as

_MINE = "p.cluster = g.cluster AND p.group_id = g.id"
_OVER = "coalesce(p.ended_at, p.gone_at)"
_ADMITTED = "FROM admissions a WHERE a.cluster = g.cluster AND a.group_id = g.id"
_COLUMNS = f"""{GROUP_COLUMNS},
       (SELECT CAST(coalesce(sum({{held}}), 0) AS BIGINT) {_ADMITTED}
           AND a.released_at IS NOT NULL) AS held_us,
       (SELECT min(a.admitted_at) {_ADMITTED} AND a.released_at IS NULL) AS held_since,
       (SELECT min(p.started_at) FROM pods p WHERE {_MINE}) AS started_at,
       (SELECT CASE WHEN count(*) = count({_OVER}) THEN max({_OVER}) END
          FROM pods p WHERE {_MINE} AND p.started_at IS NOT NULL) AS ended_at"""


def query(database: str, *, label: bool) -> str:
    """Return the statement; `label`: of pods with parameter `key` at parameter `value`."""
    d = home(database)
    of = d.label.format(doc="p.labels", name="key")
    since, until = d.time.format(name="since"), d.time.format(name="until")
    held = f"{d.micros.format(t='a.released_at')} - {d.micros.format(t='a.admitted_at')}"
    labelled = f"AND EXISTS (SELECT 1 FROM pods p WHERE {_MINE} AND {of} = :value)" if label else ""
    return of_page(
        _COLUMNS.format(held=held),
        "groups g",
        f"""(g.namespace = :namespace OR :namespace = '')
   AND (g.queue = :queue OR g.cluster_queue = :queue OR :queue = '')
   AND (:state IN ('', g.state) OR {ended_as("g", ":state")})
   AND g.created_at <= {until}
   AND coalesce(g.finished_at, g.gone_at, {since}) >= {since} {labelled}""",
        "g.created_seq DESC, g.id",
    )


class JobRow(GroupRow, frozen=True, kw_only=True):
    """A life of a group, and the times that its waits and runs are counted by."""

    held_us: int
    """Microseconds for which it held quota, in admissions that are over."""
    held_since: datetime | None
    started_at: datetime | None
    ended_at: datetime | None

    def waited_s(self, now: datetime) -> float:
        """Seconds until its end, or now, without those for which it held quota."""
        until = self.held_since or self.finished_at or self.gone_at or now
        return max(0.0, (until - self.created_at).total_seconds() - self.held_us / 1e6)

    def ran_s(self, now: datetime) -> float | None:
        """Seconds from its first start to its last end, or now; None: no pod of it started."""
        if self.started_at is None:
            return None
        return max(0.0, ((self.ended_at or now) - self.started_at).total_seconds())
