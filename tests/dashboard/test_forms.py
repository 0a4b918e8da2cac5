"""Each field names its hint and its error, so that who cannot see them hears them (WCAG 2.2: 1.3.1, 3.3.1)."""

from __future__ import annotations

import re

import pytest

from approvals.models import Request
from runtime.queries.stops import list_stops
from runtime.store.tx import tenant_tx
from tests.support.pages import Reader, Scene, text_of


def described(page: str) -> set[str]:
    """Return the ids by which fields are described, after checking that each is in the page exactly once."""
    found = {one for ids in re.findall(r'aria-describedby="([^"]+)"', page) for one in ids.split()}
    ids = re.findall(r'\sid="([^"]+)"', page)
    for one in found:
        assert ids.count(one) == 1, one
    return found


@pytest.mark.parametrize(
    ("path", "data", "wanted"),
    [
        ("/workflows/plain/start/", {"input": "{"}, {"id_input_helptext", "id_input_error"}),
        ("/tokens/", {"name": "", "days": "x"}, {"id_name_error", "id_days_error"}),
        ("/stops/", {"scope": "tool", "name": "", "reason": ""}, {"id_name_helptext", "id_reason_error"}),
        ("/limits/", {"scope": "tool", "version": "0", "reason": ""}, {"id_name_helptext", "id_most_error"}),
        ("/members/", {"username": "", "role": "viewer"}, {"id_username_error"}),
    ],
)
def test_a_refused_form_ties_each_error_to_its_field(made, admin, path, data, wanted):
    page = text_of(admin.post(path, data, 400))
    assert wanted <= described(page)
    assert page.count('aria-invalid="true"') == len([one for one in described(page) if one.endswith("_error")])
    described(admin.get(path))


def test_a_refused_verb_ties_each_error_to_its_field(made: Scene, admin: Reader):
    step = made.engine.step(made.runs["failed"], "a")
    address = f"/steps/{step.id}/verbs/mark-successed/"
    form = admin.form(admin.get(address))
    page = text_of(admin.post(address, {**form, "reason": "", "typed": "0"}, 400))
    names = ("reason", "evidence", "typed", "checked")
    assert {f"id_{name}_error" for name in names} <= described(page)
    assert "id_reason_helptext" in described(page), "the hint stays beside the error"


def test_a_question_names_the_hint_of_each_field(made: Scene):
    schema = {
        "type": "object",
        "required": ["seat"],
        "properties": {"seat": {"type": "string", "description": "As printed on the card."}},
    }
    ask = {"id": "ask", "kind": "input", "title": "Which seat?", "role": "approver", "form": schema}
    made.engine.submit({"format": "quarterdeck/1", "name": "seats", "nodes": [ask]}, {})
    approver = Reader(made.tenant, "approver")
    with tenant_tx(made.tenant.id):
        request = Request.objects.get(title="Which seat?")
    page = approver.get(f"/inbox/{request.id}/")
    assert "As printed on the card." in page
    assert any(one.endswith("seat_helptext") for one in described(page))


@pytest.mark.parametrize("csrf", [False, True])
def test_a_form_that_cannot_be_read_is_a_page_that_says_so(made, csrf):
    reader = Reader(made.tenant, "admin", csrf=csrf)
    reader.client.cookies["csrftoken"] = "a" * 32
    for content_type in ("multipart/form-data", "multipart/form-data; boundary=" + "x" * 300):
        answer = reader.client.generic("POST", "/stops/", b"--x\r\nno head", content_type=content_type)
        assert answer.status_code == 400
        assert "What was sent could not be read." in answer.content.decode()
    assert not list_stops(actor=made.engine.actor)
