"""Cases: what a person is needed for, what is known of it, what was proposed, and everything that happened to it."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from repair.law import ANSWERS, BULK_STATES, HELD, IN_BULK, ITEM_STATES, RESOLUTIONS, SETTLED, STATES
from runtime.kernel.ids import uuid7
from runtime.models.tenancy import TenantOwned


class Case(TenantOwned):
    """Something a person must look at (C8.4): one open case a subject, which is an operation, a step or a run.

    ``version`` counts every change of the row. ``answer`` is the newest word from outside, ``answered_by``
    says whose it is: ``query`` (the tool's own), ``ledger`` or a person's label.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=30)
    subject_kind = models.CharField(max_length=10)
    subject_id = models.UUIDField()
    run_id = models.UUIDField(null=True)
    task_id = models.UUIDField(null=True)
    step_id = models.UUIDField(null=True)
    operation_id = models.UUIDField(null=True)
    node = models.CharField(max_length=200, default="", blank=True)
    workflow = models.CharField(max_length=200, default="", blank=True)
    tool = models.CharField(max_length=220, default="", blank=True)
    recovery = models.CharField(max_length=20, null=True, help_text="The tool's recovery class; null: no effect.")
    title = models.TextField()
    fingerprint = models.CharField(max_length=64, help_text="Cases of one cause have the same.")
    error_class = models.CharField(max_length=40, default="", blank=True)
    risk = models.CharField(max_length=10, default="medium")
    state = models.CharField(max_length=14, default="open")
    version = models.PositiveIntegerField(default=1)
    answer = models.CharField(max_length=12, default="unknown")
    answered_by = models.CharField(max_length=200, null=True)
    answered_at = models.DateTimeField(null=True)
    asked_at = models.DateTimeField(null=True, help_text="When the tool was last asked for this case.")
    owner = models.CharField(max_length=200, null=True)
    owner_user_id = models.IntegerField(null=True)
    claimed_at = models.DateTimeField(null=True)
    owner_epoch = models.PositiveIntegerField(null=True, help_text="The epoch the claim took on the step.")
    opened_by = models.CharField(max_length=200)
    opened_at = models.DateTimeField()
    due_at = models.DateTimeField()
    escalations = models.PositiveSmallIntegerField(default=0)
    escalated_to = models.CharField(max_length=40, default="", blank=True, help_text="Whom the chain told last.")
    proposal_id = models.UUIDField(null=True)
    resolution = models.CharField(max_length=20, null=True)
    resolved_by = models.CharField(max_length=200, null=True)
    resolved_at = models.DateTimeField(null=True)
    verified_by = models.CharField(
        max_length=200, null=True, help_text="Whose word closed it: query, ledger, a person."
    )

    class Meta:
        db_table = "qd_case"
        constraints = [
            models.CheckConstraint(condition=Q(state__in=STATES), name="qd_case_state"),
            models.CheckConstraint(condition=Q(answer__in=list(ANSWERS)), name="qd_case_answer"),
            models.CheckConstraint(
                condition=~Q(state__in=HELD) | Q(owner__isnull=False, owner_user_id__isnull=False),
                name="qd_case_held_by_somebody",
            ),
            models.CheckConstraint(
                condition=~Q(state="resolved")
                | Q(resolution__in=[*RESOLUTIONS, SETTLED], resolved_by__isnull=False, resolved_at__isnull=False),
                name="qd_case_resolved_how",
            ),
            models.UniqueConstraint(
                fields=["tenant", "subject_kind", "subject_id"],
                condition=~Q(state="resolved"),
                name="qd_case_open_once",
            ),
        ]
        indexes = [
            models.Index(F("tenant"), F("due_at"), F("id"), name="qd_case_due", condition=~Q(state="resolved")),
            models.Index(F("tenant"), F("fingerprint"), name="qd_case_alike", condition=~Q(state="resolved")),
            models.Index(
                F("tenant"), F("owner"), F("due_at"), F("id"), name="qd_case_owned", condition=~Q(state="resolved")
            ),
            models.Index(F("tenant"), F("id").desc(), name="qd_case_ended", condition=Q(state="resolved")),
            models.Index(F("tenant"), F("resolved_at").desc(), name="qd_case_ended_at", condition=Q(state="resolved")),
            models.Index(F("run_id"), name="qd_case_run"),
            # Counted on every page of who may review.
            models.Index(F("tenant"), F("due_at"), F("id"), name="qd_case_reviewing", condition=Q(state="reviewing")),
        ]


