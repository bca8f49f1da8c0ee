"""Views of who used, held, wasted and waited for what: spans of time, and quota beside them.

Theory. Everything that costs is a span: some amount of one resource, from one moment to another, of
one pod, in one flavor. A pod's life is cut into spans that follow each other without a gap: it
waits until it is past its gate, is held until the kubelet takes it up, runs, and is held again
from the request for its deletion until it is gone. What an admission holds and no pod of it fills
(a gang that is not whole) is the rest: the admission counts in full, and the places that pods fill
count against it. So every sum, by whatever column and in whatever interval, is a sum over the same
spans, and all of them agree.

    waited                                  asked for by a pod at its gate; nothing is taken
    held     starting                       past the gate, not yet running
    held     terminating                    to be deleted, not yet gone
    held     incomplete                     quota of an admission that no pod of it fills
    running                                 until it ends, or is to be deleted
    wasted   failed preempted evicted       the same of attempts that came to nothing

`incomplete` is below zero for as long as a pod runs in the place of one that is not gone yet.

Resource `pods` (one for each) is counted where an admission holds quota of it. What a pod asks for
beyond what any node has (`quantities.most`: the door refuses it) counts as that, and is `capped`.

Invariant: spans of one pod do not overlap but for those that are `incomplete`; open ones end now.
"""

from podgroup.model.quantities import CPU, most
from projector.schema.dialect import Dialect

_MOST = f"CASE WHEN r.key = '{CPU}' THEN {most(CPU)} ELSE {most('')} END"
"""The most that a pod can ask for of resource `r`."""
_FLAVORLESS = ("waited", "unadmitted")
_HAS_FLAVOR = f"s.piece NOT IN {_FLAVORLESS}"
_ITS_PODSET = "(f.key = lower(o.role) OR o.kind = 'single')"
PIECES = " UNION ALL ".join(
    f"SELECT '{piece}' AS piece" for piece in (*_FLAVORLESS, "starting", "running", "terminating")
)
"""What a pod's life is cut into."""
_WASTED = "s.piece = 'running' AND o.wasted <> ''"
WHAT = f"""CASE WHEN {_WASTED} THEN 'wasted' WHEN s.piece IN ('starting', 'terminating') THEN 'held'
            ELSE s.piece END"""
WHY = f"""CASE WHEN {_WASTED} THEN o.wasted WHEN s.piece IN ('starting', 'terminating') THEN s.piece
            ELSE '' END"""


def _amount(d: Dialect, doc: str = "r.value") -> str:
    return d.value.format(doc=doc)


def _capped(d: Dialect) -> str:
    """Columns `amount` and `capped` of what a pod asks for."""
    least = d.first.format(a=_amount(d), b=_MOST)
    return f"""{least} AS amount, CASE WHEN {_amount(d)} > {_MOST} THEN 1 ELSE 0 END AS capped"""


def _pods(d: Dialect) -> str:
    """Pods with the moments of their lives in order: created, opened, started, doomed, over."""
    over = f"coalesce(p.ended_at, p.gone_at, {d.now})"
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
  FROM pods p"""


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


def _opened(d: Dialect, pod: str) -> tuple[str, str, str, str]:
    """FROM items that open requests (`r`) and flavors (`f`, `x`) of a pod; the flavor's name."""
    resources = d.each.format(doc=d.with_pods.format(doc=f"{pod}.requests"), alias="r")
    its = _ITS_PODSET.replace("o.", f"{pod}.")
    flavors = d.each_or_none.format(doc=f"{pod}.flavors", alias="f", on=its)
    flavor = d.each_or_none.format(
        doc=d.nested.format(doc="f.value"), alias="x", on="x.key = r.key"
    )
    name = "CASE WHEN x.key IS NULL THEN '' ELSE {} END".format(d.text.format(doc="x.value"))
    return resources, flavors, flavor, name


def _owned(d: Dialect, within: str) -> str:
    """Pods with their group and the admission that they ran under; `within` says which."""
    admitted = d.last.format(a="p.opened_at", b="a.admitted_at")
    entered = d.first.format(a=admitted, b="p.over_at")
    return f"""owned AS (
SELECT p.*, g.namespace, g.queue, g.kind,
       coalesce(a.cluster_queue, g.cluster_queue) AS cluster_queue, a.number,
       a.flavors, a.admitted_at, a.released_at,
       CASE WHEN a.number IS NULL OR p.fate = 'excess' THEN p.over_at
            ELSE {entered} END AS entered_at,
       CASE WHEN p.phase = 'Succeeded' THEN ''
            WHEN a.release_reason = 'Preempted' THEN 'preempted'
            WHEN a.release_reason NOT IN ('', 'Finished', 'Gone') THEN 'evicted'
            WHEN p.phase = 'Failed' OR p.fate = 'replaced' THEN 'failed' ELSE '' END AS wasted
  FROM ({_pods(d)}) p
  JOIN groups g ON g.cluster = p.cluster AND g.id = p.group_id
  LEFT JOIN admissions a ON a.cluster = p.cluster AND a.group_id = p.group_id AND a.number = (
       SELECT min(b.number) FROM admissions b
        WHERE b.cluster = p.cluster AND b.group_id = p.group_id AND b.admitted_at < p.over_at
          AND (b.released_at IS NULL OR b.released_at > p.opened_at)){within})"""


