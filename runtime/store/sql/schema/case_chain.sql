-- Chains that overdue repair cases go up: walls and grants; a version is written once and never changed.
ALTER TABLE qd_case_chain ENABLE ROW LEVEL SECURITY;
ALTER TABLE qd_case_chain FORCE ROW LEVEL SECURITY;
CREATE POLICY qd_own_tenant ON qd_case_chain
  USING (tenant_id = (SELECT qd_tenant())) WITH CHECK (tenant_id = (SELECT qd_tenant()));
GRANT SELECT ON qd_case_chain TO qd_web, qd_worker;
GRANT INSERT ON qd_case_chain TO qd_web;
CREATE TRIGGER qd_immutable BEFORE UPDATE OR DELETE ON qd_case_chain FOR EACH ROW EXECUTE FUNCTION qd_append_only();
ALTER TABLE qd_case_chain ADD CONSTRAINT qd_case_chain_in_pairs CHECK (cardinality(told) = cardinality(after_minutes));
GRANT SELECT ON qd_case_chain TO qd_definer;
CREATE POLICY qd_definer_reads ON qd_case_chain FOR SELECT TO qd_definer USING (true);

-- Open cases for which the time of the next link of their tenant's chain has come, the longest overdue first. Without a
-- chain of its own, or with an empty one, a tenant has three links half an hour apart (repair/chains.py).
CREATE OR REPLACE FUNCTION qd_overdue_cases(most int) RETURNS TABLE (tenant_id uuid, id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT c.tenant_id, c.id FROM qd_case c
  LEFT JOIN LATERAL (SELECT nullif(k.after_minutes, '{}') AS minutes FROM qd_case_chain k
    WHERE k.tenant_id = c.tenant_id ORDER BY k.version DESC LIMIT 1) chain ON true
  WHERE c.state <> 'resolved' AND c.due_at <= qd_now()
    AND c.escalations < coalesce(cardinality(chain.minutes), 3)
    AND c.due_at + coalesce(chain.minutes[c.escalations + 1], c.escalations * 30) * interval '1 minute' <= qd_now()
  ORDER BY c.due_at LIMIT most
$$;
