"""Side effects and what crosses the system's border: operations, outbox, inbox, evidence, outcomes."""

from django.db import models
from django.db.models import F, Q

from runtime.kernel.ids import uuid7
from runtime.models.definitions import ToolVersion, Verifier
from runtime.models.tenancy import TenantOwned
from runtime.models.work import Task

OPERATION_STATUSES = (
    "intended",
    "sent",
    "succeeded",
    "refused",
    "absent",
    "partially_applied",
    "unknown",
    "void",
    "needs_human",
    "compensating",
    "compensated",
    "compensation_failed",
    "written_off",
)
OPERATION_OPEN = (
    "intended",
    "sent",
    "unknown",
    "needs_human",
    "partially_applied",
    "compensating",
    "compensation_failed",
)


class Operation(TenantOwned):
    """A business side effect; outlives attempts and runs. One row per (tenant, business_key) (C3.3–C3.5)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    business_key = models.CharField(max_length=500)
    payload = models.BinaryField()
    payload_sha256 = models.BinaryField(max_length=32)
    tool_version = models.ForeignKey(ToolVersion, on_delete=models.PROTECT, related_name="+", db_index=False)
    recovery = models.CharField(max_length=20)
    run_id = models.UUIDField()
    step_id = models.UUIDField()
    execution_version = models.PositiveSmallIntegerField()
    attempt = models.PositiveSmallIntegerField()
    owner_epoch = models.PositiveIntegerField()
    status = models.CharField(max_length=20, default="intended")
    version = models.PositiveIntegerField(default=1)
    sends = models.PositiveSmallIntegerField(default=0)
    requester = models.CharField(max_length=200)
    external_ref = models.CharField(max_length=500, null=True)
    response_sha256 = models.BinaryField(max_length=32, null=True)
    response = models.BinaryField(null=True)
    error = models.JSONField(null=True)
    next_query_at = models.DateTimeField(null=True)
    intended_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)
    observed_at = models.DateTimeField(null=True)
    # What its tool was asked by key: how often (null: never), when last, and the kind of what that found.
    queries = models.PositiveIntegerField(null=True)
    queried_at = models.DateTimeField(null=True)
    finding = models.CharField(max_length=20, null=True)

    class Meta:
        db_table = "qd_operation"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "business_key"], name="qd_operation_key"),
            models.CheckConstraint(condition=Q(status__in=OPERATION_STATUSES), name="qd_operation_status"),
            models.CheckConstraint(
                condition=Q(status__in=["intended", "void"]) | Q(sent_at__isnull=False), name="qd_operation_sent_time"
            ),
        ]
        indexes = [
            models.Index(F("run_id"), name="qd_operation_run"),
            models.Index(
                F("tenant"),
                F("next_query_at"),
                name="qd_operation_unsettled",
                condition=Q(status__in=OPERATION_OPEN),
            ),
            models.Index(F("next_query_at"), name="qd_operation_due", condition=Q(next_query_at__isnull=False)),
        ]


class Compensation(TenantOwned):
    """One order to undo an operation (C4.5): what is called, under which key, until when, by whose word. Never changed.

    How it goes is told by its step and by both operations.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    operation = models.ForeignKey(Operation, on_delete=models.PROTECT, related_name="compensations")
    run_id = models.UUIDField()
    step_id = models.UUIDField(unique=True, help_text="The step that undoes; its check is the step check_step_id.")
    check_step_id = models.UUIDField(unique=True, help_text="The id its check has, when one is declared.")
    tool = models.CharField(max_length=140)
    business_key = models.CharField(
        max_length=500, help_text="Of the compensating operation, made from the original's."
    )
    deadline = models.DateTimeField()
    reason = models.TextField(default="", blank=True)
    requested_by = models.CharField(max_length=200)
    requested_at = models.DateTimeField()

    class Meta:
        db_table = "qd_compensation"


