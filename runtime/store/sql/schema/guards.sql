-- Append-only tables: no UPDATE, no DELETE, no TRUNCATE, for any role.
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['qd_event', 'qd_checkpoint', 'qd_audit_entry'] LOOP
    EXECUTE format('CREATE TRIGGER qd_append_only BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION qd_append_only()', t);
    EXECUTE format('CREATE TRIGGER qd_no_truncate BEFORE TRUNCATE ON %I EXECUTE FUNCTION qd_append_only()', t);
  END LOOP;
  FOREACH t IN ARRAY ARRAY['qd_workflow_version', 'qd_manifest', 'qd_evidence', 'qd_outcome', 'qd_citation'] LOOP
    EXECUTE format('CREATE TRIGGER qd_immutable BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION qd_append_only()', t);
  END LOOP;
END $$;

CREATE FUNCTION qd_refuse(subject text, id uuid, what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'law of states: % %: %', subject, id, what USING ERRCODE = 'QD001';
END $$;

CREATE FUNCTION qd_guard_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.status NOT IN ({step_entry}) THEN
      PERFORM qd_refuse('step', NEW.id, 'no step begins as ' || NEW.status);
    END IF;
    RETURN NEW;
  END IF;
  IF OLD.superseded THEN
    PERFORM qd_refuse('step', OLD.id, 'a superseded execution version is never changed');
  END IF;
  IF NEW.id <> OLD.id OR NEW.run_id <> OLD.run_id OR NEW.node <> OLD.node OR NEW.tenant_id <> OLD.tenant_id
     OR NEW.execution_version <> OLD.execution_version THEN
    PERFORM qd_refuse('step', OLD.id, 'its identity is never changed');
  END IF;
  IF NEW.owner_epoch < OLD.owner_epoch THEN
    PERFORM qd_refuse('step', OLD.id, 'owner_epoch only grows');
  END IF;
  IF NEW.status <> OLD.status THEN
    IF OLD.status || '>' || NEW.status NOT IN ({step_pairs}) THEN
      PERFORM qd_refuse('step', OLD.id, OLD.status || ' → ' || NEW.status || ' is no move of the law');
    END IF;
    IF NEW.version <> OLD.version + 1 THEN
      PERFORM qd_refuse('step', OLD.id, 'a move counts the version up by one');
    END IF;
    IF NEW.status = 'running' AND NEW.owner_epoch <= OLD.owner_epoch THEN
      PERFORM qd_refuse('step', OLD.id, 'a claim takes a new owner_epoch');
    END IF;
  ELSIF NEW.version < OLD.version THEN
    PERFORM qd_refuse('step', OLD.id, 'version only grows');
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER qd_guard_step_insert BEFORE INSERT ON qd_step FOR EACH ROW
  WHEN (NEW.status NOT IN ('waiting', 'queued')) EXECUTE FUNCTION qd_guard_step();
-- The three moves that every step makes are judged here, without a call; all else goes to the function.
CREATE TRIGGER qd_guard_step BEFORE UPDATE ON qd_step FOR EACH ROW
  WHEN (OLD.superseded OR NEW.owner_epoch < OLD.owner_epoch OR NEW.version < OLD.version
        OR NEW.id <> OLD.id OR NEW.run_id <> OLD.run_id OR NEW.node <> OLD.node OR NEW.tenant_id <> OLD.tenant_id
        OR NEW.execution_version <> OLD.execution_version
        OR (NEW.status <> OLD.status AND NOT (NEW.version = OLD.version + 1 AND (
             (OLD.status = 'waiting' AND NEW.status = 'queued')
             OR (OLD.status = 'queued' AND NEW.status = 'running' AND NEW.owner_epoch > OLD.owner_epoch)
             OR (OLD.status = 'running' AND NEW.status = 'succeeded')))))
  EXECUTE FUNCTION qd_guard_step();

CREATE FUNCTION qd_guard_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.id <> OLD.id OR NEW.tenant_id <> OLD.tenant_id OR NEW.task_id <> OLD.task_id
     OR NEW.workflow_version_id <> OLD.workflow_version_id OR NEW.manifest_id <> OLD.manifest_id THEN
    PERFORM qd_refuse('run', OLD.id, 'its identity is never changed');
  END IF;
  IF NEW.seq < OLD.seq THEN
    PERFORM qd_refuse('run', OLD.id, 'run_seq only grows');
  END IF;
  IF NEW.status <> OLD.status THEN
    IF OLD.status || '>' || NEW.status NOT IN ({run_pairs}) THEN
      PERFORM qd_refuse('run', OLD.id, OLD.status || ' → ' || NEW.status || ' is no move of the law');
    END IF;
    IF NEW.version <= OLD.version OR NEW.seq <= OLD.seq THEN
      PERFORM qd_refuse('run', OLD.id, 'a move counts the version up and writes an event');
    END IF;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER qd_guard_run BEFORE UPDATE ON qd_run FOR EACH ROW
  WHEN (NEW.status <> OLD.status OR NEW.seq < OLD.seq OR NEW.id <> OLD.id OR NEW.tenant_id <> OLD.tenant_id
        OR NEW.task_id <> OLD.task_id OR NEW.workflow_version_id <> OLD.workflow_version_id
        OR NEW.manifest_id <> OLD.manifest_id)
  EXECUTE FUNCTION qd_guard_run();

CREATE FUNCTION qd_guard_operation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.id <> OLD.id OR NEW.tenant_id <> OLD.tenant_id OR NEW.business_key <> OLD.business_key
     OR NEW.payload_sha256 <> OLD.payload_sha256 THEN
    PERFORM qd_refuse('operation', OLD.id, 'its identity is never changed');
  END IF;
  IF NEW.status <> OLD.status THEN
    IF OLD.status || '>' || NEW.status NOT IN ({operation_pairs}) THEN
      PERFORM qd_refuse('operation', OLD.id, OLD.status || ' → ' || NEW.status || ' is no move of the law');
    END IF;
    IF NEW.version <> OLD.version + 1 THEN
      PERFORM qd_refuse('operation', OLD.id, 'a move counts the version up by one');
    END IF;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER qd_guard_operation BEFORE UPDATE ON qd_operation FOR EACH ROW EXECUTE FUNCTION qd_guard_operation();

-- The law itself, readable where the data is.
CREATE TABLE qd_transition (
  subject text NOT NULL, source text NOT NULL, target text NOT NULL, by text NOT NULL, why text NOT NULL,
  PRIMARY KEY (subject, source, target)
);
INSERT INTO qd_transition (subject, source, target, by, why) VALUES {transition_rows};
