"""Which language people chose, and mails in it: one for those who read the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from django.conf import settings
from django.utils import translation

from runtime.kernel.messages import Mail
from runtime.store.tx import Tx, plain_tx


def known(language: str | None) -> bool:
    """Return whether the console speaks a language."""
    return language in dict(settings.LANGUAGES)


def language_of(user_id: int) -> str | None:
    """Return the language that a person chose; None for none, or for one that is spoken no more."""
    with plain_tx() as tx:
        row = tx.one("language_of", (user_id,))
    return str(row[0]) if row is not None and known(row[0]) else None


def in_their_languages(tx: Tx, to: Iterable[str], write: Callable[[list[str]], Mail]) -> list[Mail]:
    """Write a mail to some addresses once for each language that is chosen there, in the tenant's transaction.

    ``write`` gets the addresses of one language, and its texts are translated into it. Who chose none, or is no member,
    is written to in LANGUAGE_CODE.
    """
    every = list(dict.fromkeys(to))
    chosen = dict(tx.rows("languages_of_addresses", (every,))) if every else {}
    groups: dict[str, list[str]] = {}
    for address in every:
        language = str(chosen.get(address, ""))
        groups.setdefault(language if known(language) else settings.LANGUAGE_CODE, []).append(address)
    found = []
    for language, addresses in groups.items():
        with translation.override(language):
            found.append(replace(write(addresses), language=language))
    return found
