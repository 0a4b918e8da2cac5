"""What happened, never changed: events, checkpoints, artifacts, and the audit of people's acts."""

from django.db import models

from runtime.kernel.ids import uuid7
from runtime.models.tenancy import Tenant, TenantOwned


class Event(TenantOwned):
    """One fact of a run (B2.1). Identity is (run_id, seq); partitioned by run_id, append-only.

    ``xact`` is the writing transaction's id: readers of the whole stream follow (xact, run_id, seq) below the
    oldest transaction still open, so that a late commit is never passed over.
    """

    pk = models.CompositePrimaryKey("run_id", "seq")
    run_id = models.UUIDField()
    seq = models.BigIntegerField()
    xact = models.BigIntegerField()
    type = models.CharField(max_length=40)
    step_id = models.UUIDField(null=True)
    node = models.CharField(max_length=200, null=True)
    execution_version = models.PositiveSmallIntegerField(null=True)
    attempt = models.PositiveSmallIntegerField(null=True)
    owner_epoch = models.PositiveIntegerField(null=True)
    version = models.PositiveIntegerField(null=True)
    from_status = models.CharField(max_length=20, null=True)
    to_status = models.CharField(max_length=20, null=True)
    cause = models.CharField(max_length=40, null=True)
    actor = models.CharField(max_length=200, null=True, help_text="null: the engine")
    reason = models.TextField(null=True)
    payload = models.JSONField(null=True)
    input_sha256 = models.BinaryField(max_length=32, null=True)
    output_sha256 = models.BinaryField(max_length=32, null=True)
    manifest_id = models.UUIDField()
    schema_version = models.PositiveSmallIntegerField(default=1)
    occurred_at = models.DateTimeField()

    class Meta:
        db_table = "qd_event"


class Checkpoint(TenantOwned):
    """Input, output and state after a node (A9.5, C4.2); partitioned by run_id, written once."""

    pk = models.CompositePrimaryKey("run_id", "node", "execution_version")
    run_id = models.UUIDField()
    node = models.CharField(max_length=200)
    execution_version = models.PositiveSmallIntegerField()
    step_id = models.UUIDField()
    attempt = models.PositiveSmallIntegerField()
    owner_epoch = models.PositiveIntegerField()
    manifest_id = models.UUIDField()
    run_seq = models.BigIntegerField(help_text="The event up to which this state is complete.")
    kind = models.CharField(max_length=20, help_text="observation, candidate or external_fact")
    input_sha256 = models.BinaryField(max_length=32, null=True)
    output = models.BinaryField(null=True, help_text="Canonical JSON bytes; null when it is an artifact.")
    output_sha256 = models.BinaryField(max_length=32, null=True)
    artifact_id = models.UUIDField(null=True)
    adopted_from = models.UUIDField(null=True, help_text="The run whose checkpoint was reused.")
    created_at = models.DateTimeField()

    class Meta:
        db_table = "qd_checkpoint"


class Artifact(TenantOwned):
    """Large content with its hash; written before any reference to it (C2.3)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    sha256 = models.BinaryField(max_length=32)
    size = models.BigIntegerField()
    media_type = models.CharField(max_length=200, default="application/json")
    content = models.BinaryField(null=True, help_text="null once purged; the digest stays")
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, help_text="Set until something refers to it.")

    class Meta:
        db_table = "qd_artifact"
        constraints = [models.UniqueConstraint(fields=["tenant", "sha256"], name="qd_artifact_content")]


class AuditEntry(TenantOwned):
    """An act of a person or service identity, or a policy decision; hash-chained per tenant (A10.3)."""

    pk = models.CompositePrimaryKey("tenant_id", "number")
    number = models.BigIntegerField()
    at = models.DateTimeField()
    actor = models.CharField(max_length=200)
    verb = models.CharField(max_length=60)
    subject_kind = models.CharField(max_length=40)
    subject_id = models.CharField(max_length=200)
    run_id = models.UUIDField(null=True)
    result = models.CharField(max_length=40)
    reason = models.TextField(default="", blank=True)
    body = models.BinaryField(help_text="Canonical JSON bytes of the entry: what the chain hashes.")
    previous_sha256 = models.BinaryField(max_length=32)
    sha256 = models.BinaryField(max_length=32)

    class Meta:
        db_table = "qd_audit_entry"


class AuditHead(TenantOwned):
    """The newest link of a tenant's audit chain; locked as a transaction's last statement."""

    tenant = models.OneToOneField(
        Tenant, on_delete=models.PROTECT, primary_key=True, related_name="+", db_constraint=False
    )
    number = models.BigIntegerField(default=0)
    sha256 = models.BinaryField(max_length=32)

    class Meta:
        db_table = "qd_audit_head"
