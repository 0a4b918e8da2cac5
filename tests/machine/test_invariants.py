"""Every numbered invariant is a check that can fail: each is broken on purpose, past every guard, and reported."""

from __future__ import annotations

import json
import uuid
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from runtime.actions.runs import pause_run, resume_run
from runtime.actions.steps import force_step, rerun_step
from runtime.journal import audit
from runtime.kernel.ids import uuid7
from runtime.queries.invariants import INVARIANTS, check_invariants
from runtime.store.directory import TenantRow
from runtime.store.tx import tenant_tx
from tests.support.engine import Engine, past_every_guard
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("A5.1", "C1.9"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def scene(engine: Engine, test_database: Any) -> dict[str, Any]:
    """Two runs that went through much; nothing is wrong with them."""
    document = workflow(tool("a"), tool("b", "a"), tool("c", "b"), tool("d", "a"))
    done = engine.submit(document)
    engine.finish("a")
    engine.finish("b", "failed")
    engine.act(rerun_step, done, "b")
    engine.finish("b")
    engine.finish("c")
    engine.finish("d")
    going = engine.submit(document, request_key="going")
    engine.finish("a")
    pause_run(actor=engine.actor, run_id=going, reason="look")
    resume_run(actor=engine.actor, run_id=going, reason="seen")
    engine.claim()
    engine.finish("b", "failed")
    engine.act(force_step, going, "b")
    return {"engine": engine, "database": test_database, "done": done, "going": going, **ids(engine, done, going)}


def ids(engine: Engine, done: uuid.UUID, going: uuid.UUID) -> dict[str, Any]:
    return {
        "tenant": engine.tenant.id,
        "a": engine.step(done, "a").id,
        "old_b": engine.step(done, "b", 1).id,
        "queued": engine.step(going, "c").id,
        "forced": engine.step(going, "b").id,
        "manifest": engine.run(done).manifest_id,
        "task": engine.run(done).task_id,
        "operation": uuid7(),
        "other": uuid7(),
    }


def failing(engine: Engine, **more: Any) -> dict[int, list[str]]:
    tenant = TenantRow(engine.tenant.id, engine.tenant.slug, False)
    return {f.invariant.number: f.breaches for f in check_invariants([tenant], **more) if f.ok is False}


def operation(status: str, sends: int, run: str = "going") -> str:
    return f"""
      INSERT INTO qd_operation (id, tenant_id, business_key, payload, payload_sha256, tool_version_id, recovery, run_id,
        step_id, execution_version, attempt, owner_epoch, status, version, sends, requester, intended_at, sent_at)
      VALUES (%(operation)s, %(tenant)s, 'k', '{{}}', '\\x00', %(other)s, 'human', %({run})s, %(a)s, 1, 1, 1,
        '{status}', 1, {sends}, 'x', now(), now())"""


def event(
    run: str, type: str, step: str | None = None, move: str = "", *, epoch: int = 1, after: int = 1, actor: str = ""
) -> str:
    """Return an event after the run's last; ``move`` is ``source>target``."""
    actor = actor or ("user:eve" if type == "HOLD_REQUESTED" else "")
    source, _, target = move.partition(">")
    columns = f"{quoted(step and 'n')}, {f'%({step})s' if step else 'NULL'}, 1, 1, {epoch}, 9"
    return f"""
      INSERT INTO qd_event (run_id, seq, tenant_id, xact, type, node, step_id, execution_version, attempt, owner_epoch,
        version, from_status, to_status, actor, reason, manifest_id, schema_version, occurred_at)
      SELECT id, seq + {after}, tenant_id, 1, '{type}', {columns}, {quoted(source)}, {quoted(target)},
        {quoted(actor)}, 'x', manifest_id, 1, now()
      FROM qd_run WHERE id = %({run})s"""


def quoted(text: str | None) -> str:
    return f"'{text}'" if text else "NULL"


ONLY_AN_OWNER = """{"owner": "x"}"""
VERDICT = """
  INSERT INTO qd_verifier (id, tenant_id, name, number, method, description, authorised_by, created_at)
  VALUES (%(operation)s, %(tenant)s, 'v', 1, 'machine_check', '', 'x', now());
  INSERT INTO qd_outcome (id, tenant_id, task_id, run_id, verifier_id, verdict, criterion, decided_by, decided_at)
  VALUES (%(other)s, %(tenant)s, %(task)s, %(done)s, %(operation)s, 'achieved', 'c', 'x', now())"""

# number, the row that is reported, the statements that break it.
BREAKS: list[tuple[int, str, str]] = [
    (1, "a", event("done", "STEP_SUCCEEDED", "a", "running>succeeded")),
    (1, "operation", operation("sent", 2)),
    (2, "a", event("done", "NOTE", "a", epoch=0)),
    (2, "a", "UPDATE qd_step SET owner_epoch = 0 WHERE id = %(a)s"),
    (3, "done", "DELETE FROM qd_event WHERE run_id = %(done)s AND seq = 3"),
    (3, "done", "UPDATE qd_run SET seq = seq + 1 WHERE id = %(done)s"),
    (3, "done", "UPDATE qd_run SET n_bad = 5 WHERE id = %(done)s"),
    (3, "done", "UPDATE qd_run SET n_open_operations = 1, status = 'failed' WHERE id = %(done)s"),
    (3, "done", "UPDATE qd_run SET n_compensating = 1 WHERE id = %(done)s"),
    (3, "done", "UPDATE qd_step SET deps_ok = 7 WHERE id = %(a)s"),
    (3, "done", "UPDATE qd_step SET finished_at = now() WHERE id = %(old_b)s"),
    (4, "a", event("done", "STEP_WAITING", "a", "succeeded>waiting")),
    (4, "done", event("done", "RUN_RUNNING", None, "completed>running")),
    (4, "done", "UPDATE qd_step SET status = 'queued', claimable = false WHERE id = %(a)s"),
    (4, "old_b", "UPDATE qd_step SET status = 'waiting' WHERE id = %(old_b)s"),
    (4, "old_b", event("done", "STEP_FORCED", "old_b", "failed>mark_successed")),
    (5, "a", "UPDATE qd_step SET status = 'failed' WHERE id = %(a)s"),
    (5, "done", "UPDATE qd_run SET status = 'failed' WHERE id = %(done)s"),
    (5, "operation", operation("void", 0)),
    (5, "going", event("going", "HOLD_REQUESTED", "queued", epoch=0)),
    # Somebody whose other acts are in the audit, and who acted once more.
    (5, "going", event("going", "NOTE", "queued", epoch=0, actor="service:test")),
    # As many entries as acts, but not of this one.
    (
        5,
        "going",
        "UPDATE qd_event SET type = 'RESUME_REQUESTED' WHERE run_id = %(going)s AND type = 'PAUSE_REQUESTED'",
    ),
    (6, "queued", "UPDATE qd_step SET hold_requested = true WHERE id = %(queued)s"),
    (6, "queued", "UPDATE qd_run SET paused = true WHERE id = %(going)s"),
    (6, "a", "UPDATE qd_run SET deadline = created_at - interval '1 hour' WHERE id = %(done)s"),
    (
        6,
        "queued",
        f"{event('going', 'CANCEL_REQUESTED')}; {event('going', 'STEP_STARTED', 'queued', 'queued>running', after=2)}",
    ),
    (
        6,
        "done",
        operation("succeeded", 1, run="done") + "; UPDATE qd_run SET budget = '{\"effects\": 0}' WHERE id = %(done)s",
    ),
    (7, "operation", operation("unknown", 1)),
    (
        7,
        "going",
        f"UPDATE qd_run SET status = 'needs_attention', attention = '{ONLY_AN_OWNER}' WHERE id = %(going)s",
    ),
    (7, "queued", "UPDATE qd_step SET claimable = false WHERE id = %(queued)s"),
    (7, "queued", "UPDATE qd_step SET status = 'waiting', cause = 'timer' WHERE id = %(queued)s"),
    (7, "queued", "UPDATE qd_step SET status = 'waiting' WHERE id = %(queued)s"),
    (7, "queued", "UPDATE qd_step SET status = 'running', worker_session_id = %(other)s WHERE id = %(queued)s"),
    (12, "done", operation("sent", 1, run="done")),
    (12, "forced", "UPDATE qd_step SET forced = false WHERE id = %(forced)s"),
    (12, "forced", event("going", "OUTCOME_RECORDED", "forced")),
    (12, "other", VERDICT),
]


def test_nothing_is_wrong_after_much_has_happened(scene):
    assert failing(scene["engine"]) == {}


@pytest.mark.parametrize(
    ("number", "row", "statement"), BREAKS, ids=[f"{n}-{i}" for i, (n, _r, _s) in enumerate(BREAKS)]
)
def test_a_breach_is_reported_under_its_number_with_the_row(scene, number, row, statement):
    with past_every_guard(scene["database"]) as connection:
        for one in statement.split(";"):
            values = {name: value for name, value in scene.items() if isinstance(value, uuid.UUID)}
            connection.execute(one, values)
    assert str(scene[row]) in failing(scene["engine"])[number]


def test_an_edited_audit_is_reported(scene):
    engine = scene["engine"]
    with past_every_guard(scene["database"]) as connection:
        connection.execute(
            "UPDATE qd_audit_entry SET actor = 'user:eve' WHERE number = 2 AND tenant_id = %s", [engine.tenant.id]
        )
    assert failing(engine) == {11: ["2"]}
    assert not audit.verify(engine.tenant.id).ok


@pytest.mark.parametrize(
    ("statement", "undo", "row"),
    [
        ("ALTER TABLE qd_step NO FORCE ROW LEVEL SECURITY", "ALTER TABLE qd_step FORCE ROW LEVEL SECURITY", "qd_step"),
        ("CREATE POLICY wide ON qd_task USING (true)", "DROP POLICY wide ON qd_task", "qd_task"),
        ("GRANT DELETE ON qd_run TO qd_web", "REVOKE DELETE ON qd_run FROM qd_web", "qd_run"),
        ("GRANT UPDATE ON qd_event TO qd_worker", "REVOKE UPDATE ON qd_event FROM qd_worker", "qd_event"),
        ("GRANT SELECT ON qd_task TO PUBLIC", "REVOKE SELECT ON qd_task FROM PUBLIC", "qd_task"),
        (
            "ALTER TABLE qd_inbox OWNER TO qd_web",
            # The new owner's own grants went into its ownership: they are given again.
            "ALTER TABLE qd_inbox OWNER TO quarterdeck; GRANT SELECT, INSERT, UPDATE ON qd_inbox TO qd_web",
            "qd_inbox",
        ),
        (
            "GRANT EXECUTE ON FUNCTION qd_all_tenants() TO PUBLIC",
            "REVOKE EXECUTE ON FUNCTION qd_all_tenants() FROM PUBLIC",
            "qd_all_tenants",
        ),
        (
            "ALTER TABLE qd_step DISABLE TRIGGER qd_guard_step",
            "ALTER TABLE qd_step ENABLE TRIGGER qd_guard_step",
            "qd_guard_step on qd_step",
        ),
        (
            "ALTER TABLE auth_user DISABLE TRIGGER qd_keep_username",
            "ALTER TABLE auth_user ENABLE TRIGGER qd_keep_username",
            "qd_keep_username on auth_user",
        ),
    ],
)
@pytest.mark.req("C8.6")
def test_an_opened_wall_is_reported(engine, test_database, statement, undo, row):
    with past_every_guard(test_database) as connection:
        connection.execute(statement)
        try:
            assert row in failing(engine)[8]
        finally:
            connection.execute(undo)
    assert 8 not in failing(engine)


def test_the_command_prints_json_and_exits_with_1_on_a_breach(scene):
    def call() -> list[dict[str, Any]]:
        out = StringIO()
        try:
            call_command("invariants", tenant=scene["engine"].tenant.slug, stdout=out)
        finally:
            answers.append(json.loads(out.getvalue()))
        return answers[-1]

    answers: list[list[dict[str, Any]]] = []
    good = call()
    assert [one["number"] for one in good] == [one.number for one in INVARIANTS] == list(range(1, 13))
    assert all(one["ok"] for one in good if one["number"] not in (9, 10))
    assert [one["ok"] for one in good if one["number"] in (9, 10)] == [None, None]
    with past_every_guard(scene["database"]) as connection:
        connection.execute("UPDATE qd_step SET status = 'failed' WHERE id = %s", [scene["a"]])
    with pytest.raises(SystemExit) as exit:
        call()
    assert exit.value.code == 1
    assert {one["number"]: one["breaches"] for one in answers[-1]}[5] == [str(scene["a"])]


def test_breaches_of_another_tenant_are_not_ours(scene, other_tenant):
    with past_every_guard(scene["database"]) as connection:
        connection.execute("UPDATE qd_step SET status = 'failed' WHERE id = %s", [scene["a"]])
    with tenant_tx(other_tenant.id):
        pass
    tenant = TenantRow(other_tenant.id, other_tenant.slug, False)
    assert all(finding.ok is not False for finding in check_invariants([tenant]))
