"""Column lists shared by queries and rows: ``{step}``, ``{s.step}`` and the like are filled into the SQL."""

from __future__ import annotations

STEP = (
    "id run_id node kind execution_version superseded status cause version owner_epoch attempt priority pool claimable"
    " not_before worker_session_id deps_left deps_ok deps_bskip deps_err deps_bad hold_requested forced choice error"
    " created_at queued_at started_at finished_at tokens serial home_pool prefer_until"
).split()

RUN = (
    "id task_id workflow_version_id manifest_id status reason version seq priority deadline cancel_requested paused"
    " attention n_steps n_open n_live n_timer n_hold_approval n_hold_external n_unknown n_bad n_open_operations"
    " created_at started_at finished_at n_compensating cancel_by"
).split()

OPERATION = (
    "id business_key payload_sha256 tool_version_id recovery run_id step_id execution_version attempt owner_epoch"
    " status version sends external_ref response_sha256 error next_query_at intended_at sent_at settled_at"
).split()

# Seconds from the last committed boundary of attempt ``a`` (its start; an intent, a send, a confirmation of its step)
# to its end, or to when its worker ``w`` was given up, if that was before; of a running one, until now (C4.3).
_END = "least(coalesce(a.finished_at, qd_now()), w.ended_at)"
LOST_WORK = (
    f"greatest(0, extract(epoch FROM {_END} - greatest(a.started_at, (SELECT max(t.at) FROM qd_operation o,"
    f" LATERAL (VALUES (o.intended_at), (o.sent_at), (o.settled_at)) t(at)"
    f" WHERE o.run_id = a.run_id AND o.step_id = a.step_id AND t.at <= {_END}))))::float8"
)


def fill(sql: str) -> str:
    """Fill the column lists into ``sql``: ``{step}`` unqualified, ``{s.step}`` qualified with alias ``s``.

    ``{lost_work}`` stands for what the loss of attempt ``a`` of worker session ``w`` cost at most.
    """
    sql = sql.replace("{lost_work}", LOST_WORK)
    for name, columns in (("step", STEP), ("run", RUN), ("operation", OPERATION)):
        sql = sql.replace("{" + name + "}", ", ".join(columns))
        for alias in ("s", "r", "o"):
            sql = sql.replace("{" + alias + "." + name + "}", ", ".join(f"{alias}.{c}" for c in columns))
    return sql
