"""Ends of runs as webhooks and lines for a chat, where a hook names them (A4.5, C6.3). Their links open a page."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

import orjson
from django.utils.translation import gettext as _

from approvals.hooks import harmless, signed
from runtime.kernel.messages import Webhook
from runtime.queries import outputs
from runtime.queries.base import hexed
from runtime.queries.runs import run_in
from runtime.store.links import page_link
from runtime.store.tx import Tx

_WITH_OUTPUT = ("run.completed", "run.partially_completed")


def told(tx: Tx, payload: dict[str, Any]) -> Webhook | None:
    """Compose one end for one hook; None when the hook is gone, or a chat would hear of what needs nobody any more.

    Inputs, outputs and messages of errors are not in it.
    """
    hook_id = uuid.UUID(payload["hook_id"])
    hook = tx.one("hook_for_message", (hook_id,))
    if hook is None:
        return None
    run = run_in(tx, uuid.UUID(payload["run_id"]))
    link = page_link(tx, f"/runs/{run['id']}/")
    if hook[1] == "chat":
        if payload["event"] == "run.needs_attention" and run["status"] != "needs_attention":
            return None
        body = orjson.dumps({"text": f"{_line(payload, run)}\n{link}"})
    else:
        body = _standard(tx, payload, run, link)
    return signed(hook_id, hook, f"run_{uuid.UUID(payload['event_id']).hex}", body)


def _standard(tx: Tx, payload: dict[str, Any], run: dict[str, Any], link: str) -> bytes:
    """Return the body: what never changes of the run, and how it stood at the moment of the event."""
    output = tx.dicts("read_run_output", {"run": run["id"], "most": 0}) if payload["event"] in _WITH_OUTPUT else []
    data = {
        "run_id": run["id"],
        "task_id": run["task_id"],
        "name": run["name"],
        "workflow": run["workflow"],
        "workflow_version": run["workflow_version"],
        "created_at": run["created_at"],
        "started_at": run["started_at"],
        "finished_at": run["finished_at"],
        "output_sha256": hexed(output[0]["output_sha256"]) if output else None,
        "output_kind": outputs.of_run(payload["event"].removeprefix("run.")),
        **payload["then"],
        "link": link,
    }
    value = {"type": payload["event"], "timestamp": datetime.fromisoformat(payload["at"]), "data": data}
    return orjson.dumps(value, option=orjson.OPT_UTC_Z)


def _line(payload: dict[str, Any], run: dict[str, Any]) -> str:
    """Return the text for a chat: which run, what became of it, and whether its task's criterion was met by then."""
    words = {
        "run.completed": _("Run completed: %(title)s"),
        "run.partially_completed": _("Run partially completed: %(title)s"),
        "run.failed": _("Run failed: %(title)s"),
        "run.cancelled": _("Run cancelled: %(title)s"),
        "run.needs_attention": _("Run needs a person: %(title)s"),
    }
    judged = {
        "met": _("its success criterion is met"),
        "not_met": _("its success criterion is not met"),
        "undecided": _("its success criterion is not decided"),
    }
    name = run["name"] or str(run["id"])
    line = words[payload["event"]] % {"title": f"{harmless(run['workflow'])}, {harmless(name)[:200]}"}
    success = payload["then"].get("success")
    return f"{line} ({judged[success]})" if success else line