class Fact(TenantOwned):
    """One thing that is certain, or that is not, about a case: with its source and its time; never changed."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="facts")
    certain = models.BooleanField()
    name = models.CharField(max_length=80)
    value = models.JSONField()
    source = models.CharField(max_length=200)
    observed_at = models.DateTimeField()

    class Meta:
        db_table = "qd_case_fact"


class Entry(TenantOwned):
    """One thing that happened to a case, and who did it; the line of owners and epochs is read from here."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="entries")
    type = models.CharField(max_length=30)
    actor = models.CharField(max_length=200)
    reason = models.TextField(default="", blank=True)
    data = models.JSONField(default=dict)
    at = models.DateTimeField()

    class Meta:
        db_table = "qd_case_entry"


class Proposal(TenantOwned):
    """How a case is to be resolved; its id is the repair_id under which it is carried out once."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="proposals")
    resolution = models.CharField(max_length=20)
    arguments = models.JSONField(default=dict)
    arguments_sha256 = models.BinaryField(max_length=32)
    reason = models.TextField()
    answer = models.CharField(max_length=12)
    proposed_by = models.CharField(max_length=200)
    proposed_user_id = models.IntegerField()
    proposed_at = models.DateTimeField()
    needs_review = models.BooleanField()
    decision = models.CharField(max_length=10, null=True)
    reviewed_by = models.CharField(max_length=200, null=True)
    reviewed_user_id = models.IntegerField(null=True)
    reviewed_at = models.DateTimeField(null=True)
    comment = models.TextField(default="", blank=True)

    class Meta:
        db_table = "qd_case_proposal"
        constraints = [
            models.CheckConstraint(condition=Q(resolution__in=RESOLUTIONS), name="qd_case_proposal_resolution"),
            models.CheckConstraint(
                condition=Q(decision__isnull=True)
                | Q(decision__in=["approve", "send_back"], reviewed_user_id__isnull=False, reviewed_at__isnull=False),
                name="qd_case_proposal_decision",
            ),
            models.CheckConstraint(
                condition=Q(reviewed_user_id__isnull=True) | ~Q(reviewed_user_id=F("proposed_user_id")),
                name="qd_case_proposal_second_person",
            ),
        ]


class Runbook(TenantOwned):
    """What to do about the cases of a tool and an error class, as Markdown: one row a version, the newest counts.

    ``tool`` is name@version, a name for all its versions, or empty for every tool; ``error_class`` may be empty too. An
    empty text takes a runbook away. Never changed.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    tool = models.CharField(max_length=220, default="", blank=True)
    error_class = models.CharField(max_length=40, default="", blank=True)
    version = models.PositiveIntegerField()
    text = models.TextField(blank=True)
    written_by = models.CharField(max_length=200)
    written_at = models.DateTimeField()
    reason = models.TextField(default="", blank=True)

    class Meta:
        db_table = "qd_runbook"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "tool", "error_class", "version"], name="qd_runbook_version"),
            models.CheckConstraint(condition=Q(version__gte=1), name="qd_runbook_counted"),
        ]


