-- Statistics of young tables. A plan that was made while a table was nearly empty is kept until its statistics change,
-- and reads a tenant's whole index for each row; autovacuum may take a minute to come by. Large tables are left to it.
CREATE FUNCTION qd_refresh_statistics() RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '200ms' AS $$
DECLARE t regclass; made int := 0;
BEGIN
  FOR t IN
    SELECT c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'public' AND c.relkind = 'r' AND c.relname LIKE 'qd\_%'
      AND pg_relation_size(c.oid) BETWEEN 8192 * (2 * greatest(c.relpages, 2)) AND 134217728
  LOOP
    BEGIN
      EXECUTE format('ANALYZE %s', t);
      made := made + 1;
    EXCEPTION WHEN lock_not_available THEN NULL;  -- somebody else is at it
    END;
  END LOOP;
  RETURN made;
END $$;
REVOKE ALL ON FUNCTION qd_refresh_statistics() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION qd_refresh_statistics() TO qd_worker;
