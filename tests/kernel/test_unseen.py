"""Characters that nobody sees get marks; what a usual emoji is made of gets none; a text of nothing else is empty."""

from __future__ import annotations

import json
import re
import sys
import unicodedata

import pytest

from runtime.actions.base import check_reason
from runtime.kernel.canonical import parse_strict
from runtime.kernel.errors import BadInput
from runtime.kernel.unseen import CLASS, escaped, has_hidden, is_blank, marked

pytestmark = pytest.mark.req("C5.3", "C8.5")


def test_every_control_and_format_character_is_among_them():
    unseen = re.compile(CLASS)
    for number in range(sys.maxunicode + 1):
        sign = chr(number)
        category = unicodedata.category(sign)
        if category in ("Cc", "Cf", "Zl", "Zp"):
            assert bool(unseen.match(sign)) is (sign not in "\t\n\r"), hex(number)
        elif category[0] in "LNPS" and unseen.match(sign):
            assert any(word in unicodedata.name(sign) for word in ("FILLER", "BLANK", "NULL NOTEHEAD")), hex(number)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pay 100\u202e001 to Ada", "pay 100⟨U+202E⟩001 to Ada"),
        ("a\u2066b\u2069", "a⟨U+2066⟩b⟨U+2069⟩"),
        ("ad\u200bmin", "ad⟨U+200B⟩min"),
        ("ad\u200dmin", "ad⟨U+200D⟩min"),
        ("ad\u00admin\ufeff", "ad⟨U+00AD⟩min⟨U+FEFF⟩"),
        ("x\u2028y\u0085z", "x⟨U+2028⟩y⟨U+0085⟩z"),
        ("ok\U000e0041\U000e0042", "ok⟨U+E0041⟩⟨U+E0042⟩"),
        ("a\ufe0fb", "a⟨U+FE0F⟩b"),
        ("\u3164", "⟨U+3164⟩"),
        ("bell\x07", "bell⟨U+0007⟩"),
        ("lines\r\nand\ttabs, Straße 12 €, 退款, قيمة", "lines\r\nand\ttabs, Straße 12 €, 退款, قيمة"),
    ],
    ids=ascii,
)
def test_what_is_marked(text, shown):
    assert marked(text) == shown
    assert has_hidden(text) is (text != shown)


EMOJI = ["⚠️ wait", "👩🏽\u200d💻", "👨\u200d👩\u200d👧", "1\ufe0f\u20e3", "❤\ufe0f\u200d🔥", "ℹ️", "↔️"]


@pytest.mark.parametrize("text", EMOJI)
def test_a_usual_emoji_stays(text):
    assert marked(text) == text


def test_a_joiner_hides_nowhere_else():
    assert marked("👨\u200dx") == "👨⟨U+200D⟩x"
    assert marked("\u200d👨") == "⟨U+200D⟩👨"
    assert marked("👨\u200d\u200d👧").count("⟨U+200D⟩") == 2
    assert marked("\U0001f3f4\U000e0067\U000e007f").count("⟨") == 2, "tags spell letters"


def test_json_is_edited_with_the_numbers_and_stays_what_it_is():
    value = {"to": "Ada\u202e", "n\u200b": ["\U000e0041", "⚠️"]}
    text = escaped(json.dumps(value, ensure_ascii=False))
    assert "\\u202e" in text
    assert "⚠️" in text
    assert marked(text) == text
    assert parse_strict(text) == value


BLANK = ["", " ", "\u200b", "\u2060\u00a0\u3000", "\u202e \ufeff", "\u2800\u3164", "\u2028\n", "\ufe0f", "\u00ad\u200d"]


@pytest.mark.parametrize("text", BLANK, ids=ascii)
def test_a_reason_that_shows_nothing_is_none(text):
    assert is_blank(text)
    with pytest.raises(BadInput) as refused:
        check_reason(text, required=True)
    assert refused.value.where == "/reason"
    assert check_reason(text) == ""


def test_a_reason_with_anything_in_it_is_one():
    assert check_reason("\u200b 👍 ") == "\u200b 👍"
    with pytest.raises(BadInput):
        check_reason("\x00")


def test_signs_of_ascii_hide_nothing_beside_them():
    for text in ("a=\u200d=b", "1+\ufe0e1", "<b>\u200d</b>"):
        assert "\u27e8U+" in marked(text), text
