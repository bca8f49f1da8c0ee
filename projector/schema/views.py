"""Views for people: the most frequent questions, answered in SQL.

Theory. A view holds no data, so it is not migrated: after every upgrade the views are dropped and
made again from here. Both databases give the same columns and, on the same rows, the same numbers;
their different spellings (documents, series of hours, differences of times) are in `Dialect`.

Amounts leave the views in units of people: `cpu` in cores, all else in its own unit. Open intervals
(a pod still running, quota still held) count up to `v_clock`.

Invariant: views read tables and views above them, so they are dropped from below.
"""

from sqlalchemy import Connection

from podgroup.model.reasons import KEPT_AT_GATE, WAITING_FOR_PLACE
from projector.schema import (
    cause_views,
    clock,
    failing,
    held_views,
    pending,
    preemption_views,
    quota_views,
    running_views,
    sharing_views,
    usage_views,
)
from projector.schema.clock import CLOCK
from projector.schema.describing import columns_view, text_of
from projector.schema.dialect import Dialect, home, in_units


def _group_timeline(_: Dialect) -> str:
    columns = "g.cluster, g.id AS group_id, g.namespace, g.name, g.kind AS group_kind"
    return f"""
SELECT {columns}, h.seq, h.ord, h.at, 'history' AS source, h.kind, h.reason, h.message,
       h.pod_uid, h.decision_id, CAST(NULL AS TEXT) AS status
  FROM groups g JOIN history h ON h.cluster = g.cluster AND h.group_id = g.id
UNION ALL
SELECT {columns}, w.from_seq, 2000000, w.from_at, 'wait', 'Waiting', w.reason, w.message,
       '', '', CASE WHEN w.to_at IS NULL THEN 'waiting' ELSE 'over' END
  FROM groups g JOIN waits w ON w.cluster = g.cluster AND w.group_id = g.id
UNION ALL
SELECT {columns}, a.admitted_seq, 3000000, a.admitted_at, 'admission', 'Admission', a.decided_by,
       'ClusterQueue ' || a.cluster_queue || ', flavors ' || CAST(a.flavors AS TEXT), '',
       CASE WHEN a.decided_by LIKE 'd%-%' THEN a.decided_by ELSE '' END,
       CASE WHEN a.released_at IS NULL THEN 'held' ELSE 'released: ' || a.release_reason END
  FROM groups g JOIN admissions a ON a.cluster = g.cluster AND a.group_id = g.id
UNION ALL
SELECT {columns}, d.as_of_seq, 4000000 + d.number, d.issued_at, 'decision', d.action,
       d.reason, d.message || ' [' || d.rule || ': ' || d.target || ']', '', d.id, d.status
  FROM groups g JOIN decisions d ON d.cluster = g.cluster AND d.group_id = g.id
UNION ALL
SELECT {columns}, o.seq, 1000000 + o.delivery * 1000 + o.attempt, o.at, 'outcome', d.action,
       CASE WHEN o.http_status > 0 THEN 'HTTP ' || CAST(o.http_status AS TEXT) ELSE '' END,
       o.message, '', d.id, o.status
  FROM groups g JOIN decisions d ON d.cluster = g.cluster AND d.group_id = g.id
  JOIN outcomes o ON o.cluster = d.cluster AND o.decision_id = d.id
UNION ALL
SELECT {columns}, f.seq, 500000, f.at, 'failure', {failing.kind("f")}, f.reason,
       {failing.words("f")}, f.pod_uid, '', CAST(NULL AS TEXT)
  FROM groups g JOIN pods p ON p.cluster = g.cluster AND p.group_id = g.id
  JOIN failures f ON f.cluster = p.cluster AND f.pod_uid = p.uid
UNION ALL
SELECT {columns}, w.from_seq, 2500000, w.from_at, 'wait', 'PodWaiting', w.reason,
       {running_views.says("w")}, w.pod_uid, '',
       CASE WHEN w.to_at IS NULL AND p.gone_at IS NULL THEN 'waiting' ELSE 'over' END
  FROM groups g JOIN pods p ON p.cluster = g.cluster AND p.group_id = g.id
  JOIN pod_waits w ON w.cluster = p.cluster AND w.pod_uid = p.uid
"""


