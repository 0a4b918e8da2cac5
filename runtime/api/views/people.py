"""members/, tokens/, audit/, workers/: who and what acts here."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.tenants import add_member, end_membership
from runtime.actions.tokens import issue_token, revoke_token
from runtime.api.base import COUNTING, PAGING, TEXT, Endpoint, describe, ref
from runtime.api.http import body_id, json_body, path_id
from runtime.api.part_schemas import MEMBER_BODY
from runtime.api.schemas import TOKEN_BODY, body, many, paged, shape
from runtime.queries import people as queries


class Members(Endpoint):
    """The tenant's members."""

    @describe("List members", tag="members", name="list_members", answers={200: shape({"items": many(ref("Member"))})})
    def get(self, request: Request) -> Response:
        self.params.done()
        return Response({"items": queries.list_members(actor=self.actor)})

    @describe(
        "Add an existing user, or change a member's role",
        tag="members",
        name="add_member",
        answers={201: ref("MemberChanged"), 200: ref("MemberChanged")},
        body=MEMBER_BODY,
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, v.MEMBER_MANAGE)
        value = json_body(request, body("member"))
        answer = add_member(
            actor=self.actor, username=value["user"], role=value["role"], extra_verbs=value.get("extra_verbs")
        )
        return Response(answer, status=201 if answer["created"] else 200)


class Member(Endpoint):
    """One membership."""

    @describe("End a membership", tag="members", name="end_membership", answers={200: {"type": "object"}})
    def delete(self, request: Request, membership_id: str) -> Response:
        return Response(end_membership(actor=self.actor, membership_id=path_id(membership_id, "membership")))


class Tokens(Endpoint):
    """API tokens: one's own, or all of them for who manages them."""

    @describe("List tokens", tag="tokens", name="list_tokens", answers={200: shape({"items": many(ref("Token"))})})
    def get(self, request: Request) -> Response:
        self.params.done()
        return Response({"items": queries.list_tokens(actor=self.actor)})

    @describe(
        "Issue a token; its text is in this answer only",
        tag="tokens",
        name="issue_token",
        answers={201: ref("TokenIssued")},
        body=TOKEN_BODY,
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, v.TOKEN_ISSUE)
        value = json_body(request, body("token"), optional=True)
        answer = issue_token(
            actor=self.actor,
            username=value.get("user"),
            name=value.get("name", ""),
            verbs=value.get("verbs"),
            days=value.get("days", 30),
            token_id=body_id(value["token_id"], "/token_id") if "token_id" in value else None,
        )
        return Response(answer, status=201)


class Token(Endpoint):
    """One token."""

    @describe("Revoke a token", tag="tokens", name="revoke_token", answers={200: {"type": "object"}})
    def delete(self, request: Request, token_id: str) -> Response:
        return Response(revoke_token(actor=self.actor, token_id=path_id(token_id, "token")))


class Audit(Endpoint):
    """What people and services did, and what was denied to them."""

    @describe(
        "List audit entries, newest first",
        tag="audit",
        name="list_audit",
        answers={200: paged(ref("AuditEntry"))},
        query={
            **PAGING,
            **COUNTING,
            "actor": (TEXT, "Only by this actor, such as user:ada."),
            "verb": (TEXT, "Only this verb."),
            "subject": (TEXT, "Only about this subject's id."),
            "result": (TEXT, "Only with this result, such as denied."),
        },
    )
    def get(self, request: Request) -> Response:
        params = self.params
        wanted: dict[str, Any] = {
            "by": params.text("actor"),
            "verb": params.text("verb"),
            "subject_id": params.text("subject"),
            "result": params.text("result"),
            "cursor": params.cursor(),
            "limit": params.limit(),
            "count": params.flag("count"),
        }
        params.done()
        return Response(queries.list_audit(actor=self.actor, **wanted).as_json())


class Workers(Endpoint):
    """Worker sessions."""

    @describe("List workers", tag="workers", name="list_workers", answers={200: shape({"items": many(ref("Worker"))})})
    def get(self, request: Request) -> Response:
        self.params.done()
        return Response({"items": queries.list_workers(actor=self.actor)})
