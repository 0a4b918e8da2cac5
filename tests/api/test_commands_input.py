"""Commands with good and bad input: a problem that names the place and the mend, exit code 1, and nothing changed."""

from __future__ import annotations

import io
import uuid
from typing import Any

import orjson
import pytest
from django.core.management import CommandError, call_command

from runtime.kernel.ids import uuid7
from runtime.models import Breaker, Verifier
from runtime.store.tx import tenant_tx
from tests.api.test_commands import file, run

pytestmark = [pytest.mark.req("C6.1"), pytest.mark.django_db(transaction=True)]

NOBODY = "01900000-0000-7000-8000-000000000000"


@pytest.fixture
def slug(admin, tenant) -> tuple[str, str]:
    return "--tenant", tenant.slug


def refused(*arguments: str) -> dict[str, Any]:
    """Run a command that fails; return its problem, which says what is wrong in words."""
    (problem,) = run(*arguments, fails=True)
    assert problem["detail"]
    return problem  # type: ignore[no-any-return]


def misused(*arguments: str) -> str:
    """Run a command in a way there is not; return what it says."""
    with pytest.raises(CommandError) as wrong:
        call_command(*arguments, stdout=io.StringIO(), stderr=io.StringIO())
    return str(wrong.value)


def test_the_law_is_written_as_a_page(tmp_path):
    path = tmp_path / "deep" / "law.html"
    assert run("law", "--out", str(path)) == [{"path": str(path)}]
    page = path.read_text()
    assert "mark_successed" in page
    assert "<script" not in page
    for wrong in (str(tmp_path), str(path / "below.html")):
        problem = refused("law", "--out", wrong)
        assert (problem["code"], problem["where"]) == ("bad_input", "--out")
        assert wrong in problem["detail"]


@pytest.mark.req("A2.5")
def test_a_verifier_is_authorised_once(slug, tenant):
    named = ("verifier", "authorise", "in_books@1", "--method", "human_review", "--description", "looks it up", *slug)
    assert run(*named) == [{"verifier": "in_books@1", "created": True}]
    assert run(*named) == [{"verifier": "in_books@1", "created": False}]
    for wrong in ("in_books", "in_books@0", "In Books@1", "@1", "x@y", ""):
        problem = refused("verifier", "authorise", wrong, *slug)
        assert (problem["code"], problem["where"]) == ("bad_input", "reference")
        assert "name@version" in problem["remediation"]
    assert "invalid choice" in misused("verifier", "authorise", "x@1", "--method", "a_guess", *slug)
    with tenant_tx(tenant.id):
        assert [(one.name, one.number, one.method) for one in Verifier.objects.all()] == [
            ("in_books", 1, "human_review")
        ]


@pytest.mark.req("C2.6")
def test_messages_in_quarantine(slug, tenant):
    messages = [uuid7(), uuid7()]
    with tenant_tx(tenant.id) as tx:
        for message in messages:
            body = orjson.dumps({"text": "hello"}).decode()
            tx.send("outbox_insert", (message, tx.tenant_id, uuid7(), "test.gone", body, tx.now()))
            tx.send("message_claim", (60, message, 86_400.0))
            tx.send("quarantine_insert", (uuid7(), "nobody makes such messages", message, 1))
            tx.send("message_done", ("nobody makes such messages", message, 1))
    first, second = run("quarantine", "list", *slug)
    assert {first["topic"], second["topic"]} == {"test.gone"}
    problem = refused("quarantine", "discard", str(first["id"]), *slug)
    assert problem["code"] == "bad_input"
    for act in ("replay", "discard"):
        assert refused("quarantine", act, "7", "--reason", "x", *slug)["where"] == "ID"
        assert refused("quarantine", act, NOBODY, "--reason", "x", *slug)["code"] == "not_found"
    assert "invalid choice" in misused("quarantine", "list", "--state", "ajar", *slug)
    assert len(run("quarantine", "list", *slug)) == 2, "nothing has changed"
    assert run("quarantine", "discard", str(first["id"]), "--reason", "old news", *slug)[0]["resolution"] == "discarded"
    assert run("quarantine", "replay", str(second["id"]), "--reason", "mended", *slug)[0]["replayed"] is False
    assert refused("quarantine", "replay", str(first["id"]), *slug)["code"] == "conflict"
    assert run("quarantine", "list", *slug) == []


