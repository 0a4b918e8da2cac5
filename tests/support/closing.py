"""Cases about no effect, closed as people close them; what is not offered is refused."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from repair.actions.claim import claim_case
from repair.actions.resolve import resolve_case, review_proposal
from repair.errors import NotPermitted
from repair.law import RESOLUTIONS
from runtime.kernel.actor import Actor
from runtime.queries.invariants import breaches_of
from tests.support.actors import member
from tests.support.desk import Desk


def take(desk: Desk, case: dict[str, Any], actor: Actor | None = None) -> dict[str, Any]:
    """Claim a case and return it, whole."""
    claim_case(actor=actor or desk.admin, case_id=case["id"], expected_version=case["version"])
    return desk.read(case["id"])


def offered(case: dict[str, Any]) -> set[str]:
    """Return what may be proposed of the case, but that it is kept."""
    return {one["resolution"] for one in case["moves"] if one["permitted"]} - {"keep_pending"}


def close(desk: Desk, case: dict[str, Any], resolution: str) -> dict[str, Any]:
    """Propose it as an administrator, have another one look where that is asked for; the case as it is then."""
    said = desk.propose(case, resolution, actor=desk.admin)
    words = {"case_id": case["id"], "expected_version": said["version"], "repair_id": uuid.UUID(said["repair_id"])}
    if said["needs_review"]:
        review_proposal(actor=member(desk.tenant, "admin"), decision="approve", **words)
    else:
        resolve_case(actor=desk.admin, **words)
    return desk.read(case["id"])


def refused(desk: Desk, case: dict[str, Any]) -> None:
    """Assert that every resolution that is not offered is refused with its reason, and none of them moved anything."""
    for resolution in set(RESOLUTIONS) - offered(case):
        with pytest.raises(NotPermitted) as no:
            desk.propose(case, resolution, actor=desk.admin)
        assert no.value.detail.endswith(".")
    assert desk.read(case["id"])["state"] == "claimed"


def sound(desk: Desk, run_id: uuid.UUID) -> None:
    """Assert that the ledger rebuilds the run, and that nothing breaches an invariant."""
    desk.check(run_id)
    assert breaches_of(desk.tenant.id) == []
