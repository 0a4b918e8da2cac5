"""Whom a workflow or a policy would ask in vain (``approvals.askable``), in the reader's language. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

_AN_ADMIN, _NOBODY = r": a request would wait for an admin\.", r": a request would wait for nobody\."
_VERB = r"`(?P<verb>[\w.]+)`"


def _both(english: str, sentence: Promise) -> list[tuple[re.Pattern[str], tuple[Promise | str, ...]]]:
    return [
        (re.compile(english + _AN_ADMIN), (sentence, gettext_lazy("A request would wait for an admin."))),
        (re.compile(english + _NOBODY), (sentence, gettext_lazy("A request would wait for nobody."))),
    ]


_DETAILS: tuple[tuple[re.Pattern[str], tuple[Promise | str, ...]], ...] = (
    *_both(r"There is no role ['\"](?P<name>.+)['\"]", gettext_lazy("There is no role “%(name)s”.")),
    *_both(rf"The role (?P<name>\S+) does not carry {_VERB}", gettext_lazy("The role %(name)s lacks %(verb)s.")),
    *_both(r"Nobody has the role (?P<name>\S+) now", gettext_lazy("Nobody has the role %(name)s now.")),
    *_both(r"There is no group ['\"](?P<name>.+)['\"] now", gettext_lazy("There is no group “%(name)s” now.")),
    *_both(
        rf"Nobody in the group '(?P<name>.+)' has {_VERB} now",
        gettext_lazy("Nobody in the group “%(name)s” has %(verb)s now."),
    ),
    *_both(
        rf"Nobody with {_VERB} is the manager of ['\"](?P<name>.+)['\"] now",
        gettext_lazy("Nobody with %(verb)s is the manager of %(name)s now."),
    ),
    *_both(rf"Nobody has {_VERB} now", gettext_lazy("Nobody has %(verb)s now.")),
    (
        re.compile(rf"Nobody with {_VERB} is anybody's manager now: this rung would be passed over\."),
        (gettext_lazy("Nobody with %(verb)s is anybody's manager now. This rung would be passed over."),),
    ),
    (
        re.compile(r"(?P<n>\d+) people have to approve, and (?P<m>\d+) could now\."),
        (gettext_lazy("%(n)s people have to approve, and %(m)s could now."),),
    ),
)
# What mends it is written as one sentence or two.
_MENDS: tuple[tuple[re.Pattern[str], Promise], ...] = tuple(
    (re.compile(english), sentence)
    for english, sentence in (
        (r"Use one of: (?P<roles>[^.]+)\.", gettext_lazy("Use one of: %(roles)s.")),
        (r"Did you mean `(?P<name>[^`]+)`\?", gettext_lazy("Did you mean %(name)s?")),
        (r"Only a rung of `escalation` asks it\.", gettext_lazy("Only a rung of an escalation asks it.")),
        (r"Give somebody the role\.", gettext_lazy("Give somebody the role.")),
        (r"Make the group, or name another one\.", gettext_lazy("Make the group, or name another one.")),
        (rf"Put somebody into it who has {_VERB}\.", gettext_lazy("Put somebody into it who has %(verb)s.")),
        (
            r"Say who is whose manager, or ask a role or a group\.",
            gettext_lazy("Say who is whose manager, or ask a role or a group."),
        ),
        (r"Make a member an admin\.", gettext_lazy("Make a member an admin.")),
        (
            rf"Ask for fewer people, or give {_VERB} to more\.",
            gettext_lazy("Ask for fewer people, or give %(verb)s to more."),
        ),
    )
)
_SENTENCE = re.compile(r".+?[.?](?= [A-Z]|$)")


def rows(found: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Return what an answer warns of, place by place: {places: [{name, lines: [{where, detail, mend}]}], more}.

    ``names`` are those of what its pointers count: of a workflow's steps, of a policy's rules.
    """
    places: dict[int, list[dict[str, str]]] = {}
    for one in found["warnings"]:
        line = {"where": one["where"], "detail": detail(one["detail"]), "mend": remediation(one["remediation"])}
        places.setdefault(int(one["where"].split("/")[2]), []).append(line)
    told = [{"name": names[number], "lines": lines} for number, lines in places.items()]
    return {"places": told, "more": found.get("warnings_left_out", 0)}


def detail(text: str) -> str:
    """Return what is wrong; a sentence that is not known is shown as it was written."""
    for pattern, sentences in _DETAILS:
        if found := pattern.fullmatch(text):
            return _joined(str(one) % found.groupdict() for one in sentences)
    return text


def remediation(text: str) -> str:
    """Return what mends it, sentence by sentence."""
    return _joined(_mend(one.strip()) for one in _SENTENCE.findall(text))


def _joined(sentences: Iterable[str]) -> str:
    # Chinese has no space between sentences.
    return " ".join(sentences).replace("。 ", "。")


def _mend(sentence: str) -> str:
    for pattern, told in _MENDS:
        if found := pattern.fullmatch(sentence):
            return str(told) % found.groupdict()
    return sentence
