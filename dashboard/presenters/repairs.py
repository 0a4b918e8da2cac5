"""The words of repair cases: kinds, answers, resolutions, what happened, and what would stay open. Pure."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from dashboard.presenters.repair_chain import link_word
from dashboard.presenters.repair_facts import ANSWER as ANSWER
from dashboard.presenters.repair_facts import confirmed as confirmed
from dashboard.presenters.repair_facts import facts as facts
from dashboard.presenters.repair_moves import MOVE_OF
from dashboard.presenters.terms import term
from dashboard.presenters.told import told
from repair.board import board as effects
from repair.law import WITHOUT_EFFECT

KIND = {
    "operation_unknown": gettext_lazy("Effect unknown"),
    "operation_conflicts": gettext_lazy("Effect conflicts"),
    "partially_applied": gettext_lazy("Partly applied"),
    "compensation_failed": gettext_lazy("Could not be undone"),
    "failed_with_effects": gettext_lazy("Failed with effects"),
    "late_success": gettext_lazy("Late success"),
    "poison_message": gettext_lazy("Poison message"),
    "stuck": gettext_lazy("Stuck"),
    "version_mismatch": gettext_lazy("Version mismatch"),
    "invariant_breach": gettext_lazy("Invariant breach"),
    "run_attention": gettext_lazy("Run needs a person"),
    "by_hand": gettext_lazy("Opened by hand"),
}
STATE = {
    "open": gettext_lazy("Open"),
    "claimed": gettext_lazy("Claimed"),
    "investigating": gettext_lazy("Investigating"),
    "proposed": gettext_lazy("Proposed"),
    "reviewing": gettext_lazy("In review"),
    "resolved": gettext_lazy("Resolved"),
}
MOVE = {
    "record_success": (
        gettext_lazy("Record success"),
        gettext_lazy("Closes the operation with the reference it has outside. Nothing is sent."),
    ),
    "confirm_absent": (
        gettext_lazy("Confirm absent"),
        gettext_lazy("The operation is absent and the step fails; what follows takes its failure policy."),
    ),
    "resume_step": (
        gettext_lazy("Resume the step"),
        gettext_lazy("The step goes on; a proved absence lets the same key be sent once more."),
    ),
    "compensate": (
        gettext_lazy("Compensate"),
        gettext_lazy("A new action of the run undoes the effect, under a key of its own; if it can't, a case opens."),
    ),
    "keep_pending": (
        gettext_lazy("Keep pending"),
        gettext_lazy("Nothing changes outside or here; the case gets another due date."),
    ),
    "write_off": (gettext_lazy("Write off"), gettext_lazy("Leaves the effect open in the books for good.")),
    "settled": (gettext_lazy("Settled by itself"), gettext_lazy("The fact arrived before anybody took the case.")),
}
HAPPENED = {
    "opened": gettext_lazy("Case opened"),
    "told": gettext_lazy("New facts arrived"),
    "claimed": gettext_lazy("Taken over"),
    "released": gettext_lazy("Released"),
    "handed_over": gettext_lazy("Handed over"),
    "asked": gettext_lazy("Tool asked"),
    "answered": gettext_lazy("Answer from outside"),
    "proposed": gettext_lazy("Resolution proposed"),
    "reviewed": gettext_lazy("Reviewed"),
    "kept_pending": gettext_lazy("Kept pending"),
    "escalated": gettext_lazy("Overdue, escalated"),
    "settled": gettext_lazy("Settled by itself"),
    "resolved": gettext_lazy("Resolved"),
}
# What the law and the policy of cases say; their own words are English, the reader's are looked up here.
SENTENCES = (
    gettext_lazy("The outside says that the effect is absent."),
    gettext_lazy("Nothing outside has confirmed the effect: ask the tool, or say what you saw and where."),
    gettext_lazy("The outside could not be asked, so nothing confirms the effect."),
    gettext_lazy("The outside tells of another effect than the one that was intended."),
    gettext_lazy("The outside says that the effect is there."),
    gettext_lazy("No answer is no proof of absence."),
    gettext_lazy("The outside could not be asked; that proves no absence."),
    gettext_lazy("Something was applied: it is not absent."),
    gettext_lazy("The effect is there; sending again would make a second one."),
    gettext_lazy("Sent again only once the outside has said that it is absent."),
    gettext_lazy("Another effect is there under this key; the same key is never sent over it."),
    gettext_lazy("The tool's contract names nothing that undoes it."),
    gettext_lazy("There is no effect to undo."),
    gettext_lazy("Your role does not order that an effect is undone."),
    gettext_lazy("What undid an effect is not undone itself."),
    gettext_lazy("Its workflow names a person who undoes it."),
    gettext_lazy("Nothing to undo until an effect is confirmed."),
    gettext_lazy("The effect is known; there is nothing to give up."),
    gettext_lazy("The absence is known; there is nothing to give up."),
    gettext_lazy("There is no effect outside that this could be about."),
    gettext_lazy("It is nothing that this kind of case could be closed by."),
    gettext_lazy("Nothing of it can be given up; it is looked after until it is settled."),
    gettext_lazy("Messages of the topic wait in quarantine."),
    gettext_lazy("Nothing moves the run yet."),
    gettext_lazy("The case names no step: move or cancel the run itself."),
    gettext_lazy("No message of the topic waits in quarantine any more."),
    gettext_lazy("A success is recorded of a step that is unknown; this one is not."),
    gettext_lazy("The step holds no more."),
    gettext_lazy("The step is where it was when the case opened."),
    gettext_lazy("Something of the run is unknown or open: settle that first."),
    gettext_lazy("A step of the run could not be recovered and holds: settle that first."),
    gettext_lazy("Effects of the run are still applied."),
    gettext_lazy("No effect of the run has anything that undoes it by itself."),
    gettext_lazy("Your role does not replay or discard messages."),
    gettext_lazy("A read leaves nothing open outside; run it again."),
    gettext_lazy("The tool's recovery class does not allow it."),
    gettext_lazy("Administrators only. Leaves the effect open in the books for good."),
    gettext_lazy("The tenant's policy asks for a second person on every repair."),
    gettext_lazy("What is written off is never looked after again."),
    gettext_lazy("It acts outside."),
    gettext_lazy("The tool cannot tell a second send from the first."),
    gettext_lazy("A person's word stands for the tool's answer."),
)
_MARK = {
    "open": "needs_attention",
    "claimed": "hold",
    "investigating": "hold",
    "proposed": "hold",
    "reviewing": "hold",
    "resolved": "succeeded",
}


def kind_word(kind: str) -> str:
    """Return what kind of case it is."""
    return str(KIND.get(kind, kind.replace("_", " ")))


def row(one: dict[str, Any]) -> dict[str, Any]:
    """Return a case with the words and the mark that a list shows."""
    return {
        **one,
        "kind_word": kind_word(one["kind"]),
        "state_word": STATE[one["state"]],
        "mark": mark(one["state"]),
        "escalated_word": link_word(one["escalated_to"]) if one["escalated_to"] else "",
        "resolution_word": move_word(one, one["resolution"]) if one["resolution"] else "",
    }


def move_word(case: dict[str, Any], resolution: str) -> str:
    """Return what a resolution is called for this case."""
    word = MOVE_OF.get((case["kind"], resolution)) if case["recovery"] is None else None
    return str(word or MOVE[resolution][0])


def _does(case: dict[str, Any], resolution: str) -> str:
    does = WITHOUT_EFFECT.get(case["kind"], {}).get(resolution) if case["recovery"] is None else None
    return _(does) if does else str(MOVE[resolution][1])


def track(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the six stages of a case: {word, done, current, at}; ``at`` is when it last came there."""
    order = list(STATE)
    reached = order.index(case["state"])
    times = {"open": case["opened_at"], "claimed": case["claimed_at"], "resolved": case["resolved_at"]}
    for entry in case["entries"]:
        stage = {"asked": "investigating", "answered": "investigating", "proposed": "proposed"}.get(entry["type"])
        if stage and order.index(stage) <= reached:
            times[stage] = entry["at"]
    return [
        {"word": STATE[name], "done": index < reached, "current": index == reached, "at": times.get(name)}
        for index, name in enumerate(order)
    ]


