"""Words as filters: states, causes, roles, permissions, problems. ``qd`` carries them too; templates load that one."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.translation import gettext as _

from dashboard.presenters import acts, states, terms
from dashboard.presenters.told import told as told_reason
from runtime.kernel.classes import class_of

register = template.Library()


@register.filter
def state_word(state: str, of: str = "step") -> str:
    """Return a state's word."""
    return states.word(state, of)


@register.filter
def cause_word(cause: str | None) -> str:
    """Return a cause's words."""
    return states.cause_word(cause)


@register.filter
def event_cause(event: dict[str, Any]) -> str:
    """Return the words of an event's cause where its type does not say it."""
    return states.event_cause(event)


@register.filter
def event_subject(event: dict[str, Any]) -> str:
    """Return whose states an event names."""
    return states.event_subject(event)


@register.filter
def told(reason: str | None) -> str:
    """Return a reason of the engine in the reader's language."""
    return told_reason(reason)


@register.filter
def audit_word(name: str, of: str) -> str:
    """Return the word of an act, a subject or a result of the audit."""
    return acts.audit_word(name, of)


@register.filter
def person_name(label: str) -> str:
    """Return a person's name alone."""
    return str(states.person(label)["name"])


@register.filter
def kind_word(kind: str) -> str:
    """Return what a node is."""
    return states.kind_word(kind)


@register.filter
def output_word(kind: str | None) -> str:
    """Return what kind of output something is."""
    return states.output_word(kind)


@register.filter
def role_word(role: str) -> str:
    """Return a role's name."""
    return states.role_word(role)


@register.filter
def term(text: str | None, of: str = "") -> str:
    """Return a word or sentence of the code in the reader's language."""
    return terms.term(text, of)


@register.filter
def problem_word(problem: Any) -> str:
    """Return what kind of problem it is."""
    return terms.problem_word(problem)


@register.filter
def severity_word(severity: str) -> str:
    """Return how grave an alert is."""
    return str({"critical": _("critical"), "warning": _("warning")}.get(severity, severity))


@register.filter
def subject_word(kind: str) -> str:
    """Return what a thing is that an alert is about."""
    words = {
        "operation": _("effect outside"),
        "run": _("run"),
        "step": _("step"),
        "message": _("message"),
        "worker": _("worker"),
        "breaker": _("breaker"),
        "queue": _("queue"),
    }
    return str(words.get(kind, kind))


@register.filter
def class_word(name: str | int) -> str:
    """Return the name of a class of work; of the one that a priority lies in, for a number."""
    words = {
        "production_alert": _("production alert"),
        "interactive": _("interactive"),
        "approval": _("approval"),
        "batch": _("batch"),
        "experiment": _("experiment"),
    }
    key = class_of(name) if isinstance(name, int) else name
    return str(words.get(key, key))


@register.filter
def recovery_word(recovery: str) -> str:
    """Return what a tool's recovery class means for its answers."""
    words = {
        "replayable": _("may be repeated"),
        "idempotent": _("deduplicates by key"),
        "query": _("is asked before a repeat"),
        "compensable": _("can be undone"),
        "human": _("only a person repeats it"),
    }
    return str(words.get(recovery, recovery))
