-- Repair cases: walls, grants, and the guard that restates the law of cases, whoever asks.
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['qd_case', 'qd_case_fact', 'qd_case_entry', 'qd_case_proposal'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY qd_own_tenant ON %I USING (tenant_id = (SELECT qd_tenant())) WITH CHECK (tenant_id = (SELECT qd_tenant()))', t);
    EXECUTE format('GRANT SELECT, INSERT ON %I TO qd_web, qd_worker', t);
  END LOOP;
  FOREACH t IN ARRAY ARRAY['qd_case_fact', 'qd_case_entry'] LOOP
    EXECUTE format('CREATE TRIGGER qd_immutable BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION qd_append_only()', t);
  END LOOP;
  FOREACH t IN ARRAY ARRAY['qd_case', 'qd_case_proposal'] LOOP
    EXECUTE format('GRANT UPDATE ON %I TO qd_web, qd_worker', t);
    EXECUTE format('CREATE TRIGGER qd_no_delete BEFORE DELETE ON %I FOR EACH ROW EXECUTE FUNCTION qd_append_only()', t);
  END LOOP;
END $$;
GRANT SELECT ON qd_case TO qd_definer;
CREATE POLICY qd_definer_reads ON qd_case FOR SELECT TO qd_definer USING (true);

CREATE FUNCTION qd_guard_case() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state <> 'open' OR NEW.version <> 1 THEN
      PERFORM qd_refuse('case', NEW.id, 'no case begins as ' || NEW.state);
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.id <> OLD.id OR NEW.tenant_id <> OLD.tenant_id OR NEW.kind <> OLD.kind OR NEW.subject_kind <> OLD.subject_kind
     OR NEW.subject_id <> OLD.subject_id OR NEW.run_id IS DISTINCT FROM OLD.run_id
     OR NEW.operation_id IS DISTINCT FROM OLD.operation_id OR NEW.opened_at <> OLD.opened_at
     OR NEW.opened_by <> OLD.opened_by THEN
    PERFORM qd_refuse('case', OLD.id, 'what it is about is never changed');
  END IF;
  IF OLD.state = 'resolved' THEN
    PERFORM qd_refuse('case', OLD.id, 'a resolved case is never changed; a new fact opens a new one');
  END IF;
  IF NEW.version <> OLD.version + 1 THEN
    PERFORM qd_refuse('case', OLD.id, 'a change counts the version up by one');
  END IF;
  IF NEW.owner_epoch < OLD.owner_epoch THEN
    PERFORM qd_refuse('case', OLD.id, 'owner_epoch only grows');
  END IF;
  IF NEW.state <> OLD.state THEN
    IF OLD.state || '>' || NEW.state NOT IN ({case_pairs}) THEN
      PERFORM qd_refuse('case', OLD.id, OLD.state || ' → ' || NEW.state || ' is no move of the law');
    END IF;
    IF NEW.state = 'resolved' THEN
      NEW.resolved_at := qd_now();
      IF (OLD.state = 'open') <> (NEW.resolution = 'settled') THEN
        PERFORM qd_refuse('case', OLD.id, 'only what nobody has taken settles by itself');
      END IF;
      IF OLD.state <> 'open' AND NOT EXISTS (
          SELECT FROM qd_case_proposal p WHERE p.id = NEW.proposal_id AND p.case_id = NEW.id
            AND p.resolution = NEW.resolution
            AND (NOT p.needs_review OR (p.decision = 'approve' AND p.reviewed_user_id <> p.proposed_user_id))) THEN
        PERFORM qd_refuse('case', OLD.id, 'what is carried out was proposed, and reviewed by another person where that is asked for');
      END IF;
    END IF;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER qd_guard_case BEFORE INSERT OR UPDATE ON qd_case FOR EACH ROW EXECUTE FUNCTION qd_guard_case();

CREATE FUNCTION qd_guard_case_proposal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.id <> OLD.id OR NEW.tenant_id <> OLD.tenant_id OR NEW.case_id <> OLD.case_id OR NEW.resolution <> OLD.resolution
     OR NEW.arguments <> OLD.arguments OR NEW.arguments_sha256 <> OLD.arguments_sha256 OR NEW.reason <> OLD.reason
     OR NEW.answer <> OLD.answer OR NEW.proposed_user_id <> OLD.proposed_user_id
     OR NEW.needs_review <> OLD.needs_review THEN
    PERFORM qd_refuse('case proposal', OLD.id, 'what was proposed is never changed');
  END IF;
  IF OLD.decision IS NOT NULL THEN
    PERFORM qd_refuse('case proposal', OLD.id, 'a review is made once');
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER qd_guard_case_proposal BEFORE UPDATE ON qd_case_proposal FOR EACH ROW
  EXECUTE FUNCTION qd_guard_case_proposal();

-- Open cases whose due date has passed since they were last escalated, the longest overdue first.
CREATE FUNCTION qd_overdue_cases(most int) RETURNS TABLE (tenant_id uuid, id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT c.tenant_id, c.id FROM qd_case c
  WHERE c.state <> 'resolved' AND c.due_at <= qd_now() AND c.escalations < 3
    AND c.due_at + c.escalations * interval '30 minutes' <= qd_now() ORDER BY c.due_at LIMIT most
$$;
-- Cases nobody has taken whose effect was settled meanwhile, in a run that still wanted it.
CREATE FUNCTION qd_settled_cases(most int) RETURNS TABLE (tenant_id uuid, id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT c.tenant_id, c.id FROM qd_case c JOIN qd_operation o ON o.id = c.operation_id JOIN qd_run r ON r.id = c.run_id
  WHERE c.state = 'open' AND c.kind = 'operation_unknown'
    AND (o.status IN ('absent', 'refused', 'void', 'compensated')
         OR (o.status = 'succeeded' AND NOT r.cancel_requested AND r.status NOT IN ('failed', 'cancelled')))
  ORDER BY c.id LIMIT most
$$;
DO $$ DECLARE f text; BEGIN
  GRANT CREATE ON SCHEMA public TO qd_definer;
  FOREACH f IN ARRAY ARRAY['qd_overdue_cases(int)', 'qd_settled_cases(int)'] LOOP
    EXECUTE 'REVOKE ALL ON FUNCTION ' || f || ' FROM PUBLIC';
    EXECUTE 'GRANT EXECUTE ON FUNCTION ' || f || ' TO qd_web, qd_worker, ' || quote_ident(current_user);
    EXECUTE 'ALTER FUNCTION ' || f || ' OWNER TO qd_definer';
  END LOOP;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
