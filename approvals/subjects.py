"""Asking people about what is no step: a repair plan, a policy, whatever an app registered with the seams.

The app's own row waits; the decision resumes it in the deciding transaction (``seams.resume_subject``).
"""

from __future__ import annotations

import uuid
from typing import Any

from approvals.law import RISKS
from approvals.rendering import Rendered
from approvals.terms import EXPIRES_SECONDS, Terms
from approvals.writing import About, write_request
from runtime.store.tx import Tx


def ask_about(
    *,
    tx: Tx,
    kind: str,
    subject_id: str,
    title: str,
    payload: Any,
    requested_by: str,
    goal: str = "",
    role: str = "",
    quorum: int = 1,
    separation: str = "requester",
    expires_s: float = EXPIRES_SECONDS,
    risk: str = "",
    target: str | None = None,
    target_version: str | None = None,
) -> uuid.UUID | None:
    """Write a request about a subject and return its id; None when one about it waits already.

    ``payload`` is JSON and is what people are shown and what the decision is bound to; ``requested_by`` is an actor's
    label. Nothing is permitted by it but that the subject goes on. Raises QuarterdeckError when it is too large.
    """
    if risk and risk not in RISKS:
        raise ValueError(f"there is no risk {risk!r}")
    rendered = Rendered(requested_by, title, goal, payload=payload, declared_risk=risk, binds_payload=True)
    rendered.target, rendered.target_version = target, target_version
    rendered.seal()
    about = About(kind="subject", node=kind, subject_kind=kind, subject_id=str(subject_id))
    terms = Terms(role, quorum, separation, expires_s, start_within_s=None)
    return write_request(tx, about, terms, rendered, tx.now())
