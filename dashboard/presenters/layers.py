"""The five layers of "done", kept apart: execution, health, candidate evidence, Evidence, Outcome (A2). Pure."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard.presenters import states, terms

_DOUBTFUL = ("intended", "sent", "unknown", "needs_human", "compensation_failed")
VERDICTS = {"achieved": "succeeded", "not_achieved": "failed", "undecided": "waiting"}


def layers(run: dict[str, Any], graph: dict[str, Any], outcome: dict[str, Any] | None) -> list[dict[str, str]]:
    """Return the five cells {label, value, state}; ``state`` colours the words, empty for ink."""
    found = [
        {"label": _("Execution"), **_execution(run, graph)},
        {"label": _("Health"), **_health(run, graph)},
        {"label": _("Candidate evidence"), **_candidates(graph, outcome)},
    ]
    if outcome is None:
        return found
    cited = {one for row in outcome["history"] for one in row["evidence"]}
    total = len(outcome["evidence"])
    text = _("%(n)d of more than %(all)d cited") if outcome["evidence_more"] else _("%(n)d of %(all)d cited")
    value = text % {"n": len(cited), "all": total} if total else _("none yet")
    found.append({"label": _("Evidence"), "value": value, "state": ""})
    verdict = outcome["outcome"]
    if verdict is None:
        found.append({"label": _("Outcome"), "value": _("Not decided"), "state": "none"})
    else:
        value = f"{terms.term(verdict['verdict'], 'verdict')}, {verdict['verifier']}"
        found.append({"label": _("Outcome"), "value": value, "state": VERDICTS[verdict["verdict"]]})
    return found


def cancelled_note(run: dict[str, Any], operations: list[dict[str, Any]]) -> str:
    """Return what a cancel left outside, in one sentence; empty when it left nothing or there was none (C5.5)."""
    if not run["cancel_requested"]:
        return ""
    effects = [one for one in operations if not (one["node"] or "").startswith("undo")]
    keys: dict[str, list[str]] = {}
    for one in effects:
        keys.setdefault(one["status"], []).append(one["business_key"])
    doubtful = [key for status in _DOUBTFUL for key in keys.get(status, ())]
    happened = [key for status in ("succeeded", "partially_applied") for key in keys.get(status, ())]
    notes = []
    if doubtful:
        notes.append(
            _("Execution cancelled, external action to be verified: %(keys)s.") % {"keys": ", ".join(doubtful[:5])}
        )
    if happened:
        notes.append(_("Execution cancelled, external action happened: %(keys)s.") % {"keys": ", ".join(happened[:5])})
    if undone := keys.get("compensated"):
        notes.append(_("Undone: %(keys)s.") % {"keys": ", ".join(undone[:5])})
    return " ".join(notes)


def _execution(run: dict[str, Any], graph: dict[str, Any]) -> dict[str, str]:
    rows = [node["step"] for node in graph["nodes"] if node["step"]]
    for state in ("unknown", "failed", "hold", "running"):
        n = sum(row["status"] == state for row in rows)
        if n:
            text = ngettext("%(n)d step %(word)s", "%(n)d steps %(word)s", n)
            return {"value": text % {"n": n, "word": states.word(state)}, "state": state}
    done = sum(row["status"] in states.ENDED_STEPS for row in rows)
    return {"value": _("%(n)d of %(all)d steps ended") % {"n": done, "all": len(rows)}, "state": ""}


def _health(run: dict[str, Any], graph: dict[str, Any]) -> dict[str, str]:
    """Say what the machinery does for this run; that is no verdict on its result."""
    if run["status"] in states.ENDED_RUNS:
        return {"value": _("Nothing runs"), "state": "none"}
    lost = [n for n in graph["nodes"] if n["step"] and n["step"]["status"] == "unknown"]
    if lost and run["status"] == "needs_attention":
        return {"value": _("Waits for a person"), "state": "unknown"}
    if lost:
        return {"value": _("Being reconciled"), "state": "unknown"}
    if run["paused"]:
        return {"value": _("Paused by an operator"), "state": "hold"}
    live = run["counts"]["live"]
    if live:
        return {"value": ngettext("%(n)d step live", "%(n)d steps live", live) % {"n": live}, "state": "fine"}
    return {"value": _("Waits, holds no worker"), "state": ""}


def _candidates(graph: dict[str, Any], outcome: dict[str, Any] | None) -> dict[str, str]:
    done = sum(bool(n["step"]) and n["step"]["status"] == "succeeded" for n in graph["nodes"])
    text = ngettext("%(n)d result", "%(n)d results", done) % {"n": done}
    return {"value": text if done else _("none yet"), "state": "" if done else "none"}
