"""``/ws/runs/{id}/?after=SEQ``: a run's picture kept live.

The server sends JSON: ``snapshot`` {run_id, seq, run, steps, at} when no ``after`` was given, else at once a ``patch``
{run_id, from_seq, to_seq, run, steps, at} with what moved since; then a patch whenever something moved and a ``tick``
{run_id, seq} each second. Patches follow each other without a gap in their seqs; a reader who sees one sends
``{"type": "read", "after": SEQ}`` (or ``after: null`` for a snapshot).

A reader may confirm what it has drawn by ``{"type": "ack", "seq": SEQ}``. From its first confirmation on no more than
WINDOW patches are on their way to it: a reader that falls behind is sent nothing until it confirms again, then one
``resync`` {seq}, upon which it reads. One that never confirms and does not take what it is sent is closed (4429) at
MAX_BACKLOG bytes. So nothing piles up here for anybody who is slow.

A refusal is a ``problem`` (the members of RFC 9457) followed by a close: 4401 no credential, 4403 not permitted (also
when a right is taken away later), 4404 no such run, 4410 cursor expired, 4400 bad request, 4429 too many of yours are
open, 4503 the database or the channel layer is away, or as many are open here as this process serves.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import deque
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

import psycopg
import structlog
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import Error as DjangoError

from dashboard.live.access import Credential, credential_of
from dashboard.live.feed import feed, group_of, patch_message
from dashboard.live.seats import Seat
from dashboard.live.threads import in_thread
from runtime.api.base import PREFIX
from runtime.api.http import dump
from runtime.kernel.actor import Actor
from runtime.kernel.conf import conf
from runtime.kernel.errors import BadInput, CursorExpired, NotFound, PermissionDenied, QuarterdeckError, Unavailable
from runtime.kernel.ids import parse_uuid
from runtime.queries.graphs import read_patch

log = structlog.get_logger(__name__)

WINDOW = 64
MAX_BACKLOG = 4_000_000
MAX_MESSAGE = 1_000
CLOSES = {400: 4400, 401: 4401, 403: 4403, 404: 4404, 410: 4410, 429: 4429, 503: 4503}


class RunSocket(AsyncWebsocketConsumer):
    """One reader of one run."""

    run_id: uuid.UUID
    actor: Actor
    credential: Credential
    seat: Seat
    accepted = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve the socket; refuse it with 4503 when the channel layer gives none, before it could be accepted.

        Left alone the server would answer the handshake with 403, which says "never" to a reader who should come back.
        """
        self.seat = Seat()
        try:
            await super().__call__(scope, receive, send)
        except Exception as problem:
            if self.accepted:
                raise
            log.warning("the channel layer is away", problem=str(problem)[:300])
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.close", "code": CLOSES[503], "reason": Unavailable.code})
        finally:
            self.seat.leave()

    async def connect(self) -> None:
        self.seq, self.confirms, self.behind = 0, False, False
        self.in_flight: deque[int] = deque()
        self.watching = self.closed = False
        self.guard: asyncio.Task[None] | None = None
        self.accepted = True
        await self.accept()
        try:
            await self._open()
        except QuarterdeckError as problem:
            await self._refuse(problem)
        except (psycopg.Error, DjangoError) as problem:
            await self._refuse(Unavailable(str(problem).split("\n")[0]))

    async def _open(self) -> None:
        self.seat.take()
        scope: dict[str, Any] = dict(self.scope or {})
        run_id = parse_uuid(scope["url_route"]["kwargs"]["run_id"])
        if run_id is None:
            raise NotFound("There is no run of that id in this tenant.")
        self.run_id = run_id
        after = _after(parse_qs(scope["query_string"].decode("latin-1")).get("after", [None])[0])
        credential = credential_of(scope)
        self.actor = await in_thread(credential.actor)
        self.seat.give(self.actor)
        self.credential = await in_thread(credential.bound_to, self.actor)
        # The group first and the read then: what commits in between comes twice rather than not at all.
        await self.channel_layer.group_add(group_of(run_id), self.channel_name)
        await self._read(after)
        if not self.closed:
            feed().watch(self.actor.tenant_id, run_id, self.seq)
            self.watching = True
            self.guard = asyncio.create_task(self._recheck())

    async def disconnect(self, code: int) -> None:
        self.closed = True
        if self.guard is not None:
            self.guard.cancel()
        if self.watching:
            self.watching = False
            feed().unwatch(self.run_id)
        if hasattr(self, "run_id"):
            await self.channel_layer.group_discard(group_of(self.run_id), self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            message = json.loads(text_data) if text_data and len(text_data) <= MAX_MESSAGE else None
            if not isinstance(message, dict):
                raise BadInput("A message is a small JSON object.")
            kind = message.get("type")
            if kind == "ack" and isinstance(message["seq"], int):
                await self._confirmed(message["seq"])
            elif kind == "read":
                self.behind = False
                self.in_flight.clear()
                await self._read(_after(message.get("after")))
            else:
                raise BadInput("A message is an ack or a read.")
        except (ValueError, KeyError, RecursionError):
            await self._refuse(BadInput("The message is not JSON that is understood here."))
        except QuarterdeckError as problem:
            await self._refuse(problem)
        except (psycopg.Error, DjangoError) as problem:
            await self._refuse(Unavailable(str(problem).split("\n")[0]))

    # -- what the feed says

    async def run_patch(self, event: dict[str, Any]) -> None:
        """Pass a patch on, unless it is known already or the reader is behind."""
        if self.closed or event["to_seq"] <= self.seq:
            return
        if self.confirms and len(self.in_flight) >= WINDOW:
            self.behind = True
        if self.behind:
            return
        self.seq = event["to_seq"]
        if self.confirms:
            self.in_flight.append(self.seq)
        await self._pass(event["text"])

    async def run_tick(self, event: dict[str, Any]) -> None:
        """Pass the sign of life on."""
        if not self.closed and not self.behind:
            await self._pass(event["text"])

    # -- what the reader says

    async def _confirmed(self, seq: int) -> None:
        self.confirms = True
        while self.in_flight and self.in_flight[0] <= seq:
            self.in_flight.popleft()
        if self.behind and not self.in_flight:
            self.behind = False
            await self._send({"type": "resync", "run_id": self.run_id, "seq": self.seq})

    async def _read(self, after: int | None) -> None:
        patch = await in_thread(read_patch, actor=self.actor, run_id=self.run_id, after=after)
        seq = patch["run"]["seq"]
        if after is None:
            body = {"type": "snapshot", "run_id": self.run_id, "seq": seq}
            await self._send({**body, "run": patch["run"], "steps": patch["steps"], "at": patch["at"]})
        elif not patch["first"] - 1 <= after <= seq:
            raise CursorExpired(
                f"Events {patch['first']} to {seq} are there; nothing follows {after}.",
                run_id=self.run_id,
                available={"first": patch["first"], "last": seq},
                links={"snapshot": f"{PREFIX}/runs/{self.run_id}/snapshot/"},
            )
        else:
            await self._send(patch_message(after + 1, patch))
        self.seq = max(self.seq, seq)

    async def _recheck(self) -> None:
        """Ask now and then whether the credential still holds (C6.2)."""
        while True:
            await asyncio.sleep(conf().live_recheck_seconds)
            try:
                actor = await in_thread(self.credential.actor)
                if actor.tenant_id != self.actor.tenant_id:
                    raise PermissionDenied("This credential belongs to another tenant now.")
            except Unavailable:
                continue
            except QuarterdeckError as problem:
                await self._refuse(problem)
                return
            except (psycopg.Error, DjangoError):
                continue

    # -- sending

    async def _send(self, message: dict[str, Any]) -> None:
        if not self.closed:
            await self._pass(dump(message).decode())

    async def _pass(self, text: str) -> None:
        if self._backlog() > MAX_BACKLOG:
            self.closed = True
            await self.close(code=4429, reason="too_slow")
            return
        await self.send(text)

    def _backlog(self) -> int:
        """Return how many bytes wait in the server for this reader to take them; 0 where it does not say.

        ASGI has no word for it, and daphne writes into its transport whether or not anybody reads.
        """
        protocol = next(iter(getattr(self.base_send, "args", ())), None)
        transport = getattr(protocol, "transport", None)
        waiting = len(getattr(transport, "dataBuffer", b"")) - getattr(transport, "offset", 0)
        return waiting + getattr(transport, "_tempDataLen", 0)

    async def _refuse(self, problem: QuarterdeckError) -> None:
        await self._send({**problem.as_problem(), "type": "problem"})
        self.closed = True
        self.seat.leave()
        with suppress(RuntimeError):
            await self.close(code=CLOSES.get(problem.http_status, 4400), reason=problem.code)


class NoSocket(AsyncWebsocketConsumer):
    """Every other address: accepted, told and closed, so that a browser can say why."""

    async def connect(self) -> None:
        await self.accept()
        await self.close(code=4404, reason="not_found")


def _after(value: Any) -> int | None:
    """Return a cursor; None for none. Raises BadInput."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**18:
        return value
    raise BadInput("after is a seq: a whole number from 0.", where="query after")
