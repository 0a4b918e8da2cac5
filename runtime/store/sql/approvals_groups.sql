-- name: groups_asked_of
-- What a member decides for besides their role now: groups they are in, people whose manager they are.
SELECT 'group:' || g.name FROM qd_approval_group_member x JOIN qd_approval_group g ON g.id = x.group_id
WHERE x.tenant_id = %(tenant)s AND x.user_id = %(user)s AND x.ended_at IS NULL AND g.removed_at IS NULL
UNION ALL
SELECT 'manager:' || u.username FROM qd_approval_manager x JOIN auth_user u ON u.id = x.user_id
WHERE x.tenant_id = %(tenant)s AND x.manager_id = %(user)s;

-- name: members_asked
-- Active members of a group, or who is the manager of somebody, with their addresses.
SELECT u.id, u.username, u.email FROM qd_membership m JOIN auth_user u ON u.id = m.user_id
WHERE m.ended_at IS NULL AND u.is_active AND CASE %(kind)s::text
  WHEN 'group' THEN EXISTS (
    SELECT FROM qd_approval_group_member x JOIN qd_approval_group g ON g.id = x.group_id
    WHERE g.name = %(name)s AND g.removed_at IS NULL AND x.user_id = u.id AND x.ended_at IS NULL)
  WHEN 'manager' THEN EXISTS (
    SELECT FROM qd_approval_manager x JOIN auth_user w ON w.id = x.user_id
    WHERE w.username = %(name)s AND x.manager_id = u.id)
  ELSE false END
ORDER BY u.username LIMIT 100;

-- name: group_names
SELECT name FROM qd_approval_group WHERE removed_at IS NULL ORDER BY name;

