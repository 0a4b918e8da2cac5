"""Addresses of http tools: a small part of RFC 6570, and the check that the result stays on the allow-list (C3.2)."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, urlsplit

from runtime.kernel.errors import SchemaMismatch
from runtime.tools.contract import ToolContract, target_allowed

_PART = re.compile(r"\{([?&]?)([A-Za-z_][A-Za-z0-9_]*)\}")
MAX_URL = 8_000


def placeholders(url: str) -> frozenset[str]:
    """Return the names of the arguments that an address uses."""
    return frozenset(match.group(2) for match in _PART.finditer(url))


def expand(contract: ToolContract, arguments: dict[str, Any]) -> str:
    """Return the address of a call: ``{name}`` is one path segment, ``{?name}`` and ``{&name}`` query parts.

    A missing or null argument leaves a query part out and is an error in the path. The value is always escaped, so it
    cannot change host or path. Raises SchemaMismatch with the place of the argument.
    """
    url, end = "", 0
    template: str = contract.config["url"]
    for match in _PART.finditer(template):
        url += template[end : match.start()]
        url += _expanded(match.group(1), match.group(2), arguments, "&" if "?" in url else "?")
        end = match.end()
    url += template[end:]
    if len(url) > MAX_URL:
        raise SchemaMismatch(f"The address has {len(url)} characters, the limit is {MAX_URL}.", where="")
    check_target(contract, url)
    return url


def check_target(contract: ToolContract, url: str) -> None:
    """Raise SchemaMismatch (code ``target_refused``) when an address is not among the contract's targets."""
    try:
        parts = urlsplit(url)
        allowed = parts.scheme in ("http", "https") and target_allowed(
            contract.targets, parts.scheme, parts.hostname, parts.port
        )
    except ValueError:
        allowed = False
    if not allowed:
        error = SchemaMismatch("The address is not among the targets of the tool.", where="/targets")
        error.code = "target_refused"
        raise error


def _expanded(operator: str, name: str, arguments: dict[str, Any], mark: str) -> str:
    value = arguments.get(name)
    if value is None:
        if operator:
            return ""
        raise SchemaMismatch(f"The address needs the argument {name!r}.", where=f"/{name}")
    text = _text(name, value)
    if operator:
        return f"{mark}{quote(name, safe='')}={quote(text, safe='')}"
    if text in ("", ".", ".."):
        raise SchemaMismatch(f"The argument {name!r} cannot be one segment of a path.", where=f"/{name}")
    return quote(text, safe="")


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    raise SchemaMismatch(f"The argument {name!r} is not a text or a number, so it fits no address.", where=f"/{name}")
