"""Task, Run, Step, Attempt: four different things (C1.1). Constraints restate the law of states."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from runtime.kernel.ids import uuid7
from runtime.models.definitions import Manifest, WorkflowVersion
from runtime.models.tenancy import TenantOwned

STEP_STATUSES = (
    "waiting",
    "queued",
    "running",
    "hold",
    "succeeded",
    "failed",
    "killed",
    "skipped",
    "mark_successed",
    "unknown",
)
RUN_STATUSES = (
    "accepted",
    "queued",
    "running",
    "waiting_tool",
    "waiting_approval",
    "waiting_external",
    "paused",
    "cancelling",
    "compensating",
    "needs_attention",
    "completed",
    "partially_completed",
    "failed",
    "cancelled",
)
RUN_ENDED = ("completed", "partially_completed", "failed", "cancelled")


class Session(TenantOwned):
    """Optional context a Task is attached to; never shared by default (A1.2)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    key = models.CharField(max_length=200)
    context = models.JSONField(default=dict)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "qd_session"
        constraints = [models.UniqueConstraint(fields=["tenant", "key"], name="qd_session_key")]


class Task(TenantOwned):
    """The smallest durable business unit; outlives runs, waits and sessions (A1.1, A4.1)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workflow_version = models.ForeignKey(WorkflowVersion, on_delete=models.PROTECT, related_name="+", db_index=False)
    workflow_name = models.CharField(max_length=200)
    name = models.CharField(max_length=300, default="", blank=True)
    goal = models.TextField(default="", blank=True)
    request_key = models.CharField(max_length=200, null=True)
    payload_sha256 = models.BinaryField(max_length=32)
    input = models.BinaryField(help_text="Canonical JSON bytes (RFC 8785): what was hashed is what is executed.")
    state = models.JSONField(default=dict, help_text="The business State, owned by the task, not by a run.")
    priority = models.SmallIntegerField(default=0)
    pool = models.CharField(max_length=60, default="default")
    agent = models.CharField(max_length=200, default="", blank=True)
    session = models.ForeignKey(Session, on_delete=models.PROTECT, null=True, related_name="+")
    scope = models.JSONField(default=dict)
    success = models.JSONField(default=dict)
    retry = models.JSONField(default=dict)
    budget = models.JSONField(default=dict)
    timeout_seconds = models.FloatField(null=True)
    scheduled_at = models.DateTimeField(null=True)
    data_time = models.DateTimeField(null=True)
    deadline = models.DateTimeField(null=True)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "qd_task"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "workflow_name", "request_key"],
                condition=Q(request_key__isnull=False),
                name="qd_task_request_key",
            ),
            models.CheckConstraint(condition=Q(priority__gte=-100, priority__lte=100), name="qd_task_priority"),
        ]


class Run(TenantOwned):
    """One execution of a Task. Status is derived from its steps; ended runs are never left."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="runs")
    workflow_version = models.ForeignKey(WorkflowVersion, on_delete=models.PROTECT, related_name="+", db_index=False)
    manifest = models.ForeignKey(Manifest, on_delete=models.PROTECT, related_name="+", db_index=False)
    rerun_of = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="reruns")
    parent_step_id = models.UUIDField(null=True)
    parent_id = models.UUIDField(null=True, help_text="The run that submitted its task.")
    budget = models.JSONField(null=True, help_text="What it may use: calls, effects; null for no bound.")
    bounds = models.JSONField(
        null=True, help_text="What it shares with runs above: run, calls, effects; null: nothing."
    )
    trace_id = models.UUIDField()
    status = models.CharField(max_length=20, default="accepted")
    reason = models.CharField(max_length=200, default="", blank=True)
    version = models.PositiveIntegerField(default=1)
    seq = models.BigIntegerField(default=0, help_text="The last run_seq given out; gapless (invariant 3).")
    priority = models.SmallIntegerField(default=0)
    deadline = models.DateTimeField(null=True)
    cancel_requested = models.BooleanField(default=False)
    paused = models.BooleanField(default=False)
    attention = models.JSONField(null=True, help_text="owner, evidence and due of a run that needs attention")
    n_steps = models.IntegerField(default=0)
    n_open = models.IntegerField(default=0)
    n_live = models.IntegerField(default=0)
    n_timer = models.IntegerField(default=0)
    n_hold_approval = models.IntegerField(default=0)
    n_hold_external = models.IntegerField(default=0)
    n_unknown = models.IntegerField(default=0)
    n_bad = models.IntegerField(default=0)
    n_open_operations = models.IntegerField(default=0)
    n_compensating = models.IntegerField(default=0, db_default=0)
    cancel_by = models.DateTimeField(null=True, help_text="When what a cancel still lets end by itself is killed.")
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "qd_run"
        constraints = [
            models.CheckConstraint(condition=Q(status__in=RUN_STATUSES), name="qd_run_status"),
            models.CheckConstraint(
                condition=~Q(status__in=RUN_ENDED) | Q(finished_at__isnull=False), name="qd_run_ended_has_time"
            ),
            models.CheckConstraint(
                condition=~Q(status="needs_attention") | Q(attention__isnull=False), name="qd_run_attention_is_owned"
            ),
        ]
        indexes = [
            models.Index(F("tenant"), F("created_at").desc(), name="qd_run_recent"),
            models.Index(
                F("tenant"),
                F("status"),
                F("created_at").desc(),
                name="qd_run_open",
                condition=~Q(status__in=RUN_ENDED),
            ),
            models.Index(
                F("deadline"), name="qd_run_deadline", condition=Q(deadline__isnull=False) & ~Q(status__in=RUN_ENDED)
            ),
            models.Index(F("tenant"), F("finished_at").desc(), name="qd_run_failed", condition=Q(status="failed")),
            models.Index(
                F("tenant"),
                F("status"),
                F("created_at").desc(),
                name="qd_run_ended_otherwise",
                condition=Q(status__in=["partially_completed", "failed", "cancelled"]),
            ),
            models.Index(F("tenant"), F("created_at").desc(), name="qd_run_bad", condition=Q(n_bad__gt=0)),
            models.Index(F("parent_id"), F("id").desc(), name="qd_run_children", condition=Q(parent_id__isnull=False)),
            models.Index(
                F("cancel_by"), name="qd_run_cancel_by", condition=Q(cancel_by__isnull=False) & ~Q(status__in=RUN_ENDED)
            ),
        ]


