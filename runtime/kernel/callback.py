"""The address and the token under which a tool may report on one attempt later (A6.3)."""

from __future__ import annotations

import hashlib
import hmac
import re
import uuid

from django.conf import settings

_ID = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([1-9][0-9]{0,4})")


def attempt_id(step_id: uuid.UUID | str, number: int) -> str:
    """Return the public id of an attempt: its step and its number."""
    return f"{step_id}.{number}"


def parse_attempt_id(text: str) -> tuple[uuid.UUID, int] | None:
    """Return step and number of an attempt's id, None when it is none."""
    match = _ID.fullmatch(text)
    return (uuid.UUID(match[1]), int(match[2])) if match else None


def callback_token(tenant_id: uuid.UUID | str, step_id: uuid.UUID | str, number: int, epoch: int) -> str:
    """Return the lease token of an attempt: it proves that whoever shows it was given this very call."""
    text = f"callback:{tenant_id}:{step_id}:{number}:{epoch}"
    return hmac.new(settings.SECRET_KEY.encode(), text.encode(), hashlib.sha256).hexdigest()


def is_callback_token(
    shown: str, tenant_id: uuid.UUID | str, step_id: uuid.UUID | str, number: int, epoch: int
) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(shown.encode(), callback_token(tenant_id, step_id, number, epoch).encode())
