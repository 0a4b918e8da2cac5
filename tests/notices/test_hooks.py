"""Events of requests as signed webhooks and chat lines: all of them, signed, harmless, to allowed hosts only."""

from __future__ import annotations

import json
import re
import socket
import uuid
from contextlib import suppress
from functools import partial

import psycopg
import pytest
from django.contrib.auth.models import User
from standardwebhooks import Webhook, WebhookVerificationError

from approvals.actions import hooks
from approvals.actions.handling import delegate_request
from approvals.actions.hooks import add_hook, remove_hook, rotate_hook
from approvals.actions.revoke import revoke_grant
from approvals.queries import list_hooks
from runtime.actions.notices import secret_of
from runtime.kernel.errors import BadInput, Conflict, NotFound, PermissionDenied, Stale
from runtime.kernel.messages import Webhook as Message
from runtime.worker.maintenance.outbox import deliver
from runtime.worker.maintenance.webhooks import WebhookRefused, address_refused, post
from tests.support.actors import member
from tests.support.db import server
from tests.support.duties import close_idle, expire_requests, remind
from tests.support.race import Held

pytestmark = [pytest.mark.req("C5.3", "C5.6", "C7.4"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def hook(office, receiver, configure):
    """A signed hook for every event, to a receiver of our own."""
    configure(webhook_hosts=(receiver.host,))
    return add_hook(actor=office.admin, url=f"http://{receiver.host}/hook")


def posted(receiver):
    """Send what waits; return the new messages' (headers, body)."""
    del receiver.taken[:]
    while any(deliver().get(what) for what in ("sent", "dropped")):
        pass
    return list(receiver.taken)


def told(receiver, secret):
    """Send what waits; return the messages, each verified."""
    return [Webhook(secret).verify(body, headers) for headers, body in posted(receiver)]


def test_what_was_asked_and_decided_is_posted_signed_and_without_the_payload(hook, office, receiver):
    request = office.pending(office.ask({"to": "Ada Secret"}))
    (headers, body), *_others = posted(receiver)
    asked = Webhook(hook["secret"]).verify(body, headers)
    data = asked["data"]
    assert (asked["type"], data["approval_id"], data["state"]) == ("approval.asked", str(request["id"]), "pending")
    assert (data["payload_hash"], data["version"], data["risk"]) == (request["payload_hash"], 1, request["risk"])
    assert b"Secret" not in body
    assert data["deadline"] == request["deadline"].isoformat().replace("+00:00", "Z")
    with pytest.raises(WebhookVerificationError):
        Webhook(hook["secret"]).verify(body.replace(b"pending", b"revoked"), headers)
    office.decide(request, comment="Ada Secret may have it")
    office.work()
    texts = posted(receiver)
    kinds = [json.loads(body)["type"] for _headers, body in texts]
    assert kinds == ["approval.approved", "approval.consumed"]
    assert all(b"Secret" not in body for _headers, body in texts)
    approved = json.loads(texts[0][1])["data"]
    assert (approved["state"], approved["decided_by"]) == ("approved", office.approver.label)


def test_every_end_is_posted(hook, office, receiver, clock):
    taken_back = office.pending(office.ask())
    office.decide(taken_back)
    revoke_grant(actor=office.approver, request_id=taken_back["id"], reason="wrong month")
    late, lapsing = office.pending(office.ask()), office.pending(office.ask(start_within_s=60, expires_s=90_000))
    handed = office.pending(office.ask(expires_s=90_000))
    delegate_request(actor=office.approver, request_id=handed["id"], to=office.admin.name, reason="away")
    office.decide(lapsing)
    clock.advance(61)
    close_idle()
    clock.advance(3600)
    remind()
    expire_requests()
    found = [(one["data"]["approval_id"], one["type"]) for one in told(receiver, hook["secret"])]
    of = lambda one: {kind.removeprefix("approval.") for which, kind in found if which == str(one["id"])}  # noqa: E731
    assert of(taken_back) == {"asked", "approved", "revoked"}
    assert of(late) == {"asked", "rejected"}
    assert of(lapsing) == {"asked", "approved", "lapsed"}
    assert of(handed) == {"asked", "delegated"}
    clock.advance(45_000)
    remind()
    assert [one["type"] for one in told(receiver, hook["secret"])] == ["approval.warned"]


def test_two_at_once_are_not_both_the_last_one_allowed(office, fresh_db, receiver, configure, monkeypatch):
    configure(webhook_hosts=(receiver.host,))
    monkeypatch.setattr(hooks, "MOST_HOOKS", 1)

    def add(number: int) -> bool:
        with suppress(Conflict):
            add_hook(actor=office.admin, url=f"http://{receiver.host}/{number}")
            return True
        return False

    # Held at the audit, the last statement of an act: whoever has looked how many there are is not seen yet.
    with psycopg.connect(server().admin_url(fresh_db.name)) as connection:
        connection.execute("SELECT FROM qd_audit_head WHERE tenant_id = %s FOR UPDATE", [office.tenant.id])
        line = Held(connection)
        both = [line.queue(partial(add, number)) for number in range(2)]
        connection.rollback()
    assert sorted(one.outcome() for one in both) == [False, True]


def test_a_failing_hook_is_tried_again_under_the_same_id_and_holds_up_no_other(
    hook,
    office,
    receiver,
    configure,
    clock,
):
    other = add_hook(actor=office.admin, url=f"http://{receiver.host}/other", events=["asked"])
    receiver.answers = [500]
    office.ask()
    first = posted(receiver)
    assert len(first) == 2
    clock.advance(60)
    (again,) = posted(receiver)
    assert again[0]["webhook-id"] == first[0][0]["webhook-id"] != first[1][0]["webhook-id"]
    assert again[1] == first[0][1]
    signed = [one["secret"] for one in (hook, other)]
    for headers, body in (first[1], again):
        assert sum(verifies(secret, body, headers) for secret in signed) == 1


def verifies(secret, body, headers):
    try:
        Webhook(secret).verify(body, headers)
    except WebhookVerificationError:
        return False
    return True


def test_while_a_secret_is_exchanged_both_sign(hook, office, receiver, clock):
    fresh = rotate_hook(actor=office.admin, hook_id=uuid.UUID(hook["hook_id"]), expected_version=1)
    assert fresh["secret"] != hook["secret"]
    office.ask()
    ((headers, body),) = posted(receiver)
    assert len(headers["webhook-signature"].split(" ")) == 2
    assert verifies(fresh["secret"], body, headers)
    assert verifies(hook["secret"], body, headers)
    clock.advance(86_401)
    office.ask()
    ((headers, body),) = [one for one in posted(receiver) if b"approval.asked" in one[1]]
    assert (verifies(fresh["secret"], body, headers), verifies(hook["secret"], body, headers)) == (True, False)
    leaked = rotate_hook(actor=office.admin, hook_id=uuid.UUID(hook["hook_id"]), expected_version=2, overlap_s=0)
    office.ask()
    ((headers, body),) = posted(receiver)
    assert (verifies(leaked["secret"], body, headers), verifies(fresh["secret"], body, headers)) == (True, False)


def test_a_secret_signs_for_as_long_as_was_said_whatever_is_asked_twice_or_meanwhile(hook, office, receiver, clock):
    def rotate(version, **words):
        found = rotate_hook(actor=office.admin, hook_id=uuid.UUID(hook["hook_id"]), expected_version=version, **words)
        return found["secret"]

    def signing(*secrets):
        office.ask()
        (headers, body), *_ = [one for one in posted(receiver) if b"approval.asked" in one[1]]
        return [verifies(one, body, headers) for one in secrets]

    first, second = hook["secret"], rotate(1)
    assert rotate(1) == second
    assert signing(first, second) == [True, True]
    third = rotate(2, overlap_s=3600)
    assert signing(first, second, third) == [True, True, True]
    clock.advance(3601)
    # Ten minutes are over: what was told once is not told again.
    with pytest.raises(Stale):
        rotate(2, overlap_s=3600)
    assert signing(first, second, third) == [True, False, True]
    clock.advance(86_400)
    assert signing(first, second, third) == [False, False, True]
    latest = [third, *(rotate(version) for version in range(3, 7))]
    with pytest.raises(Conflict):
        rotate(7)
    assert signing(*latest) == [True] * 5
    assert signing(*latest, rotate(7, overlap_s=0)) == [False] * 5 + [True]


def test_a_chat_gets_a_line_that_mentions_nobody_and_whose_link_decides_nothing(
    office,
    receiver,
    configure,
    client,
):
    configure(webhook_hosts=(receiver.host,))
    add_hook(actor=office.admin, url=f"http://{receiver.host}/T0/B0/key", format="chat")
    request = office.pending(office.ask(title="Pay <!channel> @here [me](http://evil.example) & go"))
    ((_headers, body),) = posted(receiver)
    value = json.loads(body)
    assert list(value) == ["text"]
    assert "<!channel>" not in value["text"]
    assert "@here" not in value["text"]
    assert "](http" not in value["text"]
    (link,) = re.findall(r"http://127\.0\.0\.1:8000\S+", value["text"])
    path = link.removeprefix("http://127.0.0.1:8000")
    for _round in range(2):
        client.get(path)
        client.head(path)
        client.force_login(User.objects.get(pk=office.approver.user_id))
    assert client.get(path).status_code == 200
    assert office.pending(request["run_id"])["state"] == "pending"
    # The address of a chat's hook is a secret by itself.
    assert [one["url"] for one in list_hooks(actor=office.admin)] == [f"http://{receiver.host}/…"]


def test_a_chat_does_not_hear_of_what_is_over(office, receiver, configure):
    configure(webhook_hosts=(receiver.host,))
    add_hook(actor=office.admin, url=f"http://{receiver.host}/chat", format="chat", events=["asked", "approved"])
    office.decide(office.pending(office.ask()))
    assert [json.loads(body)["text"].split(":")[0] for _headers, body in posted(receiver)] == ["Approved"]


def test_a_removed_hook_gets_nothing_that_waits(hook, office, receiver):
    office.ask()
    remove_hook(actor=office.admin, hook_id=uuid.UUID(hook["hook_id"]))
    assert posted(receiver) == []
    with pytest.raises(NotFound):
        rotate_hook(actor=office.admin, hook_id=uuid.UUID(hook["hook_id"]), expected_version=1)


def test_what_makes_no_hook_changes_nothing(hook, office, receiver, tenant):
    url = f"http://{receiver.host}/hook"
    with pytest.raises(Conflict):
        add_hook(actor=office.admin, url=url)
    for wrong in ("https://other.example/", "http://169.254.169.254/", f"http://user@{receiver.host}/", "ftp://x"):
        with pytest.raises(BadInput):
            add_hook(actor=office.admin, url=wrong)
    for words in ({"events": []}, {"events": ["opened"]}, {"format": "xml"}):
        with pytest.raises(BadInput):
            add_hook(actor=office.admin, url=f"{url}2", **words)
    with pytest.raises(PermissionDenied):
        add_hook(actor=member(tenant, "approver"), url=f"{url}3")
    assert len(list_hooks(actor=office.admin)) == 1


def test_a_listed_name_that_leads_inside_gets_nothing(configure):
    configure(webhook_hosts=("hooks.example", "10.0.0.7"), tool_private_hosts=())
    assert address_refused("https://hooks.example/x", "93.184.216.34") is None
    for inside in ("10.0.0.7", "127.0.0.1", "192.168.1.9", "169.254.169.254", "::1"):
        assert address_refused("https://hooks.example/x", inside) is not None, inside
    assert address_refused("https://10.0.0.7/x", "10.0.0.7") is None
    configure(tool_private_hosts=("10.0.0.0/8",))
    assert address_refused("https://hooks.example/x", "10.0.0.7") is None


def test_a_hook_that_leads_inside_is_refused_alike_whether_anything_listens_there(configure, receiver):
    """The address is judged before it is connected to: an open port is told apart from a shut one by nobody."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        shut = one.getsockname()[1]
    name = "127.1"  # a name to us; it leads to this machine everywhere
    ports = (receiver.server_address[1], shut)
    configure(webhook_hosts=tuple(f"{name}:{port}" for port in ports), tool_private_hosts=())
    refusals = []
    for port in ports:
        with pytest.raises(WebhookRefused) as refused:
            post(Message(f"https://{name}:{port}/x", secret_of(uuid.uuid4()), "m1", b"{}"))
        refusals.append(str(refused.value))
    assert refusals[0] == refusals[1]
    assert "private address" in refusals[0]
    assert receiver.taken == []


def test_a_chat_is_told_of_hidden_characters_and_a_program_gets_them(office, receiver, configure):
    configure(webhook_hosts=(receiver.host,))
    for form in ("chat", "standard"):
        add_hook(actor=office.admin, url=f"http://{receiver.host}/{form}", format=form)
    office.pending(office.ask(title="Pay\u202e out"))
    texts = [json.loads(body) for _headers, body in posted(receiver)]
    (line,) = [one["text"] for one in texts if "text" in one]
    assert line.startswith("Approval needed: Pay⟨U+202E⟩ out")
    assert [one["data"]["title"] for one in texts if "data" in one] == ["Pay\u202e out"]
