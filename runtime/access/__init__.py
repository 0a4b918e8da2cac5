"""Permissions: verbs, roles, and the one question ``authorize(actor, verb, obj)`` (A10.1)."""

from runtime.access.authorize import authorize, may
from runtime.access.verbs import VERBS

__all__ = ["VERBS", "authorize", "may"]