class Outbox(TenantOwned):
    """A message for the outside, written with the change it tells of; sent at least once under its event_id (B5.3)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    event_id = models.UUIDField(unique=True)
    topic = models.CharField(max_length=200)
    schema_version = models.PositiveSmallIntegerField(db_default=1, help_text="Of the payload.")
    payload = models.JSONField()
    created_at = models.DateTimeField()
    claimed_until = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    attempts = models.PositiveIntegerField(default=0)
    error = models.TextField(null=True)

    class Meta:
        db_table = "qd_outbox"
        indexes = [models.Index(F("created_at"), name="qd_outbox_unsent", condition=Q(sent_at__isnull=True))]


class Quarantined(TenantOwned):
    """A message of the outbox that could not be made or sent; replayed under its own event_id, or discarded (C2.6)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    outbox_id = models.UUIDField()
    event_id = models.UUIDField()
    topic = models.CharField(max_length=200)
    schema_version = models.PositiveSmallIntegerField()
    payload = models.JSONField()
    reason = models.TextField()
    attempts = models.PositiveIntegerField()
    created_at = models.DateTimeField(help_text="When the message was written.")
    quarantined_at = models.DateTimeField()
    resolution = models.CharField(max_length=10, null=True)
    closed_at = models.DateTimeField(null=True)
    closed_by = models.CharField(max_length=200, null=True)
    close_reason = models.TextField(default="", blank=True)

    class Meta:
        db_table = "qd_quarantine"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "event_id"], condition=Q(closed_at__isnull=True), name="qd_quarantine_once"
            ),
            models.CheckConstraint(
                condition=Q(resolution__isnull=True, closed_at__isnull=True, closed_by__isnull=True)
                | Q(resolution__in=["replayed", "discarded"], closed_at__isnull=False, closed_by__isnull=False),
                name="qd_quarantine_closed_by_somebody",
            ),
        ]
        indexes = [models.Index(F("tenant"), F("quarantined_at").desc(), name="qd_quarantine_newest")]


class Inbox(TenantOwned):
    """A message from the outside, recorded once (C2.5)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    source = models.CharField(max_length=200)
    message_id = models.CharField(max_length=300)
    payload = models.BinaryField()
    payload_sha256 = models.BinaryField(max_length=32)
    run_id = models.UUIDField(null=True)
    step_id = models.UUIDField(null=True, help_text="The step it was given to.")
    name = models.CharField(max_length=200, null=True)
    correlation_id = models.CharField(max_length=2000, null=True)
    received_at = models.DateTimeField()
    handled_at = models.DateTimeField(null=True, help_text="null: kept for a step that does not wait for it yet")
    result = models.CharField(max_length=40, null=True)

    class Meta:
        db_table = "qd_inbox"
        constraints = [models.UniqueConstraint(fields=["tenant", "source", "message_id"], name="qd_inbox_once")]
        indexes = [
            models.Index(F("run_id"), name="qd_inbox_kept", condition=Q(handled_at__isnull=True, run_id__isnull=False)),
            models.Index(F("step_id"), name="qd_inbox_step", condition=Q(step_id__isnull=False)),
        ]


class Evidence(TenantOwned):
    """Candidate evidence that a success criterion cites, verified for origin and integrity (A2.4)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="evidence")
    run_id = models.UUIDField()
    step_id = models.UUIDField(null=True)
    criterion = models.TextField()
    source = models.CharField(max_length=200)
    content = models.BinaryField()
    content_sha256 = models.BinaryField(max_length=32)
    observed_at = models.DateTimeField()

    class Meta:
        db_table = "qd_evidence"


class Outcome(TenantOwned):
    """The business verdict on a task, by an authorised verifier from Evidence; a forced step writes none."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="outcomes")
    run_id = models.UUIDField()
    verifier = models.ForeignKey(Verifier, on_delete=models.PROTECT, related_name="+")
    verdict = models.CharField(max_length=20)
    criterion = models.TextField()
    decided_by = models.CharField(max_length=200)
    decided_at = models.DateTimeField()

    class Meta:
        db_table = "qd_outcome"
        constraints = [
            models.CheckConstraint(
                condition=Q(verdict__in=["achieved", "not_achieved", "undecided"]), name="qd_outcome_verdict"
            )
        ]


class Citation(TenantOwned):
    """An Outcome cites a piece of Evidence."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    outcome = models.ForeignKey(Outcome, on_delete=models.PROTECT, related_name="citations")
    evidence = models.ForeignKey(Evidence, on_delete=models.PROTECT, related_name="+")

    class Meta:
        db_table = "qd_citation"
        constraints = [models.UniqueConstraint(fields=["outcome", "evidence"], name="qd_citation_once")]
