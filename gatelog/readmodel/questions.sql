-- waiting: Who waits, for what, and since when?
SELECT w.position, w.namespace, w.name, w.state, w.reason, w.message, w.since
  FROM v_why_pending w
 WHERE w.cluster = :cluster AND (:namespace = '' OR w.namespace = :namespace)
   AND (:queue = '' OR w.cluster_queue = :queue OR w.queue = :queue)
   AND (:team = '' OR EXISTS (
       SELECT 1 FROM pods p WHERE p.cluster = w.cluster AND p.group_id = w.group_id
          AND p.labels ->> :team_label = :team))
 ORDER BY w.cluster_queue, w.position NULLS LAST, w.created_at, w.group_id

-- waits: What did a group wait for, one reason after the other?
SELECT w.from_at, w.to_at, w.reason, w.message
  FROM waits w
  JOIN groups g ON g.cluster = w.cluster AND g.id = w.group_id
 WHERE g.cluster = :cluster AND g.namespace = :namespace AND g.name = :group
 ORDER BY w.from_seq

-- short: What is each group that waits short of, and where?
SELECT g.namespace, g.name, s.cluster_queue, s.kind, s.name AS short, s.limited_by, s.flavor,
       s.resource, s.requested, s.available, s.without_limit, s.lender, s.from_at
  FROM shortages s
  JOIN groups g ON g.cluster = s.cluster AND g.id = s.group_id
 WHERE s.cluster = :cluster AND s.to_at IS NULL
   AND (:namespace = '' OR g.namespace = :namespace)
   AND (:queue = '' OR s.cluster_queue = :queue OR g.queue = :queue)
 ORDER BY s.from_seq, s.group_id, s.flavor, s.resource

-- expected: When is each group that waits expected to start (gatelog forecast)?
SELECT cluster_queue, position, namespace, name, expected_at, latest_at, never
  FROM v_expected_starts
 WHERE cluster = :cluster AND (:namespace = '' OR namespace = :namespace)
   AND (:queue = '' OR cluster_queue = :queue OR queue = :queue)
 ORDER BY cluster_queue, position NULLS LAST, name

-- overtook: Who was admitted from the same ClusterQueue while a group waited in it, or waits?
WITH waited AS (
    SELECT m.cluster, m.cluster_queue, m.queued_at AS from_at, m.admitted_at AS to_at
      FROM admissions m
      JOIN groups g ON g.cluster = m.cluster AND g.id = m.group_id
     WHERE g.cluster = :cluster AND g.namespace = :namespace AND g.name = :group
     UNION ALL
    SELECT cluster, cluster_queue, since, NULL
      FROM v_why_pending
     WHERE cluster = :cluster AND namespace = :namespace AND name = :group)
SELECT o.namespace, o.name, o.priority, a.admitted_at
  FROM waited w
  JOIN admissions a ON a.cluster = w.cluster AND a.cluster_queue = w.cluster_queue
   AND a.admitted_at > w.from_at AND (w.to_at IS NULL OR a.admitted_at < w.to_at)
  JOIN groups o ON o.cluster = a.cluster AND o.id = a.group_id
 ORDER BY a.admitted_at, o.id

-- latency: How many seconds did groups wait for quota, by queue and hour: mean, median, 90 %, worst?
WITH ranked AS (
    SELECT l.cluster_queue, l.queue, l.admitted_hour AS hour, l.queue_seconds AS s,
           cume_dist() OVER (PARTITION BY l.cluster_queue, l.queue, l.admitted_hour
                             ORDER BY l.queue_seconds) AS part
      FROM v_admission_latency l
     WHERE l.cluster = :cluster AND l.admitted_at >= :since AND l.admitted_at < :until
       AND (:namespace = '' OR l.namespace = :namespace)
       AND (:queue = '' OR l.cluster_queue = :queue OR l.queue = :queue))
SELECT hour, cluster_queue, queue, count(*) AS admissions, avg(s) AS mean,
       min(CASE WHEN part >= 0.5 THEN s END) AS half,
       min(CASE WHEN part >= 0.9 THEN s END) AS p90, max(s) AS worst
  FROM ranked
 GROUP BY hour, cluster_queue, queue
 ORDER BY hour, cluster_queue, queue

-- pending: How many groups waited in each ClusterQueue, hour by hour, and how long?
SELECT hour, cluster_queue, groups, pending_at_end, group_hours, longest_wait_seconds
  FROM v_queue_pending_hourly
 WHERE cluster = :cluster AND hour >= :since AND hour < :until
   AND (:queue = '' OR cluster_queue = :queue)
 ORDER BY hour, cluster_queue

