"""Bad input: each is a problem detail that names the place and the mend, and nothing is written."""

from __future__ import annotations

import copy
import json

import pytest

from runtime.actions.submit import SubmitRequest, submit_task
from runtime.kernel.errors import BadInput
from runtime.store.tx import tenant_tx
from tests.support.api import WORKFLOW, problem

pytestmark = [pytest.mark.req("C6.1", "C2.2"), pytest.mark.django_db(transaction=True)]

TABLES = (
    "qd_task qd_run qd_step qd_event qd_workflow qd_workflow_version qd_tool_version qd_artifact qd_audit_entry"
    " qd_session qd_outcome qd_membership qd_api_token qd_manifest"
).split()


def census(tenant) -> dict[str, int]:
    with tenant_tx(tenant.id) as tx:
        return {t: tx.conn.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in TABLES}


@pytest.fixture
def unwritten(admin, tenant):
    """Fails when a test that uses it left a row in any table of the tenant."""
    before = census(tenant)
    yield
    assert census(tenant) == before


def changed(**parts) -> dict:
    value = copy.deepcopy(WORKFLOW)
    value["name"] = "fresh"
    value.update(parts)
    return value


def tool(node: str, *after, **more) -> dict:
    return {"id": node, "kind": "tool", "tool": "core.echo@1", "after": list(after), "input": {}, **more}


def task(**more) -> bytes:
    return json.dumps({"workflow": "parcel", "input": {"order_id": "W1"}, **more}).encode()


DEEP = b"[" * 100 + b"]" * 100

WORKFLOWS = {
    "cycle": (changed(nodes=[tool("a", "c"), tool("b", "a"), tool("c", "b")]), "/nodes", ("a", "b", "c")),
    "self loop": (changed(nodes=[tool("a", "a")]), "/nodes", ("a",)),
    "unknown node": (changed(nodes=[tool("a", "ghost")]), "/nodes/0/after/0", ("ghost",)),
    "unknown tool": (changed(nodes=[tool("a", tool="no.such@1")]), "/nodes/0/tool", ("no.such@1",)),
    "unversioned tool": (changed(nodes=[tool("a", tool="core.echo")]), "/nodes/0/tool", ()),
    "duplicate name": (changed(nodes=[tool("a"), tool("a")]), "/nodes/1/id", ("a",)),
    "wrong type": (changed(nodes=[tool("a", timeout_s="soon")]), "/nodes/0/timeout_s", ()),
    "decimal for a whole number": (
        changed(nodes=[tool("a", retry={"max_attempts": 1.0})]),
        "/nodes/0/retry/max_attempts",
        (),
    ),
    "unknown member": (changed(surprise=1), "", ("surprise",)),
    "no nodes": (changed(nodes=[]), "/nodes", ()),
    "wrong format": (changed(format="quarterdeck/9"), "/format", ()),
    "expression does not parse": (changed(nodes=[tool("a", input={"x": {"$": "input.."}})]), "/nodes/0/input", ()),
    "reads a node that is not before it": (
        changed(nodes=[tool("a", input={"x": {"$": "nodes.b.output"}}), tool("b", "a")]),
        "/nodes/0/input",
        ("b",),
    ),
}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_wrong_workflow(admin, unwritten, name):
    value, where, words = WORKFLOWS[name]
    body = problem(admin.post("workflows/", value), 400)
    assert body["where"].startswith(where), body
    assert body["remediation"]
    told = json.dumps(body)
    assert all(word in told for word in words), told


