-- name: approval_insert
-- One pending request a step or subject; a second ask about the same one finds the first and writes nothing.
INSERT INTO qd_approval (id, tenant_id, kind, run_id, task_id, step_id, node, execution_version, subject_kind, subject_id,
  title, role, state, version, revision, supersedes_id, shown, payload_sha256, action_sha256, problem, n_actions, target,
  target_version, requested_by, created_at, deadline, on_timeout, start_within_seconds, comment, outcome_reason, risk,
  quorum, separation, editor_id, editor, level, ladder, remind_at, reminders)
VALUES (%(id)s, %(tenant)s, %(kind)s, %(run)s, %(task)s, %(step)s, %(node)s, %(execution_version)s, %(subject_kind)s,
  %(subject_id)s, %(title)s, %(role)s, 'pending', %(version)s, 1, %(supersedes)s, %(shown)s, %(payload_sha256)s,
  %(action_sha256)s, %(problem)s, %(n_actions)s, %(target)s, %(target_version)s, %(requested_by)s, %(now)s, %(deadline)s,
  %(on_timeout)s, %(start_within)s, '', '', %(risk)s, %(quorum)s, %(separation)s, %(editor_id)s, %(editor)s, %(level)s,
  %(ladder)s::jsonb, %(remind_at)s, 0)
ON CONFLICT DO NOTHING RETURNING id;

-- name: approval_action_insert
INSERT INTO qd_approval_action (id, tenant_id, request_id, run_id, node, tool, contract_sha256, business_key,
  arguments_sha256, arguments, prepared_sha256)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: approval_subject
-- What a request is about, before anything is locked: runs are locked before approvals (engine.md 1).
SELECT run_id, step_id FROM qd_approval WHERE id = %s;

-- name: approval_lock
SELECT id, kind, run_id, task_id, step_id, node, execution_version, subject_kind, subject_id, title, role, state, version,
  revision, payload_sha256, action_sha256, problem, n_actions, requested_by, created_at, deadline, on_timeout,
  start_within_seconds, decided_at, decided_by, comment, outcome_reason, risk, quorum, separation, editor_id, editor,
  assignee_id, assignee, assigned_by_id, assigned_by, level, ladder, reminders, target, target_version
FROM qd_approval WHERE id = %s FOR UPDATE;

-- name: approval_content
-- What a proposal shows and permits: the source of an edited one.
SELECT shown FROM qd_approval WHERE id = %s;

-- name: approval_contents
SELECT node, tool, contract_sha256, business_key, arguments_sha256, arguments, prepared_sha256 FROM qd_approval_action
WHERE request_id = %s ORDER BY id;

-- name: approval_last_edit
-- What people last approved to be sent for this very call and what was not sent: null, what the workflow itself sends.
SELECT a.arguments, r.editor_id, r.editor FROM qd_approval_action a JOIN qd_approval r ON r.id = a.request_id
WHERE a.run_id = %(run)s AND a.node = %(node)s AND a.tool = %(tool)s AND a.contract_sha256 = %(contract)s
  AND a.business_key = %(key)s AND coalesce(a.prepared_sha256, a.arguments_sha256) = %(prepared)s
  AND a.operation_id IS NULL AND r.state IN ('approved', 'lapsed', 'revoked', 'voided')
ORDER BY r.id DESC LIMIT 1;

-- name: approval_target_changed
-- In which version a call's target was found last, when another one had been approved.
SELECT r.target, n.details FROM qd_approval_action a JOIN qd_approval r ON r.id = a.request_id
  JOIN qd_approval_note n ON n.request_id = r.id
WHERE a.run_id = %s AND a.node = %s AND n.kind = 'target_changed' AND n.details->>'node' = a.node
ORDER BY n.at DESC, n.id DESC LIMIT 1;

-- name: approval_target_left
-- In which version the last effect under a request left what was looked at in this way.
SELECT t.resources->'target'->>'version' FROM qd_approval_action a JOIN qd_operation o ON o.id = a.operation_id
  JOIN qd_attempt t ON t.run_id = o.run_id AND t.step_id = o.step_id AND t.number = o.attempt
WHERE a.request_id = %s AND t.resources->'target'->>'looked_at' = %s
ORDER BY t.finished_at DESC, t.step_id DESC LIMIT 1;

