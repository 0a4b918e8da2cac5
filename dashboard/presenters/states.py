"""The words of states, causes, kinds and verbs, and the mark each state wears. Pure; nothing here reads a row."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

STEP = {
    "waiting": gettext_lazy("waiting"),
    "queued": gettext_lazy("queued"),
    "running": gettext_lazy("running"),
    "hold": gettext_lazy("on hold"),
    "succeeded": gettext_lazy("succeeded"),
    "failed": gettext_lazy("failed"),
    "killed": gettext_lazy("killed"),
    "skipped": gettext_lazy("skipped"),
    "mark_successed": gettext_lazy("succeeded by hand"),
    "unknown": gettext_lazy("unknown"),
}
RUN = {
    "accepted": gettext_lazy("accepted"),
    "queued": gettext_lazy("queued"),
    "running": gettext_lazy("running"),
    "waiting_tool": gettext_lazy("waiting for a tool"),
    "waiting_approval": gettext_lazy("waiting for approval"),
    "waiting_external": gettext_lazy("waiting outside"),
    "paused": gettext_lazy("paused"),
    "cancelling": gettext_lazy("cancelling"),
    "compensating": gettext_lazy("compensating"),
    "needs_attention": gettext_lazy("needs attention"),
    "completed": gettext_lazy("completed"),
    "partially_completed": gettext_lazy("partially completed"),
    "failed": gettext_lazy("failed"),
    "cancelled": gettext_lazy("cancelled"),
}
# In the order a person reads a tenant: what moves, what waits for somebody, what ended.
RUN_ORDER = (
    "running queued accepted waiting_approval needs_attention paused waiting_tool waiting_external compensating"
    " cancelling completed partially_completed failed cancelled"
).split()
RUN_OPEN = [name for name in RUN_ORDER if name not in ("completed", "partially_completed", "failed", "cancelled")]
OPERATION = {
    "intended": gettext_lazy("intended"),
    "sent": gettext_lazy("sent"),
    "succeeded": gettext_lazy("confirmed"),
    "refused": gettext_lazy("refused"),
    "absent": gettext_lazy("absent"),
    "partially_applied": gettext_lazy("partly applied"),
    "unknown": gettext_lazy("unknown"),
    "void": gettext_lazy("void"),
    "needs_human": gettext_lazy("needs a person"),
    "compensating": gettext_lazy("compensating"),
    "compensated": gettext_lazy("compensated"),
    "compensation_failed": gettext_lazy("compensation failed"),
    "written_off": gettext_lazy("written off"),
}
APPROVAL = {
    "pending": gettext_lazy("needs a decision"),
    "approved": gettext_lazy("approved"),
    "rejected": gettext_lazy("rejected"),
    "cancelled": gettext_lazy("cancelled"),
    "superseded": gettext_lazy("superseded"),
    "consumed": gettext_lazy("approved and sent"),
    "lapsed": gettext_lazy("lapsed"),
    "voided": gettext_lazy("voided"),
    "revoked": gettext_lazy("revoked"),
    "escalated": gettext_lazy("escalated"),
}
DELEGATION = {
    "active": gettext_lazy("active now"),
    "coming": gettext_lazy("coming"),
    "ended": gettext_lazy("ended"),
}
CAUSE = {
    "user": gettext_lazy("by a person"),
    "branch": gettext_lazy("branch not taken"),
    "rejected": gettext_lazy("rejected"),
    "upstream_failed": gettext_lazy("upstream failed"),
    "or_lost": gettext_lazy("another branch won"),
    "cancelled": gettext_lazy("run cancelled"),
    "deadline": gettext_lazy("deadline passed"),
    "approval": gettext_lazy("waits for approval"),
    "pause": gettext_lazy("held by an operator"),
    "review": gettext_lazy("waits for a review"),
    "recovery": gettext_lazy("cannot be recovered as it stands"),
    "input": gettext_lazy("waits for input"),
    "external": gettext_lazy("waits for an event"),
    "retry_scheduled": gettext_lazy("retry scheduled"),
    "yielded": gettext_lazy("yielded"),
    "given_back": gettext_lazy("given back"),
    "timer": gettext_lazy("timer"),
    "granted": gettext_lazy("granted"),
    "lease_lost": gettext_lazy("lease lost"),
    "receipt_unknown": gettext_lazy("no receipt"),
    "operation": gettext_lazy("an effect outside"),
    "stopped": gettext_lazy("emergency stop"),
    "throttled": gettext_lazy("throttled"),
    "reconciled": gettext_lazy("found out outside"),
    "taken_over": gettext_lazy("taken over by a person"),
}
KIND = {
    "tool": gettext_lazy("tool"),
    "switch": gettext_lazy("switch"),
    "approval": gettext_lazy("approval"),
    "input": gettext_lazy("question"),
    "wait": gettext_lazy("timer"),
    "verifier": gettext_lazy("check"),
    "compensation": gettext_lazy("undoing"),
    "compensation_check": gettext_lazy("check of the undoing"),
    "agent": gettext_lazy("agent"),
    "notify": gettext_lazy("notice"),
}
OUTPUT = {
    "final": gettext_lazy("final result"),
    "partial": gettext_lazy("partial result"),
    "tool_result": gettext_lazy("tool's result"),
    "human_decision": gettext_lazy("a person's decision"),
    "failure": gettext_lazy("failure"),
    "compensation": gettext_lazy("compensation"),
}
ROLE = {
    "viewer": gettext_lazy("Viewer"),
    "approver": gettext_lazy("Approver"),
    "oncall": gettext_lazy("On call"),
    "admin": gettext_lazy("Administrator"),
    "finance": gettext_lazy("Finance"),
    "integrator": gettext_lazy("Integrator"),
    "verifier": gettext_lazy("Verifier"),
}
# Other states wear the mark whose shape says the same.
MARK = {
    "sent": "running",
    "intended": "accepted",
    "refused": "failed",
    "absent": "skipped",
    "void": "skipped",
    "partially_applied": "partially_completed",
    "needs_human": "needs_attention",
    "compensated": "compensating",
    "compensation_failed": "failed",
    "written_off": "cancelled",
    "pending": "hold",
    "approved": "succeeded",
    "consumed": "succeeded",
    "rejected": "failed",
    "superseded": "skipped",
    "lapsed": "skipped",
    "voided": "skipped",
    "revoked": "cancelled",
    "escalated": "hold",
    "active": "running",
    "coming": "waiting",
    "ended": "skipped",
    "fine": "succeeded",
    "strained": "hold",
    "broken": "failed",
    "none": "waiting",
}
WORDS = {"step": STEP, "run": RUN, "operation": OPERATION, "approval": APPROVAL, "delegation": DELEGATION}
ENDED_RUNS = frozenset({"completed", "partially_completed", "failed", "cancelled"})
ENDED_STEPS = frozenset({"succeeded", "failed", "killed", "skipped", "mark_successed"})


def word(state: str, of: str = "step") -> str:
    """Return a state's word in the reader's language; a state nobody named is shown as it is."""
    return str(WORDS[of].get(state, state.replace("_", " ")))


def mark_name(state: str) -> str:
    """Return which mark of the sprite a state wears."""
    return MARK.get(state, state)


def cause_word(cause: str | None) -> str:
    """Return a cause's words; an empty text for none."""
    if not cause:
        return ""
    return str(CAUSE.get(cause, cause.replace("_", " ")))