# (bytes, status, code, where) that no JSON endpoint takes, wherever they stand in a body.
BODIES = {
    "empty": (b"", 400, "invalid_json", "line 1, column 1"),
    "no JSON": (b"hello", 400, "invalid_json", "line 1, column 1"),
    "not closed": (b'{"workflow": "parcel"', 400, "invalid_json", "line 1"),
    "an array": (b"[]", 400, None, "/"),
    "NUL in a text": (task(name="a\x00b"), 400, "invalid_json", "/name"),
    "NUL in a key": (b'{"workflow":"parcel","input":{"a\\u0000":1}}', 400, "invalid_json", "/input"),
    "lone surrogate": (b'{"workflow":"parcel","input":{"order_id":"\\ud800"}}', 400, "invalid_json", "/input/order_id"),
    "bare surrogate bytes": (b'{"workflow":"parcel","input":{"order_id":"\xed\xa0\x80"}}', 400, "invalid_json", "byte"),
    "not UTF-8": (b'{"workflow":"\xff"}', 400, "invalid_json", "byte"),
    "NaN": (b'{"workflow":"parcel","input":{"order_id":NaN}}', 400, "invalid_json", "/input/order_id"),
    "Infinity": (b'{"workflow":"parcel","input":{"order_id":-Infinity}}', 400, "invalid_json", "/input/order_id"),
    "a number nobody holds": (b'{"workflow":"parcel","input":{"n":1e999}}', 400, "invalid_json", "/input/n"),
    "a number that is rounded": (
        b'{"workflow":"parcel","input":{"n":9007199254740993}}',
        400,
        "invalid_json",
        "/input/n",
    ),
    "duplicate keys": (
        b'{"workflow":"parcel","input":{"order_id":"1","order_id":"2"}}',
        400,
        "invalid_json",
        "/input/order_id",
    ),
    "duplicate keys at the top": (b'{"workflow":"parcel","workflow":"x","input":{}}', 400, "invalid_json", "/workflow"),
    "too deep": (b'{"workflow":"parcel","input":' + DEEP + b"}", 400, "invalid_json", "/input"),
    "very deep": (b'{"workflow":"parcel","input":' + b"[" * 200_000, 400, "invalid_json", "/input"),
    "too large": (task(goal="x" * 1_100_000), 413, "payload_too_large", None),
    "10 MB": (task(goal="x" * 10_000_000), 413, "payload_too_large", None),
    "1.0 where the body wants 1": (task(version=1.0), 400, None, "/version"),
    "1.0 where the input wants 1": (
        b'{"workflow":"parcel","input":{"order_id":"1","boxes":1.0}}',
        400,
        "schema_mismatch",
        "/input/boxes",
    ),
    "a text for a number": (task(priority="1"), 400, None, "/priority"),
    "true for a number": (task(priority=True), 400, None, "/priority"),
    "out of range": (task(priority=101), 400, None, "/priority"),
    "unknown member": (task(priorty=1), 400, None, "/"),
    "missing member": (b'{"workflow":"parcel"}', 400, None, "/"),
    "input misses a member": (b'{"workflow":"parcel","input":{}}', 400, "schema_mismatch", "/input"),
    "wrong type in the input": (
        b'{"workflow":"parcel","input":{"order_id":7}}',
        400,
        "schema_mismatch",
        "/input/order_id",
    ),
    "a time without offset": (task(deadline="2030-01-01T00:00:00"), 400, None, "/deadline"),
    "no time": (task(scheduled_at="tomorrow"), 400, None, "/scheduled_at"),
    "a time out of range": (task(data_time="9999-12-31T23:59:59Z"), 400, None, "/data_time"),
    "an endless timeout": (task(timeout=1e300), 400, None, "/timeout"),
    "a retry that is no number": (task(retry={"max_attempts": "abc"}), 400, None, "/retry/max_attempts"),
    "more retries than anybody waits for": (task(retry={"max_attempts": 101}), 400, None, "/retry/max_attempts"),
    "a class that is never retried": (task(retry={"retry_on": ["business"]}), 400, None, "/retry/retry_on/0"),
    "a member of retry that is misspelt": (task(retry={"max_atempts": 3}), 400, None, "/retry"),
    "a success that is a text": (task(success="it arrived"), 400, None, "/success"),
    "a verifier that is a number": (task(success={"verifier": 1}), 400, None, "/success/verifier"),
    "evidence that is no list": (task(success={"evidence": "E-1"}), 400, None, "/success/evidence"),
    "a budget that is a number": (task(budget=10), 400, None, "/budget"),
    "money that is a number": (task(budget={"limit": 10.5, "currency": "EUR"}), 400, None, "/budget/limit"),
    "money without a currency": (task(budget={"limit": "10.50"}), 400, None, "/budget"),
    "a currency that is none": (task(budget={"limit": "10.50", "currency": "euro"}), 400, None, "/budget/currency"),
    "a budget of half a call": (task(budget={"calls": 1.5}), 400, None, "/budget/calls"),
    "a budget of less than nothing": (task(budget={"effects": -1}), 400, None, "/budget/effects"),
    "a budget of something else": (task(budget={"tokens": 5}), 400, None, "/budget"),
    "a criterion of something else": (task(success={"score": 5}), 400, None, "/success"),
    "a verifier that is not there": (task(success={"verifier": "nobody@1"}), 400, None, "/success/verifier"),
    "a parent that is no id": (task(parent="W1"), 400, None, "/parent"),
    "a parent that is not there": (task(parent="00000000-0000-7000-8000-000000000000"), 404, None, "/parent"),
    "a scope of numbers": (task(scope={"tools": [1]}), 400, None, "/scope/tools/0"),
    "a scope without the tool": (task(scope={"tools": ["shop.call"]}), 400, None, "/scope/tools"),
    "unknown workflow": (task(workflow="nope"), 404, "not_found", "/workflow"),
    "unknown version": (task(version=99), 404, "not_found", "/workflow"),
    "a name too long": (task(name="n" * 301), 400, None, "/name"),
    "NUL in the workflow's name": (task(workflow="a\x00"), 400, "invalid_json", "/workflow"),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_wrong_task(admin, unwritten, name):
    raw, status, code, where = BODIES[name]
    body = problem(admin.raw("POST", "tasks/", raw), status, code)
    if where is not None:
        assert body["where"].startswith(where), body
    assert body["remediation"], body


@pytest.mark.parametrize("path", ["workflows/", "tools/", "members/", "tasks/bulk/"])
@pytest.mark.parametrize("name", [n for n, case in BODIES.items() if case[2] == "invalid_json"])
def test_no_endpoint_takes_json_with_loss(admin, unwritten, path, name):
    body = problem(admin.raw("POST", path, BODIES[name][0]), 400, "invalid_json")
    assert body["where"]
    assert body["remediation"]


@pytest.mark.req("A4.1")
@pytest.mark.parametrize(
    ("terms", "where"),
    [
        ({"retry": {"max_attempts": "abc"}}, "/retry/max_attempts"),
        ({"success": {"evidence": [1]}}, "/success/evidence/0"),
        ({"budget": {"limit": "ten", "currency": "EUR"}}, "/budget/limit"),
    ],
    ids=["retry", "success", "budget"],
)
def test_a_tasks_terms_are_checked_by_the_action_itself(admin, unwritten, terms, where):
    """A program of ours that calls the action is held to the same as a caller of the API."""
    with pytest.raises(BadInput) as refused:
        submit_task(actor=admin.actor, request=SubmitRequest(workflow="parcel", input={"order_id": "W1"}, **terms))
    assert refused.value.where == where
    assert refused.value.remediation


def test_a_10_mb_workflow(admin, unwritten):
    value = changed(description="x" * 10_000_000)
    problem(admin.post("workflows/", value), 413, "payload_too_large")


def test_a_deep_workflow(admin, unwritten):
    raw = json.dumps(changed()).encode().replace(b'"input": {}', b'"input": {"x": ' + DEEP + b"}")
    problem(admin.raw("POST", "workflows/", raw), 400, "invalid_json")


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_another_media_type(admin, unwritten, content_type):
    body = problem(admin.raw("POST", "tasks/", task(), content_type=content_type), 415, "unsupported_media_type")
    assert body["where"] == "header Content-Type"


def test_another_charset(admin, unwritten):
    answer = admin.raw("POST", "tasks/", task(), content_type="application/json; charset=latin-1")
    problem(answer, 415)


@pytest.mark.parametrize("key", ["", " ", "k" * 201, "a\tb"])
def test_a_wrong_idempotency_key(admin, unwritten, key):
    body = problem(admin.raw("POST", "tasks/", task(), Idempotency_Key=key), 400)
    assert body["where"] == "header Idempotency-Key"


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("runs/?limit=0", "query limit"),
        ("runs/?limit=501", "query limit"),
        ("runs/?limit=1.0", "query limit"),
        ("runs/?limit=%D9%A3", "query limit"),
        ("runs/?limit=99999999999999999999999", "query limit"),
        ("runs/?status=done", "query status"),
        ("runs/?statsu=failed", "query statsu"),
        ("runs/?task=7", "query task"),
        ("runs/?cursor=abc", "query cursor"),
        ("runs/?created_from=yesterday", "query created_from"),
        ("runs/?workflow=%00", "query workflow"),
        ("runs/?count=maybe", "query count"),
        ("tasks/?cursor=eyJ9", "query cursor"),
        ("audit/?cursor=x:y:z", "query cursor"),
        ("search/?q=", "query q"),
        ("search/?q=a", "query q"),
        ("search/?q=a%00b", "query q"),
        ("tools/?cursor=%FF", "query cursor"),
    ],
)
def test_a_wrong_query(admin, path, where):
    assert problem(admin.get(path), 400)["where"] == where


