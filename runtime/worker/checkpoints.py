"""A step's result as a checkpoint row: content goes first, its reference after it (C2.3, C4.2)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from runtime.kernel.conf import conf
from runtime.machine.frame import Frame
from runtime.machine.rows import RunState, StepState

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
        if _is_large(output) and output_sha256 is not None:
            frame.large[output_sha256] = output
    return (
        run.id, step.node, step.execution_version, step.id, attempt, owner_epoch, run.manifest_id, seq, kind,
        input_sha256, output, output_sha256, None, adopted_from,
    )  # fmt: skip


def store_large(frame: Frame, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the rows, which refer to artifacts where their output is too large for a row; call it after the settling.

    The runs' own outputs are stored there, and these with them.
    """
    stored = frame.store()
    return [_referring(row, stored[row[_SHA256]]) if _is_large(row[_OUTPUT]) else row for row in rows]


def _is_large(output: bytes | None) -> bool:
    return output is not None and len(output) > conf().inline_result_bytes


def _referring(row: tuple[Any, ...], artifact_id: uuid.UUID) -> tuple[Any, ...]:
    return (*row[:_OUTPUT], None, row[_SHA256], artifact_id, *row[_ARTIFACT + 1 :])
