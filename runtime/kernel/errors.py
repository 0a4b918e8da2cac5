"""One tree of errors. Each has a stable ``code`` and an HTTP status (RFC 9457); the docstring is the message."""

from __future__ import annotations

from typing import Any

# What every error says, in an answer of the API and of a step alike (C6.1).
STRUCTURED = ("code", "retryable", "retry_after", "run_id", "step_id", "remediation")
# Classes of a step's error that pass by themselves (B4.1).
TRANSIENT_CLASSES = frozenset({"network", "timeout", "rate_limited", "server_error"})


class QuarterdeckError(Exception):
    """Something went wrong that has no better name."""

    code = "error"
    http_status = 500
    title = "Error"
    retryable = False
    remediation = ""

    def __init__(
        self,
        detail: str = "",
        *,
        where: str | None = None,
        remediation: str | None = None,
        retry_after: float | None = None,
        run_id: object = None,
        step_id: object = None,
        **extra: Any,
    ) -> None:
        self.detail = detail or (self.__doc__ or "").strip()
        self.where = where
        if remediation:
            self.remediation = remediation
        self.retry_after = retry_after
        self.run_id = run_id
        self.step_id = step_id
        self.extra = extra
        super().__init__(self.detail)

    def as_problem(self) -> dict[str, Any]:
        """Return the members of an RFC 9457 problem detail, without ``instance``.

        ``code``, ``retryable``, ``retry_after`` (seconds), ``run_id``, ``step_id`` and ``remediation`` are always there
        (C6.1), null where there is nothing to say.
        """
        body: dict[str, Any] = {
            "type": f"urn:quarterdeck:problem:{self.code}",
            "title": self.title,
            "status": self.http_status,
            "detail": self.detail,
            "code": self.code,
            "retryable": self.retryable,
            "retry_after": self.retry_after,
            "run_id": str(self.run_id) if self.run_id else None,
            "step_id": str(self.step_id) if self.step_id else None,
            "remediation": self.remediation,
        }
        if self.where is not None:
            body["where"] = self.where
        body.update(self.extra)
        return body

    def as_refusal(self) -> dict[str, Any]:
        """Return what an answer about many things says of the one that was refused: the six members and ``detail``."""
        body = self.as_problem()
        return {name: body[name] for name in (*STRUCTURED, "detail")}


class BadInput(QuarterdeckError):
    """The request does not have the form that is asked for."""

    code, http_status, title = "bad_input", 400, "Bad input"
    remediation = "Correct the value named by `where` and send the request again."


class InvalidJSON(BadInput):
    """The text is not JSON that can be stored without loss."""

    code, title = "invalid_json", "Invalid JSON"


class PayloadTooLarge(BadInput):
    """The payload is larger than the limit."""

    code, http_status, title = "payload_too_large", 413, "Payload too large"
    remediation = "Upload the content as an artifact and pass its reference."


class InvalidWorkflow(BadInput):
    """The workflow cannot be registered."""

    code, title = "invalid_workflow", "Invalid workflow"


class InvalidExpression(BadInput):
    """The expression does not parse or does not evaluate."""

    code, title = "invalid_expression", "Invalid expression"


class SchemaMismatch(BadInput):
    """The value does not fit the JSON Schema that was declared for it."""

    code, title = "schema_mismatch", "Value does not fit its schema"


class NotAuthenticated(QuarterdeckError):
    """No valid credential was given."""

    code, http_status, title = "not_authenticated", 401, "Not authenticated"
    remediation = "Sign in, or send `Authorization: Bearer <token>` with a token that has not expired."


class PermissionDenied(QuarterdeckError):
    """This identity may not do that."""

    code, http_status, title = "permission_denied", 403, "Permission denied"
    remediation = "Ask an admin of the tenant for a role that carries the verb."


class NotFound(QuarterdeckError):
    """There is nothing of that id in this tenant."""

    code, http_status, title = "not_found", 404, "Not found"
    remediation = "Check the id; ids of other tenants are answered the same way."


class Conflict(QuarterdeckError):
    """The request contradicts the state that is stored."""

    code, http_status, title = "conflict", 409, "Conflict"
    remediation = "Read the current state, and ask for what it allows."


class Stale(Conflict):
    """Somebody else changed this first."""

    code, title = "stale", "Stale version"
    remediation = "Read the current state, decide again, and send its version."


class MoveRefused(Conflict):
    """The law of states has no such move."""

    code, title = "move_refused", "Move refused"


class RequestKeyConflict(Conflict):
    """The Idempotency-Key was used before with another payload."""

    code, title = "request_key_conflict", "Request key conflict"
    remediation = "Use a new key for a new request, or send the original payload again."


class AlreadyIssued(Conflict):
    """This token was issued already; its text was told once and is stored nowhere."""

    code, title = "already_issued", "Already issued"
    remediation = "Nothing was issued now. If its text was lost, revoke it and issue another."


class StopStands(Conflict):
    """A stop of this stands already."""

    code, title = "stop_stands", "A stop of this stands"
    remediation = "Nothing is to be done for it to hold. To change its end or its reason, send its id as `replaces`."


class OperationConflict(Conflict):
    """The business key was used before with other arguments."""

    code, title = "operation_conflict", "Operation conflict"
    remediation = "Give a new intent a business key of its own, or send the original arguments again."


class OperationOpen(Conflict):
    """A side effect of this step is intended, sent or unknown; it must be settled first."""

    code, title = "operation_open", "Operation still open"
    remediation = "Wait for reconciliation or resolve the operation, then try again."


class FinishedRun(Conflict):
    """The run has ended; its state is never left."""

    code, title = "run_finished", "Run has ended"
    remediation = "Start a new run of its task, or submit another task."


class AlreadySucceeded(FinishedRun):
    """It has just succeeded; there is nothing left to cancel."""

    code, title = "already_succeeded", "Already succeeded"
    remediation = "Its results stand. Undo its effects by their compensation, or submit a task that does."


class NotIntact(Conflict):
    """What is stored does not have the hash it goes by."""

    code, title = "not_intact", "Content does not have its hash"
    remediation = "Cite something else. Tell who runs the installation: what is stored was changed."


class AskedTooSoon(Conflict):
    """The tool was asked a moment ago."""

    code, title, retryable = "asked_too_soon", "Asked too soon", True
    remediation = "Wait for its answer."


class CursorExpired(QuarterdeckError):
    """No event follows this cursor: it lies outside the range that is kept."""

    code, http_status, title = "cursor_expired", 410, "Cursor expired"
    remediation = "Read the snapshot, then the events after its `last_included_seq`."


class EventsGone(QuarterdeckError):
    """Events of this run are no longer kept, so it cannot be told from them."""

    code, http_status, title = "events_gone", 410, "Events are gone"
    remediation = "Read the snapshot: what is stored of the run is still there."


class QueueFull(QuarterdeckError):
    """The queue is above its high-water mark; accepted work is safe, new work is refused."""

    code, http_status, title, retryable = "queue_full", 503, "Queue full", True
    remediation = "Send it again after `retry_after` seconds, under the same key."


class Unavailable(QuarterdeckError):
    """The database is away or not migrated."""

    code, http_status, title, retryable = "unavailable", 503, "Unavailable", True
    remediation = "Try again in a moment, under the same key."


class ConfigurationError(QuarterdeckError):
    """The configuration cannot work."""

    code, title = "configuration", "Configuration error"
