-- name: approval_chain
-- A request and the proposals before and after it, without what they show.
WITH RECURSIVE before(id, supersedes_id) AS (
  SELECT id, supersedes_id FROM qd_approval WHERE id = %(id)s
  UNION ALL SELECT a.id, a.supersedes_id FROM qd_approval a JOIN before b ON a.id = b.supersedes_id),
after(id) AS (
  SELECT id FROM qd_approval WHERE id = %(id)s
  UNION ALL SELECT a.id FROM qd_approval a JOIN after f ON a.supersedes_id = f.id)
SELECT id FROM before UNION SELECT id FROM after;

-- name: approval_past
-- Closed requests that permit a call of one of these tools, in any version, on the same target where there is one: among
-- the two thousand of the tenant that were decided last, which bounds what a page costs.
WITH newest AS (
  SELECT id, title, state, target, requested_by, run_id, decided_at, decided_by, closed_at,
    CASE WHEN decided_at IS NOT NULL THEN decided_at WHEN closed_at IS NOT NULL THEN closed_at ELSE created_at END AS over_at
  FROM qd_approval
  WHERE tenant_id = %(tenant)s AND NOT (state = 'pending') ORDER BY over_at DESC, id DESC LIMIT 2000)
SELECT n.id, n.title, n.state, n.target, n.requested_by, n.run_id, n.decided_at, n.decided_by, n.closed_at FROM newest n
WHERE n.id <> ALL(%(chain)s::uuid[]) AND n.state <> 'superseded' AND (%(target)s::text IS NULL OR n.target = %(target)s)
  AND EXISTS (SELECT FROM qd_approval_action a WHERE a.request_id = n.id AND split_part(a.tool, '@', 1) = ANY(%(tools)s))
ORDER BY n.over_at DESC, n.id DESC LIMIT %(most)s;

-- name: approval_past_own
-- What one person said and did about these requests, newest first.
SELECT x.request_id, r.title, r.version, x.kind, x.text, x.at FROM (
  SELECT request_id, decision AS kind, comment AS text, at FROM qd_approval_decision
  WHERE tenant_id = %(tenant)s AND user_id = %(user)s AND request_id = ANY(%(ids)s)
  UNION ALL
  SELECT request_id, kind, text, at FROM qd_approval_note WHERE request_id = ANY(%(ids)s) AND actor = %(label)s) x
  JOIN qd_approval r ON r.id = x.request_id
ORDER BY x.at DESC, x.request_id LIMIT %(most)s;
