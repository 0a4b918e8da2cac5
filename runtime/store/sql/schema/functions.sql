-- The clock: the database's own plus what a test added. Read it after the lock is held (engine.md 6).
CREATE FUNCTION qd_now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL RESTRICTED AS
$$ SELECT clock_timestamp() + c.offset FROM qd_clock c $$;
INSERT INTO qd_clock (id, "offset") VALUES (true, interval '0');
ALTER TABLE qd_clock ADD CONSTRAINT qd_clock_one_row CHECK (id);

-- The tenant of this transaction; without one every tenant table is empty.
CREATE FUNCTION qd_tenant() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT nullif(current_setting('qd.tenant', true), '')::uuid $$;

-- Month partitions of the tables partitioned by run_id. ATTACH, not PARTITION OF: it does not lock out writers.
CREATE FUNCTION qd_month_bound(month date) RETURNS uuid LANGUAGE sql IMMUTABLE AS
$$ SELECT (lpad(to_hex((extract(epoch FROM month::timestamp AT TIME ZONE 'UTC') * 1000)::bigint), 12, '0')
           || '00000000000000000000')::uuid $$;

CREATE FUNCTION qd_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'QD002';
END $$;

CREATE FUNCTION qd_ensure_partitions(first_month date, months int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE parent text; month date; child text; made int := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('qd_ensure_partitions'));
  FOREACH parent IN ARRAY ARRAY['qd_event', 'qd_attempt', 'qd_checkpoint'] LOOP
    FOR i IN 0 .. months - 1 LOOP
      month := (date_trunc('month', first_month) + make_interval(months => i))::date;
      child := parent || '_' || to_char(month, 'YYYY_MM');
      CONTINUE WHEN to_regclass(child) IS NOT NULL;
      EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', child, parent);
      EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, child,
                     qd_month_bound(month), qd_month_bound((month + interval '1 month')::date));
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

CREATE TABLE qd_event_default PARTITION OF qd_event DEFAULT;
CREATE TABLE qd_attempt_default PARTITION OF qd_attempt DEFAULT;
CREATE TABLE qd_checkpoint_default PARTITION OF qd_checkpoint DEFAULT;
SELECT qd_ensure_partitions((now() - interval '1 month')::date, 4);

-- The stream of all events is read by (xact, run_id, seq); appended in that order, so block ranges suffice.
CREATE INDEX qd_event_stream ON qd_event USING brin (xact) WITH (pages_per_range = 16, autosummarize = on);

ALTER TABLE qd_step SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE qd_run SET (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE qd_operation SET (fillfactor = 80);
