"""The forms of what is done with a request beside deciding it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from approvals.groups import MANAGER, asked_of_group
from dashboard.presenters.states import role_word
from runtime.kernel.canonical import parse_strict
from runtime.kernel.errors import QuarterdeckError
from runtime.kernel.unseen import escaped

SPANS = {
    "3600": _("for 1 hour"),
    "28800": _("for 8 hours"),
    "86400": _("for 1 day"),
    "259200": _("for 3 days"),
    "604800": _("for 7 days"),
}


def _reason(required: bool = True) -> forms.CharField:
    return forms.CharField(
        label=_("Reason"), max_length=2000, required=required,
        widget=forms.Textarea(attrs={"class": "in", "rows": 2, "placeholder": _("Kept in the audit.")}),
        error_messages={"required": _("Say why, in one sentence.")},
    )  # fmt: skip


class ReviewLimitsForm(forms.Form):
    """How much one person reviews; an empty field bounds nothing."""

    most_held = forms.IntegerField(min_value=1, max_value=10_000, required=False)
    most_decided = forms.IntegerField(min_value=1, max_value=10_000, required=False)


class ReasonForm(forms.Form):
    """Why, and nothing else."""

    reason = _reason()


class ClaimForm(forms.Form):
    """Nothing is asked: one takes it on, or gives it back."""


class DelegateForm(forms.Form):
    """To whom."""

    to = forms.CharField(
        label=_("To"), max_length=150,
        widget=forms.TextInput(attrs={"class": "in", "list": "members", "autocomplete": "off"}),
        error_messages={"required": _("Name a member who shall decide it.")},
    )  # fmt: skip
    reason = _reason()


class ExtendForm(forms.Form):
    """How long from now."""

    seconds = forms.ChoiceField(
        label=_("From now"), choices=list(SPANS.items()), initial="86400", widget=forms.Select(attrs={"class": "in"})
    )
    reason = _reason()

    def clean_seconds(self) -> float:
        """Return the seconds as a number."""
        return float(self.cleaned_data["seconds"])


class EscalateForm(forms.Form):
    """Whom to ask; by default whoever is next."""

    role = forms.ChoiceField(label=_("Ask"), required=False, widget=forms.Select(attrs={"class": "in"}))
    reason = _reason()

    def __init__(self, *args: Any, roles: Iterable[str], groups: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        ranks = sorted(((name, role_word(name)) for name in roles), key=lambda pair: pair[1])
        manager = (MANAGER, _("the manager of who has it, else of who asked"))
        others = [(wanted, role_word(wanted)) for wanted in map(asked_of_group, groups)]
        self.fields["role"].choices = [("", _("whoever is next")), *ranks, manager, *others]  # type: ignore[attr-defined]


class ProposeForm(forms.Form):
    """Other arguments, as strict JSON: what would not survive exactly is refused here."""

    node = forms.CharField(widget=forms.HiddenInput, required=False)
    version = forms.IntegerField(widget=forms.HiddenInput, min_value=1)
    payload_hash = forms.CharField(widget=forms.HiddenInput, max_length=64)
    arguments = forms.CharField(
        label=_("Arguments"), max_length=100_000, strip=False,
        widget=forms.Textarea(attrs={"class": "in mono", "rows": 12, "spellcheck": "false"}),
    )  # fmt: skip
    reason = _reason()

    def clean_arguments(self) -> Any:
        """Return the value. Raises ValidationError naming what is wrong in it."""
        try:
            return parse_strict(self.cleaned_data["arguments"])
        except QuarterdeckError as problem:
            raise forms.ValidationError(f"{problem.detail} {problem.remediation}") from problem


class ShownForm(forms.Form):
    """Which revision of the request the dialog was shown for; sent beside what the act itself asks."""

    revision = forms.IntegerField(widget=forms.HiddenInput, min_value=0)


def pretty(value: Any) -> str:
    """Return JSON as a person edits it: what would not be seen is written as its number, and stays what it is."""
    return escaped(json.dumps(value, ensure_ascii=False, indent=2))
