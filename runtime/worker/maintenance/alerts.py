"""Alert rules: what is wrong now, grouped; told after a grace, closed quietly when it heals (A9.9).

Each round compares what the rules find with the alerts that are open. Nothing is told twice, and what heals within the
grace is told to nobody.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson
from django.utils.translation import gettext
from django.utils.translation import gettext as _

from runtime.actions.notices import secret_of
from runtime.kernel import seams
from runtime.kernel.conf import conf
from runtime.kernel.errors import QuarterdeckError
from runtime.kernel.ids import uuid7
from runtime.kernel.messages import Mail, Webhook
from runtime.kernel.words import in_words
from runtime.queries.classes import classes_in, late_steps
from runtime.store import directory
from runtime.store.languages import in_their_languages
from runtime.store.links import page_link
from runtime.store.tx import Tx, plain_tx, tenant_tx
from runtime.tools.registry import tool_of
from runtime.worker.maintenance.each import attempt

TOPIC = "alert.opened"
FAILED_WINDOW_SECONDS = 900.0
OUTBOX_OLD_SECONDS = 600.0
SUBSCRIBER_OLD_SECONDS = 60.0
# Alerts that a duty opens when it mends something: nothing is wrong any more, and it is told all the same.
STRANDED, RECOVERY_POINT = TOLD_BY_DUTIES = "stranded_runs:", "recovery_point:"
# The rules whose alerts are grouped by a tool: told to its owner too.
ABOUT_TOOLS = frozenset({"unknown_operations", "circuit_open"})
ON_CALL = "oncall"
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Whole:
    """What concerns every tenant: workers lost, steps that wait in all, write transactions that are open for long."""

    lost: list[tuple[Any, ...]]
    waiting: int
    long_writes: list[tuple[Any, ...]]


@dataclass(slots=True)
class Finding:
    """Things of one kind that are wrong now, and what they are called together."""

    rule: str
    severity: str
    what: str
    subjects: list[dict[str, Any]] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.what[:280]} ({len(self.subjects)})"

    def shown(self) -> str:
        return orjson.dumps(self.subjects[:_SHOWN]).decode()


class _Found(dict[str, Finding]):
    """Findings by fingerprint."""

    def add(self, group: str, rule: str, severity: str, what: str, subject: dict[str, Any]) -> None:
        """Count one more of a group."""
        fingerprint = f"{rule}:{group}"[:300]
        if fingerprint not in self:
            self[fingerprint] = Finding(rule, severity, what)
        self[fingerprint].subjects.append(subject)


def evaluate() -> dict[str, int]:
    """Look at every tenant once; returns counts of alerts opened, closed and told."""
    counts = {"opened": 0, "closed": 0, "told": 0}
    with plain_tx() as tx:
        lost = tx.rows("alert_lost_workers")
        waiting = tx.rows("backlog", (conf().queue_high_water + 1,))[0][0]
    whole = Whole(lost, waiting, _long_writes())
    for tenant in directory.all_tenants():
        if not tenant.suspended:
            attempt("alerts", tenant.id, partial(_look, tenant.id, whole, counts))
    return counts


def _long_writes() -> list[tuple[Any, ...]]:
    """Return write transactions that are open for long: (pid, its program, state, when it began, seconds).

    The server hides from a role when others began theirs, so it is asked as the login that all of our processes have.
    """
    with plain_tx() as tx:
        tx.send("as_login")
        return tx.rows("alert_long_writes", (conf().long_write_seconds,))


def _look(tenant_id: uuid.UUID, whole: Whole, counts: dict[str, int]) -> int:
    """Look at one tenant; what was done is added to ``counts`` once it is committed."""
    here = dict.fromkeys(counts, 0)
    with tenant_tx(tenant_id) as tx:
        _compare(tx, _findings(tx, whole), here)
        here["told"] = _tell(tx)
    for name, count in here.items():
        counts[name] += count
    return sum(here.values())


def _findings(tx: Tx, whole: Whole) -> _Found:
    found = _Found()
    for operation_id, run_id, key, tool in tx.rows("alert_unknown_operations"):
        subject = _subject("operation", operation_id, run_id, key)
        found.add(tool, "unknown_operations", "critical", f"Effects of unknown outcome: {tool}", subject)
    for run_id, workflow, evidence in tx.rows("alert_attention"):
        subject = _subject("run", run_id, run_id, evidence or "")
        found.add(workflow, "needs_attention", "critical", f"Runs that need attention: {workflow}", subject)
    for run_id, workflow, node, kind, message in tx.rows("alert_failed_runs", (FAILED_WINDOW_SECONDS,)):
        where, subject = (
            f"{workflow}, step {node}" if node else workflow,
            _subject("run", run_id, run_id, message or ""),
        )
        found.add(
            f"{where}:{kind or ''}", "failed_runs", "warning", f"Failed runs: {where}, {kind or 'ended'}", subject
        )
    for step_id, run_id, node, _age in tx.rows("alert_old_steps", (conf().queue_old_seconds,)):
        subject = step_subject(step_id, run_id, node)
        found.add("", "queue_old", "warning", "Steps that are ready and are not started", subject)
    for one in late_steps(tx, classes_in(tx)):
        subject, name = step_subject(one["step_id"], one["run_id"], one["node"]), one["class"].replace("_", " ")
        found.add(one["class"], "class_late", "warning", f"Steps past the start their class aims at: {name}", subject)
    for message_id, topic, error in tx.rows("alert_outbox_old", (OUTBOX_OLD_SECONDS,)):
        subject = _subject("message", message_id, None, f"{topic}: {error or 'not tried yet'}")
        found.add("", "outbox_old", "warning", "Messages that do not leave", subject)
    for message_id, topic, reason in tx.rows("alert_quarantined"):
        subject = _subject("message", message_id, None, f"{topic}: {reason}")
        found.add(topic, "quarantined", "warning", f"Messages in quarantine: {topic}", subject)
    for session_id, host, pid, reason in whole.lost:
        subject = _subject("worker", session_id, None, f"process {pid}: {reason}")
        if reason == "no_progress":
            found.add(host, "worker_stalled", "critical", f"Workers alive without progress: {host}", subject)
        else:
            found.add(host, "worker_lost", "critical", f"Workers lost and not replaced: {host}", subject)
    for breaker_id, tool, error_class, failures in tx.rows("alert_open_breakers"):
        subject = _subject("breaker", breaker_id, None, f"{error_class}: {failures} failures")
        found.add(tool, "circuit_open", "warning", f"Calls held back, the tool keeps failing: {tool}", subject)
    _add_stuck_subscribers(tx, found)
    for pid, program, state, began, seconds in whole.long_writes:
        which = uuid.uuid5(uuid.NAMESPACE_OID, f"{pid} {began}")
        subject = _subject("transaction", which, None, f"process {pid} ({program}), {state}: {seconds:.0f} s")
        found.add("", "long_write", "warning", "Write transactions that stay open", subject)
    _add_backlog(tx, found, whole.waiting)
    return found


def _add_stuck_subscribers(tx: Tx, found: _Found) -> None:
    """Warn when a subscriber has stood before one and the same event for long."""
    for one in seams.subscribers():
        wanted = {"name": f"{one.name}/{tx.tenant_id}", "old": SUBSCRIBER_OLD_SECONDS, "types": one.types}
        for run_id, seq, kind in tx.rows("stuck_subscriber", wanted):
            subject = _subject("run", run_id, run_id, f"event {seq}: {kind}")
            found.add(one.name, "subscriber_stuck", "warning", f"Events that are not handled: {one.name}", subject)


def _add_backlog(tx: Tx, found: _Found, waiting: int) -> None:
    """Warn when the tenant's own queue, or everybody's, is so long that low priority is refused already."""
    own = tx.rows("own_backlog", {"most": conf().tenant_high_water + 1})[0][0]
    if own >= conf().tenant_high_water / 2 or waiting >= conf().queue_high_water / 2:
        subject = _subject("queue", tx.tenant_id or uuid.UUID(int=0), None, f"steps of this tenant that wait: {own}")
        found.add("", "queue_full", "warning", "So much waits that new work is refused, low priority first", subject)


def _subject(kind: str, subject_id: uuid.UUID, run_id: uuid.UUID | None, label: str) -> dict[str, Any]:
    return {"kind": kind, "id": str(subject_id), "run_id": str(run_id) if run_id else None, "label": label[:200]}


def _compare(tx: Tx, found: dict[str, Finding], counts: dict[str, int]) -> None:
    now = tx.now()
    gone: list[uuid.UUID] = []
    for alert_id, fingerprint, count, subjects, first_at, last_at in tx.rows("alerts_open"):
        finding = found.pop(fingerprint, None)
        if finding is None:
            if fingerprint.startswith(TOLD_BY_DUTIES) and (now - last_at).total_seconds() < FAILED_WINDOW_SECONDS:
                continue
            gone.append(alert_id)
            continue
        known = {one["id"] for one in (orjson.loads(subjects) if isinstance(subjects, str | bytes) else subjects)}
        fresh = any(one["id"] not in known for one in finding.subjects[:_SHOWN])
        if fresh or count != len(finding.subjects):
            last = now if fresh or len(finding.subjects) > count else first_at
            tx.send("alert_update", (finding.title, finding.shown(), len(finding.subjects), last, alert_id))
    for fingerprint, finding in found.items():
        open_alert(tx, fingerprint, finding)
        counts["opened"] += 1
    if gone:
        tx.send("alerts_close", (gone,))
        counts["closed"] += len(gone)


def open_alert(tx: Tx, fingerprint: str, finding: Finding) -> None:
    """Open an alert; one that is open already stays as it is."""
    now = tx.now()
    tx.send(
        "alert_insert",
        (
            uuid7(), tx.tenant_id, fingerprint, finding.rule, finding.severity, finding.title, finding.shown(),
            len(finding.subjects), now, now,
        ),
    )  # fmt: skip


def add_to_alert(tx: Tx, fingerprint: str, finding: Finding) -> None:
    """Open an alert, or put more subjects in front of those of the one that is open, which is then told again."""
    for alert_id, known, count, subjects, *_times in tx.rows("alerts_open"):
        if known == fingerprint:
            fresh = len(finding.subjects)
            finding.subjects += orjson.loads(subjects) if isinstance(subjects, str | bytes) else subjects
            title, shown = f"{finding.what[:280]} ({count + fresh})", finding.shown()
            tx.send("alert_widen", (title, shown, count + fresh, tx.now(), alert_id))
            return
    open_alert(tx, fingerprint, finding)


def step_subject(step_id: uuid.UUID, run_id: uuid.UUID, node: str) -> dict[str, Any]:
    """Return a step as an alert names it."""
    return _subject("step", step_id, run_id, node)


def _tell(tx: Tx) -> int:
    """Write the messages of alerts that have stood for the grace: to targets, else to those on call, and to owners."""
    due = tx.rows("alerts_to_tell", (conf().alert_grace_seconds,))
    if not due:
        return 0
    targets = tx.rows("notice_targets")
    now = tx.now()
    for alert_id, rule, fingerprint, count in due:
        wanted = [(row[0], row[1]) for row in targets if _wants(row[3], rule)]
        for target_id, kind in wanted if targets else [(None, "mail")]:
            payload: dict[str, Any] = {
                "alert_id": str(alert_id),
                "target_id": str(target_id) if target_id else None,
                "kind": kind,
            }
            if fingerprint.startswith(TOLD_BY_DUTIES):
                # What was added to it is told under a name of its own, or its receiver would take it for told.
                payload["count"] = count
            tx.send("outbox_insert", (uuid7(), tx.tenant_id, uuid7(), TOPIC, orjson.dumps(payload).decode(), now))
        if (owner := _owner(tx, rule, fingerprint)) is not None and (targets or owner != ON_CALL):
            payload = {"alert_id": str(alert_id), "target_id": None, "kind": "mail", "owner": owner}
            tx.send("outbox_insert", (uuid7(), tx.tenant_id, uuid7(), TOPIC, orjson.dumps(payload).decode(), now))
    return len(due)


def _owner(tx: Tx, rule: str, fingerprint: str) -> str | None:
    """Return who answers for the tool that an alert groups by, by its contract; None: nobody, or it is about no tool.

    A team's name reaches nobody by mail: it is shown where the tool is.
    """
    if rule not in ABOUT_TOOLS:
        return None
    try:
        owner = tool_of(tx, fingerprint.partition(":")[2]).contract.owner
    except QuarterdeckError:
        return None
    return owner if owner and tx.rows("addresses_of_owner", {"owner": owner}) else None


def _wants(rules: Any, rule: str) -> bool:
    chosen = orjson.loads(rules) if isinstance(rules, str | bytes) else rules
    return chosen is None or rule in chosen


def compose(tx: Tx, payload: dict[str, Any]) -> list[Mail] | Webhook | None:
    """Make the message of one alert for one target; None when it has healed or the target is gone."""
    row = tx.one("alert_for_message", (uuid.UUID(payload["alert_id"]),))
    if row is None or row[8] is not None:
        return None
    link = page_link(tx, "/alerts/")
    if payload["target_id"] is None:
        owner = payload.get("owner")
        rows = tx.rows("addresses_of_owner", {"owner": owner}) if owner else tx.rows("addresses_of_role", (ON_CALL,))
        return in_their_languages(tx, [address for (address,) in rows], lambda to: _mail(to, row, link))
    target_id = uuid.UUID(payload["target_id"])
    target = tx.one("notice_target", (target_id,))
    if target is None:
        return None
    if target[0] == "mail":
        return in_their_languages(tx, [target[1]], lambda to: _mail(to, row, link))
    name = f"alert_{row[0].hex}_{target_id.hex[:12]}" + (f"_{payload['count']}" if "count" in payload else "")
    return _webhook(target_id, target[1], row, link, name)


def destination(payload: dict[str, Any]) -> str | None:
    """Name the webhook that an alert is told to; None: it is told by mail."""
    mail = payload["target_id"] is None or payload.get("kind") == "mail"
    return None if mail else f"target:{payload['target_id']}"


def _mail(to: list[str], row: tuple[Any, ...], link: str) -> Mail:
    subjects, title = _shown(row), in_words(row[3])
    about = [f"- {gettext(one['kind'])} {one['id']} {in_words(one['label'])}" for one in subjects]
    if row[5] > len(subjects):
        about.append(_("- … %(n)d in all") % {"n": row[5]})
    since = _("Since %(time)s UTC") % {"time": row[6].strftime("%Y-%m-%d %H:%M:%S")}
    text = "\n".join([title, "", *about, "", since, "", link])
    subject = f"[{gettext(row[2])}] {' '.join(title.split())}"[:200]
    return Mail(to=to, subject=subject, text=text, thread=f"alert.{row[0]}")


def _webhook(target_id: uuid.UUID, url: str, row: tuple[Any, ...], link: str, name: str) -> Webhook:
    data = {
        "id": row[0],
        "rule": row[1],
        "severity": row[2],
        "title": row[3],
        "subjects": _shown(row),
        "count": row[5],
        "first_at": row[6],
        "last_at": row[7],
        "link": link,
    }
    body = orjson.dumps({"type": TOPIC, "timestamp": row[6], "data": data}, default=str, option=orjson.OPT_UTC_Z)
    return Webhook(url=url, secret=secret_of(target_id), message_id=name, body=body)


def _shown(row: tuple[Any, ...]) -> list[dict[str, Any]]:
    value: list[dict[str, Any]] = orjson.loads(row[4]) if isinstance(row[4], str | bytes) else row[4]
    return value


seams.register_composer(TOPIC, compose, destination)
