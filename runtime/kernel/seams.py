"""The seams through which upper apps plug in; each app connects its own in ``wiring.py`` from ``ready()``.

Nothing here knows who registers: the runtime asks the registry, the registry asks whoever is there.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """What a gate says before a step or an operation may go on.

    ``hold``: it waits for an approval. ``park``: it holds, with the reason, until a person has looked and released it.
    """

    verdict: Literal["allow", "hold", "park", "deny"]
    reason: str = ""
    details: dict[str, Any] = field(default_factory=dict)


ALLOW = GateAnswer("allow")


@dataclass(slots=True)
class HoldNews:
    """What a unit of work did to holds for approvals: (run, step) pairs that began to hold or left, and runs that stop.

    In a run that stops (ended, or being cancelled) nothing new starts any more.
    """

    began: list[tuple[Any, Any]] = field(default_factory=list)
    left: list[tuple[Any, Any]] = field(default_factory=list)
    stopping: list[Any] = field(default_factory=list)


# Why a person is needed: kind → what happened, one sentence. The subject of a case is its operation, else its step,
# else its run; there is one open case a subject.
CASE_KINDS: dict[str, str] = {
    "operation_unknown": "An effect may have been applied and nothing automatic can tell.",
    "operation_conflicts": "The outside tells of another effect than the one that was intended.",
    "partially_applied": "An effect was applied in part, and no rule says what becomes of the rest.",
    "compensation_failed": "An effect was to be undone and could not be.",
    "failed_with_effects": "The run failed after effects outside were applied.",
    "late_success": "An effect was applied after the execution had been cancelled or ended.",
    "poison_message": "A message cannot be delivered or handled; it is kept in quarantine.",
    "stuck": "A step or a run is alive and makes no progress.",
    "version_mismatch": "What is to be recovered was written under another version or schema.",
    "invariant_breach": "A numbered invariant does not hold.",
    "run_attention": "The run needs a person and names no effect.",
    "by_hand": "A person opened it.",
}


@dataclass(frozen=True, slots=True)
class CaseNeed:
    """A person is needed, for the subject named here, in the tenant of the open transaction.

    ``facts`` is what is certain and ``doubts`` what is not (name → value or sentence), as ``source`` knows it
    at this moment; values are JSON and hold no payloads. ``fingerprint`` groups cases of one cause; None: by kind, tool
    and error.
    """

    kind: str
    reason: str
    run_id: uuid.UUID | None = None
    step_id: uuid.UUID | None = None
    operation_id: uuid.UUID | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    doubts: dict[str, Any] = field(default_factory=dict)
    source: str = "engine"
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in CASE_KINDS:
            raise ValueError(f"there is no kind of case {self.kind!r}")


@dataclass(frozen=True, slots=True)
class OrderWords:
    """Who stands behind an order that an effect is undone: who asked for it, who looked at it and approved, and when.

    People by their user ids; ``at`` is a time of the database's clock.
    """

    asked_by: int
    approved_by: tuple[int, ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class Duty:
    """A maintenance duty of an app: ``run_once`` returns counts and is called every so many seconds.

    One that waits for others (a tool it asks) runs ``apart``, in a thread of its own.
    """

    name: str
    run_once: Callable[[], object]
    every: float
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a tenant: what it says, its default, and what it takes: one of ``words``, or a number.

    A number is more than 0 and less than ``below``.
    """

    says: str
    default: str | float
    words: tuple[str, ...] = ()
    below: float = 0.0


@dataclass(frozen=True, slots=True)
class Subscriber:
    """Who reads events: under which name, what gets them, and of which types; None: of all."""

    name: str
    handler: Callable[[dict[str, Any]], None]
    types: list[str] | None = None


# Hears of holds inside the transaction that wrote them, after the rows; gets the frame.
HoldListener = Callable[[Any, HoldNews], None]

# A gate gets the question ("operation" or "step"), the transaction under whose locks it is asked, and all the subjects
# of a batch at once; it answers for each, in their order.
Gate = Callable[[str, Any, Sequence[Any]], Sequence[GateAnswer]]
# Names who stands behind an order to undo an effect, by its run and the step that carries it out; None: nobody.
OrderWitness = Callable[[Any, uuid.UUID, uuid.UUID], OrderWords | None]
# Hears of cases a person is needed for, inside the transaction of the change, its runs locked and its rows written.
CaseListener = Callable[[Any, Sequence[CaseNeed]], None]
# Hears of runs that ended or began to need a person, inside the transaction that wrote them; gets it and the runs' ids.
EndListener = Callable[[Any, Sequence[Any]], None]
# Hears which calls were sent under which answers, in the transaction that commits them to be sent.
SendListener = Callable[[Any, Sequence[tuple[Any, GateAnswer]]], None]
# Looks at a checked workflow for what is no mistake and worth telling: {where, detail, remediation}, as mistakes are.
WorkflowCritic = Callable[[Any, Mapping[str, Any]], Sequence[dict[str, str]]]
# Makes a message of the outbox into what is sent, when it is sent; None: it is no longer worth sending.
Composer = Callable[[Any, dict[str, Any]], Any]
# Names where a message goes, by its payload; None: it is a mail. One that fails holds up the messages for it alone.
Destination = Callable[[dict[str, Any]], str | None]

