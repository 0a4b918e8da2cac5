-- name: insert_compensation
INSERT INTO qd_compensation (id, tenant_id, operation_id, run_id, step_id, check_step_id, tool, business_key, deadline,
  reason, requested_by, requested_at)
VALUES (%(id)s, %(tenant)s, %(operation)s, %(run)s, %(step)s, %(check)s, %(tool)s, %(key)s, %(deadline)s, %(reason)s,
  %(by)s, %(at)s);

-- name: effects_of_run
-- What a run has applied outside and not undone, last first: node, execution version, the contract's compensation, row.
-- What was done to undo something is no effect of its own; what was ordered to be undone once is a person's afterwards.
SELECT s.node, s.execution_version, convert_from(t.contract, 'UTF8')::jsonb->>'compensation', {o.operation}, o.response
FROM qd_operation o JOIN qd_step s ON s.id = o.step_id JOIN qd_tool_version t ON t.id = o.tool_version_id
WHERE o.run_id = %s AND o.status IN ('succeeded', 'partially_applied') AND s.kind <> 'compensation'
  AND NOT EXISTS (SELECT FROM qd_event e WHERE e.run_id = o.run_id AND e.type = 'OPERATION_COMPENSATING'
                    AND e.payload->>'operation_id' = o.id::text)
ORDER BY o.sent_at DESC, o.id DESC FOR UPDATE OF o;

-- name: effect_by_id
SELECT s.node, s.execution_version, convert_from(t.contract, 'UTF8')::jsonb->>'compensation', s.kind, {o.operation}, o.response
FROM qd_operation o JOIN qd_step s ON s.id = o.step_id JOIN qd_tool_version t ON t.id = o.tool_version_id
WHERE o.id = %s FOR UPDATE OF o;

-- name: open_operations_of_run
SELECT status FROM qd_operation WHERE run_id = %s
  AND status IN ('intended', 'sent', 'unknown', 'needs_human', 'compensating', 'compensation_failed', 'partially_applied');

-- name: operation_run
SELECT run_id FROM qd_operation WHERE id = %s;

-- name: undone_by_steps
-- The orders that these steps carry out, with the operations that they undo, locked in key order.
SELECT c.step_id, c.check_step_id, {o.operation}, o.response
FROM qd_compensation c JOIN qd_operation o ON o.id = c.operation_id
WHERE c.step_id = ANY(%(steps)s) OR c.check_step_id = ANY(%(steps)s) ORDER BY o.business_key FOR UPDATE OF o;

-- name: orders_before
-- The keys under which an operation was to be undone before, oldest first, and what became of those calls.
SELECT c.business_key, o.status FROM qd_compensation c
  LEFT JOIN qd_operation o ON o.tenant_id = c.tenant_id AND o.business_key = c.business_key
WHERE c.operation_id = %s ORDER BY c.requested_at, c.id;

-- name: undo_facts
-- What a worker needs to undo an operation, or to check that it is undone.
SELECT u.id, c.tool, c.business_key, c.deadline, o.id, o.business_key, o.payload, o.response, o.external_ref
FROM unnest(%s::uuid[]) u(id) JOIN qd_compensation c ON c.step_id = u.id OR c.check_step_id = u.id
JOIN qd_operation o ON o.id = c.operation_id;
