"""What bounds the work: limits with their tokens, circuit breakers, windows of retries (C2.7, B4.1, B4.2)."""

from django.db import models
from django.db.models import Q

from runtime.kernel.ids import uuid7
from runtime.models.tenancy import TenantOwned

LIMIT_SCOPES = ("global", "tenant", "workflow", "tool")
BREAKER_STATES = ("closed", "open", "half_open")


class Limit(TenantOwned):
    """How many calls may run at once (``most``), and how many may start (``calls`` in each ``per_s`` seconds).

    ``used`` are the tokens that running steps hold; each step's row names the limits it holds one of. It changes only
    where a step's status does. A global limit belongs to no tenant: its tenant_id is all zeros.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    scope = models.CharField(max_length=10)
    name = models.CharField(max_length=200, default="", blank=True, help_text="Of a tool or a workflow.")
    origin = models.CharField(max_length=10, help_text="contract: of the tool; settings: set by a person.")
    most = models.PositiveIntegerField(null=True)
    calls = models.PositiveIntegerField(null=True)
    per_s = models.FloatField(null=True)
    used = models.IntegerField(default=0)
    allowance = models.FloatField(null=True, help_text="Calls that might start at refilled_at.")
    refilled_at = models.DateTimeField(null=True)
    reason = models.TextField(default="", blank=True)
    set_by = models.CharField(max_length=200)
    set_at = models.DateTimeField()
    version = models.PositiveIntegerField(db_default=1, help_text="Of what people set; taking tokens changes none.")
    removed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "qd_limit"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "scope", "name", "origin"],
                condition=Q(removed_at__isnull=True),
                name="qd_limit_once",
            ),
            models.CheckConstraint(condition=Q(scope__in=LIMIT_SCOPES), name="qd_limit_scope"),
            models.CheckConstraint(
                condition=(Q(most__isnull=False) | Q(calls__isnull=False))
                & (Q(calls__isnull=True, per_s__isnull=True) | Q(calls__gte=1, per_s__gt=0)),
                name="qd_limit_bounds_something",
            ),
        ]


class Breaker(TenantOwned):
    """A tool that fails again and again with one class of error: open, no call of it starts until ``open_until``.

    Then it is half open: one call is the probe. Its success closes the breaker, its failure opens it for longer.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    tool = models.CharField(max_length=140, help_text="name@version")
    error_class = models.CharField(max_length=20)
    state = models.CharField(max_length=10, default="closed")
    failures = models.PositiveIntegerField(default=0, help_text="One after the other, without a success between.")
    last_failure_at = models.DateTimeField()
    opened_at = models.DateTimeField(null=True)
    open_until = models.DateTimeField(null=True, help_text="Half open: until when the probe has time.")
    opens = models.PositiveIntegerField(default=0, help_text="How often in a row it opened; the time doubles.")
    version = models.PositiveIntegerField(default=1)

    class Meta:
        db_table = "qd_breaker"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "tool", "error_class"], name="qd_breaker_once"),
            models.CheckConstraint(condition=Q(state__in=BREAKER_STATES), name="qd_breaker_state"),
            models.CheckConstraint(
                condition=Q(state="closed") | Q(open_until__isnull=False), name="qd_breaker_open_has_end"
            ),
        ]


class RetryWindow(TenantOwned):
    """How many retries a key (a tool, the tenant, an input) has had in the window that ends at ``ends_at``."""

    pk = models.CompositePrimaryKey("tenant_id", "key")
    key = models.CharField(max_length=160)
    fingerprint = models.BinaryField(max_length=32, null=True, help_text="The input that holds this slot now.")
    ends_at = models.DateTimeField()
    used = models.PositiveIntegerField()

    class Meta:
        db_table = "qd_retry_window"


class Policy(TenantOwned):
    """What a tenant's tools may do at all: data regions and scopes they may have; null bounds nothing (C3.2)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    data_regions = models.JSONField(null=True)
    scopes = models.JSONField(null=True)
    set_by = models.CharField(max_length=200)
    set_at = models.DateTimeField()

    class Meta:
        db_table = "qd_policy"
        constraints = [models.UniqueConstraint(fields=["tenant"], name="qd_policy_one")]
