"""tasks/, search/: submitting, reading, new runs, outcomes."""

from __future__ import annotations

import uuid
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from runtime.actions.evidence import Reference
from runtime.actions.outcomes import record_outcome
from runtime.actions.reruns import new_run
from runtime.actions.submit import Accepted, SubmitRequest, submit_bulk, submit_task
from runtime.api.base import COUNTING, PAGING, PREFIX, TEXT, Endpoint, describe, ref
from runtime.api.http import check, idempotency_key, json_body, path_id, rfc3339
from runtime.api.part_schemas import CITED_KINDS
from runtime.api.schemas import BULK_BODY, NEW_RUN_BODY, OBJECT, OUTCOME_BODY, TASK_BODY, body, paged
from runtime.kernel.classes import PRIORITY_CLASSES
from runtime.kernel.errors import QuarterdeckError
from runtime.queries import tasks as queries

MAX_BULK_BYTES = 16_000_000
_TIMES = ("scheduled_at", "data_time", "deadline")


def links_of(task_id: object, run_id: object) -> dict[str, str]:
    """Return the addresses a submitter goes on with (C2.1)."""
    run = f"{PREFIX}/runs/{run_id}/"
    return {
        "task": f"{PREFIX}/tasks/{task_id}/",
        "run": run,
        "events": f"{run}events/",
        "snapshot": f"{run}snapshot/",
        "cancel": f"{run}cancel/",
    }


def _accepted(accepted: Accepted) -> dict[str, Any]:
    return {
        "task_id": accepted.task_id,
        "run_id": accepted.run_id,
        "status": "accepted",
        "replayed": accepted.replayed,
        "links": links_of(accepted.task_id, accepted.run_id),
    }


def _request_of(value: dict[str, Any], request_key: str | None, where: str = "") -> SubmitRequest:
    """Return the submit request in a body that fits its schema; times become UTC."""
    fields = {**value, "request_key": request_key}
    for name in _TIMES:
        if name in fields:
            fields[name] = rfc3339(fields[name], f"{where}/{name}")
    if "parent" in fields:
        fields["parent"] = uuid.UUID(fields["parent"])
    if isinstance(fields.get("priority"), str):
        fields["priority"] = PRIORITY_CLASSES[fields["priority"]]
    return SubmitRequest(**fields)


class Tasks(Endpoint):
    """Submit a task; list tasks."""

    @describe(
        "List tasks, newest first",
        tag="tasks",
        name="list_tasks",
        answers={200: paged(ref("TaskListed"))},
        query={
            **PAGING,
            **COUNTING,
            "workflow": (TEXT, "Only of this workflow."),
            "request_key": (TEXT, "Only with this Idempotency-Key."),
        },
    )
    def get(self, request: Request) -> Response:
        params = self.params
        wanted: dict[str, Any] = {
            "workflow": params.text("workflow"),
            "request_key": params.text("request_key"),
            "cursor": params.cursor(),
            "limit": params.limit(),
            "count": params.flag("count"),
        }
        params.done()
        return Response(queries.list_tasks(actor=self.actor, **wanted).as_json())

    @describe(
        "Submit a task",
        tag="tasks",
        name="submit_task",
        answers={202: ref("Accepted")},
        body=TASK_BODY,
        headers={"Idempotency-Key": "The same key and payload answer the same task; another payload is refused."},
    )
    def post(self, request: Request) -> Response:
        key = idempotency_key(request)
        wanted = _request_of(json_body(request, body("task")), key)
        accepted = submit_task(actor=self.actor, request=wanted)
        return Response(_accepted(accepted), status=202, headers={"Location": f"{PREFIX}/tasks/{accepted.task_id}/"})


