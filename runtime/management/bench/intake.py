"""Submits over HTTP, as clients send them: one by one and in bulk, and the proof that no 202 was broken."""

from __future__ import annotations

import http.client
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth import get_user_model

from runtime.actions.tokens import issue_token
from runtime.management.bench.browser import web
from runtime.management.bench.figures import line
from runtime.management.bench.scene import Scene, nodes_of
from runtime.models import Membership
from runtime.store.tx import tenant_tx

CLIENTS, BULK = 8, 500
# What is measured is the intake; that it refuses is measured by itself.
_AMPLE = {"QUARTERDECK_QUEUE_HIGH_WATER": "100000000", "QUARTERDECK_TENANT_HIGH_WATER": "100000000"}
Made = list[tuple[float, list[str]]]


def submit(options: dict[str, Any]) -> dict[str, Any]:
    """Single submits from eight clients over daphne and DRF, each with a key of its own; no worker runs.

    ``two_submits_per_s``: over two web processes at one port, as of ``up --web 2``. Then the queue is full:
    ``refusals_per_s`` from as many clients. Raises RuntimeError when a full queue accepts one.
    """
    scene = _scene()
    made, refused, seconds = _intake(options, _one, scene)
    rate = sum(len(ids) for _s, ids in made) / seconds
    found = [s * 1000 for s, _ids in made]
    by_two, _refused, seconds = _intake(options, _one, _scene(), processes=2)
    two = sum(len(ids) for _s, ids in by_two) / seconds
    full = _refusals(options, scene)
    return line(
        "submit", "single submits over HTTP", "ms", found, submits_per_s=rate, clients=CLIENTS, refused=refused,
        two_submits_per_s=two, refusals_per_s=full,
    )  # fmt: skip


def bulk(options: dict[str, Any]) -> dict[str, Any]:
    """Bulk submits of 500 tasks over daphne and DRF, from one client."""
    made, refused, seconds = _intake(options, _many, _scene(), clients=1)
    rates = [len(ids) / s for s, ids in made]
    whole = sum(len(ids) for _s, ids in made) / seconds
    return line("bulk", f"bulk submits of {BULK}", "tasks/s", rates, tasks_per_s=whole, refused=refused)


def _intake(
    options: dict[str, Any],
    send: Callable[[http.client.HTTPConnection, dict[str, str]], tuple[int, list[str]]],
    scene: Scene,
    clients: int = CLIENTS,
    processes: int = 1,
) -> tuple[Made, int, float]:
    """Let ``clients`` submit for the asked time; return what was accepted. Raises RuntimeError when a 202 was lost."""
    headers = {"Authorization": f"Bearer {_token(scene)}", "Content-Type": "application/json"}
    made: Made = []
    refusals = [0]
    stop = threading.Event()

    def work(address: str) -> None:
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        while not stop.is_set():
            begun = time.perf_counter()
            status, ids = send(connection, headers)
            if status == 202:
                made.append((time.perf_counter() - begun, ids))
            else:
                refusals[0] += 1
        connection.close()

    with web(processes, **_AMPLE) as (address, _process):
        threads = [threading.Thread(target=work, args=(address,)) for _ in range(clients)]
        for thread in threads:
            thread.start()
        time.sleep(2.0)  # the first requests pay for imports and plans
        del made[:]
        begun = time.perf_counter()
        time.sleep(options["seconds"])
        counted, seconds = list(made), time.perf_counter() - begun
        stop.set()
        for thread in threads:
            thread.join(60)
    wanted = [uuid.UUID(one) for _s, ids in made for one in ids]
    if (kept := scene.rows("bench_tasks", (wanted,))[0][0]) != len(wanted):
        raise RuntimeError(f"Of {len(wanted)} accepted tasks {kept} are there.")
    return counted, refusals[0], seconds


def _scene() -> Scene:
    scene = Scene.make()
    scene.register("one", nodes_of({"a": []}))
    return scene


def _refusals(options: dict[str, Any], scene: Scene) -> float:
    """Return how many submits a second are refused by a full queue: before anything is read, also the credential."""
    before = scene.rows("bench_all_tasks")[0][0]
    headers = {"Authorization": "Bearer nobody", "Content-Type": "application/json"}
    statuses: Counter[int] = Counter()
    stop = threading.Event()

    def work(address: str) -> None:
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        while not stop.is_set():
            statuses[_one(connection, headers)[0]] += 1
        connection.close()

    with web(QUARTERDECK_QUEUE_HIGH_WATER="1") as (address, _process):
        threads = [threading.Thread(target=work, args=(address,)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        time.sleep(1.0)
        statuses.clear()
        begun = time.perf_counter()
        time.sleep(options["seconds"] / 4)
        refused, seconds = statuses[503], time.perf_counter() - begun
        stop.set()
        for thread in threads:
            thread.join(60)
    if set(statuses) != {503} or scene.rows("bench_all_tasks")[0][0] != before:
        raise RuntimeError(f"A full queue answered {dict(statuses)}; it had {before} tasks.")
    return refused / seconds


def _one(connection: http.client.HTTPConnection, headers: dict[str, str]) -> tuple[int, list[str]]:
    body = json.dumps({"workflow": "one", "input": {}})
    connection.request("POST", "/api/v1/tasks/", body, {**headers, "Idempotency-Key": str(uuid.uuid4())})
    answer = connection.getresponse()
    value = json.loads(answer.read())
    return answer.status, [value["task_id"]] if answer.status == 202 else []


def _many(connection: http.client.HTTPConnection, headers: dict[str, str]) -> tuple[int, list[str]]:
    body = json.dumps({"tasks": [{"workflow": "one", "input": {}}] * BULK})
    connection.request("POST", "/api/v1/tasks/bulk/", body, headers)
    answer = connection.getresponse()
    value = json.loads(answer.read())
    return answer.status, [one["task_id"] for one in value["items"]] if answer.status == 202 else []


def _token(scene: Scene) -> str:
    """Make an integrator of the scene's tenant and return a token of theirs."""
    name = f"bench-{scene.slug[-12:]}"
    user = get_user_model().objects.db_manager("owner").create_user(username=name)
    with tenant_tx(scene.actor.tenant_id, using="owner"):
        Membership.objects.using("owner").create(tenant_id=scene.actor.tenant_id, user=user, role="integrator")
    return str(issue_token(actor=scene.actor, username=name, name="bench", verbs=None, days=1)["token"])
