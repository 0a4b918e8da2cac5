"""approvals/statistics/: how approvals go, in numbers."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from approvals.api.shapes import FLAG
from approvals.statistics import OUTCOMES, QUANTILES, USES, read_statistics
from runtime.api.base import Endpoint, describe
from runtime.api.schemas import COUNT, TEXT, TIME, many, maybe, shape

_SECONDS = {"type": "number", "minimum": 0}
_WAITS = ("mean", "min", "max", *(f"p{round(q * 100)}" for q in QUANTILES))
_GROUP = shape(
    {
        "name": TEXT,
        "asked": COUNT,
        "outcomes": shape(dict.fromkeys(OUTCOMES, COUNT)),
        "approved": shape(dict.fromkeys(USES, COUNT)),
        "wait_s": shape({"n": COUNT, **dict.fromkeys(_WAITS, maybe(_SECONDS))}),
        "histogram": many(shape({"from_s": _SECONDS, "to_s": maybe(_SECONDS), "n": COUNT})),
    }
)
_ANSWER = shape(
    {
        "since": TIME,
        "until": TIME,
        "unit": {"enum": ["day", "week"]},
        "cut": {**FLAG, "description": "More was asked in this time than is counted: ask for a shorter one."},
        "all": _GROUP,
        "by_tool": many(_GROUP),
        "by_role": many(_GROUP),
        "by_period": many(_GROUP),
    }
)


class Statistics(Endpoint):
    """Counts and waiting times."""

    @describe(
        "Read counts by outcome and waiting times: of all, by tool, by role, by period",
        tag="approvals",
        name="approval_statistics",
        answers={200: _ANSWER},
        query={
            "since": (TIME, "Asked then or later; by default 30 days before the end."),
            "until": (TIME, "Asked before then; by default now."),
        },
    )
    def get(self, request: Request) -> Response:
        params = self.params
        since, until = params.time("since"), params.time("until")
        params.done()
        return Response(read_statistics(actor=self.actor, since=since, until=until))