-- name: askable
-- How many active members a request could ask, with what their role and they themselves carry: everybody by role (``asked``
-- empty), and who is in a group or is a manager, of those that are named (``manager``: anybody's).
WITH person AS (
  SELECT m.user_id, m.role, m.extra_verbs FROM qd_membership m JOIN auth_user u ON u.id = m.user_id
  WHERE m.ended_at IS NULL AND u.is_active)
SELECT '' AS asked, role, extra_verbs, count(*) FROM person GROUP BY role, extra_verbs
UNION ALL
SELECT 'group:' || g.name, p.role, p.extra_verbs, count(*) FROM qd_approval_group g
  JOIN qd_approval_group_member x ON x.group_id = g.id AND x.ended_at IS NULL
  JOIN person p ON p.user_id = x.user_id
WHERE g.removed_at IS NULL AND 'group:' || g.name = ANY(%(asked)s::text[]) GROUP BY g.name, p.role, p.extra_verbs
UNION ALL
SELECT a.asked, p.role, p.extra_verbs, count(DISTINCT p.user_id) FROM qd_approval_manager x
  JOIN auth_user w ON w.id = x.user_id
  JOIN unnest(%(asked)s::text[]) a(asked) ON a.asked IN ('manager', 'manager:' || w.username)
  JOIN person p ON p.user_id = x.manager_id
GROUP BY a.asked, p.role, p.extra_verbs;

-- name: left_to_decide
-- How many could still decide a request beside admins, and how many admins: without who asked for it or has spoken.
SELECT count(*) FILTER (WHERE m.role <> 'admin'), count(*) FILTER (WHERE m.role = 'admin')
FROM qd_membership m JOIN auth_user u ON u.id = m.user_id
WHERE m.ended_at IS NULL AND u.is_active AND u.id <> ALL(%(spent)s::bigint[]) AND 'user:' || u.username <> %(requester)s
  AND (m.role = ANY(%(roles)s::text[]) OR m.extra_verbs @> to_jsonb(%(verb)s::text))
  AND (m.role = 'admin' OR CASE %(kind)s::text
    WHEN 'role' THEN %(name)s::text IN ('', m.role)
    WHEN 'group' THEN EXISTS (
      SELECT FROM qd_approval_group_member x JOIN qd_approval_group g ON g.id = x.group_id
      WHERE g.name = %(name)s AND g.removed_at IS NULL AND x.user_id = u.id AND x.ended_at IS NULL)
    WHEN 'manager' THEN EXISTS (
      SELECT FROM qd_approval_manager x JOIN auth_user w ON w.id = x.user_id
      WHERE w.username = %(name)s AND x.manager_id = u.id)
    ELSE false END);

-- name: groups
-- Groups with their members; one who left the tenant decides nothing and is still named, so that somebody sees it.
SELECT g.name, g.created_by, g.created_at, array_remove(array_agg(u.username ORDER BY u.username), NULL) AS members
FROM qd_approval_group g
  LEFT JOIN qd_approval_group_member x ON x.group_id = g.id AND x.ended_at IS NULL
  LEFT JOIN auth_user u ON u.id = x.user_id
WHERE g.removed_at IS NULL GROUP BY g.id ORDER BY g.name;

-- name: group_serial
-- One change of a tenant's groups and managers at a time: two at once would write a name twice or a ring.
SELECT pg_advisory_xact_lock(hashtextextended('groups:' || %s::text, 17));

-- name: group_named
SELECT id FROM qd_approval_group WHERE name = %s AND removed_at IS NULL;

-- name: group_insert
INSERT INTO qd_approval_group (id, tenant_id, name, created_by, created_at) VALUES (%s, %s, %s, %s, qd_now());

-- name: group_remove
UPDATE qd_approval_group SET removed_at = qd_now() WHERE id = %s;

-- name: group_members
SELECT x.user_id, u.username FROM qd_approval_group_member x JOIN auth_user u ON u.id = x.user_id
WHERE x.group_id = %s AND x.ended_at IS NULL ORDER BY u.username;

-- name: group_member_insert
INSERT INTO qd_approval_group_member (id, tenant_id, group_id, user_id, added_by, added_at)
VALUES (%s, %s, %s, %s, %s, qd_now());

-- name: group_member_end
UPDATE qd_approval_group_member SET ended_at = qd_now() WHERE group_id = %s AND user_id = ANY(%s) AND ended_at IS NULL;

-- name: policies_in_use
-- The rules that name groups: those that judge now and those that wait to.
SELECT version, rules FROM qd_approval_policy WHERE state IN ('active', 'proposed') ORDER BY version;

-- name: requests_asking
-- How many requests wait for exactly this group, or would ask it on their way up.
SELECT count(*) FROM (
  SELECT FROM qd_approval WHERE tenant_id = %(tenant)s AND state = 'pending'
    AND (role = %(asked)s OR ladder @> jsonb_build_array(jsonb_build_object('role', %(asked)s::text))) LIMIT 1000) w;

-- name: workflow_naming
-- A workflow whose newest version has this text.
SELECT w.name FROM qd_workflow w JOIN LATERAL (
  SELECT spec FROM qd_workflow_version WHERE workflow_id = w.id ORDER BY number DESC LIMIT 1) v ON true
WHERE position(%s::bytea IN v.spec) > 0 ORDER BY w.name LIMIT 1;

-- name: manager_put
INSERT INTO qd_approval_manager (id, tenant_id, user_id, manager_id, set_by, set_at)
VALUES (%(id)s, %(tenant)s, %(user)s, %(manager)s, %(by)s, qd_now())
ON CONFLICT (tenant_id, user_id) DO UPDATE SET manager_id = excluded.manager_id, set_by = excluded.set_by,
  set_at = excluded.set_at;

-- name: manager_of_user
SELECT w.id, w.username FROM qd_approval_manager x JOIN auth_user w ON w.id = x.manager_id WHERE x.user_id = %s;

-- name: managers
SELECT u.username AS "user", w.username AS manager, x.set_by, x.set_at
FROM qd_approval_manager x JOIN auth_user u ON u.id = x.user_id JOIN auth_user w ON w.id = x.manager_id
ORDER BY u.username LIMIT 1000;
