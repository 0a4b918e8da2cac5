-- name: standing_stops
-- Every stop that stands, for the workers: (id, tenant or null, scope, name, until).
SELECT id, tenant_id, scope, name, until FROM qd_standing_stops();

-- name: own_standing_stops
-- The same for one tenant, past every cache: asked in the transaction that commits an intent.
SELECT id, tenant_id, scope, name, until FROM qd_stop
WHERE lifted_at IS NULL AND (until IS NULL OR until > qd_now())
UNION ALL
SELECT id, NULL, 'global', '', until FROM qd_global_stop WHERE lifted_at IS NULL AND (until IS NULL OR until > qd_now());

-- name: lock_stop_subject
-- One stop of a subject at a time: two that are set at once become one and a refusal.
SELECT pg_advisory_xact_lock(hashtextextended('stop:' || %s::text, 13));

-- name: insert_stop
INSERT INTO qd_stop (id, tenant_id, scope, name, reason, set_by, set_at, until, lift_reason)
VALUES (%s, %s, %s, %s, %s, %s, qd_now(), %s, '') RETURNING set_at;

-- name: insert_global_stop
INSERT INTO qd_global_stop (id, by_tenant_id, scope, name, reason, set_by, set_at, until, lift_reason)
VALUES (%s, %s, 'global', '', %s, %s, qd_now(), %s, '') RETURNING set_at;

-- name: read_stops
-- Standing ones first, then the newest; of a global stop only its setter's tenant is told who and why. One of a tool or
-- workflow that nobody has registered is told apart: its name may be misspelt.
SELECT *, lifted_at IS NULL AND (until IS NULL OR until > qd_now()) AS standing,
  CASE scope
    WHEN 'tool' THEN EXISTS (
      SELECT FROM qd_tool_version t WHERE t.name = split_part(s.name, '@', 1)
        AND (split_part(s.name, '@', 2) = '' OR t.number::text = split_part(s.name, '@', 2)))
    WHEN 'workflow' THEN EXISTS (SELECT FROM qd_workflow w WHERE w.name = s.name)
    ELSE true END AS known
FROM (
  SELECT id, scope, name, reason, set_by, set_at, until, lifted_at, lifted_by, lift_reason, true AS ours FROM qd_stop
  UNION ALL
  SELECT id, scope, name, reason, set_by, set_at, until, lifted_at, lifted_by, lift_reason,
    by_tenant_id IS NOT DISTINCT FROM (SELECT qd_tenant()) FROM qd_global_stop) s
WHERE (%(id)s::uuid IS NULL OR id = %(id)s)
  AND (NOT %(standing)s OR (lifted_at IS NULL AND (until IS NULL OR until > qd_now())))
  AND (NOT %(past)s OR lifted_at IS NOT NULL OR until <= qd_now()) AND (%(before)s::uuid IS NULL OR id < %(before)s)
ORDER BY lifted_at IS NULL AND (until IS NULL OR until > qd_now()) DESC, id DESC LIMIT %(limit)s;

-- name: lift_stop
UPDATE qd_stop SET lifted_at = qd_now(), lifted_by = %s, lift_reason = %s WHERE id = %s AND lifted_at IS NULL
RETURNING lifted_at;

-- name: lift_global_stop
UPDATE qd_global_stop SET lifted_at = qd_now(), lifted_by = %s, lift_reason = %s WHERE id = %s AND lifted_at IS NULL
RETURNING lifted_at;

-- name: last_stop_end
SELECT qd_last_stop_end();

-- name: stopped_steps
SELECT tenant_id, run_id, node FROM qd_stopped_steps(%s);
