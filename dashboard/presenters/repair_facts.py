"""What is certain and what is not about a repair case, in words. Pure."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from dashboard.presenters import states
from dashboard.presenters.terms import term
from dashboard.presenters.told import finding_word, told

ANSWER = {
    "done": gettext_lazy("It is there"),
    "absent": gettext_lazy("It is not there"),
    "unknown": gettext_lazy("It cannot be told"),
    "unreachable": gettext_lazy("It could not be asked"),
    "contradicts": gettext_lazy("Something else is there"),
}
FACT = {
    "operation_status": gettext_lazy("What the ledger believes"),
    "business_key": gettext_lazy("Business key"),
    "sends": gettext_lazy("Times sent"),
    "error": gettext_lazy("Error"),
    "external_ref": gettext_lazy("Reference outside"),
    "external": gettext_lazy("Seen outside"),
    "owner_epoch": gettext_lazy("Older epochs can't write any more"),
    "effects_applied": gettext_lazy("Effects that were applied"),
    "applied": gettext_lazy("Was it applied?"),
    "topic": gettext_lazy("Topic"),
    "attempts": gettext_lazy("Attempts"),
    "workers_lost": gettext_lazy("Workers lost with it"),
    "run_status": gettext_lazy("The run is"),
    "moved_at": gettext_lazy("Moved last"),
    "steps_left": gettext_lazy("Steps that are left"),
    "invariant": gettext_lazy("Invariant"),
    "breaches": gettext_lazy("Breaches"),
    "found": gettext_lazy("What was found"),
    "replayed": gettext_lazy("Messages sent again"),
    "discarded": gettext_lazy("Messages discarded"),
    "left_applied": gettext_lazy("Effects that nothing undoes"),
    "finding": gettext_lazy("The query found"),
    "asked": gettext_lazy("Tool that was asked"),
    "at": gettext_lazy("Asked at"),
    "message": gettext_lazy("It said"),
    "code": gettext_lazy("Code"),
    "answer_sha256": gettext_lazy("Hash of the answer"),
    "proves_absence": gettext_lazy("Proves that it is absent"),
    "callback": gettext_lazy("The tool's own report"),
}
# Facts that are a state, and whose.
OF = {"run_status": "run", "operation_status": "operation"}


def facts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return facts as {word, text, source, at}."""
    return [
        {
            "word": str(FACT.get(one["name"], one["name"].replace("_", " "))),
            "text": _fact(one["name"], one["value"]),
            "source": one["source"],
            "at": one["observed_at"],
        }
        for one in rows
    ]


def confirmed(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what is certain as :func:`facts`; ``then`` is of what the ledger believed then and believes no more."""
    known = (case["operation"] or {}).get("status")
    return [
        {**shown, "then": one["name"] == "operation_status" and known is not None and one["value"] != known}
        for one, shown in zip(case["confirmed"], facts(case["confirmed"]), strict=True)
    ]


def _fact(name: str, value: Any) -> str:
    if name in OF:
        return states.word(value, OF[name])
    return finding_word(value) if name == "finding" else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, dict) and "answer" in value:
        parts = [str(ANSWER[value["answer"]]), value.get("evidence", ""), value.get("external_ref", "")]
        return " · ".join([*(one for one in parts if one), value.get("seen_at", "")]).strip(" ·")
    if isinstance(value, dict) and "class" in value:
        said = told(value.get("message"))
        return f"{term(value['class'], 'error')}: {said}" if said else term(value["class"], "error")
    if isinstance(value, dict):
        return " · ".join(_text(one) for one in value.values() if isinstance(one, str | int | float))
    if isinstance(value, list):
        return ", ".join(_text(one) for one in value)
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return told(value) if isinstance(value, str) else str(value)
