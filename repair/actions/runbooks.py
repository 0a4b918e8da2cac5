"""Writing a runbook: what to do about the cases of a tool and an error class, each time as a new version."""

from __future__ import annotations

from typing import Any

from repair.models import Runbook
from repair.verbs import RUNBOOK
from runtime.access.authorize import authorize
from runtime.actions.acting import insist
from runtime.actions.base import check_reason, frame
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import digest
from runtime.kernel.errors import BadInput, Stale
from runtime.kernel.ids import uuid7

MOST_CHARACTERS = 40_000


def write_runbook(
    *, actor: Actor, tool: str, error_class: str, text: str, expected_version: int, reason: str = ""
) -> dict[str, Any]:
    """Write the next version of a runbook; an empty text takes it away.

    ``tool`` is name@version, a name, or empty for every tool; ``expected_version`` the newest version that was shown,
    0 for none. Written again word by word it is answered as it stands. Returns {tool, error_class, version, replayed}.
    Raises Stale when somebody else wrote a version first, BadInput, PermissionDenied. Verb ``repair.runbook``.
    """
    said = check_reason(reason)
    tool, error_class = tool.strip(), error_class.strip()
    body = text.replace("\r\n", "\n").strip()
    _check(tool, error_class, body)
    authorize(actor, RUNBOOK)

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            rows = Runbook.objects.filter(tool=tool, error_class=error_class).order_by("-version")
            newest = rows.values_list("version", "text").first() or (0, "")
            if newest[1] == body and newest[0]:
                return _answer(tool, error_class, newest[0], replayed=True)
            if newest[0] != expected_version:
                raise _stale(newest[0])
            version = newest[0] + 1
            row = Runbook(
                id=uuid7(), tenant_id=actor.tenant_id, tool=tool, error_class=error_class, version=version, text=body,
                written_by=actor.label, written_at=unit.tx.now(), reason=said,
            )  # fmt: skip
            # Of two that write the same version at once the key lets one through.
            Runbook.objects.bulk_create([row], ignore_conflicts=True)
            if not Runbook.objects.filter(id=row.id).exists():
                raise _stale(version)
            audit.record(
                unit.tx,
                actor=actor,
                verb=RUNBOOK,
                subject_kind="runbook",
                subject_id=f"{tool or '*'} {error_class or '*'}"[:200],
                result="written" if body else "taken_away",
                reason=said,
                details={"version": version, "sha256": digest(body.encode()).hex(), "characters": len(body)},
            )
            return _answer(tool, error_class, version, replayed=False)

    answer: dict[str, Any] = insist(once)
    return answer


def _answer(tool: str, error_class: str, version: int, *, replayed: bool) -> dict[str, Any]:
    return {"tool": tool, "error_class": error_class, "version": version, "replayed": replayed}


def _stale(version: int) -> Stale:
    return Stale(
        f"The runbook is in version {version}.",
        remediation="Read it again, and write what you want to change into that.",
        current_version=version,
    )


def _check(tool: str, error_class: str, text: str) -> None:
    for name, value, most in (("tool", tool, 220), ("error_class", error_class, 40), ("text", text, MOST_CHARACTERS)):
        if len(value) > most:
            raise BadInput(f"At most {most} characters.", where=f"/{name}", remediation="Shorten it.")
        if "\x00" in value or (name != "text" and any(mark.isspace() for mark in value)):
            raise BadInput("That cannot be part of it.", where=f"/{name}", remediation="Leave blanks and controls out.")
