"""Statement that adds up the spans of `usage_views` in one period, by a key, by hours or days.

Theory. A pod's life is cut at moments that follow each other, so the length of a piece within a
period is the difference of two moments, each clamped to the period; and a sum of differences is the
difference of two sums. So the moments of pods with equal requests are added up first, and only
those few sums are cut into pieces and opened by resource and flavor.

For hours and days, pods whose moments fall into the same hours are added up whatever their key,
apart from the sums by key. The part of any hour is then whole, or one sum of moments, for all of
them at once. Moments are microseconds since the period began: a sum of microseconds since 1970
would not fit into 64 bits.

Pods that never passed their gate only wait: they are most of a busy cluster, and are added up
apart, with a look at admissions only where the key asks for a ClusterQueue.

Invariant: by whatever key, by whatever hours, the sums are those of `usage_views.spans`.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, structs

from projector.schema.clock import CLOCK
from projector.schema.dialect import Dialect, by_flavor, swapped
from projector.schema.usage_views import (
    FIRST_LABELS,
    HAS_FLAVOR,
    ITS_PODSET,
    PIECES,
    WHAT,
    WHY,
    amount,
    capped,
    filled_to,
    in_window,
    opened,
    owned,
    placed,
    released,
)

SIZES: Final = {"hour": 3_600_000_000, "day": 86_400_000_000}
"""Microseconds of the steps that divide a period."""
_LABELS = "{labels}"
_LIFE = ("created", "opened", "entered", "started", "doomed", "ended", "filled")
"""Moments of a pod, each not before the moment to its left; `filled` is not before `entered`."""
_FROM_TO = {
    "waited": (0, 1),
    "unadmitted": (1, 2),
    "starting": (2, 3),
    "running": (3, 4),
    "terminating": (4, 5),
}
"""Piece of a life -> places in `_LIFE`."""
_AT_GATE = "p.gated AND p.ungated_at IS NULL AND p.phase <> 'Succeeded'"
_SHAPE = "form, kind, role, doc, flavors, flavored, what, why"


class _Asked(Struct, frozen=True):
    """The requested sums: by key, or by step, which divides the period."""

    d: Dialect
    key: str
    only: str
    step: str = ""

    @property
    def sums(self) -> str:
        """The end of its parts' names."""
        return "steps" if self.step else "keys"

    def keyed(self, *columns: str) -> str:
        """Return columns that only sums by key have."""
        return "" if self.step else "".join(f"{one}, " for one in columns)

    @property
    def labels(self) -> bool:
        """Whether the key is a label's value."""
        return _LABELS in self.key

    def its(self, labels: str) -> str:
        """Return SQL of the key of `o`, with these labels."""
        return (self.key or "''").format(labels=labels)

    def at(self, moment: str) -> str:
        """Return SQL of a moment, moved into the period `t`: microseconds since that began."""
        micros = self.d.micros.format(t=moment)
        return (
            f"CASE WHEN {moment} <= t.since THEN 0 WHEN {moment} >= t.until THEN t.lasts "
            f"ELSE {micros} - t.since_us END"
        )

    def place(self, moment: str) -> str:
        """Return SQL of the number of the hour or day that a moment of `at` lies in."""
        return f"({moment} + c.before) / {SIZES[self.step]}"


def sums(d: Dialect, key: str, *, only: str, step: str = "", keyed: bool = True) -> str:
    """Return the statement.

    It gives key, flavor, resource, what, why, amount, capped, pods (that ran) and micros (for how
    many microseconds that amount was taken). With a `step` there are also rows by hour or day:
    `begins` is its begin, null in all other rows. Parameters are `since`, `until`, for a label
    `key`, and for a step `cut`: the end of the first hour or day.

    Args:
        d: the database's.
        key: SQL over columns namespace, name (its group's), queue and cluster_queue of `o` and over
            `{labels}`; "" divides by flavor.
        only: condition on columns cluster and namespace of `o`.
        step: `hour`, `day` or "".
        keyed: also return rows by key; else only rows by step.
    """
    asked = _Asked(d, key if keyed else "''", only)
    both = [structs.replace(asked, step=step)] if step else []
    both += [asked] if keyed else []
    added = " UNION ALL ".join(_by_step() if one.step else _by_key(step) for one in both)
    periods = _periods(d, step) if step else ""
    shown = "s.flavor" if not key and keyed else "s.key"
    if not key and step and keyed:
        shown = "CASE WHEN s.begins IS NULL THEN s.flavor ELSE s.key END"
    return f"""
WITH RECURSIVE {_period(d, step)},{periods}
{owned(d, in_window(d), _OWNED, f"NOT ({_AT_GATE})")},
{_admitted(asked)},
{_moments(asked)},
{_gated(asked)},
{",".join(_lives(one) + _spans(one) for one in both)},
added AS MATERIALIZED (
{added})
SELECT coalesce({shown}, '') AS key, s.begins, s.flavor, s.resource, s.what, s.why, s.amount,
       max(s.capped) AS capped,
       CAST(sum(s.pods) AS BIGINT) AS pods, CAST(sum(s.micros) AS BIGINT) AS micros
  FROM (
{_resources(d)}) s
 GROUP BY 1, s.begins, s.flavor, s.resource, s.what, s.why, s.amount
"""