def event_cause(event: dict[str, Any]) -> str:
    """Return the words beside an event that say why it came; none where its type says it, as an operation's does."""
    return "" if event.get("cause") == "operation" else cause_word(event.get("cause"))


def event_subject(event: dict[str, Any]) -> str:
    """Return whose states an event names: those of an operation, of a step or of the run."""
    if event["type"].startswith("OPERATION_"):
        return "operation"
    return "step" if event.get("node") else "run"


def kind_word(kind: str) -> str:
    """Return what a node is."""
    return str(KIND.get(kind, kind))


def output_word(kind: str | None) -> str:
    """Return what kind of output something is; an empty text for none."""
    return str(OUTPUT.get(kind, kind)) if kind else ""


def role_word(role: str) -> str:
    """Return a role's name, or that of the group or the manager whom a request asks in place of a role."""
    kind, found, name = role.partition(":")
    if found and kind == "group":
        return _("group %(name)s") % {"name": name}
    if found and kind == "manager":
        return _("manager of %(name)s") % {"name": name}
    return str(ROLE.get(role, role))


def badges(step: dict[str, Any]) -> list[str]:
    """Return the facts that stand beside a step's state: its cause, an asked pause, the attempt."""
    found = []
    if step.get("cause") and step["status"] in ("skipped", "hold", "waiting", "unknown", "killed"):
        error = step["error"] if isinstance(step.get("error"), dict) else {}
        unsigned = step["cause"] == "stopped" and error.get("code") == "samples_unsigned"
        found.append(_("samples not signed") if unsigned else cause_word(step["cause"]))
    if step.get("hold_requested"):
        found.append(hold_word(step["status"]))
    if (step.get("attempt") or 0) > 1:
        found.append(ngettext("%(n)d attempt", "%(n)d attempts", step["attempt"]) % {"n": step["attempt"]})
    if step.get("execution_version", 1) > 1:
        found.append(_("run %(n)d") % {"n": step["execution_version"]})
    return found


