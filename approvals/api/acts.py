"""approvals/{id}/…: what is done with a request beside deciding it. Each address takes a POST and calls one action."""

from __future__ import annotations

import uuid
from functools import cache
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from approvals import queries
from approvals.actions import handling, times
from approvals.actions.answer import answer_input
from approvals.actions.bulk import decide_many
from approvals.actions.comments import comment_request
from approvals.actions.propose import propose_edit
from approvals.actions.quota import set_review_limits
from approvals.actions.revoke import revoke_grant
from approvals.api import shapes
from approvals.verbs import ANSWER, DECIDE, READ
from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.api.base import Endpoint, describe
from runtime.api.http import json_body, path_id
from runtime.kernel.schemas import Compiled, compile_schema


@cache
def _body(name: str) -> Compiled:
    return compile_schema(getattr(shapes, name))


def _read(request: Request, approval_id: str, name: str) -> tuple[uuid.UUID, dict[str, Any]]:
    return path_id(approval_id, "approval"), json_body(request, _body(name))


class _Act(Endpoint):
    def answer(self, request: Request, approval_id: str, body: str, action: Any) -> Response:
        authorize(self.actor, DECIDE)
        wanted, value = _read(request, approval_id, body)
        return Response(action(actor=self.actor, request_id=wanted, **value))


def _act(summary: str, name: str, body: str, action: Any) -> Any:
    """Return the endpoint of one act; each is its own sub-resource, and answers with how the request stands."""
    post = describe(summary, tag="approvals", name=name, answers={200: shapes.STANDING}, body=getattr(shapes, body))(
        lambda self, request, approval_id: self.answer(request, approval_id, body, action)
    )
    return type(name.title().replace("_", ""), (_Act,), {"post": post, "__doc__": summary})


Propose = _act(
    "Edit the arguments: a new proposal supersedes this one and needs its own approval",
    "propose_approval", "PROPOSE_BODY", propose_edit,
)  # fmt: skip
Claim = _act(
    "Take a request on: nobody else decides it meanwhile", "claim_approval", "CLAIM_BODY", handling.claim_request
)
Release = _act(
    "Give a request back to everybody of its role", "release_approval", "REASON_BODY", handling.release_request
)
Delegate = _act(
    "Hand a request over to a member, who alone decides it then",
    "delegate_approval", "DELEGATE_BODY", handling.delegate_request,
)  # fmt: skip
Extend = _act("Give more time; what was asked stays the same", "extend_approval", "EXTEND_BODY", times.extend_request)
Escalate = _act(
    "Ask the next of the ladder, or a role, now", "escalate_approval", "ESCALATE_BODY", times.escalate_request
)
Revoke = _act("Take back what was approved and is not used up", "revoke_approval", "REVOKE_BODY", revoke_grant)


class Comments(Endpoint):
    """Comments on a request."""

    @describe(
        "Comment on a request; @name tells a member, artifacts are attached",
        tag="approvals",
        name="comment_approval",
        answers={201: shapes.COMMENTED},
        body=shapes.COMMENT_BODY,
    )
    def post(self, request: Request, approval_id: str) -> Response:
        authorize(self.actor, READ)
        wanted, value = _read(request, approval_id, "COMMENT_BODY")
        answer = comment_request(actor=self.actor, request_id=wanted, **value)
        return Response(answer, status=201)


class Input(Endpoint):
    """The answer to a step that asks for an input."""

    @describe(
        "Answer a step that asks for an input; the answer is its output and approves nothing",
        tag="approvals",
        name="answer_input",
        answers={200: shapes.DECIDED},
        body=shapes.INPUT_BODY,
    )
    def post(self, request: Request, step_id: str) -> Response:
        authorize(self.actor, ANSWER)
        wanted = path_id(step_id, "step")
        return Response(answer_input(actor=self.actor, step_id=wanted, **json_body(request, _body("INPUT_BODY"))))


class Bulk(Endpoint):
    """One decision on several requests of one shape."""

    @describe(
        "Decide several requests of one shape, each as it was shown; answers for each",
        tag="approvals",
        name="decide_approvals",
        answers={200: shapes.BULK_ANSWER},
        body=shapes.BULK_BODY,
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, DECIDE)
        return Response(decide_many(actor=self.actor, **json_body(request, _body("BULK_BODY"))))


class ReviewLimits(Endpoint):
    """How much one person reviews."""

    @describe(
        "Read the review limits and your own load", tag="approvals", name="review_load",
        answers={200: shapes.REVIEW_LOAD},
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        self.params.done()
        return Response(queries.review_load(actor=self.actor))

    @describe(
        "Bound what one person holds at once and decides within an hour",
        tag="approvals",
        name="set_review_limits",
        answers={200: shapes.REVIEW},
        body=shapes.REVIEW_BODY,
    )
    def put(self, request: Request) -> Response:
        authorize(self.actor, v.LIMIT_SET)
        return Response(set_review_limits(actor=self.actor, **json_body(request, _body("REVIEW_BODY"))))
