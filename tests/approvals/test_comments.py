"""Comments with mentions and attachments: artifacts by hash, kept, bounded, and read by whoever may read payloads."""

from __future__ import annotations

import hashlib
import uuid

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from approvals.actions import comments
from approvals.actions.comments import comment_request
from approvals.queries import get_request
from runtime.actions.artifacts import upload_artifact
from runtime.kernel.canonical import digest
from runtime.kernel.errors import BadInput
from runtime.models import Artifact
from runtime.store.tx import tenant_tx
from tests.support.api import caller, problem
from tests.support.factories import make_member, make_user
from tests.support.office import Office
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C5.3", "B6.3"), pytest.mark.django_db(transaction=True)]

OFFER = b"offer: 5.00 EUR"
NAMES = ("ann.b", "zoé", "李")


def upload(office, body=OFFER, media_type="text/plain"):
    made = upload_artifact(actor=office.integrator, body=body, media_type=media_type, sha256=digest(body))
    return {"artifact_id": made["artifact_id"], "sha256": made["sha256"]}


def comment(office, request, *attachments, text="see the offer"):
    return comment_request(actor=office.approver, request_id=request["id"], text=text, attachments=list(attachments))


def notes(office, request):
    return get_request(actor=office.admin, request_id=request["id"])["notes"]


def test_an_attachment_is_told_by_hash_and_kept(office):
    request = office.pending(office.ask())
    reference = {**upload(office), "name": "offer.txt"}
    answer = comment(office, request, reference, text=f"@{office.oncall.name} see the offer")
    whole = {**reference, "size": len(OFFER), "media_type": "text/plain"}
    assert (answer["attachments"], answer["mentions"]) == ([whole], [office.oncall.label])
    (said,) = notes(office, request)
    assert (said["kind"], said["details"]) == (
        "comment", {"mentions": [office.oncall.label], "attachments": [whole]},
    )  # fmt: skip
    with tenant_tx(office.tenant.id):
        assert Artifact.objects.get(id=reference["artifact_id"]).expires_at is None
    assert get_request(actor=office.admin, request_id=request["id"])["state"] == "pending"


def test_a_name_is_found_wherever_it_stands_in_a_sentence(office):
    people = [make_member(office.tenant, "approver", make_user(f"{name}-{uuid.uuid4().hex[:6]}")) for name in NAMES]
    ann, zoe, li = (one.username for one in people)
    request = office.pending(office.ask())
    text = f"Ask @{ann}. (@{zoe}), @{ann}- or @{li}? Not mail@{li}, nor @nobody."
    assert comment(office, request, text=text)["mentions"] == [f"user:{name}" for name in (ann, zoe, li)]


def test_what_is_not_attached_leaves_no_comment(office, other_tenant, monkeypatch):
    request, good = office.pending(office.ask()), upload(office)
    foreign = upload(Office(other_tenant), b"theirs")
    monkeypatch.setattr(comments, "MOST_BYTES", 100)
    wrong = [
        {**good, "sha256": "0" * 64},
        {**good, "artifact_id": str(uuid.uuid4())},
        {**good, "name": "a\nb"},
        foreign,
        upload(office, b"<script>", "text/html"),
        upload(office, b"<svg/>", "image/svg+xml"),
        upload(office, b"x" * 101),
    ]
    for one in wrong:
        with pytest.raises(BadInput) as refused:
            comment(office, request, good, one)
        assert (refused.value.where or "").startswith("/attachments/1")
    with pytest.raises(BadInput):
        comment(office, request, *[good] * 11)
    assert notes(office, request) == []


def test_its_content_is_for_those_who_may_read_payloads(office, tenant):
    request, reference = office.pending(office.ask()), upload(office)
    path = f"artifacts/{reference['artifact_id']}/content/"
    said = caller(tenant, "approver").post(
        f"approvals/{request['id']}/comments/", {"text": "see", "attachments": [{**reference, "name": "offer.txt"}]}
    )
    assert (said.status_code, said.json()["attachments"][0]["sha256"]) == (201, hashlib.sha256(OFFER).hexdigest())
    answer = caller(tenant, "approver").get(path)
    assert (answer.status_code, answer.content) == (200, OFFER)
    assert answer["Content-Disposition"].startswith("attachment")
    problem(caller(tenant, "viewer").get(path), 403)
    listed = caller(tenant, "viewer").get(f"approvals/{request['id']}/").json()["notes"][0]
    assert listed["details"]["attachments"][0]["name"] == "offer.txt"


