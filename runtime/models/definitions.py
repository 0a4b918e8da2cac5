"""What is registered before anything runs: workflows, tools, manifests, verifiers. All immutable once written."""

from django.db import models

from runtime.kernel.ids import uuid7
from runtime.models.tenancy import TenantOwned


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
