"""What the engine wrote down as a reason, in the reader's language; what people wrote is left as it is."""

from __future__ import annotations

import re
from functools import lru_cache

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy
from django.utils.translation import gettext_lazy as _

from dashboard.presenters import states
from dashboard.presenters.told_texts import TEXTS

# The engine's sentences → how they are told, where that is not as they are written (``told_texts.py``). A sentence that
# is listed in neither is shown as it was written.
_SENTENCES: tuple[tuple[re.Pattern[str], Promise | str], ...] = tuple(
    (re.compile(english), sentence)
    for english, sentence in (
        (r"A step ended badly and nothing handled it\.", _("A step ended badly and nothing handled it.")),
        (r"deadline", _("deadline passed")),
        (r"An external effect is not settled\.", _("An effect outside is not settled.")),
        (
            r"The deadline passed while an external effect is not settled\.",
            _("The deadline passed while an effect outside is not settled."),
        ),
        (r"Operation (?P<key>.+) on (?P<tool>\S+): receipt unknown\.", _("No receipt for %(key)s from %(tool)s.")),
        (r"Operation (?P<key>.+): receipt unknown on (?P<tool>\S+)\.", _("No receipt for %(key)s from %(tool)s.")),
        (
            r"Operation (?P<key>.+): step (?P<step>\S+) was taken over while its call was under way\.",
            _("%(step)s was taken over while the call of %(key)s was under way."),
        ),
        (r"Operation (?P<key>.+) was applied in part\.", _("%(key)s was applied in part.")),
        (r"Sent once; no definite answer was recorded\.", _("Sent once; no definite answer was recorded.")),
        (
            r"Sent (?P<n>\d+) times; no definite answer was recorded\.",
            _("Sent %(n)s times; no definite answer was recorded."),
        ),
        (
            r"Operation (?P<key>.+): its tool no longer keeps the key, so not found says nothing\.",
            _("The tool no longer keeps the key %(key)s, so that “not found” says nothing."),
        ),
        (
            r"Operation (?P<key>.+): the tool knows nothing of it, and its contract allows no further send\.",
            _("The tool knows nothing of %(key)s, and its contract allows no further send."),
        ),
        (
            r"Operation (?P<key>.+): the tool knows nothing of it, and its tool cannot tell a second send\.",
            _("The tool knows nothing of %(key)s, and cannot tell a second send from the first."),
        ),
        (r"Operation (?P<key>.+) is to be undone by hand: (?P<why>.+)", _("%(key)s is to be undone by hand: %(why)s")),
        (r"Step (?P<step>\S+) cannot go on: (?P<why>.+)", _("%(step)s cannot go on: %(why)s")),
        (r"(?P<who>\S+) asked for it and may not any more\.", _("%(who)s asked for it and may not any more.")),
        (r"Rule '(?P<rule>.+)' asks for people to undo this\.", _("Rule “%(rule)s” asks for people to undo this.")),
        (
            r"Rule '(?P<rule>.+)' asks for people to undo this: (?P<n>\d+) of the role that decides, (?P<m>\d+) .+\.",
            _("Rule “%(rule)s” asks for people to undo this: %(n)s of those who decide; %(m)s of them ordered it."),
        ),
        (
            r"Rule '(?P<rule>.+)' asks for people to undo this: (?P<n>\d+) of the role (?P<role>\S+), (?P<m>\d+) .+\.",
            _("Rule “%(rule)s” asks for people to undo this: %(n)s of the role %(role)s; %(m)s of them ordered it."),
        ),
        (
            r"Rule '(?P<rule>.+)' asks for people, and their order was not begun in time\.",
            _("Rule “%(rule)s” asks for people, and their order was not begun in time."),
        ),
        (
            r"Operation (?P<key>.+): its worker was lost after sending\.",
            _("The worker was lost after sending %(key)s."),
        ),
        (
            r"The step was ended while its operation was not settled: (?P<key>.+)\.",
            _("The step was ended while %(key)s was not settled."),
        ),
        (
            r"A message of (?P<topic>\S+) is in quarantine: (?P<why>.+)",
            _("A message of %(topic)s is in quarantine: %(why)s"),
        ),
        # What alerts say of each thing they are about.
        (r"process (?P<pid>\d+): lease_lost", _("process %(pid)s lost its lease")),
        (r"process (?P<pid>\d+): process_died", _("process %(pid)s died")),
        (r"process (?P<pid>\d+): no_progress", _("process %(pid)s makes no progress")),
        (r"(?P<kind>\w+): (?P<n>\d+) failures", _("%(kind)s: %(n)s failures")),
        (r"(?P<topic>\S+): not tried yet", _("%(topic)s: not tried yet")),
        (r"steps of this tenant that wait: (?P<n>\d+)", _("steps of this tenant that wait: %(n)s")),
        (r"Step (?P<step>\S+) takes its workers down\.", _("%(step)s takes its workers down.")),
        (r"Nothing moves the run, and nobody looks after it\.", _("Nothing moves the run, and nobody looks after it.")),
        (
            r"Nothing can move this run any more: its steps do not fit its workflow\.",
            _("Nothing can move this run any more: its steps do not fit its workflow."),
        ),
        (r"The run moves again, or has ended\.", _("The run moves again, or has ended.")),
        (r"Invariant (?P<n>\d+) does not hold: (?P<name>.+)\.", _("Invariant %(n)s does not hold: %(name)s.")),
        (
            r"The tenant's policy asks for a second person on every forced success\.",
            _("The tenant's policy asks for a second person on every forced success."),
        ),
        (
            r"The tenant's policy asks for a second person where an effect outside is open\.",
            _("The tenant's policy asks for a second person where an effect outside is open."),
        ),
    )
)

