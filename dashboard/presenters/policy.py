"""A policy in words: its rules one by one, what changed, and what a dry run came to. Pure."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from approvals.groups import asked_of_group
from approvals.settings import ALLOW, ASK, DENY
from dashboard.presenters import states, times

STATES = {
    "proposed": gettext_lazy("proposed"),
    "active": gettext_lazy("active"),
    "retired": gettext_lazy("retired"),
    "rejected": gettext_lazy("rejected"),
    "withdrawn": gettext_lazy("withdrawn"),
}
# Whose mark a state of a policy wears.
MARKS = {"proposed": "hold", "active": "succeeded", "retired": "waiting", "rejected": "failed", "withdrawn": "skipped"}
VERDICTS = {
    "allow": gettext_lazy("allow"),
    "approval": gettext_lazy("ask people"),
    "deny": gettext_lazy("deny"),
}
VERDICT_MARKS = {"allow": "succeeded", "approval": "hold", "deny": "failed"}
FACTS = {
    "tool": gettext_lazy("name, version, recovery, idempotency, undo, targets (hosts), region"),
    "arguments": gettext_lazy("as they would be sent, a person's edit included"),
    "target": gettext_lazy("the state that the call writes; empty where its tool names none"),
    "amount": gettext_lazy("the number in arguments.amount, total or sum; null where there is none"),
    "risk": gettext_lazy("none, low, medium or high, by the tool's contract"),
    "risks": gettext_lazy("the reasons for the risk, by name"),
    "requester": gettext_lazy("who submitted the task, such as user:ada"),
    "workflow": gettext_lazy("the workflow's name"),
    "node": gettext_lazy("the step's id"),
    "business_key": gettext_lazy("the key by which the effect is known"),
    "undoes": gettext_lazy("true for a call that undoes an effect"),
    "now": gettext_lazy("hour, weekday (1 is Monday) and date, in UTC"),
}
DIFFERENCES = {
    "lets_through": gettext_lazy("People rejected it; the rules would let it through."),
    "stops": gettext_lazy("It was let through; the rules would deny it."),
    "asks": gettext_lazy("Nobody was asked; the rules would ask people."),
    "asks_no_more": gettext_lazy("People approved it; the rules would not ask."),
}
# By what the tenant says of writing calls while no version is active.
DEFAULTS = {
    ALLOW: gettext_lazy("No version is active: only workflows ask people"),
    ASK: gettext_lazy("No version is active: people are asked for every writing call"),
    DENY: gettext_lazy("No version is active: a writing call is denied that no workflow's approval lets through"),
}
EXAMPLE = [
    {"name": "small", "when": "amount != null && amount <= 100.0", "decide": "allow"},
    {"name": "all others", "when": "true", "decide": "approval", "role": "approver"},
]


def version_row(one: dict[str, Any]) -> dict[str, Any]:
    """Return a version with the word and the mark of its state."""
    return {**one, "word": STATES[one["state"]], "mark": MARKS[one["state"]]}


def rules_of(rules: list[dict[str, Any]], before: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """Return rules as rows: {name, when, word, mark, terms, change}; ``change`` says how it differs from ``before``."""
    old = {rule["name"]: (place, rule) for place, rule in enumerate(before or [])}
    return [
        {
            "name": rule["name"],
            "when": rule["when"],
            "word": VERDICTS[rule["decide"]],
            "mark": VERDICT_MARKS[rule["decide"]],
            "terms": _terms(rule) if rule["decide"] == "approval" else [],
            "change": _change(rule, place, old.get(rule["name"])) if before is not None else "",
        }
        for place, rule in enumerate(rules)
    ]


def gone(rules: list[dict[str, Any]], before: list[dict[str, Any]] | None) -> list[str]:
    """Return the names of the rules before that are no longer there."""
    names = {rule["name"] for rule in rules}
    return [rule["name"] for rule in before or [] if rule["name"] not in names]


def _change(rule: dict[str, Any], place: int, old: tuple[int, dict[str, Any]] | None) -> str:
    if old is None:
        return _("new")
    if old[1] != rule:
        return _("changed")
    return "" if old[0] == place else _("moved")


def _terms(rule: dict[str, Any]) -> list[str]:
    number = rule.get("quorum", 1)
    words = [ngettext("%(n)d person", "%(n)d people", number) % {"n": number}]
    if rule.get("role") or rule.get("group"):
        words.append(states.role_word(rule.get("role") or asked_of_group(rule["group"])))
    if rule.get("separation") == "none":
        words.append(_("whoever asked may decide"))
    elif rule.get("separation") == "two_people":
        words.append(_("nor whoever edited it"))
    if "expires_s" in rule:
        words.append(_("decide within %(time)s") % {"time": times.duration(rule["expires_s"])})
    if "start_within_s" in rule:
        words.append(_("start within %(time)s") % {"time": times.duration(rule["start_within_s"])})
    if rule.get("on_timeout") == "keep":
        words.append(_("keeps waiting"))
    return words


def counts_of(found: dict[str, Any]) -> list[tuple[str, int, str]]:
    """Return (word, number, mark) of what a dry run came to."""
    return [
        (_("calls looked at"), found["calls"], ""),
        (_("allowed"), found["allow"], "succeeded"),
        (_("people are asked"), found["approval"], "hold"),
        (_("denied"), found["deny"], "failed"),
        (_("content is gone"), found["unknown"], ""),
    ]


def differences_of(found: dict[str, Any]) -> list[tuple[str, int]]:
    """Return (sentence, number) of how the rules differ from what happened, where they do."""
    return [(str(text), found[name]) for name, text in DIFFERENCES.items() if found.get(name)]


def items_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the calls of a dry run with the words for verdict, difference and what became of each."""
    return [
        {
            **one,
            "word": VERDICTS[one["decide"]],
            "mark": VERDICT_MARKS[one["decide"]],
            "told": DIFFERENCES.get(one["differs"], ""),
            "happened": states.word(one["state"], "approval" if one["kind"] == "request" else "operation"),
        }
        for one in found["items"]
    ]


def of_request(shown: dict[str, Any]) -> dict[str, Any] | None:
    """Return which policy version judged a request's calls, and by which rules; None where none did."""
    policy = shown.get("policy")
    if not policy:
        return None
    rows = [{**one, "word": VERDICTS[one["decide"]], "mark": VERDICT_MARKS[one["decide"]]} for one in policy["rules"]]
    denied = next((one for one in rows if one["decide"] == "deny"), None)
    return {"version": policy["version"], "rules": rows, "denied": denied}