def spans(d: Dialect, *, window: bool = False) -> str:
    """Return the view of all spans.

    `window`: a query that leaves out what has no part in the time from parameter `since` to
    `until`; a query for a day of a long history waits for that day only.
    """
    resources, flavors, flavor, name = _opened(d, "o")
    cases = _cases(d)
    flavored = f"CASE WHEN {_HAS_FLAVOR} THEN {name} ELSE '' END"
    within = _in_window(d) if window else ""
    owned = "cluster, group_id, pod_uid, namespace, queue, cluster_queue, labels"
    return f"""
WITH {_owned(d, within)},
cut AS (
SELECT o.cluster, o.group_id, o.uid AS pod_uid, o.namespace, o.queue, o.cluster_queue, o.labels,
       {flavored} AS flavor, r.key AS resource, {_capped(d)},
       {WHAT} AS what, {WHY} AS why,
       {cases["from_at"]} AS from_at, {cases["to_at"]} AS to_at
  FROM owned o CROSS JOIN ({PIECES}) s
  {resources}
  {flavors}
  {flavor}
 WHERE r.key <> 'pods' OR (x.key IS NOT NULL AND {_HAS_FLAVOR})
UNION ALL
{_incomplete(d, window)})
SELECT {owned}, flavor, resource, amount, capped, what, why, from_at, to_at
  FROM cut WHERE to_at > from_at
"""


def _in_window(d: Dialect) -> str:
    """Condition on pods: there in the window, or their group held quota in it (they are over)."""
    since, until = d.time.format(name="since"), d.time.format(name="until")
    return f"""
 WHERE p.created_at < {until} AND (p.over_at > {since} OR EXISTS (
       SELECT 1 FROM admissions w WHERE w.cluster = p.cluster AND w.group_id = p.group_id
          AND (w.released_at IS NULL OR w.released_at > {since})))"""


_FIRST_LABELS = """(SELECT l.labels FROM pods l WHERE l.cluster = {0}.cluster
         AND l.group_id = {0}.group_id ORDER BY l.seen_seq, l.uid LIMIT 1)"""
"""Labels of a group's first pod: whose something is that no pod has."""


def _incomplete(d: Dialect, window: bool) -> str:
    """What admissions hold, and against it what its pods fill of that."""
    released = _released(d)
    rest = "'held', 'incomplete'"
    filled_to = _filled_to(d)
    # A place is what the role asks for, also where a pod of it was resized since.
    place = _placed(d, "q.requests", "o.flavors")
    # Whose it is when there is no pod: that of the first pod, on both sides.
    within = (
        f"WHERE a.admitted_at < {d.time.format(name='until')}"
        f" AND (a.released_at IS NULL OR a.released_at > {d.time.format(name='since')})"
        if window
        else ""
    )
    labels = _FIRST_LABELS
    return f"""
SELECT a.cluster, a.group_id, '', g.namespace, g.queue, a.cluster_queue,
       {labels.format("a")}, f.key, r.key, {_amount(d)}, 0, {rest},
       a.admitted_at, {released.format("a")}
  FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
  {_held(d, "a.resources")}
 {within}
UNION ALL
SELECT o.cluster, o.group_id, '', o.namespace, o.queue, o.cluster_queue,
       {labels.format("o")},
       {d.text.format(doc="x.value")}, r.key, -{_amount(d)}, 0, {rest}, o.entered_at, {filled_to}
  FROM owned o
  JOIN roles q ON q.cluster = o.cluster AND q.group_id = o.group_id AND q.name = o.role
  {place}
 WHERE o.number IS NOT NULL AND o.fate <> 'excess' AND x.key = r.key
   AND {_ITS_PODSET}"""