def _why_pending(d: Dialect) -> str:
    waiting = d.seconds.format(a="g.wait_since", b=CLOCK)
    age = d.seconds.format(a="g.created_at", b=CLOCK)
    return f"""
SELECT g.cluster, g.id AS group_id, g.namespace, g.name, g.kind, g.state, g.queue,
       g.cluster_queue, g.priority, g.total_count, g.pods_seen, g.pods_gated,
       {pending.stage("g.state", "g.wait_reason")} AS stage,
       {pending.WAITS_FOR},
       g.wait_since AS since, {waiting} AS waiting_seconds, g.created_at, {age} AS age_seconds,
       g.parked, g.queued_at, p.position, p.local_position
  FROM groups g
  LEFT JOIN v_queue_position p ON p.cluster = g.cluster AND p.group_id = g.id
 WHERE g.gone_at IS NULL AND {pending.is_pending("g.state")}
"""


def _held_up(d: Dialect) -> str:
    """Admitted groups with pods at their gate, and the latest of the decisions to remove it.

    As many wait for a place as there are pods that terminate: these are held up by nothing.
    """
    since = d.last.format(a="g.admitted_at", b="p.first_at")
    kept = ", ".join(f"'{word}'" for word in KEPT_AT_GATE if word != WAITING_FOR_PLACE)
    answer = """(SELECT o.{column} FROM outcomes o
         WHERE o.cluster = l.cluster AND o.decision_id = l.id
         ORDER BY o.seq DESC, o.attempt DESC LIMIT 1)"""
    ending = """(SELECT count(*) FROM pods t
         WHERE t.cluster = p.cluster AND t.group_id = p.group_id AND t.gone_at IS NULL
           AND NOT t.gated AND t.node <> '' AND t.deleted_at IS NOT NULL AND t.ended_at IS NULL)"""
    return f"""
WITH at_gate AS (
    SELECT p.cluster, p.group_id, count(*) - {ending} AS pods, min(p.created_at) AS first_at
      FROM pods p
     WHERE p.gone_at IS NULL AND p.gated AND p.fate = '' AND p.deleted_at IS NULL
       AND p.told_reason NOT IN ({kept})
     GROUP BY p.cluster, p.group_id
    HAVING count(*) > {ending}),
held AS (
    SELECT g.cluster, g.id AS group_id, g.namespace, g.name, g.kind, g.state, g.queue,
           g.cluster_queue, g.priority, g.admitted_at, p.pods, {since} AS since
      FROM groups g JOIN at_gate p ON p.cluster = g.cluster AND p.group_id = g.id
     WHERE g.gone_at IS NULL AND g.state IN ('Admitted', 'Running')),
decided AS (
    SELECT d.cluster, d.group_id, count(*) AS decided, max(d.issued_at) AS decided_at,
           max(d.number) AS number,
           sum((SELECT coalesce(max(o.attempt), 0) FROM outcomes o
                 WHERE o.cluster = d.cluster AND o.decision_id = d.id
                   AND o.status IN ('rejected', 'retrying'))) AS tries
      FROM held h
      JOIN decisions d ON d.cluster = h.cluster AND d.group_id = h.group_id
       AND d.action = 'UngatePod' AND d.issued_at >= h.admitted_at
      JOIN pods p ON p.cluster = d.cluster AND p.group_id = d.group_id AND p.gone_at IS NULL
       AND p.gated AND d.target = 'Pod ' || p.namespace || '/' || p.name || ' ' || p.uid
     GROUP BY d.cluster, d.group_id)
SELECT h.cluster, h.group_id, h.namespace, h.name, h.kind, h.state, h.queue, h.cluster_queue,
       h.priority, h.pods, h.since, {d.seconds.format(a="h.since", b=CLOCK)} AS held_seconds,
       coalesce(t.decided, 0) AS decided, t.decided_at, coalesce(t.tries, 0) AS tries,
       {answer.format(column="at")} AS last_at,
       coalesce({answer.format(column="http_status")}, 0) AS http_status,
       coalesce({answer.format(column="message")}, '') AS said
  FROM held h
  LEFT JOIN decided t ON t.cluster = h.cluster AND t.group_id = h.group_id
  LEFT JOIN decisions l ON l.cluster = t.cluster AND l.group_id = t.group_id
   AND l.number = t.number
"""