-- name: approval_heard
-- A voice was heard and more are needed: the row changes, so that who looked at it before sees that.
UPDATE qd_approval SET revision = revision + 1 WHERE id = %s AND state = 'pending' AND revision = %s;

-- name: approval_assign
UPDATE qd_approval SET assignee_id = %(to_id)s, assignee = %(to)s, assigned_by_id = %(by_id)s, assigned_by = %(by)s,
  assigned_at = CASE WHEN %(to_id)s::int IS NULL THEN NULL ELSE qd_now() END, revision = revision + 1
WHERE id = %(id)s AND state = 'pending' AND revision = %(revision)s;

-- name: approval_reschedule
-- A new deadline, by a person's extension or an escalation; what was asked stays the same.
UPDATE qd_approval SET deadline = %(deadline)s, remind_at = %(remind_at)s, reminders = 0, role = %(role)s,
  level = %(level)s, ladder = %(ladder)s::jsonb, assignee_id = %(assignee_id)s, assignee = %(assignee)s,
  assigned_by_id = %(assigned_by_id)s, assigned_by = %(assigned_by)s, revision = revision + 1
WHERE id = %(id)s AND state = 'pending' AND revision = %(revision)s;

-- name: approval_reminded
UPDATE qd_approval SET remind_at = %s, reminders = reminders + 1, revision = revision + 1
WHERE id = %s AND state = 'pending' AND revision = %s;

-- name: review_limits
SELECT most_held, most_decided, set_by, set_at FROM qd_review_limit;

-- name: review_limits_put
INSERT INTO qd_review_limit (id, tenant_id, most_held, most_decided, set_by, set_at)
VALUES (%s, %s, %s, %s, %s, qd_now())
ON CONFLICT (tenant_id) DO UPDATE SET most_held = excluded.most_held, most_decided = excluded.most_decided,
  set_by = excluded.set_by, set_at = excluded.set_at
RETURNING most_held, most_decided, set_by, set_at;

-- name: review_serial
-- One act of one person at a time where it is counted: two at once would both be the last one allowed.
SELECT pg_advisory_xact_lock(hashtextextended('review:' || %s::text || ':' || %s::text, 13));

-- name: review_load
-- What one person holds now, and decided within the last hour.
SELECT (SELECT count(*) FROM qd_approval WHERE tenant_id = %(tenant)s AND assignee_id = %(user)s AND state = 'pending'),
  (SELECT count(*) FROM qd_approval_decision WHERE tenant_id = %(tenant)s AND user_id = %(user)s
   AND at > qd_now() - interval '1 hour');

-- name: approval_told
-- What people and time do to a waiting request is told to hooks; its beginning and end the database tells by itself.
SELECT qd_tell_approval(a, %s) FROM qd_approval a WHERE a.id = %s;

-- name: hook_serial
-- One hook at a time is added in a tenant: two at once would both be the last one allowed.
SELECT pg_advisory_xact_lock(hashtextextended('hooks:' || %s::text, 19));

-- name: hook_insert
INSERT INTO qd_approval_hook (id, tenant_id, url, format, events, secret_version, old_secrets, created_by, created_at)
VALUES (%s, %s, %s, %s, %s::jsonb, 1, '[]', %s, qd_now())
ON CONFLICT (tenant_id, url) WHERE removed_at IS NULL DO NOTHING RETURNING id;

-- name: hook_remove
UPDATE qd_approval_hook SET removed_at = qd_now() WHERE id = %s AND removed_at IS NULL RETURNING id;

-- name: hook_lock
SELECT secret_version, old_secrets, rotation FROM qd_approval_hook WHERE id = %s AND removed_at IS NULL FOR NO KEY UPDATE;

-- name: hook_rotate
-- Each earlier secret signs for as long as was said, so that the receiver can take the new one over meanwhile.
UPDATE qd_approval_hook SET secret_version = secret_version + 1, old_secrets = %s::jsonb, rotation = %s::jsonb WHERE id = %s;

-- name: hook_for_message
SELECT url, format, secret_version, ARRAY(
  SELECT (o ->> 'version')::int FROM jsonb_array_elements(old_secrets) o
  WHERE (o ->> 'until')::timestamptz > qd_now() ORDER BY 1 DESC)
