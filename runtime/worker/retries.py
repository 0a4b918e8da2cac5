"""Retry budgets: how often calls are tried again at most, whatever each policy allows (B4.1, B4.2).

A run has a number of retries for its life. A tool, a tenant, the installation and one and the same input have so many
in a window of time. What goes beyond that fails with its error: a dependency that is down is not hammered by everybody
at once. Counted in the completing transaction, only when something is to be tried again.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Sequence

from runtime.actions.manifests import code_version
from runtime.kernel.conf import conf
from runtime.store.arrays import arrays
from runtime.store.tx import Tx
from runtime.worker.work import Report

EVERYBODY = uuid.UUID(int=0)
_WINDOW_SECONDS, _INPUT_SECONDS = 60.0, 600.0
_SLOTS = 3  # hexadecimal digits of an input's digest: so many windows a tenant keeps for inputs, and no more


def refuse_exhausted(tx: Tx, reports: Sequence[Report]) -> None:
    """Turn reports that would be tried again, and have no budget for it, into failures that say so."""
    # What undoes an effect is bounded by its order's deadline instead.
    wanted = [one for one in reports if one.outcome == "retry" and one.claimed.undo is None]
    if not wanted:
        return
    _by_run(tx, wanted)
    left = [report for report in wanted if report.outcome == "retry"]
    keys = {id(report): _keys(tx, report) for report in left}
    windows: dict[str, tuple[uuid.UUID | None, bytes | None, float, int]] = {}
    asked: Counter[str] = Counter()
    for report in left:
        for key, owner, fingerprint, seconds, most in keys[id(report)]:
            windows[key] = owner, fingerprint, seconds, most
            asked[key] += 1
    rows = [(owner, key, fp, asked[key], seconds) for key, (owner, fp, seconds, _most) in sorted(windows.items())]
    used = dict(tx.rows("count_retries", arrays("utxif", rows)))
    before = {key: used[key] - asked[key] for key in windows}
    for report in left:
        for key, *_rest in keys[id(report)]:
            before[key] += 1
            if before[key] > windows[key][3]:
                _fail(report, key.partition(":")[0])
                break


def _by_run(tx: Tx, wanted: list[Report]) -> None:
    runs = {report.claimed.run_id for report in wanted}
    made = dict(tx.rows("retries_of_runs", arrays("u", [(run,) for run in runs])))
    for report in wanted:
        run = report.claimed.run_id
        made[run] = made.get(run, 0) + 1
        if made[run] > conf().retries_per_run:
            _fail(report, "run")


def input_fingerprint(tool: str, input_sha256: bytes, code: str) -> bytes:
    """Return the digest that tells one and the same input (B5.2): tool with its version, code version, arguments.

    Model, prompt, data set and index with their versions are arguments of the tools that use them, so they are in
    ``input_sha256``. Code that has been mended may try again what the one before had no budget left for.
    """
    return hashlib.sha256(b"\0".join((tool.encode(), code.encode(), input_sha256))).digest()


def _keys(tx: Tx, report: Report) -> list[tuple[str, uuid.UUID | None, bytes | None, float, int]]:
    """Return the windows a retry counts in: (key, tenant, fingerprint, seconds, most)."""
    tool = report.claimed.node.tool or ""
    fingerprint = input_fingerprint(tool, report.input_sha256 or b"", code_version())
    return [
        (f"input:{fingerprint.hex()[:_SLOTS]}", tx.tenant_id, fingerprint, _INPUT_SECONDS, conf().retries_per_input),
        (f"tool:{tool}", tx.tenant_id, None, _WINDOW_SECONDS, conf().retries_per_tool),
        ("tenant", tx.tenant_id, None, _WINDOW_SECONDS, conf().retries_per_tenant),
        ("installation", EVERYBODY, None, _WINDOW_SECONDS, conf().retries_in_all),
    ]


def _fail(report: Report, budget: str) -> None:
    report.outcome, report.cause, report.not_before = "failed", None, None
    report.error = {**(report.error or {}), "retry": f"The retry budget of the {budget} is used up."}
