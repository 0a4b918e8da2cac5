"""A program's own action: it asks, people decide, it carries the action out itself, once, and reports (C5.3, C8.5).

What runs in a workflow is asked about by the hold and used by the gate. A program that runs elsewhere asks here, under
a key of its own, so that a restart finds its request by what it asked and not by when. Its grant is used by
``approvals.actions.using``.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from approvals.actions.handling import standing
from approvals.asked import Asked, lock_request
from approvals.errors import NotUsable
from approvals.law import RISKS
from approvals.people import ADMIN, role_of
from approvals.policies import under_policy
from approvals.rendering import Call, Rendered, evidence_of
from approvals.terms import EXPIRES_SECONDS, START_SECONDS, Terms
from approvals.verbs import ASK
from approvals.writing import About, note, record_act, write_request
from runtime.access.authorize import authorize
from runtime.access.roles import ROLES
from runtime.actions.acting import insist
from runtime.actions.base import check_reason, frame
from runtime.actions.references import keep_references
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import digest
from runtime.kernel.errors import BadInput, NotFound, PermissionDenied, QuarterdeckError, RequestKeyConflict
from runtime.kernel.unseen import is_blank
from runtime.machine.frame import Frame
from runtime.queries.base import parsed
from runtime.store.tx import Tx
from runtime.tools.calls import prepare
from runtime.tools.contract import ToolContract, check_contract, parse_reference
from runtime.tools.registry import tool_of

EXTERNAL = "external"
ACTION = "action"
# The note on a request that keeps on which terms it was asked for.
ASKED = "ask"
_SEP = ":"
# Between whose key it is, by a number, and which proposal, so that no key is ever another's.
_EDITED = "/"
MAX_KEY = 150
MAX_TITLE = 300


@dataclass(frozen=True, slots=True)
class OwnAction:
    """What a program would do: ``tool`` as name@version, JSON arguments, and what it changes in which version."""

    tool: str
    arguments: Any
    target: str | None = None
    target_version: str | None = None


def ask_own(
    *,
    actor: Actor,
    key: str,
    action: OwnAction,
    title: str,
    goal: str = "",
    role: str = "approver",
    quorum: int = 1,
    risk: str = "",
    expires_s: float = EXPIRES_SECONDS,
    start_within_s: float = START_SECONDS,
    evidence: Sequence[dict[str, str]] = (),
) -> dict[str, Any]:
    """Ask people for one action that the asker carries out itself; returns the request as it stands.

    {approval_id, state, version, action_hash, payload_hash, role, deadline, …, replayed}. ``action_hash`` (hex) is the
    digest that the grant binds and that using it quotes. The same key with the same action, words and terms finds its
    request, however it was decided; with others it raises RequestKeyConflict, which names what differs.
    A tool that is registered is asked about by its contract; of another the worst is presumed. Times in seconds;
    ``risk`` is a floor. ``evidence`` are uploaded artifacts {artifact_id, sha256} that people decide by: they are
    shown, bound by their hashes, and kept. Raises BadInput, SchemaMismatch (the tool does not take the arguments),
    NotUsable (the tenant's policy denies it). Verb ``approval.ask``; nobody decides their own.
    """
    authorize(actor, ASK)
    if actor.user_id is None:
        raise PermissionDenied("Only a member's own identity asks for its own actions.", verb=ASK)
    _check(key, title, role, quorum, risk)
    words = check_reason(goal)
    terms = Terms(role=role, quorum=quorum, expires_s=expires_s, start_within_s=start_within_s)
    said = {"role": role, "quorum": quorum, "risk": risk, "expires_s": expires_s, "start_within_s": start_within_s}

    def once() -> dict[str, Any]:
        with frame(actor) as unit:
            keep_references(unit.tx, list(evidence), "/evidence")
            rendered = _rendered(unit.tx, actor, key, action, title.strip(), words, risk, evidence)
            shown = [one["sha256"] for one in evidence]
            asked_for = {"title": rendered.title, "goal": digest(words.encode()).hex(), "evidence": shown, **said}
            return _ask(unit, actor, key, rendered, terms, asked_for)

    answer: dict[str, Any] = insist(once)
    return answer


def _ask(unit: Frame, actor: Actor, key: str, rendered: Rendered, terms: Terms, said: dict[str, Any]) -> dict[str, Any]:
    tx = unit.tx
    subject = f"{actor.user_id}{_SEP}{key}"
    if (before := tx.one("approval_of_key", (subject,))) is not None:
        return _replayed(unit, before[0], rendered, said)
    now = tx.now()
    terms = under_policy(tx, rendered, terms, "", EXTERNAL, now=now, refuse_denied=True)
    about = About(kind="subject", node=ACTION, subject_kind=EXTERNAL, subject_id=subject)
    request_id = write_request(tx, about, terms, rendered, now)
    if request_id is None:
        # Somebody else with this identity asked under the key in the same moment, and has committed by now.
        row = tx.one("approval_of_key", (subject,))
        assert row is not None, "one request a key"
        return _replayed(unit, row[0], rendered, said)
    asked = lock_request(unit, request_id)
    note(tx, request_id, ASKED, actor.label, details=said)
    details = {"tool": rendered.calls[0].tool, "key": key, "action_hash": bytes(asked.action_sha256).hex()}
    record_act(tx, actor, ASK, asked, result="asked", reason=rendered.goal, details=details)
    return told(asked, replayed=False)


def _replayed(unit: Frame, request_id: uuid.UUID, rendered: Rendered, said: dict[str, Any]) -> dict[str, Any]:
    asked = lock_request(unit, request_id)
    if bytes(asked.action_sha256) != rendered.action_sha256:
        raise RequestKeyConflict(
            "This key asked for another action before.",
            where="header Idempotency-Key",
            remediation="Ask for another action under another key.",
            **asked.there(),
            current_action_hash=bytes(asked.action_sha256).hex(),
        )
    if differs := _differences(unit.tx, request_id, said):
        raise RequestKeyConflict(
            f"This key asked for the same action before, with another {' and another '.join(differs)}.",
            where=f"/{differs[0]}",
            remediation="Send what was sent before, or ask on other terms under another key.",
            **asked.there(),
            differs=differs,
        )
    return told(asked, replayed=True)


def _differences(tx: Tx, request_id: uuid.UUID, said: dict[str, Any]) -> list[str]:
    """Return the names of what was asked for otherwise; of a request older than this note, nothing."""
    row = tx.one("approval_terms_asked", (request_id,))
    if row is None:
        return []
    before = parsed(row[0])
    return [name for name, value in said.items() if before.get(name) != value]


def lock_own(unit: Frame, actor: Actor, request_id: uuid.UUID, *, or_admin: bool = False) -> Asked:
    """Lock a request for an own action of the actor's, or of anybody's for an admin where ``or_admin`` says so.

    Raises NotFound, NotUsable for what a workflow asks for, PermissionDenied.
    """
    asked = lock_request(unit, request_id)
    if asked.subject_kind != EXTERNAL:
        mend = "What a workflow asks for is used by its own step."
        raise NotUsable("It is no program's own action.", remediation=mend, **asked.there())
    if not asks_for(actor, asked) and not (or_admin and role_of(actor) == ADMIN):
        mend = "Ask for the action yourself."
        raise PermissionDenied(f"It is an action of {asked.requested_by}.", verb=ASK, remediation=mend)
    return asked


def asks_for(actor: Actor, asked: Asked) -> bool:
    """Say whether it is the very identity that asked, whatever it is called by now: names change hands."""
    return (asked.subject_id or "").partition(_SEP)[0].partition(_EDITED)[0] == str(actor.user_id)


def proposal_of(subject: str, version: int) -> str:
    """Return under which id an edited proposal stands: the key finds the first one, whatever became of it since."""
    whose, sep, key = subject.partition(_SEP)
    return f"{whose.partition(_EDITED)[0]}{_EDITED}{version}{sep}{key}"


def told(asked: Asked, *, replayed: bool) -> dict[str, Any]:
    """Return a request as its asker is told of it."""
    return {**standing(asked), "action_hash": bytes(asked.action_sha256).hex(), "replayed": replayed}


def _rendered(
    tx: Tx,
    actor: Actor,
    key: str,
    action: OwnAction,
    title: str,
    goal: str,
    risk: str,
    evidence: Sequence[dict[str, str]],
) -> Rendered:
    contract = contract_of(tx, action.tool)
    try:
        data = prepare(contract, action.arguments)
    except QuarterdeckError as problem:
        problem.where = f"/action/arguments{(problem.where or '').removeprefix('/arguments')}"
        raise
    rendered = Rendered(actor.label, title, goal, declared_risk=risk)
    rendered.calls.append(
        Call(
            node=ACTION,
            tool=contract.reference,
            contract_sha256=contract.digest,
            business_key=key,
            arguments=orjson.loads(data),
            arguments_sha256=digest(data),
            contract=contract,
        )
    )
    rendered.target, rendered.target_version = action.target, action.target_version
    rendered.evidence = evidence_of(tx, list(evidence))
    rendered.seal()
    return rendered


def contract_of(tx: Tx, tool: str) -> ToolContract:
    """Return the contract of a registered tool; of another one the worst. Raises BadInput for no name@version."""
    try:
        name, version = parse_reference(tool)
        try:
            return tool_of(tx, tool).contract
        except NotFound:
            return check_contract({**_PRESUMED, "name": name, "version": version})
    except BadInput as problem:
        problem.where = "/action/tool"
        raise


# Of a tool that nobody described the worst is presumed: it cannot be undone, looked up or sent twice.
_PRESUMED: dict[str, Any] = {
    "adapter": "python",
    "config": {"callable": "runtime.tools.builtin:echo"},
    "input_schema": {},
    "side_effect": "write",
    "recovery": "human",
}


def _check(key: str, title: str, role: str, quorum: int, risk: str) -> None:
    if not 1 <= len(key) <= MAX_KEY or not key.isprintable():
        mend = "Send a UUID, or what names the action in your program."
        where = "header Idempotency-Key"
        raise BadInput(f"A key has 1 to {MAX_KEY} printable characters.", where=where, remediation=mend)
    if is_blank(title) or len(title.strip()) > MAX_TITLE or not title.isprintable():
        mend = "Say in a line what is to be decided."
        raise BadInput(f"A title has 1 to {MAX_TITLE} printable characters.", where="/title", remediation=mend)
    if role not in ROLES:
        mend = f"Choose from: {', '.join(sorted(ROLES))}."
        raise BadInput(f"There is no role {role[:60]!r}.", where="/role", remediation=mend)
    if not 1 <= quorum <= 20:
        raise BadInput("From 1 to 20 people approve.", where="/quorum", remediation="Name a smaller number.")
    if risk and risk not in RISKS:
        mend = f"Choose from: {', '.join(RISKS)}."
        raise BadInput(f"There is no risk {risk[:60]!r}.", where="/risk", remediation=mend)


def resume_own(*, tx: Tx, **decided: Any) -> None:
    """Nothing goes on by the decision alone: its asker waits for it and uses the grant (the seam calls it)."""


__all__ = ["EXTERNAL", "OwnAction", "ask_own", "asks_for", "contract_of", "lock_own", "resume_own", "told"]
