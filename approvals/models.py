"""Requests for a person's decision, what each permits, and the decisions made on them."""

from __future__ import annotations

from django.db import models
from django.db.models import Case, F, Q, Value, When

from approvals.law import GRANTED, HOOK_FORMATS, ON_TIMEOUT, POLICY_STATES, SEPARATIONS, STATES
from runtime.kernel.ids import uuid7
from runtime.models.tenancy import TenantOwned

# When a request was decided, or ended otherwise; once it waits no more that is fixed. Indexes and lists ask this word.
# Not by COALESCE: PostgreSQL holds that to be able to leak, and enters no index by it past row-level security.
OVER_AT = Case(
    When(decided_at__isnull=False, then=F("decided_at")),
    When(closed_at__isnull=False, then=F("closed_at")),
    default=F("created_at"),
)


class Request(TenantOwned):
    """One question to a person (C5.3), bound to what exactly would happen.

    ``shown`` are the canonical bytes of everything the person is shown (title, payload, calls, target);
    ``payload_sha256`` is their hash, quoted by the decision. ``action_sha256`` covers only what would be executed: the
    deadline and who may decide are in neither, so extending the one or changing the other supersedes nothing.
    ``version`` counts proposals, ``revision`` every change of the row. A request is about a held step, or about a
    subject of another app (``subject_kind``, ``subject_id``; see ``runtime.kernel.seams``), which has no run.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(
        max_length=20,
        help_text="node: an approval; call: one writing call lacks a grant; input: a form; subject: another",
    )
    run_id = models.UUIDField(null=True)
    task_id = models.UUIDField(null=True)
    step_id = models.UUIDField(null=True)
    node = models.CharField(max_length=200)
    execution_version = models.PositiveSmallIntegerField(null=True)
    subject_kind = models.CharField(max_length=40, default="step", db_default="step")
    subject_id = models.CharField(max_length=200, null=True)
    title = models.TextField()
    role = models.CharField(max_length=200, default="", blank=True, help_text="The role that decides.")
    state = models.CharField(max_length=12, default="pending")
    version = models.PositiveSmallIntegerField(default=1)
    revision = models.PositiveIntegerField(default=1)
    supersedes = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    shown = models.BinaryField()
    payload_sha256 = models.BinaryField(max_length=32)
    action_sha256 = models.BinaryField(max_length=32)
    problem = models.TextField(
        null=True, help_text="Why this cannot be approved, such as a payload that does not render."
    )
    n_actions = models.PositiveSmallIntegerField(default=0, help_text="How many calls it permits; 0: a question only.")
    target = models.CharField(max_length=500, null=True)
    target_version = models.CharField(max_length=200, null=True)
    requested_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    deadline = models.DateTimeField(null=True)
    on_timeout = models.CharField(max_length=10, default="reject")
    start_within_seconds = models.FloatField(null=True)
    start_by = models.DateTimeField(null=True, help_text="Until when an approved effect may start.")
    decided_at = models.DateTimeField(null=True)
    decided_by = models.CharField(max_length=200, null=True)
    comment = models.TextField(default="", blank=True)
    closed_at = models.DateTimeField(null=True)
    outcome_reason = models.CharField(max_length=200, default="", blank=True)
    risk = models.PositiveSmallIntegerField(default=0, db_default=0, help_text="0 none, 1 low, 2 medium, 3 high.")
    quorum = models.PositiveSmallIntegerField(default=1, db_default=1, help_text="How many people have to approve.")
    separation = models.CharField(max_length=12, default="requester", db_default="requester")
    editor_id = models.IntegerField(null=True)
    editor = models.CharField(max_length=200, null=True, help_text="Who edited this proposal; it is human_edited.")
    assignee_id = models.IntegerField(null=True)
    assignee = models.CharField(max_length=200, null=True, help_text="Who alone decides it: claimed or handed over.")
    assigned_by_id = models.IntegerField(null=True)
    assigned_by = models.CharField(max_length=200, null=True)
    assigned_at = models.DateTimeField(null=True)
    level = models.PositiveSmallIntegerField(default=0, db_default=0, help_text="How often it was escalated.")
    ladder = models.JSONField(default=list, db_default=Value([], models.JSONField()), help_text="Rungs still to climb.")
    remind_at = models.DateTimeField(null=True)
    reminders = models.PositiveSmallIntegerField(default=0, db_default=0)

    class Meta:
        db_table = "qd_approval"
        constraints = [
            models.CheckConstraint(condition=Q(state__in=STATES), name="qd_approval_state"),
            models.CheckConstraint(condition=Q(on_timeout__in=ON_TIMEOUT), name="qd_approval_on_timeout"),
            models.CheckConstraint(
                condition=Q(decided_at__isnull=True) | Q(deadline__isnull=True) | Q(decided_at__lt=F("deadline")),
                name="qd_approval_decided_in_time",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=GRANTED) | Q(decided_at__isnull=False, decided_by__isnull=False),
                name="qd_approval_granted_by_somebody",
            ),
            models.CheckConstraint(
                condition=~Q(state="pending") | Q(decided_at__isnull=True, closed_at__isnull=True),
                name="qd_approval_pending_is_open",
            ),
            models.CheckConstraint(
                condition=~Q(outcome_reason="timeout") | Q(deadline__isnull=False, closed_at__gte=F("deadline")),
                name="qd_approval_timeout_is_late",
            ),
            models.CheckConstraint(
                condition=Q(subject_kind="step", run_id__isnull=False, step_id__isnull=False)
                | (~Q(subject_kind="step") & Q(subject_id__isnull=False)),
                name="qd_approval_is_about_something",
            ),
            models.CheckConstraint(condition=Q(separation__in=SEPARATIONS), name="qd_approval_separation"),
            models.CheckConstraint(condition=Q(quorum__gte=1), name="qd_approval_quorum"),
            models.UniqueConstraint(fields=["step_id"], condition=Q(state="pending"), name="qd_approval_pending_once"),
            models.UniqueConstraint(
                fields=["tenant", "subject_kind", "subject_id"],
                condition=Q(state="pending", subject_id__isnull=False),
                name="qd_approval_subject_once",
            ),
            models.UniqueConstraint(
                fields=["tenant", "subject_id"], condition=Q(subject_kind="external"), name="qd_approval_own_once"
            ),
        ]
        indexes = [
            models.Index(F("tenant"), F("deadline"), F("id"), name="qd_approval_inbox", condition=Q(state="pending")),
            models.Index(F("deadline"), name="qd_approval_ends", condition=Q(state="pending") & ~Q(on_timeout="keep")),
            models.Index(
                F("remind_at"), name="qd_approval_remind", condition=Q(state="pending", remind_at__isnull=False)
            ),
            models.Index(
                F("tenant"), F("risk").desc(), F("id"), name="qd_approval_by_risk", condition=Q(state="pending")
            ),
            models.Index(
                F("tenant"),
                F("assignee_id"),
                name="qd_approval_held_by",
                condition=Q(state="pending", assignee_id__isnull=False),
            ),
            models.Index(F("run_id"), name="qd_approval_run"),
            models.Index(F("step_id"), F("id"), name="qd_approval_input", condition=Q(kind="input")),
            models.Index(F("supersedes"), name="qd_approval_supersedes", condition=Q(supersedes__isnull=False)),
            models.Index(F("tenant"), F("id").desc(), name="qd_approval_newest"),
            models.Index(F("tenant"), F("created_at"), F("id"), name="qd_approval_asked"),
            models.Index(
                F("tenant"), OVER_AT.desc(), F("id").desc(), name="qd_approval_over", condition=~Q(state="pending")
            ),
            models.Index(
                F("tenant"),
                F("risk"),
                OVER_AT.desc(),
                F("id").desc(),
                name="qd_approval_over_by_risk",
                condition=~Q(state="pending"),
            ),
            models.Index(F("id"), name="qd_approval_granted", condition=Q(state="approved", n_actions__gt=0)),
        ]


class Action(TenantOwned):
    """One call that a request permits when it is approved: this tool with exactly these arguments, once.

    A program that carries out its own action has no run; ``operation_id`` is then the id under which it was let
    through.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    request = models.ForeignKey(Request, on_delete=models.PROTECT, related_name="actions")
    run_id = models.UUIDField(null=True)
    node = models.CharField(max_length=200)
    tool = models.CharField(max_length=220)
    contract_sha256 = models.BinaryField(max_length=32)
    business_key = models.CharField(max_length=500)
    arguments_sha256 = models.BinaryField(max_length=32)
    arguments = models.BinaryField(null=True, help_text="Canonical bytes to send in place of the workflow's own.")
    prepared_sha256 = models.BinaryField(
        max_length=32, null=True, help_text="What the workflow itself would send, where a person edited it."
    )
    operation_id = models.UUIDField(null=True)
    consumed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "qd_approval_action"
        constraints = [
            models.UniqueConstraint(fields=["request", "node"], name="qd_approval_action_once"),
            models.CheckConstraint(
                condition=Q(consumed_at__isnull=True) | Q(operation_id__isnull=False), name="qd_approval_action_used"
            ),
        ]
        indexes = [models.Index(F("run_id"), name="qd_approval_action_run")]


