"""The tables: fields, constraints and indexes; no workflow."""

from runtime.models.definitions import (
    Layout,
    Manifest,
    ToolSample,
    ToolSignature,
    ToolVersion,
    Verifier,
    Workflow,
    WorkflowVersion,
)
from runtime.models.effects import Citation, Compensation, Evidence, Inbox, Operation, Outbox, Outcome, Quarantined
from runtime.models.ledger import Artifact, AuditEntry, AuditHead, Checkpoint, Event
from runtime.models.limits import Breaker, Limit, Policy, RetryWindow
from runtime.models.tenancy import ApiToken, Membership, Preference, Tenant
from runtime.models.watch import Alert, GlobalStop, NoticeTarget, Stop
from runtime.models.work import Attempt, Run, Session, Step, Task
from runtime.models.workers import Clock, SubscriberCursor, WorkerSession

__all__ = [
    "Alert",
    "ApiToken",
    "Artifact",
    "Attempt",
    "AuditEntry",
    "AuditHead",
    "Breaker",
    "Checkpoint",
    "Citation",
    "Clock",
    "Compensation",
    "Event",
    "Evidence",
    "GlobalStop",
    "Inbox",
    "Layout",
    "Limit",
    "Manifest",
    "Membership",
    "NoticeTarget",
    "Operation",
    "Outbox",
    "Outcome",
    "Policy",
    "Preference",
    "Quarantined",
    "RetryWindow",
    "Run",
    "Session",
    "Step",
    "Stop",
    "SubscriberCursor",
    "Task",
    "Tenant",
    "ToolSample",
    "ToolSignature",
    "ToolVersion",
    "Verifier",
    "WorkerSession",
    "Workflow",
    "WorkflowVersion",
]
