"""Worker sessions hold the lease; the clock's offset lets tests move time for everybody at once."""

from django.db import models
from django.db.models import F, Q

from runtime.kernel.ids import uuid7


class WorkerSession(models.Model):
    """One worker process (engine.md 4). It serves every tenant, so it belongs to none."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    host = models.CharField(max_length=200)
    pid = models.IntegerField()
    process_start = models.CharField(max_length=40, help_text="Tells a process from a later one with its pid.")
    pools = models.JSONField(default=list)
    slots = models.PositiveIntegerField(default=1)
    code_version = models.CharField(max_length=80, default="")
    started_at = models.DateTimeField()
    lease_until = models.DateTimeField()
    beat_at = models.DateTimeField()
    busy = models.PositiveIntegerField(default=0)
    progress_seq = models.BigIntegerField(default=0)
    # As of the last beat (C2.8); the process's, its threads' together.
    cpu_seconds = models.FloatField(null=True)
    rss_bytes = models.BigIntegerField(null=True)
    # The calls of all tenants: no process's role may read it, ``qd_steps_in_hand()`` tells a tenant of its own.
    in_hand = models.JSONField(null=True)
    ended_at = models.DateTimeField(null=True)
    end_reason = models.CharField(max_length=40, null=True)

    class Meta:
        db_table = "qd_worker_session"
        indexes = [models.Index(F("lease_until"), name="qd_worker_session_live", condition=Q(ended_at__isnull=True))]


class Clock(models.Model):
    """One row: what qd_now() adds to the database's clock. Only tests move it."""

    id = models.BooleanField(primary_key=True, default=True)
    offset = models.DurationField()

    class Meta:
        db_table = "qd_clock"


class SubscriberCursor(models.Model):
    """How far a subscriber has read the event stream: (xact, run_id, seq)."""

    name = models.CharField(primary_key=True, max_length=100)
    xact = models.BigIntegerField(default=0)
    run_id = models.UUIDField(null=True)
    seq = models.BigIntegerField(default=0)
    moved_at = models.DateTimeField()

    class Meta:
        db_table = "qd_subscriber_cursor"
