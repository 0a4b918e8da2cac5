"""A small, safe part of Markdown as HTML: headings, paragraphs, lists, quotes, code, emphasis, links.

Everything is escaped before any mark is read, so that nothing anybody writes becomes markup of its own. Links lead to
``https://``, ``http://`` or a place of this console; there are no pictures and no raw HTML. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

_HEADING = re.compile(r"(#{1,4})\s+(.+?)\s*#*\s*$")
_BULLET = re.compile(r"\s{0,3}[-*+]\s+(.+)$")
_NUMBER = re.compile(r"\s{0,3}\d{1,4}[.)]\s+(.+)$")
_QUOTE = re.compile(r"\s{0,3}>\s?(.*)$")
_CODE = re.compile(r"(`[^`]+`)")
# Over escaped text: no quote and no angle bracket is left in it.
_LINK = re.compile(r"\[([^\[\]]{1,500})\]\((https?://[^\s()\\]{1,1000}|/(?![/\\])[^\s()\\]{0,1000})\)")
_STRONG = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")
_EMPHASIS = re.compile(r"(?<![\w*])\*(?=\S)([^*]+?)(?<=\S)\*(?![\w*])")


def markdown(text: str) -> SafeString:
    """Return ``text`` as HTML; headings begin at ``h3``."""
    return mark_safe("".join(_blocks(text.replace("\r\n", "\n").split("\n"))))


def _blocks(lines: list[str]) -> Iterator[str]:
    place = 0
    while place < len(lines):
        line = lines[place]
        if line.lstrip().startswith("```"):
            end = next((i for i in range(place + 1, len(lines)) if lines[i].strip() == "```"), len(lines))
            yield f"<pre><code>{escape(chr(10).join(lines[place + 1 : end]))}</code></pre>"
            place = end + 1
        elif match := _HEADING.match(line):
            level = min(6, len(match[1]) + 2)
            yield f"<h{level}>{_inline(match[2])}</h{level}>"
            place += 1
        elif _BULLET.match(line):
            items, place = _run(lines, place, _BULLET)
            yield f"<ul>{''.join(f'<li>{_inline(one)}</li>' for one in items)}</ul>"
        elif _NUMBER.match(line):
            items, place = _run(lines, place, _NUMBER)
            yield f"<ol>{''.join(f'<li>{_inline(one)}</li>' for one in items)}</ol>"
        elif _QUOTE.match(line):
            items, place = _run(lines, place, _QUOTE)
            yield f"<blockquote><p>{_inline(' '.join(items))}</p></blockquote>"
        elif not line.strip():
            place += 1
        else:
            end = place + 1
            while end < len(lines) and lines[end].strip() and not _begins(lines[end]):
                end += 1
            yield f"<p>{_inline(' '.join(one.strip() for one in lines[place:end]))}</p>"
            place = end


def _begins(line: str) -> bool:
    return line.lstrip().startswith("```") or any(one.match(line) for one in (_HEADING, _BULLET, _NUMBER, _QUOTE))


def _run(lines: list[str], place: int, mark: re.Pattern[str]) -> tuple[list[str], int]:
    """Return the items of a list or quote from ``place`` on, and where it ends; an indented line is its item's."""
    items: list[str] = []
    while place < len(lines):
        line = lines[place]
        if match := mark.match(line):
            items.append(match[1])
        elif items and line.strip() and line.startswith("  ") and not _begins(line.strip()):
            items[-1] += " " + line.strip()
        else:
            break
        place += 1
    return items, place


def _inline(text: str) -> str:
    parts = []
    for part in _CODE.split(text):
        if len(part) > 2 and part.startswith("`") and part.endswith("`"):
            parts.append(f"<code>{escape(part[1:-1])}</code>")
        else:
            parts.append(_linked(str(escape(part))))
    return "".join(parts)


def _linked(safe: str) -> str:
    """Return escaped text with its links and emphasis; an address is taken as it is."""
    parts, place = [], 0
    for match in _LINK.finditer(safe):
        parts.append(_emphasised(safe[place : match.start()]))
        parts.append(f'<a class="link" rel="noopener noreferrer" href="{match[2]}">{_emphasised(match[1])}</a>')
        place = match.end()
    return "".join([*parts, _emphasised(safe[place:])])


def _emphasised(safe: str) -> str:
    return _EMPHASIS.sub(r"<em>\1</em>", _STRONG.sub(r"<strong>\1</strong>", safe))
