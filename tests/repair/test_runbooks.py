"""Runbooks: the closest one is shown, each version is kept, admins alone write, and two never write over each other."""

from __future__ import annotations

import io

import pytest
from django.core.management import call_command

from repair.actions.runbooks import write_runbook
from repair.models import Runbook
from repair.queries import get_case
from repair.runbooks import list_runbooks, runbook_versions, scopes_of
from runtime.kernel.errors import BadInput, PermissionDenied, Stale
from runtime.queries.people import list_audit
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.api import caller, problem
from tests.support.pages import Reader
from tests.support.race import together

pytestmark = [pytest.mark.req("C8.4"), pytest.mark.django_db(transaction=True)]


def write(desk, text, *, actor=None, tool="desk.human", error_class="", expected=0, reason=""):
    return write_runbook(
        actor=actor or desk.admin, tool=tool, error_class=error_class, text=text, expected_version=expected,
        reason=reason,
    )  # fmt: skip


def test_the_closest_runbook_is_shown_on_the_case(desk):
    case = desk.case(desk.lost("human"))
    assert (case["tool"], case["error_class"], case["runbook"]) == ("desk.human@1", "network", None)
    for tool, error_class in reversed(scopes_of("desk.human@1", "network")):
        write(desk, f"# {tool} {error_class}", tool=tool, error_class=error_class)
        shown = get_case(actor=desk.oncall, case_id=case["id"])["runbook"]
        assert (shown["tool"], shown["error_class"]) == (tool, error_class)
    # What is taken away leaves the next one.
    write(desk, "", tool="desk.human@1", error_class="network", expected=1)
    assert desk.read(case["id"])["runbook"]["error_class"] == ""
    write(desk, "another tool's", tool="desk.query")
    assert desk.read(case["id"])["runbook"]["tool"] == "desk.human@1"


def test_each_version_is_kept_and_audited(desk):
    assert write(desk, "first", reason="new tool")["version"] == 1
    assert write(desk, "second", expected=1)["version"] == 2
    assert write(desk, "second", expected=1) == {
        "tool": "desk.human", "error_class": "", "version": 2, "replayed": True,
    }  # fmt: skip
    with pytest.raises(Stale) as refused:
        write(desk, "third", expected=1)
    assert refused.value.extra["current_version"] == 2
    versions = runbook_versions(actor=desk.oncall, tool="desk.human", error_class="")
    assert [(one["version"], one["text"]) for one in versions] == [(2, "second"), (1, "first")]
    acts = [one for one in list_audit(actor=desk.admin).items if one["verb"] == "repair.runbook"]
    assert [one["details"]["version"] for one in acts] == [2, 1]
    assert acts[1]["reason"] == "new tool"


def test_admins_alone_write(desk, other_tenant):
    for actor in (desk.oncall, desk.approver, desk.integrator):
        with pytest.raises(PermissionDenied):
            write(desk, "mine", actor=actor)
    with pytest.raises(BadInput):
        write(desk, "x" * 40_001)
    with pytest.raises(BadInput):
        write(desk, "x", tool="a tool")
    write(desk, "ours")
    assert list_runbooks(actor=member(other_tenant, "admin")) == []


def test_of_two_who_write_at_once_one_is_told(desk):
    def one(text):
        def call():
            try:
                return write(desk, text)
            except Stale as problem:
                return problem

        return call

    answers = together(one("left"), one("right"))
    assert sorted(type(answer).__name__ for answer in answers) == ["Stale", "dict"]
    with tenant_tx(desk.tenant.id):
        assert Runbook.objects.count() == 1


def test_over_http_and_by_the_command(desk, tmp_path):
    admin, ada = caller(desk.tenant, "admin"), caller(desk.tenant, "oncall")
    body = {"tool": "desk.human", "text": "# Ask first", "expected_version": 0}
    assert admin.post("runbooks/", body).json()["version"] == 1
    problem(ada.post("runbooks/", {**body, "expected_version": 1, "text": "x"}), 403)
    problem(admin.post("runbooks/", {**body, "html": "x"}), 400)
    assert [one["text"] for one in ada.get("runbooks/").json()["items"]] == ["# Ask first"]
    assert ada.get("runbooks/versions/?tool=desk.human").json()["items"][0]["version"] == 1
    file = tmp_path / "book.md"
    file.write_text("# Ask the shop\n")
    out = io.StringIO()
    call_command("runbook", "set", str(file), "--tool", "desk.human", "--tenant", desk.tenant.slug, stdout=out)
    assert '"version"' in out.getvalue()
    assert ada.get("runbooks/versions/?tool=desk.human").json()["items"][0]["text"] == "# Ask the shop"


def test_the_pages_show_it_escaped_and_let_an_admin_write(desk, tenant):
    case = desk.case(desk.lost("human"))
    root, ada = Reader(tenant, "admin"), Reader(tenant, "oncall")
    page = root.get(f"/repairs/{case['id']}/")
    assert "No runbook is about this." in page
    assert "Write a runbook" in root.get("/repairs/runbooks/")
    assert "Write version 1" in root.get("/repairs/runbooks/?tool=desk.human")
    said = {
        "tool": "desk.human",
        "error_class": "",
        "text": "# Ask <b>first</b>",
        "expected_version": "0",
        "reason": "",
    }
    root.post("/repairs/runbooks/", said)
    again = root.post("/repairs/runbooks/", {**said, "text": "other"}, 409).content.decode()
    assert "Nothing was written." in again
    assert ">other</textarea>" in again
    page = ada.get(f"/repairs/{case['id']}/")
    assert "<h3>Ask &lt;b&gt;first&lt;/b&gt;</h3>" in page
    assert "Administrators write runbooks." in ada.get("/repairs/runbooks/?tool=desk.human")
    ada.post("/repairs/runbooks/", {**said, "expected_version": "1", "text": "mine"}, 403)
