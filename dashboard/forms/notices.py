"""The form of a target: a mail address or a webhook that alerts are sent to, and which of them."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from dashboard.presenters.alerts import RULES
from runtime.models.watch import ALERT_RULES


class TargetForm(forms.Form):
    """Where alerts are sent, and of which rules."""

    kind = forms.ChoiceField(
        label=_("Sent by"),
        choices=[("mail", _("mail")), ("webhook", _("signed webhook"))],
        widget=forms.Select(attrs={"class": "in"}),
    )
    address = forms.CharField(
        label=_("Address"), max_length=500,
        help_text=_("A mail address, or https on a host that the operator allows."),
        widget=forms.TextInput(attrs={"class": "in mono", "autocomplete": "off"}),
    )  # fmt: skip
    rules = forms.MultipleChoiceField(
        label=_("Only these alerts"), required=False, choices=[(one, RULES[one]) for one in ALERT_RULES],
        widget=forms.CheckboxSelectMultiple, help_text=_("None chosen: all of them."),
    )  # fmt: skip

    def clean_rules(self) -> list[str] | None:
        """Return None for all of them, as the action takes it."""
        return self.cleaned_data["rules"] or None