-- reasons: How many pod-hours, core-hours, GPU-hours waited for which reason?
SELECT reason, resource, sum(resource_hours) AS hours
  FROM v_waited_hourly
 WHERE cluster = :cluster AND hour >= :since AND hour < :until
   AND (:namespace = '' OR namespace = :namespace)
   AND (:queue = '' OR cluster_queue = :queue OR queue = :queue)
 GROUP BY reason, resource
 ORDER BY resource, hours DESC, reason

-- startup: How many seconds from admission to the last gate, the first node and the last start?
SELECT namespace, name, admission, queue_seconds, last_ungate_seconds, first_bind_seconds,
       first_start_seconds, all_started_seconds
  FROM v_admission_latency
 WHERE cluster = :cluster AND admitted_at >= :since AND admitted_at < :until
   AND (:namespace = '' OR namespace = :namespace)
   AND (:queue = '' OR cluster_queue = :queue OR queue = :queue)
 ORDER BY admitted_at, group_id

-- estimates: How many starts were inside the range of 9 in 10, and how far off was half of them?
WITH tried AS (
    SELECT cluster_queue, inside, said_never, abs(late_seconds) AS error,
           abs(plain_late_seconds) AS plain,
           cume_dist() OVER (PARTITION BY cluster_queue, late_seconds IS NULL
                             ORDER BY abs(late_seconds)) AS part,
           cume_dist() OVER (PARTITION BY cluster_queue, plain_late_seconds IS NULL
                             ORDER BY abs(plain_late_seconds)) AS plain_part
      FROM v_estimates_tried
     WHERE cluster = :cluster AND given_at >= :since AND given_at < :until
       AND (:queue = '' OR cluster_queue = :queue))
SELECT cluster_queue, count(*) AS estimates, 100.0 * avg(inside) AS percent_inside,
       min(CASE WHEN part >= 0.5 THEN error END) AS median_error_s,
       min(CASE WHEN plain_part >= 0.5 THEN plain END) AS median_of_mean_wait_s,
       sum(said_never) AS started_against_all
  FROM tried
 GROUP BY cluster_queue
 ORDER BY cluster_queue

-- holding: Who holds how much quota, and since when?
SELECT h.cluster_queue, h.namespace, h.name, h.state, h.priority, h.admitted_at, h.resources
  FROM v_held h
 WHERE h.cluster = :cluster
   AND (:namespace = '' OR h.namespace = :namespace)
   AND (:queue = '' OR h.cluster_queue = :queue OR h.queue = :queue)
   AND (:team = '' OR EXISTS (
       SELECT 1 FROM pods p WHERE p.cluster = h.cluster AND p.group_id = h.group_id
          AND p.labels ->> :team_label = :team))
 ORDER BY h.admitted_at, h.group_id

-- idle: Who holds quota and runs nothing, and since when?
SELECT cluster_queue, namespace, name, priority, admitted_at, since, resources
  FROM v_idle_holders
 WHERE cluster = :cluster AND (:namespace = '' OR namespace = :namespace)
   AND (:queue = '' OR cluster_queue = :queue OR queue = :queue)
 ORDER BY since, group_id

-- history: What happened to a group in the newest life of its name, and why?
SELECT "at", source, kind, reason, message
  FROM v_group_timeline
 WHERE cluster = :cluster AND source IN ('history', 'wait', 'failure') AND group_id = (
       SELECT id FROM groups
        WHERE cluster = :cluster AND namespace = :namespace AND name = :group
        ORDER BY created_seq DESC LIMIT 1)
 ORDER BY seq, ord

-- preempted: Who was preempted, for whom, by which policy, what did it cost and bring, and why?
SELECT d.issued_at, d.namespace, d.name AS victim, p.namespace AS "for", p.name AS preemptor,
       p.priority, r.policy, r.victim_queue, r.preemptor_queue, r.lost_hours, r.brought,
       r.admitted_after_seconds, r.ran_seconds, d.message
  FROM decisions d
  JOIN groups p ON p.cluster = d.cluster AND p.id = d.command ->> 'preempted_by'
  LEFT JOIN v_preemptions r ON r.cluster = d.cluster AND r.victim_id = d.group_id
   AND r.seq = d.as_of_seq AND r."at" >= :since AND r."at" < :until
 WHERE d.cluster = :cluster AND d.rule = 'preempt'
   AND d.issued_at >= :since AND d.issued_at < :until
   AND (:namespace = '' OR d.namespace = :namespace OR p.namespace = :namespace)
 ORDER BY d.issued_at DESC, d.id

