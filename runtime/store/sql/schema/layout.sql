-- Layouts of graphs: readable by their tenant, written by the layout duty, which sees what is missing across tenants.
ALTER TABLE qd_layout ENABLE ROW LEVEL SECURITY;
ALTER TABLE qd_layout FORCE ROW LEVEL SECURITY;
CREATE POLICY qd_own_tenant ON qd_layout USING (tenant_id = (SELECT qd_tenant())) WITH CHECK (tenant_id = (SELECT qd_tenant()));
GRANT SELECT ON qd_layout TO qd_web;
GRANT SELECT, INSERT, UPDATE ON qd_layout TO qd_worker;
GRANT SELECT ON qd_layout, qd_workflow_version TO qd_definer;
CREATE POLICY qd_definer_reads ON qd_layout FOR SELECT TO qd_definer USING (true);
CREATE POLICY qd_definer_reads ON qd_workflow_version FOR SELECT TO qd_definer USING (true);

-- Workflow versions without a layout of this format, newest first.
CREATE FUNCTION qd_versions_to_draw(wanted int, most int) RETURNS TABLE (tenant_id uuid, id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT v.tenant_id, v.id FROM qd_workflow_version v
  WHERE NOT EXISTS (SELECT FROM qd_layout l WHERE l.workflow_version_id = v.id AND l.format = wanted)
  ORDER BY v.id DESC LIMIT most
$$;

DO $$ BEGIN
  GRANT CREATE ON SCHEMA public TO qd_definer;
  REVOKE ALL ON FUNCTION qd_versions_to_draw(int, int) FROM PUBLIC;
  EXECUTE 'GRANT EXECUTE ON FUNCTION qd_versions_to_draw(int, int) TO qd_worker, ' || quote_ident(current_user);
  ALTER FUNCTION qd_versions_to_draw(int, int) OWNER TO qd_definer;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
