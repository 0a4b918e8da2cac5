"""Words of the code that reach a page: roles, permissions, problems, verdicts, why a request ended. Pure.

The runtime says them in English, once; here they are named again, so that the catalog has them.
"""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext, gettext_lazy

from dashboard.presenters import states
from dashboard.presenters.told import told
from runtime.kernel.errors import QuarterdeckError

ROLES = (
    gettext_lazy("Looks at runs without reading their contents."),
    gettext_lazy("Decides approvals; reads what is to be decided."),
    gettext_lazy("Operates runs and steps, repairs."),
    gettext_lazy("Everything but recording outcomes and stopping the whole installation."),
    gettext_lazy("Reads the audit log and the members; answers inputs asked of the role."),
    gettext_lazy("A program or its author: registers workflows, submits tasks, asks for approvals of its own."),
    gettext_lazy("Records outcomes from evidence."),
)
VERBS = (
    gettext_lazy("Submit tasks to workflows."),
    gettext_lazy("See tasks and find them."),
    gettext_lazy("See runs, steps, graphs and events, without inputs and outputs."),
    gettext_lazy("Start a new run of an existing task."),
    gettext_lazy("Cancel a run."),
    gettext_lazy("Pause a run."),
    gettext_lazy("Resume a paused run."),
    gettext_lazy("Send an external event to a run that waits for it."),
    gettext_lazy("Run a finished step again."),
    gettext_lazy("Skip a step."),
    gettext_lazy("Take a skip back."),
    gettext_lazy("Hold a step."),
    gettext_lazy("Release a step that an operator held."),
    gettext_lazy("Kill a queued or running step."),
    gettext_lazy("Force a step's success; grants nothing and writes no outcome."),
    gettext_lazy("Pass the decision on a held step to the engine; who may decide it is asked with the request."),
    gettext_lazy("See workflows and their versions."),
    gettext_lazy("Register workflow versions."),
    gettext_lazy("See tools and their contracts."),
    gettext_lazy("Register tool versions."),
    gettext_lazy("See side effects and their state."),
    gettext_lazy("Order that a side effect is undone."),
    gettext_lazy("Let a tool be asked now about an effect that is not settled."),
    gettext_lazy("Report on an attempt later, as the tool that was called."),
    gettext_lazy("See that artifacts exist, with size and hash."),
    gettext_lazy("Upload artifacts."),
    gettext_lazy("Read inputs, outputs, artifacts' content and tools' answers."),
    gettext_lazy("Record a task's outcome as a verifier."),
    gettext_lazy("See sessions of others and attach tasks to them."),
    gettext_lazy("Read the audit log."),
    gettext_lazy("See worker sessions."),
    gettext_lazy("See the tenant's members."),
    gettext_lazy("Add members, change their roles, end memberships."),
    gettext_lazy("Issue and revoke one's own tokens."),
    gettext_lazy("See and revoke every token of the tenant."),
    gettext_lazy("See emergency stops."),
    gettext_lazy("Stop external calls of a tool, a workflow or the tenant."),
    gettext_lazy("Lift an emergency stop."),
    gettext_lazy("Stop the whole installation; held by who runs it, given by no role."),
    gettext_lazy("See alerts."),
    gettext_lazy("Choose where alerts are sent."),
    gettext_lazy("See messages that could not be sent."),
    gettext_lazy("Send a message in quarantine again, or discard it."),
    gettext_lazy("See limits, breakers and the tenant's policy."),
    gettext_lazy("Set limits, close breakers, say which regions and scopes tools may have."),
    gettext_lazy("Say where the tenant asks for a second person, and when repair cases are due."),
    gettext_lazy("See approval requests; what is to be decided needs payload.read too."),
    gettext_lazy("Approve or reject requests that name one's role."),
    gettext_lazy("Answer requests for an input that name one's role; an answer approves nothing."),
    gettext_lazy("See repair cases, what is known of them and who owns them."),
    gettext_lazy("Open a repair case by hand."),
    gettext_lazy("Claim, investigate, propose and carry out repairs, hand them over."),
    gettext_lazy("Review another person's proposed repair."),
    gettext_lazy("Give an effect up for good."),
    gettext_lazy("Write the runbooks that cases show."),
    gettext_lazy("Ask for approvals of one's own actions, use what was granted once, and report what came of it."),
    gettext_lazy("Propose rules for approvals and try them on the past; another person activates them."),
)
# The settings of a tenant.
SETTINGS = (
    gettext_lazy(
        "When another admin has to agree before a step is marked as succeeded by hand: on each, on those whose effect "
        "outside is open, or never."
    ),
    gettext_lazy(
        "What becomes of a writing call while no policy is active and no approval of its workflow lets it through: it "
        "is allowed, people are asked, or it is denied. An active policy denies what none of its rules names."
    ),
    gettext_lazy("Which repairs another person has to review: what is risky, or each."),
    gettext_lazy("Hours in which a repair case of high risk is due."),
    gettext_lazy("Hours in which a repair case of medium risk is due."),
    gettext_lazy("Hours in which a repair case of low risk is due."),
    gettext_lazy("Seconds in which work of the class production alert is to start."),
    gettext_lazy("Seconds in which a task of the class production alert is to end; 0: in no certain time."),
    gettext_lazy("Seconds in which work of the class interactive is to start."),
    gettext_lazy("Seconds in which a task of the class interactive is to end; 0: in no certain time."),
    gettext_lazy("Seconds in which work of the class approval is to start."),
    gettext_lazy("Seconds in which a task of the class approval is to end; 0: in no certain time."),
    gettext_lazy("Seconds in which work of the class batch is to start."),
    gettext_lazy("Seconds in which a task of the class batch is to end; 0: in no certain time."),
    gettext_lazy("Seconds in which work of the class experiment is to start."),
    gettext_lazy("Seconds in which a task of the class experiment is to end; 0: in no certain time."),
)
# The titles of problems (RFC 9457); their details are the API's and stay as they are.
PROBLEMS = (
    gettext_lazy("Error"),
    gettext_lazy("Bad input"),
    gettext_lazy("Invalid JSON"),
    gettext_lazy("Payload too large"),
    gettext_lazy("Invalid workflow"),
    gettext_lazy("Invalid expression"),
    gettext_lazy("Value does not fit its schema"),
    gettext_lazy("Not authenticated"),
    gettext_lazy("Permission denied"),
    gettext_lazy("Not found"),
    gettext_lazy("Conflict"),
    gettext_lazy("Stale version"),
    gettext_lazy("Move refused"),
    gettext_lazy("Request key conflict"),
    gettext_lazy("Already issued"),
    gettext_lazy("A stop of this stands"),
    gettext_lazy("Operation conflict"),
    gettext_lazy("Operation still open"),
    gettext_lazy("Run has ended"),
    gettext_lazy("Already succeeded"),
    gettext_lazy("Cursor expired"),
    gettext_lazy("Events are gone"),
    gettext_lazy("Queue full"),
    gettext_lazy("Message conflict"),
    gettext_lazy("Unavailable"),
    gettext_lazy("Configuration error"),
    gettext_lazy("Request is closed"),
    gettext_lazy("Decision is too late"),
    gettext_lazy("Request waits for a decision"),
    gettext_lazy("Nothing is granted"),
    gettext_lazy("Another action than was approved"),
    gettext_lazy("External calls are stopped"),
    gettext_lazy("Request cannot be approved"),
    gettext_lazy("Somebody else decides it"),
    gettext_lazy("You have decided already"),
    gettext_lazy("Review limit is reached"),
    gettext_lazy("It is your own request"),
    gettext_lazy("Not possible for this request"),
    gettext_lazy("Somebody else holds the case"),
    gettext_lazy("You do not hold the case"),
    gettext_lazy("Case is resolved"),
    gettext_lazy("Resolution is not permitted"),
    gettext_lazy("A second person is needed"),
    gettext_lazy("Asked too soon"),
    gettext_lazy("Content does not have its hash"),
    gettext_lazy("Bulk repair is elsewhere by now"),
    gettext_lazy("Something else would run now"),
    gettext_lazy("No evidence of success"),
    gettext_lazy("The samples do not fit"),
    gettext_lazy("A recording is never changed"),
)
VERDICT = {
    "achieved": gettext_lazy("Achieved"),
    "not_achieved": gettext_lazy("Not achieved"),
    "undecided": gettext_lazy("Undecided"),
}
DECISION = {"approve": gettext_lazy("approved"), "reject": gettext_lazy("rejected")}
# Why a request ended without a decision, or after it.
OUTCOME = {
    "timeout": gettext_lazy("deadline passed"),
    "step skipped": gettext_lazy("step skipped"),
    "step forced": gettext_lazy("step forced"),
    "step killed": gettext_lazy("step killed"),
    "step failed": gettext_lazy("step failed"),
    "run cancelled": gettext_lazy("run cancelled"),
    "run ended": gettext_lazy("run ended"),
    "the run's deadline passed": gettext_lazy("deadline passed"),
    "not started in time": gettext_lazy("not started in time"),
    "withdrawn": gettext_lazy("withdrawn"),
    "the policy denies it now": gettext_lazy("the policy denies it now"),
    "the policy asks for more now": gettext_lazy("the policy asks for more now"),
    "edited by a person": gettext_lazy("edited by a person"),
    "the approver lost the right": gettext_lazy("the approver lost the right"),
    "the requester lost the right": gettext_lazy("the requester lost the right"),
}
# How those begin that go on with a name or a version.
OUTCOME_OF = {
    "taken back by ": gettext_lazy("taken back by %(rest)s"),
    "withdrawn by ": gettext_lazy("withdrawn by %(rest)s"),
    "target changed: ": gettext_lazy("target changed: %(rest)s"),
}
EFFECT = {"none": gettext_lazy("none"), "read": gettext_lazy("reads"), "write": gettext_lazy("writes")}
KEYS = {
    "none": gettext_lazy("not told apart"),
    "key": gettext_lazy("told apart by the key"),
    "epoch": gettext_lazy("fenced by the epoch"),
    "natural": gettext_lazy("makes no difference"),
}
# What a recording of a tool shows.
SAMPLES = {
    "normal": gettext_lazy("normal answer"),
    "retryable_error": gettext_lazy("error that passes"),
    "deterministic_error": gettext_lazy("error that stays"),
    "partial": gettext_lazy("done in part"),
    "malformed": gettext_lazy("unreadable answer"),
    "oversize": gettext_lazy("answer too large"),
    "late_callback": gettext_lazy("late report"),
    "denied": gettext_lazy("denied"),
}
# How an attempt ended.
ATTEMPT = {
    "succeeded": gettext_lazy("succeeded"),
    "failed": gettext_lazy("failed"),
    "killed": gettext_lazy("killed"),
    "unknown": gettext_lazy("unknown"),
    "retry": gettext_lazy("failed, tried again"),
    "yielded": gettext_lazy("yielded"),
    "given_back": gettext_lazy("given back"),
    "parked": gettext_lazy("on hold"),
    "lost": gettext_lazy("worker lost"),
    "taken_over": gettext_lazy("taken over by a person"),
}
# What a kept result is (C4.2).
KEPT = {
    "observation": gettext_lazy("observation"),
    "candidate": gettext_lazy("candidate"),
    "external_fact": gettext_lazy("fact from outside"),
}
_WORDS: dict[str, dict[str, Any]] = {
    "verdict": VERDICT,
    "decision": DECISION,
    "outcome": OUTCOME,
    "effect": EFFECT,
    "keys": KEYS,
    "samples": SAMPLES,
    "error": states.ERROR,
    "attempt": ATTEMPT,
    "kept": KEPT,
}


def term(text: str | None, of: str = "") -> str:
    """Return a word or sentence of the code in the reader's language; what nobody named is shown as it is.

    ``of`` is verdict, decision, outcome, effect, keys, samples, error, attempt or kept; without it ``text`` is one of
    the sentences above.
    """
    if not text:
        return ""
    for begin, words in OUTCOME_OF.items() if of == "outcome" else ():
        if text.startswith(begin):
            return str(words) % {"rest": text.removeprefix(begin).removeprefix("user:")}
    if of:
        word = _WORDS[of].get(text)
        # Why a request ended is one of the words above or a sentence of the engine.
        return str(word) if word is not None else told(text) if of == "outcome" else text.replace("_", " ")
    return gettext(text)


def problem_word(problem: QuarterdeckError) -> str:
    """Return what kind of problem it is."""
    return gettext(problem.title)
