"""Views of quota used, held, wasted and waited for: spans of time, and quota beside them.

Theory. Everything that costs is a span: some amount of one resource, from one moment to another, of
one pod, in one flavor. A pod's life is cut into spans that follow each other without a gap: it
waits until it is past its gate, is held until the kubelet takes it up, runs, and is held again from
the request for its deletion until it is gone. Quota of an admission that no pod fills (a gang that
is not whole) is the rest: the admission counts in full, and the places that pods fill count against
it. So every sum, by whatever column and in whatever interval, is a sum over the same spans, and all
of them agree.

    waited                                  requested by a pod at its gate; no quota is taken
    held     starting                       past the gate, not yet running
    held     terminating                    to be deleted, not yet gone
    held     incomplete                     quota of an admission that none of its pods fills
    running                                 until it ends, or is to be deleted
    wasted   failed preempted evicted       the same of attempts without success

`incomplete` is below zero while a pod runs in the place of a pod that is not gone yet.

Resource `pods` (one for each) is counted where an admission holds quota of it. A request beyond any
node (`quantities.most`: the webhook refuses it) counts as that maximum, and is `capped`.

Invariant: spans of one pod do not overlap but for `incomplete` spans; open spans end at `v_clock`.
"""

from podgroup.model.quantities import CPU, most
from projector.schema.clock import CLOCK
from projector.schema.dialect import Dialect, by_flavor, in_units, swapped

_MOST = f"CASE WHEN r.key = '{CPU}' THEN {most(CPU)} ELSE {most('')} END"
"""The most that a pod can ask for of resource `r`."""
_FLAVORLESS = ("waited", "unadmitted")
HAS_FLAVOR = f"s.piece NOT IN {_FLAVORLESS}"
ITS_PODSET = "(f.key = lower(o.role) OR o.kind = 'single')"
PIECES = " UNION ALL ".join(
    f"SELECT '{piece}' AS piece" for piece in (*_FLAVORLESS, "starting", "running", "terminating")
)
"""Pieces of a pod's life."""
_WASTED = "s.piece = 'running' AND o.wasted <> ''"
WHAT = f"""CASE WHEN {_WASTED} THEN 'wasted' WHEN s.piece IN ('starting', 'terminating') THEN 'held'
            ELSE s.piece END"""
WHY = f"""CASE WHEN {_WASTED} THEN o.wasted WHEN s.piece IN ('starting', 'terminating') THEN s.piece
            ELSE '' END"""


def amount(d: Dialect, doc: str = "r.value") -> str:
    """Number of resource `r`."""
    return d.value.format(doc=doc)


def capped(d: Dialect) -> str:
    """Columns `amount` and `capped` of what a pod asks for."""
    least = d.first.format(a=amount(d), b=_MOST)
    return f"""{least} AS amount, CASE WHEN {amount(d)} > {_MOST} THEN 1 ELSE 0 END AS capped"""


def lives(d: Dialect, which: str = "") -> str:
    """Pods with the moments of their lives in order: created, opened, started, doomed, over."""
    over = f"coalesce(p.ended_at, p.gone_at, {CLOCK})"
    # The gate's moment is the log's, creation the API server's: clocks may differ.
    opened = (
        "CASE WHEN p.ungated_at IS NULL AND NOT p.gated OR p.ungated_at < p.created_at "
        "THEN p.created_at ELSE p.ungated_at END"
    )
    doomed = "CASE WHEN p.deleted_at IS NOT NULL THEN coalesce(p.failed_at, p.deleted_at) END"
    first = d.first.format
    return f"""
SELECT p.cluster, p.uid, p.group_id, p.role, p.labels, p.requests, p.fate, p.phase, p.created_at,
       {first(a=f"coalesce({opened}, {over})", b=over)} AS opened_at,
       {first(a=f"coalesce(p.started_at, {over})", b=over)} AS started_at,
       {first(a=f"coalesce({doomed}, {over})", b=over)} AS doomed_at,
       {over} AS over_at
  FROM pods p{f" WHERE {which}" if which else ""}"""


def _cases(d: Dialect) -> dict[str, str]:
    """Begin and end of the piece `s` of the life of pod `o`."""
    first, last = d.first.format, d.last.format
    doomed = last(a="o.entered_at", b="o.doomed_at")
    started = last(a="o.entered_at", b="o.started_at")
    pieces = (
        ("waited", "o.created_at", "o.opened_at"),
        ("unadmitted", "o.opened_at", "o.entered_at"),
        ("starting", "o.entered_at", first(a=started, b=doomed)),
        ("running", started, doomed),
        ("terminating", doomed, "o.over_at"),
    )
    begins = " ".join(f"WHEN '{piece}' THEN {begin}" for piece, begin, _ in pieces)
    ends = " ".join(f"WHEN '{piece}' THEN {end}" for piece, _, end in pieces)
    return {"from_at": f"CASE s.piece {begins} END", "to_at": f"CASE s.piece {ends} END"}


