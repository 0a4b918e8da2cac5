"""Markdown as pages show it: a small part of it, and nothing anybody writes is markup of its own."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.presenters.markdown import markdown

pytestmark = pytest.mark.req("C8.4")
TAGS = {"h3", "h4", "h5", "h6", "p", "ul", "ol", "li", "pre", "code", "blockquote", "strong", "em", "a"}


def test_what_it_knows():
    text = (
        "# Lost\n\nAsk *first*, then **call**.\n\n- one\n- two\n  of it\n1. a\n\n> said\n\n```sh\nls <x>\n```\n`a*b*`"
    )
    assert markdown(text) == (
        "<h3>Lost</h3><p>Ask <em>first</em>, then <strong>call</strong>.</p><ul><li>one</li><li>two of it</li></ul>"
        "<ol><li>a</li></ol><blockquote><p>said</p></blockquote><pre><code>ls &lt;x&gt;</code></pre>"
        "<p><code>a*b*</code></p>"
    )


def test_links_lead_to_http_and_to_this_console_alone():
    shown = markdown("[a](https://x.test/*b*?c=1&d=2) [b](/repairs/)")
    assert 'href="https://x.test/*b*?c=1&amp;d=2"' in shown
    assert 'href="/repairs/"' in shown
    for address in ("javascript:alert(1)", "//x.test", "/\\x.test", "data:text/html,x", 'https://x" onclick="y'):
        assert "<a" not in markdown(f"[a]({address})")


@pytest.mark.parametrize(
    "text",
    ["<script>x</script>", "<img src=x onerror=y>", "**<b>**", "`<i>`", "# <u>", "[<s>](/x)", "```\n</code><b>\n```"],
)
def test_html_is_text(text):
    assert set(re.findall(r"<(\w+)", markdown(text))) <= TAGS


@given(st.text(alphabet="<>\"'&*`[]()#-> \n1.ab:/\\", max_size=200))
def test_whatever_is_written_only_known_tags_come_out(text):
    shown = markdown(text)
    tags = re.findall(r"<(/?)(\w+)([^>]*)>", shown)
    assert {name for _end, name, _rest in tags} <= TAGS
    assert shown.count("<") == len(tags)
    for _end, name, rest in tags:
        assert not rest or (name == "a" and re.fullmatch(r' class="link" rel="noopener noreferrer" href="[^"]*"', rest))