class Decision(TenantOwned):
    """What one person said, with what they were shown; written once."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    request = models.ForeignKey(Request, on_delete=models.PROTECT, related_name="decisions")
    decision = models.CharField(max_length=10)
    actor = models.CharField(max_length=200)
    user_id = models.IntegerField()
    token_id = models.UUIDField(null=True)
    for_user_id = models.IntegerField(null=True)
    for_actor = models.CharField(max_length=200, null=True, help_text="In whose place, by a delegation.")
    version = models.PositiveSmallIntegerField()
    payload_sha256 = models.BinaryField(max_length=32)
    comment = models.TextField(default="", blank=True)
    answer = models.BinaryField(null=True, help_text="Canonical bytes of the answer to a request for an input.")
    at = models.DateTimeField()

    class Meta:
        db_table = "qd_approval_decision"
        constraints = [
            models.CheckConstraint(condition=Q(decision__in=["approve", "reject"]), name="qd_approval_decision_word"),
            models.UniqueConstraint(fields=["request", "user_id"], name="qd_approval_decision_once"),
        ]
        indexes = [models.Index(F("tenant"), F("user_id"), F("at"), name="qd_approval_decision_by")]


class Note(TenantOwned):
    """What happened to a request beside its decisions: comments, claims, hand-overs, reminders, escalations."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    request = models.ForeignKey(Request, on_delete=models.PROTECT, related_name="notes")
    kind = models.CharField(max_length=20)
    actor = models.CharField(max_length=200)
    text = models.TextField(default="", blank=True)
    details = models.JSONField(null=True)
    at = models.DateTimeField()

    class Meta:
        db_table = "qd_approval_note"


