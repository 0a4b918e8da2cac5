-- Many repair cases at once: walls, grants, and the guard of what is frozen when the list is made.
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['qd_case_bulk', 'qd_case_bulk_item'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY qd_own_tenant ON %I USING (tenant_id = (SELECT qd_tenant())) WITH CHECK (tenant_id = (SELECT qd_tenant()))', t);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON %I TO qd_web, qd_worker', t);
    EXECUTE format('CREATE TRIGGER qd_no_delete BEFORE DELETE ON %I FOR EACH ROW EXECUTE FUNCTION qd_append_only()', t);
  END LOOP;
END $$;
GRANT SELECT ON qd_case_bulk TO qd_definer;
CREATE POLICY qd_definer_reads ON qd_case_bulk FOR SELECT TO qd_definer USING (true);

CREATE FUNCTION qd_guard_case_bulk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state <> 'draft' OR NEW.version <> 1 THEN
      PERFORM qd_refuse('bulk repair', NEW.id, 'none begins as ' || NEW.state);
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.id <> OLD.id OR NEW.tenant_id <> OLD.tenant_id OR NEW.resolution <> OLD.resolution OR NEW.filter <> OLD.filter
     OR NEW.reason <> OLD.reason OR NEW.hours IS DISTINCT FROM OLD.hours OR NEW.per_minute <> OLD.per_minute
     OR NEW.needs_review <> OLD.needs_review OR NEW.created_user_id <> OLD.created_user_id
     OR NEW.created_by <> OLD.created_by OR NEW.created_at <> OLD.created_at THEN
    PERFORM qd_refuse('bulk repair', OLD.id, 'what was prepared is never changed');
  END IF;
  IF OLD.reviewed_user_id IS NOT NULL AND NEW.reviewed_user_id IS DISTINCT FROM OLD.reviewed_user_id THEN
    PERFORM qd_refuse('bulk repair', OLD.id, 'a review is made once');
  END IF;
  IF NEW.state <> OLD.state THEN
    IF NEW.version <> OLD.version + 1 OR OLD.state || '>' || NEW.state NOT IN ({bulk_pairs}) THEN
      PERFORM qd_refuse('bulk repair', OLD.id, OLD.state || ' → ' || NEW.state || ' is no move of the law');
    END IF;
    IF NEW.state = 'running' AND NEW.needs_review AND NEW.reviewed_user_id IS NULL THEN
      PERFORM qd_refuse('bulk repair', OLD.id, 'another person has to look at it first');
    END IF;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER qd_guard_case_bulk BEFORE INSERT OR UPDATE ON qd_case_bulk FOR EACH ROW
  EXECUTE FUNCTION qd_guard_case_bulk();

CREATE FUNCTION qd_guard_case_bulk_item() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.id <> OLD.id OR NEW.tenant_id <> OLD.tenant_id OR NEW.bulk_id <> OLD.bulk_id OR NEW.case_id <> OLD.case_id
     OR NEW.case_version <> OLD.case_version OR NEW.position <> OLD.position THEN
    PERFORM qd_refuse('bulk repair item', OLD.id, 'what was frozen is never changed');
  END IF;
  IF OLD.state NOT IN ('todo', 'working') THEN
    PERFORM qd_refuse('bulk repair item', OLD.id, 'what became of it is told once');
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER qd_guard_case_bulk_item BEFORE UPDATE ON qd_case_bulk_item FOR EACH ROW
  EXECUTE FUNCTION qd_guard_case_bulk_item();

-- Bulk repairs whose next item is due, the one that waits longest first.
CREATE FUNCTION qd_due_bulk_repairs(most int) RETURNS TABLE (tenant_id uuid, id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT b.tenant_id, b.id FROM qd_case_bulk b WHERE b.state = 'running' AND b.next_at <= qd_now()
  ORDER BY b.next_at LIMIT most
$$;
DO $$ BEGIN
  GRANT CREATE ON SCHEMA public TO qd_definer;
  REVOKE ALL ON FUNCTION qd_due_bulk_repairs(int) FROM PUBLIC;
  EXECUTE 'GRANT EXECUTE ON FUNCTION qd_due_bulk_repairs(int) TO qd_web, qd_worker, ' || quote_ident(current_user);
  ALTER FUNCTION qd_due_bulk_repairs(int) OWNER TO qd_definer;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