def _idle_holders(d: Dialect) -> str:
    """Quota of groups that run no pod and wait for replacements of failed pods."""
    since = """(SELECT max(p.ended_at) FROM pods p
         WHERE p.cluster = g.cluster AND p.group_id = g.id AND p.gone_at IS NULL
           AND p.phase = 'Failed' AND p.fate = '')"""
    return f"""
SELECT i.*, {d.seconds.format(a="i.since", b=CLOCK)} AS idle_seconds
  FROM (
SELECT g.cluster, a.cluster_queue, g.id AS group_id, g.namespace, g.name, g.queue, g.priority,
       a.admitted_at, {since} AS since, g.message, {held_views.held(d)} AS resources
  FROM groups g
  JOIN admissions a ON a.cluster = g.cluster AND a.group_id = g.id AND a.released_at IS NULL
 WHERE {pending.is_idle("g")}) i
"""


def _admission_latency(d: Dialect) -> str:
    steps = (
        ("g.created_at", "g.complete_at", "compose_seconds"),
        ("a.queued_at", "a.admitted_at", "queue_seconds"),
        ("g.created_at", "a.admitted_at", "created_to_admitted_seconds"),
        ("a.admitted_at", "min(p.ungated_at)", "first_ungate_seconds"),
        ("a.admitted_at", "max(p.ungated_at)", "last_ungate_seconds"),
        ("min(p.ungated_at)", "min(p.scheduled_at)", "first_bind_seconds"),
        ("min(p.ungated_at)", "min(p.started_at)", "first_start_seconds"),
        ("a.admitted_at", "max(p.started_at)", "all_started_seconds"),
    )
    parts = ", ".join(f"{d.seconds.format(a=a, b=b)} AS {name}" for a, b, name in steps)
    return f"""
SELECT a.cluster, a.group_id, g.namespace, g.name, g.kind, g.queue, a.cluster_queue,
       a.number AS admission, g.created_at, g.complete_at, a.queued_at, a.admitted_at,
       {d.hour.format(t="a.admitted_at")} AS admitted_hour, a.released_at,
       min(p.ungated_at) AS first_ungated_at, min(p.started_at) AS first_started_at,
       count(p.uid) AS pods_ungated, {parts}
  FROM admissions a
  JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
  LEFT JOIN pods p ON p.cluster = a.cluster AND p.group_id = a.group_id
   AND p.ungated_at >= a.admitted_at
   AND (a.released_at IS NULL OR p.ungated_at < a.released_at)
 GROUP BY a.cluster, a.group_id, g.namespace, g.name, g.kind, g.queue, a.cluster_queue, a.number,
       g.created_at, g.complete_at, a.queued_at, a.admitted_at, a.released_at
"""


def _buckets(spans: str, columns: tuple[str, ...], begin: str, following: str) -> str:
    """Recursive query `buckets` that cuts `spans` (with from_at, to_at) at round times."""
    names = ", ".join(f"b.{name}" for name in columns)
    return f"""
WITH RECURSIVE spans AS ({spans}), buckets AS (
SELECT s.*, {begin.format(t="s.from_at")} AS begins FROM spans s WHERE s.to_at > s.from_at
UNION ALL
SELECT {names}, {following.format(t="b.begins")} FROM buckets b
 WHERE {following.format(t="b.begins")} < b.to_at)
"""


def _in_hour(d: Dialect) -> str:
    """Seconds of bucket `b` of hours."""
    return d.seconds.format(
        a=d.last.format(a="b.from_at", b="b.begins"),
        b=d.first.format(a="b.to_at", b=d.next_hour.format(t="b.begins")),
    )


def _queue_usage_hourly(d: Dialect) -> str:
    columns = (
        *("cluster", "cluster_queue", "flavor", "resource", "amount", "admissions"),
        *("from_at", "to_at"),
    )
    spans = held_views.spans(d)
    amount = in_units("b.resource", "b.amount")
    return f"""{_buckets(spans, columns, d.hour, d.next_hour)}
SELECT b.cluster, b.cluster_queue, b.flavor, b.resource, b.begins AS hour,
       sum({amount} * {_in_hour(d)}) / 3600.0 AS amount_hours,
       CAST(sum(b.admissions) AS BIGINT) AS admissions
  FROM buckets b GROUP BY b.cluster, b.cluster_queue, b.flavor, b.resource, b.begins
"""


