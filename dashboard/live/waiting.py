"""``GET approvals/{id}/wait/``: answers when a request is decided, or when the time is over; nothing is held meanwhile.

The first look is made before anything is sent, so that a refusal is one. Between looks neither a thread nor a
connection is occupied; so many wait at once in a process, and who comes after them is told how it stands at once.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import psycopg
from django.db import Error as DjangoError
from django.db import connections
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from approvals.api.shapes import WAITED
from approvals.law import STATES
from approvals.queries import wait_state
from approvals.verbs import READ
from dashboard.live.access import Credential
from dashboard.live.stream import credential_for
from dashboard.live.threads import in_thread
from runtime.api.base import Endpoint, describe
from runtime.api.http import dump, path_id
from runtime.kernel.actor import Actor
from runtime.kernel.conf import conf
from runtime.kernel.errors import QuarterdeckError

MOST_SECONDS, DEFAULT_SECONDS = 60, 30
LOOK_SECONDS = 0.5
MOST_WAITING = 200
_JSON = "application/json"
_waiting = 0


class ApprovalWait(Endpoint):
    """Waiting for a decision."""

    @describe(
        "Wait until a request is decided, at most so long; ask again while it is pending",
        tag="approvals",
        name="wait_for_approval",
        answers={200: WAITED},
        query={
            "seconds": (
                {"type": "integer", "minimum": 0, "maximum": MOST_SECONDS, "default": DEFAULT_SECONDS},
                "Answer after so many seconds whatever the state is.",
            ),
            "state": ({"enum": list(STATES), "default": "pending"}, "Wait while it is in this state."),
        },
    )
    def get(self, request: Request, approval_id: str) -> HttpResponseBase:
        params = self.params
        seconds = params.integer("seconds", DEFAULT_SECONDS, high=MOST_SECONDS)
        known = next(reversed(params.many("state", STATES)), "pending")
        params.done()
        wanted = path_id(approval_id, "approval")
        first = wait_state(actor=self.actor, request_id=wanted)
        if first["state"] != known or seconds == 0 or _waiting >= MOST_WAITING:
            return _headed(HttpResponse(dump(first), content_type=_JSON))
        credential = credential_for(request)
        answer = StreamingHttpResponse(_wait(self.actor, credential, wanted, first, seconds), content_type=_JSON)
        # The looks are transactions of their own: this thread's connection would otherwise stay out all the while.
        connections.close_all()
        return _headed(answer)

    def head(self, request: Request, approval_id: str) -> HttpResponseBase:
        """Answer at once: nobody waits for a body that is not sent."""
        first = wait_state(actor=self.actor, request_id=path_id(approval_id, "approval"))
        return _headed(HttpResponse(dump(first), content_type=_JSON))


def _headed(answer: Any) -> Any:
    answer["Cache-Control"] = "no-store"
    answer["X-Accel-Buffering"] = "no"
    return answer


async def _wait(
    actor: Actor, credential: Credential, request_id: uuid.UUID, first: dict[str, Any], seconds: float
) -> AsyncIterator[bytes]:
    """Yield one JSON object: how the request stands when it is in another state, or when the time is over."""
    global _waiting
    loop = asyncio.get_running_loop()
    until, asked, found = loop.time() + seconds, loop.time(), first
    _waiting += 1
    try:
        credential = await in_thread(credential.bound_to, actor)
        while found["state"] == first["state"] and (left := until - loop.time()) > 0:
            await asyncio.sleep(min(LOOK_SECONDS, left))
            if loop.time() - asked >= conf().live_recheck_seconds:
                actor, asked = await in_thread(credential.actor, READ), loop.time()
            found = await in_thread(wait_state, actor=actor, request_id=request_id)
    except (QuarterdeckError, psycopg.Error, DjangoError):
        # Whoever asks again is told why; what was last seen of it is still true of that moment.
        pass
    finally:
        _waiting -= 1
    yield dump(found)