class Delegation(TenantOwned):
    """One person decides in another's place for a time; both names stand in every decision made so."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    from_user_id = models.IntegerField()
    from_actor = models.CharField(max_length=200)
    to_user_id = models.IntegerField()
    to_actor = models.CharField(max_length=200)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    reason = models.TextField(default="", blank=True)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    ended_by = models.CharField(max_length=200, null=True)

    class Meta:
        db_table = "qd_approval_delegation"
        constraints = [
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="qd_delegation_lasts"),
            models.CheckConstraint(condition=~Q(from_user_id=F("to_user_id")), name="qd_delegation_to_another"),
        ]
        indexes = [models.Index(F("tenant"), F("to_user_id"), F("ends_at"), name="qd_delegation_to")]


class PolicyVersion(TenantOwned):
    """One version of a tenant's rules; at most one is active. What it says is never changed."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    version = models.PositiveIntegerField()
    rules = models.BinaryField(help_text="Canonical JSON.")
    sha256 = models.BinaryField(max_length=32)
    note = models.TextField(default="", blank=True)
    state = models.CharField(max_length=10, default="proposed")
    request_id = models.UUIDField(null=True)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    activated_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "qd_approval_policy"
        constraints = [
            models.CheckConstraint(condition=Q(state__in=POLICY_STATES), name="qd_policy_state"),
            models.UniqueConstraint(fields=["tenant", "version"], name="qd_policy_version"),
            models.UniqueConstraint(fields=["tenant"], condition=Q(state="active"), name="qd_policy_active_once"),
        ]


