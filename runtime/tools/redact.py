"""Messages from outside, made safe to store: secrets taken out, control characters gone, bounded (A2.7, C3.2)."""

from __future__ import annotations

import os
import re
import threading

LIMIT = 500
_HIDDEN = "[hidden]"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]+")
_LOOKS_SECRET = re.compile(
    r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"
    r"|\b(api[_-]?key|access[_-]?key|token|secret|passw(?:or)?d|authorization)\b\"?\s*[=:]\s*\"?(?:(?:bearer|basic)\s+)?[^\s\"',;&]{3,}"
    r"|\b(?:sk|pk|rk|ghp|gho|xox[abp])[-_][A-Za-z0-9_-]{12,}"
    r"|://[^\s/:@]+:[^\s/@]+@"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*",
)
_lock = threading.Lock()
_known: set[str] = set()


def register_secret(value: str) -> None:
    """Remember a secret that was handed to a tool, so that no message repeats it. Short values are not remembered."""
    if len(value) >= 6:
        with _lock:
            _known.add(value)


def environment_secret(name: str) -> str | None:
    """Return a variable of the worker's environment and remember it as a secret."""
    value = os.environ.get(name)
    if value:
        register_secret(value)
    return value


def redact(text: str, limit: int = LIMIT) -> str:
    """Return ``text`` without secrets and control characters, storable as UTF-8, at most ``limit`` characters."""
    text = text[: limit * 8].encode("utf-8", "replace").decode("utf-8")
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    text = _CONTROL.sub(" ", _LOOKS_SECRET.sub(_HIDDEN, text))
    return text if len(text) <= limit else text[: limit - 1] + "…"
