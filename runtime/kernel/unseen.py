"""Characters that no reader sees, and the marks that stand for them where people decide by a text. Pure.

They hide words, turn their order round, or make two texts look alike: controls, format characters (category Cf, the
bidirectional ones among them), line and paragraph separators, and what Unicode lets a display leave out (fillers,
selectors, tags). What is stored, hashed and sent keeps them; only what is shown to people has marks instead.
"""

from __future__ import annotations

import re
import unicodedata

_UNSEEN = (
    "\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\xad\\u034f\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2"
    "\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164"
    "\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\U000110bd\\U000110cd\\U00013430-\\U00013438"
    "\\U0001bca0-\\U0001bca3\\U0001d159\\U0001d173-\\U0001d17a\\U000e0000-\\U000e0fff"
)
# A class of a regular expression: one character that is not seen. Tabs and line ends are.
CLASS = f"[{_UNSEEN}]"
_ONE = re.compile(CLASS)
_BLANK = re.compile(f"[\\s{_UNSEEN}]*")
_JOINER, _STYLES = "\u200d", "\ufe0e\ufe0f"
_TONES = range(0x1F3FB, 0x1F400)
_KEYS = "#*0123456789"


def mark(sign: str) -> str:
    """Return the visible mark of a character: its number, as Unicode writes it."""
    return f"⟨U+{ord(sign):04X}⟩"


def name(sign: str) -> str:
    """Return what a character is called; a control has no name of its own."""
    return unicodedata.name(sign, "control character")


def is_hidden(text: str, at: int) -> bool:
    """Say whether the character at ``at`` gets a mark; of the unseen ones, those of a usual emoji get none.

    A joiner between two pictures and the style after one change how those are drawn and can hide or reorder nothing,
    and most texts that agents write have some; a mark there would teach people to overlook marks.
    """
    sign = text[at]
    if _ONE.match(sign) is None:
        return False
    before, after = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
    if sign == _JOINER:
        joined = _is_picture(before) or before in _STYLES[1:] or (before != "" and ord(before) in _TONES)
        return not (before and joined and _is_picture(after))
    if sign in _STYLES:
        key = before != "" and before in _KEYS and after == "\u20e3"
        return not (key or _is_picture(before))
    return True


def _is_picture(sign: str) -> bool:
    # Signs of ASCII are none: text and markup are full of them.
    drawn = sign > "\x7f" and (unicodedata.category(sign) in ("So", "Sm") or sign in "‼⁉ℹ〰")
    return drawn and _ONE.match(sign) is None


def marked(text: str) -> str:
    """Return ``text`` with a mark in the place of every character that is not seen."""
    return _ONE.sub(lambda found: mark(found[0]) if is_hidden(text, found.start()) else found[0], text)


def escaped(json: str) -> str:
    """Return a JSON text of the same value in which hidden characters are written as ``\\u202e``: for who edits it."""
    return _ONE.sub(lambda found: _escape(found[0]) if is_hidden(json, found.start()) else found[0], json)


def _escape(sign: str) -> str:
    units = sign.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def has_hidden(text: str) -> bool:
    """Say whether ``marked`` would change anything in ``text``."""
    return any(is_hidden(text, found.start()) for found in _ONE.finditer(text))


def is_blank(text: str) -> bool:
    """Say whether a text shows nothing: empty, or spaces and unseen characters only."""
    return _BLANK.fullmatch(text) is not None
