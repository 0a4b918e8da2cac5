-- Policies of approvals: walls, grants, and the guard that keeps what a version says.
ALTER TABLE qd_approval_policy ENABLE ROW LEVEL SECURITY;
ALTER TABLE qd_approval_policy FORCE ROW LEVEL SECURITY;
CREATE POLICY qd_own_tenant ON qd_approval_policy
  USING (tenant_id = (SELECT qd_tenant())) WITH CHECK (tenant_id = (SELECT qd_tenant()));
GRANT SELECT ON qd_approval_policy TO qd_web, qd_worker;
-- A worker only lets time end what was proposed; it proposes and activates nothing.
GRANT INSERT, UPDATE ON qd_approval_policy TO qd_web;
GRANT UPDATE (state, ended_at) ON qd_approval_policy TO qd_worker;

CREATE FUNCTION qd_guard_policy() RETURNS trigger LANGUAGE plpgsql AS $$
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
  IF NEW.state <> OLD.state
     AND OLD.state || '>' || NEW.state NOT IN ('proposed>active', 'proposed>rejected', 'active>retired') THEN
    PERFORM qd_refuse('policy', OLD.id, OLD.state || ' → ' || NEW.state || ' is no move of the law');
  END IF;
  IF NEW.state = 'active' AND OLD.state = 'proposed' AND NOT EXISTS (
       SELECT FROM qd_approval a WHERE a.id = OLD.request_id AND a.tenant_id = OLD.tenant_id
         AND a.subject_kind = 'policy' AND a.subject_id = OLD.id::text AND a.state = 'approved') THEN
    PERFORM qd_refuse('policy', OLD.id, 'no policy is active that nobody approved');
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER qd_guard_policy BEFORE INSERT OR UPDATE ON qd_approval_policy FOR EACH ROW EXECUTE FUNCTION qd_guard_policy();
CREATE TRIGGER qd_no_delete BEFORE DELETE ON qd_approval_policy FOR EACH ROW EXECUTE FUNCTION qd_append_only();