class TasksBulk(Endpoint):
    """Submit many tasks at once; each has its own answer."""

    @describe("Submit many tasks", tag="tasks", name="submit_tasks", answers={202: ref("BulkAnswer")}, body=BULK_BODY)
    def post(self, request: Request) -> Response:
        items = json_body(request, body("bulk"), limit=MAX_BULK_BYTES)["tasks"]
        answers: list[dict[str, Any]] = [{} for _ in items]
        good: dict[int, SubmitRequest] = {}
        for index, item in enumerate(items):
            where = f"/tasks/{index}"
            try:
                check(body("bulk_item"), item, where)
                item = dict(item)
                good[index] = _request_of(item, item.pop("request_key", None), where)
            except QuarterdeckError as problem:
                answers[index] = {**problem.as_problem(), "index": index}
        results = submit_bulk(actor=self.actor, requests=list(good.values()))
        for index, result in zip(good, results, strict=True):
            if isinstance(result, QuarterdeckError):
                answers[index] = {**result.as_problem(), "index": index}
                if result.where and result.where.startswith("/"):
                    answers[index]["where"] = f"/tasks/{index}{result.where}"
            else:
                answers[index] = _accepted(result)
        accepted = sum("task_id" in one and one.get("status") == "accepted" for one in answers)
        return Response({"items": answers, "accepted": accepted, "refused": len(items) - accepted}, status=202)


class Task(Endpoint):
    """One task."""

    @describe("Read a task with its runs", tag="tasks", name="read_task", answers={200: ref("Task")})
    def get(self, request: Request, task_id: str) -> Response:
        self.params.done()
        return Response(queries.read_task(actor=self.actor, task_id=path_id(task_id, "task")))


class TaskRuns(Endpoint):
    """A new run of a task whose last run has ended."""

    @describe(
        "Start a new run of the task", tag="tasks", name="new_run", answers={202: ref("NewRun")}, body=NEW_RUN_BODY
    )
    def post(self, request: Request, task_id: str) -> Response:
        wanted = path_id(task_id, "task")
        value = json_body(request, body("new_run"), optional=True)
        answer = new_run(actor=self.actor, task_id=wanted, reason=value.get("reason", ""), budget=value.get("budget"))
        return Response({**answer, "status": "accepted", "links": links_of(wanted, answer["run_id"])}, status=202)


class TaskOutcome(Endpoint):
    """The business verdict on a task."""

    @describe(
        "Read the outcome, its history and the evidence",
        tag="tasks",
        name="read_outcome",
        answers={200: ref("Outcome")},
    )
    def get(self, request: Request, task_id: str) -> Response:
        self.params.done()
        return Response(queries.read_outcome(actor=self.actor, task_id=path_id(task_id, "task")))

    @describe(
        "Record an outcome, as a verifier",
        tag="tasks",
        name="record_outcome",
        answers={201: ref("OutcomeRecorded")},
        body=OUTCOME_BODY,
    )
    def post(self, request: Request, task_id: str) -> Response:
        wanted = path_id(task_id, "task")
        value = json_body(request, body("outcome"))
        answer = record_outcome(
            actor=self.actor,
            task_id=wanted,
            run_id=uuid.UUID(value["run_id"]),
            verifier=value["verifier"],
            verdict=value["verdict"],
            criterion=value["criterion"],
            evidence=[_cited(one) for one in value["evidence"]],
        )
        return Response(answer, status=201)


def _cited(value: str | dict[str, str]) -> Reference:
    if isinstance(value, str):
        return Reference("evidence", uuid.UUID(value))
    name = next(name for name in CITED_KINDS if name in value)
    sha256 = bytes.fromhex(value["sha256"]) if "sha256" in value else None
    return Reference(CITED_KINDS[name], uuid.UUID(value[name]), sha256)


class TaskEvidence(Endpoint):
    """What a verdict on a task may cite, newest first."""

    @describe(
        "List the evidence of a task, newest first",
        tag="tasks",
        name="list_evidence",
        answers={200: paged(OBJECT)},
        query=PAGING,
    )
    def get(self, request: Request, task_id: str) -> Response:
        params = self.params
        cursor, limit = params.cursor(), params.limit()
        params.done()
        wanted = path_id(task_id, "task")
        return Response(queries.list_evidence(actor=self.actor, task_id=wanted, cursor=cursor, limit=limit).as_json())


class Search(Endpoint):
    """Find by id, business key (an order number), request key or name."""

    @describe(
        "Search",
        tag="tasks",
        name="search",
        answers={200: ref("SearchHits")},
        query={"q": ({"type": "string", "minLength": 2, "maxLength": 200}, "What to look for.")},
    )
    def get(self, request: Request) -> Response:
        params = self.params
        text = params.text("q", limit=200)
        params.done()
        return Response({"items": queries.search(actor=self.actor, text=text or "")})
