-- The record names people by their user names: a member's stays theirs, so that yesterday's entries, requests and
-- decisions never come to mean somebody else. As definer, who sees the memberships of every tenant, ended ones too.
CREATE FUNCTION qd_keep_username() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM qd_membership WHERE user_id = OLD.id) THEN
    RAISE EXCEPTION 'user name %: the record names a member by it; make a new user and end the memberships of this one',
      OLD.username USING ERRCODE = 'QD003';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER qd_keep_username BEFORE UPDATE OF username ON auth_user FOR EACH ROW
  WHEN (NEW.username IS DISTINCT FROM OLD.username) EXECUTE FUNCTION qd_keep_username();
DO $$ BEGIN
  GRANT CREATE ON SCHEMA public TO qd_definer;
  REVOKE ALL ON FUNCTION qd_keep_username() FROM PUBLIC;
  ALTER FUNCTION qd_keep_username() OWNER TO qd_definer;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