def test_a_file_is_attached_on_the_page(office, tenant):
    request = office.pending(office.ask())
    reader = Reader(tenant, "approver")
    path = f"/inbox/{request['id']}/comments/"
    reader.post(path, {"text": "see", "file": SimpleUploadedFile("offer.txt", OFFER, "text/plain")}, 302)
    page = reader.get(f"/inbox/{request['id']}/")
    assert "offer.txt" in page
    (said,) = notes(office, request)
    (attached,) = said["details"]["attachments"]
    assert f"/artifacts/{attached['artifact_id']}/content/" in page
    assert attached["sha256"] == hashlib.sha256(OFFER).hexdigest()
    reader.post(path, {"text": "run it", "file": SimpleUploadedFile("x.html", b"<script>", "text/html")}, 400)
    reader.post(path, {"text": "", "file": SimpleUploadedFile("b.txt", b"nobody's", "text/plain")}, 400)
    assert len(notes(office, request)) == 1
    with tenant_tx(tenant.id):
        assert not Artifact.objects.filter(sha256=digest(b"nobody's")).exists()
    assert 'type="file"' not in Reader(tenant, "viewer").get(f"/inbox/{request['id']}/")


def test_content_that_came_without_a_type_is_attached_once_it_has_one(office):
    request = office.pending(office.ask())
    admin = caller(office.tenant)
    for unnamed, body in (("", b"one: 5.00"), ("application/x-www-form-urlencoded", b"two: 5.00")):
        first = admin.upload(body, unnamed).json()
        with pytest.raises(BadInput, match="are not attached"):
            comment(office, request, {name: first[name] for name in ("artifact_id", "sha256")})
        named = admin.upload(body, "text/plain").json()
        assert (named["artifact_id"], named["media_type"], named["created"]) == (
            first["artifact_id"], "text/plain", False,
        )  # fmt: skip
        answer = comment(office, request, {name: named[name] for name in ("artifact_id", "sha256")})
        assert answer["attachments"][0]["media_type"] == "text/plain"
        # A type that was named stays, and is what the next one is told.
        for other in ("text/html", unnamed):
            assert admin.upload(body, other).json()["media_type"] == "text/plain"
        assert admin.get(f"artifacts/{first['artifact_id']}/").json()["media_type"] == "text/plain"


def test_a_file_attached_on_the_page_names_the_type_of_what_was_there(office):
    request, body = office.pending(office.ask()), b"three: 5.00"
    upload(office, body, "application/octet-stream")
    reader = Reader(office.tenant, "admin")
    file = SimpleUploadedFile("offer.txt", body, "text/plain")
    reader.post(f"/inbox/{request['id']}/comments/", {"text": "see the offer", "file": file})
    assert notes(office, request)[0]["details"]["attachments"][0]["media_type"] == "text/plain"


@pytest.mark.req("C6.4")
def test_a_mention_is_heard_however_the_sentence_goes_on(office):
    request, name, suffix = office.pending(office.ask()), office.approver.name, uuid.uuid4().hex[:6]
    make_member(office.tenant, "approver", make_user(f"李雷{suffix}"))
    make_member(office.tenant, "approver", make_user(f"ana.{suffix}@example.org"))
    make_member(office.tenant, "approver", make_user(f"zoé{suffix}"))
    heard = {
        f"Please look, @{name}.": name,
        f"(@{name}) or @{name}'s place": name,
        f"@{name}-": name,
        f"请@李雷{suffix}看一下": f"李雷{suffix}",
        f"@ana.{suffix}@example.org, have a look": f"ana.{suffix}@example.org",
        f"@zoe\u0301{suffix}": f"zoé{suffix}",
    }
    for text, wanted in heard.items():
        assert comment(office, request, text=text)["mentions"] == [f"user:{wanted}"], text
    for text in (f"@{name}x", f"x@{name}", f"@x{name}", f"@ {name}"):
        assert comment(office, request, text=text)["mentions"] == [], text