-- ended: How did each admission end?
SELECT g.namespace, g.name, a.number, a.admitted_at, a.released_at, a.release_reason
  FROM admissions a
  JOIN groups g ON g.cluster = a.cluster AND g.id = a.group_id
 WHERE a.cluster = :cluster AND a.admitted_at >= :since AND a.admitted_at < :until
   AND (:namespace = '' OR g.namespace = :namespace)
   AND (:queue = '' OR a.cluster_queue = :queue OR g.queue = :queue)
 ORDER BY a.admitted_at, g.id

-- replaced: In which groups were pods replaced or given up, and how many?
SELECT namespace, name, state, total_count, pods_seen, pods_failed, pods_replaced, pods_excess
  FROM groups
 WHERE cluster = :cluster AND pods_replaced + pods_excess > 0
   AND created_at >= :since AND created_at < :until
   AND (:namespace = '' OR namespace = :namespace)
 ORDER BY pods_replaced DESC, name, id

-- failures: What ran out of memory, was evicted or failed, and what did it ask for?
SELECT p.namespace, p.labels ->> :team_label AS team, p.owner, f.reason, count(*) AS times,
       count(DISTINCT f.pod_uid) AS pods, max(f.restarts) AS restarts,
       CAST(f.requests ->> 'cpu' AS numeric) / 1000.0 AS cpu,
       CAST(f.requests ->> 'memory' AS numeric) / 1073741824.0 AS gib
  FROM failures f
  JOIN pods p ON p.cluster = f.cluster AND p.uid = f.pod_uid
 WHERE f.cluster = :cluster AND f."at" >= :since AND f."at" < :until
   AND (:namespace = '' OR p.namespace = :namespace)
   AND (:team = '' OR p.labels ->> :team_label = :team)
   AND NOT EXISTS (  -- what gatelog itself stopped has not failed
       SELECT 1 FROM decisions d
        WHERE d.cluster = f.cluster AND d.group_id = f.group_id AND d.issued_at <= f."at"
          AND d.action IN ('StopPod', 'DeletePod')
          AND d.target = 'Pod ' || p.namespace || '/' || p.name || ' ' || p.uid)
 GROUP BY p.namespace, p.labels ->> :team_label, p.owner, f.reason, f.requests ->> 'cpu',
          f.requests ->> 'memory'
 ORDER BY times DESC, p.namespace, p.owner, f.reason

-- restarts: Whose containers are started again and again?
SELECT namespace, owner, role, count(*) AS pods, sum(restarts) AS restarts
  FROM pods
 WHERE cluster = :cluster AND restarts > 0 AND created_at >= :since AND created_at < :until
   AND (:namespace = '' OR namespace = :namespace)
   AND (:team = '' OR labels ->> :team_label = :team)
 GROUP BY namespace, owner, role
 ORDER BY restarts DESC, owner, role

-- requestless: Which pods ask for nothing, so that no quota holds them back?
SELECT p.namespace, p.name, g.queue, p.phase, p.qos, p.created_at
  FROM pods p
  JOIN groups g ON g.cluster = p.cluster AND g.id = p.group_id
 WHERE p.cluster = :cluster AND p.created_at >= :since AND p.created_at < :until
   AND (:namespace = '' OR p.namespace = :namespace)
   AND (:team = '' OR p.labels ->> :team_label = :team)
   AND coalesce(CAST(p.requests ->> 'cpu' AS numeric), 0) = 0
   AND coalesce(CAST(p.requests ->> 'memory' AS numeric), 0) = 0
 ORDER BY p.created_at, p.uid

-- oversized: Who asks for four times the cpu they use, or more (ingest.measure_interval_s)?
SELECT namespace, owner, role, count(*) AS pods,
       sum(asked * 1.0 * samples) / sum(samples) / 1000 AS asked_cores,
       sum(used * 1.0 * samples) / sum(samples) / 1000 AS used_cores,
       max(peak) / 1000.0 AS peak_cores
  FROM v_pod_used
 WHERE cluster = :cluster AND resource = 'cpu' AND to_at >= :since AND to_at < :until
   AND (:namespace = '' OR namespace = :namespace)
   AND (:team = '' OR labels ->> :team_label = :team)
 GROUP BY namespace, owner, role
