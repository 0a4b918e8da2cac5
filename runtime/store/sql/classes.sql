-- name: class_queues
-- By class: steps that wait to start, how many of them for longer than it aims at, and since when the oldest. Both partial
-- indexes of waiting steps are read, so much of each; what people hold back is in neither.
WITH waiting AS (
  (SELECT priority, queued_at FROM qd_step WHERE status = 'queued' AND claimable LIMIT 5001)
  UNION ALL
  (SELECT priority, queued_at FROM qd_step
   WHERE status = 'queued' AND NOT claimable AND blocked_on IS NOT NULL LIMIT 5001))
SELECT c.name AS class, count(s.queued_at) AS waiting,
  count(s.queued_at) FILTER (WHERE s.queued_at < qd_now() - make_interval(secs => c.start_s)) AS late,
  min(s.queued_at) AS oldest
FROM unnest(%s::text[], %s::int[], %s::int[], %s::float8[]) c(name, least, most, start_s)
LEFT JOIN waiting s ON s.priority BETWEEN c.least AND c.most GROUP BY c.name;

-- name: late_steps
-- Steps that wait to start for longer than their class aims at, those the longest beyond it first: of the same steps that
-- class_queues counts, so that a backlog costs no more than its bound.
WITH c AS (SELECT * FROM unnest(%s::text[], %s::int[], %s::int[], %s::float8[]) u(name, least, most, start_s)),
waiting AS (
  (SELECT s.id, s.run_id, s.node, s.priority, s.queued_at, false AS parked FROM qd_step s
   WHERE s.status = 'queued' AND s.claimable LIMIT 5001)
  UNION ALL
  (SELECT s.id, s.run_id, s.node, s.priority, s.queued_at, true FROM qd_step s
   WHERE s.status = 'queued' AND NOT s.claimable AND s.blocked_on IS NOT NULL LIMIT 5001))
SELECT s.id AS step_id, s.run_id, s.node, c.name AS class, s.queued_at,
  s.queued_at + make_interval(secs => c.start_s) AS start_by, s.parked
FROM waiting s JOIN c ON s.priority BETWEEN c.least AND c.most
WHERE s.queued_at + make_interval(secs => c.start_s) < qd_now()
ORDER BY start_by, s.id LIMIT %s;
