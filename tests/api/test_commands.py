"""The command line calls the same actions: JSON out, problems with exit code 1, usage with 2."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from tests.support.api import WORKFLOW, Caller, problem
from tests.support.engine import force_columns, sweep
from tests.support.factories import make_member
from tests.support.patience import patient

pytestmark = [pytest.mark.req("C6.1"), pytest.mark.django_db(transaction=True)]

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, fails: bool = False) -> list[Any]:
    """Run a command in this process; return its JSON lines, those of the problem when it ``fails``."""
    out, err = io.StringIO(), io.StringIO()
    if fails:
        with pytest.raises(SystemExit) as end:
            call_command(*arguments, stdout=out, stderr=err)
        assert end.value.code == 1
        return [json.loads(err.getvalue())] if err.getvalue() else _lines(out)
    call_command(*arguments, stdout=out, stderr=err)
    assert err.getvalue() == ""
    return _lines(out)


def _lines(out: io.StringIO) -> list[Any]:
    return [json.loads(line) for line in out.getvalue().splitlines() if line.startswith(("{", "["))]


def file(tmp_path: Path, value: Any, name: str = "file.json") -> str:
    path = tmp_path / name
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return str(path)


def test_token_prints_a_token_that_works(admin, tenant):
    user = make_member(tenant, "viewer")
    out = io.StringIO()
    call_command("token", user.username, "--tenant", tenant.slug, "--verbs", "run.read", stdout=out)
    raw = out.getvalue().strip()
    fresh = Caller(raw, tenant)
    assert fresh.get("runs/").status_code == 200
    problem(fresh.get("tasks/"), 403)
    refused = run("token", "nobody-here", "--tenant", tenant.slug, fails=True)[0]
    assert refused["code"] == "not_found"
    assert "tenant member USER" in refused["remediation"], "a name is no id to be checked"
    assert run("token", user.username, "--tenant", "no-such", fails=True)[0]["code"] == "not_found"


def test_submit_runs_and_run(admin, tenant, tmp_path):
    path = file(tmp_path, {"order_id": "W1"})
    arguments = ("submit", "parcel", "--input", path, "--tenant", tenant.slug, "--request-key", "k")
    first = run(*arguments)[0]
    assert run(*arguments)[0] == {**first, "replayed": True}
    listed = run("runs", "--tenant", tenant.slug)
    assert [one["id"] for one in listed] == [first["run_id"]]
    assert run("runs", "--status", "failed", "--tenant", tenant.slug) == []
    shown = run("run", "show", first["run_id"], "--tenant", tenant.slug)[0]
    assert {step["node"] for step in shown["steps"]} == {"pack", "send"}
    events = run("run", "events", first["run_id"], "--tenant", tenant.slug)
    assert [e["seq"] for e in events] == list(range(1, shown["last_included_seq"] + 1))
    entry = admin.get("audit/?verb=task.submit").json()["items"][0]
    assert entry["actor"] == "service:cli"


def by_hand(admin: Caller, run_id: str) -> None:
    """Mark both steps of a run."""
    for node in ("pack", "send"):
        step = next(one for one in admin.get(f"runs/{run_id}/steps/").json()["items"] if one["node"] == node)
        body = {"expected_version": step["version"], "reason": "done by hand"}
        assert admin.post(f"steps/{step['id']}/mark-successed/", body).status_code == 200


@pytest.mark.req("A4.5")
def test_a_submit_that_waits_fails_unless_the_run_completed(admin, tenant, tmp_path):
    arguments = ("submit", "parcel", "--input", file(tmp_path, {"order_id": "W1"}), "--tenant", tenant.slug, "--wait")
    (open_run,) = run(*arguments, "--request-key", "k1", "--wait-seconds", "0.1", fails=True)
    assert open_run["status"] not in ("completed", "failed")
    by_hand(admin, open_run["id"])
    (completed,) = run(*arguments, "--request-key", "k1")
    assert (completed["id"], completed["status"]) == (open_run["id"], "completed")
    (going,) = run(*arguments, "--request-key", "k2", "--wait-seconds", "0.1", fails=True)
    run("run", "cancel", going["id"], "--reason", "not wanted", "--tenant", tenant.slug)
    (cancelled,) = run(*arguments, "--request-key", "k2", fails=True)
    assert (cancelled["id"], cancelled["status"]) == (going["id"], "cancelled")


@pytest.mark.req("C1.9", "B11.2")
def test_a_rebuild_fails_on_a_difference_and_names_it(admin, tenant, db):
    run_id = admin.submit()["run_id"]
    slug = ("--tenant", tenant.slug)
    assert run("run", "rebuild", run_id, *slug) == [{"run_id": run_id, "ok": True, "differences": []}]
    step = next(one for one in admin.get(f"runs/{run_id}/steps/").json()["items"] if one["node"] == "send")
    try:
        force_columns(db, "qd_step", uuid.UUID(step["id"]), attempt=7)
        (report,) = run("run", "rebuild", run_id, *slug, fails=True)
    finally:
        sweep(db, tenant.id)
    assert (report["run_id"], report["ok"]) == (run_id, False)
    (difference,) = report["differences"]
    assert "send" in difference
    assert "attempt" in difference
    assert "7" in difference
    assert run("run", "rebuild", str(uuid.uuid4()), *slug, fails=True)[0]["code"] == "not_found"


@pytest.mark.req("C5.5")
def test_what_has_just_succeeded_is_not_cancelled(admin, tenant):
    finished, going = admin.submit()["run_id"], admin.submit("W2")["run_id"]
    by_hand(admin, finished)
    told = problem(admin.post(f"runs/{finished}/cancel/", {"reason": "stop"}), 409, "already_succeeded")
    assert told["current_status"] == "completed"
    assert run("run", "cancel", finished, "--tenant", tenant.slug, fails=True)[0]["code"] == "already_succeeded"
    assert run("run", "cancel", going, "--reason", "stop", "--tenant", tenant.slug)[0]["status"] == "cancelled"


@pytest.mark.req("C4.5")
def test_an_order_to_undo_what_is_not_there_changes_nothing(admin):
    nobody = uuid.uuid4()
    problem(admin.post(f"operations/{nobody}/compensate/", {"reason": "x"}), 404, "not_found")
    problem(admin.post(f"operations/{nobody}/compensate/", {"reason": ""}), 400, "bad_input")
    problem(admin.post(f"operations/{nobody}/compensate/", {"reasons": "x"}), 400)
    problem(admin.post("operations/none/compensate/", {"reason": "x"}), 404)


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"{", "invalid_json"), (b'{"order_id":NaN}', "invalid_json"), (b'{"order_id":7}', "schema_mismatch")],
)
def test_a_wrong_input_file(admin, tenant, tmp_path, content, code):
    path = file(tmp_path, content)
    found = run("submit", "parcel", "--input", path, "--tenant", tenant.slug, fails=True)[0]
    assert found["code"] == code
    assert found["where"]
    assert admin.get("tasks/").json()["items"] == []


def test_what_is_not_there(admin, tenant, tmp_path):
    slug = ("--tenant", tenant.slug)
    assert run("submit", "parcel", "--input", "/no/such/file", *slug, fails=True)[0]["where"] == "/no/such/file"
    assert run("run", "show", "7", *slug, fails=True)[0]["where"] == "ID"
    missing = "01900000-0000-7000-8000-000000000000"
    assert run("run", "events", missing, *slug, fails=True)[0]["code"] == "not_found"


def test_workflow_check_and_register(admin, tenant, tmp_path):
    good = file(tmp_path, {**WORKFLOW, "name": "fresh"})
    slug = ("--tenant", tenant.slug)
    checked = run("workflow", "check", good, *slug)[0]
    assert (checked["ok"], checked["nodes"], checked["tools"]) == (True, 2, ["core.echo@1"])
    assert len(admin.get("workflows/").json()["items"]) == 1
    assert run("workflow", "register", good, *slug)[0]["version"] == 1
    bad = file(tmp_path, {**WORKFLOW, "nodes": [{"id": "a", "kind": "tool", "tool": "no.such@1"}]}, "bad.json")
    for act in ("check", "register"):
        assert run("workflow", act, bad, *slug, fails=True)[0]["where"].startswith("/nodes/0")


def test_tool_register(admin, tenant, tmp_path):
    contract = {
        "name": "shop.load",
        "version": 1,
        "adapter": "python",
        "config": {"entry_point": "shop.load"},
        "input_schema": {"type": "object"},
        "side_effect": "read",
        "recovery": "replayable",
    }
    slug = ("--tenant", tenant.slug)
    assert run("tool", "register", file(tmp_path, contract), *slug)[0]["created"] is True
    assert (
        run("tool", "register", file(tmp_path, {**contract, "timeout_s": 3}), *slug, fails=True)[0]["code"]
        == "conflict"
    )


@pytest.mark.req("A2.5", "C3.1")
def test_tool_retire_and_verifier_revoke(admin, tenant):
    slug = ("--tenant", tenant.slug)
    assert run("verifier", "authorise", "arrived@1", *slug)[0]["created"] is True
    revoked = run("verifier", "revoke", "arrived@1", "--reason", "it left", *slug)[0]
    assert (revoked["verifier"], revoked["changed"]) == ("arrived@1", True)
    retired = run("tool", "retire", "core.echo@1", "--reason", "it is replaced", *slug)[0]
    assert (retired["tool"], retired["changed"]) == ("core.echo@1", True)
    entry = admin.get("audit/").json()["items"][0]
    assert (entry["actor"], entry["subject_id"], entry["result"]) == ("service:cli", "core.echo@1", "retired")
    assert run("tool", "retire", "core.nothing@1", "--reason", "x", *slug, fails=True)[0]["code"] == "not_found"
    assert run("verifier", "revoke", "arrived", "--reason", "x", *slug, fails=True)[0]["where"] == "reference"


def test_audit_verify(admin, tenant, db):
    assert run("audit", "verify", "--tenant", tenant.slug)[0]["ok"] is True
    with db.connect() as connection, connection.transaction():
        connection.execute("SELECT set_config('qd.tenant', %s, true)", [str(tenant.id)])
        connection.execute("ALTER TABLE qd_audit_entry DISABLE TRIGGER qd_append_only")
        connection.execute("UPDATE qd_audit_entry SET actor = 'user:else' WHERE number = 2")
        connection.execute("ALTER TABLE qd_audit_entry ENABLE TRIGGER qd_append_only")
    report = run("audit", "verify", "--tenant", tenant.slug, fails=True)[0]
    assert report["breaches"][0]["number"] == 2


def test_tenant_create_and_member(db, tenant):
    created = run("tenant", "create", f"made-{tenant.slug}")[0]
    assert created["slug"] == f"made-{tenant.slug}"
    assert run("tenant", "create", created["slug"], fails=True)[0]["code"] == "conflict"
    assert run("tenant", "create", "Not A Slug", fails=True)[0]["where"] == "slug"
    user = make_member(tenant, "viewer")
    added = run("tenant", "member", user.username, "--role", "oncall", "--tenant", created["slug"])[0]
    assert (added["role"], added["created"]) == ("oncall", True)


def signs_in(name: str, password: str) -> bool:
    return User.objects.using("owner").get(username=name).check_password(password)


def test_the_example_is_made_once_and_tells_its_passwords_once(fresh_db, settings, tmp_path):
    settings.QUARTERDECK_DATA = tmp_path
    (tmp_path / "example_sign_ins").write_text("{}")  # as earlier releases left it
    made = run("example", "ensure")[0]
    assert made["tenant"] == "acme"
    assert sorted(made["sign_ins"]) == ["admin", "approver", "finance", "integrator", "oncall"]
    assert run("example", "ensure")[0] == {**made, "sign_ins": {}}
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert not [word for word in made["sign_ins"].values() if word.encode() in kept]
    assert not (tmp_path / "example_sign_ins").exists()
    assert signs_in("approver", made["sign_ins"]["approver"])
    again = run("example", "passwords")[0]["sign_ins"]
    assert sorted(again) == sorted(made["sign_ins"])
    assert not signs_in("approver", made["sign_ins"]["approver"])
    assert signs_in("approver", again["approver"])
    out = io.StringIO()
    call_command("token", "integrator", stdout=out)
    answer = Caller(out.getvalue().strip(), None).post(  # type: ignore[arg-type]
        "tasks/", {"workflow": "refund", "input": {"order_id": "W1", "amount": 150}}
    )
    assert answer.status_code == 202, answer.content


def test_what_needs_no_tenant_answers_json_too(tmp_path):
    out = tmp_path / "law.html"
    assert run("law", "--out", str(out)) == [{"path": str(out)}]
    assert "<html" in out.read_text()
    assert run("law", "--out", "/proc/no/such/law.html", fails=True)[0]["where"] == "--out"
    assert run("lintmigrations") == [{"ok": True, "refused": []}]


def test_the_examples_second_seed_says_why_it_makes_nothing(fresh_db, settings, tmp_path):
    settings.QUARTERDECK_DATA = tmp_path
    run("example", "ensure")
    (tmp_path / "order.json").write_text('{"order_id": "A-1001", "amount": "20.00"}')
    run("submit", "refund", "--input", str(tmp_path / "order.json"), "--request-key", "example:A-1001")
    told = run("example", "seed")[0]
    assert told["seeded"] is False
    assert "example reset" in told["reason"]


def test_there_are_no_passwords_without_an_example(fresh_db, settings, tmp_path):
    settings.QUARTERDECK_DATA = tmp_path
    assert run("example", "passwords", fails=True)[0]["code"] == "not_found"


def test_as_a_process(db, admin, tenant, tmp_path):
    def manage(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=db.environ(), input=stdin, capture_output=True, timeout=patient(60)
        )

    done = manage("submit", "parcel", "--input", "-", "--tenant", tenant.slug, stdin=b'{"order_id":"W1"}')
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "accepted"
    wrong = manage("submit", "parcel", "--input", "-", "--tenant", tenant.slug, stdin=b'{"order_id":1,"order_id":2}')
    assert wrong.returncode == 1
    assert json.loads(wrong.stderr)["where"] == "/order_id"
    assert wrong.stdout == b""
    assert manage("submit").returncode == 2
    assert manage("runs", "--status", "done").returncode == 2
