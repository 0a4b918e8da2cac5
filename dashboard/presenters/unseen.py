"""Pages without hidden characters: each is drawn as its number, wherever on a page it stands. Pure.

A whole page is gone through, not one text after the other, so that no template can forget it. What goes back to the
server stays as it is (a form's values, a script), and so does where a link leads.
"""

from __future__ import annotations

import re

from django.utils.html import format_html

from runtime.kernel.unseen import CLASS, is_hidden, mark, marked, name

_ANY = re.compile(CLASS)
# In front of a single character: what is kept as it is, what holds text but no elements, and any other tag.
_PARTS = re.compile(
    rf"<(?P<kept>script|style|textarea)\b.*?</(?P=kept)>|<(?P<plain>title|option|svg)\b.*?</(?P=plain)>|<[^>]*>|{CLASS}",
    re.DOTALL,
)
_TOLD = re.compile(r'\b(?:title|aria-label|placeholder|alt)="[^"]*"')


def visible(html: str) -> str:
    """Return a page's HTML in which every hidden character of its texts is a mark that looks like no text."""
    return _PARTS.sub(_part, html) if _ANY.search(html) else html


def _part(found: re.Match[str]) -> str:
    text = found[0]
    if not text.startswith("<"):
        return _drawn(text) if is_hidden(found.string, found.start()) else text
    if found["kept"] or not _ANY.search(text):
        return text
    if found["plain"]:
        tag, sign, rest = text.partition(">")
        return f"{_tag(tag)}{sign}{marked(rest)}"
    return _tag(text)


def _tag(text: str) -> str:
    return _TOLD.sub(lambda told: marked(told[0]), text)


def _drawn(sign: str) -> str:
    return format_html('<span class="unseen" title="{}">{}</span>', name(sign), mark(sign))
