"""What a verb touches before anybody confirms it: the state it leads to, what follows, what stays open. Pure.

Nothing here decides: the action reads the authoritative row and refuses by itself. This is what the dialog says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard.presenters import states
from dashboard.presenters.undoing import all_steps

OPEN_OPERATIONS = frozenset(
    {"intended", "sent", "unknown", "needs_human", "partially_applied", "compensating", "compensation_failed"}
)
STEP_VERBS = ("rerun", "skip", "unskip", "hold", "release", "kill", "mark-successed")
RUN_VERBS = ("pause", "resume", "cancel", "rerun")
PERMISSION = {
    "rerun": "step.rerun", "skip": "step.skip", "unskip": "step.unskip", "hold": "step.hold",
    "release": "step.release", "kill": "step.kill", "mark-successed": "step.force",
}  # fmt: skip
RUN_PERMISSION = {"pause": "run.pause", "resume": "run.resume", "cancel": "run.cancel", "rerun": "run.create"}
# Hard to undo: red words lead there, and the dialog asks to type a part of the id.
GRAVE = frozenset({"kill", "mark-successed", "cancel"})
TYPED = frozenset({"mark-successed"})
UNDOING = frozenset({"compensation", "compensation_check"})
# So many are named; how many more there are is always said.
NAMED = 8
_FROM = {
    "rerun": ("succeeded", "failed", "killed", "mark_successed"),
    "skip": ("waiting", "queued", "hold"),
    "kill": ("queued", "running", "unknown"),
    "mark-successed": ("waiting", "queued", "running", "hold", "failed", "killed", "skipped", "unknown"),
}
_TO = {
    "rerun": "queued",
    "skip": "skipped",
    "unskip": "waiting",
    "hold": "hold",
    "release": "waiting",
    "kill": "killed",
}


@dataclass(slots=True)
class Effects:
    """The dialog's content: what becomes of the subject, what starts or waits, what stays open, and whether at all."""

    before: str
    after: str
    note: str
    follows: list[tuple[str, str, str]] = field(default_factory=list)
    stays: list[dict[str, Any]] = field(default_factory=list)
    refusal: str = ""
    badge: str = ""  # beside ``after``, where the state stays and something else becomes of it


def verb_word(verb: str, of: str = "step") -> str:
    """Return what the button of a verb says."""
    words = {
        "rerun": _("Rerun"), "skip": _("Skip"), "unskip": _("Take the skip back"), "hold": _("Hold"),
        "release": _("Release"), "kill": _("Kill"), "mark-successed": _("Mark as succeeded"), "pause": _("Pause"),
        "resume": _("Resume"), "cancel": _("Cancel run"),
    }  # fmt: skip
    return _("Run again") if of == "run" and verb == "rerun" else words[verb]


def question(verb: str, title: str, of: str = "step") -> str:
    """Return the dialog's title."""
    words = {
        "rerun": _("Run %(title)s again?"), "skip": _("Skip %(title)s?"),
        "unskip": _("Take the skip of %(title)s back?"),
        "hold": _("Hold %(title)s?"), "release": _("Release %(title)s?"), "kill": _("Kill %(title)s?"),
        "mark-successed": _("Mark %(title)s as succeeded by hand?"), "pause": _("Pause %(title)s?"),
        "resume": _("Resume %(title)s?"), "cancel": _("Cancel %(title)s?"),
    }  # fmt: skip
    return words[verb] % {"title": title}


def way_out(verb: str, status: str, of: str = "step") -> str:
    """Return what the dialog's safe button says: what remains."""
    if status == "needs_attention":
        return _("Leave it as it is")
    return _("Keep %(state)s") % {"state": states.word(status, of)}


def possible(verb: str, step: dict[str, Any]) -> str:
    """Return why a verb does not fit the step's present state, an empty text when it does."""
    status, cause = step["status"], step["cause"]
    if step.get("superseded"):
        return _("A newer execution version took its place.")
    if step.get("kind") in UNDOING and verb not in ("hold", "release", "kill"):
        return _("It undoes an effect and is no part of the workflow: act on the operation.")
    if verb == "hold":
        fits = status in ("waiting", "queued", "running") and not step["hold_requested"]
    elif verb == "release":
        released = cause in ("pause", "review", "recovery")
        if status == "hold" and not released:
            return _("It waits for a decision; that is decided, never released.")
        fits = (status == "hold" and released) or step["hold_requested"]
    elif verb == "unskip":
        fits = status == "skipped" and cause == "user"
    else:
        fits = status in _FROM[verb]
    return "" if fits else _("Not from %(state)s.") % {"state": states.word(status)}


def of_step(verb: str, node: dict[str, Any], graph: dict[str, Any], operations: list[dict[str, Any]]) -> Effects:
    """Return what ``verb`` on a node would do; ``operations`` are the run's."""
    step = node["step"]
    after = "mark_successed" if verb == "mark-successed" else _TO[verb]
    badge = ""
    if verb == "hold" and step["status"] in ("queued", "running"):
        after, badge = step["status"], states.hold_word(step["status"])
    stays = [one for one in operations if one["node"] == node["id"] and one["status"] in OPEN_OPERATIONS]
    refusal = possible(verb, step)
    if not refusal and verb == "rerun" and stays:
        refusal = _("Refused while the operation %(key)s is %(state)s.") % {
            "key": stays[0]["business_key"],
            "state": states.word(stays[0]["status"], "operation"),
        }
    return Effects(step["status"], after, _note(verb, step), _follows(verb, node, graph), stays, refusal, badge)


