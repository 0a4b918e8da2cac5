-- Approvals by several people: quorum, separation of duties, delegations, notes; reminders and escalation in time.
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['qd_approval_note', 'qd_approval_delegation'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY qd_own_tenant ON %I USING (tenant_id = (SELECT qd_tenant())) WITH CHECK (tenant_id = (SELECT qd_tenant()))', t);
    EXECUTE format('GRANT SELECT, INSERT ON %I TO qd_web, qd_worker', t);
  END LOOP;
END $$;
GRANT UPDATE ON qd_approval_delegation TO qd_web;
CREATE TRIGGER qd_immutable BEFORE UPDATE OR DELETE ON qd_approval_note FOR EACH ROW EXECUTE FUNCTION qd_append_only();
CREATE TRIGGER qd_no_delete BEFORE DELETE ON qd_approval_delegation FOR EACH ROW EXECUTE FUNCTION qd_append_only();

CREATE OR REPLACE FUNCTION qd_guard_approval() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state <> 'pending' THEN
      PERFORM qd_refuse('approval', NEW.id, 'no request begins as ' || NEW.state);
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.id <> OLD.id OR NEW.tenant_id <> OLD.tenant_id OR NEW.kind <> OLD.kind
     OR (NEW.run_id, NEW.step_id, NEW.execution_version, NEW.subject_kind, NEW.subject_id)
        IS DISTINCT FROM (OLD.run_id, OLD.step_id, OLD.execution_version, OLD.subject_kind, OLD.subject_id)
     OR NEW.shown <> OLD.shown OR NEW.payload_sha256 <> OLD.payload_sha256 OR NEW.action_sha256 <> OLD.action_sha256
     OR NEW.version <> OLD.version OR NEW.target IS DISTINCT FROM OLD.target OR NEW.requested_by <> OLD.requested_by
     OR NEW.target_version IS DISTINCT FROM OLD.target_version OR NEW.problem IS DISTINCT FROM OLD.problem
     OR NEW.supersedes_id IS DISTINCT FROM OLD.supersedes_id OR NEW.editor_id IS DISTINCT FROM OLD.editor_id THEN
    PERFORM qd_refuse('approval', OLD.id, 'what was asked is never changed');
  END IF;
  IF NEW.revision <> OLD.revision + 1 THEN
    PERFORM qd_refuse('approval', OLD.id, 'a change counts the revision up by one');
  END IF;
  IF NEW.quorum < OLD.quorum OR NEW.separation <> OLD.separation THEN
    PERFORM qd_refuse('approval', OLD.id, 'how many people have to agree is never lowered');
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
    IF NEW.state = 'approved' AND (
         SELECT count(*) FROM qd_approval_decision d WHERE d.request_id = OLD.id AND d.decision = 'approve'
           AND d.version = OLD.version AND d.payload_sha256 = OLD.payload_sha256) < NEW.quorum THEN
      PERFORM qd_refuse('approval', OLD.id, 'fewer people have approved than have to');
    END IF;
    IF NEW.outcome_reason = 'timeout' AND (NEW.deadline IS NULL OR qd_now() < NEW.deadline) THEN
      PERFORM qd_refuse('approval', OLD.id, 'a timeout before the deadline');
    END IF;
  ELSIF NEW.decided_at IS DISTINCT FROM OLD.decided_at OR NEW.decided_by IS DISTINCT FROM OLD.decided_by THEN
    PERFORM qd_refuse('approval', OLD.id, 'a decision is made once');
  END IF;
  RETURN NEW;
END $$;

-- A person's word: in time, on what the request shows, once a person, and not by whoever may not approve it.
CREATE FUNCTION qd_guard_decision() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE r qd_approval;
BEGIN
  SELECT * INTO STRICT r FROM qd_approval WHERE id = NEW.request_id;
  NEW.at := qd_now();
  IF r.state <> 'pending' THEN
    PERFORM qd_refuse('approval', r.id, 'a decision on what is ' || r.state);
  END IF;
  IF r.deadline <= NEW.at THEN
    PERFORM qd_refuse('approval', r.id, 'a decision after the deadline');
  END IF;
  IF NEW.version <> r.version OR NEW.payload_sha256 <> r.payload_sha256 THEN
    PERFORM qd_refuse('approval', r.id, 'a decision on what was not shown');
  END IF;
  IF r.separation <> 'none' AND r.requested_by IN (NEW.actor, NEW.for_actor) THEN
    PERFORM qd_refuse('approval', r.id, 'nobody decides what they asked for themselves');
  END IF;
  IF NEW.decision = 'approve' AND r.separation = 'two_people' AND r.editor_id IN (NEW.user_id, NEW.for_user_id) THEN
    PERFORM qd_refuse('approval', r.id, 'nobody approves alone what they edited');
  END IF;
  IF EXISTS (SELECT FROM qd_approval_decision d WHERE d.request_id = r.id
             AND (d.user_id IN (NEW.user_id, NEW.for_user_id) OR d.for_user_id IN (NEW.user_id, NEW.for_user_id))) THEN
    PERFORM qd_refuse('approval', r.id, 'one person has one voice');
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER qd_guard_decision BEFORE INSERT ON qd_approval_decision FOR EACH ROW EXECUTE FUNCTION qd_guard_decision();

CREATE OR REPLACE FUNCTION qd_guard_approval_action() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.request_id <> OLD.request_id OR NEW.tenant_id <> OLD.tenant_id OR NEW.run_id <> OLD.run_id
     OR NEW.node <> OLD.node OR NEW.tool <> OLD.tool OR NEW.contract_sha256 <> OLD.contract_sha256
     OR NEW.business_key <> OLD.business_key OR NEW.arguments_sha256 <> OLD.arguments_sha256
     OR NEW.arguments IS DISTINCT FROM OLD.arguments OR NEW.prepared_sha256 IS DISTINCT FROM OLD.prepared_sha256 THEN
    PERFORM qd_refuse('approval action', OLD.id, 'what was asked is never changed');
  END IF;
  IF OLD.operation_id IS NOT NULL AND NEW.operation_id IS DISTINCT FROM OLD.operation_id THEN
    PERFORM qd_refuse('approval action', OLD.id, 'a grant is used by one operation');
  END IF;
  RETURN NEW;
END $$;

-- Pending requests whose deadline has passed and whose policy does something about it, oldest first.
CREATE FUNCTION qd_ended_approvals(most int) RETURNS TABLE (tenant_id uuid, id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT a.tenant_id, a.id FROM qd_approval a
  WHERE a.state = 'pending' AND a.on_timeout <> 'keep' AND a.deadline <= qd_now() ORDER BY a.deadline LIMIT most
$$;
CREATE FUNCTION qd_approval_reminders(most int) RETURNS TABLE (tenant_id uuid, id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT a.tenant_id, a.id FROM qd_approval a
  WHERE a.state = 'pending' AND a.remind_at <= qd_now() ORDER BY a.remind_at LIMIT most
$$;

DO $$ DECLARE f text; BEGIN
  GRANT CREATE ON SCHEMA public TO qd_definer;
  FOREACH f IN ARRAY ARRAY['qd_ended_approvals(int)', 'qd_approval_reminders(int)'] LOOP
    EXECUTE 'REVOKE ALL ON FUNCTION ' || f || ' FROM PUBLIC';
    EXECUTE 'GRANT EXECUTE ON FUNCTION ' || f || ' TO qd_web, qd_worker, ' || quote_ident(current_user);
    EXECUTE 'ALTER FUNCTION ' || f || ' OWNER TO qd_definer';
  END LOOP;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
