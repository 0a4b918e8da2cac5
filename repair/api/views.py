"""repairs/: cases, and the verbs on them. Only a POST changes anything."""

from __future__ import annotations

import uuid
from datetime import datetime
from functools import cache
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from repair import queries
from repair.actions.claim import claim_case, hand_over_case, release_case
from repair.actions.investigate import ask_tool, record_answer
from repair.actions.open import open_case
from repair.actions.propose import keep_pending, propose_resolution
from repair.actions.resolve import resolve_case, review_proposal
from repair.api import schemas
from repair.board import effects_of_run
from repair.law import STATES
from repair.resuming import preview_resume
from repair.verbs import OPEN, REVIEW, WORK
from runtime.access.authorize import authorize
from runtime.api.base import COUNTING, PAGING, Endpoint, describe
from runtime.api.http import body_id, json_body, path_id
from runtime.api.schemas import ID, TEXT, maybe, paged, shape
from runtime.kernel.errors import BadInput
from runtime.kernel.schemas import Compiled, compile_schema
from runtime.kernel.seams import CASE_KINDS

_FLAG = {"type": "boolean"}
OPEN_BODY = shape({"run_id": ID, "reason": {"type": "string", "maxLength": 2000}}, {"step_id": ID}, closed=True)


@cache
def _compiled(name: str) -> Compiled:
    return compile_schema(OPEN_BODY if name == "OPEN" else getattr(schemas, name))


def _last(values: list[str]) -> str | None:
    return values[-1] if values else None


class Repairs(Endpoint):
    """Cases a person is needed for."""

    @describe(
        "List repair cases: open ones by due date, resolved ones newest first",
        tag="repairs",
        name="list_repairs",
        answers={200: paged(shape(schemas.LISTED, {"review": maybe(schemas.WAITS)}))},
        query={
            **PAGING,
            **COUNTING,
            "state": ({"enum": list(STATES)}, "In this state; left out: every open one."),
            "kind": ({"enum": list(CASE_KINDS)}, "Of this kind."),
            "tool": (TEXT, "About this tool, name@version."),
            "risk": ({"enum": ["high", "medium", "low"]}, "Of this risk."),
            "alike": (TEXT, "With this fingerprint."),
            "run": (ID, "Of this run."),
            "mine": (_FLAG, "Only what you own."),
            "unowned": (_FLAG, "Only what nobody owns."),
            "overdue": (_FLAG, "Only what is overdue."),
            "review": ({"enum": ["mine"]}, "Only what waits for your review; each with its `review`."),
        },
    )
    def get(self, request: Request) -> Response:
        params = self.params
        wanted: dict[str, Any] = {
            "state": _last(params.many("state", STATES)),
            "kind": _last(params.many("kind", tuple(CASE_KINDS))),
            "risk": _last(params.many("risk", ("high", "medium", "low"))),
            "tool": params.text("tool"),
            "alike": params.text("alike"),
            "run": params.identity("run"),
            "mine": params.flag("mine"),
            "unowned": params.flag("unowned"),
            "overdue": params.flag("overdue"),
            "review": _last(params.many("review", ("mine",))),
            "cursor": params.cursor(),
            "limit": params.limit(),
            "count": params.flag("count"),
        }
        params.done()
        return Response(queries.list_cases(actor=self.actor, **wanted).as_json())

    @describe(
        "Open a case by hand",
        tag="repairs",
        name="open_repair",
        answers={201: schemas.ANSWER},
        body=OPEN_BODY,
    )
    def post(self, request: Request) -> Response:
        authorize(self.actor, OPEN)
        value = json_body(request, _compiled("OPEN"))
        step = value.get("step_id")
        answer = open_case(
            actor=self.actor,
            run_id=uuid.UUID(value["run_id"]),
            step_id=uuid.UUID(step) if step else None,
            reason=value["reason"],
        )
        return Response(answer, status=201)


class Repair(Endpoint):
    """One case with everything that is known of it."""

    @describe("Read a repair case", tag="repairs", name="read_repair", answers={200: schemas.WHOLE})
    def get(self, request: Request, repair_id: str) -> Response:
        self.params.done()
        return Response(queries.get_case(actor=self.actor, case_id=path_id(repair_id, "case")))


class ResumePreview(Endpoint):
    """What resuming the step would do."""

    @describe(
        "Foresee which steps a resume runs, what it reuses and what it may cost; its hash is quoted by the order",
        tag="repairs",
        name="preview_resume",
        answers={200: schemas.PREVIEW},
    )
    def get(self, request: Request, repair_id: str) -> Response:
        self.params.done()
        return Response(preview_resume(actor=self.actor, case_id=path_id(repair_id, "case")))


