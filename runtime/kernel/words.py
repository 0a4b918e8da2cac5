"""How a sentence that the engine wrote down is told to a reader: a seam of its own, beside those of ``seams``."""

from __future__ import annotations

from collections.abc import Callable

# Tells a sentence that the engine wrote down in the active language.
Words = Callable[[str], str]

_words: Words | None = None


def register_words(words: Words) -> None:
    """Say how sentences that the engine wrote down are told to a reader, in the language that is active."""
    global _words
    _words = words


def in_words(text: str) -> str:
    """Return a sentence of the engine in the active language; what nobody knows how to tell stays as it was written."""
    return text if _words is None else _words(text)
