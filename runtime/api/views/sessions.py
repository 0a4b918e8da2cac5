"""sessions/: context of one's own, and the tasks attached to it."""

from __future__ import annotations

import uuid
from functools import cache

from rest_framework.request import Request
from rest_framework.response import Response

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.sessions import MAX_KEY_CHARS, attach_task, create_session, set_context
from runtime.api.base import PAGING, PREFIX, TEXT, Endpoint, describe, ref
from runtime.api.http import json_body, path_id
from runtime.api.schemas import FLAG, ID, OBJECT, TIME, many, maybe, paged, shape
from runtime.kernel.schemas import Compiled, compile_schema
from runtime.queries import sessions as queries
from runtime.queries.checkpoints import read_recovery_point
from runtime.queries.tasks import read_task

_CONTEXT = {"type": "object", "description": "Any JSON object of at most 64,000 bytes."}
_KEY = {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS}
SESSION_BODY = shape({"key": _KEY}, {"context": _CONTEXT}, closed=True)
CONTEXT_BODY = shape({"context": _CONTEXT}, closed=True)
ATTACH_BODY = shape({"task_id": ID}, closed=True)
_LISTED = shape({"id": ID, "key": _KEY, "created_by": {"type": "string"}, "created_at": TIME})
_WRITTEN = shape({"session_id": ID, "key": _KEY, "context": OBJECT})
_ONE = shape(
    {**_LISTED["properties"], "redacted": FLAG, "tasks": many(OBJECT), "tasks_more": FLAG}, {"context": _CONTEXT}
)
_ATTACHED = shape(
    {
        "session_id": ID,
        "key": _KEY,
        "task_id": ID,
        "before": maybe({"type": "string", "description": "The key of the session that it left."}),
        "task": ref("Task"),
        "run": maybe(ref("RecoveryPoint")),
    }
)


@cache
def _body(name: str) -> Compiled:
    return compile_schema({"session": SESSION_BODY, "context": CONTEXT_BODY, "attach": ATTACH_BODY}[name])


class Sessions(Endpoint):
    """One's own sessions; for whoever may use them, those of others."""

    @describe(
        "List sessions, newest first",
        tag="sessions",
        name="list_sessions",
        answers={200: paged(_LISTED)},
        query={**PAGING, "key": (TEXT, "Only the one of this key.")},
    )
    def get(self, request: Request) -> Response:
        params = self.params
        key, cursor, limit = params.text("key"), params.cursor(), params.limit()
        params.done()
        return Response(queries.list_sessions(actor=self.actor, key=key, cursor=cursor, limit=limit).as_json())

    @describe("Make a session", tag="sessions", name="create_session", answers={201: _WRITTEN}, body=SESSION_BODY)
    def post(self, request: Request) -> Response:
        value = json_body(request, _body("session"))
        answer = create_session(actor=self.actor, key=value["key"], context=value.get("context", {}))
        return Response(answer, status=201, headers={"Location": f"{PREFIX}/sessions/{answer['session_id']}/"})


class Session(Endpoint):
    """One session."""

    @describe("Read a session with its newest tasks", tag="sessions", name="read_session", answers={200: _ONE})
    def get(self, request: Request, session_id: str) -> Response:
        self.params.done()
        return Response(queries.read_session(actor=self.actor, session_id=path_id(session_id, "session")))

    @describe(
        "Replace a session's context", tag="sessions", name="set_context", answers={200: _WRITTEN}, body=CONTEXT_BODY
    )
    def put(self, request: Request, session_id: str) -> Response:
        wanted = path_id(session_id, "session")
        value = json_body(request, _body("context"))
        return Response(set_context(actor=self.actor, session_id=wanted, context=value["context"]))


class SessionTasks(Endpoint):
    """The tasks attached to a session."""

    @describe(
        "List a session's tasks, newest first",
        tag="sessions",
        name="list_session_tasks",
        answers={200: paged(OBJECT)},
        query=PAGING,
    )
    def get(self, request: Request, session_id: str) -> Response:
        params = self.params
        cursor, limit = params.cursor(), params.limit()
        params.done()
        wanted = path_id(session_id, "session")
        page = queries.list_session_tasks(actor=self.actor, session_id=wanted, cursor=cursor, limit=limit)
        return Response(page.as_json())

    @describe(
        "Let a task go on in this session; answers with the task's State as you may read it",
        tag="sessions",
        name="attach_task",
        answers={200: _ATTACHED},
        body=ATTACH_BODY,
    )
    def post(self, request: Request, session_id: str) -> Response:
        for verb in (v.TASK_READ, v.RUN_READ):
            authorize(self.actor, verb)
        wanted = path_id(session_id, "session")
        task_id = uuid.UUID(json_body(request, _body("attach"))["task_id"])
        answer = attach_task(actor=self.actor, session_id=wanted, task_id=task_id)
        task = read_task(actor=self.actor, task_id=task_id)
        # Finished steps, waits and effects are those of the newest run; no payload is among them.
        newest = task["runs"][0]["id"] if task["runs"] else None
        run = read_recovery_point(actor=self.actor, run_id=newest) if newest else None
        return Response({**answer, "task": task, "run": run})
