"""Emergency stops and alerts: what an operator holds back, what the engine tells the operators about (A9.9)."""

from django.db import models
from django.db.models import F, Q

from runtime.kernel.ids import uuid7
from runtime.models.tenancy import TenantOwned

STOP_SCOPES = ("tool", "workflow", "tenant", "global")
ALERT_RULES = (
    "unknown_operations",
    "needs_attention",
    "failed_runs",
    "worker_lost",
    "queue_old",
    "outbox_old",
    "quarantined",
    "stranded_runs",
    "worker_stalled",
    "queue_full",
    "circuit_open",
    "subscriber_stuck",
    "long_write",
)
ALERT_SEVERITIES = ("warning", "critical")


class StopFields(models.Model):
    """Who held external calls back, why, and until when; ``lifted_at`` ends it early."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    scope = models.CharField(max_length=10)
    name = models.CharField(
        max_length=200, default="", blank=True, help_text="A tool (with or without @version), or a workflow."
    )
    reason = models.TextField()
    set_by = models.CharField(max_length=200)
    set_at = models.DateTimeField()
    until = models.DateTimeField(null=True)
    lifted_at = models.DateTimeField(null=True)
    lifted_by = models.CharField(max_length=200, null=True)
    lift_reason = models.TextField(default="", blank=True)

    class Meta:
        abstract = True


class Stop(TenantOwned, StopFields):
    """No new external call of a tool, of a workflow or of the whole tenant starts while it stands."""

    class Meta:
        db_table = "qd_stop"
        constraints = [
            models.CheckConstraint(
                condition=Q(scope="tenant", name="") | (Q(scope__in=["tool", "workflow"]) & ~Q(name="")),
                name="qd_stop_scope",
            ),
            models.CheckConstraint(
                condition=Q(lifted_at__isnull=True) | Q(lifted_by__isnull=False), name="qd_stop_lifted_by_somebody"
            ),
        ]
        indexes = [models.Index(F("tenant"), name="qd_stop_standing", condition=Q(lifted_at__isnull=True))]


class GlobalStop(StopFields):
    """A stop of the whole installation; it belongs to no tenant and every tenant sees that it stands."""

    by_tenant_id = models.UUIDField(null=True, help_text="The tenant of whoever set it; only they are told who it was.")

    class Meta:
        db_table = "qd_global_stop"
        constraints = [models.CheckConstraint(condition=Q(scope="global", name=""), name="qd_global_stop_scope")]


class Alert(TenantOwned):
    """Something that needs a person, grouped: while it is open, more of the same only counts up."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    fingerprint = models.CharField(max_length=300)
    rule = models.CharField(max_length=40)
    severity = models.CharField(max_length=10)
    title = models.CharField(max_length=300)
    subjects = models.JSONField(default=list, help_text="Newest first, at most twenty: kind, id, run_id, label.")
    count = models.PositiveIntegerField(default=1)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    notified_at = models.DateTimeField(
        null=True, help_text="null: it healed, or may still heal, before anybody was told."
    )
    closed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "qd_alert"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "fingerprint"], condition=Q(closed_at__isnull=True), name="qd_alert_open_once"
            ),
            # A new rule needs no migration: which there are is the code's business.
            models.CheckConstraint(condition=Q(rule__regex="^[a-z_]{3,40}$"), name="qd_alert_rule"),
            models.CheckConstraint(condition=Q(severity__in=ALERT_SEVERITIES), name="qd_alert_severity"),
        ]
        indexes = [models.Index(F("tenant"), F("last_at").desc(), F("id").desc(), name="qd_alert_newest")]


class NoticeTarget(TenantOwned):
    """Where a tenant's alerts go: a mail address or a webhook. A webhook's secret is derived, never stored."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=10)
    address = models.CharField(max_length=500)
    rules = models.JSONField(null=True, help_text="Only these rules; null: all of them.")
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "qd_notice_target"
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=["mail", "webhook"]), name="qd_notice_target_kind"),
            models.UniqueConstraint(
                fields=["tenant", "kind", "address"],
                condition=Q(removed_at__isnull=True),
                name="qd_notice_target_once",
            ),
        ]