_gates: dict[str, Gate] = {}
_send_listeners: dict[str, SendListener] = {}
_hold_listeners: dict[str, HoldListener] = {}
_case_listeners: dict[str, CaseListener] = {}
_order_witnesses: dict[str, OrderWitness] = {}
_end_listeners: dict[str, EndListener] = {}
_duties: dict[str, Duty] = {}
_composers: dict[str, Composer] = {}
_destinations: dict[str, Destination] = {}
_subscribers: dict[str, Subscriber] = {}
_subjects: dict[str, Callable[..., Any]] = {}
_verbs: dict[str, str] = {}
_acts: set[str] = set()
_settings: dict[str, Setting] = {}
_benches: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}
_policies: dict[str, str] = {}
_workflow_critics: dict[str, WorkflowCritic] = {}
_asker: Callable[..., Any] | None = None


def register_gate(name: str, gate: Gate) -> None:
    """Register a synchronous question that is asked before a step or operation goes on."""
    _gates[name] = gate


def ask_gates(question: str, tx: Any, subjects: Sequence[Any]) -> list[GateAnswer]:
    """Ask every gate about every subject; of a subject's answers deny wins over park, then hold, then allow."""
    asked = [gate(question, tx, subjects) for gate in _gates.values()]
    return [_strictest(answers) for answers in zip(*asked, strict=True)] if asked else [ALLOW] * len(subjects)


def _strictest(answers: Sequence[GateAnswer]) -> GateAnswer:
    for verdict in ("deny", "park", "hold"):
        for answer in answers:
            if answer.verdict == verdict:
                return answer
    details = {name: value for answer in answers for name, value in answer.details.items()}
    return GateAnswer("allow", details=details) if details else ALLOW


def register_send_listener(name: str, listener: SendListener) -> None:
    """Hear of calls that are about to be sent, with the gates' answers that let them."""
    _send_listeners[name] = listener


def tell_sent(tx: Any, sent: Sequence[tuple[Any, GateAnswer]]) -> None:
    """Tell every listener of calls that the open transaction commits to be sent."""
    for listener in _send_listeners.values():
        listener(tx, sent)


def register_order_witness(name: str, witness: OrderWitness) -> None:
    """Name the people behind orders that effects are undone, for whoever asks for their approval."""
    _order_witnesses[name] = witness


def order_words(tx: Any, run_id: uuid.UUID, step_id: uuid.UUID) -> OrderWords | None:
    """Return who stands behind the order that a step carries out; None where the engine or one person ordered it."""
    found = (witness(tx, run_id, step_id) for witness in _order_witnesses.values())
    return next((words for words in found if words is not None), None)


def register_hold_listener(name: str, listener: HoldListener) -> None:
    """Hear of steps that begin or stop to hold for an approval, inside the transaction that moves them."""
    _hold_listeners[name] = listener


def tell_holds(frame: Any, news: HoldNews) -> None:
    """Tell every listener what became of holds; called once the frame's rows are written."""
    for listener in _hold_listeners.values():
        listener(frame, news)


def register_case_listener(name: str, listener: CaseListener) -> None:
    """Hear that a person is needed, inside the transaction of the change that needs one (C8.4)."""
    _case_listeners[name] = listener


def need_cases(tx: Any, needs: Sequence[CaseNeed]) -> None:
    """Ask for a person; call it after the rows are written. Asked again about an open case, it adds what is new.

    A unit of work on runs says ``machine.needs.need_case`` instead: ``Frame.flush`` tells it here.
    """
    if needs:
        for listener in _case_listeners.values():
            listener(tx, needs)


def register_end_listener(name: str, listener: EndListener) -> None:
    """Hear of runs that ended or began to need a person, inside the transaction of that change (A4.5)."""
    _end_listeners[name] = listener


def tell_ends(tx: Any, run_ids: Sequence[Any]) -> None:
    """Tell every listener which runs ended or began to need a person; called once their rows are written."""
    if run_ids:
        for listener in _end_listeners.values():
            listener(tx, run_ids)


def register_duty(name: str, run_once: Callable[[], object], every: float, *, apart: bool = False) -> None:
    """Let the scheduler call ``run_once`` every so many seconds, ``apart`` in a thread of its own."""
    _duties[name] = Duty(name, run_once, every, apart)


def duties() -> list[Duty]:
    """Return the registered duties."""
    return list(_duties.values())


def register_composer(topic: str, composer: Composer, destination: Destination | None = None) -> None:
    """Say how a message of ``topic`` in the outbox is made into what is sent, and where it goes.

    ``destination`` names that from the payload alone; without one all of the topic are mails.
    """
    _composers[topic] = composer
    if destination is not None:
        _destinations[topic] = destination