class Step(TenantOwned):
    """One node of a Run in one execution version; the row a worker claims."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="steps", db_index=False)
    node = models.CharField(max_length=200)
    kind = models.CharField(max_length=20)
    execution_version = models.PositiveSmallIntegerField(default=1)
    superseded = models.BooleanField(default=False, help_text="A newer execution version exists; readable, never left.")
    status = models.CharField(max_length=14, default="waiting")
    cause = models.CharField(max_length=40, null=True, help_text="Why skipped, held or waiting.")
    version = models.PositiveIntegerField(default=1)
    owner_epoch = models.PositiveIntegerField(default=0)
    attempt = models.PositiveSmallIntegerField(default=0)
    priority = models.SmallIntegerField(default=0)
    pool = models.CharField(max_length=60, default="default")
    claimable = models.BooleanField(default=True, help_text="False parks the step outside the ready index.")
    not_before = models.DateTimeField(null=True)
    worker_session_id = models.UUIDField(null=True)
    deps_left = models.IntegerField(default=0)
    deps_ok = models.IntegerField(default=0)
    deps_bskip = models.IntegerField(default=0)
    deps_err = models.IntegerField(default=0)
    deps_bad = models.IntegerField(default=0)
    hold_requested = models.BooleanField(default=False)
    forced = models.BooleanField(default=False, help_text="A person set this status; shown wherever it is.")
    choice = models.JSONField(null=True, help_text="Targets a switch chose.")
    error = models.JSONField(null=True)
    created_at = models.DateTimeField()
    queued_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    tokens = ArrayField(models.UUIDField(), null=True, help_text="The limits it holds a token of, while it runs.")
    serial = models.UUIDField(null=True, help_text="The state it writes: one writer at a time holds it.")
    blocked_on = models.UUIDField(null=True, help_text="The limit, breaker, run or state a parked step waits for.")
    home_pool = models.CharField(
        max_length=60, null=True, help_text="Its ordinary pool, where its node prefers another."
    )
    prefer_until = models.DateTimeField(null=True, help_text="Until when it is queued in the pool its node prefers.")

    class Meta:
        db_table = "qd_step"
        constraints = [
            models.UniqueConstraint(fields=["run", "node", "execution_version"], name="qd_step_once"),
            models.CheckConstraint(condition=Q(status__in=STEP_STATUSES), name="qd_step_status"),
            models.CheckConstraint(
                condition=~Q(status="running") | Q(worker_session_id__isnull=False), name="qd_step_running_has_owner"
            ),
            models.CheckConstraint(
                condition=~Q(status="skipped") | Q(cause__isnull=False), name="qd_step_skip_has_cause"
            ),
            models.CheckConstraint(condition=~Q(status="hold") | Q(cause__isnull=False), name="qd_step_hold_has_cause"),
            models.UniqueConstraint(
                fields=["serial"],
                condition=Q(serial__isnull=False, status__in=["running", "unknown"]),
                name="qd_step_one_writer",
            ),
        ]
        indexes = [
            models.Index(
                F("pool"),
                F("tenant"),
                F("priority").desc(),
                F("id"),
                name="qd_step_ready",
                condition=Q(status="queued", claimable=True),
            ),
            models.Index(
                F("blocked_on"),
                F("tenant"),
                F("priority").desc(),
                F("id"),
                name="qd_step_parked",
                condition=Q(status="queued", claimable=False, blocked_on__isnull=False),
            ),
            models.Index(
                F("pool"),
                F("prefer_until"),
                F("id"),
                name="qd_step_preferred",
                condition=Q(status="queued", prefer_until__isnull=False),
            ),
            models.Index(
                F("not_before"), name="qd_step_timer", condition=Q(status="waiting", not_before__isnull=False)
            ),
            models.Index(F("worker_session_id"), name="qd_step_owned", condition=Q(status="running")),
            models.Index(
                F("serial"),
                name="qd_step_left_state",
                condition=Q(serial__isnull=False, status__in=["killed", "mark_successed"], superseded=False),
            ),
            models.Index(
                F("tenant"), F("status"), F("id"), name="qd_step_stuck", condition=Q(status__in=["hold", "unknown"])
            ),
        ]


class Attempt(TenantOwned):
    """One try at a step by one worker session; partitioned by run_id."""

    pk = models.CompositePrimaryKey("run_id", "step_id", "number")
    run_id = models.UUIDField()
    step_id = models.UUIDField()
    number = models.PositiveSmallIntegerField()
    owner_epoch = models.PositiveIntegerField()
    worker_session_id = models.UUIDField()
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=20, null=True)
    error = models.JSONField(null=True)
    input_sha256 = models.BinaryField(max_length=32, null=True)
    output_sha256 = models.BinaryField(max_length=32, null=True)
    resources = models.JSONField(null=True)

    class Meta:
        db_table = "qd_attempt"
