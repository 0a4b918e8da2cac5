"""approvals/ for programs: asking for an action of one's own, using its grant once, reporting what came of it."""

from __future__ import annotations

from functools import cache

from rest_framework.request import Request
from rest_framework.response import Response

from approvals.actions.own import MAX_KEY, OwnAction, ask_own
from approvals.actions.using import report_outcome, use_grant
from approvals.actions.withdraw import withdraw_own
from approvals.api.shapes import (
    CONSUME_BODY,
    CONSUMED,
    OUTCOME_BODY,
    OWN_BODY,
    OWN_STANDING,
    REPORTED,
    WITHDRAW_BODY,
)
from approvals.records import MOST, RECORD_SCHEMA, export_requests
from approvals.verbs import ASK
from runtime.access.authorize import authorize
from runtime.api.base import PREFIX, TEXT, Endpoint, describe
from runtime.api.http import idempotency_key, json_body, path_id
from runtime.api.schemas import TIME, paged
from runtime.kernel.errors import BadInput
from runtime.kernel.schemas import Compiled, compile_schema

# What an asker does next with its request, each at an address below it.
_NEXT = ("wait", "consume", "outcome", "withdraw", "comments")


@cache
def _body(name: str) -> Compiled:
    bodies = {"own": OWN_BODY, "consume": CONSUME_BODY, "outcome": OUTCOME_BODY, "withdraw": WITHDRAW_BODY}
    return compile_schema(bodies[name])


def asked(endpoint: Endpoint, request: Request) -> Response:
    """Answer ``POST approvals/``: 201, or 200 for a key that asked for the same before."""
    authorize(endpoint.actor, ASK)
    key = idempotency_key(request, limit=MAX_KEY)
    if key is None:
        # Under one of ours a request that is sent again would ask people twice, and no restart would find it.
        mend = "Send a UUID that you keep, or what names the action in your program."
        raise BadInput("An action is asked for under a key.", where="header Idempotency-Key", remediation=mend)
    value = json_body(request, _body("own"))
    action = OwnAction(**value.pop("action"))
    told = ask_own(actor=endpoint.actor, key=key, action=action, **value)
    own = f"{PREFIX}/approvals/{told['approval_id']}/"
    links = {"self": own, **{name: f"{own}{name}/" for name in _NEXT}}
    return Response({**told, "links": links}, status=200 if told["replayed"] else 201, headers={"Location": own})


class Consume(Endpoint):
    """Using the grant of one's own action."""

    @describe(
        "Use a grant up, once, before carrying the approved action out yourself",
        tag="approvals",
        name="consume_approval",
        answers={200: CONSUMED},
        body=CONSUME_BODY,
    )
    def post(self, request: Request, approval_id: str) -> Response:
        authorize(self.actor, ASK)
        wanted = path_id(approval_id, "approval")
        return Response(use_grant(actor=self.actor, request_id=wanted, **json_body(request, _body("consume"))))


class Withdraw(Endpoint):
    """Taking one's own request back."""

    @describe(
        "Withdraw a request for an action of your own that nobody has decided",
        tag="approvals",
        name="withdraw_approval",
        answers={200: OWN_STANDING},
        body=WITHDRAW_BODY,
    )
    def post(self, request: Request, approval_id: str) -> Response:
        authorize(self.actor, ASK)
        wanted = path_id(approval_id, "approval")
        return Response(withdraw_own(actor=self.actor, request_id=wanted, **json_body(request, _body("withdraw"))))


class Outcome(Endpoint):
    """What came of one's own action."""

    @describe(
        "Report what came of an action that you carried out under a grant",
        tag="approvals",
        name="report_approval_outcome",
        answers={200: REPORTED},
        body=OUTCOME_BODY,
    )
    def post(self, request: Request, approval_id: str) -> Response:
        authorize(self.actor, ASK)
        wanted = path_id(approval_id, "approval")
        return Response(report_outcome(actor=self.actor, request_id=wanted, **json_body(request, _body("outcome"))))


_PAGE = paged({**RECORD_SCHEMA, "description": "An object of approvals/schema/."})
_PAGE["properties"]["settled_until"] = {**TIME, "description": "Begin the next export there; ids may come again."}
_PAGE["required"].append("settled_until")


class Export(Endpoint):
    """Requests and decisions for other systems."""

    @describe(
        "Export requests with their decisions as typed JSON, the oldest first",
        tag="approvals",
        name="export_approvals",
        answers={200: _PAGE},
        query={
            "since": (TIME, "Asked then or later; the `settled_until` of the export before, so that none is missed."),
            "until": (TIME, "Asked before then."),
            "cursor": (TEXT, "The `next` of the page before."),
            "limit": (
                {"type": "integer", "minimum": 1, "maximum": MOST, "default": 50},
                "Items on a page; one of long requests ends earlier.",
            ),
        },
    )
    def get(self, request: Request) -> Response:
        params = self.params
        since, until, cursor = params.time("since"), params.time("until"), params.cursor()
        limit = params.integer("limit", 50, low=1, high=MOST)
        params.done()
        page = export_requests(actor=self.actor, since=since, until=until, cursor=cursor, limit=limit)
        return Response(page.as_json())


class RecordSchema(Endpoint):
    """The published JSON Schema of exported requests."""

    public = True

    @describe(
        "Read the JSON Schema of exported requests",
        tag="approvals",
        name="approval_schema",
        answers={200: {"type": "object"}},
    )
    def get(self, request: Request) -> Response:
        return Response(RECORD_SCHEMA)
