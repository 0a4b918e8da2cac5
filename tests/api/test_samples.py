"""Samples over the API, by command and on the tool's page: one action behind all of them (C8.8)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.tools.builtin_samples import builtin_samples
from runtime.tools.contract import check_contract
from tests.api.test_commands import file, run
from tests.support.api import caller, problem
from tests.support.office import writing
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C8.8"), pytest.mark.django_db(transaction=True)]

CONTRACT = writing(
    "books.look", samples="required", side_effect="read", recovery="replayable", idempotency="none", owner="finance"
)
SAMPLES = builtin_samples(check_contract(CONTRACT))
PATH = "tools/books.look/versions/1/samples/"


@pytest.fixture
def keeper(tenant) -> Any:
    """An admin's caller, with a tool that asks for samples."""
    admin = caller(tenant, "admin")
    assert admin.post("tools/", CONTRACT).status_code == 201
    return admin


def test_samples_are_kept_checked_and_signed_over_the_api(keeper, tenant):
    empty = keeper.get(PATH).json()
    assert (empty["required"], empty["blocked"], empty["samples"]) == (True, True, [])
    early = problem(keeper.post(f"{PATH}sign/", {"reason": "at once"}), 409)
    assert (early["code"], "normal" in early["missing"]) == ("samples_unfit", True)
    assert keeper.post(PATH, {"samples": SAMPLES}).status_code == 201
    again = keeper.post(PATH, {"samples": SAMPLES})
    assert (again.status_code, again.json()["added"]) == (200, 0)
    told = keeper.post(f"{PATH}check/").json()
    assert (told["passed"], len(told["checks"]), told["missing"]) == (True, 6, [])
    signed = keeper.post(f"{PATH}sign/", {"reason": "looked through"}).json()
    assert (signed["replayed"], signed["samples_sha256"]) == (False, told["samples_sha256"])
    shown = keeper.get(PATH).json()
    assert (shown["blocked"], shown["signatures"][0]["reason"]) == (False, "looked through")
    assert shown["samples"][0]["recording"] == SAMPLES[0]["recording"]
    # What was recorded may be a customer's answer: not everybody reads it.
    assert "recording" not in caller(tenant, "viewer").get(PATH).json()["samples"][0]


@pytest.mark.parametrize(
    ("samples", "where"),
    [
        ([{**SAMPLES[0], "kind": "odd"}], "/samples/0/kind"),
        ([SAMPLES[0], {**SAMPLES[1], "expect": {}}], "/samples/1/expect"),
        ([], "/samples"),
        ("all", "/samples"),
    ],
    ids=["kind", "expect", "none", "text"],
)
def test_bad_samples_name_their_place_and_keep_nothing(keeper, samples, where):
    found = problem(keeper.post(PATH, {"samples": samples}), 400)
    assert found["where"].startswith(where)
    assert keeper.get(PATH).json()["samples"] == []
    problem(keeper.post(f"{PATH}sign/", {"reason": "x", "taken_from": "1"}), 400)


def test_a_contract_is_read_with_its_owner_and_its_evidence(keeper):
    evidence = {"holds": "answer.receipt != ''", "kind": "receipt"}
    contract = writing("books.pay", owner="finance", success_evidence=evidence)
    assert keeper.post("tools/", contract).status_code == 201
    found = {one["name"]: one["contract"] for one in keeper.get("tools/").json()["items"]}
    assert (found["books.pay"]["owner"], found["books.pay"]["success_evidence"]) == ("finance", evidence)
    schema = keeper.get("tools/schema/").json()["properties"]
    assert {"owner", "success_evidence", "samples"} <= set(schema)


def test_the_same_by_command(keeper, tenant, tmp_path):
    slug = ("--tenant", tenant.slug)
    given = file(tmp_path, {"samples": SAMPLES})
    assert run("tool", "samples", "add", "books.look@1", given, *slug)[0]["added"] == 6
    assert run("tool", "samples", "check", "books.look@1", *slug)[0]["passed"] is True
    unsaid = run("tool", "samples", "sign", "books.look@1", *slug, fails=True)[0]
    assert unsaid["code"] == "bad_input"
    assert run("tool", "samples", "sign", "books.look@1", "--reason", "fine", *slug)[0]["signed_by"] == "service:cli"
    assert keeper.post("tools/", {**CONTRACT, "version": 2, "timeout_s": 3}).status_code == 201
    taken = ("--from", "1", "--reason", "only quicker")
    assert run("tool", "samples", "sign", "books.look@2", *taken, *slug)[0]["passed"] is True
    assert run("tool", "samples", "list", "books.look@2", *slug)[0]["blocked"] is False
    assert run("tool", "samples", "add", "books.look@1", *slug, fails=True)[0]["where"] == "file"
    assert run("tool", "samples", "list", "books.none@1", *slug, fails=True)[0]["code"] == "not_found"


def test_the_page_shows_what_is_recorded_and_signs_it(keeper, tenant):
    admin, viewer = Reader(tenant, "admin"), Reader(tenant, "viewer")
    assert "samples not signed" in admin.get("/tools/")
    page = admin.get("/tools/books.look/")
    assert "No call of this version starts" in page
    assert "Finance" in page
    refused = admin.post("/tools/books.look/versions/1/sign/", {"reason": "now"}, 409).content.decode()
    assert "Nothing was signed." in refused
    keeper.post(PATH, {"samples": SAMPLES})
    viewer.post("/tools/books.look/versions/1/sign/", {"reason": "now"}, 403)
    assert "Check and sign" not in viewer.get("/tools/books.look/")
    admin.post("/tools/books.look/versions/1/sign/", {"reason": "looked through"})
    page = admin.get("/tools/books.look/?version=1")
    assert "No call of this version starts" not in page
    assert "looked through" in page
    assert "unreadable answer" in page
    assert json.dumps(SAMPLES[0]["recording"]) not in page