def _queue_position(d: Dialect) -> str:
    """Groups in the order in which their queues take them."""
    waiting = d.seconds.format(a="g.queued_at", b=CLOCK)
    order = f"ORDER BY {pending.ORDER}"
    return f"""
SELECT g.cluster, g.cluster_queue,
       row_number() OVER (PARTITION BY g.cluster, g.cluster_queue {order}) AS position,
       row_number() OVER (PARTITION BY g.cluster, g.namespace, g.queue {order}) AS local_position,
       g.id AS group_id, g.namespace, g.name, g.kind, g.queue, g.priority, g.queued_at,
       {waiting} AS waiting_seconds, g.wait_reason AS reason, g.wait_message AS message
  FROM groups g
  {pending.USE}
 WHERE g.gone_at IS NULL AND {pending.in_line("g.state", "g.wait_reason")}
"""


def _pending(d: Dialect) -> str:
    """How many groups are pending, by queue and stage."""
    stage = pending.stage("g.state", "g.wait_reason")
    keys = "g.cluster, g.cluster_queue, g.namespace, g.queue"
    return f"""
SELECT {keys}, {stage} AS stage, count(*) AS groups,
       min(coalesce(g.queued_at, g.created_at)) AS oldest
  FROM groups g
 WHERE g.gone_at IS NULL AND {pending.is_pending("g.state")}
 GROUP BY {keys}, {stage}
"""


def _expected_starts(d: Dialect) -> str:
    """Estimates that stand, of groups that wait still."""
    later = "CASE WHEN {t} IS NOT NULL THEN " + d.seconds.format(a=CLOCK, b="{t}") + " END"
    return f"""
SELECT e.cluster, e.cluster_queue, p.position, e.group_id, e.namespace, e.name, e.queue,
       e.priority, e.queued_at, e.expected_at, e.earliest_at, e.latest_at, e.never,
       {later.format(t="e.expected_at")} AS expected_in_seconds,
       {later.format(t="e.latest_at")} AS latest_in_seconds, e.given_at, f.at AS as_of, f.plays
  FROM estimates e
  JOIN forecasts f ON f.cluster = e.cluster AND f.shard = e.shard
  JOIN groups g ON g.cluster = e.cluster AND g.id = e.group_id
  LEFT JOIN v_queue_position p ON p.cluster = e.cluster AND p.group_id = e.group_id
 WHERE e.came = '' AND e.replaced_at IS NULL AND g.gone_at IS NULL
   AND {pending.is_pending("g.state")}
"""


def _estimates_tried(d: Dialect) -> str:
    """Estimates of groups that started, beside their actual starts."""
    late = d.seconds.format(a="e.expected_at", b="e.came_at")
    plain = d.seconds.format(a="e.plain_at", b="e.came_at")
    return f"""
SELECT e.cluster, e.cluster_queue, e.queue, e.group_id, e.namespace, e.name, e.priority,
       e.given_at, e.expected_at, e.latest_at, e.plain_at, e.came_at,
       CASE WHEN e.never <> '' THEN 1 ELSE 0 END AS said_never,
       CASE WHEN e.came_at <= e.latest_at THEN 1 WHEN e.latest_at IS NOT NULL THEN 0 END AS inside,
       CASE WHEN e.expected_at IS NOT NULL THEN {late} END AS late_seconds,
       CASE WHEN e.plain_at IS NOT NULL THEN {plain} END AS plain_late_seconds,
       {d.seconds.format(a="e.given_at", b="e.came_at")} AS ahead_seconds
  FROM estimates e
 WHERE e.came = 'started'
"""