def opened(d: Dialect, pod: str, requests: str = "") -> tuple[str, str, str, str]:
    """FROM items that open requests (`r`) and flavors (`f`, `x`) of a pod; the flavor's name."""
    resources = d.each.format(doc=d.with_pods.format(doc=requests or f"{pod}.requests"), alias="r")
    its = swapped(ITS_PODSET, "o.", f"{pod}.")
    flavors = d.each_or_none.format(doc=f"{pod}.flavors", alias="f", on=its)
    flavor = d.each_or_none.format(
        doc=d.nested.format(doc="f.value"), alias="x", on="x.key = r.key"
    )
    name = "CASE WHEN x.key IS NULL THEN '' ELSE {} END".format(d.text.format(doc="x.value"))
    return resources, flavors, flavor, name


def owned(d: Dialect, within: str = "", columns: str = "p.*", pods: str = "") -> str:
    """Pods with their group and the admission that they ran under.

    `within` selects pods, with their lives in order; `pods` selects by columns of pods. With
    `within` the result is part of a query that reads it more than once.
    """
    admitted = d.last.format(a="p.opened_at", b="a.admitted_at")
    entered = d.first.format(a=admitted, b="p.over_at")
    kept = "MATERIALIZED " if within else ""
    return f"""owned AS {kept}(
SELECT {columns}, g.namespace, g.queue, g.kind,
       coalesce(a.cluster_queue, g.cluster_queue) AS cluster_queue, a.number,
       a.flavors, a.admitted_at, a.released_at,
       CASE WHEN a.number IS NULL OR p.fate = 'excess' THEN p.over_at
            ELSE {entered} END AS entered_at,
       CASE WHEN p.phase = 'Succeeded' THEN ''
            WHEN a.release_reason = 'Preempted' THEN 'preempted'
            WHEN a.release_reason NOT IN ('', 'Finished', 'Gone') THEN 'evicted'
            WHEN p.phase = 'Failed' OR p.fate = 'replaced' THEN 'failed' ELSE '' END AS wasted
  FROM ({lives(d, pods)}) p
  JOIN groups g ON g.cluster = p.cluster AND g.id = p.group_id
  LEFT JOIN admissions a ON a.cluster = p.cluster AND a.group_id = p.group_id AND a.number = (
       SELECT min(b.number) FROM admissions b
        WHERE b.cluster = p.cluster AND b.group_id = p.group_id AND b.admitted_at < p.over_at
          AND (b.released_at IS NULL OR b.released_at > p.opened_at)){within})"""


def spans(d: Dialect) -> str:
    """Return the view of all spans."""
    resources, flavors, flavor, name = opened(d, "o")
    cases = _cases(d)
    flavored = f"CASE WHEN {HAS_FLAVOR} THEN {name} ELSE '' END"
    columns = "cluster, group_id, pod_uid, namespace, queue, cluster_queue, labels"
    return f"""
WITH {owned(d)},
cut AS (
SELECT o.cluster, o.group_id, o.uid AS pod_uid, o.namespace, o.queue, o.cluster_queue, o.labels,
       {flavored} AS flavor, r.key AS resource, {capped(d)},
       {WHAT} AS what, {WHY} AS why,
       {cases["from_at"]} AS from_at, {cases["to_at"]} AS to_at
  FROM owned o CROSS JOIN ({PIECES}) s
  {resources}
  {flavors}
  {flavor}
 WHERE r.key <> 'pods' OR (x.key IS NOT NULL AND {HAS_FLAVOR})
UNION ALL
{_incomplete(d)})
SELECT {columns}, flavor, resource, amount, capped, what, why, from_at, to_at
  FROM cut WHERE to_at > from_at
"""


def in_window(d: Dialect) -> str:
    """Condition on pods: there in the window, or their group held quota in it (they are over)."""
    since, until = d.time.format(name="since"), d.time.format(name="until")
    return f"""
 WHERE {d.mostly.format(where=f"p.created_at < {until}")} AND (p.over_at > {since} OR EXISTS (
       SELECT 1 FROM admissions w WHERE w.cluster = p.cluster AND w.group_id = p.group_id
          AND (w.released_at IS NULL OR w.released_at > {since})))"""


FIRST_LABELS = """(SELECT l.labels FROM pods l WHERE l.cluster = {0}.cluster
         AND l.group_id = {0}.group_id ORDER BY l.seen_seq, l.uid LIMIT 1)"""
"""Labels of a group's first pod, for amounts that no pod has."""


def _incomplete(d: Dialect) -> str:
    """Quota of admissions, and against it the parts that pods fill."""
    gone = released(d)
    rest = "'held', 'incomplete'"
    # A place has the requests of its role, also where a pod in it was resized since.
    place = placed(d, "q.requests", "o.flavors")
    # Without a pod the labels are the first pod's, on both sides.
    labels = FIRST_LABELS
    return f"""
SELECT a.cluster, a.group_id, '', g.namespace, g.queue, a.cluster_queue,
       {labels.format("a")}, f.key, r.key, {amount(d)}, 0, {rest},
       a.admitted_at, {gone.format("a")}
  FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
  {by_flavor(d, "a.resources")}
UNION ALL
SELECT o.cluster, o.group_id, '', o.namespace, o.queue, o.cluster_queue,
       {labels.format("o")},
       {d.text.format(doc="x.value")}, r.key, -{amount(d)}, 0, {rest}, o.entered_at, {filled_to(d)}
  FROM owned o
  JOIN roles q ON q.cluster = o.cluster AND q.group_id = o.group_id AND q.name = o.role
  {place}
 WHERE o.number IS NOT NULL AND o.fate <> 'excess' AND x.key = r.key
   AND {ITS_PODSET}"""


