"""Every error as RFC 9457 problem details: our own tree, DRF's exceptions, the database, and what nobody expected."""

from __future__ import annotations

import logging
import math
from typing import Any

import orjson
import psycopg
from django.core.exceptions import PermissionDenied as DjangoDenied
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.http.request import RawPostDataException, UnreadablePostError
from psycopg import errors as pg
from rest_framework import exceptions as drf
from rest_framework.response import Response
from rest_framework.views import set_rollback

from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import (
    BadInput,
    MoveRefused,
    NotAuthenticated,
    NotFound,
    PermissionDenied,
    QuarterdeckError,
    Stale,
    Unavailable,
)
from runtime.kernel.ids import parse_uuid
from runtime.queries.runs import last_event

log = logging.getLogger("quarterdeck.api")
CONTENT_TYPE = "application/problem+json"
SAFE = ("GET", "HEAD", "OPTIONS")


class MethodNotAllowed(QuarterdeckError):
    """This address does not answer that method."""

    code, http_status, title = "method_not_allowed", 405, "Method not allowed"
    remediation = "Use a method that the header `Allow` names."


class Unexpected(QuarterdeckError):
    """Something failed that should not; it was logged under this address and time."""

    code, title = "internal", "Internal error"
    remediation = "Try again; if it persists, report it with the time and the address."


def answer(exception: Exception, context: dict[str, Any]) -> Response:
    """Turn an exception of a view into a problem response; DRF calls it as its exception handler."""
    request = context.get("request")
    problem = as_error(exception)
    if isinstance(problem, Unexpected):
        log.error("unexpected error", exc_info=exception, extra={"path": getattr(request, "path", "")})
    actor = _actor(request)
    if isinstance(problem, PermissionDenied) and request is not None and actor and request.method not in SAFE:
        _record_denial(actor, request, problem)
    _name_place(problem, context.get("kwargs") or {})
    body = problem.as_problem()
    body["instance"] = getattr(request, "path", "")
    if isinstance(problem, Stale | MoveRefused) and actor is not None:
        body.update(_what_changed(actor, problem))
    set_rollback()
    response = Response(body, status=problem.http_status, content_type=CONTENT_TYPE)
    _headers(response, problem, exception)
    return response


def _name_place(problem: QuarterdeckError, named: dict[str, Any]) -> None:
    """Let a refusal about a run or a step of the address name it, unless nothing of that id was to be told."""
    if isinstance(problem, NotFound | NotAuthenticated | PermissionDenied):
        return
    problem.run_id = problem.run_id or parse_uuid(str(named.get("run_id", "")))
    problem.step_id = problem.step_id or parse_uuid(str(named.get("step_id", "")))


def plain(problem: QuarterdeckError, path: str) -> HttpResponse:
    """Answer with a problem where no endpoint was reached."""
    body = orjson.dumps({**problem.as_problem(), "instance": path}, default=str)
    response = HttpResponse(body, status=problem.http_status, content_type=CONTENT_TYPE)
    if problem.retry_after is not None:
        response["Retry-After"] = str(math.ceil(problem.retry_after))
    return response


def as_error(exception: Exception) -> QuarterdeckError:
    """Return the error of our tree that stands for ``exception``."""
    if isinstance(exception, QuarterdeckError):
        return exception
    if isinstance(exception, drf.APIException):
        return _from_drf(exception)
    if isinstance(exception, Http404):
        return NotFound("There is nothing at this address.")
    if isinstance(exception, DjangoDenied):
        return PermissionDenied()
    if isinstance(exception, UnreadablePostError | RawPostDataException):
        return BadInput("The body could not be read to its end.", where="body", remediation="Send the request again.")
    if isinstance(exception, MultiPartParserError | TooManyFieldsSent | TooManyFilesSent | RequestDataTooBig):
        mend = "Send what the form has, encoded as its media type and boundary say."
        return BadInput("The body is no form that can be read.", where="body", remediation=mend)
    if isinstance(exception, DatabaseError | psycopg.Error):
        return _from_database(exception)
    return Unexpected()


def _from_drf(exception: drf.APIException) -> QuarterdeckError:
    detail = str(exception.detail) if not isinstance(exception.detail, list | dict) else ""
    if isinstance(exception, drf.NotAuthenticated | drf.AuthenticationFailed):
        return NotAuthenticated()
    if isinstance(exception, drf.PermissionDenied):
        mend = "Send the CSRF token of the session in `X-CSRFToken`." if "CSRF" in detail else None
        return PermissionDenied(detail, remediation=mend)
    if isinstance(exception, drf.MethodNotAllowed):
        return MethodNotAllowed(detail)
    if exception.status_code == 404:
        return NotFound(detail)
    if exception.status_code < 500:
        return BadInput(detail)
    return Unexpected()


def _from_database(exception: Exception) -> QuarterdeckError:
    cause = exception if isinstance(exception, psycopg.Error) else exception.__cause__
    if isinstance(cause, pg.LockNotAvailable | pg.DeadlockDetected | pg.SerializationFailure | pg.QueryCanceled):
        return Unavailable("Another transaction holds what this one needs.", remediation="Try again.", retry_after=1)
    if isinstance(cause, pg.UndefinedTable | pg.UndefinedColumn | pg.UndefinedFunction):
        log.error("the database is not migrated", exc_info=exception)
        return Unavailable("The database is not migrated.", remediation="Run `python manage.py migrate`.")
    away = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)
    if isinstance(exception, away):
        log.warning("the database is away", extra={"problem": str(exception)[:200]})
        return Unavailable("The database is away.", remediation="Try again in a moment.", retry_after=2)
    return Unexpected()


def _actor(request: Any) -> Actor | None:
    # request.auth would authenticate again, and fail again, when that was what failed.
    actor = getattr(request, "_auth", None)
    return actor if isinstance(actor, Actor) else None


def _record_denial(actor: Actor, request: Any, problem: PermissionDenied) -> None:
    try:
        audit.record_denied(
            actor,
            verb=str(problem.extra.get("verb", "request")),
            subject_kind="address",
            subject_id=request.path,
            reason=problem.detail,
        )
    except Exception:
        # The refusal stands either way; that it could not be written down must not stay silent.
        log.exception("a denial could not be recorded", extra={"path": request.path})


def _what_changed(actor: Actor, problem: QuarterdeckError) -> dict[str, Any]:
    """Return the newest event of what the caller had an outdated view of."""
    if problem.run_id is None:
        return {}
    try:
        event = last_event(actor=actor, run_id=problem.run_id, step_id=problem.step_id)  # type: ignore[arg-type]
    except (QuarterdeckError, DatabaseError, psycopg.Error):
        return {}
    return {"last_event": event} if event else {}


def _headers(response: Response, problem: QuarterdeckError, exception: Exception) -> None:
    if problem.http_status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="quarterdeck"'
    if problem.retry_after is not None:
        response["Retry-After"] = str(math.ceil(problem.retry_after))
    if problem.http_status == 410 and problem.run_id is not None:
        response["Link"] = f'</api/v1/runs/{problem.run_id}/snapshot/>; rel="alternate"'
    if wait := getattr(exception, "wait", None):
        response["Retry-After"] = str(math.ceil(wait))
