-- The numbered invariants of the law of states as searches for what breaks them. Each returns (id, problem); the
-- parameter bounds how many. They stand under the tenant's row-level security like every other query.

-- name: invariant_1_results
-- A step row is one execution version: it has one applied result at most.
SELECT e.step_id::text, 'results applied: ' || count(*) FROM qd_event e
WHERE e.to_status IN ('succeeded', 'failed') AND e.node IS NOT NULL AND e.cause IS DISTINCT FROM 'operation'
GROUP BY e.step_id HAVING count(*) > 1 LIMIT %s;

-- name: invariant_1_sends
-- Every send after the first follows a proof of absence, and the row counts what the events tell.
WITH told AS (
  SELECT (e.payload->>'operation_id')::uuid AS id, count(*) FILTER (WHERE e.type = 'OPERATION_SENT') AS sent,
    count(*) FILTER (WHERE e.type = 'OPERATION_ABSENT') AS absent
  FROM qd_event e WHERE e.type IN ('OPERATION_SENT', 'OPERATION_ABSENT') GROUP BY 1)
SELECT o.id::text, format('sends: %%s in the row, %%s in the events, %%s times proved absent', o.sends,
                          coalesce(t.sent, 0), coalesce(t.absent, 0))
FROM qd_operation o LEFT JOIN told t ON t.id = o.id
WHERE o.sends <> coalesce(t.sent, 0) OR o.sends > 1 + coalesce(t.absent, 0) LIMIT %s;

