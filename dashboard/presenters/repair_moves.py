"""The words of the moves on a case about no effect outside: what each is called and does; how a query is read."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from dashboard.presenters.times import duration

# What a move is called where a case is about no effect outside.
MOVE_OF = {
    ("poison_message", "resume_step"): gettext_lazy("Send the messages again"),
    ("poison_message", "confirm_absent"): gettext_lazy("Confirm that none is left"),
    ("poison_message", "write_off"): gettext_lazy("Discard the messages"),
    ("invariant_breach", "confirm_absent"): gettext_lazy("Check the invariant again"),
    ("version_mismatch", "resume_step"): gettext_lazy("Release the step"),
    ("version_mismatch", "confirm_absent"): gettext_lazy("Confirm that it holds no more"),
    ("version_mismatch", "write_off"): gettext_lazy("Give the step up"),
    ("failed_with_effects", "compensate"): gettext_lazy("Undo the effects"),
    ("failed_with_effects", "confirm_absent"): gettext_lazy("Confirm that none is left"),
    ("failed_with_effects", "write_off"): gettext_lazy("Leave the effects as they are"),
    ("run_attention", "confirm_absent"): gettext_lazy("Let the run go on"),
    ("stuck", "confirm_absent"): gettext_lazy("Confirm that it ended"),
    ("stuck", "write_off"): gettext_lazy("Give the step up"),
    ("by_hand", "confirm_absent"): gettext_lazy("Nothing is wrong"),
    ("by_hand", "write_off"): gettext_lazy("Give the step up"),
}
# What the law says that a resolution does to a case about no effect; word for word as there.
DOES = (
    gettext_lazy("Gives the step up: it fails or is skipped as rejected, and what follows takes its failure policy."),
    gettext_lazy("The step goes on, or is run again; what has ended starts a new run of the task."),
    gettext_lazy("The step succeeds with the reference and the output that two people stand for."),
    gettext_lazy("The topic's messages are sent again, each under its own event_id; that they went is read after."),
    gettext_lazy("Closes only when no message of the topic is left in quarantine."),
    gettext_lazy("Discards the topic's messages in quarantine; they are never sent."),
    gettext_lazy("The invariant is checked again; the case closes only when it holds."),
    gettext_lazy("Closes the case though the breach stays in the rows."),
    gettext_lazy("Releases the held step: it goes on under the versions that are there now."),
    gettext_lazy("Closes only when the step holds no more."),
    gettext_lazy("Each effect whose contract names what undoes it is undone by a new action of the run."),
    gettext_lazy("Closes only when no effect of the run is left applied."),
    gettext_lazy("The effects stay as they are; nobody looks after them any more."),
    gettext_lazy("The run goes on; only when nothing of it is unknown, open or held."),
    gettext_lazy("Closes only when the step ended by other means."),
    gettext_lazy("What it was opened for is not there, on your word; an unknown step fails."),
)


def lookup(contract: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return how the answer of a tool's query is to be read, as (word, text); nothing for a tool without a query."""
    if contract is None or not contract["query"]:
        return []
    said = contract["lookup"] or {}
    after, kept = said.get("consistent_after_s"), said.get("retention_s")
    consistent = (
        _("“not found” never counts as absent")
        if after is None
        else _("“not found” counts as absent %(after)s after the call") % {"after": duration(after)}
    )
    retention = _("not declared") if kept is None else _("it knows a key for %(kept)s") % {"kept": duration(kept)}
    return [(_("Consistency"), consistent), (_("Retention"), retention)]


def proof(case: dict[str, Any]) -> dict[str, Any] | None:
    """Return what the tool's contract asks for as evidence of success, None where it asks for none.

    {kind, holds, by_query, by_person}: ``by_person`` says that who records a success gives the tool's answer with it.
    """
    declared = (case["contract"] or {}).get("success_evidence")
    if not declared:
        return None
    by_query = declared.get("from") == "query"
    by_person = not by_query and case["answered_by"] not in ("query", "ledger")
    return {"kind": declared.get("kind", ""), "holds": declared["holds"], "by_query": by_query, "by_person": by_person}