def test_a_cursor_of_one_list_or_tenant_is_of_no_use_in_another(admin, stranger):
    for _ in range(3):
        admin.submit()
    cursor = admin.get("runs/?limit=1").json()["next"]
    assert admin.get(f"runs/?limit=1&cursor={cursor}").status_code == 200
    problem(admin.get(f"tasks/?cursor={cursor}"), 400)
    problem(stranger.get(f"runs/?cursor={cursor}"), 400)


# Written out: pytest's workers must all collect the same names.
AN_ID = "bce2f863-5fef-48d9-9922-4b8ffb10d9d7"


@pytest.mark.parametrize("wrong", ["7", "x", "%00", "a" * 300, "urn:uuid:" + AN_ID, "{" + AN_ID + "}"])
@pytest.mark.parametrize(
    "path", ["tasks/{}/", "runs/{}/", "runs/{}/events/", "steps/{}/", "operations/{}/", "artifacts/{}/"]
)
def test_an_id_that_is_none(admin, path, wrong):
    problem(admin.get(path.format(wrong)), 404, "not_found")


def test_addresses_and_methods_that_are_not_there(admin):
    assert "docs" in problem(admin.get("nothing/"), 404)["remediation"]
    assert "slash" in problem(admin.get("runs"), 404)["remediation"]
    answer = admin.send("PUT", "runs/")
    problem(answer, 405, "method_not_allowed")
    assert "GET" in answer["Allow"]


