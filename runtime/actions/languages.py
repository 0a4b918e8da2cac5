"""The language a person chose for themselves; it holds in every tenant of theirs."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from runtime.kernel.errors import BadInput, NotAuthenticated
from runtime.store.languages import known
from runtime.store.tx import plain_tx


def choose_language(*, user: Any, language: str) -> dict[str, Any]:
    """Keep the language that a signed-in ``user`` chose: mails to them are written in it from then on.

    Returns {language}. Raises BadInput for one that the console does not speak, NotAuthenticated for nobody.
    """
    if not getattr(user, "is_authenticated", False):
        raise NotAuthenticated()
    if not known(language):
        mend = f"Choose one of: {', '.join(code for code, _name in settings.LANGUAGES)}."
        raise BadInput(f"The console does not speak {language[:20]!r}.", where="/language", remediation=mend)
    with plain_tx() as tx:
        tx.send("language_put", (user.pk, language))
    return {"language": language}
