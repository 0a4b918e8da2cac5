"""Addresses of pages for those who read them outside: in mails and messages."""

from __future__ import annotations

from urllib.parse import quote

from runtime.kernel.conf import conf
from runtime.store.tx import Tx


def page_link(tx: Tx, path: str) -> str:
    """Return the whole address of a page of the transaction's tenant.

    It names the tenant: a reader who belongs to several is not left in front of another one's "nothing here".
    """
    row = tx.one("own_slug")
    assert row is not None
    return f"{conf().public_url.rstrip('/')}{path}?tenant={quote(str(row[0]))}"
