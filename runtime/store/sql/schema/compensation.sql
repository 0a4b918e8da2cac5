-- Orders to undo an operation: walls and grants; an order is written once and never changed.
ALTER TABLE qd_compensation ENABLE ROW LEVEL SECURITY;
ALTER TABLE qd_compensation FORCE ROW LEVEL SECURITY;
CREATE POLICY qd_own_tenant ON qd_compensation
  USING (tenant_id = (SELECT qd_tenant())) WITH CHECK (tenant_id = (SELECT qd_tenant()));
GRANT SELECT, INSERT ON qd_compensation TO qd_web, qd_worker;
CREATE TRIGGER qd_immutable BEFORE UPDATE OR DELETE ON qd_compensation
  FOR EACH ROW EXECUTE FUNCTION qd_append_only();

-- A run is completed with nothing open. What is undone afterwards is appended to it and may be open for a while, so
-- this is asked of the move and not of the row.
CREATE FUNCTION qd_guard_completed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM qd_refuse('run', OLD.id, 'completed while something of it is open');
  RETURN NEW;
END $$;
CREATE TRIGGER qd_guard_completed BEFORE UPDATE ON qd_run FOR EACH ROW
  WHEN (NEW.status = 'completed' AND OLD.status <> 'completed'
        AND (NEW.n_open > 0 OR NEW.n_unknown > 0 OR NEW.n_open_operations > 0))
  EXECUTE FUNCTION qd_guard_completed();

-- Cancelled runs in which something still works after its time to end by itself is over.
CREATE FUNCTION qd_due_cancels(most int) RETURNS TABLE (tenant_id uuid, run_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT r.tenant_id, r.id FROM qd_run r
  WHERE r.cancel_by <= qd_now() AND r.status NOT IN ('completed', 'partially_completed', 'failed', 'cancelled')
    AND EXISTS (SELECT FROM qd_step s WHERE s.run_id = r.id AND s.status = 'running'
                AND s.kind NOT IN ('compensation', 'compensation_check'))
  ORDER BY r.cancel_by LIMIT most
$$;
DO $$ BEGIN
  GRANT CREATE ON SCHEMA public TO qd_definer;
  REVOKE ALL ON FUNCTION qd_due_cancels(int) FROM PUBLIC;
  EXECUTE 'GRANT EXECUTE ON FUNCTION qd_due_cancels(int) TO qd_web, qd_worker, ' || quote_ident(current_user);
  ALTER FUNCTION qd_due_cancels(int) OWNER TO qd_definer;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