def _queue_pending_hourly(d: Dialect) -> str:
    """Waits that follow each other without a break are one wait, cut at full hours."""
    columns = ("cluster", "cluster_queue", "group_id", "from_at", "to_at")
    group = "PARTITION BY w.cluster, w.group_id ORDER BY w.from_seq"
    spans = f"""
SELECT m.cluster, g.cluster_queue, m.group_id, min(m.from_at) AS from_at,
       max(coalesce(m.to_at, {CLOCK})) AS to_at
  FROM (SELECT n.*, sum(n.fresh) OVER (
               PARTITION BY n.cluster, n.group_id ORDER BY n.from_seq) AS run
          FROM (SELECT w.*, CASE WHEN lag(w.to_at) OVER ({group}) = w.from_at THEN 0 ELSE 1 END
                       AS fresh
                  FROM waits w) n) m
  JOIN groups g ON g.cluster = m.cluster AND g.id = m.group_id
 WHERE g.cluster_queue <> ''
 GROUP BY m.cluster, g.cluster_queue, m.group_id, m.run"""
    ends = d.first.format(a=d.next_hour.format(t="b.begins"), b=CLOCK)
    until = d.first.format(a="b.to_at", b=ends)
    seconds = d.seconds.format(a=d.last.format(a="b.from_at", b="b.begins"), b=until)
    longest = d.seconds.format(a="b.from_at", b=until)
    return f"""{_buckets(spans, columns, d.hour, d.next_hour)}
SELECT b.cluster, b.cluster_queue, b.begins AS hour, count(DISTINCT b.group_id) AS groups,
       sum(CASE WHEN b.to_at >= {ends} THEN 1 ELSE 0 END) AS pending_at_end,
       sum({seconds}) / 3600.0 AS group_hours, max({longest}) AS longest_wait_seconds
  FROM buckets b GROUP BY b.cluster, b.cluster_queue, b.begins
"""


def _waited_hourly(d: Dialect) -> str:
    """Requests of pods at their gate while their group waited, by the group's reason."""
    columns = (
        *("cluster", "namespace", "queue", "cluster_queue", "reason", "resource", "amount"),
        *("from_at", "to_at"),
    )
    over = f"coalesce(w.to_at, {CLOCK})"
    spans = f"""
SELECT p.cluster, g.namespace, g.queue, g.cluster_queue, w.reason, r.key AS resource,
       {in_units("r.key", d.value.format(doc="r.value"))} AS amount,
       {d.last.format(a="w.from_at", b="p.created_at")} AS from_at,
       {d.first.format(a=over, b="p.opened_at")} AS to_at
  FROM ({usage_views.lives(d)}) p
  JOIN groups g ON g.cluster = p.cluster AND g.id = p.group_id
  JOIN waits w ON w.cluster = p.cluster AND w.group_id = p.group_id AND w.from_at < p.opened_at
   AND {over} > p.created_at
  {d.each.format(doc=d.with_pods.format(doc="p.requests"), alias="r")}"""
    keys = ", ".join(f"b.{name}" for name in columns[:6])
    return f"""{_buckets(spans, columns, d.hour, d.next_hour)}
SELECT {keys}, b.begins AS hour, sum(b.amount * {_in_hour(d)}) / 3600.0 AS resource_hours
  FROM buckets b GROUP BY {keys}, b.begins
"""


def _by_day(d: Dialect, columns: str) -> str:
    """Sums of `v_usage_spans` for each calendar day (UTC), by `columns`."""
    start = d.last.format(a="s.from_at", b="d.begins")
    seconds = d.seconds.format(a=start, b=d.first.format(a="s.to_at", b="d.ends"))
    amount = in_units("s.resource", "s.amount")

    def hours(*what: str) -> str:
        words = ", ".join(f"'{word}'" for word in what)
        return f"sum(CASE WHEN s.what IN ({words}) THEN {amount} * {seconds} ELSE 0 END) / 3600.0"

    return f"""
WITH RECURSIVE days(begins, ends) AS (
SELECT {d.day.format(t="min(created_at)")}, {d.next_day.format(t=d.day.format(t="min(created_at)"))}
  FROM pods
UNION ALL
SELECT ends, {d.next_day.format(t="ends")} FROM days WHERE ends < {CLOCK})
SELECT s.cluster, {d.date.format(t="d.begins")} AS day, {columns}, s.resource,
       {hours("running", "wasted")} AS resource_hours, {hours("unadmitted")} AS unadmitted_hours,
       count(DISTINCT CASE WHEN s.what <> 'unadmitted' THEN s.pod_uid END) AS pods
  FROM days d JOIN v_usage_spans s ON s.from_at < d.ends AND s.to_at > d.begins
 WHERE s.what IN ('running', 'wasted', 'unadmitted')
 GROUP BY s.cluster, d.begins, {columns}, s.resource
"""


