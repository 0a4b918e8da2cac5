"""A reader of pages: a signed-in member with Django's test client, and a scene with something in every list."""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field
from html import unescape
from typing import Any

from django.test import Client

from runtime.actions.steps import force_step, hold_step, skip_step
from runtime.models import Tenant
from tests.support.engine import Engine
from tests.support.factories import make_member, make_user
from tests.support.web import drive

ECHO = "core.echo@1"


def node(id: str, *after: Any, **more: Any) -> dict[str, Any]:
    """Return a tool node that echoes."""
    return {"id": id, "kind": "tool", "tool": ECHO, "input": {"a": 1}, "after": list(after), **more}


TRIP: dict[str, Any] = {
    "format": "quarterdeck/1",
    "name": "trip",
    "description": "Books a trip.",
    "nodes": [
        node("load"),
        node("price", "load"),
        {
            "id": "ask",
            "kind": "approval",
            "title": "Book the <b>trip</b>",
            "role": "approver",
            "expires_s": 3600,
            "after": ["price"],
            "target": {"id": "PNR-K7QX2M"},
            "payload": {"amount": "412.60", "currency": "EUR", "note": "=1+1"},
        },
        node("book", "ask"),
        node("tell", "book"),
    ],
}


class Reader:
    """A member of a tenant in a browser without JavaScript."""

    def __init__(self, tenant: Tenant, role: str, *, csrf: bool = False) -> None:
        self.tenant, self.role = tenant, role
        self.user = make_member(tenant, role, make_user(password="correct horse battery"))
        self.client = Client(enforce_csrf_checks=csrf, raise_request_exception=False)
        self.client.force_login(self.user)

    def get(self, path: str, status: int | None = 200, **more: Any) -> str:
        """Return the text of a page after checking its status."""
        answer = self.client.get(path, **more)
        assert status is None or answer.status_code == status, (path, answer.status_code, text_of(answer)[:1500])
        return text_of(answer)

    def post(self, path: str, data: dict[str, Any], status: int | None = 302, **more: Any) -> Any:
        """Send a form as a page of the reader's tenant sends it."""
        answer = self.client.post(path, {"shown_tenant": self.tenant.slug, **data}, **more)
        assert status is None or answer.status_code == status, (path, answer.status_code, text_of(answer)[:1500])
        return answer

    def form(self, page: str) -> dict[str, str]:
        """Return the hidden fields of a page's forms."""
        found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page)
        return {name: unescape(value) for name, value in found if name != "csrfmiddlewaretoken"}


def text_of(answer: Any) -> str:
    """Return an answer's body, streamed or not."""
    if not answer.streaming:
        return str(answer.content.decode())
    return (drive(_whole(answer)) if answer.is_async else b"".join(answer.streaming_content)).decode()


async def _whole(answer: Any) -> bytes:
    return b"".join([part async for part in answer.streaming_content])


@dataclass
class Scene:
    """A tenant in which something has happened; ``runs`` by what they show."""

    engine: Engine
    runs: dict[str, uuid.UUID] = field(default_factory=dict)

    @property
    def tenant(self) -> Tenant:
        return self.engine.tenant


def scene(tenant: Tenant) -> Scene:
    """Make runs that wait, failed, ended, were forced and skipped, and one that asks for a decision."""
    engine = Engine(tenant)
    made = Scene(engine)
    simple = {"format": "quarterdeck/1", "name": "plain", "nodes": [node("a"), node("b", "a")]}

    made.runs["asks"] = engine.submit(TRIP, {}, name="Trip 4711")
    engine.finish("load")
    engine.finish("price")
    made.runs["failed"] = engine.submit(simple, {}, name="Fails")
    engine.finish(
        "a", "failed", error={"class": "server_error", "message": "the <script>alert(1)</script> answered 500"}
    )
    made.runs["done"] = engine.submit(simple, {}, name="Done")
    engine.finish("a")
    engine.finish("b")
    made.runs["forced"] = engine.submit(simple, {}, name="Forced")
    engine.act(force_step, made.runs["forced"], "a", "the other side confirmed by phone")
    engine.act(skip_step, made.runs["forced"], "b")
    made.runs["held"] = engine.submit(simple, {}, name="Held")
    engine.act(hold_step, made.runs["held"], "b")
    made.runs["retries"] = engine.submit(simple, {}, name="Retries")
    engine.finish("a", "retry", error={"class": "rate_limited", "message": "429"})
    made.runs["runs"] = engine.submit(simple, {}, name="Runs")
    engine.claim()
    return made


def as_json(text: str) -> Any:
    """Return a body as JSON."""
    return json.loads(text)