class RunEffects(Endpoint):
    """The compensation board of a run."""

    @describe(
        "List every effect of a run: what became of it, on what evidence, whose it is; doubts first",
        tag="repairs",
        name="list_effects",
        answers={200: schemas.EFFECTS},
    )
    def get(self, request: Request, run_id: str) -> Response:
        self.params.done()
        return Response(effects_of_run(actor=self.actor, run_id=path_id(run_id, "run")))


class CaseVerb(Endpoint):
    """A verb on a case."""

    def read(self, request: Request, repair_id: str, body: str, verb: str = WORK) -> dict[str, Any]:
        """Return what the action takes: the actor, the case's id and the checked body."""
        authorize(self.actor, verb)
        wanted = path_id(repair_id, "case")
        return {"actor": self.actor, "case_id": wanted, **json_body(request, _compiled(body))}


def _verb(summary: str, name: str, body: Any) -> Any:
    return describe(summary, tag="repairs", name=name, answers={200: schemas.ANSWER}, body=body)


class Claim(CaseVerb):
    """Taking a case."""

    @_verb("Take a case under a new owner_epoch of its step", "claim_repair", schemas.VERSIONED)
    def post(self, request: Request, repair_id: str) -> Response:
        return Response(claim_case(**self.read(request, repair_id, "VERSIONED")))


class Release(CaseVerb):
    """Giving a case back."""

    @_verb("Give a case back", "release_repair", schemas.REASONED)
    def post(self, request: Request, repair_id: str) -> Response:
        return Response(release_case(**self.read(request, repair_id, "REASONED")))


class HandOver(CaseVerb):
    """Handing a case to another person."""

    @_verb("Hand a case to another member", "hand_over_repair", schemas.HAND_OVER)
    def post(self, request: Request, repair_id: str) -> Response:
        value = self.read(request, repair_id, "HAND_OVER")
        return Response(hand_over_case(**{"expected_version": None, **value}))


class Investigate(CaseVerb):
    """Looking outside."""

    @_verb("Ask the tool by key, or record what you saw outside", "investigate_repair", schemas.INVESTIGATE)
    def post(self, request: Request, repair_id: str) -> Response:
        value = self.read(request, repair_id, "INVESTIGATE")
        if "answer" not in value:
            if set(value) - {"actor", "case_id", "expected_version"}:
                raise BadInput(
                    "Evidence belongs to an answer.", where="/answer", remediation="Say what the outside answered."
                )
            return Response(ask_tool(**value))
        return Response(record_answer(**{"evidence": "", "source": "", **value}))


class Propose(CaseVerb):
    """Proposing a resolution."""

    @_verb("Propose how a case is resolved", "propose_repair", schemas.PROPOSE)
    def post(self, request: Request, repair_id: str) -> Response:
        return Response(propose_resolution(**_with_id(self.read(request, repair_id, "PROPOSE"))))


class Review(CaseVerb):
    """The second person's review."""

    @_verb("Approve a proposal, which carries it out, or send it back", "review_repair", schemas.REVIEW)
    def post(self, request: Request, repair_id: str) -> Response:
        return Response(review_proposal(**_with_id(self.read(request, repair_id, "REVIEW", REVIEW))))


class Resolve(CaseVerb):
    """Carrying a proposal out."""

    @_verb("Carry out what was proposed", "resolve_repair", schemas.RESOLVE)
    def post(self, request: Request, repair_id: str) -> Response:
        return Response(resolve_case(**_with_id(self.read(request, repair_id, "RESOLVE"))))


class KeepPending(CaseVerb):
    """Another due date."""

    @_verb("Keep a case open until another due date", "keep_repair_pending", schemas.KEEP_PENDING)
    def post(self, request: Request, repair_id: str) -> Response:
        value = self.read(request, repair_id, "KEEP_PENDING")
        try:
            due_at = datetime.fromisoformat(value["due_at"])
        except ValueError:
            due_at = datetime.min
        if due_at.tzinfo is None:
            raise BadInput("That is no RFC 3339 time.", where="/due_at", remediation="Write 2026-11-30T14:00:00Z.")
        return Response(keep_pending(**{**value, "due_at": due_at}))


def _with_id(value: dict[str, Any]) -> dict[str, Any]:
    if "repair_id" in value:
        value["repair_id"] = body_id(value["repair_id"], "/repair_id")
    return value
