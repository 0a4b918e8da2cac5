"""runs/{id}/signals/{name}/: external events for runs that wait for them."""

from __future__ import annotations

from functools import cache

from rest_framework.request import Request
from rest_framework.response import Response

from runtime.actions.inbox import MAX_MESSAGE_ID
from runtime.actions.signals import signal_run
from runtime.api.base import Endpoint, describe
from runtime.api.http import json_body, path_id
from runtime.api.schemas import ID, TEXT, maybe, shape
from runtime.kernel.schemas import Compiled, compile_schema

_EVENT_ID = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_MESSAGE_ID,
    "description": "The sender's id of this event: the same again does nothing.",
}
_CORRELATION = {
    "type": "string",
    "minLength": 1,
    "maxLength": 2000,
    "description": "What the waiting step's `correlation` must give.",
}
SIGNAL_BODY = shape(
    {"event_id": _EVENT_ID},
    {
        "correlation_id": _CORRELATION,
        "payload": {"description": "Any JSON; untrusted, given to the step that waits."},
    },
    closed=True,
)
_SIGNALLED = shape(
    {
        "run_id": ID,
        "name": TEXT,
        "event_id": TEXT,
        "result": {"enum": ["delivered", "kept", "late", "unmatched"]},
        "node": maybe(TEXT),
        "replayed": {"type": "boolean"},
    }
)


@cache
def _body() -> Compiled:
    return compile_schema(SIGNAL_BODY)


class RunSignal(Endpoint):
    """External events for a run that waits for them."""

    @describe(
        "Send an external event; a step that waits for it goes on",
        tag="runs",
        name="signal_run",
        answers={202: _SIGNALLED},
        body=SIGNAL_BODY,
    )
    def post(self, request: Request, run_id: str, name: str) -> Response:
        wanted = path_id(run_id, "run")
        value = json_body(request, _body())
        answer = signal_run(
            actor=self.actor,
            run_id=wanted,
            name=name,
            event_id=value["event_id"],
            payload=value.get("payload"),
            correlation_id=value.get("correlation_id"),
        )
        return Response(answer, status=202)
