"""What is measured: a tenant of its own, its workflows, work submitted in bulk, and the proof that all was kept."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model

from runtime.access.roles import verbs_of_role
from runtime.actions.limits import set_limit, set_policy
from runtime.actions.submit import MAX_BULK, Accepted, SubmitRequest, submit_bulk
from runtime.actions.tenants import create_tenant
from runtime.actions.workflows import register_workflow
from runtime.kernel.actor import Actor
from runtime.kernel.ids import uuid7
from runtime.management.bench import tool
from runtime.management.bench.stack import wait_until
from runtime.management.example import register_builtin_tools
from runtime.models import Membership
from runtime.store.tx import tenant_tx
from runtime.tools.registry import register_tool

# a → b1..b4 → c1 c2 c3 → d → e: ten steps, fourteen edges; the same graph that the peers are given.
DAG = {
    "a": [],
    "b1": ["a"],
    "b2": ["a"],
    "b3": ["a"],
    "b4": ["a"],
    "c1": ["b1", "b2"],
    "c2": ["b2", "b3"],
    "c3": ["b3", "b4"],
    "d": ["c1", "c2", "c3"],
    "e": ["d"],
}
NOOP = "core.noop@1"
_AMPLE = 10_000  # more tokens than steps ever run at once: what is measured is the counting


@dataclass(frozen=True, slots=True)
class Scene:
    """A tenant made for one benchmark, and who acts in it."""

    actor: Actor
    slug: str

    @classmethod
    def make(cls) -> Scene:
        """Create the tenant with the product's tools and the benchmark's own."""
        slug = f"bench-{uuid7().hex[-12:]}"
        tenant = uuid.UUID(create_tenant(slug=slug, name="Benchmark")["tenant_id"])
        actor = Actor(kind="service", name="bench", tenant_id=tenant, verbs=verbs_of_role("admin"))
        register_builtin_tools(actor)
        for function, runs in (("mark", "inline"), ("mark", "thread"), ("linger", "thread"), ("write", "thread")):
            register_tool(actor=actor, contract=tool.contract(function, runs).as_json(), builtin=True)
        return cls(actor, slug)

    def register(self, name: str, nodes: Sequence[dict[str, Any]]) -> None:
        """Register a workflow of these nodes."""
        spec = {"format": "quarterdeck/1", "name": name, "nodes": list(nodes)}
        register_workflow(actor=self.actor, raw=json.dumps(spec))

    def member(self, role: str) -> Actor:
        """Make one more member of the tenant, in this role: what people decide is a person's."""
        name = f"bench-{uuid7().hex[-12:]}"
        user = get_user_model().objects.db_manager("owner").create_user(username=name)
        tenant_id = self.actor.tenant_id
        with tenant_tx(tenant_id, using="owner"):
            Membership.objects.using("owner").create(tenant_id=tenant_id, user=user, role=role)
        return Actor(kind="user", name=name, tenant_id=tenant_id, verbs=verbs_of_role(role), user_id=user.pk)

    def bound(self, tool_name: str) -> None:
        """Let each call of a tool take two tokens and pass a policy that refuses none of ours."""
        set_limit(actor=self.actor, scope="tenant", most=_AMPLE)
        set_limit(actor=self.actor, scope="tool", name=tool_name, most=_AMPLE)
        set_policy(actor=self.actor, data_regions=["here"], scopes=None)

    def submit(self, workflow: str, runs: int, *, priority: int = 0) -> list[uuid.UUID]:
        """Submit ``runs`` tasks through the bulk action, as many at once as it takes; return the runs' ids."""
        ids: list[uuid.UUID] = []
        while len(ids) < runs:
            some = min(MAX_BULK // 2, runs - len(ids))
            requests = [SubmitRequest(workflow=workflow, input={}, priority=priority)] * some
            for answer in submit_bulk(actor=self.actor, requests=requests):
                if not isinstance(answer, Accepted):
                    raise answer
                ids.append(answer.run_id)
        return ids

    def rows(self, query: str, params: Any = None) -> list[tuple[Any, ...]]:
        """Return the rows of a named query, read as this tenant."""
        with tenant_tx(self.actor.tenant_id) as tx:
            return tx.rows(query, params)

    def finish(self, seconds: float) -> None:
        """Wait until no run of this tenant can go on. Raises TimeoutError."""
        wait_until(lambda: not self.rows("bench_going_on")[0][0], seconds, "every run terminal", 0.03)

    def time_of(self, workflow: str, runs: int, seconds: float) -> tuple[float, float]:
        """Return (seconds until the last of ``runs`` was terminal, seconds of these that submitting took)."""
        begun = time.perf_counter()
        self.submit(workflow, runs)
        submitted = time.perf_counter()
        self.finish(seconds)
        return time.perf_counter() - begun, submitted - begun

    def prove(self) -> dict[str, int]:
        """Return counts over the tenant's finished runs. Raises RuntimeError when a guarantee was not kept."""
        names = "runs completed steps succeeded attempts checkpoints started_events events gaps".split()
        counts = dict(zip(names, self.rows("bench_counts")[0], strict=True))
        steps = counts["steps"]
        kept = counts["runs"] == counts["completed"] and counts["gaps"] == 0
        kept = kept and all(
            counts[name] == steps for name in ("succeeded", "attempts", "checkpoints", "started_events")
        )
        if not kept:
            raise RuntimeError(f"A guarantee was not kept: {counts}")
        return counts

    def prove_ends(self) -> None:
        """Check that every run ended completed and gaplessly. Raises RuntimeError."""
        runs, completed, *_rest, gaps = self.rows("bench_counts")[0]
        if runs != completed or gaps:
            raise RuntimeError(f"{runs} runs ended, {completed} completed, {gaps} with gaps")


def nodes_of(graph: dict[str, list[str]], reference: str = NOOP) -> list[dict[str, Any]]:
    """Return tool nodes for a graph of node → predecessors."""
    return [{"id": node, "kind": "tool", "tool": reference, "after": before} for node, before in graph.items()]