def _pod_usage_daily(d: Dialect) -> str:
    return _by_day(d, "s.namespace, s.group_id, s.pod_uid, s.labels")


def _namespace_cost(d: Dialect) -> str:
    return _by_day(d, "s.namespace")


def _columns(_: Dialect) -> str:
    return columns_view()


VIEWS = {
    **clock.VIEWS,
    "v_group_timeline": _group_timeline,
    "v_queue_position": _queue_position,
    "v_why_pending": _why_pending,
    "v_held_up": _held_up,
    **held_views.VIEWS,
    "v_idle_holders": _idle_holders,
    **running_views.VIEWS,
    **cause_views.VIEWS,
    "v_admission_latency": _admission_latency,
    "v_queue_usage_hourly": _queue_usage_hourly,
    "v_pending": _pending,
    "v_expected_starts": _expected_starts,
    "v_estimates_tried": _estimates_tried,
    "v_queue_pending_hourly": _queue_pending_hourly,
    "v_waited_hourly": _waited_hourly,
    **usage_views.VIEWS,
    "v_namespace_cost": _namespace_cost,
    "v_pod_usage_daily": _pod_usage_daily,
    **preemption_views.VIEWS,
    **sharing_views.VIEWS,
    **quota_views.VIEWS,
    "v_columns": _columns,
}

COMMENTS = {
    **clock.COMMENTS,
    "v_group_timeline": "All that happened to a group; order by seq, ord",
    "v_why_pending": "Groups that are pending, in which stage, what each waits for, and the "
    "position of those that wait for quota",
    **held_views.COMMENTS,
    "v_idle_holders": "Groups that hold quota and run nothing until failed pods are replaced: "
    "since when, and what they hold",
    "v_held_up": "Admitted groups whose pods are at their gate still: what was tried, and answered",
    **running_views.COMMENTS,
    **cause_views.COMMENTS,
    "v_admission_latency": "Seconds each admission took, step by step",
    "v_queue_usage_hourly": "Quota held (what ended pods gave back is not), and by how many "
    "admissions, per ClusterQueue, flavor, resource and hour (UTC)",
    "v_queue_position": "Groups that wait for quota, with their position in ClusterQueue and "
    "LocalQueue: the order in which admission takes them, from 1",
    "v_pending": "How many groups are pending per queue and stage, and since when the oldest",
    "v_expected_starts": "Groups that wait, with when each is expected to start (gatelog forecast)",
    "v_estimates_tried": "Estimates of groups that started: whether that was inside the range "
    "(9 in 10), how much later than expected, and than after the mean wait of the day before",
    "v_queue_pending_hourly": "Groups that waited per ClusterQueue and hour (UTC): how many, "
    "how many still at its end (or now), and the longest wait by then",
    "v_waited_hourly": "What pods at their gate asked for while their group waited, in "
    "resource-hours per hour (UTC) and reason; resource pods counts the pods themselves",
    **usage_views.COMMENTS,
    "v_namespace_cost": "Requested resource-hours per namespace and day (UTC), while pods ran; "
    "apart what ran without an admission",
    "v_pod_usage_daily": "The same per pod, to be summed by anything",
    **preemption_views.COMMENTS,
    **sharing_views.COMMENTS,
    **quota_views.COMMENTS,
    "v_columns": "What every table (column_name empty) and column means",
}


def drop(connection: Connection) -> None:
    """Drop the views that are there."""
    for name in reversed(VIEWS):
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")


def create(connection: Connection) -> None:
    """Make all views; the tables must be there."""
    postgres = connection.dialect.name == "postgresql"
    dialect = home(connection.dialect.name)
    for name, body in VIEWS.items():
        connection.exec_driver_sql(
            f"CREATE VIEW {name} AS {body(dialect).strip()}",
            execution_options={"no_parameters": True},  # a % in the text is a %
        )
        if postgres:
            connection.exec_driver_sql(f"COMMENT ON VIEW {name} IS {text_of(COMMENTS[name])}")