def hold_word(status: str) -> str:
    """Return what an operator's hold is for a step that keeps its state: one that is ready is parked at once."""
    return _("parked") if status == "queued" else _("pause asked")


# The classes of errors (B4.1), and what stands for one where a message could not leave.
ERROR = {
    "network": gettext_lazy("network error"),
    "timeout": gettext_lazy("time limit passed"),
    "rate_limited": gettext_lazy("too many calls"),
    "server_error": gettext_lazy("error at the tool"),
    "validation": gettext_lazy("data does not fit"),
    "permission": gettext_lazy("no permission"),
    "not_found": gettext_lazy("not found"),
    "business": gettext_lazy("refused by the rules of the business"),
    "policy": gettext_lazy("refused by the policy"),
    "cancelled": gettext_lazy("cancelled"),
    "budget": gettext_lazy("limit used up"),
    "protocol": gettext_lazy("unreadable answer"),
    "internal": gettext_lazy("internal error"),
    "oversize": gettext_lazy("answer too large"),
    "poison": gettext_lazy("cannot be handled"),
}
# Where the engine has a fact from, where it names one in an actor's place.
SOURCE = {
    "engine": gettext_lazy("engine"),
    "ledger": gettext_lazy("our ledger"),
    "query": gettext_lazy("the tool's answer to a query"),
    "callback": gettext_lazy("the tool's own report"),
    "outbox": gettext_lazy("outgoing messages"),
    "quarantine": gettext_lazy("messages in quarantine"),
    "invariants": gettext_lazy("search for breaches"),
}


def person(label: str | None) -> dict[str, Any]:
    """Return {name, kind, initials} of an actor's label such as ``user:ada`` or of a source; the engine for none."""
    if not label or label in SOURCE:
        return {"name": str(SOURCE[label or "engine"]), "kind": "engine", "initials": "", "label": label or "engine"}
    kind, _colon, name = label.partition(":")
    if not name:
        kind, name = "user", label
    parts = [part for part in name.replace(".", " ").replace("_", " ").replace("-", " ").split() if part]
    initials = "".join(part[0] for part in parts[:2]) if len(parts) > 1 else name[:2]
    return {"name": name, "kind": kind, "initials": initials.upper(), "label": label}
