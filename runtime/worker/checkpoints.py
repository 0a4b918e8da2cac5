"""A step's result as a checkpoint row: content goes first, its reference after it (C2.3, C4.2)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from runtime.kernel.conf import conf
from runtime.machine.frame import Frame
from runtime.machine.rows import RunState, StepState
from runtime.store.results import store_results
from runtime.store.tx import Tx

_OUTPUT, _SHA256, _ARTIFACT = 10, 11, 12  # places in a row


def checkpoint_row(
    frame: Frame,
    run: RunState,
    step: StepState,
    *,
    seq: int,
    attempt: int,
    owner_epoch: int,
    kind: str,
    input_sha256: bytes | None,
    output: bytes | None,
    output_sha256: bytes | None,
    adopted_from: uuid.UUID | None = None,
) -> tuple[Any, ...]:
    """Return the row for ``insert_checkpoints``; pass it through :func:`store_large` before."""
    if output is not None:
        frame.outputs[run.id, step.node] = output
    return (
        run.id, step.node, step.execution_version, step.id, attempt, owner_epoch, run.manifest_id, seq, kind,
        input_sha256, output, output_sha256, None, adopted_from,
    )  # fmt: skip


def store_large(tx: Tx, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Store the outputs that are too large for a row as artifacts, all at once; return the rows that refer to them."""
    most = conf().inline_result_bytes
    large = {row[_SHA256]: row[_OUTPUT] for row in rows if row[_OUTPUT] is not None and len(row[_OUTPUT]) > most}
    if not large:
        return list(rows)
    ids = store_results(tx, large)
    return [_referring(row, ids[row[_SHA256]]) if row[_SHA256] in large else row for row in rows]


def _referring(row: tuple[Any, ...], artifact_id: uuid.UUID) -> tuple[Any, ...]:
    return (*row[:_OUTPUT], None, row[_SHA256], artifact_id, *row[_ARTIFACT + 1 :])
