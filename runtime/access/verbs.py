"""The runtime's own permissions. Upper apps declare theirs in ``wiring.py``; nobody asks for an undeclared verb."""

from __future__ import annotations

from runtime.kernel import seams

TASK_SUBMIT = "task.submit"
TASK_READ = "task.read"
RUN_READ = "run.read"
RUN_CREATE = "run.create"
RUN_CANCEL = "run.cancel"
RUN_PAUSE = "run.pause"
RUN_RESUME = "run.resume"
RUN_SIGNAL = "run.signal"
STEP_RERUN = "step.rerun"
STEP_SKIP = "step.skip"
STEP_UNSKIP = "step.unskip"
STEP_HOLD = "step.hold"
STEP_RELEASE = "step.release"
STEP_KILL = "step.kill"
STEP_FORCE = "step.force"
STEP_RESOLVE = "step.resolve"
WORKFLOW_READ = "workflow.read"
WORKFLOW_REGISTER = "workflow.register"
TOOL_READ = "tool.read"
TOOL_REGISTER = "tool.register"
OPERATION_READ = "operation.read"
OPERATION_COMPENSATE = "operation.compensate"
OPERATION_QUERY = "operation.query"
ATTEMPT_REPORT = "attempt.report"
ARTIFACT_READ = "artifact.read"
ARTIFACT_WRITE = "artifact.write"
PAYLOAD_READ = "payload.read"
OUTCOME_RECORD = "outcome.record"
SESSION_USE = "session.use"
AUDIT_READ = "audit.read"
WORKER_READ = "worker.read"
MEMBER_READ = "member.read"
MEMBER_MANAGE = "member.manage"
TOKEN_ISSUE = "token.issue"
TOKEN_MANAGE = "token.manage"
STOP_READ = "stop.read"
STOP_SET = "stop.set"
STOP_LIFT = "stop.lift"
STOP_GLOBAL = "stop.global"
ALERT_READ = "alert.read"
NOTICE_MANAGE = "notice.manage"
MESSAGE_READ = "message.read"
MESSAGE_RESOLVE = "message.resolve"
LIMIT_READ = "limit.read"
LIMIT_SET = "limit.set"
TENANT_SET = "tenant.set"

VERBS: dict[str, str] = {
    TASK_SUBMIT: "Submit tasks to workflows.",
    TASK_READ: "See tasks and find them.",
    RUN_READ: "See runs, steps, graphs and events, without inputs and outputs.",
    RUN_CREATE: "Start a new run of an existing task.",
    RUN_CANCEL: "Cancel a run.",
    RUN_PAUSE: "Pause a run.",
    RUN_RESUME: "Resume a paused run.",
    RUN_SIGNAL: "Send an external event to a run that waits for it.",
    STEP_RERUN: "Run a finished step again.",
    STEP_SKIP: "Skip a step.",
    STEP_UNSKIP: "Take a skip back.",
    STEP_HOLD: "Hold a step.",
    STEP_RELEASE: "Release a step that an operator held.",
    STEP_KILL: "Kill a queued or running step.",
    STEP_FORCE: "Force a step's success; grants nothing and writes no outcome.",
    STEP_RESOLVE: "Pass the decision on a held step to the engine; who may decide it is asked with the request.",
    WORKFLOW_READ: "See workflows and their versions.",
    WORKFLOW_REGISTER: "Register workflow versions.",
    TOOL_READ: "See tools and their contracts.",
    TOOL_REGISTER: "Register tool versions.",
    OPERATION_READ: "See side effects and their state.",
    OPERATION_COMPENSATE: "Order that a side effect is undone.",
    OPERATION_QUERY: "Let a tool be asked now about an effect that is not settled.",
    ATTEMPT_REPORT: "Report on an attempt later, as the tool that was called.",
    ARTIFACT_READ: "See that artifacts exist, with size and hash.",
    ARTIFACT_WRITE: "Upload artifacts.",
    PAYLOAD_READ: "Read inputs, outputs, artifacts' content and tools' answers.",
    OUTCOME_RECORD: "Record a task's outcome as a verifier.",
    SESSION_USE: "See sessions of others and attach tasks to them.",
    AUDIT_READ: "Read the audit log.",
    WORKER_READ: "See worker sessions.",
    MEMBER_READ: "See the tenant's members.",
    MEMBER_MANAGE: "Add members, change their roles, end memberships.",
    TOKEN_ISSUE: "Issue and revoke one's own tokens.",
    TOKEN_MANAGE: "See and revoke every token of the tenant.",
    STOP_READ: "See emergency stops.",
    STOP_SET: "Stop external calls of a tool, a workflow or the tenant.",
    STOP_LIFT: "Lift an emergency stop.",
    STOP_GLOBAL: "Stop the whole installation; held by who runs it, given by no role.",
    ALERT_READ: "See alerts.",
    NOTICE_MANAGE: "Choose where alerts are sent.",
    MESSAGE_READ: "See messages that could not be sent.",
    MESSAGE_RESOLVE: "Send a message in quarantine again, or discard it.",
    LIMIT_READ: "See limits, breakers and the tenant's policy.",
    LIMIT_SET: "Set limits, close breakers, say which regions and scopes tools may have.",
    TENANT_SET: "Say where the tenant asks for a second person, and when repair cases are due.",
}

# What the audit tells beside verbs: a sign-in, and a request refused before it came to a verb (``api/problems.py``).
ACTS = ("session.begin", "request")

seams.register_verbs(VERBS)
seams.register_acts(ACTS)
