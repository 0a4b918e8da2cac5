"""approvals/{id}/past/: what was decided before about the same tool and target."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from approvals.law import STATES
from approvals.past import past_of
from runtime.api.base import Endpoint, describe
from runtime.api.http import path_id
from runtime.api.schemas import COUNT, ID, TEXT, TIME, many, maybe, shape

_ALIKE = shape(
    {
        "id": ID,
        "title": TEXT,
        "state": {"enum": list(STATES)},
        "target": maybe(TEXT),
        "requested_by": TEXT,
        "run_id": maybe(ID),
        "decided_at": maybe(TIME),
        "decided_by": maybe(TEXT),
        "closed_at": maybe(TIME),
    }
)
_OWN = shape({"request_id": ID, "title": TEXT, "version": COUNT, "kind": TEXT, "text": TEXT, "at": TIME})


class Past(Endpoint):
    """Requests like this one, and what the caller did about them."""

    @describe(
        "Read what was decided before about this tool and target, and your own acts there",
        tag="approvals",
        name="past_of_approval",
        answers={200: shape({"alike": many(_ALIKE), "own": many(_OWN)})},
    )
    def get(self, request: Request, approval_id: str) -> Response:
        self.params.done()
        return Response(past_of(actor=self.actor, request_id=path_id(approval_id, "approval")))
