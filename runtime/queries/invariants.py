"""The numbered invariants of the law of states, searched for on the live database (state-machine.md, "Invariants")."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from runtime.journal import audit
from runtime.queries.rebuild import rebuild_in
from runtime.store.directory import TenantRow
from runtime.store.tx import plain_tx, tenant_tx

MOST = 100
SAMPLE = 200
# Of a search that runs by itself: those that find rows under way by an index, how many runs are folded, how long one
# may take.
CHEAP = (
    "invariant_6_parked", "invariant_7_operations", "invariant_7_runs", "invariant_7_waits", "invariant_7_held",
)  # fmt: skip
CHEAP_SAMPLE, CHEAP_MS = 20, 5_000


@dataclass(frozen=True, slots=True)
class Invariant:
    """One of the law's numbers; ``queries`` search a tenant's rows, ``walls`` the catalog."""

    number: int
    name: str
    queries: tuple[str, ...] = ()
    walls: tuple[str, ...] = ()
    covers: str = ""

    @property
    def checked(self) -> bool:
        return bool(self.queries or self.walls or self.number in (3, 11))


def _named(number: int, *names: str) -> tuple[str, ...]:
    return tuple(f"invariant_{number}_{name}" for name in names)


INVARIANTS = (
    Invariant(
        1,
        "one applied result per execution version; no second send without a proof of absence",
        _named(1, "results", "sends"),
    ),
    Invariant(2, "owner_epoch only grows", _named(2, "epochs", "rows")),
    Invariant(
        3,
        "run_seq is gapless and the events rebuild the rows",
        _named(3, "gapless", "counters", "operations", "undoing"),
        covers=f"the fold on the newest {SAMPLE} runs of each tenant",
    ),
    Invariant(
        4,
        "terminal states are never left",
        _named(4, "law", "ended_runs", "after_the_end", "superseded", "moved_after"),
    ),
    Invariant(5, "every change has its event, every act its audit", _named(5, "steps", "runs", "operations", "acts")),
    Invariant(
        6,
        "nothing new starts while it may not",
        _named(6, "starts", "parked", "tokens", "budgets", "gates", "grants", "own_grants", "decisions"),
    ),
    Invariant(7, "what is not settled has an owner", _named(7, "operations", "runs", "waits", "held")),
    Invariant(
        8,
        "tenants do not see each other",
        walls=("wall_row_security", "wall_policies", "wall_grants", "wall_roles", "wall_functions", "wall_triggers"),
    ),
    Invariant(9, "cost events add up at every level", covers="nothing: this version meters no costs"),
    Invariant(
        10,
        "replay, shadow and dry runs reach no tool that writes",
        covers="nothing: replay only reads, the others are not there",
    ),
    Invariant(11, "the audit chain verifies"),
    Invariant(
        12,
        "an outcome is an authorised verifier's; force completes nothing",
        _named(12, "completed", "outcomes", "forced"),
    ),
)


@dataclass(slots=True)
class Finding:
    """What was found of one invariant over all tenants; ``ok`` is None where nothing was checked."""

    invariant: Invariant
    breaches: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool | None:
        return not self.breaches if self.invariant.checked else None

    def add(self, where: str, rows: Iterable[tuple[Any, Any]]) -> None:
        """Take (id, problem) rows; at most MOST are kept."""
        for row_id, problem in rows:
            if len(self.breaches) < MOST:
                self.breaches.append(str(row_id))
                self.problems.append(f"{where} {row_id}: {problem}".strip())

    def as_json(self) -> dict[str, Any]:
        """Return {number, name, ok, breaches: [ids], problems: [sentences]}, ``covers`` where it is not everything."""
        one = self.invariant
        body = {
            "number": one.number,
            "name": one.name,
            "ok": self.ok,
            "breaches": self.breaches,
            "problems": self.problems,
        }
        return {**body, "covers": one.covers} if one.covers else body


def check_invariants(
    tenants: Iterable[TenantRow],
    *,
    sample: int = SAMPLE,
    using: str = "default",
    on_breach: Callable[[TenantRow, Invariant, list[tuple[Any, ...]]], object] | None = None,
) -> list[Finding]:
    """Search for breaches in the given tenants, and in the walls between all of them; one finding per invariant.

    ``sample`` bounds how many runs of a tenant are folded from their events; ``on_breach`` is told what each search of
    a tenant's rows found.
    """
    findings = {one.number: Finding(one) for one in INVARIANTS}
    for tenant in tenants:
        for number, rows in breaches_of(tenant.id, sample=sample, using=using):
            findings[number].add(tenant.slug, rows)
            if on_breach is not None:
                on_breach(tenant, findings[number].invariant, rows)
    with plain_tx(using=using) as tx:
        for one in INVARIANTS:
            for name in one.walls:
                findings[one.number].add("", tx.rows(name, (MOST,)))
    return list(findings.values())


def breaches_of(
    tenant_id: uuid.UUID,
    *,
    sample: int = SAMPLE,
    using: str = "default",
    numbers: Collection[int] | None = None,
    runs: Iterable[uuid.UUID] = (),
) -> list[tuple[int, list[tuple[Any, ...]]]]:
    """Return (number, [(id, problem)]) of one tenant, for each search that found something.

    ``numbers`` are those searched for, None for all; ``runs`` are folded from their events besides the sample.
    """
    found = []
    for one in INVARIANTS:
        for name in one.queries if numbers is None or one.number in numbers else ():
            # A transaction each: none of them holds back the vacuum for long.
            with tenant_tx(tenant_id, using=using) as tx:
                if rows := tx.rows(name, (MOST,)):
                    found.append((one.number, rows))
    if numbers is None or 3 in numbers:
        found += _folded(tenant_id, sample, using, runs)
    if numbers is None or 11 in numbers:
        report = audit.verify(tenant_id, using=using)
        found += [(11, [(breach["number"], breach["problem"])]) for breach in report.breaches]
    return found


def _folded(
    tenant_id: uuid.UUID, sample: int, using: str, runs: Iterable[uuid.UUID]
) -> list[tuple[int, list[tuple[Any, ...]]]]:
    found: list[tuple[int, list[tuple[Any, ...]]]] = []
    with tenant_tx(tenant_id, using=using) as tx:
        named = [row[0] for row in tx.rows("invariant_3_sample", (sample,))]
    for run_id in dict.fromkeys([*named, *runs]):
        with tenant_tx(tenant_id, using=using) as tx:
            found += [(3, [(run_id, line)]) for line in rebuild_in(tx, run_id)[:5]]
    return found


def cheap_searches(
    tenant_id: uuid.UUID, *, using: str = "default"
) -> Iterator[tuple[int, Callable[[], list[tuple[Any, ...]]]]]:
    """Yield (number, search) of what a duty may search for every few minutes; each returns [(id, problem)].

    Each runs in a transaction of its own for CHEAP_MS at most, and raises psycopg's QueryCanceled after that.
    """

    def rows(name: str) -> list[tuple[Any, ...]]:
        with tenant_tx(tenant_id, using=using) as tx:
            tx.send("set_statement_timeout", (f"{CHEAP_MS}ms",))
            return tx.rows(name, (MOST,))

    for one in INVARIANTS:
        for name in one.queries:
            if name in CHEAP:
                yield one.number, partial(rows, name)
    yield 3, partial(_folded_twice, tenant_id, using)


def _folded_twice(tenant_id: uuid.UUID, using: str) -> list[tuple[Any, ...]]:
    """Return what the fold of the newest runs finds both times: a run that goes on meanwhile is read of two moments."""
    rows = [row for _number, found in _folded(tenant_id, CHEAP_SAMPLE, using, ()) for row in found]
    if not rows:
        return []
    again = {row for _number, found in _folded(tenant_id, 0, using, [row[0] for row in rows]) for row in found}
    return [row for row in rows if row in again]
