"""The texts of the console that are to be translated, found without the gettext programs, and a catalog as a dict."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parents[2]
CATALOG = ROOT / "dashboard" / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
_CALLS = {"_": 1, "gettext": 1, "gettext_lazy": 1, "gettext_noop": 1, "ngettext": 2}
# Beside the console: who writes mails and what chats are told.
_PLACES = ("dashboard", "approvals", "repair", "runtime/worker")
_TEXT = r"""(u?'(?:[^'\\]|\\.)*'|u?"(?:[^"\\]|\\.)*")"""
_IN_TEMPLATE = re.compile(rf"\b(ngettext|gettext)\({_TEXT}(?:,\s*{_TEXT})?")


@cache
def messages() -> dict[str, str | None]:
    """Return msgid → plural msgid or None of every text in the code of pages and mails, and in templates."""
    found: dict[str, str | None] = {}
    for place in _PLACES:
        for path in sorted((ROOT / place).rglob("*.py")):
            found.update(_of_code(path))
    for path in sorted((ROOT / "templates").rglob("*.html")):
        found.update(_of_template(path))
    return found


def _of_code(path: Path) -> Iterator[tuple[str, str | None]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            if texts:
                yield texts[0], texts[1] if _CALLS[node.func.id] == 2 else None


def _of_template(path: Path) -> Iterator[tuple[str, str | None]]:
    for kind, one, other in _IN_TEMPLATE.findall(templatize(path.read_text())):
        yield _literal(one), _literal(other) if kind == "ngettext" else None


def _literal(text: str) -> str:
    return str(ast.literal_eval(text))


def catalog(path: Path = CATALOG) -> dict[str, list[str]]:
    """Return msgid → its translations (one, or one per plural form) as a .po file has them."""
    found: dict[str, list[str]] = {}
    key, target = "", ""
    entry: dict[str, str] = {}
    for line in [*path.read_text().splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if "msgid" in entry:
                found[entry.pop("msgid")] = [v for k, v in sorted(entry.items()) if k.startswith("msgstr")]
            entry, key = {}, ""
            continue
        word, _, rest = line.partition(" ")
        if word.startswith('"'):
            entry[key] += ast.literal_eval(line)
        else:
            key, target = word, rest
            entry[key] = ast.literal_eval(target)
    return found
