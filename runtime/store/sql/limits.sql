-- name: gates
-- What may keep a tenant's steps from starting: its limits, the breakers of its tools that have seen failures, its policy.
SELECT l.id, l.scope, l.name, l.most, l.used, l.calls, least(l.calls, coalesce(l.allowance, l.calls)
    + coalesce(extract(epoch FROM qd_now() - l.refilled_at), 0) * l.calls / l.per_s)::float8,
  EXISTS (SELECT FROM qd_step s WHERE s.blocked_on = l.id AND s.status = 'queued' AND NOT s.claimable)
FROM qd_limit l WHERE l.removed_at IS NULL
UNION ALL
SELECT b.id, b.state, b.tool, NULL, b.failures, NULL, extract(epoch FROM b.open_until - qd_now())::float8, true
FROM qd_breaker b WHERE b.state <> 'closed' OR b.failures > 0
UNION ALL
SELECT p.id, 'policy', jsonb_build_object('data_regions', p.data_regions, 'scopes', p.scopes)::text, NULL, 0, NULL, NULL,
  false
FROM qd_policy p;

-- name: lock_limits
-- In the order of their ids, after everything else a transaction locks but the audit's head.
SELECT id, used, least(calls, coalesce(allowance, calls)
    + coalesce(extract(epoch FROM qd_now() - refilled_at), 0) * calls / per_s)::float8
FROM qd_limit WHERE id = ANY(%s::uuid[]) ORDER BY id FOR NO KEY UPDATE;

-- name: count_tokens
UPDATE qd_limit l SET used = l.used + u.taken, refilled_at = qd_now(),
  allowance = least(l.calls, coalesce(l.allowance, l.calls)
    + coalesce(extract(epoch FROM qd_now() - l.refilled_at), 0) * l.calls / l.per_s) - u.started
FROM unnest(%s::uuid[], %s::int[], %s::int[]) u(id, taken, started) WHERE l.id = u.id;

-- name: probe_breakers
-- Compare-and-set: of all that would be the probe of a breaker whose time is over, one is. It waits for nobody: whoever
-- has the row is the probe already, or tells what became of a call.
UPDATE qd_breaker SET state = 'half_open', open_until = qd_now() + make_interval(secs => %s), version = version + 1
WHERE id IN (SELECT id FROM qd_breaker WHERE id = ANY(%s::uuid[]) AND state <> 'closed' AND open_until <= qd_now()
             FOR NO KEY UPDATE SKIP LOCKED) RETURNING id;

-- name: running_of_runs
SELECT run_id, count(*) FROM qd_step WHERE run_id = ANY(%s::uuid[]) AND status = 'running' GROUP BY run_id;

-- name: blocked_gates
SELECT gate, tenant_id FROM qd_blocked_gates(%s, %s);

-- name: blocked_tenants
SELECT qd_blocked_tenants(%s);

-- name: gate_by_id
-- What a parked step waits for and how many may go on: a limit's free tokens or calls, a breaker's probe, a run.
SELECT CASE scope WHEN 'global' THEN 'global' ELSE 'limit' END,
  least(CASE WHEN removed_at IS NULL THEN most - used END, CASE WHEN removed_at IS NULL AND calls IS NOT NULL THEN floor(
    least(calls, coalesce(allowance, calls) + coalesce(extract(epoch FROM qd_now() - refilled_at), 0) * calls / per_s))
  END)::int, NULL::uuid FROM qd_limit WHERE id = %(id)s
UNION ALL
SELECT 'breaker', CASE WHEN state = 'closed' THEN NULL WHEN open_until <= qd_now() THEN 1 ELSE 0 END, NULL
FROM qd_breaker WHERE id = %(id)s
UNION ALL
SELECT 'run', (SELECT count(*) FROM qd_step s WHERE s.run_id = r.id AND s.status = 'running')::int, r.workflow_version_id
FROM qd_run r WHERE r.id = %(id)s;

-- name: lock_serials
-- One transaction at a time decides who writes a state; freed at its end.
SELECT pg_advisory_xact_lock(hashtextextended(u.id::text, 7)) FROM (SELECT id FROM unnest(%s::uuid[]) x(id) ORDER BY id) u;