-- name: invariant_2_epochs
-- Over a step's events the epoch never falls, and a claim takes a higher one.
SELECT DISTINCT e.step_id::text, 'owner_epoch does not grow' FROM (
  SELECT step_id, type, owner_epoch, max(owner_epoch) OVER (PARTITION BY step_id ORDER BY seq
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM qd_event WHERE step_id IS NOT NULL AND node IS NOT NULL) e
WHERE e.owner_epoch < e.before OR (e.type = 'STEP_STARTED' AND e.owner_epoch <= e.before) LIMIT %s;

-- name: invariant_2_rows
SELECT s.id::text, format('owner_epoch %%s in the row, %%s in the events', s.owner_epoch, max(e.owner_epoch))
FROM qd_step s JOIN qd_event e ON e.run_id = s.run_id AND e.step_id = s.id
GROUP BY s.id HAVING max(e.owner_epoch) <> s.owner_epoch LIMIT %s;

-- name: invariant_3_gapless
SELECT r.id::text, format('seq %%s; events %%s, from %%s to %%s', r.seq, count(e.seq), min(e.seq), max(e.seq))
FROM qd_run r LEFT JOIN qd_event e ON e.run_id = r.id
GROUP BY r.id HAVING count(e.seq) <> r.seq OR min(e.seq) IS DISTINCT FROM 1 OR max(e.seq) IS DISTINCT FROM r.seq
LIMIT %s;

-- name: invariant_3_counters
-- The run's counters over the current rows; the causes are those of machine.rows.
SELECT r.id::text, 'counters differ from the steps' FROM qd_run r LEFT JOIN LATERAL (
  SELECT count(*) AS n_steps,
    count(*) FILTER (WHERE s.status IN ('waiting', 'queued', 'running', 'hold', 'unknown')) AS n_open,
    count(*) FILTER (WHERE s.status IN ('queued', 'running')) AS n_live,
    count(*) FILTER (WHERE s.status = 'waiting' AND s.cause IN
      ('timer', 'retry_scheduled', 'yielded', 'given_back', 'reconciled', 'stopped')) AS n_timer,
    count(*) FILTER (WHERE s.status = 'hold' AND s.cause = 'approval') AS n_hold_approval,
    count(*) FILTER (WHERE s.status = 'hold' AND s.cause <> 'approval') AS n_hold_external,
    count(*) FILTER (WHERE s.status = 'unknown') AS n_unknown,
    count(*) FILTER (WHERE s.status = 'failed' OR (s.status = 'killed' AND s.cause IS DISTINCT FROM 'or_lost')
      OR (s.status = 'skipped' AND s.cause NOT IN ('user', 'branch', 'or_lost'))) AS n_bad
  FROM qd_step s WHERE s.run_id = r.id AND NOT s.superseded) n ON true
WHERE (r.n_steps, r.n_open, r.n_live, r.n_timer, r.n_hold_approval, r.n_hold_external, r.n_unknown, r.n_bad)
   IS DISTINCT FROM
      (n.n_steps, n.n_open, n.n_live, n.n_timer, n.n_hold_approval, n.n_hold_external, n.n_unknown, n.n_bad) LIMIT %s;

-- name: invariant_3_operations
SELECT r.id::text, format('open operations: %%s counted, %%s there', r.n_open_operations, count(o.id))
FROM qd_run r LEFT JOIN qd_operation o ON o.run_id = r.id
  AND o.status IN ('intended', 'sent', 'unknown', 'needs_human', 'partially_applied', 'compensating', 'compensation_failed')
GROUP BY r.id HAVING r.n_open_operations <> count(o.id) LIMIT %s;

-- name: invariant_3_undoing
-- Every operation that is being undone is counted, and one open step looks after it.
SELECT r.id::text, format('being undone: %%s counted, %%s there, %%s open steps', r.n_compensating, n.there, n.steps)
FROM qd_run r, LATERAL (SELECT
    (SELECT count(*) FROM qd_operation o WHERE o.run_id = r.id AND o.status = 'compensating') AS there,
    (SELECT count(*) FROM qd_step s WHERE s.run_id = r.id AND s.kind IN ('compensation', 'compensation_check')
       AND NOT s.superseded AND s.status IN ('waiting', 'queued', 'running', 'hold', 'unknown')) AS steps) n
WHERE r.n_compensating <> n.there OR n.there <> n.steps LIMIT %s;

-- name: invariant_3_sample
-- Runs to fold: the newest, which includes what is under way.
SELECT id FROM qd_run ORDER BY created_at DESC, id DESC LIMIT %s;

-- name: invariant_4_law
-- Moves in the ledger that the law does not have; leaving an end is one of them.
SELECT coalesce(e.step_id, e.run_id)::text,
  format('event %%s of run %%s: %%s → %%s', e.seq, e.run_id, e.from_status, e.to_status)
FROM (SELECT *, CASE WHEN type LIKE 'OPERATION\_%%' THEN 'operation' WHEN node IS NULL THEN 'run' ELSE 'step' END
        AS subject FROM qd_event WHERE from_status IS NOT NULL AND to_status IS NOT NULL) e
WHERE NOT EXISTS (SELECT FROM qd_transition t
                  WHERE t.subject = e.subject AND t.source = e.from_status AND t.target = e.to_status)
   OR (e.subject = 'step' AND e.to_status = 'queued' AND e.from_status IN ('succeeded', 'failed', 'killed')) LIMIT %s;

-- name: invariant_4_ended_runs
SELECT r.id::text, format('%%s, but step %%s is %%s', r.status, s.node, s.status)
FROM qd_run r JOIN qd_step s ON s.run_id = r.id AND NOT s.superseded
WHERE r.status IN ('completed', 'partially_completed', 'failed', 'cancelled')
  AND s.kind NOT IN ('compensation', 'compensation_check')
  AND s.status IN ('waiting', 'queued', 'running', 'hold', 'unknown') LIMIT %s;

-- name: invariant_4_after_the_end
-- Steps that undo an effect are appended to a run that has ended; they do not change its status.
SELECT r.id::text, format('event %%s: %%s after the run had ended', e.seq, e.type)
FROM qd_run r JOIN LATERAL (SELECT min(seq) AS seq FROM qd_event x WHERE x.run_id = r.id AND x.node IS NULL
    AND x.to_status IN ('completed', 'partially_completed', 'failed', 'cancelled')) z ON true
  JOIN qd_event e ON e.run_id = r.id AND e.seq > z.seq AND e.to_status IS NOT NULL
    AND e.cause IS DISTINCT FROM 'operation' AND e.to_status <> 'mark_successed'
WHERE r.finished_at IS NOT NULL AND NOT EXISTS (
  SELECT FROM qd_step s WHERE s.id = e.step_id AND s.kind IN ('compensation', 'compensation_check')) LIMIT %s;

-- name: invariant_4_superseded
-- An older execution version has ended and its newer one is there; every node has one current row.
SELECT s.id::text, 'superseded while ' || s.status FROM qd_step s
WHERE s.superseded AND (s.status IN ('waiting', 'queued', 'running', 'hold', 'unknown') OR NOT EXISTS (
  SELECT FROM qd_step n WHERE n.run_id = s.run_id AND n.node = s.node AND n.execution_version = s.execution_version + 1))
UNION ALL
SELECT min(s.id::text), 'current rows: ' || count(*) FROM qd_step s WHERE NOT s.superseded
GROUP BY s.run_id, s.node HAVING count(*) > 1 LIMIT %s;

-- name: invariant_4_moved_after
SELECT e.step_id::text, format('event %%s moved it after it was superseded', e.seq)
FROM qd_event n JOIN qd_event e ON e.run_id = n.run_id AND e.step_id = (n.payload->>'supersedes')::uuid
  AND e.seq > n.seq AND e.to_status IS NOT NULL AND e.cause IS DISTINCT FROM 'operation'
WHERE n.type IN ('STEP_RERUN', 'STEP_RENEWED') LIMIT %s;

-- name: invariant_5_steps
-- A step stands where its last move put it; without one it waits as it was made.
SELECT s.id::text, format('%%s(%%s), its last event says %%s(%%s)', s.status, s.cause, e.to_status, e.cause)
FROM qd_step s LEFT JOIN LATERAL (
  SELECT e.to_status, e.cause, e.version FROM qd_event e
  WHERE e.run_id = s.run_id AND e.step_id = s.id AND e.cause IS DISTINCT FROM 'operation'
    AND (e.to_status IS NOT NULL OR e.type = 'TIMER_SET') ORDER BY e.seq DESC LIMIT 1) e ON true
WHERE s.status <> coalesce(e.to_status, 'waiting') OR s.cause IS DISTINCT FROM e.cause
   OR s.version < coalesce(e.version, 1) LIMIT %s;

-- name: invariant_5_runs
SELECT r.id::text, format('%%s, its last event says %%s', r.status, e.to_status) FROM qd_run r LEFT JOIN LATERAL (
  SELECT e.to_status FROM qd_event e WHERE e.run_id = r.id AND e.node IS NULL AND e.to_status IS NOT NULL
    AND e.cause IS DISTINCT FROM 'operation' ORDER BY e.seq DESC LIMIT 1) e ON true
WHERE r.status IS DISTINCT FROM e.to_status LIMIT %s;

-- name: invariant_5_operations
SELECT o.id::text, format('%%s, but its run has no such event', o.status) FROM qd_operation o
WHERE NOT EXISTS (SELECT FROM qd_event e WHERE e.run_id = o.run_id AND e.type = 'OPERATION_' || upper(o.status)
                  AND e.payload->>'operation_id' = o.id::text) LIMIT %s;

-- name: invariant_5_acts
-- What a person or service did to a run is in the audit: an entry at least for each transaction in which they acted, and
-- of its verb where the event tells that. What only made the run (accepted) is neither: many tasks are one entry.
WITH acts AS (
  SELECT DISTINCT run_id, actor, type, xact FROM qd_event
  WHERE actor IS NOT NULL AND actor <> 'engine' AND type <> 'RUN_CREATED'),
counted AS (
  SELECT run_id, actor, '' AS verb, min(type) AS type, count(DISTINCT xact) AS n FROM acts GROUP BY run_id, actor
  UNION ALL
  SELECT a.run_id, a.actor, v.verb, min(a.type), count(DISTINCT a.xact) FROM acts a JOIN (VALUES
      ('CANCEL_REQUESTED', 'run.cancel'), ('PAUSE_REQUESTED', 'run.pause'), ('RESUME_REQUESTED', 'run.resume'),
      ('HOLD_REQUESTED', 'step.hold'), ('HOLD_WITHDRAWN', 'step.release'), ('STEP_RELEASED', 'step.release'),
      ('STEP_UNSKIPPED', 'step.unskip'), ('STEP_FORCED', 'step.force')) v(type, verb) ON v.type = a.type
  GROUP BY a.run_id, a.actor, v.verb),
told AS (
  SELECT run_id, actor, coalesce(verb, '') AS verb, count(*) AS n FROM qd_audit_entry
  WHERE run_id IS NOT NULL AND result <> 'accepted'
  GROUP BY run_id, actor, GROUPING SETS ((), (verb)))
SELECT DISTINCT c.run_id::text, format('%%s acted %%s times (%%s), the audit has %%s such entries', c.actor, c.n, c.type,
                                       coalesce(t.n, 0))
FROM counted c LEFT JOIN told t ON t.run_id = c.run_id AND t.actor = c.actor AND t.verb = c.verb
WHERE c.n > coalesce(t.n, 0) LIMIT %s;

-- name: invariant_6_starts
-- A claim or a send after a cancel, during a pause, or after the deadline (a second for the clock between two reads).
SELECT coalesce(e.step_id, e.run_id)::text, format('event %%s: %%s after %%s', e.seq, e.type, CASE
  WHEN e.cancelled IS NOT NULL THEN 'the cancel' WHEN e.paused > coalesce(e.resumed, 0) THEN 'the pause'
  ELSE 'the deadline' END)
FROM (SELECT run_id, step_id, seq, type, occurred_at,
        max(seq) FILTER (WHERE type = 'CANCEL_REQUESTED') OVER w AS cancelled,
        max(seq) FILTER (WHERE type = 'PAUSE_REQUESTED') OVER w AS paused,
        max(seq) FILTER (WHERE type = 'RESUME_REQUESTED') OVER w AS resumed
      FROM qd_event WHERE type IN ('STEP_STARTED', 'OPERATION_SENT', 'CANCEL_REQUESTED', 'PAUSE_REQUESTED',
                                   'RESUME_REQUESTED')
      WINDOW w AS (PARTITION BY run_id ORDER BY seq)) e JOIN qd_run r ON r.id = e.run_id
WHERE e.type IN ('STEP_STARTED', 'OPERATION_SENT') AND (e.cancelled IS NOT NULL
   OR e.paused > coalesce(e.resumed, 0) OR e.occurred_at > r.deadline + interval '1 second')
  AND NOT EXISTS (SELECT FROM qd_step s WHERE s.id = e.step_id AND s.kind IN ('compensation', 'compensation_check'))
LIMIT %s;

-- name: invariant_6_parked
-- What may not start is not in the ready index either.
SELECT s.id::text, 'claimable in a run that is ' || r.status FROM qd_step s JOIN qd_run r ON r.id = s.run_id
WHERE s.status = 'queued' AND s.claimable
  AND (s.hold_requested OR s.superseded OR (s.kind NOT IN ('compensation', 'compensation_check')
       AND (r.paused OR r.cancel_requested OR r.finished_at IS NOT NULL))) LIMIT %s;

-- name: invariant_6_tokens
-- A limit counts the tokens that running steps hold, nothing else; in one statement, so in one snapshot.
SELECT l.id::text, format('%%s tokens of %%s %%s counted, %%s held', l.used, l.scope, l.name, n.held)
FROM qd_limit l, LATERAL (SELECT count(*) AS held FROM qd_step s WHERE s.status = 'running' AND l.id = ANY(s.tokens)) n
WHERE l.scope <> 'global' AND l.used <> n.held
UNION ALL
SELECT s.id::text, s.status || ' and holds tokens' FROM qd_step s WHERE s.tokens IS NOT NULL AND s.status <> 'running'
LIMIT %s;

-- name: invariant_6_budgets
-- A run and the runs below it begin no more effects than its budget has; what undoes them is no part of it. Of those below
-- it, the runs that were bounded by it from their start.
SELECT r.id::text, format('%%s effects begun, the budget has %%s', n.begun, r.budget->>'effects') FROM qd_run r, LATERAL (
  WITH RECURSIVE family(run_id) AS (
    SELECT r.id UNION ALL SELECT c.id FROM family f JOIN qd_run c ON c.parent_id = f.run_id WHERE c.bounds IS NOT NULL)
  SELECT count(*) AS begun FROM family f JOIN qd_operation o ON o.run_id = f.run_id JOIN qd_step s ON s.id = o.step_id
  WHERE o.sends > 0 AND s.kind NOT IN ('compensation', 'compensation_check')) n
WHERE r.budget ? 'effects' AND n.begun > (r.budget->>'effects')::bigint LIMIT %s;

-- name: invariant_6_gates
-- What is parked is queued and not ready; who writes a state alone is at it, or its outcome is open. Names that a kill
-- or a force left mean nothing once that is settled, and are cleared by whoever takes the state next.
SELECT s.id::text, 'parked and ' || CASE WHEN s.claimable THEN 'ready' ELSE s.status END FROM qd_step s
WHERE s.blocked_on IS NOT NULL AND (s.status <> 'queued' OR s.claimable)
UNION ALL
SELECT s.id::text, s.status || ' and holds a state' FROM qd_step s
WHERE s.serial IS NOT NULL AND s.status NOT IN ('running', 'unknown', 'killed', 'mark_successed')
UNION ALL
SELECT min(s.id::text), count(*) || ' steps hold one state' FROM qd_step s
WHERE s.serial IS NOT NULL AND (s.status IN ('running', 'unknown') OR (s.status IN ('killed', 'mark_successed')
  AND NOT s.superseded AND EXISTS (SELECT FROM qd_operation o WHERE o.run_id = s.run_id AND o.step_id = s.id
                                   AND o.status IN ('intended', 'sent', 'unknown', 'needs_human'))))
GROUP BY s.serial HAVING count(*) > 1 LIMIT %s;

-- name: invariant_6_grants
-- A grant is used by one operation: the very call that was approved, after its request was. A request that was closed since
-- keeps what was sent before, and had a call left that was not: with its last one it would be consumed.
SELECT o.id::text, format('sent under the grant %%s, which is %%s', a.id, CASE
  WHEN o.payload_sha256 <> a.arguments_sha256 OR o.business_key <> a.business_key THEN 'for another call'
  ELSE 'not given: ' || r.state END)
FROM qd_approval_action a JOIN qd_operation o ON o.id = a.operation_id JOIN qd_approval r ON r.id = a.request_id
WHERE o.payload_sha256 <> a.arguments_sha256 OR o.business_key <> a.business_key
   OR (r.state NOT IN ('approved', 'consumed') AND (r.state NOT IN ('lapsed', 'voided', 'revoked')
       OR a.consumed_at > r.closed_at
       OR NOT EXISTS (SELECT FROM qd_approval_action b WHERE b.request_id = r.id AND b.consumed_at IS NULL)))
   OR r.decided_at IS NULL OR a.consumed_at IS NULL OR a.consumed_at < r.decided_at LIMIT %s;

-- name: invariant_6_own_grants
-- What a program carries out itself is let through once, after the decision and in its time, and uses its request up.
-- Between the look at the time and the use lies a moment.
SELECT a.id::text, format('let through at %%s, while its request was %%s', a.consumed_at, CASE
  WHEN r.state <> 'consumed' THEN r.state
  WHEN a.consumed_at >= r.start_by THEN 'over since ' || r.start_by ELSE 'not decided' END)
FROM qd_approval_action a JOIN qd_approval r ON r.id = a.request_id
WHERE a.run_id IS NULL AND a.operation_id IS NOT NULL
  AND (r.state <> 'consumed' OR r.decided_at IS NULL OR a.consumed_at IS NULL OR a.consumed_at < r.decided_at
    OR a.consumed_at >= r.start_by + interval '1 minute') LIMIT %s;

-- name: invariant_6_decisions
-- What was granted was decided by as many people as had to, in time, on the payload that is asked about, and by nobody
-- who may not: not the requester, none of them twice.
SELECT r.id::text, r.state || ', without its decisions in time on this payload' FROM qd_approval r
WHERE r.state IN ('approved', 'consumed', 'lapsed', 'voided', 'revoked')
  AND (SELECT count(DISTINCT d.user_id) FROM qd_approval_decision d
       WHERE d.request_id = r.id AND d.decision = 'approve' AND d.payload_sha256 = r.payload_sha256
         AND d.version = r.version AND (r.deadline IS NULL OR d.at < r.deadline)
         AND (r.separation = 'none' OR r.requested_by NOT IN (d.actor, coalesce(d.for_actor, '')))) < r.quorum LIMIT %s;

-- name: invariant_7_operations
SELECT o.id::text, 'unknown, without a next query and without an owner' FROM qd_operation o
  JOIN qd_run r ON r.id = o.run_id
WHERE o.status IN ('unknown', 'needs_human', 'partially_applied', 'compensation_failed') AND o.next_query_at IS NULL
  AND r.attention IS NULL LIMIT %s;

-- name: invariant_7_runs
SELECT r.id::text, 'needs attention without owner, evidence or due date' FROM qd_run r
WHERE r.status = 'needs_attention' AND (r.attention IS NULL OR coalesce(r.attention->>'owner', '') = ''
   OR coalesce(r.attention->>'evidence', '') = '' OR coalesce(r.attention->>'due', '') = '') LIMIT %s;

-- name: invariant_7_waits
-- Every open step waits for something that comes: its inputs, a time, a decision, a claim, a token.
SELECT s.id::text, format('%%s(%%s), and nothing will move it', s.status, s.cause)
FROM qd_step s JOIN qd_run r ON r.id = s.run_id
WHERE NOT s.superseded AND r.finished_at IS NULL AND (
     (s.status = 'waiting' AND s.cause IS NULL AND s.deps_left = 0)
  OR (s.status = 'waiting' AND s.cause IS NOT NULL AND s.not_before IS NULL)
  OR (s.status = 'hold' AND s.cause IS NULL)
  OR (s.status = 'queued' AND NOT s.claimable AND s.blocked_on IS NULL
      AND NOT (s.hold_requested OR r.paused OR r.cancel_requested))) LIMIT %s;

-- name: invariant_7_held
-- Who runs a step is there; a worker that is lost has its steps taken from it within seconds.
SELECT s.id::text, 'running, and its worker session is over' FROM qd_step s
  LEFT JOIN qd_worker_session w ON w.id = s.worker_session_id
WHERE s.status = 'running' AND (w.id IS NULL OR coalesce(w.ended_at, w.lease_until) < qd_now() - interval '1 minute')
LIMIT %s;

-- name: invariant_12_completed
SELECT r.id::text, format('completed, but operation %%s is %%s', o.business_key, o.status)
FROM qd_run r JOIN qd_operation o ON o.run_id = r.id
  AND o.status IN ('intended', 'sent', 'unknown', 'needs_human', 'partially_applied', 'compensating', 'compensation_failed')
WHERE r.status = 'completed' AND NOT EXISTS (
  SELECT FROM qd_compensation c WHERE (c.operation_id = o.id OR c.step_id = o.step_id) AND c.requested_at >= r.finished_at)
  AND o.status <> 'compensation_failed' LIMIT %s;

-- name: invariant_12_outcomes
SELECT o.id::text, CASE WHEN v.revoked_at < o.decided_at THEN 'its verifier was revoked' ELSE 'it cites no evidence' END
FROM qd_outcome o JOIN qd_verifier v ON v.id = o.verifier_id
WHERE v.revoked_at < o.decided_at
   OR (o.verdict <> 'undecided' AND NOT EXISTS (SELECT FROM qd_citation c WHERE c.outcome_id = o.id)) LIMIT %s;

-- name: invariant_12_forced
-- A forced success carries its mark, says why, and decides no outcome.
SELECT s.id::text, 'forced without its mark or a reason' FROM qd_step s
WHERE s.status = 'mark_successed' AND (NOT s.forced OR NOT EXISTS (
  SELECT FROM qd_event e WHERE e.run_id = s.run_id AND e.step_id = s.id AND e.to_status = 'mark_successed'
    AND e.actor IS NOT NULL AND coalesce(e.reason, '') <> ''))
UNION ALL
SELECT e.step_id::text, 'forced, and an outcome was recorded from it' FROM qd_event e
WHERE e.type = 'OUTCOME_RECORDED' AND e.step_id IS NOT NULL AND EXISTS (
  SELECT FROM qd_event f WHERE f.run_id = e.run_id AND f.step_id = e.step_id AND f.to_status = 'mark_successed'
    AND f.seq < e.seq) LIMIT %s;