# The titles of alerts (runtime/worker/maintenance/alerts.py), each with what it is about and how often.
_ALERTS: tuple[tuple[re.Pattern[str], Promise | str], ...] = tuple(
    (re.compile(rf"{english} \((?P<n>\d+)\)"), sentence)
    for english, sentence in (
        (r"Effects of unknown outcome: (?P<what>.+?)", _("Effects of unknown outcome: %(what)s (%(n)s)")),
        (r"Runs that need attention: (?P<what>.+?)", _("Runs that need attention: %(what)s (%(n)s)")),
        (
            r"Failed runs: (?P<what>.+?), step (?P<step>\S+), (?P<why>\w+)",
            _("Failed runs: %(what)s, step %(step)s, %(why)s (%(n)s)"),
        ),
        (r"Failed runs: (?P<what>.+?), (?P<why>\w+)", _("Failed runs: %(what)s, %(why)s (%(n)s)")),
        (r"Steps that are ready and are not started", _("Steps that are ready and are not started (%(n)s)")),
        (
            r"Steps past the start their class aims at: (?P<what>.+?)",
            _("Steps past the start their class aims at: %(what)s (%(n)s)"),
        ),
        (r"Messages that do not leave", _("Messages that do not leave (%(n)s)")),
        (r"Write transactions that stay open", _("Write transactions that stay open (%(n)s)")),
        (r"Messages in quarantine: (?P<what>.+?)", _("Messages in quarantine: %(what)s (%(n)s)")),
        (r"Workers alive without progress: (?P<what>.+?)", _("Workers alive without progress: %(what)s (%(n)s)")),
        (r"Workers lost and not replaced: (?P<what>.+?)", _("Workers lost and not replaced: %(what)s (%(n)s)")),
        (
            r"Calls held back, the tool keeps failing: (?P<what>.+?)",
            _("Calls held back, the tool keeps failing: %(what)s (%(n)s)"),
        ),
        (r"Events that are not handled: (?P<what>.+?)", _("Events that are not handled: %(what)s (%(n)s)")),
        (
            r"So much waits that new work is refused, low priority first",
            _("So much waits that new work is refused, low priority first (%(n)s)"),
        ),
        (
            r"More work lost than the workflow allows: (?P<what>.+?)",
            _("More work lost than the workflow allows: %(what)s (%(n)s)"),
        ),
        (
            r"Runs that had come to a standstill and were mended",
            _("Runs that had come to a standstill and were mended (%(n)s)"),
        ),
    )
)


# What stands in a sentence's places; any text where nothing is said of it.
_PLACES = {"n": r"\d+", "m": r"\d+", "tool": r"\S+", "step": r"\S+", "who": r"\S+", "finding": r"\w+", "rest": r".*"}
_FINDING: dict[str, Promise | str] = {
    "applied": _("applied"),
    "partial": _("applied in part"),
    "conflicts": _("another effect"),
    "not_found": _("not found"),
    "in_progress": _("the tool still works on it"),
    "unreachable": _("the tool cannot be reached"),
    "held": _("the question is kept back"),
}


def _as_written(text: str) -> tuple[re.Pattern[str], Promise | str]:
    """Return the pattern of a sentence that is told as the engine writes it, and the sentence."""
    parts = re.split(r"%\((\w+)\)s", text)
    places = [f"(?P<{name}>{_PLACES.get(name, '.+')})" for name in parts[1::2]]
    said = [re.escape(part) for part in parts[::2]]
    pattern = said[0] + "".join(place + part for place, part in zip(places, said[1:], strict=True))
    return re.compile(pattern, re.DOTALL), gettext_lazy(text)


_ALL = (*_SENTENCES, *_ALERTS, *map(_as_written, TEXTS))


@lru_cache(maxsize=4096)
def _found(text: str) -> tuple[Promise | str, dict[str, str]] | None:
    """Return the sentence that a text is, with what stands in its places; the lists tell the same ones again."""
    for pattern, sentence in _ALL:
        if found := pattern.fullmatch(text):
            return sentence, {name: value or "" for name, value in found.groupdict().items()}
    return None


def _place(name: str, value: str) -> str:
    if name == "why":
        return str(states.ERROR[value]) if value in states.ERROR else told(value)
    if name in ("state", "step_state"):
        return states.word(value, "operation" if name == "state" else "step")
    return finding_word(value) if name == "finding" else value


def finding_word(kind: str) -> str:
    """Return what a question about an effect found."""
    return str(_FINDING.get(kind, kind.replace("_", " ")))


def told(text: str | None) -> str:
    """Return a reason, a message or an alert's title as the reader is told it; an empty text for none.

    What no sentence of the engine fits (a person's words, a tool's) is returned as it is.
    """
    if not text or (found := _found(text)) is None:
        return text or ""
    sentence, places = found
    if not places:
        return str(sentence)
    return (str(sentence) % {name: _place(name, value) for name, value in places.items()}).strip()