def composer_of(topic: str) -> Composer:
    """Return who makes messages of ``topic``. Raises KeyError when nobody does."""
    return _composers[topic]


def destination_of(topic: str, payload: dict[str, Any]) -> str | None:
    """Return the name of where a message goes; None: it is a mail. Raises whatever who registered it raises."""
    return _destinations[topic](payload) if topic in _destinations else None


def subscribe(name: str, handler: Callable[[dict[str, Any]], None], types: Iterable[str] | None = None) -> None:
    """Let ``handler`` have every event (of ``types``) of every tenant, behind a cursor stored under ``name``.

    A handler gets one event as a dict: the columns of the ledger, ``tenant_id`` and ``event_id``. It gets a tenant's in
    the order of the stream, those of a run by ``seq``; the next one only when it has returned. It is called in the
    scheduler, in the transaction that moves the cursor, of that tenant: what it writes there is written once. What it
    does outside is done at least once: after a crash it gets the event again, under the same ``event_id``, and leaves
    out what it has done for that. One that raises gets the same event again, later and later; its other tenants and the
    other subscribers go on, and an alert tells of it. What takes more than seconds belongs into the outbox.
    Raises ValueError for a name of more than 60 characters.
    """
    if not 0 < len(name) <= 60:
        raise ValueError(f"a subscriber's name has 1 to 60 characters: {name!r}")
    _subscribers[name] = Subscriber(name, handler, None if types is None else sorted(types))


def subscribers() -> list[Subscriber]:
    """Return the registered subscribers."""
    return list(_subscribers.values())


def register_policy(name: str, query: str) -> None:
    """Bind a policy of an app to every new run (C4.8).

    ``query`` names the query whose one row is a text that stands for what is in force in the tenant; no row: nothing.
    It is a query and not a call, so that all of them are asked in one round trip.
    """
    _policies[name] = query


def policies() -> dict[str, str]:
    """Return the registered policies: name → named query."""
    return dict(_policies)


def register_workflow_critic(name: str, critic: WorkflowCritic) -> None:
    """Look at workflows when they are registered, checked or read, beside what the runtime refuses (C5.3)."""
    _workflow_critics[name] = critic


def workflow_warnings(tx: Any, document: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return what every critic says of a checked workflow, in the tenant of the open transaction, as of now."""
    return [one for critic in _workflow_critics.values() for one in critic(tx, document)]


def register_subject(kind: str, resume: Callable[..., Any]) -> None:
    """Let approvals hold something of ``kind`` without importing its app; ``resume`` goes on with it."""
    _subjects[kind] = resume


def resume_subject(kind: str, **arguments: Any) -> Any:
    """Go on with a held subject. Raises KeyError when nobody registered ``kind``."""
    return _subjects[kind](**arguments)


def register_bench(name: str, measure: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Let ``manage.py bench NAME`` measure something of an app: options in, the line to print out."""
    _benches[name] = measure


def benches() -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
    """Return the registered benchmarks by name."""
    return dict(_benches)


def register_asker(asker: Callable[..., Any]) -> None:
    """Say who asks people about subjects (the approvals app)."""
    global _asker
    _asker = asker


def ask_people(**arguments: Any) -> Any:
    """Ask people to decide on a subject of a registered kind, in the caller's transaction; returns the request's id.

    ``tx, kind, subject_id, title, payload, requested_by`` and the terms (role, quorum, separation, expires_s, risk);
    see ``approvals.subjects.ask_about``. The decision comes by the ``resume`` that was registered for the kind:
    ``resume(tx=, subject_id=, granted=, actor=, request_id=, reason=)``, in the deciding transaction. Raises KeyError
    for a kind nobody registered, RuntimeError when no app asks people.
    """
    if arguments["kind"] not in _subjects:
        raise KeyError(arguments["kind"])
    if _asker is None:
        raise RuntimeError("no app asks people")
    return _asker(**arguments)


def register_verbs(verbs: dict[str, str]) -> None:
    """Declare permissions: verb → what it allows, one sentence."""
    _verbs.update(verbs)


def known_verbs() -> dict[str, str]:
    """Return every declared verb with its sentence."""
    return dict(_verbs)


def register_acts(acts: Iterable[str]) -> None:
    """Declare what the audit names beside verbs: acts that one verb permits and the audit tells apart."""
    _acts.update(acts)


def known_acts() -> frozenset[str]:
    """Return every name under which an act may stand in the audit: declared acts and all verbs."""
    return frozenset(_acts) | frozenset(_verbs)


def register_settings(settings: dict[str, Setting]) -> None:
    """Declare settings of tenants by their dotted name, the path in the JSON of ``qd_tenant.settings``."""
    _settings.update(settings)


def known_settings() -> dict[str, Setting]:
    """Return every declared setting of tenants by its dotted name."""
    return dict(_settings)
