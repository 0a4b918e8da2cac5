"""A caller of the HTTP API: a member with a real token, through the whole stack of middleware, views and actions."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from django.test import Client

from runtime.access.identity import insert_token
from runtime.kernel.actor import Actor
from runtime.management.example import register_builtin_tools
from runtime.models import Tenant
from runtime.store.tx import tenant_tx
from tests.support.actors import member

WORKFLOW: dict[str, Any] = {
    "format": "quarterdeck/1",
    "name": "parcel",
    "input_schema": {
        "type": "object",
        "required": ["order_id"],
        "properties": {"order_id": {"type": "string"}, "boxes": {"type": "integer", "minimum": 1}},
    },
    "nodes": [
        {"id": "pack", "kind": "tool", "tool": "core.echo@1", "input": {"order_id": {"$": "input.order_id"}}},
        {"id": "send", "kind": "tool", "tool": "core.echo@1", "after": ["pack"], "input": {}},
    ],
}


class Caller:
    """Sends JSON as one member. ``raw`` sends bytes as they are; answers are checked to be JSON or problems."""

    def __init__(self, token: str | None, tenant: Tenant, actor: Actor | None = None) -> None:
        self.token, self.tenant, self.actor = token, tenant, actor
        self._client = Client(raise_request_exception=False)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send ``body`` as JSON; header names are written with underscores."""
        return self.raw(method, path, b"" if body is None else json.dumps(body).encode(), **headers)

    def raw(
        self, method: str, path: str, body: bytes, *, content_type: str = "application/json", **headers: str
    ) -> Any:
        """Send bytes."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        return self._client.generic(method, f"/api/v1/{path}", body, content_type=content_type, headers=sent)

    def get(self, path: str, **headers: str) -> Any:
        return self.send("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.send("POST", path, body, **headers)

    def submit(self, order_id: str = "W1", **more: Any) -> dict[str, Any]:
        """Submit a task of :data:`WORKFLOW` and return the answer."""
        answer = self.post("tasks/", {"workflow": "parcel", "input": {"order_id": order_id}, **more})
        assert answer.status_code == 202, answer.content
        return answer.json()

    def upload(self, content: bytes, media_type: str = "text/plain") -> Any:
        digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
        return self.raw("POST", "artifacts/", content, content_type=media_type, Content_Digest=f"sha-256=:{digest}:")


def caller(tenant: Tenant, role: str = "admin", verbs: list[str] | None = None) -> Caller:
    """Return a new member of ``tenant`` with ``role``, calling with a token narrowed to ``verbs``."""
    actor = member(tenant, role)
    assert actor.user_id is not None
    with tenant_tx(tenant.id) as tx:
        token = insert_token(tx, user_id=actor.user_id, name="test", verbs=verbs, days=1, now=tx.now())
    return Caller(token.raw, tenant, actor)


def furnish(tenant: Tenant) -> Caller:
    """Register the built-in tools and :data:`WORKFLOW`, and return an admin who calls."""
    admin = caller(tenant)
    assert admin.actor is not None
    register_builtin_tools(admin.actor)
    answer = admin.post("workflows/", WORKFLOW)
    assert answer.status_code == 201, answer.content
    return admin


def problem(answer: Any, status: int, code: str | None = None) -> dict[str, Any]:
    """Return the problem detail in an answer after checking its form (RFC 9457)."""
    assert answer.status_code == status, (answer.status_code, answer.content[:600])
    assert answer["Content-Type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert body["type"] == f"urn:quarterdeck:problem:{body['code']}"
    for name in ("title", "detail", "code"):
        assert isinstance(body[name], str), name
        assert body[name], name
    assert isinstance(body["retryable"], bool)
    assert "Traceback" not in body["detail"]
    if code is not None:
        assert body["code"] == code, body
    return body
