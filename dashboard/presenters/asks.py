"""Requests in words: risk, what undoing costs, what a proposal changes, who said what, why somebody may not. Pure."""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from dashboard.presenters import payload, states, terms

# Of one call people read the argument's own name.
_IN_A_CALL = re.compile(r"^calls/\d+/arguments/")
REASONS = {
    "cannot_be_undone": gettext_lazy("nothing undoes it"),
    "may_happen_twice": gettext_lazy("sent again, it could happen twice"),
    "nobody_can_look": gettext_lazy("nobody can look up whether it happened"),
    "several_calls": gettext_lazy("several calls at once"),
    "edited": gettext_lazy("edited by a person"),
    "declared": gettext_lazy("the workflow says so"),
}
NOTES = {
    "ask": gettext_lazy("asked"),
    "comment": gettext_lazy("commented"),
    "claim": gettext_lazy("took it on"),
    "release": gettext_lazy("gave it back"),
    "delegate": gettext_lazy("handed it over"),
    "extend": gettext_lazy("gave more time"),
    "escalate": gettext_lazy("escalated it"),
    "revoke": gettext_lazy("took the grant back"),
    "propose": gettext_lazy("edited it"),
    "withdraw": gettext_lazy("withdrew it"),
    "target_changed": gettext_lazy("found the target changed before anything was sent"),
    "warned": gettext_lazy("warned: half of the time is over"),
    "reminded": gettext_lazy("reminded: little time is left"),
    "overdue": gettext_lazy("told that it is overdue"),
    "use": gettext_lazy("used the grant"),
    "report": gettext_lazy("reported what came of it"),
}
# What the engine itself writes into the history.
ENGINE_TEXTS = {"review limit": gettext_lazy("over the review limit")}
BLOCKED = {
    "own_request": gettext_lazy("You asked for it yourself: another person decides it."),
    "approval_assigned": gettext_lazy("Somebody else has it. They can release it, or an administrator can."),
}


def risk_reasons(shown: dict[str, Any]) -> str:
    """Return why it is risky, in words."""
    names = (shown.get("risk") or {}).get("reasons") or []
    # That a person edited it stands beside, with the name.
    return ", ".join(str(REASONS.get(name, name)) for name in names if name != "edited")


def undoing(call: dict[str, Any]) -> str:
    """Return what undoing one call takes, by its tool's contract."""
    effect = call.get("effect") or {}
    if effect.get("undo"):
        return _("Undone by %(tool)s, a call with its own check.") % {"tool": effect["undo"]}
    return _("No tool undoes it: a person would have to.")


def lost_answer(call: dict[str, Any]) -> str:
    """Return what happens when the answer to one call is lost."""
    effect = call.get("effect") or {}
    if effect.get("query"):
        return _("It is looked up with %(tool)s, never sent blindly.") % {"tool": effect["query"]}
    if effect.get("idempotency") not in (None, "none"):
        return _("It is sent again under the same key and happens once.")
    return _("A person finds out; it is not sent again by itself.")


