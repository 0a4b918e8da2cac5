"""runs/: lists, one run, its events, snapshot, graph and steps, and the operator's verbs."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

import runtime.actions.runs as actions
from runtime.access import verbs as v
from runtime.api.base import COUNTING, PAGING, PREFIX, TEXT, Endpoint, describe, ref
from runtime.api.http import json_body, path_id
from runtime.api.schemas import ID, RUN_VERB_BODY, TIME, body, paged
from runtime.api.views.replay import linked
from runtime.api.views.tasks import links_of
from runtime.kernel.errors import CursorExpired
from runtime.models.work import RUN_STATUSES
from runtime.queries import graphs as graph_queries
from runtime.queries import runs as queries
from runtime.queries import steps as step_queries
from runtime.queries.base import MAX_LIMIT
from runtime.queries.checkpoints import read_recovery_point

MAX_EVENTS = 5_000


class Runs(Endpoint):
    """Runs, newest first."""

    @describe(
        "List runs, newest first",
        tag="runs",
        name="list_runs",
        answers={200: paged(ref("RunListed"))},
        query={
            **PAGING,
            **COUNTING,
            "status": ({"type": "string"}, f"One or more, comma-separated: {', '.join(RUN_STATUSES)}."),
            "workflow": (TEXT, "Only of this workflow."),
            "task": (ID, "Only of this task."),
            "parent": (ID, "Only of tasks that this run submitted."),
            "created_from": (TIME, "Not created before this time."),
            "created_before": (TIME, "Created before this time."),
        },
    )
    def get(self, request: Request) -> Response:
        params = self.params
        wanted: dict[str, Any] = {
            "status": params.many("status", RUN_STATUSES),
            "workflow": params.text("workflow"),
            "task_id": params.identity("task"),
            "parent": params.identity("parent"),
            "created_from": params.time("created_from"),
            "created_before": params.time("created_before"),
            "cursor": params.cursor(),
            "limit": params.limit(),
            "count": params.flag("count"),
        }
        params.done()
        return Response(queries.list_runs(actor=self.actor, **wanted).as_json())


class Run(Endpoint):
    """One run."""

    @describe("Read a run", tag="runs", name="read_run", answers={200: ref("Run")})
    def get(self, request: Request, run_id: str) -> Response:
        self.params.done()
        run = queries.read_run(actor=self.actor, run_id=path_id(run_id, "run"))
        return Response({**run, "links": links_of(run["task_id"], run["id"])})


class RunEvents(Endpoint):
    """The run's events, gapless by seq."""

    @describe(
        "Read events after a seq",
        tag="runs",
        name="read_events",
        answers={200: ref("Events")},
        query={
            "after": ({"type": "integer", "minimum": 0, "default": 0}, "The last seq you have."),
            "limit": ({"type": "integer", "minimum": 1, "maximum": MAX_EVENTS, "default": 500}, "At most so many."),
        },
        problems={410: "No event follows this cursor; the range and the snapshot's link are in the answer."},
    )
    def get(self, request: Request, run_id: str) -> Response:
        params = self.params
        after = params.integer("after", 0)
        limit = params.integer("limit", 500, low=1, high=MAX_EVENTS)
        params.done()
        wanted = path_id(run_id, "run")
        try:
            return Response(queries.read_events(actor=self.actor, run_id=wanted, after=after, limit=limit))
        except CursorExpired as problem:
            problem.extra["links"] = {"snapshot": f"{PREFIX}/runs/{wanted}/snapshot/"}
            raise


class RunSnapshot(Endpoint):
    """The run as of one seq."""

    @describe("Read the run's state as of one seq", tag="runs", name="read_snapshot", answers={200: ref("Snapshot")})
    def get(self, request: Request, run_id: str) -> Response:
        self.params.done()
        return Response(queries.read_snapshot(actor=self.actor, run_id=path_id(run_id, "run")))


class RunCheckpoint(Endpoint):
    """The point the run would be recovered from."""

    @describe(
        "Read what the run would be recovered from, as of one seq",
        tag="runs",
        name="read_checkpoint",
        answers={200: ref("RecoveryPoint")},
    )
    def get(self, request: Request, run_id: str) -> Response:
        self.params.done()
        return Response(read_recovery_point(actor=self.actor, run_id=path_id(run_id, "run")))


class RunGraph(Endpoint):
    """The run's graph with the status of each node."""

    @describe(
        "Read the run's graph with the place of each node",
        tag="runs",
        name="read_graph",
        answers={200: ref("Graph")},
        query={
            "steps": ({"enum": ["full", "brief"], "default": "full"}, "brief: only what a picture shows."),
            "until": ({"type": "integer", "minimum": 1}, "As it stood after this event, instead of now."),
        },
        problems={410: "With `until`: events are gone; the snapshot's link is in the answer."},
    )
    def get(self, request: Request, run_id: str) -> Response:
        params = self.params
        brief = params.many("steps", ("full", "brief")) == ["brief"]
        until = params.integer("until", 0, low=1) or None
        params.done()
        wanted = path_id(run_id, "run")
        with linked(wanted, "query until"):
            answer = graph_queries.read_graph(actor=self.actor, run_id=wanted, brief=brief, until=until)
        return Response(answer)


class RunSteps(Endpoint):
    """The run's steps."""

    @describe(
        "List the run's steps",
        tag="runs",
        name="list_steps",
        answers={200: ref("Steps")},
        query={
            "all": ({"type": "boolean"}, f"Also superseded execution versions, {MAX_LIMIT} to a page."),
            "cursor": PAGING["cursor"],
            "limit": (
                {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT},
                "Items on a page; without it all current steps are one.",
            ),
        },
    )
    def get(self, request: Request, run_id: str) -> Response:
        params = self.params
        wanted: dict[str, Any] = {
            "all_versions": params.flag("all"),
            "cursor": params.cursor(),
            "limit": params.integer("limit", 0, low=1, high=MAX_LIMIT) or None,
        }
        params.done()
        return Response(step_queries.list_steps(actor=self.actor, run_id=path_id(run_id, "run"), **wanted))


class RunVerb(Endpoint):
    """Cancel, pause or resume a run."""

    verb: ClassVar[str]

    def act(self, request: Request, run_id: str) -> Response:
        """Call the verb's action and answer with the new state."""
        wanted = path_id(run_id, "run")
        value = json_body(request, body("run_verb"), optional=True)
        action = {v.RUN_CANCEL: actions.cancel_run, v.RUN_PAUSE: actions.pause_run, v.RUN_RESUME: actions.resume_run}
        answer = action[self.verb](
            actor=self.actor,
            run_id=wanted,
            reason=value.get("reason", ""),
            expected_version=value.get("expected_version"),
        )
        return Response(answer)


def run_verb(verb: str, summary: str) -> type[RunVerb]:
    """Return the endpoint of one verb; each is its own sub-resource."""
    name = verb.replace("run.", "") + "_run"
    post = describe(summary, tag="runs", name=name, answers={200: ref("RunAnswer")}, body=RUN_VERB_BODY)(
        lambda self, request, run_id: self.act(request, run_id)
    )
    return type(name.title().replace("_", ""), (RunVerb,), {"verb": verb, "post": post, "__doc__": summary})


CancelRun = run_verb(v.RUN_CANCEL, "Cancel a run: nothing new starts, running steps stop at their safe point")
PauseRun = run_verb(v.RUN_PAUSE, "Pause a run: nothing new is dispatched")
ResumeRun = run_verb(v.RUN_RESUME, "Resume a paused run")
