"""``GET runs/{id}/stream/``: a run's events after commit, as server-sent events; ``Last-Event-ID`` continues.

Each event's id is its ``run_seq``. The feed only rings: every reader reads its own events from the ledger behind its
own cursor, so nothing is passed over. daphne never says that a client does not read: what is sent lies in memory until
then. So a response ends after MOST_BYTES, and its reader comes back for the rest. Once the run has ended and all of it
is sent, an event ``end`` says so and the response ends; who comes back then is answered 204, by which a browser stops.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import psycopg
from channels.layers import get_channel_layer
from django.db import Error as DjangoError
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from dashboard.live.access import Credential
from dashboard.live.endpoint import TOO_MANY, Lasting, LastingEndpoint
from dashboard.live.feed import feed, group_of
from dashboard.live.threads import in_thread
from runtime.api.base import PREFIX, TEXT, describe
from runtime.api.http import dump, path_id
from runtime.kernel.actor import Actor
from runtime.kernel.conf import conf
from runtime.kernel.errors import BadInput, CursorExpired, QuarterdeckError
from runtime.queries.runs import read_events

BATCH = 500
COMMENT_SECONDS = 10.0
MOST_BYTES = 4_000_000


class RunStream(LastingEndpoint):
    """The run's events as they commit."""

    @describe(
        "Follow a run's events (server-sent events)",
        tag="runs",
        name="stream_events",
        answers={200: TEXT, 204: None},
        media_type="text/event-stream",
        headers={"Last-Event-ID": "The last seq you have; wins over `after`."},
        query={"after": ({"type": "integer", "minimum": 0, "default": 0}, "The last seq you have.")},
        problems={
            410: "No event follows this cursor; the range and the snapshot's link are in the answer.",
            429: TOO_MANY,
        },
    )
    def get(self, request: Request, run_id: str) -> HttpResponseBase:
        params = self.params
        after = params.integer("after", 0)
        params.done()
        wanted = path_id(run_id, "run")
        if (last := request.headers.get("Last-Event-ID", "")) != "":
            if not (last.isascii() and last.isdigit() and len(last) <= 18):
                raise BadInput("Last-Event-ID is a seq.", where="header Last-Event-ID")
            after = int(last)
        answer = read_first(self.actor, wanted, after)
        if answer["ended"] and after >= answer["head_seq"]:
            return HttpResponse(status=204, headers={"Cache-Control": "no-store"})
        credential = credential_for(request)
        response = Lasting(
            follow(self.actor, credential, wanted, after, answer["events"]),
            content_type="text/event-stream; charset=utf-8",
        )
        response["Cache-Control"] = "no-store"
        response["X-Accel-Buffering"] = "no"
        return response

    def head(self, request: Request, run_id: str) -> HttpResponse:
        """Answer what a GET would, without its body: one that goes on would hold the connection and be misread."""
        streamed = self.get(request, run_id)
        return HttpResponse(status=streamed.status_code, headers=dict(streamed.items()))


def read_first(actor: Actor, run_id: uuid.UUID, after: int) -> dict[str, Any]:
    """Return the first batch after the cursor, as ``read_events`` does.

    Raises CursorExpired with the snapshot's link.
    """
    try:
        return read_events(actor=actor, run_id=run_id, after=after, limit=BATCH)
    except CursorExpired as problem:
        problem.extra["links"] = {"snapshot": f"{PREFIX}/runs/{run_id}/snapshot/"}
        raise


def credential_for(request: Request) -> Credential:
    """Return what to ask again while the stream is open."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return Credential(token=token.strip())
    return Credential(session_key=request._request.session.session_key)


async def follow(
    actor: Actor, credential: Credential, run_id: uuid.UUID, after: int, first: list[dict[str, Any]]
) -> AsyncIterator[bytes]:
    """Yield the events after ``after`` until the run has ended, MOST_BYTES are sent or the right to read is gone."""
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(group_of(run_id), channel)
    cursor = first[-1]["seq"] if first else after
    feed().watch(actor.tenant_id, run_id, cursor)
    loop = asyncio.get_running_loop()
    asked, said = loop.time(), loop.time()
    try:
        credential = await in_thread(credential.bound_to, actor)
        text = b"retry: 1000\n\n" + b"".join(as_event(event) for event in first)
        sent = len(text)
        yield text
        # What committed between the first read and joining the group rang for nobody.
        more = True
        while sent < MOST_BYTES:
            if not more:
                await _rung(layer, channel, cursor, min(COMMENT_SECONDS, conf().live_recheck_seconds))
            if loop.time() - asked >= conf().live_recheck_seconds:
                await in_thread(credential.actor)
                asked = loop.time()
            # Also when nobody rang in time: a bell that is broken must not look like a run that stands still.
            answer = await in_thread(read_events, actor=actor, run_id=run_id, after=cursor, limit=BATCH)
            cursor = answer["last_seq"]
            more = cursor < answer["head_seq"]
            text = b"".join(as_event(event) for event in answer["events"])
            if answer["ended"] and not more:
                yield text + as_end(answer)
                return
            if not text and loop.time() - said < COMMENT_SECONDS:
                continue
            sent, said = sent + len(text), loop.time()
            yield text or b": alive\n\n"
    except QuarterdeckError as problem:
        yield b"event: problem\ndata: " + dump(problem.as_problem()) + b"\n\n"
    except (psycopg.Error, DjangoError):
        # The reader comes back by itself with its Last-Event-ID.
        return
    finally:
        feed().unwatch(run_id)
        with suppress(Exception):
            await layer.group_discard(group_of(run_id), channel)


async def _rung(layer: Any, channel: str, cursor: int, seconds: float) -> None:
    """Wait until the feed says that something follows ``cursor``, at most ``seconds``."""
    until = asyncio.get_running_loop().time() + seconds
    while (left := until - asyncio.get_running_loop().time()) > 0:
        try:
            message = await asyncio.wait_for(layer.receive(channel), left)
        except TimeoutError:
            return
        if message["type"] == "run.patch" and message["to_seq"] > cursor:
            return


def as_end(answer: dict[str, Any]) -> bytes:
    """Return the event that says that all of an ended run was sent; without an id, so that the last seq stays it."""
    data = {"run_status": answer["run_status"], "last_seq": answer["last_seq"]}
    return b"event: end\ndata: %b\n\n" % dump(data)


def as_event(event: dict[str, Any]) -> bytes:
    """Return one event in the format of event streams."""
    return b"id: %d\ndata: %b\n\n" % (event["seq"], dump(event))