FROM qd_approval_hook WHERE id = %s AND removed_at IS NULL;

-- name: hooks
SELECT id, url, format, events, secret_version,
  (SELECT max((o ->> 'until')::timestamptz) FROM jsonb_array_elements(old_secrets) o) AS old_until, created_by, created_at
FROM qd_approval_hook
WHERE removed_at IS NULL ORDER BY created_at, id LIMIT 100;

-- name: run_hooks_wanted
-- Whether anybody hears of ends of runs in this tenant.
SELECT EXISTS (SELECT 1 FROM qd_approval_hook WHERE tenant_id = %s AND removed_at IS NULL AND events ?| %s::text[]);

-- name: run_hooks_told
-- One message for every hook that names this event, with the run as it is at this moment; each has a row of its own.
-- success: run → whether its task's criterion is met; null where there is none.
INSERT INTO qd_outbox (id, tenant_id, event_id, topic, payload, created_at, attempts)
SELECT gen_random_uuid(), r.tenant_id, gen_random_uuid(), 'run.event', jsonb_build_object(
    'hook_id', h.id, 'event_id', gen_random_uuid(), 'run_id', r.id, 'event', 'run.' || r.status, 'at', qd_now(), 'then',
    jsonb_build_object('status', r.status, 'reason', r.reason, 'version', r.version, 'seq', r.seq,
      'success', %s::jsonb->(r.id::text))),
  qd_now(), 0
FROM qd_run r JOIN qd_approval_hook h ON h.tenant_id = r.tenant_id
WHERE r.id = ANY(%s::uuid[]) AND h.removed_at IS NULL AND h.events ? ('run.' || r.status);

-- name: approval_note
INSERT INTO qd_approval_note (id, tenant_id, request_id, kind, actor, text, details, at)
VALUES (%s, %s, %s, %s, %s, %s, %s::jsonb, qd_now());

-- name: approval_notes
-- The newest that were written, oldest first.
SELECT kind, actor, text, details, at FROM (
  SELECT id, kind, actor, text, details, at FROM qd_approval_note WHERE request_id = %(id)s
  ORDER BY at DESC, id DESC LIMIT %(most)s) n
ORDER BY at, id;

-- name: approval_comments_by
-- How many comments somebody has written on a request.
SELECT count(*) FROM qd_approval_note WHERE request_id = %s AND kind = 'comment' AND actor = %s;

-- name: approval_votes
-- Who approved these requests, and in whose place.
SELECT request_id, user_id, for_user_id FROM qd_approval_decision
WHERE request_id = ANY(%s) AND decision = 'approve' ORDER BY id;

-- name: approval_proposals
-- The proposals before and after one about the same step or subject, oldest first; shown of it and the one before.
WITH RECURSIVE before(id, supersedes_id) AS (
  SELECT id, supersedes_id FROM qd_approval WHERE id = %(id)s
  UNION ALL SELECT a.id, a.supersedes_id FROM qd_approval a JOIN before b ON a.id = b.supersedes_id),
after(id) AS (
  SELECT id FROM qd_approval WHERE id = %(id)s
  UNION ALL SELECT a.id FROM qd_approval a JOIN after f ON a.supersedes_id = f.id)
SELECT a.id, a.version, a.state, a.editor, a.created_at,
  CASE WHEN a.id IN (SELECT id FROM qd_approval WHERE id = %(id)s
                     UNION SELECT supersedes_id FROM qd_approval WHERE id = %(id)s) THEN a.shown END AS shown
FROM qd_approval a WHERE a.id IN (SELECT id FROM before UNION SELECT id FROM after) ORDER BY a.version;

-- name: artifact_facts
SELECT id, sha256, size, media_type FROM qd_artifact WHERE id = %s;

-- name: member_named
SELECT u.id, u.username FROM qd_membership m JOIN auth_user u ON u.id = m.user_id
WHERE u.username = %s AND m.ended_at IS NULL AND u.is_active;

-- name: members_named
-- Which of these user names are active members.
SELECT u.username FROM qd_membership m JOIN auth_user u ON u.id = m.user_id
WHERE u.username = ANY(%s) AND m.ended_at IS NULL AND u.is_active;