def placed(d: Dialect, requests: str, flavors: str) -> str:
    """FROM items that open what a place asks for (`r`) and the flavors it has (`f`, `x`)."""
    return f"""{d.each.format(doc=d.with_pods.format(doc=requests), alias="r")}
  {d.each.format(doc=flavors, alias="f")}
  {d.each.format(doc=d.nested.format(doc="f.value"), alias="x")}"""


def released(d: Dialect) -> str:
    """When admission `{}` gave its quota back, `v_clock` if it did not."""
    return f"coalesce({{}}.released_at, {CLOCK})"


def filled_to(d: Dialect) -> str:
    """When pod `o` gives its place back: a succeeded pod does so with the admission."""
    gone = released(d).format("o")
    ended = f"CASE WHEN o.phase = 'Succeeded' THEN {gone} ELSE o.over_at END"
    return d.first.format(a=ended, b=gone)


def hourly(d: Dialect) -> str:
    """Return the view of the same, cut at full hours and added up but for the pods."""
    columns = "cluster, namespace, queue, cluster_queue, flavor, resource, amount, what, why"
    start = d.hour.format(t="s.from_at")
    after = d.next_hour.format(t="b.begins")
    end = d.first.format(a="b.to_at", b=after)
    begin = d.last.format(a="b.from_at", b="b.begins")
    seconds = f"({d.micros.format(t=end)} - {d.micros.format(t=begin)}) / 1000000.0"
    units = in_units("b.resource", "b.amount")
    names = ", ".join(f"b.{name}" for name in columns.split(", "))
    keys = swapped(names, " b.amount,", "")
    return f"""
WITH RECURSIVE buckets AS (
SELECT {columns}, from_at, to_at, {start} AS begins FROM v_usage_spans s
UNION ALL
SELECT {names}, b.from_at, b.to_at, {after} FROM buckets b WHERE {after} < b.to_at)
SELECT {keys}, b.begins AS hour, sum({units} * {seconds}) / 3600.0 AS resource_hours
  FROM buckets b GROUP BY {keys}, b.begins
"""


def quotas(d: Dialect) -> str:
    """Return the view of quota over time."""
    return f"""
SELECT q.cluster, q.cluster_queue, f.key AS flavor, r.key AS resource, {amount(d)} AS amount,
       q.at AS from_at, coalesce(q.to_at, {CLOCK}) AS to_at
  FROM (SELECT n.*, lead(n.at) OVER (
               PARTITION BY n.cluster, n.shard, n.cluster_queue ORDER BY n.seq) AS to_at
          FROM quotas n
         WHERE n.shard = (SELECT min(m.shard) FROM quotas m
                           WHERE m.cluster = n.cluster AND m.cluster_queue = n.cluster_queue)) q
  {by_flavor(d, "q.nominal")}
"""


def used(d: Dialect) -> str:
    """Return the view of requests and usage, by pod and resource."""
    each = d.each.format(doc="p.used_mean", alias="u")
    peak = d.each_or_none.format(doc="p.used_peak", alias="x", on="x.key = u.key")
    asked = d.each_or_none.format(doc="p.requests", alias="r", on="r.key = u.key")
    return f"""
SELECT p.cluster, p.namespace, g.queue, g.cluster_queue, p.group_id, p.uid AS pod_uid, p.owner,
       p.role, p.labels, u.key AS resource, coalesce({amount(d)}, 0) AS asked,
       {amount(d, "u.value")} AS used, {amount(d, "x.value")} AS peak,
       p.used_samples AS samples, p.used_from AS from_at, p.used_to AS to_at
  FROM pods p
  JOIN groups g ON g.cluster = p.cluster AND g.id = p.group_id
  {each}
  {peak}
  {asked}
 WHERE p.used_samples > 0
"""


VIEWS = {
    "v_usage_spans": spans,
    "v_usage_hourly": hourly,
    "v_quota_spans": quotas,
    "v_pod_used": used,
}

COMMENTS = {
    "v_usage_spans": "What was used, held, wasted, waited for and taken unadmitted, pod by pod, "
    "from when to when; amounts as in the tables (capped: it asked for more than any node has); "
    "open spans end at v_clock",
    "v_usage_hourly": "The same in resource-hours per hour (UTC), by namespace, queue and flavor",
    "v_quota_spans": "Nominal quota per ClusterQueue, flavor and resource, from when to when",
    "v_pod_used": "What pods that were measured asked for and really used (mean and peak of their "
    "samples), pod by pod and resource; amounts as in the tables",
}
