"""escalation-chain/: whom a tenant's overdue cases are told to, one link after the other."""

from __future__ import annotations

from functools import cache

from rest_framework.request import Request
from rest_framework.response import Response

from repair.actions.chain import set_chain
from repair.api import schemas
from repair.chains import chain_versions, read_chain
from runtime.access.authorize import authorize
from runtime.access.verbs import TENANT_SET
from runtime.api.base import Endpoint, describe
from runtime.api.http import json_body
from runtime.api.schemas import many, shape
from runtime.kernel.schemas import Compiled, compile_schema

_ANSWER = shape({**schemas.CHAIN, "replayed": {"type": "boolean"}})


@cache
def _body() -> Compiled:
    return compile_schema(schemas.SET_CHAIN)


class EscalationChain(Endpoint):
    """The chain that counts."""

    @describe(
        "Read whom overdue repair cases are told to, and when",
        tag="repairs",
        name="read_escalation_chain",
        answers={200: schemas.CHAIN_SET},
    )
    def get(self, request: Request) -> Response:
        self.params.done()
        return Response(read_chain(actor=self.actor))

    @describe(
        "Set whom overdue repair cases are told to; no links: the default counts again",
        tag="repairs",
        name="set_escalation_chain",
        answers={200: _ANSWER},
        body=schemas.SET_CHAIN,
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, TENANT_SET)
        return Response(set_chain(actor=self.actor, **json_body(request, _body())))


class ChainVersions(Endpoint):
    """Every version of the chain."""

    @describe(
        "Read the newest versions of the escalation chain, newest first",
        tag="repairs",
        name="read_escalation_chain_versions",
        answers={200: shape({"items": many(schemas.CHAIN_SET)})},
    )
    def get(self, request: Request) -> Response:
        self.params.done()
        return Response({"items": chain_versions(actor=self.actor)})