-- name: active_user
SELECT 1 FROM auth_user WHERE id = %s AND is_active;

-- name: members_of_role
-- Who has a role, and admins, who decide everything: at most fifty names.
SELECT u.username, m.role FROM qd_membership m JOIN auth_user u ON u.id = m.user_id
WHERE m.ended_at IS NULL AND u.is_active AND m.role IN (%s, 'admin') ORDER BY m.role = 'admin', u.username LIMIT 50;

-- name: approval_decide
-- Compare-and-set; the guard sets decided_at to the moment of this statement and refuses a late one.
UPDATE qd_approval SET state = %(state)s::text, revision = revision + 1, decided_by = %(by)s, comment = %(comment)s,
  closed_at = CASE WHEN %(state)s::text = 'approved' THEN NULL ELSE qd_now() END,
  start_by = CASE WHEN %(state)s::text = 'approved' THEN qd_now() + make_interval(secs => start_within_seconds) END
WHERE id = %(id)s AND state = 'pending' AND revision = %(revision)s RETURNING decided_at, start_by;

-- name: approval_close
-- Ends requests by the law with the reason why; those that are in another state by now are left alone.
UPDATE qd_approval SET state = %(to)s::text, revision = revision + 1, closed_at = qd_now(), outcome_reason = %(reason)s
WHERE id = ANY(%(ids)s) AND state = %(from)s::text RETURNING id;

-- name: approvals_of_steps
-- Pending requests about these steps, locked.
SELECT id FROM qd_approval WHERE step_id = ANY(%s) AND state = 'pending' ORDER BY id FOR UPDATE;

-- name: approvals_granted_of_runs
SELECT id FROM qd_approval WHERE run_id = ANY(%s) AND state = 'approved' AND n_actions > 0 ORDER BY id FOR UPDATE;

-- name: approval_grants
-- Grants of these runs, used or not: what the gate compares a call with. Locked, so that one is used once.
SELECT a.id, a.request_id, a.run_id, a.node, a.tool, a.contract_sha256, a.business_key, a.arguments_sha256, a.operation_id,
  r.kind, r.node AS asked_at, r.step_id AS asked_by, r.state, r.start_by <= qd_now(), r.role, r.quorum,
  r.separation, a.arguments, a.prepared_sha256, r.target, r.target_version, r.decided_at
FROM qd_approval_action a JOIN qd_approval r ON r.id = a.request_id
WHERE a.run_id = ANY(%s) AND r.state IN ('approved', 'consumed') ORDER BY r.id, a.id FOR UPDATE OF r, a;

-- name: approval_requesters
-- Who submitted the task of each run, who had it run again, and the workflow; of each the user who is, or was, a member.
SELECT r.id, v.workflow_id, t.created_by,
  (SELECT u.id FROM qd_membership b JOIN auth_user u ON u.id = b.user_id WHERE 'user:' || u.username = t.created_by LIMIT 1),
  e.actor,
  (SELECT u.id FROM qd_membership b JOIN auth_user u ON u.id = b.user_id WHERE 'user:' || u.username = e.actor LIMIT 1)
FROM qd_run r JOIN qd_task t ON t.id = r.task_id JOIN qd_workflow_version v ON v.id = r.workflow_version_id
  LEFT JOIN qd_event e ON e.run_id = r.id AND e.seq = 1 AND r.rerun_of_id IS NOT NULL
WHERE r.id = ANY(%s);

-- name: run_ordered_by
-- Who had this run made: the submitter of its task, or whoever had that run again; null: the engine.
SELECT actor FROM qd_event WHERE run_id = %s AND seq = 1;

-- name: approval_use
-- A grant is used by the operation that was sent under it.
UPDATE qd_approval_action SET operation_id = u.operation, consumed_at = qd_now()
FROM unnest(%s::uuid[], %s::uuid[]) u(id, operation) WHERE qd_approval_action.id = u.id AND consumed_at IS NULL;

-- name: approval_used_up
-- A request is consumed when every call it permits was sent.
UPDATE qd_approval r SET state = 'consumed', revision = revision + 1, closed_at = qd_now()
WHERE r.id = ANY(%s) AND r.state = 'approved'
  AND NOT EXISTS (SELECT FROM qd_approval_action a WHERE a.request_id = r.id AND a.consumed_at IS NULL);

