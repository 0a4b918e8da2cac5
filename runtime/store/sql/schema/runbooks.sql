-- Runbooks of repair cases: walls and grants; a version is written once and never changed.
ALTER TABLE qd_runbook ENABLE ROW LEVEL SECURITY;
ALTER TABLE qd_runbook FORCE ROW LEVEL SECURITY;
CREATE POLICY qd_own_tenant ON qd_runbook
  USING (tenant_id = (SELECT qd_tenant())) WITH CHECK (tenant_id = (SELECT qd_tenant()));
GRANT SELECT, INSERT ON qd_runbook TO qd_web, qd_worker;
CREATE TRIGGER qd_immutable BEFORE UPDATE OR DELETE ON qd_runbook FOR EACH ROW EXECUTE FUNCTION qd_append_only();