-- name: busy_serials
-- States that somebody writes, or may have written: who is at it, and who was ended while its operation is open.
SELECT serial FROM qd_step WHERE serial = ANY(%(ids)s::uuid[]) AND status IN ('running', 'unknown')
UNION ALL
SELECT s.serial FROM qd_step s
WHERE s.serial = ANY(%(ids)s::uuid[]) AND s.status IN ('killed', 'mark_successed') AND NOT s.superseded
  AND EXISTS (SELECT FROM qd_operation o WHERE o.run_id = s.run_id AND o.step_id = s.id
              AND o.status IN ('intended', 'sent', 'unknown', 'needs_human'));

-- name: forget_serials
-- Whoever takes a state over clears the names of those that were ended at it. It waits for nobody.
UPDATE qd_step SET serial = NULL WHERE id IN (
  SELECT id FROM qd_step WHERE serial = ANY(%s::uuid[]) AND status IN ('killed', 'mark_successed') AND NOT superseded
  ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);

-- name: blocked_of_run
SELECT id FROM qd_step WHERE run_id = %s AND status = 'queued' AND NOT claimable AND blocked_on IS NOT NULL;

-- name: add_breakers
-- The rows of classes that fail for the first time, before any is locked: another's new row is then never waited for by
-- somebody who has a lock on one.
INSERT INTO qd_breaker (id, tenant_id, tool, error_class, state, failures, last_failure_at, opens, version)
SELECT u.id, %s::uuid, u.tool, u.class, 'closed', 0, qd_now(), 0, 0
FROM unnest(%s::uuid[], %s::text[], %s::text[]) u(id, tool, class) ORDER BY u.tool, u.class
ON CONFLICT (tenant_id, tool, error_class) DO NOTHING;

-- name: lock_breakers
-- All of these tools, in one order for everybody, after the limits.
SELECT id FROM qd_breaker WHERE tool = ANY(%s::text[]) ORDER BY tool, error_class FOR NO KEY UPDATE;

-- name: break_circuits
-- Failures of a class, counted where no success came between; at the threshold, or when the probe fails, it opens.
UPDATE qd_breaker b SET
  failures = o.failures, last_failure_at = qd_now(), version = b.version + 1,
  state = CASE WHEN o.opens THEN 'open' ELSE b.state END,
  opened_at = CASE WHEN o.opens THEN qd_now() ELSE b.opened_at END,
  open_until = CASE WHEN o.opens
    THEN qd_now() + make_interval(secs => least(%(longest)s, %(seconds)s * 2.0 ^ least(b.opens, 20)))
    ELSE b.open_until END,
  opens = b.opens + o.opens::int
FROM (SELECT c.id, f.failures, c.state = 'half_open' OR (c.state = 'closed' AND f.failures >= %(threshold)s) AS opens
  FROM unnest(%(tools)s::text[], %(classes)s::text[], %(counts)s::int[]) u(tool, class, n)
  JOIN qd_breaker c ON c.tool = u.tool AND c.error_class = u.class,
  LATERAL (SELECT u.n + CASE WHEN c.last_failure_at < qd_now() - make_interval(secs => %(window)s) THEN 0
                             ELSE c.failures END AS failures) f) o
WHERE b.id = o.id;

-- name: mend_circuits
-- A success: what was half open closes, and what was counted is forgotten.
UPDATE qd_breaker SET state = 'closed', failures = 0, opens = 0, open_until = NULL, version = version + 1
WHERE tool = ANY(%s::text[]) AND state <> 'open' AND (state = 'half_open' OR failures > 0) RETURNING id;

-- name: count_retries
-- Counts retries into their windows and returns what each has had by now; a window that is over begins anew.
INSERT INTO qd_retry_window AS w (tenant_id, key, fingerprint, ends_at, used)
SELECT u.tenant_id, u.key, u.fingerprint, qd_now() + make_interval(secs => u.seconds), u.n
FROM unnest(%s::uuid[], %s::text[], %s::bytea[], %s::int[], %s::float8[]) u(tenant_id, key, fingerprint, n, seconds)
ORDER BY u.tenant_id, u.key
ON CONFLICT (tenant_id, key) DO UPDATE SET
  (ends_at, used) = (SELECT CASE WHEN o.fresh THEN excluded.ends_at ELSE w.ends_at END,
                            CASE WHEN o.fresh THEN 0 ELSE w.used END + excluded.used
    FROM (SELECT w.ends_at <= qd_now() OR w.fingerprint IS DISTINCT FROM excluded.fingerprint AS fresh) o),
  fingerprint = excluded.fingerprint
