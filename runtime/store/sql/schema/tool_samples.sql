-- Recorded answers of tool versions and their signatures: walls and grants; written once and never changed.
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['qd_tool_sample', 'qd_tool_signature'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY qd_own_tenant ON %I USING (tenant_id = (SELECT qd_tenant()))
                    WITH CHECK (tenant_id = (SELECT qd_tenant()))', t);
    -- A worker looks whether a version is signed; what signs it are people, by the web and by commands.
    EXECUTE format('GRANT SELECT ON %I TO qd_web, qd_worker', t);
    EXECUTE format('GRANT INSERT ON %I TO qd_web', t);
    EXECUTE format('CREATE TRIGGER qd_immutable BEFORE UPDATE OR DELETE ON %I
                    FOR EACH ROW EXECUTE FUNCTION qd_append_only()', t);
  END LOOP;
END $$;

-- A signature lets go on what was held back for want of it, as the end of a stop does: the same duty looks.
GRANT SELECT ON qd_tool_signature TO qd_definer;
CREATE POLICY qd_definer_reads ON qd_tool_signature FOR SELECT TO qd_definer USING (true);
CREATE OR REPLACE FUNCTION qd_last_stop_end() RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT max(e) FROM (
    SELECT least(lifted_at, until) AS e FROM qd_stop UNION ALL SELECT least(lifted_at, until) FROM qd_global_stop
    UNION ALL SELECT max(signed_at) FROM qd_tool_signature) s
  WHERE e <= qd_now()
$$;
