"""runs/{id}/replay/: a run as it was after one of its events. By POST too it writes nothing and calls no tool."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from runtime.api import part_schemas
from runtime.api.base import PREFIX, Endpoint, describe
from runtime.api.http import MAX_INT, json_body, path_id
from runtime.api.schemas import COUNT, FLAG, ID, OBJECT, STEP, TEXT, TIME, many, maybe, shape
from runtime.kernel.errors import BadInput, EventsGone
from runtime.kernel.schemas import Compiled, compile_schema
from runtime.models.effects import OPERATION_STATUSES
from runtime.models.work import RUN_STATUSES
from runtime.queries.replay import replay_run

_UNTIL = {"type": "integer", "minimum": 1, "maximum": MAX_INT}
_WHICH = "The last event to be told, by its seq; the newest when absent."
BODY = shape({}, {"until": {**_UNTIL, "description": _WHICH}}, closed=True)
_NOW = shape({"execution_version": COUNT, "status": TEXT, "cause": maybe(TEXT)})
_STEP = {
    **STEP,
    "properties": {**STEP["properties"], "now": {**maybe(_NOW), "description": "The state its node is in today."}},
}
_ANSWER = shape(
    {
        "run_id": ID,
        "workflow": TEXT,
        "workflow_version": COUNT,
        "until": COUNT,
        "head_seq": COUNT,
        "at": {**TIME, "description": "When the last event told was."},
        "event": OBJECT,
        "results": {"const": "recorded", "description": "Nothing was carried out again."},
        "run": shape(
            {
                "id": ID,
                "status": {"enum": list(RUN_STATUSES)},
                "reason": TEXT,
                "version": COUNT,
                "seq": COUNT,
                "paused": FLAG,
                "cancel_requested": FLAG,
                "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
                "output_kind": part_schemas.OUTPUT_KIND,
            }
        ),
        "steps": many(_STEP),
        "operations": many(shape({"operation_id": ID, "status": {"enum": list(OPERATION_STATUSES)}})),
        "stored": {
            **shape({"seq": COUNT, "ok": FLAG, "differences": many(TEXT)}),
            "description": "All of the run's events, folded, beside its rows as they are stored.",
        },
    }
)
_GONE = {410: "Events are gone, so it cannot be told; the snapshot's link is in the answer."}


@cache
def _body() -> Compiled:
    return compile_schema(BODY)


@contextmanager
def linked(run_id: uuid.UUID, where: str) -> Iterator[None]:
    """Let a refusal of a past name the place it was asked in, and where the present is read."""
    try:
        yield
    except BadInput as problem:
        problem.where = where
        raise
    except EventsGone as problem:
        problem.extra["links"] = {"snapshot": f"{PREFIX}/runs/{run_id}/snapshot/"}
        raise


class Replay(Endpoint):
    """A run as it was."""

    @describe(
        "Tell a run again from its events, up to one of them: nothing is called or written",
        tag="runs",
        name="read_replay",
        answers={200: _ANSWER},
        query={"until": (_UNTIL, _WHICH)},
        problems=_GONE,
    )
    def get(self, request: Request, run_id: str) -> Response:
        params = self.params
        until = params.integer("until", 0, low=1) or None
        params.done()
        return self._answer(run_id, until, "query until")

    @describe(
        "The same, asked by a body; it changes nothing either",
        tag="runs",
        name="replay_run",
        answers={200: _ANSWER},
        body=BODY,
        problems=_GONE,
    )
    def post(self, request: Request, run_id: str) -> Response:
        path_id(run_id, "run")
        return self._answer(run_id, json_body(request, _body(), optional=True).get("until"), "/until")

    def _answer(self, run_id: str, until: int | None, where: str) -> Response:
        wanted = path_id(run_id, "run")
        with linked(wanted, where):
            answer: dict[str, Any] = replay_run(actor=self.actor, run_id=wanted, until=until)
        return Response(answer)
