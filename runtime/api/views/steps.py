"""steps/: one step, and the operator's verbs on it."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

import runtime.actions.steps as actions
from runtime.access import verbs as v
from runtime.api.base import PAGING, Endpoint, describe, ref
from runtime.api.http import json_body, path_id
from runtime.api.schemas import FORCE_BODY, OBJECT, STEP_VERB_BODY, body, paged
from runtime.queries import steps as queries
from runtime.queries.arguments import read_arguments
from runtime.queries.forcing import preview_force
from runtime.queries.reruns import preview_rerun


class Step(Endpoint):
    """One step with attempts, checkpoint and operations."""

    @describe("Read a step", tag="steps", name="read_step", answers={200: ref("StepDetail")})
    def get(self, request: Request, step_id: str) -> Response:
        self.params.done()
        return Response(queries.read_step(actor=self.actor, step_id=path_id(step_id, "step")))


class StepAttempts(Endpoint):
    """A step's attempts, newest first."""

    @describe(
        "List the attempts of a step, newest first",
        tag="steps",
        name="list_attempts",
        answers={200: paged(OBJECT)},
        query=PAGING,
    )
    def get(self, request: Request, step_id: str) -> Response:
        params = self.params
        cursor, limit = params.cursor(), params.limit()
        params.done()
        wanted = path_id(step_id, "step")
        return Response(queries.list_attempts(actor=self.actor, step_id=wanted, cursor=cursor, limit=limit).as_json())


class StepArguments(Endpoint):
    """What a step was called with."""

    @describe(
        "Read what a step was called with: as it was sent, or made again with the same hash",
        tag="steps",
        name="read_arguments",
        answers={200: ref("StepArguments")},
        query={"attempt": ({"type": "integer", "minimum": 1}, "Of this attempt; the newest that called something.")},
    )
    def get(self, request: Request, step_id: str) -> Response:
        params = self.params
        attempt = params.integer("attempt", 0, low=1, high=32_767) or None
        params.done()
        wanted = path_id(step_id, "step")
        return Response(read_arguments(actor=self.actor, step_id=wanted, attempt=attempt))


class ForcePreview(Endpoint):
    """What forcing a step would do."""

    @describe(
        "Say what marking a step as succeeded by hand would do",
        tag="steps",
        name="preview_force",
        answers={200: ref("ForcePreview")},
    )
    def get(self, request: Request, step_id: str) -> Response:
        self.params.done()
        return Response(preview_force(actor=self.actor, step_id=path_id(step_id, "step")))


class RerunPreview(Endpoint):
    """What running a step again would do."""

    @describe(
        "Say what running a step again would do: a forced one too, as its next execution version",
        tag="steps",
        name="preview_rerun",
        answers={200: ref("RerunPreview")},
    )
    def get(self, request: Request, step_id: str) -> Response:
        self.params.done()
        return Response(preview_rerun(actor=self.actor, step_id=path_id(step_id, "step")))


class StepVerb(Endpoint):
    """A verb on a step, in the version the caller was shown."""

    verb: ClassVar[str]
    call: ClassVar[Any]
    form: ClassVar[str] = "step_verb"

    def act(self, request: Request, step_id: str) -> Response:
        """Call the verb's action and answer with the new state."""
        wanted = path_id(step_id, "step")
        value = json_body(request, body(self.form))
        return Response(type(self).call(actor=self.actor, step_id=wanted, **value))


def step_verb(verb: str, action: Any, summary: str, form: str = "step_verb") -> type[StepVerb]:
    """Return the endpoint of one verb; each is its own sub-resource, its body's schema is named by ``form``."""
    name = action.__name__
    schema = FORCE_BODY if form == "force" else STEP_VERB_BODY
    post = describe(summary, tag="steps", name=name, answers={200: ref("StepAnswer")}, body=schema)(
        lambda self, request, step_id: self.act(request, step_id)
    )
    members = {"verb": verb, "call": staticmethod(action), "form": form, "post": post, "__doc__": summary}
    return type(name.title().replace("_", ""), (StepVerb,), members)


RerunStep = step_verb(v.STEP_RERUN, actions.rerun_step, "Run a finished step again, in a new execution version")
SkipStep = step_verb(v.STEP_SKIP, actions.skip_step, "Skip a step; what follows goes on as if it had succeeded")
UnskipStep = step_verb(v.STEP_UNSKIP, actions.unskip_step, "Take a skip back")
HoldStep = step_verb(v.STEP_HOLD, actions.hold_step, "Hold a step, or a running one at its next yield")
ReleaseStep = step_verb(v.STEP_RELEASE, actions.release_step, "Release a step that an operator held")
KillStep = step_verb(v.STEP_KILL, actions.kill_step, "Kill a queued or running step")
ForceStep = step_verb(
    v.STEP_FORCE, actions.force_step, "Force a step's success; grants nothing, writes no outcome", "force"
)