def test_bulk_answers_each_item_and_writes_the_good_ones(admin, tenant):
    good = {"workflow": "parcel", "input": {"order_id": "W1"}}
    items = [good, {**good, "priority": 1.0}, {**good, "workflow": "nope"}, {**good, "input": {}}, 7, good]
    answer = admin.post("tasks/bulk/", {"tasks": items})
    body = answer.json()
    assert (answer.status_code, body["accepted"], body["refused"]) == (202, 2, 4)
    places = [one.get("where") for one in body["items"]]
    assert places == [None, "/tasks/1/priority", "/tasks/2/workflow", "/tasks/3/input", "/tasks/4", None]
    assert [one.get("index") for one in body["items"]] == [None, 1, 2, 3, 4, None]
    assert len(admin.get("tasks/").json()["items"]) == 2


@pytest.mark.parametrize("value", [{"tasks": []}, {"tasks": {}}, {}, {"tasks": [1] * 1001}])
def test_a_wrong_bulk(admin, unwritten, value):
    problem(admin.post("tasks/bulk/", value), 400)


@pytest.mark.parametrize("declared", ["", "sha-256=:AAAA:", "sha-256=:" + "A" * 43 + "=:", "md5=:AAAA:"])
def test_an_upload_without_its_hash(admin, unwritten, declared):
    body = problem(admin.raw("POST", "artifacts/", b"abc", content_type="text/plain", Content_Digest=declared), 400)
    assert body["where"] == "header Content-Digest"
