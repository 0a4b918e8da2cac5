"""Addresses of hooks as they are shown. Pure."""

from __future__ import annotations


def shown_url(url: str, format: str) -> str:
    """Return an address as it is shown: that of a chat's hook is a secret by itself, so its host only."""
    if format != "chat":
        return url
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/…"
