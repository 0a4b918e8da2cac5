-- Groups of members that decide, and who is whose manager: walls, grants, and rows that end and are never deleted.
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['qd_approval_group', 'qd_approval_group_member', 'qd_approval_manager'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY qd_own_tenant ON %I USING (tenant_id = (SELECT qd_tenant())) WITH CHECK (tenant_id = (SELECT qd_tenant()))', t);
    -- A worker asks who is in a group when time escalates and a call is sent; it changes nothing of it.
    EXECUTE format('GRANT SELECT ON %I TO qd_web, qd_worker', t);
    EXECUTE format('GRANT INSERT, UPDATE ON %I TO qd_web', t);
    EXECUTE format('CREATE TRIGGER qd_no_delete BEFORE DELETE ON %I FOR EACH ROW EXECUTE FUNCTION qd_append_only()', t);
  END LOOP;
END $$;