RETURNING w.key, w.used;

-- name: retries_of_runs
SELECT run_id, count(*) FROM qd_attempt WHERE run_id = ANY(%s::uuid[]) AND outcome = 'retry' GROUP BY run_id;

-- name: put_limit
-- Compare-and-set where the caller says which version was shown (0: none); no row back means that another one stands.
INSERT INTO qd_limit AS l (id, tenant_id, scope, name, origin, most, calls, per_s, used, reason, set_by, set_at)
SELECT %(id)s, %(tenant)s, %(scope)s, %(name)s, %(origin)s, %(most)s, %(calls)s, %(per_s)s, 0, %(reason)s, %(by)s, qd_now()
WHERE coalesce(%(expected)s::int, 0) = 0 OR %(stands)s
ON CONFLICT (tenant_id, scope, name, origin) WHERE removed_at IS NULL DO UPDATE SET
  most = excluded.most, calls = excluded.calls, per_s = excluded.per_s, reason = excluded.reason, set_by = excluded.set_by,
  set_at = excluded.set_at, allowance = CASE WHEN excluded.calls IS NOT NULL THEN least(l.allowance, excluded.calls) END,
  version = l.version + 1
WHERE %(expected)s::int IS NULL OR l.version = %(expected)s::int
RETURNING id, set_at, version;

-- name: standing_limit
-- Locked, so that nobody takes it away before it is changed.
SELECT id, version, most, calls, per_s, reason, set_by, set_at FROM qd_limit
WHERE tenant_id = %s AND scope = %s AND name = %s AND origin = 'settings' AND removed_at IS NULL FOR NO KEY UPDATE;

-- name: remove_limit
UPDATE qd_limit SET removed_at = qd_now() WHERE id = %s AND origin = 'settings' AND removed_at IS NULL
RETURNING scope, name;

-- name: limit_scope
SELECT scope, origin, removed_at IS NULL AS stands, name, version, most, calls, per_s, reason, set_by, set_at
FROM qd_limit WHERE id = %s FOR NO KEY UPDATE;

-- name: backlog
SELECT qd_backlog(%s);

-- name: own_backlog
-- The same of one tenant.
SELECT ((SELECT count(*) FROM (SELECT FROM qd_step WHERE status = 'queued' AND claimable LIMIT %(most)s) a)
      + (SELECT count(*) FROM (SELECT FROM qd_step WHERE status = 'queued' AND NOT claimable AND blocked_on IS NOT NULL
                                 LIMIT %(most)s) b))::int;

-- name: read_limits
-- With the tokens held and how many steps are parked; a global limit's numbers are the installation's own.
SELECT l.id, l.scope, l.name, l.origin, l.most, l.calls, l.per_s, CASE WHEN l.scope <> 'global' OR %(all)s THEN l.used END AS used,
  (SELECT count(*) FROM (SELECT FROM qd_step s WHERE s.blocked_on = l.id AND s.status = 'queued' AND NOT s.claimable
                         LIMIT 1000) x) AS waiting, l.reason, l.set_by, l.set_at,
  l.version
FROM qd_limit l WHERE l.removed_at IS NULL ORDER BY l.scope, l.name, l.origin LIMIT %(limit)s;

-- name: read_breakers
-- Those that are open or half open first; closed ones while they still count failures.
SELECT b.id, b.tool, b.error_class, b.state, b.failures, b.last_failure_at, b.opened_at, b.open_until, b.opens,
  (SELECT count(*) FROM (SELECT FROM qd_step s WHERE s.blocked_on = b.id AND s.status = 'queued' AND NOT s.claimable
                         LIMIT 1000) x) AS waiting
