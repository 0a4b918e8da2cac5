-- Saved views of the console: each tenant's own, and of the web process alone; a worker never reads them.
ALTER TABLE qd_saved_view ENABLE ROW LEVEL SECURITY;
ALTER TABLE qd_saved_view FORCE ROW LEVEL SECURITY;
CREATE POLICY qd_own_tenant ON qd_saved_view USING (tenant_id = (SELECT qd_tenant()))
  WITH CHECK (tenant_id = (SELECT qd_tenant()));
GRANT SELECT, INSERT, UPDATE, DELETE ON qd_saved_view TO qd_web;
