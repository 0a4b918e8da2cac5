-- Where nobody made a month's partition in time (the installation stood still for months, or was restored later), rows
-- of that month lie in the default partition, and no partition can be attached beside them. They are moved into it first.
CREATE FUNCTION qd_move_strays(spare text, child text, low uuid, high uuid) RETURNS void
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
  LOCK TABLE ONLY qd_event, ONLY qd_attempt, ONLY qd_checkpoint IN SHARE ROW EXCLUSIVE MODE;
  EXECUTE format('ALTER TABLE %I NO FORCE ROW LEVEL SECURITY', spare);
  EXECUTE format('ALTER TABLE %I DISABLE TRIGGER USER', spare);
  EXECUTE format('WITH strays AS (DELETE FROM %I WHERE run_id >= %L AND run_id < %L RETURNING *)'
                 ' INSERT INTO %I SELECT * FROM strays', spare, low, high, child);
  EXECUTE format('ALTER TABLE %I ENABLE TRIGGER USER', spare);
  EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', spare);
END $$;
REVOKE ALL ON FUNCTION qd_move_strays(text, text, uuid, uuid) FROM PUBLIC;

CREATE OR REPLACE FUNCTION qd_ensure_partitions(first_month date, months int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE parent text; month date; child text; low uuid; high uuid; attach text; made int := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('qd_ensure_partitions'));
  -- Who writes into a month while its partition is attached would be refused; so whoever writes now waits, and is then
  -- led to where its rows belong. In the order in which everybody writes these tables.
  IF to_regclass('qd_event_' || to_char(first_month, 'YYYY_MM')) IS NULL THEN
    LOCK TABLE ONLY qd_event, ONLY qd_attempt, ONLY qd_checkpoint IN SHARE ROW EXCLUSIVE MODE;
  END IF;
  FOREACH parent IN ARRAY ARRAY['qd_event', 'qd_attempt', 'qd_checkpoint'] LOOP
    FOR i IN 0 .. months - 1 LOOP
      month := (date_trunc('month', first_month) + make_interval(months => i))::date;
      child := parent || '_' || to_char(month, 'YYYY_MM');
      CONTINUE WHEN to_regclass(child) IS NOT NULL;
      low := qd_month_bound(month);
      high := qd_month_bound((month + interval '1 month')::date);
      attach := format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, child, low, high);
      EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', child, parent);
      BEGIN
        EXECUTE attach;
      EXCEPTION WHEN check_violation THEN
        PERFORM qd_move_strays(parent || '_default', child, low, high);
        EXECUTE attach;
      END;
      EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', child);
      EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', child);
      EXECUTE format('CREATE POLICY qd_own_tenant ON %I USING (tenant_id = (SELECT qd_tenant()))'
                     ' WITH CHECK (tenant_id = (SELECT qd_tenant()))', child);
      IF parent <> 'qd_attempt' THEN
        EXECUTE format('CREATE TRIGGER qd_no_truncate BEFORE TRUNCATE ON %I EXECUTE FUNCTION qd_append_only()', child);
      ELSE
        -- Each row is updated once, when the attempt ends: room for that on its own page spares the index.
        EXECUTE format('ALTER TABLE %I SET (fillfactor = 30)', child);
      END IF;
      made := made + 1;
    END LOOP;
  END LOOP;
  RETURN made;
END $$;
