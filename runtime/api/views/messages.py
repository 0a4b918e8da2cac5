"""outbox/, quarantine/: what leaves the system and what could not."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from runtime.actions.messages import discard_message, replay_message
from runtime.api.base import Endpoint, describe
from runtime.api.http import json_body, path_id
from runtime.api.schemas import COUNT, ID, OBJECT, TEXT, TIME, many, maybe, shape
from runtime.kernel.schemas import Compiled, compile_schema
from runtime.queries import messages as queries

_BODY = shape({}, {"reason": {"type": "string", "maxLength": 2000}}, closed=True)
_NUMBERS = shape(
    {"unsent": COUNT, "oldest_unsent_seconds": maybe({"type": "number"}), "retrying": COUNT, "quarantined": COUNT}
)
_MESSAGE = shape(
    {
        "id": ID,
        "event_id": ID,
        "topic": TEXT,
        "schema_version": COUNT,
        "payload": OBJECT,
        "reason": TEXT,
        "attempts": COUNT,
        "created_at": TIME,
        "quarantined_at": TIME,
        "resolution": maybe(TEXT),
        "closed_at": maybe(TIME),
        "closed_by": maybe(TEXT),
        "close_reason": TEXT,
    }
)
_CLOSED = shape({"message_id": ID, "event_id": ID, "topic": TEXT, "resolution": TEXT, "replayed": {"type": "boolean"}})


@cache
def _body() -> Compiled:
    return compile_schema(_BODY)


class Outbox(Endpoint):
    """What waits to leave, in numbers."""

    @describe("Read the outbox in numbers", tag="messages", name="read_outbox", answers={200: _NUMBERS})
    def get(self, request: Request) -> Response:
        self.params.done()
        return Response(queries.outbox_numbers(actor=self.actor))


class Quarantine(Endpoint):
    """Messages that could not be made or sent."""

    @describe(
        "List messages in quarantine, the newest first",
        tag="messages",
        name="list_quarantine",
        answers={200: shape({"items": many(_MESSAGE)})},
        query={"state": ({"enum": list(queries.STATES), "default": "open"}, "Open, closed, or all.")},
    )
    def get(self, request: Request) -> Response:
        params = self.params
        states = params.many("state", queries.STATES)
        params.done()
        return Response({"items": queries.list_quarantined(actor=self.actor, state=states[-1] if states else "open")})


class CloseMessage(Endpoint):
    """Sending a message of the quarantine again, or giving it up."""

    call: ClassVar[Any]

    def act(self, request: Request, message_id: str) -> Response:
        """Call the action and answer with what became of the message."""
        wanted = path_id(message_id, "message")
        value = json_body(request, _body(), optional=True)
        return Response(type(self).call(actor=self.actor, message_id=wanted, reason=value.get("reason", "")))


def close_message(action: Any, summary: str) -> type[CloseMessage]:
    """Return the endpoint of one way to close a message; each is its own sub-resource."""
    name = action.__name__
    post = describe(summary, tag="messages", name=name, answers={200: _CLOSED}, body=_BODY)(
        lambda self, request, message_id: self.act(request, message_id)
    )
    members = {"call": staticmethod(action), "post": post, "__doc__": summary}
    return type(name.title().replace("_", ""), (CloseMessage,), members)


Replay = close_message(replay_message, "Send a message again under its own event_id")
Discard = close_message(discard_message, "Give a message up; a reason is required")