class Chain(TenantOwned):
    """Whom a tenant's overdue cases are told to: one row a version, the newest counts; empty: everybody's default.

    ``told`` are roles, ``user:NAME`` or ``owner``, ``after_minutes`` for each how long after the due date. Never
    changed.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    version = models.PositiveIntegerField()
    told = ArrayField(models.CharField(max_length=40))
    after_minutes = ArrayField(models.IntegerField())
    set_by = models.CharField(max_length=200)
    set_at = models.DateTimeField()
    reason = models.TextField(default="", blank=True)

    class Meta:
        db_table = "qd_case_chain"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "version"], name="qd_case_chain_version"),
            models.CheckConstraint(condition=Q(version__gte=1), name="qd_case_chain_counted"),
        ]


class BulkRepair(TenantOwned):
    """One resolution for many cases: frozen when it is prepared, carried out at a set rate, item by item.

    ``filter`` is what the list was made by, kept to be shown. ``watch`` is what the capacity watch measured last:
    {began_with_s, since, queue_age_s, failed_share, slower}. ``next_at`` is when the next item may begin.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    resolution = models.CharField(max_length=20)
    filter = models.JSONField(default=dict)
    reason = models.TextField()
    hours = models.FloatField(null=True, help_text="Of keep_pending: due again after so long.")
    per_minute = models.PositiveIntegerField()
    state = models.CharField(max_length=10, default="draft")
    version = models.PositiveIntegerField(default=1)
    why_state = models.TextField(default="", blank=True, help_text="Why it is paused or aborted.")
    needs_review = models.BooleanField(default=False)
    why_review = models.TextField(default="", blank=True)
    created_by = models.CharField(max_length=200)
    created_user_id = models.IntegerField()
    created_at = models.DateTimeField()
    reviewed_by = models.CharField(max_length=200, null=True)
    reviewed_user_id = models.IntegerField(null=True)
    reviewed_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    next_at = models.DateTimeField(null=True)
    watch = models.JSONField(default=dict)

    class Meta:
        db_table = "qd_case_bulk"
        constraints = [
            models.CheckConstraint(condition=Q(state__in=BULK_STATES), name="qd_case_bulk_state"),
            models.CheckConstraint(condition=Q(resolution__in=IN_BULK), name="qd_case_bulk_resolution"),
            models.CheckConstraint(condition=Q(per_minute__gte=1), name="qd_case_bulk_rate"),
            models.CheckConstraint(
                condition=Q(reviewed_user_id__isnull=True) | ~Q(reviewed_user_id=F("created_user_id")),
                name="qd_case_bulk_second_person",
            ),
            models.CheckConstraint(
                condition=~Q(state="running") | Q(next_at__isnull=False), name="qd_case_bulk_has_a_next"
            ),
        ]
        indexes = [
            models.Index(F("next_at"), name="qd_case_bulk_due", condition=Q(state="running")),
            models.Index(F("tenant"), F("id"), name="qd_case_bulk_reviewing", condition=Q(state="reviewing")),
        ]


class BulkItem(TenantOwned):
    """One case of a bulk repair, in the version it was shown; its id is the repair_id it is carried out under, once.

    ``result`` says what became of it: {} so far, {answer …}, or {code, detail} of a refusal. ``taken_until`` is how
    long whoever works on it has; after that another scheduler takes it up where it stands.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    bulk = models.ForeignKey(BulkRepair, on_delete=models.PROTECT, related_name="items")
    position = models.PositiveIntegerField()
    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="+")
    case_version = models.PositiveIntegerField()
    state = models.CharField(max_length=10, default="todo")
    begun_at = models.DateTimeField(null=True)
    taken_until = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    result = models.JSONField(default=dict)

    class Meta:
        db_table = "qd_case_bulk_item"
        constraints = [
            models.UniqueConstraint(fields=["bulk", "case"], name="qd_case_bulk_item_once"),
            models.UniqueConstraint(fields=["bulk", "position"], name="qd_case_bulk_item_place"),
            models.CheckConstraint(condition=Q(state__in=ITEM_STATES), name="qd_case_bulk_item_state"),
        ]
