"""The cheapest refusal: a full installation takes no new work, told before a request is looked at (A4.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
from asgiref.sync import iscoroutinefunction, sync_to_async
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from runtime.actions.admission import check_installation
from runtime.api.problems import plain
from runtime.kernel.errors import QueueFull

_SUBMITS = ("/api/v1/tasks/", "/api/v1/tasks/bulk/")


@sync_and_async_middleware
def admission(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Answer 503 ``queue_full`` to submits while the queue is above its high-water mark; first of all middleware."""
    if iscoroutinefunction(get_response):

        async def ask_first(request: HttpRequest) -> HttpResponseBase:
            refusal = await sync_to_async(_look)(request) if _submits(request) else None
            return refusal or await get_response(request)

        return ask_first

    def ask(request: HttpRequest) -> HttpResponseBase:
        refusal = _look(request) if _submits(request) else None
        return refusal or get_response(request)

    return ask


def _submits(request: HttpRequest) -> bool:
    return request.method == "POST" and request.path_info in _SUBMITS


def _look(request: HttpRequest) -> HttpResponse | None:
    try:
        check_installation()
    except QueueFull as full:
        return plain(full, request.path_info)
    except psycopg.Error:
        pass  # the view says what is wrong with the database
    return None