-- name: approval_decision_insert
-- The guard sets its moment and refuses a late one, and a second voice of one person.
INSERT INTO qd_approval_decision (id, tenant_id, request_id, decision, actor, user_id, token_id, for_user_id, for_actor,
  version, payload_sha256, comment, answer, at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, qd_now()) RETURNING at;

-- name: input_answers
-- What people answered to these steps' requests for an input.
SELECT r.step_id, d.answer FROM qd_approval r JOIN qd_approval_decision d ON d.request_id = r.id
WHERE r.step_id = ANY(%s) AND r.kind = 'input' AND r.state = 'approved' AND d.answer IS NOT NULL;

-- name: input_of_step
-- The newest request for an input about a step.
SELECT id FROM qd_approval WHERE step_id = %s AND kind = 'input' ORDER BY id DESC LIMIT 1;

-- name: approval_decisions
SELECT decision, actor, user_id, for_user_id, for_actor, version, payload_sha256, comment, answer, at FROM qd_approval_decision WHERE request_id = %s
ORDER BY at, id;

-- name: approval_actions
SELECT id, node, tool, contract_sha256, business_key, arguments_sha256, arguments IS NOT NULL AS edited, operation_id,
  consumed_at FROM qd_approval_action
WHERE request_id = %s ORDER BY id;

-- name: due_approvals
SELECT tenant_id, id FROM qd_ended_approvals(%s);

-- name: lapsed_grants
SELECT tenant_id, id FROM qd_lapsed_grants(%s);

-- name: approval_of_key
-- The request that a service made under this key of its own.
SELECT id FROM qd_approval WHERE subject_kind = 'external' AND subject_id = %s;

-- name: approval_terms_asked
-- On which terms a service asked under its key; what the policy made of them stands in the request.
SELECT details FROM qd_approval_note WHERE request_id = %s AND kind = 'ask' ORDER BY id LIMIT 1;

-- name: approval_wait
SELECT id AS approval_id, state, version, outcome_reason, decided_at, decided_by, comment, deadline, start_by,
  action_sha256, payload_sha256,
  (SELECT n.id FROM qd_approval n WHERE n.supersedes_id = a.id LIMIT 1) AS superseded_by, qd_now() AS now
FROM qd_approval a WHERE id = %s;

-- name: approval_start_by
SELECT start_by FROM qd_approval WHERE id = %s;

-- name: approval_uses
-- What a service said when it used its grant, and what it reported since; oldest first.
SELECT kind, details, at FROM qd_approval_note WHERE request_id = %s AND kind IN ('use', 'report') ORDER BY id;

-- name: approval_reminders
SELECT tenant_id, id FROM qd_approval_reminders(%s);

-- name: idle_approvals
SELECT tenant_id, id FROM qd_idle_approvals(%s);

-- name: approval_read
SELECT a.*, coalesce(t.goal, '') AS goal, coalesce(t.name, '') AS task_name, coalesce(t.workflow_name, '') AS workflow_name,
  coalesce(t.agent, '') AS agent, r.status AS run_status, s.status AS step_status, s.version AS step_version,
  (SELECT n.id FROM qd_approval n WHERE n.supersedes_id = a.id LIMIT 1) AS superseded_by, qd_now() AS now
FROM qd_approval a LEFT JOIN qd_task t ON t.id = a.task_id LEFT JOIN qd_run r ON r.id = a.run_id
  LEFT JOIN qd_step s ON s.id = a.step_id
WHERE a.id = %s;

-- name: policy_active
-- The active version, if there is one, and what the tenant says of writing calls where there is none.
SELECT p.version, p.rules, t.settings #>> '{approvals,default}' FROM qd_tenant t
  LEFT JOIN qd_approval_policy p ON p.tenant_id = t.id AND p.state = 'active' WHERE t.id = %s;

