-- Approvals: walls, grants, and the guard that lets no decision after the deadline pass, whoever asks.
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['qd_approval', 'qd_approval_action', 'qd_approval_decision'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY qd_own_tenant ON %I USING (tenant_id = (SELECT qd_tenant())) WITH CHECK (tenant_id = (SELECT qd_tenant()))', t);
    EXECUTE format('GRANT SELECT, INSERT ON %I TO qd_web, qd_worker', t);
  END LOOP;
END $$;
GRANT UPDATE ON qd_approval, qd_approval_action TO qd_web, qd_worker;
GRANT SELECT ON qd_approval TO qd_definer;
CREATE POLICY qd_definer_reads ON qd_approval FOR SELECT TO qd_definer USING (true);

CREATE FUNCTION qd_guard_approval() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state <> 'pending' THEN
      PERFORM qd_refuse('approval', NEW.id, 'no request begins as ' || NEW.state);
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.id <> OLD.id OR NEW.tenant_id <> OLD.tenant_id OR NEW.kind <> OLD.kind OR NEW.run_id <> OLD.run_id
     OR NEW.step_id <> OLD.step_id OR NEW.execution_version <> OLD.execution_version OR NEW.shown <> OLD.shown
     OR NEW.payload_sha256 <> OLD.payload_sha256 OR NEW.action_sha256 <> OLD.action_sha256
     OR NEW.version <> OLD.version OR NEW.target IS DISTINCT FROM OLD.target
     OR NEW.target_version IS DISTINCT FROM OLD.target_version OR NEW.problem IS DISTINCT FROM OLD.problem THEN
    PERFORM qd_refuse('approval', OLD.id, 'what was asked is never changed');
  END IF;
  IF NEW.revision <> OLD.revision + 1 THEN
    PERFORM qd_refuse('approval', OLD.id, 'a change counts the revision up by one');
  END IF;
  IF OLD.state <> 'pending' AND NEW.deadline IS DISTINCT FROM OLD.deadline THEN
    PERFORM qd_refuse('approval', OLD.id, 'the deadline of a closed request is never changed');
  END IF;
  IF NEW.state <> OLD.state THEN
    IF OLD.state || '>' || NEW.state NOT IN ({approval_pairs}) THEN
      PERFORM qd_refuse('approval', OLD.id, OLD.state || ' → ' || NEW.state || ' is no move of the law');
    END IF;
    IF NEW.state = 'approved' AND NEW.problem IS NOT NULL THEN
      PERFORM qd_refuse('approval', OLD.id, 'what cannot be shown is never approved');
    END IF;
    IF NEW.decided_by IS NOT NULL AND OLD.state = 'pending' THEN
      -- The moment of the decision is this one: what the program says it is does not count (engine.md 6).
      NEW.decided_at := qd_now();
      IF NEW.deadline <= NEW.decided_at THEN
        PERFORM qd_refuse('approval', OLD.id, 'a decision after the deadline');
      END IF;
    END IF;
    IF NEW.outcome_reason = 'timeout' AND (NEW.deadline IS NULL OR qd_now() < NEW.deadline) THEN
      PERFORM qd_refuse('approval', OLD.id, 'a timeout before the deadline');
    END IF;
  ELSIF NEW.decided_at IS DISTINCT FROM OLD.decided_at OR NEW.decided_by IS DISTINCT FROM OLD.decided_by THEN
    PERFORM qd_refuse('approval', OLD.id, 'a decision is made once');
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER qd_guard_approval BEFORE INSERT OR UPDATE ON qd_approval FOR EACH ROW EXECUTE FUNCTION qd_guard_approval();
CREATE TRIGGER qd_immutable BEFORE UPDATE OR DELETE ON qd_approval_decision FOR EACH ROW EXECUTE FUNCTION qd_append_only();
CREATE TRIGGER qd_no_delete BEFORE DELETE ON qd_approval FOR EACH ROW EXECUTE FUNCTION qd_append_only();

CREATE FUNCTION qd_guard_approval_action() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.request_id <> OLD.request_id OR NEW.tenant_id <> OLD.tenant_id OR NEW.run_id <> OLD.run_id
     OR NEW.node <> OLD.node OR NEW.tool <> OLD.tool OR NEW.contract_sha256 <> OLD.contract_sha256
     OR NEW.business_key <> OLD.business_key OR NEW.arguments_sha256 <> OLD.arguments_sha256 THEN
    PERFORM qd_refuse('approval action', OLD.id, 'what was asked is never changed');
  END IF;
  IF OLD.operation_id IS NOT NULL AND NEW.operation_id IS DISTINCT FROM OLD.operation_id THEN
    PERFORM qd_refuse('approval action', OLD.id, 'a grant is used by one operation');
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER qd_guard_approval_action BEFORE UPDATE ON qd_approval_action FOR EACH ROW
  EXECUTE FUNCTION qd_guard_approval_action();

-- Pending requests whose deadline has passed and whose policy is to reject, oldest first.
CREATE FUNCTION qd_due_approvals(most int) RETURNS TABLE (tenant_id uuid, id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT a.tenant_id, a.id FROM qd_approval a
  WHERE a.state = 'pending' AND a.on_timeout = 'reject' AND a.deadline <= qd_now() ORDER BY a.deadline LIMIT most
$$;
-- Approved requests that nothing can use any more: their run has ended or is being cancelled, or their time is over.
CREATE FUNCTION qd_idle_approvals(most int) RETURNS TABLE (tenant_id uuid, id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT a.tenant_id, a.id FROM qd_approval a JOIN qd_run r ON r.id = a.run_id
  WHERE a.state = 'approved' AND a.n_actions > 0
    AND (r.finished_at IS NOT NULL OR r.cancel_requested OR a.start_by <= qd_now())
  ORDER BY a.id LIMIT most
$$;

DO $$ DECLARE f text; BEGIN
  GRANT CREATE ON SCHEMA public TO qd_definer;
  FOREACH f IN ARRAY ARRAY['qd_due_approvals(int)', 'qd_idle_approvals(int)'] LOOP
    EXECUTE 'REVOKE ALL ON FUNCTION ' || f || ' FROM PUBLIC';
    EXECUTE 'GRANT EXECUTE ON FUNCTION ' || f || ' TO qd_web, qd_worker, ' || quote_ident(current_user);
    EXECUTE 'ALTER FUNCTION ' || f || ' OWNER TO qd_definer';
  END LOOP;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
