-- Hooks for approval events and review limits: walls and grants; what the database tells of a request with its change.
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['qd_approval_hook', 'qd_review_limit'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY qd_own_tenant ON %I USING (tenant_id = (SELECT qd_tenant())) WITH CHECK (tenant_id = (SELECT qd_tenant()))', t);
    EXECUTE format('GRANT SELECT ON %I TO qd_web, qd_worker', t);
    EXECUTE format('GRANT INSERT, UPDATE ON %I TO qd_web', t);
  END LOOP;
END $$;
CREATE TRIGGER qd_no_delete BEFORE DELETE ON qd_approval_hook FOR EACH ROW EXECUTE FUNCTION qd_append_only();

-- One message for every hook that wants this event, with the request as it is at this moment; a hook's failure holds up
-- no other, since each has a row of its own.
CREATE FUNCTION qd_tell_approval(a qd_approval, what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO qd_outbox (id, tenant_id, event_id, topic, payload, created_at, attempts)
  SELECT gen_random_uuid(), a.tenant_id, gen_random_uuid(), 'approval.event', jsonb_build_object(
      'hook_id', h.id, 'event_id', gen_random_uuid(), 'request_id', a.id, 'event', what, 'at', qd_now(), 'then',
      jsonb_build_object('state', a.state, 'revision', a.revision, 'role', a.role, 'level', a.level,
        'assignee', a.assignee, 'deadline', a.deadline, 'decided_by', a.decided_by, 'decided_at', a.decided_at,
        'start_by', a.start_by, 'outcome_reason', a.outcome_reason)),
    qd_now(), 0
  FROM qd_approval_hook h
  WHERE h.tenant_id = a.tenant_id AND h.removed_at IS NULL AND (h.events IS NULL OR h.events ? what);
END $$;

-- Every way that a request begins or ends passes here, in the transaction of the change: none can forget to tell.
CREATE FUNCTION qd_approval_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM qd_tell_approval(NEW, 'asked');
  ELSIF NEW.state <> OLD.state THEN
    PERFORM qd_tell_approval(NEW, NEW.state);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER qd_approval_moved AFTER INSERT OR UPDATE OF state ON qd_approval FOR EACH ROW
  EXECUTE FUNCTION qd_approval_moved();

-- A proposed version may be taken back; nothing else of the guard is new.
CREATE OR REPLACE FUNCTION qd_guard_policy() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state <> 'proposed' THEN
      PERFORM qd_refuse('policy', NEW.id, 'no policy begins as ' || NEW.state);
    END IF;
    RETURN NEW;
  END IF;
  IF (NEW.id, NEW.tenant_id, NEW.version, NEW.rules, NEW.sha256, NEW.note, NEW.created_by, NEW.created_at)
     IS DISTINCT FROM (OLD.id, OLD.tenant_id, OLD.version, OLD.rules, OLD.sha256, OLD.note, OLD.created_by, OLD.created_at)
     OR (OLD.request_id IS NOT NULL AND NEW.request_id IS DISTINCT FROM OLD.request_id) THEN
    PERFORM qd_refuse('policy', OLD.id, 'what a version says is never changed');
  END IF;
  IF NEW.state <> OLD.state AND OLD.state || '>' || NEW.state NOT IN (
       'proposed>active', 'proposed>rejected', 'proposed>withdrawn', 'active>retired') THEN
    PERFORM qd_refuse('policy', OLD.id, OLD.state || ' → ' || NEW.state || ' is no move of the law');
  END IF;
  IF NEW.state = 'active' AND OLD.state = 'proposed' AND NOT EXISTS (
       SELECT FROM qd_approval a WHERE a.id = OLD.request_id AND a.tenant_id = OLD.tenant_id
         AND a.subject_kind = 'policy' AND a.subject_id = OLD.id::text AND a.state = 'approved') THEN
    PERFORM qd_refuse('policy', OLD.id, 'no policy is active that nobody approved');
  END IF;
  IF NEW.state = 'active' AND OLD.state = 'proposed' AND EXISTS (
       SELECT FROM qd_approval_policy p WHERE p.tenant_id = OLD.tenant_id AND p.version > OLD.version
         AND p.state IN ('active', 'retired')) THEN
    PERFORM qd_refuse('policy', OLD.id, 'a newer version was active already');
  END IF;
  RETURN NEW;
END $$;
