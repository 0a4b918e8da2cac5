"""Identifiers: UUID version 7 (RFC 9562), so that ids sort by creation time and partition by it."""

import uuid

from uuid_utils import compat


def uuid7() -> uuid.UUID:
    """Return a fresh UUIDv7 as a standard :class:`uuid.UUID`."""
    return compat.uuid7()


def parse_uuid(text: str) -> uuid.UUID | None:
    """Return the UUID written in ``text``, or None when it is not one (callers answer 404, never 500)."""
    try:
        return uuid.UUID(text)
    except (ValueError, AttributeError, TypeError):
        return None
