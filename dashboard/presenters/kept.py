"""What a run keeps of its making, in words: budget, permissions, and whether its task's criterion is met. Pure."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from dashboard.presenters import states

_STATES = {"met": "succeeded", "not_met": "failed", "undecided": "waiting"}


def criterion(run: dict[str, Any], success: dict[str, Any] | None) -> dict[str, str] | None:
    """Return {word, state, why, note} of the criterion of a run at its end; None without one, or before.

    ``note`` is a sentence where the execution completed and the criterion is not met: that is no business success.
    """
    if success is None or run["status"] not in states.ENDED_RUNS:
        return None
    words = {
        "met": _("criterion met"),
        "not_met": _("criterion not met"),
        "undecided": _("criterion undecided"),
    }
    status, why = success["status"], _why(success)
    note = ""
    if status != "met" and run["status"] in ("completed", "partially_completed"):
        note = _("The execution completed; that is no business success: %(why)s") % {"why": why}
    return {"word": words[status], "state": _STATES[status], "why": why, "note": note}


def _why(success: dict[str, Any]) -> str:
    outcome = success["outcome"]
    if outcome is None:
        if success["verifier"] is None:
            return _("There is no Outcome yet.")
        return _("There is no Outcome by %(verifier)s yet.") % {"verifier": success["verifier"]}
    named = {"verifier": outcome["verifier"], "kinds": ", ".join(success["missing"])}
    if outcome["verdict"] == "not_achieved":
        return _("%(verifier)s says that it was not achieved.") % named
    if outcome["verdict"] == "undecided":
        return _("%(verifier)s left it undecided.") % named
    if success["missing"]:
        return _("The Outcome by %(verifier)s does not cite: %(kinds)s.") % named
    return _("%(verifier)s says that it was achieved.") % named


def asked(success: dict[str, Any]) -> str:
    """Return a task's criterion as one line; empty without one."""
    parts = [success["criterion"]] if success.get("criterion") else []
    if success.get("verifier"):
        parts.append(_("by %(verifier)s") % {"verifier": success["verifier"]})
    if success.get("evidence"):
        parts.append(_("citing %(kinds)s") % {"kinds": ", ".join(success["evidence"])})
    return " · ".join(parts)


def budget(limits: dict[str, Any], used: dict[str, int] | None = None) -> str:
    """Return a budget as one line, with what is ``used`` of it where that is known; empty without one."""
    names = {"calls": _("calls"), "effects": _("effects")}
    parts = []
    for name, word in names.items():
        if name not in limits:
            continue
        of = {"n": (used or {}).get(name), "most": limits[name], "what": word}
        parts.append((_("%(n)s of %(most)s %(what)s") if used else _("%(most)s %(what)s")) % of)
    if limits.get("limit"):
        parts.append(_("%(limit)s %(currency)s, not metered") % limits)
    return ", ".join(parts)


def permissions(scope: dict[str, Any]) -> str:
    """Return what a task's runs may call as one line; empty where nothing narrows it."""
    parts = []
    if "tools" in scope:
        parts.append(_("tools: %(names)s") % {"names": ", ".join(scope["tools"]) or _("none")})
    if "scopes" in scope:
        parts.append(_("scopes: %(names)s") % {"names": ", ".join(scope["scopes"]) or _("none")})
    return "; ".join(parts)