def _placed(d: Dialect, requests: str, flavors: str) -> str:
    """FROM items that open what a place asks for (`r`) and the flavors it has (`f`, `x`)."""
    return f"""{d.each.format(doc=d.with_pods.format(doc=requests), alias="r")}
  {d.each.format(doc=flavors, alias="f")}
  {d.each.format(doc=d.nested.format(doc="f.value"), alias="x")}"""


def _held(d: Dialect, resources: str) -> str:
    """FROM items that open what an admission holds: by flavor (`f`) and resource (`r`)."""
    return f"""{d.each.format(doc=resources, alias="f")}
  {d.each.format(doc=d.nested.format(doc="f.value"), alias="r")}"""


def _released(d: Dialect) -> str:
    return f"coalesce({{}}.released_at, {d.now})"


def _filled_to(d: Dialect) -> str:
    """When pod `o` gives its place back: one that succeeded does with the admission."""
    released = _released(d).format("o")
    ended = f"CASE WHEN o.phase = 'Succeeded' THEN {released} ELSE o.over_at END"
    return d.first.format(a=ended, b=released)


def sums(d: Dialect, key: str, *, only: str) -> str:
    """Return the statement that adds up all spans of a period, as `spans` cuts them.

    It gives key, flavor, resource, what, why, amount, capped, pods (that ran) and micros (for how
    many microseconds that amount was taken). Pods that ask for the same are added up before what
    they ask for is opened: a day of 100,000 pods of few shapes is opened once per shape, not once
    per pod.

    Args:
        d: the database's.
        key: SQL over columns namespace, queue, cluster_queue and group_id of `o` and over
            `{labels}`; "" divides by flavor.
        only: condition on columns cluster and namespace of `o`.
    """
    since, until = d.time.format(name="since"), d.time.format(name="until")
    cases, released = _cases(d), _released(d)
    kept = f"c.to_at > c.from_at AND c.from_at < {until} AND c.to_at > {since}"
    micros = "sum({} - {})".format(
        d.micros.format(t=d.first.format(a="c.to_at", b=until)),
        d.micros.format(t=d.last.format(a="c.from_at", b=since)),
    )
    resources, flavors, flavor, name = _opened(d, "c")
    own, first, theirs = (
        (key or "''").format(labels=labels)
        for labels in ("o.labels", _FIRST_LABELS.format("o"), "w.labels")
    )
    firsts, whose = "", ""
    if "{labels}" in key:  # looked up once per group: it has as many pods as it likes
        firsts = f"""
firsts AS MATERIALIZED (
SELECT o.cluster, o.group_id, {_FIRST_LABELS.format("o")} AS labels
  FROM (SELECT DISTINCT cluster, group_id FROM owned) o),"""
        whose = "JOIN firsts w ON w.cluster = o.cluster AND w.group_id = o.group_id"
    has_flavor = _HAS_FLAVOR.replace("s.", "c.")
    shown = "s.flavor" if not key else "coalesce(s.key, '')"
    return f"""
WITH {_owned(d, _in_window(d))},{firsts}
lives AS (
SELECT c.key, c.kind, c.role, c.requests, c.flavors, c.piece, c.what, c.why, {micros} AS micros,
       sum(CASE WHEN c.piece = 'running' THEN 1 ELSE 0 END) AS pods
  FROM (SELECT {own} AS key, o.kind, o.role, o.requests, o.flavors, s.piece,
               {WHAT} AS what, {WHY} AS why,
               {cases["from_at"]} AS from_at, {cases["to_at"]} AS to_at
          FROM owned o CROSS JOIN ({PIECES}) s WHERE {only}) c
 WHERE {kept}
 GROUP BY c.key, c.kind, c.role, c.requests, c.flavors, c.piece, c.what, c.why),
quota AS (
SELECT c.key, c.resources, {micros} AS micros
  FROM (SELECT {first} AS key, o.resources, o.admitted_at AS from_at, o.released_at AS to_at
          FROM (SELECT a.cluster, a.group_id, g.namespace, g.queue, a.cluster_queue, a.resources,
                       a.admitted_at, {released.format("a")} AS released_at
                  FROM admissions a JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
               ) o
         WHERE {only}) c
 WHERE {kept}
 GROUP BY c.key, c.resources),
filled AS (
SELECT c.key, c.kind, c.role, c.requests, c.flavors, {micros} AS micros
  FROM (SELECT {theirs} AS key, o.kind, o.role, q.requests, o.flavors,
               o.entered_at AS from_at, {_filled_to(d)} AS to_at
          FROM owned o
          JOIN roles q ON q.cluster = o.cluster AND q.group_id = o.group_id AND q.name = o.role
          {whose}
         WHERE o.number IS NOT NULL AND o.fate <> 'excess' AND {only}) c
 WHERE {kept}
 GROUP BY c.key, c.kind, c.role, c.requests, c.flavors)
SELECT {shown} AS key, s.flavor, s.resource, s.what, s.why, s.amount, max(s.capped) AS capped,
       CAST(sum(s.pods) AS BIGINT) AS pods, CAST(sum(s.micros) AS BIGINT) AS micros
  FROM (
SELECT c.key, CASE WHEN {has_flavor} THEN {name} ELSE '' END AS flavor, r.key AS resource,
       c.what, c.why, {_capped(d)}, c.pods, c.micros
  FROM lives c
  {resources}
  {flavors}
  {flavor}
 WHERE r.key <> 'pods' OR (x.key IS NOT NULL AND {has_flavor})
UNION ALL
SELECT c.key, f.key, r.key, 'held', 'incomplete', {_amount(d)}, 0, 0, c.micros
  FROM quota c
  {_held(d, "c.resources")}
UNION ALL
SELECT c.key, {d.text.format(doc="x.value")}, r.key, 'held', 'incomplete', -{_amount(d)}, 0, 0,
       c.micros
  FROM filled c
  {_placed(d, "c.requests", "c.flavors")}
 WHERE x.key = r.key AND {_ITS_PODSET.replace("o.", "c.")}) s
 GROUP BY 1, s.flavor, s.resource, s.what, s.why, s.amount
"""


