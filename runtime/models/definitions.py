"""What is registered before anything runs: workflows, tools, manifests, verifiers. All immutable once written."""

from django.db import models
from django.db.models import Q

from runtime.kernel.ids import uuid7
from runtime.models.tenancy import TenantOwned

# What a recording shows of a tool; every version has those that can happen to it (C8.8).
SAMPLE_KINDS = (
    "normal",
    "retryable_error",
    "deterministic_error",
    "partial",
    "malformed",
    "oversize",
    "late_callback",
    "denied",
)


class Workflow(TenantOwned):
    """The name under which versions are registered; object permissions (django-guardian) hang here."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=200)
    description = models.TextField(default="", blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "qd_workflow"
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="qd_workflow_name")]
        permissions = [("operate_workflow", "Operate runs of this workflow"), ("submit_workflow", "Submit to it")]


class WorkflowVersion(TenantOwned):
    """One immutable version; ``spec`` is the canonical byte string that was hashed and that is executed."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workflow = models.ForeignKey(Workflow, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    spec = models.BinaryField()
    spec_sha256 = models.BinaryField(max_length=32)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "qd_workflow_version"
        constraints = [
            models.UniqueConstraint(fields=["workflow", "number"], name="qd_workflow_version_number"),
            models.UniqueConstraint(fields=["workflow", "spec_sha256"], name="qd_workflow_version_content"),
        ]


class Layout(TenantOwned):
    """Where a workflow version's graph is drawn; made once by the layout duty, see ``runtime.graph.layout``."""

    version = models.OneToOneField(
        WorkflowVersion, on_delete=models.PROTECT, primary_key=True, related_name="+", db_column="workflow_version_id"
    )
    format = models.PositiveSmallIntegerField(help_text="An older format is drawn anew.")
    drawing = models.BinaryField(help_text="JSON bytes")
    created_at = models.DateTimeField()

    class Meta:
        db_table = "qd_layout"


class ToolVersion(TenantOwned):
    """One immutable version of a tool's contract (C3.1)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=200)
    number = models.PositiveIntegerField()
    contract = models.BinaryField()
    contract_sha256 = models.BinaryField(max_length=32)
    side_effect = models.CharField(max_length=10)
    recovery = models.CharField(max_length=20)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    retired_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "qd_tool_version"
        constraints = [models.UniqueConstraint(fields=["tenant", "name", "number"], name="qd_tool_version_number")]


class ToolSample(TenantOwned):
    """A recorded answer of one tool version, and what it has to be read as (C8.8). Never changed.

    ``sha256`` is over the canonical bytes of kind, recording and expectation; ``recording`` are canonical bytes.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    tool_version = models.ForeignKey(ToolVersion, on_delete=models.PROTECT, related_name="samples", db_index=False)
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=20)
    recording = models.BinaryField()
    expected = models.JSONField()
    sha256 = models.BinaryField(max_length=32)
    recorded_by = models.CharField(max_length=200)
    recorded_at = models.DateTimeField()

    class Meta:
        db_table = "qd_tool_sample"
        constraints = [
            models.UniqueConstraint(fields=["tool_version", "name"], name="qd_tool_sample_name"),
            models.CheckConstraint(condition=Q(kind__in=SAMPLE_KINDS), name="qd_tool_sample_kind"),
        ]


class ToolSignature(TenantOwned):
    """A person's word that a tool version, by the hash of its contract, passed its samples (C8.8). Never changed."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    tool_version = models.ForeignKey(ToolVersion, on_delete=models.PROTECT, related_name="signatures")
    contract_sha256 = models.BinaryField(max_length=32)
    samples_sha256 = models.BinaryField(max_length=32)
    samples = models.PositiveSmallIntegerField()
    reason = models.TextField(default="", blank=True)
    signed_by = models.CharField(max_length=200)
    signed_at = models.DateTimeField()

    class Meta:
        db_table = "qd_tool_signature"
        indexes = [models.Index(fields=["signed_at"], name="qd_tool_signature_newest")]


class Manifest(TenantOwned):
    """Hash over workflow, tools, policy and code version; bound to a run when it is created (C4.8)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    sha256 = models.BinaryField(max_length=32)
    body = models.BinaryField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "qd_manifest"
        constraints = [models.UniqueConstraint(fields=["tenant", "sha256"], name="qd_manifest_content")]


class Verifier(TenantOwned):
    """Who may decide an Outcome: a named, versioned method with its own authorisation (A2.5)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=200)
    number = models.PositiveIntegerField()
    method = models.CharField(max_length=40, help_text="machine_check, human_review or model_judge")
    description = models.TextField(default="", blank=True)
    authorised_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "qd_verifier"
        constraints = [models.UniqueConstraint(fields=["tenant", "name", "number"], name="qd_verifier_number")]
