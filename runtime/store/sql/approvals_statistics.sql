-- name: approval_statistics
-- Requests asked for in a time (at most so many, the oldest): outcomes and waiting times of all, by tool, role and period.
-- The classes are counted here: eight edges make nine.
WITH asked AS MATERIALIZED (
  SELECT *, width_bucket(wait, %(edges)s::float8[]) AS class FROM (
    SELECT id, state, role, created_at, outcome_reason = 'timeout' AS expired,
      extract(epoch FROM decided_at - created_at)::float8 AS wait
    FROM qd_approval WHERE created_at >= %(since)s AND created_at < %(until)s
    ORDER BY created_at, id LIMIT %(most)s) a),
grouped AS (
  SELECT 'all' AS kind, '' AS name, a.* FROM asked a
  UNION ALL SELECT 'role', a.role, a.* FROM asked a
  UNION ALL
  SELECT 'period', to_char(date_trunc(%(unit)s, a.created_at AT TIME ZONE 'UTC'), 'YYYY-MM-DD'), a.* FROM asked a
  UNION ALL SELECT 'tool', t.tool, a.* FROM asked a
    CROSS JOIN LATERAL (SELECT DISTINCT tool FROM qd_approval_action c WHERE c.request_id = a.id) t)
SELECT kind, name, count(*) AS asked, count(*) FILTER (WHERE state = 'pending') AS pending,
  count(*) FILTER (WHERE state = ANY(%(granted)s)) AS approved, count(*) FILTER (WHERE state = 'consumed') AS consumed,
  count(*) FILTER (WHERE state = 'lapsed') AS lapsed, count(*) FILTER (WHERE state IN ('voided', 'revoked')) AS withdrawn,
  count(*) FILTER (WHERE state = 'rejected' AND NOT expired) AS rejected,
  count(*) FILTER (WHERE state = 'rejected' AND expired) AS expired,
  count(*) FILTER (WHERE state = 'cancelled') AS cancelled, count(*) FILTER (WHERE state = 'superseded') AS superseded,
  count(wait) AS waited, avg(wait) AS mean, min(wait) AS shortest, max(wait) AS longest,
  percentile_cont(%(quantiles)s::float8[]) WITHIN GROUP (ORDER BY wait) AS quantiles,
  ARRAY[count(*) FILTER (WHERE class = 0), count(*) FILTER (WHERE class = 1), count(*) FILTER (WHERE class = 2),
    count(*) FILTER (WHERE class = 3), count(*) FILTER (WHERE class = 4), count(*) FILTER (WHERE class = 5),
    count(*) FILTER (WHERE class = 6), count(*) FILTER (WHERE class = 7), count(*) FILTER (WHERE class = 8)] AS classes
FROM grouped GROUP BY kind, name ORDER BY kind, CASE WHEN kind = 'period' THEN name END, asked DESC, name;