def hourly(d: Dialect) -> str:
    """Return the view of the same, cut at full hours and added up but for the pods."""
    columns = "cluster, namespace, queue, cluster_queue, flavor, resource, amount, what, why"
    start = d.hour.format(t="s.from_at")
    after = d.next_hour.format(t="b.begins")
    end = d.first.format(a="b.to_at", b=after)
    begin = d.last.format(a="b.from_at", b="b.begins")
    seconds = f"({d.micros.format(t=end)} - {d.micros.format(t=begin)}) / 1000000.0"
    units = "CASE WHEN b.resource = 'cpu' THEN b.amount / 1000.0 ELSE b.amount * 1.0 END"
    names = ", ".join(f"b.{name}" for name in columns.split(", "))
    keys = names.replace(" b.amount,", "")
    return f"""
WITH RECURSIVE buckets AS (
SELECT {columns}, from_at, to_at, {start} AS begins FROM v_usage_spans s
UNION ALL
SELECT {names}, b.from_at, b.to_at, {after} FROM buckets b WHERE {after} < b.to_at)
SELECT {keys}, b.begins AS hour, sum({units} * {seconds}) / 3600.0 AS resource_hours
  FROM buckets b GROUP BY {keys}, b.begins
"""


def quotas(d: Dialect) -> str:
    """Return the view of what quota there was from when to when."""
    flavors = d.each.format(doc="q.nominal", alias="f")
    resources = d.each.format(doc=d.nested.format(doc="f.value"), alias="r")
    return f"""
SELECT q.cluster, q.cluster_queue, f.key AS flavor, r.key AS resource, {_amount(d)} AS amount,
       q.at AS from_at, coalesce(q.to_at, {d.now}) AS to_at
  FROM (SELECT n.*, lead(n.at) OVER (
               PARTITION BY n.cluster, n.shard, n.cluster_queue ORDER BY n.seq) AS to_at
          FROM quotas n
         WHERE n.shard = (SELECT min(m.shard) FROM quotas m
                           WHERE m.cluster = n.cluster AND m.cluster_queue = n.cluster_queue)) q
  {flavors}
  {resources}
"""


def used(d: Dialect) -> str:
    """Return the view of what pods asked for and really used, pod by pod and resource."""
    each = d.each.format(doc="p.used_mean", alias="u")
    peak = d.each_or_none.format(doc="p.used_peak", alias="x", on="x.key = u.key")
    asked = d.each_or_none.format(doc="p.requests", alias="r", on="r.key = u.key")
    return f"""
SELECT p.cluster, p.namespace, g.queue, g.cluster_queue, p.group_id, p.uid AS pod_uid, p.owner,
       p.role, p.labels, u.key AS resource, coalesce({_amount(d)}, 0) AS asked,
       {_amount(d, "u.value")} AS used, {_amount(d, "x.value")} AS peak,
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
    "open spans end now",
    "v_usage_hourly": "The same in resource-hours per hour (UTC), by namespace, queue and flavor",
    "v_quota_spans": "Nominal quota per ClusterQueue, flavor and resource, from when to when",
    "v_pod_used": "What pods that were measured asked for and really used (mean and peak of their "
    "samples), pod by pod and resource; amounts as in the tables",
}
