"""approvals/: the inbox, one request, and the decision on it. Only a POST decides; nothing else changes anything."""

from __future__ import annotations

from functools import cache
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from approvals import queries
from approvals.actions.decide import decide_request
from approvals.api import own
from approvals.api.shapes import ASKED, DECIDE_BODY, DECIDED, FLAG, LISTED, OWN_BODY, WHOLE
from approvals.law import RISKS, STATES
from approvals.verbs import DECIDE
from runtime.access.authorize import authorize
from runtime.api.base import COUNTING, PAGING, Endpoint, describe
from runtime.api.http import json_body, path_id
from runtime.api.schemas import ID, paged, shape
from runtime.kernel.schemas import Compiled, compile_schema


@cache
def _decide_body() -> Compiled:
    return compile_schema(DECIDE_BODY)


class Approvals(Endpoint):
    """Requests for a person's decision."""

    @describe(
        "List requests: pending ones by deadline, decided ones by when that was, others newest first",
        tag="approvals",
        name="list_approvals",
        answers={200: paged(shape(LISTED))},
        query={
            **PAGING,
            **COUNTING,
            "state": (
                {"enum": [*STATES, "all", "decided"], "default": "pending"},
                "In this state; `decided`: in any but pending, what was decided last first.",
            ),
            "mine": (FLAG, "Only what you may decide."),
            "run": (ID, "Only of this run."),
            "risk": ({"enum": list(RISKS)}, "Only of this risk."),
            "workflow": ({"type": "string"}, "Only of this workflow."),
            "sort": ({"enum": list(queries.SORTS), "default": "deadline"}, "The order of pending ones."),
        },
    )
    def get(self, request: Request) -> Response:
        params = self.params
        states = params.many("state", (*STATES, "all", "decided"))
        state = states[-1] if states else "pending"
        wanted: dict[str, Any] = {
            "state": None if state in ("all", "decided") else state,
            "decided": state == "decided",
            "mine": params.flag("mine"),
            "run_id": params.identity("run"),
            "risk": next(reversed(params.many("risk", RISKS)), None),
            "workflow": params.text("workflow") or None,
            "sort": next(reversed(params.many("sort", tuple(queries.SORTS))), "deadline"),
            "cursor": params.cursor(),
            "limit": params.limit(),
            "count": params.flag("count"),
        }
        params.done()
        return Response(queries.list_requests(actor=self.actor, **wanted).as_json())

    @describe(
        "Ask people for an action that you carry out yourself",
        tag="approvals",
        name="ask_approval",
        answers={201: ASKED, 200: ASKED},
        body=OWN_BODY,
        headers={"Idempotency-Key": "Names the action; the same again finds its request."},
        demands=("Idempotency-Key",),
    )
    def post(self, request: Request) -> Response:
        return own.asked(self, request)


class Approval(Endpoint):
    """One request."""

    @describe("Read a request", tag="approvals", name="read_approval", answers={200: WHOLE})
    def get(self, request: Request, approval_id: str) -> Response:
        self.params.done()
        return Response(queries.get_request(actor=self.actor, request_id=path_id(approval_id, "approval")))


class Decide(Endpoint):
    """The decision on one request."""

    @describe(
        "Approve or reject exactly what you were shown",
        tag="approvals",
        name="decide_approval",
        answers={200: DECIDED},
        body=DECIDE_BODY,
    )
    def post(self, request: Request, approval_id: str) -> Response:
        authorize(self.actor, DECIDE)
        wanted = path_id(approval_id, "approval")
        value = json_body(request, _decide_body())
        return Response(decide_request(actor=self.actor, request_id=wanted, **value))
