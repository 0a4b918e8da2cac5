"""The catalog is whole and compiled, states have words and marks, files stay small, nothing comes from elsewhere."""

from __future__ import annotations

import gettext
import re
from pathlib import Path

import pytest
from django.utils import translation

from approvals.law import STATES
from dashboard.presenters import states
from runtime.models.effects import OPERATION_STATUSES
from runtime.models.work import RUN_STATUSES, STEP_STATUSES
from tests.support.messages import CATALOG, catalog, messages

ROOT = Path(__file__).resolve().parents[2]
SHEETS = sorted((ROOT / "static" / "css").rglob("*.css"))
SCRIPTS = sorted((ROOT / "static" / "js").rglob("*.js"))
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))


def test_every_text_is_translated_and_none_is_left_over():
    known, wanted = catalog(), messages()
    known.pop("")
    assert not sorted(set(wanted) - set(known)), "write these into the catalog, then run msgfmt"
    assert not sorted(set(known) - set(wanted)), "take these out of the catalog"
    assert not [one for one, texts in known.items() if not all(texts)]


def test_placeholders_survive_translation():
    place = re.compile(r"%\(\w+\)0?\d?[sd]")
    for one, texts in catalog().items():
        wanted = set(place.findall(messages().get(one) or one))
        assert set(place.findall(texts[0])) == wanted or not one, one


def test_the_compiled_catalog_is_that_of_the_text():
    with open(CATALOG.with_suffix(".mo"), "rb") as file:
        compiled = gettext.GNUTranslations(file)
    for one, texts in catalog().items():
        if one:
            plural = messages().get(one)
            found = compiled.ngettext(one, plural, 2) if plural else compiled.gettext(one)
            assert found == texts[0], one


def test_every_state_has_a_word_and_a_mark():
    sprite = (ROOT / "templates" / "components" / "sprite.html").read_text()
    tokens = (ROOT / "static" / "css" / "tokens.css").read_text()
    assert set(states.STEP) == set(STEP_STATUSES)
    assert set(states.RUN) == set(RUN_STATUSES) == set(states.RUN_ORDER)
    assert set(states.OPERATION) == set(OPERATION_STATUSES)
    assert set(STATES) <= set(states.APPROVAL)
    for name in {*states.STEP, *states.RUN, *states.OPERATION, *states.APPROVAL} - {"escalated"}:
        assert f'id="m-{states.mark_name(name)}"' in sprite, name
        assert re.search(rf"\.st-{name}\b", tokens), name


@pytest.mark.parametrize("path", [*SHEETS, *SCRIPTS, *TEMPLATES], ids=lambda path: path.name)
def test_no_file_is_long_or_fetches_from_elsewhere(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    assert not re.search(r"(?:src|href)=[\"']https?:|url\([\"']?https?:|import\([\"']https?:", text)


@pytest.mark.parametrize("path", [one for one in SHEETS if one.name != "tokens.css"], ids=lambda path: path.name)
def test_colours_are_tokens(path):
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    assert not re.findall(r"#[0-9a-fA-F]{3,8}\b(?![^{]*\{)|\brgb\(|\bhsl\(", text)


# -- contrast, computed (WCAG 2.2)


def palettes() -> dict[str, dict[str, str]]:
    text = (ROOT / "static" / "css" / "tokens.css").read_text()
    found: dict[str, dict[str, str]] = {"light": {}, "dark": {}}
    for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w+), (#\w+)\)", text):
        found["light"][name], found["dark"][name] = light, dark
    return found


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


FAMILIES = ("grey", "blue", "amber", "green", "red", "maroon", "violet")
GROUNDS = ("bg", "surface", "sunken", "raised", "hover", "selected")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_and_marks_can_be_read_on_every_ground(scheme):
    colour = palettes()[scheme]
    for ground in GROUNDS:
        for ink in ("ink", "ink-2", "ink-3"):
            assert contrast(colour[ink], colour[ground]) >= 4.5, (ink, ground)
    for family in FAMILIES:
        for ground in (*GROUNDS, f"{family}-tint"):
            assert contrast(colour[f"{family}-text"], colour[ground]) >= 4.5, (family, ground)
        for ground in ("bg", "surface", "raised", f"{family}-tint"):
            assert contrast(colour[f"{family}-solid"], colour[ground]) >= 3, (family, ground)
        assert contrast(colour["on-solid"], colour[f"{family}-solid"]) >= 3
    assert contrast(colour["on-ink"], colour["ink"]) >= 4.5
    for ground in ("bg", "surface", "raised"):
        assert contrast(colour["focus"], colour[ground]) >= 3
        assert contrast(colour["line-ctl"], colour[ground]) >= 3


def test_the_engines_reasons_are_told_and_peoples_are_left():
    from dashboard.presenters.told import told

    assert (
        told("Operation refund:A-1 on shop.refund@1: receipt unknown.")
        == "No receipt for refund:A-1 from shop.refund@1."
    )
    with translation.override("zh-hans"):
        assert told("A step ended badly and nothing handled it.") == "有步骤异常结束且无人处理。"
        assert told("The customer keeps the goods.") == "The customer keeps the goods."
    assert told(None) == ""
