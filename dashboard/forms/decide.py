"""The form of a decision: which one, on exactly what was shown, and why."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from runtime.kernel.unseen import is_blank


class DecisionForm(forms.Form):
    """``version`` and ``payload_hash`` are those of the page; another one is refused by the action."""

    decision = forms.ChoiceField(choices=[("approve", "approve"), ("reject", "reject")])
    version = forms.IntegerField(widget=forms.HiddenInput, min_value=1)
    payload_hash = forms.CharField(widget=forms.HiddenInput, max_length=64)
    comment = forms.CharField(
        label=_("Reason"),
        max_length=2000,
        required=False,
        widget=forms.Textarea(attrs={"class": "in", "rows": 3, "placeholder": _("Kept in the audit.")}),
        error_messages={"required": _("Say why you reject, in one sentence.")},
    )

    def clean(self) -> dict[str, Any]:
        """Ask for a reason where somebody is refused."""
        data = super().clean() or {}
        if data.get("decision") == "reject" and is_blank(data.get("comment", "")):
            self.add_error("comment", self.fields["comment"].error_messages["required"])
            self.fields["comment"].widget.attrs["aria-invalid"] = "true"
        return data