FROM qd_breaker b WHERE b.state <> 'closed' OR b.failures > 0
ORDER BY b.state = 'closed', b.tool, b.error_class LIMIT %(limit)s;

-- name: close_breaker
UPDATE qd_breaker SET state = 'closed', failures = 0, opens = 0, open_until = NULL, version = version + 1
WHERE id = %s AND state <> 'closed' RETURNING tool, error_class;

-- name: open_breaker
-- A late success of a call that is under way closes nothing: only the probe does, when the time is over.
UPDATE qd_breaker SET state = 'open', opened_at = CASE WHEN state = 'open' THEN opened_at ELSE qd_now() END,
  open_until = qd_now() + make_interval(secs => %s), opens = greatest(opens, 1), version = version + 1
WHERE id = %s RETURNING open_until;

-- name: lock_breaker
SELECT tool, error_class, state, failures, open_until FROM qd_breaker WHERE id = %s FOR NO KEY UPDATE;

-- name: held_by_their_own
-- Runs whose steps wait for the run's own bound, and states that somebody writes: what no limit of a person holds back.
-- It goes from one of what is waited for to the next, and reads the steps of those only that are nobody's limit: fifty
-- thousand that wait for one limit cost one look. Both are read to a bound.
WITH RECURSIVE gates(id) AS (
  (SELECT s.blocked_on FROM qd_step s WHERE s.blocked_on IS NOT NULL AND s.status = 'queued' AND NOT s.claimable
   ORDER BY s.blocked_on LIMIT 1)
  UNION ALL
  SELECT (SELECT s.blocked_on FROM qd_step s WHERE s.blocked_on > g.id AND s.status = 'queued' AND NOT s.claimable
          ORDER BY s.blocked_on LIMIT 1)
  FROM gates g WHERE g.id IS NOT NULL),
own AS (
  SELECT g.id FROM (SELECT id FROM gates WHERE id IS NOT NULL LIMIT 1000) g
  WHERE NOT EXISTS (SELECT FROM qd_limit l WHERE l.id = g.id)
    AND NOT EXISTS (SELECT FROM qd_breaker b WHERE b.id = g.id))
SELECT w.run_id, w.node, CASE WHEN w.blocked_on = w.run_id THEN 'run' ELSE 'state' END AS kind, count(*) AS waiting,
  min(w.queued_at) AS since
FROM (SELECT w.* FROM own CROSS JOIN LATERAL (
        SELECT s.run_id, s.node, s.blocked_on, s.queued_at FROM qd_step s
        WHERE s.blocked_on = own.id AND s.status = 'queued' AND NOT s.claimable LIMIT 1000) w LIMIT 5000) w
GROUP BY 1, 2, 3 ORDER BY since LIMIT 100;

-- name: put_policy
INSERT INTO qd_policy (id, tenant_id, data_regions, scopes, set_by, set_at)
VALUES (%s, %s, %s::jsonb, %s::jsonb, %s, qd_now())
ON CONFLICT (tenant_id) DO UPDATE SET data_regions = excluded.data_regions, scopes = excluded.scopes,
  set_by = excluded.set_by, set_at = excluded.set_at;

-- name: read_policy
SELECT data_regions, scopes, set_by, set_at FROM qd_policy;

-- name: policy_sha256
-- What a run's manifest says of the policy; nothing when nothing is bounded.
SELECT encode(sha256(convert_to(jsonb_build_object('data_regions', data_regions, 'scopes', scopes)::text, 'UTF8')), 'hex')
FROM qd_policy WHERE data_regions IS NOT NULL OR scopes IS NOT NULL;

-- name: waits_for
-- What a parked step waits for, in words.
SELECT coalesce(l.scope, CASE WHEN b.id IS NOT NULL THEN 'breaker' WHEN s.blocked_on = s.run_id THEN 'run' ELSE 'state' END)
    AS kind, coalesce(l.name, b.tool, '') AS name, coalesce(l.most, l.calls, b.failures) AS number, b.open_until AS until
FROM qd_step s LEFT JOIN qd_limit l ON l.id = s.blocked_on LEFT JOIN qd_breaker b ON b.id = s.blocked_on
WHERE s.id = %s AND s.blocked_on IS NOT NULL;