def moves(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the moves as the page shows them: word, text or why not, whether a second person looks, the suggestion."""
    rows = []
    for index, one in enumerate(case["moves"]):
        rows.append(
            {
                "name": one["resolution"],
                "word": move_word(case, one["resolution"]),
                "text": _(one["why_not"]) if one["why_not"] else _does(case, one["resolution"]),
                "permitted": one["permitted"],
                "second": _(one["second"]) if one["second"] and one["permitted"] else "",
                "suggested": index == 0 and one["permitted"],
            }
        )
    return rows


def history(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what happened, newest first: {word, text, actor, at}; late reports that were refused stand among it."""
    rows = [
        {
            "word": str(HAPPENED.get(one["type"], one["type"].replace("_", " "))),
            "text": _detail(one, case),
            "actor": one["actor"],
            "at": one["at"],
        }
        for one in case["entries"]
    ]
    rows += [
        {
            "word": _("Late result refused"),
            "text": _("epoch %(epoch)s, %(outcome)s")
            % {"epoch": _of_step(case, one["payload"]), "outcome": term(one["payload"].get("outcome"), "attempt")},
            "actor": "engine",
            "at": one["occurred_at"],
        }
        for one in case["stale"]
    ]
    return sorted(rows, key=lambda one: one["at"], reverse=True)


def _of_step(case: dict[str, Any], payload: dict[str, Any]) -> str:
    """Return the epoch of a late report, with the step's name where the case is about several."""
    epoch = payload.get("submitted_epoch")
    return f"{epoch} ({payload.get('node')})" if case["subject_kind"] == "run" else str(epoch)


def happened(entry: dict[str, Any], case: dict[str, Any]) -> str:
    """Return what an entry of a case tells, in a line."""
    word, text = str(HAPPENED.get(entry["type"], entry["type"].replace("_", " "))), _detail(entry, case)
    return f"{word}: {text}" if text else word


def _detail(entry: dict[str, Any], case: dict[str, Any]) -> str:
    data, type = entry["data"], entry["type"]
    if type in ("claimed", "handed_over") and data.get("epoch"):
        epoch = _("epoch %(n)s") % {"n": data["epoch"]}
        return f"{data['to']}, {epoch}" if data.get("to") else epoch
    if type == "answered":
        return f"{ANSWER[data['answer']]} · {data['seen_at']}"
    if type == "escalated":
        return link_word(data["to"])
    if type in ("proposed", "resolved"):
        return move_word(case, data["resolution"])
    if type == "reviewed":
        return _("approved") if data["decision"] == "approve" else _("sent back")
    return told(entry["reason"])


BOARD = {
    "done": gettext_lazy("done, can be undone"),
    "irreversible": gettext_lazy("done, can't be undone"),
    "compensating": gettext_lazy("being undone"),
    "compensated": gettext_lazy("undone"),
    "failed": gettext_lazy("could not be undone"),
    "unknown": gettext_lazy("not known"),
    "absent": gettext_lazy("nothing was applied"),
    "written_off": gettext_lazy("written off"),
    "undoing": gettext_lazy("undoes another effect"),
}


def board(operations: list[dict[str, Any]], cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the compensation board's rows with the ``word`` of what became of each effect."""
    return [{**row, "word": BOARD[row["kind"]]} for row in effects(operations, cases)]


def reference_of(case: dict[str, Any]) -> str:
    """Return the reference outside that was seen last, an empty text for none."""
    seen = [one["value"] for one in case["confirmed"] if one["name"] == "external" and isinstance(one["value"], dict)]
    found = next((one["external_ref"] for one in reversed(seen) if one.get("external_ref")), None)
    return str(found or (case["operation"] or {}).get("external_ref") or "")


def epochs(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return who owned which step under which epoch: {epoch, node, who, text, at}; people and attempts alike.

    The newest of each step first. ``node`` is empty where the case is about one step.
    """
    rows = [
        {
            "epoch": one["owner_epoch"],
            "node": one.get("node", ""),
            "who": "",
            "text": f"{one['host'] or ''}:{one['pid'] or ''} {term(one['outcome'], 'attempt')}".strip(": "),
            "at": one["started_at"],
        }
        for one in case["epochs"]
    ]
    for one in case["entries"]:
        if one["type"] in ("claimed", "handed_over"):
            who = one["data"].get("to") or one["actor"]
            rows += [
                {"epoch": epoch, "node": node, "who": who, "text": "", "at": one["at"]}
                for node, epoch in _taken(case, one["data"])
            ]
    rows.sort(key=lambda one: (one["epoch"], one["at"]), reverse=True)
    return sorted(rows, key=lambda one: one["node"])


def _taken(case: dict[str, Any], data: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the epochs that a claim or a hand-over took, by node; of one step without its name."""
    if case["subject_kind"] == "run":
        return [(node, one["epoch"]) for node, one in (data.get("fenced") or {}).items()]
    return [("", data["epoch"])] if data.get("epoch") else []


def stays_open(case: dict[str, Any]) -> list[str]:
    """Return what goes on if the reader stops here."""
    rows = []
    operation, run = case["operation"], case["run"]
    if operation is not None and operation["settled_at"] is None:
        rows.append(_("Nothing is sent again while the operation is open."))
    if run is not None and run["status"] == "needs_attention":
        rows.append(_("The run waits; what follows the step does not start."))
    if case["overdue"]:
        rows.append(_("It is overdue and stays on the first screen."))
    following = next((one for one in case["escalation"] if one["state"] == "next"), None)
    if following is not None:
        rows.append(_("While it is open, it goes up its chain; next: %(who)s.") % {"who": link_word(following["to"])})
    return rows


def mark(state: str) -> str:
    """Return whose mark a case's state wears."""
    return _MARK[state]