@pytest.mark.req("B4.2")
def test_breakers_by_command(slug, tenant):
    with tenant_tx(tenant.id) as tx:
        one = Breaker.objects.create(
            tenant=tenant, tool="core.echo@1", error_class="timeout", failures=3, last_failure_at=tx.now()
        )
    reason = ("--reason", "the shop is down")
    for act in ("close", "open"):
        assert refused("limit", act, "x", *reason, *slug)["where"] == "ID"
        assert refused("limit", act, NOBODY, *reason, *slug)["code"] == "not_found"
        assert refused("limit", act, str(one.id), "--reason", "", *slug)["code"] == "bad_input"
        assert "--reason" in misused("limit", act, str(one.id), *slug)
    for seconds in ("0", "86401", "nan"):
        assert refused("limit", "open", str(one.id), "--seconds", seconds, *reason, *slug)["where"] == "/seconds"
    with tenant_tx(tenant.id):
        assert Breaker.objects.get().state == "closed"
    run("limit", "open", str(one.id), "--seconds", "60", *reason, *slug)
    with tenant_tx(tenant.id):
        assert Breaker.objects.get().state == "open"
    run("limit", "close", str(one.id), *reason, *slug)
    with tenant_tx(tenant.id):
        assert Breaker.objects.get().state == "closed"


@pytest.mark.req("C2.7")
def test_limits_by_command(slug):
    for wrong, where in (
        (("tool", "core.echo"), "/most"),
        (("tool", "--most", "3"), "/name"),
        (("tenant", "core.echo", "--most", "3"), "/name"),
        (("tenant", "--most", "0"), "/most"),
        (("tenant", "--calls", "3"), "/per_s"),
        (("tenant", "--calls", "3", "--per-s", "0"), "/per_s"),
    ):
        assert refused("limit", "set", *wrong, *slug)["where"] == where, wrong
    assert refused("limit", "remove", NOBODY, *slug)["code"] == "not_found"
    assert run("limit", "list", *slug) == []


@pytest.mark.req("C1.5")
def test_stops_by_command(slug):
    reason = ("--reason", "it pays twice")
    for minutes in ("0", "-1", "nan", "527041"):
        assert refused("stop", "set", "tenant", *reason, "--minutes", minutes, *slug)["where"] == "--minutes"
    assert refused("stop", "set", "tool", *reason, *slug)["code"] == "bad_input"
    assert refused("stop", "set", "tenant", "a-name", *reason, *slug)["code"] == "bad_input"
    assert refused("stop", "set", "tenant", "--reason", "", *slug)["code"] == "bad_input"
    assert "invalid choice" in misused("stop", "set", "planet", *reason, *slug)
    assert "--reason" in misused("stop", "set", "tenant", *slug)
    assert refused("stop", "lift", "x", *slug)["where"] == "ID"
    assert refused("stop", "lift", NOBODY, *slug)["code"] == "not_found"
    assert [one for one in run("stop", "list", *slug) if one["scope"] != "global"] == []


@pytest.mark.req("C8.4")
def test_runbooks_by_command(slug, tmp_path):
    good = file(tmp_path, b"# Ask the bank", "good.md")
    assert refused("runbook", "set", "/no/such/file", *slug)["where"] == "/no/such/file"
    latin = file(tmp_path, "Störung".encode("latin-1"), "latin.md")
    assert refused("runbook", "set", latin, *slug)["where"] == latin
    long = file(tmp_path, b"x" * 4_000_001, "long.md")
    assert refused("runbook", "set", long, *slug)["code"] == "payload_too_large"
    assert refused("runbook", "set", good, "--tool", "t" * 1000, *slug)["where"] == "/tool"
    assert refused("runbook", "set", good, "--expected-version", "3", *slug)["code"] == "stale"
    assert run("runbook", "list", *slug) == []
    assert run("runbook", "set", good, "--tool", "shop.pay", *slug)[0]["version"] == 1
    assert [one["tool"] for one in run("runbook", "list", *slug)] == ["shop.pay"]


@pytest.mark.req("C5.3")
def test_approvals_by_command(slug):
    for option in ("--since", "--until"):
        for wrong in ("yesterday", "2026-12-24", "2026-12-24T18:00:00", "9999-12-31T23:59:59Z"):
            problem = refused("approvals", "export", option, wrong, *slug)
            assert (problem["code"], problem["where"]) == ("bad_input", option)
    assert refused("approvals", "export", "--tenant", "no-such")["code"] == "not_found"
    assert "invalid int" in misused("approvals", "export", "--limit", "many", *slug)
    assert run("approvals", "export", "--since", "2026-12-24T18:00:00Z", *slug) == []
    (schema,) = run("approvals", "schema")
    assert schema["type"] == "object"


def test_the_ids_here_are_nobodys():
    assert uuid.UUID(NOBODY)