_OWNED = "p.cluster, p.group_id, p.role, p.labels, p.requests, p.fate, p.phase, p.created_at, "
_OWNED += "p.opened_at, p.started_at, p.doomed_at, p.over_at, g.name"


def _period(d: Dialect, step: str) -> str:
    """Return the period as a row `t`; `before`: how long its first hour had lasted by then."""
    since, until = d.time.format(name="since"), d.time.format(name="until")
    since_us, until_us = d.micros.format(t=since), d.micros.format(t=until)
    size = SIZES.get(step, 1)
    return f"""t AS MATERIALIZED (
SELECT {since} AS since, {until} AS until, {since_us} AS since_us,
       {until_us} - {since_us} AS lasts,
       {since_us} - {since_us} / {size} * {size} AS before)"""


def _periods(d: Dialect, step: str) -> str:
    """Return the hours or days `b`, by number, from and to when in microseconds of the period."""
    following = d.next_hour if step == "hour" else d.next_day
    since, until = d.time.format(name="since"), d.time.format(name="until")
    ends = d.first.format(a=following.format(t="ends"), b=until)
    begins_us, ends_us = d.micros.format(t="n.begins"), d.micros.format(t="n.ends")
    return f"""
steps(number, begins, ends) AS (
SELECT 0, {since}, {d.time.format(name="cut")}
UNION ALL
SELECT number + 1, ends, {ends} FROM steps WHERE ends < {until}),
b AS MATERIALIZED (
SELECT n.number, n.begins, {begins_us} - t.since_us AS from_us, {ends_us} - t.since_us AS to_us
  FROM steps n CROSS JOIN t),"""


def _moments(asked: _Asked) -> str:
    """Return pods that were past their gate, with their moments.

    Each step is materialized: SQLite would compute an expression again wherever it is read.
    """
    d = asked.d
    whose = "w.key" if asked.labels else "''"
    doomed = d.last.format(a="o.entered_at", b="o.doomed_at")
    started = d.last.format(a="o.entered_at", b="o.started_at")
    moments = {
        "created": d.first.format(a="o.created_at", b="o.opened_at"),
        "opened": "o.opened_at",
        "entered": "o.entered_at",
        "started": d.first.format(a=started, b=doomed),
        "doomed": doomed,
        "ended": "o.over_at",
        "filled": d.last.format(a="o.entered_at", b=filled_to(d)),
    }
    admitted = """LEFT JOIN admitted w ON w.cluster = o.cluster AND w.group_id = o.group_id
   AND w.number = o.number"""
    ends = ", ".join(f"{sql} AS {name}" for name, sql in moments.items())
    inside = ",\n       ".join(f"{asked.at(f'o.{name}')} AS {name}" for name in _LIFE)
    return f"""cut AS MATERIALIZED (
SELECT {asked.its("o.labels")} AS key, {whose} AS whose, o.kind, o.role, o.requests, o.flavors,
       o.wasted, q.requests AS place, {ends}
  FROM owned o
  LEFT JOIN roles q ON q.cluster = o.cluster AND q.group_id = o.group_id AND q.name = o.role
   AND o.number IS NOT NULL AND o.fate <> 'excess'
  {admitted if asked.labels else ""}
 WHERE {asked.only}),
moments AS MATERIALIZED (
SELECT o.key, o.whose, o.kind, o.role, o.requests, o.place, o.flavors, o.wasted, t.before,
       {inside}
  FROM cut o CROSS JOIN t)"""


