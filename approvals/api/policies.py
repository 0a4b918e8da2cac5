"""policies/: rules that say which writing calls need people, proposed, tried on the past and withdrawn."""

from __future__ import annotations

from functools import cache

from rest_framework.request import Request
from rest_framework.response import Response

from approvals import queries
from approvals.actions.policies import propose_policy, try_policy, withdraw_policy
from approvals.api.shapes import FLAG, REASON, REVOKE_BODY
from approvals.law import POLICY_STATES
from approvals.policy import RULES_SCHEMA
from approvals.trying import COUNTS, DIFFERENCES
from approvals.verbs import POLICY
from runtime.access.authorize import authorize
from runtime.api.base import Endpoint, describe
from runtime.api.http import body_id, json_body, path_id
from runtime.api.schemas import ANY, COUNT, ID, SHA256, TEXT, TIME, many, maybe, shape
from runtime.api.workflow_schemas import WARNINGS
from runtime.kernel.schemas import Compiled, compile_schema

_RULES = {**RULES_SCHEMA, "description": "Rules in CEL, read from the top; the first that holds decides, none: denied."}
_DECIDE = {"enum": ["allow", "approval", "deny"]}
TRY_BODY = shape({"rules": _RULES}, {"limit": {"type": "integer", "minimum": 1, "maximum": 1000}}, closed=True)
PROPOSE_BODY = shape(
    {"rules": _RULES, "note": REASON},
    {"policy_id": {**ID, "description": "Your own id of this proposal; sent again, it is answered as before."}},
    closed=True,
)
_PAST = shape(
    {
        "kind": {"enum": ["request", "sent"]},
        "id": {**ID, "description": "Of the request, or of the operation that was sent unasked."},
        "decide": _DECIDE,
        "rule": maybe(TEXT),
        "reason": TEXT,
        "differs": {"enum": [*DIFFERENCES, ""], "description": "How the rules differ from what happened."},
        **dict.fromkeys(("state", "tool", "workflow", "node", "requester"), TEXT),
        "at": TIME,
    }
)
_TRIED = {**dict.fromkeys(COUNTS, COUNT), "items": many(_PAST)}
_TRIED_RULES = shape({**_TRIED, "warnings": WARNINGS}, {"warnings_left_out": COUNT})
_PROPOSED = shape(
    {"policy_id": ID, "version": COUNT, "sha256": SHA256, "state": TEXT, "approval_id": ID, "tried": shape(_TRIED)}
    | {"replayed": FLAG, "warnings": WARNINGS},
    {"warnings_left_out": COUNT}
    | {"warning": {**TEXT, "description": "There is no other admin who could activate it."}},
)
_WITHDRAWN = shape({"policy_id": ID, "version": COUNT, "state": TEXT, "approval_id": ID})
_POLICY = shape(
    {
        "policy_id": ID,
        "version": COUNT,
        "rules": ANY,
        "sha256": SHA256,
        "note": TEXT,
        "state": {"enum": list(POLICY_STATES)},
        "approval_id": maybe(ID),
        "created_by": TEXT,
        "created_at": TIME,
        "activated_at": maybe(TIME),
        "ended_at": maybe(TIME),
    }
)
_BODIES = {"propose": PROPOSE_BODY, "try": TRY_BODY, "withdraw": REVOKE_BODY}


@cache
def _body(name: str) -> Compiled:
    return compile_schema(_BODIES[name])


class Policies(Endpoint):
    """Rules that say which writing calls need people."""

    @describe(
        "List policies, the newest first",
        tag="approvals",
        name="list_policies",
        answers={200: shape({"items": many(_POLICY)})},
    )
    def get(self, request: Request) -> Response:
        self.params.done()
        return Response({"items": queries.list_policies(actor=self.actor)})

    @describe(
        "Propose a policy; another admin activates it by deciding its request",
        tag="approvals",
        name="propose_policy",
        answers={201: _PROPOSED, 200: _PROPOSED},
        body=PROPOSE_BODY,
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, POLICY)
        value = json_body(request, _body("propose"))
        if "policy_id" in value:
            value["policy_id"] = body_id(value["policy_id"], "/policy_id")
        answer = propose_policy(actor=self.actor, **value)
        return Response(answer, status=200 if answer["replayed"] else 201)


class Withdraw(Endpoint):
    """Taking a proposed policy back."""

    @describe(
        "Withdraw a proposed policy; its request is cancelled",
        tag="approvals",
        name="withdraw_policy",
        answers={200: _WITHDRAWN},
        body=REVOKE_BODY,
    )
    def post(self, request: Request, policy_id: str) -> Response:
        authorize(self.actor, POLICY)
        wanted = path_id(policy_id, "policy")
        return Response(withdraw_policy(actor=self.actor, policy_id=wanted, **json_body(request, _body("withdraw"))))


class Try(Endpoint):
    """What rules would have said of the past."""

    @describe(
        "Try rules on the newest requests; nothing is written",
        tag="approvals",
        name="try_policy",
        answers={200: _TRIED_RULES},
        body=TRY_BODY,
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, POLICY)
        return Response(try_policy(actor=self.actor, **json_body(request, _body("try"))))
