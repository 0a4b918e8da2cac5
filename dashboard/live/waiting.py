"""``GET approvals/{id}/wait/``: answers when a request is decided, or when the time is over; nothing is held meanwhile.

The first look is made before anything is sent, so that a refusal is one. While it waits it occupies a seat (``seats``)
and neither a thread nor a connection; one look is made for all who wait (``decisions``).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import psycopg
from django.db import Error as DjangoError
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from approvals.api.shapes import WAITED
from approvals.law import STATES
from approvals.queries import wait_state
from approvals.verbs import READ
from dashboard.live.access import Credential
from dashboard.live.decisions import decisions
from dashboard.live.endpoint import TOO_MANY, Lasting, LastingEndpoint
from dashboard.live.stream import credential_for
from dashboard.live.threads import in_thread
from runtime.api.base import describe
from runtime.api.http import dump, path_id
from runtime.kernel.actor import Actor
from runtime.kernel.conf import conf
from runtime.kernel.errors import QuarterdeckError

MOST_SECONDS, DEFAULT_SECONDS = 60, 30
_JSON = "application/json"


class ApprovalWait(LastingEndpoint):
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
        problems={429: TOO_MANY},
    )
    def get(self, request: Request, approval_id: str) -> HttpResponseBase:
        params = self.params
        seconds = params.integer("seconds", DEFAULT_SECONDS, high=MOST_SECONDS)
        known = next(reversed(params.many("state", STATES)), "pending")
        params.done()
        wanted = path_id(approval_id, "approval")
        first = wait_state(actor=self.actor, request_id=wanted)
        if first["state"] != known or seconds == 0:
            return _headed(HttpResponse(dump(first), content_type=_JSON))
        credential = credential_for(request)
        return _headed(Lasting(_wait(self.actor, credential, wanted, first, seconds), content_type=_JSON))

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
    loop = asyncio.get_running_loop()
    until, asked, found = loop.time() + seconds, loop.time(), first
    decided = decisions().left(actor.tenant_id, request_id, first["state"])
    try:
        credential = await in_thread(credential.bound_to, actor)
        while not decided.done() and (left := until - loop.time()) > 0:
            await asyncio.wait(
                [decided], timeout=min(left, max(0.0, asked + conf().live_recheck_seconds - loop.time()))
            )
            if loop.time() - asked >= conf().live_recheck_seconds:
                actor, asked = await in_thread(credential.actor, READ), loop.time()
        found = await in_thread(wait_state, actor=actor, request_id=request_id)
    except (QuarterdeckError, psycopg.Error, DjangoError):
        # Whoever asks again is told why; what was last seen of it is still true of that moment.
        pass
    finally:
        decided.cancel()
    yield dump(found)
