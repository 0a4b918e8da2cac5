"""Whether the process lives (`/healthz`), whether the whole may be used (`/readyz`), and numbers (`/metrics`)."""

from __future__ import annotations

import prometheus_client
import psycopg
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from runtime.queries.health import engine_numbers, readiness

GAUGES = {
    "queue_depth": "Steps that may run now and wait for a worker; counted to the high-water mark",
    "workers": "Worker processes that hold a lease",
    "slots": "Places for steps in those processes",
    "slots_busy": "Places in use",
    "outbox_oldest_seconds": "Age of the oldest message that was not sent yet",
}


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer 200 while this process answers at all."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer 200 when the database, the migrations, the scheduler and a worker are there, else 503 with the reason."""
    checks = readiness()
    ready = all(check["ok"] for check in checks.values())
    body = {"status": "ready" if ready else "not ready", "checks": checks}
    response = JsonResponse(body, status=200 if ready else 503)
    # Not ready is an answer, not an error: it is asked for every few seconds and fills no log.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer the Prometheus text format: this process, and the engine when the database can be reached."""
    text = prometheus_client.generate_latest()
    try:
        numbers = engine_numbers()
    except (psycopg.Error, DatabaseError):
        numbers = {}
    registry = prometheus_client.CollectorRegistry()
    prometheus_client.Gauge("quarterdeck_database_up", "1 when the database answers", registry=registry).set(
        bool(numbers)
    )
    for name, value in numbers.items():
        prometheus_client.Gauge(f"quarterdeck_{name}", GAUGES[name], registry=registry).set(value)
    text += prometheus_client.generate_latest(registry)
    return HttpResponse(text, content_type=prometheus_client.CONTENT_TYPE_LATEST)
