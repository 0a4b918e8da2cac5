"""The words of bulk repairs: states, what became of items, what the list was made by, what the watch saw. Pure."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from dashboard.presenters.repairs import MOVE, kind_word

STATE = {
    "draft": (gettext_lazy("Prepared"), "waiting"),
    "reviewing": (gettext_lazy("In review"), "hold"),
    "running": (gettext_lazy("Under way"), "running"),
    "paused": (gettext_lazy("Stopped"), "hold"),
    "done": (gettext_lazy("Done"), "succeeded"),
    "aborted": (gettext_lazy("Given up"), "killed"),
}
ITEM = {
    "todo": (gettext_lazy("waits"), "waiting"),
    "working": (gettext_lazy("under way"), "running"),
    "done": (gettext_lazy("carried out"), "succeeded"),
    "refused": (gettext_lazy("refused"), "hold"),
    "left": (gettext_lazy("left out"), "skipped"),
    "failed": (gettext_lazy("failed"), "failed"),
}
# What the capacity watch and the carrying out say; their own words are English, the reader's are looked up here.
SENTENCES = (
    gettext_lazy("The queue grew too old: what is ready waits for workers."),
    gettext_lazy("Half of what it did lately failed."),
    gettext_lazy("Nobody has said which reference it has outside."),
    gettext_lazy("A second person has to look at it by itself."),
)


def row(one: dict[str, Any]) -> dict[str, Any]:
    """Return a bulk repair with its words: {…, word, state_word, mark, answered, part, fits}."""
    word, mark = STATE[one["state"]]
    counts = one["counts"]
    waits = counts["todo"] + counts["working"]
    return {
        **one,
        "word": MOVE[one["resolution"]][0],
        "state_word": word,
        "mark": mark,
        "answered": one["total"] - waits,
        "part": 100 * (one["total"] - waits) // max(1, one["total"]),
        "why": _(one["why_state"]) if one["why_state"] else "",
        "why_second": _(one["why_review"]) if one["why_review"] else "",
        "numbers": [(ITEM[name][0], ITEM[name][1], counts[name]) for name in ITEM if counts[name]],
        "fits": fits(one["filter"]),
        "seen": _seen(one["watch"]),
    }


def fits(wanted: dict[str, Any]) -> str:
    """Return what a list was made by, in a line."""
    flags = {"mine": _("Mine"), "unowned": _("Nobody's"), "overdue": _("Overdue")}
    parts = [kind_word(wanted["kind"])] if wanted.get("kind") else []
    parts += [str(wanted[name]) for name in ("tool", "risk") if wanted.get(name)]
    parts += [_("of one cause")] if wanted.get("alike") else []
    parts += [word for name, word in flags.items() if wanted.get(name)]
    return " · ".join(parts) or _("All open")


def _seen(watch: dict[str, Any]) -> str:
    if "queue_age_s" not in watch:
        return ""
    said = _("oldest in the queue %(age)s s (it began with %(began)s s), %(share)d %% failed") % {
        "age": f"{watch['queue_age_s']:g}",
        "began": f"{watch.get('began_with_s', 0):g}",
        "share": round(100 * watch["failed_share"]),
    }
    return f"{said} · {_('slowed down')}" if watch["slower"] > 1 else said


def item(one: dict[str, Any]) -> dict[str, Any]:
    """Return an item with its words: {…, word, mark, text}."""
    word, mark = ITEM[one["state"]]
    detail = one["result"].get("detail")
    return {**one, "word": word, "mark": mark, "text": _(detail) if detail else ""}