HAVING sum(asked * 1.0 * samples) >= 4 * sum(used * 1.0 * samples)
 ORDER BY asked_cores DESC, owner, role

-- teams: What did each team run, day by day, and in which queue?
SELECT u.day, u.labels ->> :team_label AS team, g.queue, u.resource,
       count(DISTINCT u.pod_uid) AS pods, sum(u.resource_hours) AS hours
  FROM v_pod_usage_daily u
  JOIN groups g ON g.cluster = u.cluster AND g.id = u.group_id
 WHERE u.cluster = :cluster AND u.day >= :since_day AND u.day <= :until_day
   AND (:namespace = '' OR u.namespace = :namespace)
   AND (:team = '' OR u.labels ->> :team_label = :team)
 GROUP BY u.day, u.labels ->> :team_label, g.queue, u.resource
 ORDER BY u.day, u.resource, hours DESC, g.queue

-- waste: How much was held without running or wasted, by namespace, hour by hour?
SELECT hour, namespace, flavor, resource, what, why, sum(resource_hours) AS hours
  FROM v_usage_hourly
 WHERE cluster = :cluster AND what IN ('held', 'wasted') AND hour >= :since AND hour < :until
   AND (:namespace = '' OR namespace = :namespace)
   AND (:queue = '' OR cluster_queue = :queue OR queue = :queue)
 GROUP BY hour, namespace, flavor, resource, what, why
 ORDER BY hour, namespace, flavor, resource, what, why

-- taken: What held a ClusterQueue's quota, hour by hour?
SELECT hour, cluster_queue, flavor, resource, amount_hours, admissions
  FROM v_queue_usage_hourly
 WHERE cluster = :cluster AND hour >= :since AND hour < :until
   AND (:queue = '' OR cluster_queue = :queue)
 ORDER BY hour, cluster_queue, flavor, resource

-- quota: What do ClusterQueues and Cohorts hold, borrow and lend of their quota?
SELECT kind, name, root AS cohort, flavor, resource, nominal, held, borrowed, idle, lent
  FROM v_quota
 WHERE cluster = :cluster AND kind <> 'LocalQueue' AND (:queue = '' OR name = :queue)
 ORDER BY root, kind, name, flavor, resource

-- changes: When did nominal quota of ClusterQueues change, and from what to what?
WITH spans AS (
    SELECT cluster_queue, flavor, resource, CAST(amount AS BIGINT) AS amount, from_at, to_at,
           lead(from_at) OVER its AS next_at, lag(to_at) OVER its AS before_at,
           CAST(lag(amount) OVER its AS BIGINT) AS before
      FROM v_quota_spans
     WHERE cluster = :cluster AND (:queue = '' OR cluster_queue = :queue)
    WINDOW its AS (PARTITION BY cluster_queue, flavor, resource ORDER BY from_at)),
changes AS (
    SELECT from_at AS changed_at, cluster_queue, flavor, resource,
           CASE WHEN before_at = from_at THEN before END AS was, amount AS nominal
      FROM spans WHERE before IS NULL OR before_at < from_at OR before <> amount
     UNION ALL
    SELECT to_at, cluster_queue, flavor, resource, amount, NULL
      FROM spans
     WHERE to_at < (SELECT t."at" FROM v_clock t) AND (next_at IS NULL OR next_at > to_at))
SELECT changed_at, cluster_queue, flavor, resource, was, nominal
  FROM changes
 WHERE changed_at >= :since AND changed_at < :until
 ORDER BY changed_at, cluster_queue, flavor, resource

-- borrowed: Who borrowed, and of whom can it have been at most?
SELECT borrower, lender, flavor, resource, max(amount) AS most_at_once,
       sum(resource_hours) AS resource_hours, min(from_at) AS first_at, max(to_at) AS last_at
  FROM v_borrowed
 WHERE cluster = :cluster AND from_at >= :since AND from_at < :until
   AND (:queue = '' OR borrower = :queue OR lender = :queue)
 GROUP BY borrower, lender, flavor, resource
 ORDER BY borrower, lender, flavor, resource

-- shares: Which share had each queue of a cohort, hour by hour, and how full was the cohort?
SELECT hour, root AS cohort, kind, name, resource, 100.0 * reserved / quota AS percent_held,
       borrowed, share, most_share
  FROM v_share_hourly
 WHERE cluster = :cluster AND root <> '' AND quota > 0 AND hour >= :since AND hour < :until
   AND (:queue = '' OR name = :queue)
 ORDER BY hour, root, kind, name, resource
