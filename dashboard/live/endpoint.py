"""What answers for as long as its reader stays: an endpoint that takes a seat, and an answer that holds no thread."""

from __future__ import annotations

from typing import Any

from asgiref.sync import SyncToAsync
from django.db import connections
from django.http import StreamingHttpResponse
from rest_framework.request import Request

from dashboard.live.seats import Seat, seat_in
from runtime.api.base import Endpoint

TOO_MANY = "As many are open as one person or token may have; `retry_after` says when to come back."


class Lasting(StreamingHttpResponse):
    """An answer that is made in the event loop. The thread in which its request was looked at has done its work."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        # What follows reads in transactions of its own: this thread's connection would otherwise stay out for hours.
        connections.close_all()


class LastingEndpoint(Endpoint):
    """An endpoint whose answer may last. Its seat is taken before anything is read, and left with the request."""

    seat: Seat

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        self.seat = seat_in(getattr(request._request, "scope", None))
        self.seat.take()
        super().initial(request, *args, **kwargs)
        self.seat.give(self.actor)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(response, Lasting):
            self.seat.leave()
        return super().finalize_response(request, response, *args, **kwargs)


def dismiss_thread() -> None:
    """End the idle thread that asgiref keeps for the request of this context; the next call of it makes another."""
    context = SyncToAsync.thread_sensitive_context.get(None)
    executor = SyncToAsync.context_to_thread_executor.pop(context, None) if context is not None else None
    if executor is not None:
        executor.shutdown(wait=False)