class Hook(TenantOwned):
    """Where events of requests are posted: signed webhooks, or lines for a chat. Its secret stands in no row."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    url = models.CharField(max_length=500)
    format = models.CharField(max_length=10, help_text="standard: Standard Webhooks; chat: {text}.")
    events = models.JSONField(null=True, help_text="Which events; null: all of them.")
    secret_version = models.PositiveSmallIntegerField(default=1, db_default=1)
    old_secrets = models.JSONField(default=list, help_text="Earlier ones that sign too: {version, until}.")
    rotation = models.JSONField(null=True, help_text="Who asked for the newest secret: {by, at, overlap_s, until}.")
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "qd_approval_hook"
        constraints = [
            models.CheckConstraint(condition=Q(format__in=HOOK_FORMATS), name="qd_approval_hook_format"),
            models.UniqueConstraint(
                fields=["tenant", "url"], condition=Q(removed_at__isnull=True), name="qd_approval_hook_once"
            ),
        ]


class ReviewLimit(TenantOwned):
    """How much one person of a tenant reviews: requests held at once, decisions in an hour; null: no limit (C7.1)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    most_held = models.PositiveIntegerField(null=True)
    most_decided = models.PositiveIntegerField(null=True, help_text="In an hour.")
    set_by = models.CharField(max_length=200)
    set_at = models.DateTimeField()

    class Meta:
        db_table = "qd_review_limit"
        constraints = [models.UniqueConstraint(fields=["tenant"], name="qd_review_limit_once")]


class Group(TenantOwned):
    """A name for some members who decide together or one for another; who is in it is asked when they decide."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=60)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "qd_approval_group"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "name"], condition=Q(removed_at__isnull=True), name="qd_approval_group_once"
            )
        ]


class GroupMember(TenantOwned):
    """Somebody in a group for a time; leaving ends the row."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    group = models.ForeignKey(Group, on_delete=models.PROTECT, related_name="members", db_index=False)
    user_id = models.IntegerField()
    added_by = models.CharField(max_length=200)
    added_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "qd_approval_group_member"
        constraints = [
            models.UniqueConstraint(
                fields=["group", "user_id"], condition=Q(ended_at__isnull=True), name="qd_approval_group_member_once"
            )
        ]
        indexes = [
            models.Index(F("tenant"), F("user_id"), name="qd_approval_groups_of", condition=Q(ended_at__isnull=True))
        ]


class Manager(TenantOwned):
    """Who a member's manager is; null: nobody any more. Earlier ones stand in the audit."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user_id = models.IntegerField()
    manager_id = models.IntegerField(null=True)
    set_by = models.CharField(max_length=200)
    set_at = models.DateTimeField()

    class Meta:
        db_table = "qd_approval_manager"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "user_id"], name="qd_approval_manager_once"),
            models.CheckConstraint(condition=~Q(user_id=F("manager_id")), name="qd_approval_manager_is_another"),
        ]
        indexes = [models.Index(F("tenant"), F("manager_id"), name="qd_approval_managed_by")]
