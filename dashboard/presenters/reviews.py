"""Repairs that wait for a second person's review, as the inbox and Now list them. Pure."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils.translation import ngettext

from dashboard.presenters.repairs import kind_word, move_word


def row(one: dict[str, Any]) -> dict[str, Any]:
    """Return a review with its words: {…, title, detail, word, url}; ``url`` is the page on which it is decided."""
    word = move_word(one, one["resolution"])
    if one["about"] == "bulk":
        title = ngettext("%(n)d case at once", "%(n)d cases at once", one["cases"]) % {"n": one["cases"]}
        return {**one, "title": title, "detail": [], "word": word, "url": reverse("repairs-bulk", args=[one["id"]])}
    detail = [kind_word(one["kind"]), one["tool"] or one["workflow"], one["node"]]
    url = f"{reverse('repair', args=[one['id']])}#review"
    return {**one, "detail": [part for part in detail if part], "word": word, "url": url}