def _lives(asked: _Asked) -> str:
    """Return sums of the moments of pods that passed their gate, by requests and place."""
    shape = asked.keyed("c.key", "c.whose")
    shape += "c.kind, c.role, c.requests, c.place, c.flavors, c.wasted"
    return f"""lives_{asked.sums} AS MATERIALIZED (
SELECT {shape}, {_sums(asked, _LIFE)},
       sum(CASE WHEN c.doomed > c.started THEN 1 ELSE 0 END) AS ran
  FROM moments c
 GROUP BY {shape}{_places(asked, _LIFE)}),
"""


def _sums(asked: _Asked, moments: Sequence[str]) -> str:
    """Return columns: how many, and of each moment its sum, and its place (with prefix p_)."""
    places = [f"{asked.place(f'c.{name}')} AS p_{name}" for name in moments if asked.step]
    return ", ".join(
        ["count(*) AS many", *places, *(f"sum(c.{name}) AS {name}" for name in moments)]
    )


def _places(asked: _Asked, moments: Sequence[str]) -> str:
    """Return the end of a GROUP BY that keeps apart what lies in different hours."""
    return "".join(f", {asked.place(f'c.{name}')}" for name in moments if asked.step)


def _spans(asked: _Asked) -> str:
    """Return pieces of lives, waits, the amounts of admissions, and what pods fill of them."""
    prefixes = ("p_", "") if asked.step else ("",)
    ends = []
    for prefix in prefixes:
        for name, end in (("from", 0), ("to", 1)):
            cases = " ".join(
                f"WHEN '{piece}' THEN o.{prefix}{_LIFE[places[end]]}"
                for piece, places in _FROM_TO.items()
            )
            ends.append(f"CASE s.piece {cases} END AS {prefix or 's_'}{name}")
    filled = ", ".join(f"o.{prefix}{name}" for prefix in prefixes for name in ("entered", "filled"))
    whose = asked.keyed("o.whose" if asked.labels else "o.key")
    return f"""spans_{asked.sums} AS MATERIALIZED (
SELECT * FROM (
SELECT {asked.keyed("o.key")}'asked' AS form, o.kind, o.role, o.requests AS doc, o.flavors,
       CASE WHEN {HAS_FLAVOR} THEN 1 ELSE 0 END AS flavored, {WHAT} AS what, {WHY} AS why,
       CASE s.piece WHEN 'running' THEN o.ran ELSE 0 END AS pods, o.many,
       {", ".join(ends)}
  FROM lives_{asked.sums} o CROSS JOIN ({PIECES}) s
UNION ALL
SELECT {whose}'filled', o.kind, o.role, o.place, o.flavors, 1,
       'held', 'incomplete', 0, o.many, {filled}
  FROM lives_{asked.sums} o WHERE o.place IS NOT NULL
UNION ALL
{_waiting(asked)}
UNION ALL
{_quota(asked)}) s WHERE s.s_to > s.s_from)
"""


def _gated(asked: _Asked) -> str:
    """Return pods that only wait, with their moments."""
    d = asked.d
    over = f"coalesce(p.ended_at, p.gone_at, {CLOCK})"
    return f"""gated AS MATERIALIZED (
SELECT {asked.its("o.labels")} AS key, o.requests, t.before, {asked.at("o.created_at")} AS created,
       {asked.at("o.ended_at")} AS ended
  FROM (SELECT p.cluster, p.group_id, p.namespace, p.labels, p.requests, p.created_at,
               {over} AS ended_at, g.queue, g.name,
               coalesce((SELECT a.cluster_queue FROM admissions a
                          WHERE a.cluster = p.cluster AND a.group_id = p.group_id
                            AND a.admitted_at < {over}
                            AND (a.released_at IS NULL OR a.released_at > {over})
                          ORDER BY a.number LIMIT 1), g.cluster_queue) AS cluster_queue
          FROM pods p LEFT JOIN groups g ON g.cluster = p.cluster AND g.id = p.group_id
         WHERE {_AT_GATE}) o
  CROSS JOIN t
 WHERE {d.mostly.format(where=asked.only)}
   AND {d.mostly.format(where="o.created_at < t.until")} AND o.ended_at > t.since
   AND o.ended_at > o.created_at)"""


