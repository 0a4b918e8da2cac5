"""What whoever is on call waits for: the repair list with many open cases, in each way of asking for it."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from repair.opening import open_cases
from runtime.kernel.seams import CaseNeed
from runtime.management.bench.browser import fetch_each, read, sign_in, web
from runtime.management.bench.figures import line, percentile
from runtime.management.bench.scene import Scene
from runtime.store.tx import tenant_tx

OPEN, BATCH = 5_000, 500
KINDS = ("poison_message", "stuck", "invariant_breach")
ADDRESSES = {
    "open": "/repairs/",
    "unowned": "/repairs/?view=unowned",
    "mine": "/repairs/?view=mine",
    "overdue": "/repairs/?view=overdue",
    "kind": "/repairs/?kind=stuck",
    "resolved": "/repairs/?view=resolved",
    "api": "/api/v1/repairs/",
}


def repairs(options: dict[str, Any]) -> dict[str, Any]:
    """The repair list over HTTP with ``--fill`` open cases, at most 5,000; each way of asking for itself."""
    samples, cases = options["samples"] or 60, min(options["fill"], OPEN)
    scene = Scene.make()
    fill(scene, cases)
    key = sign_in(scene)
    with web() as (address, process):
        asked = {name: address + path for name, path in ADDRESSES.items()}
        asked["next"] = address + "/repairs/" + _following(read(asked["open"], key))
        parts, own = fetch_each(asked, key, samples, process)
    return line(
        "repairs", f"a page of {cases} open cases", "ms", parts["open"], cpu_ms=own,
        p95_of={name: percentile(found, 95) for name, found in parts.items()},
    )  # fmt: skip


def fill(scene: Scene, cases: int) -> None:
    """Open so many cases, as the engine opens them, a batch in one transaction."""
    for first in range(0, cases, BATCH):
        needs = [
            CaseNeed(KINDS[number % len(KINDS)], f"A person is asked for the {number}th time.")
            for number in range(first, min(first + BATCH, cases))
        ]
        with tenant_tx(scene.actor.tenant_id) as tx:
            open_cases(tx, needs, opened_by="engine")


def _following(page: str) -> str:
    """Return the query of the list's next page."""
    found = re.search(r'href="(\?[^"]*cursor=[^"]+)"', page)
    if found is None:
        raise RuntimeError("The list has no next page.")
    return unescape(found.group(1))
