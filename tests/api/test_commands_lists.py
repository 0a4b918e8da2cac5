"""Lists on the command line: what is registered, tenants, tokens; one item a line, quietly ended by who reads it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command

from runtime.models import Membership
from runtime.store.tx import tenant_tx
from tests.api.test_commands import file, run
from tests.support.api import WORKFLOW, Caller, problem
from tests.support.factories import make_member
from tests.support.patience import patient

pytestmark = [pytest.mark.req("C6.1"), pytest.mark.django_db(transaction=True)]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def slug(tenant) -> tuple[str, str]:
    return ("--tenant", tenant.slug)


def test_what_is_registered_is_listed_as_the_api_lists_it(admin, slug):
    for kind in ("tool", "workflow"):
        listed, items = run(kind, "list", *slug), admin.get(f"{kind}s/").json()["items"]
        assert [one["name"] for one in listed] == [one["name"] for one in items]
        assert listed, "one line each"
    assert "core.echo" in {one["name"] for one in run("tool", "list", *slug)}


def test_tenants_are_listed(tenant):
    (one,) = [one for one in run("tenant", "list") if one["slug"] == tenant.slug]
    assert one == {"id": str(tenant.id), "slug": tenant.slug, "suspended": False}


def test_tokens_are_listed_and_revoked(admin, tenant, slug):
    user = make_member(tenant, "viewer")
    made = run("token", user.username, "--json", *slug)[0]
    (listed,) = [one for one in run("token", "list", *slug) if one["user"] == user.username]
    assert (listed["id"], listed["revoked_at"]) == (made["token_id"], None)
    assert "token" not in listed
    assert run("token", "revoke", made["token_id"], *slug)[0] == {"token_id": made["token_id"], "revoked": True}
    problem(Caller(made["token"], tenant).get("runs/"), 401)
    assert run("token", "revoke", str(uuid.uuid4()), *slug, fails=True)[0]["code"] == "not_found"
    assert run("token", "revoke", *slug, fails=True)[0]["where"] == "ID"
    assert run("token", user.username, made["token_id"], *slug, fails=True)[0]["where"] == "ID"


@pytest.mark.parametrize(("days", "mend"), [("0", "more than 0"), ("-1", "more than 0"), ("100000", "fewer")])
def test_a_token_of_no_days_is_told_to_have_more(tenant, slug, days, mend):
    user = make_member(tenant, "viewer")
    refused = run("token", user.username, f"--days={days}", *slug, fails=True)[0]
    assert refused["where"] == "/days"
    assert mend in refused["remediation"]


def test_a_mistyped_workflow_names_the_list_of_them(admin, slug, tmp_path):
    refused = run("submit", "refnud", "--input", file(tmp_path, {}), *slug, fails=True)[0]
    assert (refused["where"], refused["remediation"]) == (
        "/workflow",
        "`manage.py workflow list` lists the registered ones.",
    )
    assert "workflows/" in admin.post("tasks/", {"workflow": "refnud", "input": {}}).json()["remediation"]
    register = run("workflow", "register", file(tmp_path, WORKFLOW), *slug)[0]
    assert register["name"] in {one["name"] for one in run("workflow", "list", *slug)}


@pytest.mark.usefixtures("fresh_db")
def test_without_any_tenant_it_is_told_how_one_is_made():
    assert run("tenant", "list") == []
    refused = run("runs", fails=True)[0]
    assert refused["detail"] == "There is no tenant yet."
    assert "tenant create SLUG" in refused["remediation"]


def test_a_command_whose_reader_has_gone_ends_quietly(tenant):
    """`runs | head -1`, made certain: nobody reads from the first line on."""
    reads, writes = os.pipe()
    os.close(reads)
    for words in (["tenant", "list"], ["law"]):
        told = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            stdout=writes,
            stderr=subprocess.PIPE,
            text=True,
            timeout=patient(60),
        )
        assert told.stderr == "", words
        assert told.returncode == 141, words
    os.close(writes)


def test_the_manuals_commands_make_the_first_tenant_and_person(monkeypatch):
    """As they stand in README, but for the password, which the first one asks for."""
    chapter = (ROOT / "README.md").read_text().partition("### Your first tenant and person\n")[2]
    block = chapter.partition("```sh\n")[2].partition("```")[0]
    made, create, member = [line.removeprefix(".venv/bin/python manage.py ").split() for line in block.splitlines()]
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", "a long way to the harbour")
    call_command(*made, "--no-input", stdout=io.StringIO())
    run(*create)
    run(*member)
    user = get_user_model().objects.get(username="ada")
    (tenant,) = [one for one in run("tenant", "list") if one["slug"] == "harbour"]
    assert user.check_password("a long way to the harbour")
    with tenant_tx(uuid.UUID(tenant["id"])):
        assert list(Membership.objects.values_list("user_id", "role")) == [(user.pk, "admin")]
