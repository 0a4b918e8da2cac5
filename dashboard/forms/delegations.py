"""The form of a delegation: who decides in whose place, from when to when, and why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from approvals.actions.delegations import MAX_DELEGATION
from approvals.standing import MOST_NAMES
from runtime.kernel.actor import Actor


def _name(label: Any) -> forms.CharField:
    attributes = {"class": "in", "autocomplete": "off", "list": "deciders"}
    return forms.CharField(label=label, max_length=150, widget=forms.TextInput(attrs=attributes))


def _moment(label: Any, *, required: bool, hint: Any = "") -> forms.DateTimeField:
    widget = forms.DateTimeInput(attrs={"class": "in", "type": "datetime-local"}, format="%Y-%m-%dT%H:%M")
    said = {"invalid": gettext_lazy("Give a day and a time."), "required": gettext_lazy("Give a day and a time.")}
    return forms.DateTimeField(label=label, required=required, widget=widget, help_text=hint, error_messages=said)


class DelegationForm(forms.Form):
    """Times are in the reader's zone. ``whose`` is there for who may say it for others; by default it is oneself."""

    whose = _name(gettext_lazy("In whose place"))
    to = _name(gettext_lazy("Who decides"))
    starts_at = _moment(gettext_lazy("From"), required=False, hint=gettext_lazy("Empty: from now on."))
    ends_at = _moment(gettext_lazy("Until"), required=True)
    reason = forms.CharField(
        label=gettext_lazy("Reason"), max_length=2000,
        widget=forms.Textarea(attrs={"class": "in", "rows": 2, "placeholder": gettext_lazy("Kept in the audit.")}),
        error_messages={"required": gettext_lazy("Say why, in one sentence.")},
    )  # fmt: skip

    # Which field a problem of the action is about.
    FIELDS = {"/from": "whose", "/to": "to", "/starts_at": "starts_at", "/ends_at": "ends_at", "/reason": "reason"}

    def __init__(
        self, *args: Any, actor: Actor, now: datetime, names: Sequence[str], others: bool, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.actor, self.now, self.names = actor, now, names
        if others:
            self.fields["whose"].initial = actor.name
        else:
            del self.fields["whose"]

    def _known(self, name: str) -> str:
        if name not in self.names and len(self.names) < MOST_NAMES:
            raise forms.ValidationError(_("%(name)s is no member who decides requests here.") % {"name": name})
        return name

    def clean_whose(self) -> str:
        """Refuse who decides nothing: there is nothing to lend."""
        return self._known(self.cleaned_data["whose"])

    def clean_to(self) -> str:
        """Refuse who decides nothing: the delegation would change nothing."""
        return self._known(self.cleaned_data["to"])

    def clean(self) -> dict[str, Any]:
        """Refuse a time that is none, and oneself; the action judges the same by the database's clock."""
        data = super().clean() or {}
        starts, ends = data.get("starts_at"), data.get("ends_at")
        if ends is not None and "starts_at" in data:
            if starts is not None and ends <= starts:
                self.add_error("ends_at", _("It would end before it begins."))
            elif ends <= self.now:
                self.add_error("ends_at", _("This end is over already."))
            elif ends - (starts or self.now) > MAX_DELEGATION:
                self.add_error("ends_at", _("A delegation lasts %(n)d days at most.") % {"n": MAX_DELEGATION.days})
        if data.get("to") and data["to"] == data.get("whose", self.actor.name):
            self.add_error("to", _("Name another person: nobody stands in for themselves."))
        return data

    def asked(self) -> dict[str, Any]:
        """Return what ``add_delegation`` takes."""
        return {"whose": None, **self.cleaned_data}