def _note(verb: str, step: dict[str, Any]) -> str:
    if verb == "rerun" and step["status"] == "mark_successed":
        return _(
            "Force is never undone: this version stays marked by hand, and a fresh row follows it up at the next "
            "execution version. It has to succeed by itself."
        )
    return {
        "rerun": _(
            "A fresh row at the next execution version; the old one stays readable. Valid results before it are reused."
        ),
        "skip": _(
            "What follows goes on as if it had succeeded. An operation behind an approval still needs its grant."
        ),
        "unskip": _("It waits for its inputs again. Only while nothing that follows has started."),
        "hold": _("A running step goes on until its next yield; a queued one is parked at once."),
        "release": _("It goes on from where it was held."),
        "kill": _(
            "It gets a new epoch, so whatever its worker still reports is refused. What it sent is still verified."
        ),
        "mark-successed": _(
            "Execution status only. It doesn't say that its effect happened, and it decides no Outcome."
        ),
    }[verb]


def _follows(verb: str, node: dict[str, Any], graph: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return (state, title, what becomes of it) of the steps that follow directly; the last may stand for many."""
    nodes = {one["id"]: one for one in graph["nodes"]}
    into: dict[str, list[str]] = {}  # what each waits for, gathered in one walk however wide the graph is
    for edge in graph["edges"]:
        if edge["taken"] is not False:
            into.setdefault(edge["target"], []).append(edge["source"])
    found = []
    for target in (nodes[name] for name, sources in into.items() if node["id"] in sources):
        status = (target["step"] or {"status": "waiting"})["status"]
        found.append((status, target["title"], _becomes(verb, status, node["id"], target, into, nodes)))
    return _named(found)


def _named(found: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Return the first of these steps, and in one line how many more there are and what becomes of all of them."""
    rest = found[NAMED:]
    if not rest:
        return found
    becomes = {text for _state, _title, text in rest}
    more = ngettext("and %(n)d more step", "and %(n)d more steps", len(rest)) % {"n": len(rest)}
    return [*found[:NAMED], (rest[0][0], more, becomes.pop() if len(becomes) == 1 else "")]


def _becomes(
    verb: str, status: str, source: str, target: dict[str, Any], into: dict[str, list[str]], nodes: dict[str, Any]
) -> str:
    if verb == "rerun":
        by_a_person = status == "mark_successed" or (status == "skipped" and target["step"]["cause"] == "user")
        return _("stays as it is") if by_a_person else _("gets a fresh row and waits again")
    if verb in ("hold", "unskip"):
        return _("waits for it")
    if verb == "kill":
        return _("follows its failure policy")
    if status != "waiting":
        return _("stays as it is")
    others = [
        nodes[one]["title"]
        for one in into[target["id"]]
        if one != source and (nodes[one]["step"] or {"status": "waiting"})["status"] not in states.ENDED_STEPS
    ]
    if others and target["join"]["mode"] != "any":
        return _("still waits for %(names)s") % {"names": ", ".join(others[:3])}
    return _("starts")


def of_run(verb: str, run: dict[str, Any], graph: dict[str, Any], operations: list[dict[str, Any]]) -> Effects:
    """Return what ``verb`` on the whole run would do."""
    status = run["status"]
    after = {"pause": "paused", "resume": "running", "cancel": "cancelling", "rerun": "accepted"}[verb]
    ended = status in states.ENDED_RUNS
    refusal = ""
    if verb == "rerun":
        refusal = "" if ended else _("It is still open; a new run of the task starts once it has ended.")
    elif ended:
        refusal = _("It already ended: %(state)s. That is never left.") % {"state": states.word(status, "run")}
    elif run["cancel_requested"]:
        refusal = _("It is being cancelled already.")
    elif verb == "pause" and run["paused"]:
        refusal = _("It is paused already.")
    elif verb == "resume" and not run["paused"]:
        refusal = _("It is not paused.")
    note = {
        "pause": _("Queued steps are parked, nothing new is claimed. Running steps go on to their safe point."),
        "resume": _("Parked steps may be claimed again. Steps that an operator holds stay held."),
        "cancel": _(
            "What has not started is skipped, what runs is stopped. "
            "What was done outside stays, or is undone where the workflow says so."
        ),
        "rerun": _("A new run of the same task. What already succeeded outside is recognised and not sent again."),
    }[verb]
    live = [one for one in all_steps(graph) if one["step"] and one["step"]["status"] not in states.ENDED_STEPS]
    touched = [one for one in live if one["step"]["status"] != "waiting"] if verb != "rerun" else []
    follows = _named([(one["step"]["status"], one["title"], _run_becomes(verb, one["step"])) for one in touched])
    if verb == "cancel" and (rest := len(live) - len(touched)):
        words = ngettext("%(n)d step that has not started", "%(n)d steps that have not started", rest) % {"n": rest}
        follows.append(("skipped", words, ngettext("is skipped", "are skipped", rest)))
    stays = [one for one in operations if one["status"] in OPEN_OPERATIONS]
    return Effects(status, after, note, follows, stays, refusal)


def _run_becomes(verb: str, step: dict[str, Any]) -> str:
    """Return what becomes of a step that is under way when ``verb`` is done to its run."""
    status = step["status"]
    if step["kind"] in UNDOING:
        return _("goes on undoing")
    if verb == "cancel":
        words = {"running": _("is stopped"), "unknown": _("is ended; its effect is still verified")}
        return words.get(status, _("is skipped"))
    if status == "unknown":
        return _("stays unknown; its effect is still verified")
    if status == "hold":
        return _("stays on hold")
    if verb == "pause":
        return _("goes on to its safe point") if status == "running" else _("is parked")
    return _("goes on") if status == "running" else _("may go on")