def rows_of(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a typed difference as rows: {path, name, type, before, after, more}."""
    return [_row(one) for one in changes]


def _row(one: dict[str, Any]) -> dict[str, Any]:
    path = _IN_A_CALL.sub("", one["path"].lstrip("/")).replace("/", ".").replace("~1", "/").replace("~0", "~")
    last = path.rpartition(".")[2]
    before, after = one.get("before"), one.get("after")
    value = after if one["op"] != "removed" else before
    return {
        "path": path,
        "name": last.replace("_", " ").capitalize(),
        "type": payload.kind(value),
        "before": None if one["op"] == "added" else _text(before),
        "after": None if one["op"] == "removed" else _text(after),
        "more": _difference(before, after) if one["op"] == "changed" else "",
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _difference(before: Any, after: Any) -> str:
    """Return by how much a number changed; money travels as text, so texts that are numbers count."""
    try:
        if any(isinstance(one, bool) or not isinstance(one, str | int | float) for one in (before, after)):
            return ""
        by = Decimal(str(after)) - Decimal(str(before))
    except InvalidOperation:
        return ""
    if not by.is_finite():
        return ""
    return _("%(n)s more") % {"n": by} if by > 0 else _("%(n)s less") % {"n": -by}


def history(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what happened to a request, oldest first: {at, actor, words, text, files}."""
    rows = [
        {
            "at": one["at"],
            "actor": one["actor"],
            "words": _note(one),
            "text": str(ENGINE_TEXTS.get(one["text"], one["text"])) if one["actor"] == "engine" else one["text"],
            "files": (one["details"] or {}).get("attachments", []),
        }
        for one in found["notes"]
    ]
    for one in found["decisions"]:
        words = _("approved") if one["decision"] == "approve" else _("rejected")
        if one["for_actor"]:
            words = _("%(words)s in place of %(who)s") % {"words": words, "who": _name(one["for_actor"])}
        rows.append({"at": one["at"], "actor": one["actor"], "words": words, "text": one["comment"], "files": []})
    return sorted(rows, key=lambda one: one["at"])


def own_words(one: dict[str, Any]) -> str:
    """Return what the reader themselves did to a request: {kind} is approve, reject or that of a note."""
    if one["kind"] in ("approve", "reject"):
        return _("You approved") if one["kind"] == "approve" else _("You rejected")
    return _("You %(did)s") % {"did": NOTES.get(one["kind"], one["kind"])}


def _note(one: dict[str, Any]) -> str:
    words, details = str(NOTES.get(one["kind"], one["kind"])), one["details"] or {}
    if one["kind"] == "delegate":
        return _("%(words)s to %(who)s") % {"words": words, "who": _name(details["to"])}
    if one["kind"] == "escalate":
        return _("%(words)s to %(who)s") % {"words": words, "who": states.role_word(details["to"]["role"])}
    return words


def _name(label: str) -> str:
    return label.partition(":")[2] or label


def panel(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return who has to or may decide: those who have, then members who still can; {actor, for_actor, said, at, …}."""
    spoken = {one["actor"] for one in found["decisions"]} | {one["for_actor"] for one in found["decisions"]}
    rows = [{**one, "said": one["decision"]} for one in found["decisions"]]
    if found["state"] != "pending":
        return rows
    if found["assignee"]:
        waiting = [found["assignee"]]
    else:
        wanted = found["role"] or "admin"
        waiting = [one["actor"] for one in found["deciders"] if one["role"] == wanted][:6]
    return rows + [
        {"actor": name, "for_actor": None, "said": "", "comment": ""}
        for name in waiting
        if name not in spoken and not (found["separation"] != "none" and name == found["requested_by"])
    ]


# By whom a pending request is left to, where that is nobody it asks.
_LEFT_TO = {
    "admins": (
        gettext_lazy("Today only an administrator can decide it."),
        gettext_lazy(
            "Of those it asks nobody may decide it now, or all have spoken. Who stands in for an administrator may."
        ),
    ),
    "too_few": (
        gettext_lazy("Today too few people can decide it."),
        gettext_lazy("Give somebody the role or put them into the group it asks, or make them an administrator."),
    ),
}


def left_to(found: dict[str, Any]) -> dict[str, Any] | None:
    """Return {title, text} where nobody but an admin, or too few people, could decide a pending request today."""
    said = _LEFT_TO.get(found["waits_for"])
    return {"title": said[0], "text": said[1]} if said else None


def why_not(found: dict[str, Any]) -> str:
    """Return why this reader cannot decide, an empty text when they can."""
    if found["state"] != "pending":
        state, why = states.word(found["state"], "approval"), terms.term(found["outcome_reason"], "outcome")
        if why:
            return _("It is closed: %(state)s, %(why)s.") % {"state": state, "why": why}
        return _("It is closed: %(state)s.") % {"state": state}
    if found["blocked"] in BLOCKED:
        return str(BLOCKED[found["blocked"]])
    if not found["may_decide"]:
        role = states.role_word(found["role"] or "admin")
        if ":" in found["role"]:
            return _("It waits for: %(who)s.") % {"who": role}
        return _("It waits for the role %(role)s.") % {"role": role}
    if found["redacted"]:
        return _("You may not read what is to be decided.")
    if found["deadline"] and found.get("now") and found["deadline"] <= found["now"]:
        return _("The deadline has passed. Time never approves.")
    return ""