-- name: policy_in_force
-- What a run's manifest says of the active policy: its version, and the digest of its rules. Where none is active, what
-- the tenant says of writing calls by its setting; nothing when that allows them.
SELECT coalesce(p.version || ':' || encode(p.sha256, 'hex'), 'default:' || (t.settings #>> '{approvals,default}'))
FROM qd_tenant t LEFT JOIN qd_approval_policy p ON p.tenant_id = t.id AND p.state = 'active'
WHERE t.id = qd_tenant()
  AND (p.id IS NOT NULL OR t.settings #>> '{approvals,default}' IN ('require_approval', 'deny'));

-- name: operations_begun
-- Calls that the ledger answers for: what is proved absent may be sent anew, all else is not.
SELECT run_id, business_key FROM qd_operation WHERE tenant_id = %s AND business_key = ANY(%s) AND status <> 'absent';

-- name: policy_serial
-- One proposal or activation at a time in a tenant: two at once get two numbers, and one of them is active.
SELECT pg_advisory_xact_lock(hashtextextended('policy:' || %s::text, 11));

-- name: policy_insert
INSERT INTO qd_approval_policy (id, tenant_id, version, rules, sha256, note, state, created_by, created_at)
SELECT %(id)s, %(tenant)s, coalesce(max(version), 0) + 1, %(rules)s, %(sha256)s, %(note)s, 'proposed', %(by)s, qd_now()
FROM qd_approval_policy ON CONFLICT (id) DO NOTHING RETURNING version;

-- name: policy_of_id
SELECT version, sha256, note, created_by, state, request_id FROM qd_approval_policy WHERE id = %s;

-- name: policy_asked
UPDATE qd_approval_policy SET request_id = %s WHERE id = %s;

-- name: policy_lock
SELECT version, state, created_by FROM qd_approval_policy WHERE id = %s FOR UPDATE;

-- name: policy_retire
UPDATE qd_approval_policy SET state = 'retired', ended_at = qd_now() WHERE state = 'active' RETURNING version;

-- name: policy_activate
UPDATE qd_approval_policy SET state = 'active', activated_at = qd_now() WHERE id = %s AND state = 'proposed';

-- name: policy_reject
UPDATE qd_approval_policy SET state = 'rejected', ended_at = qd_now() WHERE id = %s AND state = 'proposed';

-- name: policy_withdraw
UPDATE qd_approval_policy SET state = 'withdrawn', ended_at = qd_now() WHERE id = %s AND state = 'proposed';

-- name: policy_request
SELECT request_id FROM qd_approval_policy WHERE id = %s;

-- name: policy_newer
-- The newest version after this one that is active, or was: an older one never takes its place.
SELECT max(version) FROM qd_approval_policy WHERE version > %s AND state IN ('active', 'retired');

-- name: other_admins_count
SELECT count(*) FROM qd_membership m JOIN auth_user u ON u.id = m.user_id
WHERE m.role = 'admin' AND m.ended_at IS NULL AND u.is_active AND m.user_id <> %s;

-- name: policies
SELECT id, version, rules, sha256, note, state, request_id, created_by, created_at, activated_at, ended_at
FROM qd_approval_policy ORDER BY version DESC LIMIT 200;

-- name: policy_past
-- The newest calls that people were asked about, by workflows and by programs: what a policy is tried on.
SELECT r.id, r.state, coalesce(t.created_by, r.requested_by), r.created_at, coalesce(t.workflow_name, ''), a.node, a.tool,
  a.business_key, r.shown
FROM qd_approval_action a JOIN qd_approval r ON r.id = a.request_id LEFT JOIN qd_task t ON t.id = r.task_id
WHERE r.problem IS NULL AND r.state <> 'superseded' ORDER BY r.id DESC, a.id LIMIT %s;

-- name: policy_past_sent
-- The newest calls of the newest runs that were sent without asking anybody: what a policy is tried on as well.
WITH newest AS (SELECT id, task_id FROM qd_run ORDER BY created_at DESC LIMIT %(most)s)
SELECT o.id, o.status, o.requester, o.intended_at, t.workflow_name, s.node, v.name || '@' || v.number, o.business_key,
  o.payload
FROM newest r JOIN qd_task t ON t.id = r.task_id JOIN qd_operation o ON o.run_id = r.id
  JOIN qd_step s ON s.id = o.step_id JOIN qd_tool_version v ON v.id = o.tool_version_id
WHERE o.status <> 'void'
  AND NOT EXISTS (SELECT FROM qd_approval_action a WHERE a.run_id = o.run_id AND a.operation_id = o.id)
ORDER BY o.id DESC LIMIT %(most)s;
