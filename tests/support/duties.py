"""The duties that look after requests, in the role that does so: the web may not ask about every tenant's."""

from __future__ import annotations

from approvals import duties
from tests.support.db import switched


def expire_requests() -> int:
    with switched("default", role="worker"):
        return duties.expire_requests()


def remind() -> int:
    with switched("default", role="worker"):
        return duties.remind()


def close_idle() -> int:
    with switched("default", role="worker"):
        return duties.close_idle()