def _admitted(asked: _Asked) -> str:
    """Return the admissions that held quota in the period, with moments; labels are the first
    pod's.
    """
    d = asked.d
    return f"""admitted AS MATERIALIZED (
SELECT {asked.its(FIRST_LABELS.format("o"))} AS key, o.cluster, o.group_id, o.number, o.resources,
       t.before, {asked.at("o.admitted_at")} AS admitted, {asked.at("o.released_at")} AS released
  FROM (SELECT a.cluster, a.group_id, a.number, g.namespace, g.name, g.queue, a.cluster_queue,
               a.resources, a.admitted_at, {released(d).format("a")} AS released_at
          FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id) o
  CROSS JOIN t
 WHERE {d.mostly.format(where=asked.only)} AND o.admitted_at < t.until
   AND o.released_at > t.since AND o.released_at > o.admitted_at)"""


def _waiting(asked: _Asked) -> str:
    ends = ("created", "ended")
    return f"""
SELECT {asked.keyed("c.key")}'asked', '', '', c.requests, NULL, 0, 'waited', '', 0,
       {_sums(asked, ends)}
  FROM gated c GROUP BY {asked.keyed("c.key")}c.requests{_places(asked, ends)}"""


def _quota(asked: _Asked) -> str:
    ends = ("admitted", "released")
    return f"""
SELECT {asked.keyed("c.key")}'quota', '', '', c.resources, NULL, 1, 'held', 'incomplete', 0,
       {_sums(asked, ends)}
  FROM admitted c GROUP BY {asked.keyed("c.key")}c.resources{_places(asked, ends)}"""


def _by_step() -> str:
    """Return the parts of spans in each hour or day.

    Between two hours in which spans begin or end, the spans that go on cover each hour whole.
    """
    return f"""
SELECT '' AS key, b.begins, {_SHAPE}, 0 AS pods,
       CASE WHEN b.number = e.number THEN e.micros - (e.many - e.more) * b.from_us
            ELSE -e.many * b.from_us END + e.many * b.to_us AS micros
  FROM (SELECT e.*, sum(e.more) OVER (PARTITION BY {_SHAPE} ORDER BY e.number) AS many,
               lead(e.number) OVER (PARTITION BY {_SHAPE} ORDER BY e.number) AS following
          FROM (SELECT {_SHAPE}, number, sum(more) AS more, sum(micros) AS micros
                  FROM (SELECT {_SHAPE}, p_from AS number,
                               CASE WHEN p_to > p_from THEN many ELSE 0 END AS more,
                               CASE WHEN p_to > p_from THEN 0 ELSE s_to END - s_from AS micros
                          FROM spans_steps
                        UNION ALL
                        SELECT {_SHAPE}, p_to, -many, s_to FROM spans_steps
                         WHERE p_to > p_from) s
                 GROUP BY {_SHAPE}, number) e) e
  JOIN b ON b.number = e.number OR b.number > e.number AND b.number < e.following
"""


def _by_key(step: str) -> str:
    """Return the parts of spans: few are equal, and they are added up after they are opened."""
    shape = ", ".join(f"s.{name}" for name in _SHAPE.split(", "))
    # Without a step, no branch before this gives the type of the column.
    begins = "NULL" if step else "CAST(NULL AS TEXT) AS begins"
    return f"""
SELECT s.key, {begins}, {shape}, s.pods, s.s_to - s.s_from AS micros
  FROM spans_keys s
"""


def _resources(d: Dialect) -> str:
    """Return the sums, opened by resource and flavor."""
    resources, flavors, flavor, name = opened(d, "c", "c.doc")
    text = d.text.format(doc="x.value")
    its = swapped(ITS_PODSET, "o.", "c.")
    return f"""
SELECT c.key, c.begins, CASE WHEN c.flavored = 1 THEN {name} ELSE '' END AS flavor,
       r.key AS resource, c.what, c.why, {capped(d)}, c.pods, c.micros
  FROM added c
  {resources}
  {flavors}
  {flavor}
 WHERE c.form = 'asked' AND c.micros > 0
   AND (r.key <> 'pods' OR (x.key IS NOT NULL AND c.flavored = 1))
UNION ALL
SELECT c.key, c.begins, f.key, r.key, c.what, c.why, {amount(d)}, 0, 0, c.micros
  FROM added c
  {by_flavor(d, "c.doc")}
 WHERE c.form = 'quota' AND c.micros > 0
UNION ALL
SELECT c.key, c.begins, {text}, r.key, c.what, c.why, -{amount(d)}, 0, 0, c.micros
  FROM added c
  {placed(d, "c.doc", "c.flavors")}
 WHERE c.form = 'filled' AND c.micros > 0 AND x.key = r.key AND {its}"""
