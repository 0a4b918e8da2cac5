-- name: delegations_to
-- In whose place somebody may decide now: each person once, however often they said so.
SELECT from_user_id, from_actor FROM (
  SELECT DISTINCT ON (from_user_id) from_user_id, from_actor, starts_at, id FROM qd_approval_delegation
  WHERE to_user_id = %s AND ended_at IS NULL AND starts_at <= qd_now() AND ends_at > qd_now()
  ORDER BY from_user_id, starts_at, id) d
ORDER BY starts_at, id;

-- name: addresses_standing_in
-- Members with an address who now decide in the place of somebody at one of these addresses.
SELECT DISTINCT t.email FROM qd_approval_delegation d JOIN auth_user f ON f.id = d.from_user_id
  JOIN auth_user t ON t.id = d.to_user_id JOIN qd_membership m ON m.user_id = t.id
WHERE d.ended_at IS NULL AND d.starts_at <= qd_now() AND d.ends_at > qd_now() AND f.email = ANY(%s)
  AND m.ended_at IS NULL AND t.is_active AND t.email <> '' ORDER BY t.email LIMIT 100;

-- name: delegation_serial
-- One new delegation from one person at a time: the same one sent twice at once is made once, and two at once would both
-- be the last one allowed.
SELECT pg_advisory_xact_lock(hashtextextended('delegations:' || %s::text || ':' || %s::text, 17));

-- name: delegation_covers
-- A delegation between the same two that lasts all that time already.
SELECT id, starts_at, ends_at FROM qd_approval_delegation
WHERE from_user_id = %(from)s AND to_user_id = %(to)s AND ended_at IS NULL
  AND starts_at <= %(starts)s AND ends_at >= %(ends)s ORDER BY id LIMIT 1;

-- name: delegations_open
-- How many delegations from somebody are not over.
SELECT count(*) FROM qd_approval_delegation WHERE from_user_id = %s AND ended_at IS NULL AND ends_at > qd_now();

-- name: delegation_insert
INSERT INTO qd_approval_delegation (id, tenant_id, from_user_id, from_actor, to_user_id, to_actor, starts_at, ends_at, reason,
  created_by, created_at)
VALUES (%s, %s, %s, %s, %s, %s, coalesce(%s, qd_now()), %s, %s, %s, qd_now()) RETURNING starts_at;

-- name: delegation_end
UPDATE qd_approval_delegation SET ended_at = qd_now(), ended_by = %s WHERE id = %s AND ended_at IS NULL AND ends_at > qd_now();

-- name: delegation_lock
-- Whether it is over, by a person or by its own end, is told by the database's clock.
SELECT from_actor, to_actor, ended_at IS NOT NULL OR ends_at <= qd_now() FROM qd_approval_delegation
WHERE id = %s FOR NO KEY UPDATE;

-- name: delegations
-- Who stands in for whom, the newest first; of all, or of those that concern one person.
SELECT d.* FROM (
  SELECT id, from_actor, to_actor, starts_at, ends_at, reason, created_by, created_at, ended_at, ended_by,
    CASE WHEN ended_at IS NOT NULL OR ends_at <= qd_now() THEN 'ended' WHEN starts_at > qd_now() THEN 'coming'
      ELSE 'active' END AS state
  FROM qd_approval_delegation
  WHERE (%(all)s::bool OR %(user)s::int IN (from_user_id, to_user_id))
    AND (%(member)s::text IS NULL OR 'user:' || %(member)s::text IN (from_actor, to_actor))
    AND (%(before)s::uuid IS NULL OR id < %(before)s::uuid)) d
WHERE %(states)s::text[] IS NULL OR d.state = ANY(%(states)s::text[]) ORDER BY d.id DESC LIMIT %(limit)s;

-- name: standing_members
-- Members who are active, by name, with what says which verbs they have.
SELECT u.username, m.role, m.extra_verbs FROM qd_membership m JOIN auth_user u ON u.id = m.user_id
WHERE m.ended_at IS NULL AND u.is_active ORDER BY u.username LIMIT %s;
