"""Whether the process lives (`/healthz`), whether the whole may be used (`/readyz`), and numbers (`/metrics`)."""

from __future__ import annotations

import prometheus_client
import psycopg
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from runtime.queries.health import engine_numbers, pool_queues, readiness

GAUGES = {
    "queue_depth": "Steps that may run now and wait for a worker; counted to the high-water mark",
    "workers": "Worker processes that hold a lease",
    "slots": "Places for steps in those processes",
    "slots_busy": "Places in use",
    "outbox_oldest_seconds": "Age of the oldest message that was not sent yet",
}
UNSERVED = "(unserved)"  # no pool is called so


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


def _tell_pools(queues: dict[str, tuple[int, float]], registry: prometheus_client.CollectorRegistry) -> None:
    """Add depth and age by pool; what waits in pools that no worker serves is told under one name."""
    words = "Steps that may run now and wait for a worker of the pool", "How long the oldest of them has waited"
    depth = prometheus_client.Gauge("quarterdeck_pool_queue_depth", words[0], ["pool"], registry=registry)
    oldest = prometheus_client.Gauge("quarterdeck_pool_queue_oldest_seconds", words[1], ["pool"], registry=registry)
    for pool, (steps, seconds) in queues.items():
        depth.labels(pool or UNSERVED).set(steps)
        oldest.labels(pool or UNSERVED).set(seconds)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer the Prometheus text format: this process, and the engine when the database can be reached."""
    text = prometheus_client.generate_latest()
    try:
        numbers, queues = engine_numbers(), pool_queues()
    except (psycopg.Error, DatabaseError):
        numbers, queues = {}, {}
    registry = prometheus_client.CollectorRegistry()
    prometheus_client.Gauge("quarterdeck_database_up", "1 when the database answers", registry=registry).set(
        bool(numbers)
    )
    for name, value in numbers.items():
        prometheus_client.Gauge(f"quarterdeck_{name}", GAUGES[name], registry=registry).set(value)
    _tell_pools(queues, registry)
    text += prometheus_client.generate_latest(registry)
    return HttpResponse(text, content_type=prometheus_client.CONTENT_TYPE_LATEST)
