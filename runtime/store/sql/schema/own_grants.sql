-- Grants of actions that services carry out themselves, unused when their permission to start ran out; oldest first.
CREATE FUNCTION qd_lapsed_grants(most int) RETURNS TABLE (tenant_id uuid, id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT a.tenant_id, a.id FROM qd_approval a
  WHERE a.state = 'approved' AND a.n_actions > 0 AND a.run_id IS NULL AND a.start_by <= qd_now() ORDER BY a.id LIMIT most
$$;
DO $$ BEGIN
  REVOKE ALL ON FUNCTION qd_lapsed_grants(int) FROM PUBLIC;
  EXECUTE 'GRANT EXECUTE ON FUNCTION qd_lapsed_grants(int) TO qd_worker, ' || quote_ident(current_user);
  GRANT CREATE ON SCHEMA public TO qd_definer;
  ALTER FUNCTION qd_lapsed_grants(int) OWNER TO qd_definer;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
-- What only duties ask about every tenant's requests is the worker's alone.
REVOKE EXECUTE ON FUNCTION qd_due_approvals(int), qd_ended_approvals(int), qd_idle_approvals(int),
  qd_approval_reminders(int) FROM qd_web;

-- A grant without a run stays without one. What was said of its use stays as it was said.
CREATE OR REPLACE FUNCTION qd_guard_approval_action() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.id, NEW.request_id, NEW.tenant_id, NEW.run_id, NEW.node, NEW.tool, NEW.contract_sha256, NEW.business_key,
      NEW.arguments_sha256, NEW.arguments, NEW.prepared_sha256)
     IS DISTINCT FROM (OLD.id, OLD.request_id, OLD.tenant_id, OLD.run_id, OLD.node, OLD.tool, OLD.contract_sha256,
      OLD.business_key, OLD.arguments_sha256, OLD.arguments, OLD.prepared_sha256) THEN
    PERFORM qd_refuse('approval action', OLD.id, 'what was asked is never changed');
  END IF;
  IF (OLD.operation_id IS NOT NULL OR OLD.consumed_at IS NOT NULL)
     AND (NEW.operation_id, NEW.consumed_at) IS DISTINCT FROM (OLD.operation_id, OLD.consumed_at) THEN
    PERFORM qd_refuse('approval action', OLD.id, 'a grant is used by one operation');
  END IF;
  RETURN NEW;
END $$;
