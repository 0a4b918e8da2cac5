"""The form of an emergency stop."""

from __future__ import annotations

from datetime import datetime, timedelta

from django import forms
from django.utils.translation import gettext_lazy as _

SPANS = {
    "": _("until it is lifted"),
    "15": _("for 15 minutes"),
    "60": _("for 1 hour"),
    "480": _("for 8 hours"),
    "1440": _("for 1 day"),
}


class StopForm(forms.Form):
    """What, why and for how long; the database's clock decides when it is over."""

    scope = forms.ChoiceField(
        label=_("Stop"),
        choices=[
            ("tool", _("a tool")),
            ("workflow", _("a workflow")),
            ("tenant", _("this whole tenant")),
            ("global", _("the whole installation")),
        ],
        widget=forms.Select(attrs={"class": "in"}),
    )
    name = forms.CharField(
        label=_("Name"), max_length=200, required=False,
        widget=forms.TextInput(attrs={"class": "in mono", "list": "names", "autocomplete": "off"}),
        help_text=_("Of the tool, with or without @version, or of the workflow."),
    )  # fmt: skip
    minutes = forms.ChoiceField(
        label=_("How long"), choices=list(SPANS.items()), required=False, widget=forms.Select(attrs={"class": "in"})
    )
    reason = forms.CharField(
        label=_("Reason"), max_length=2000, widget=forms.Textarea(attrs={"class": "in", "rows": 2}),
        error_messages={"required": _("Say why, in one sentence.")},
    )  # fmt: skip

    replaces = forms.UUIDField(required=False)

    def until(self, now: datetime) -> datetime | None:
        """Return when the stop ends by itself."""
        minutes = self.cleaned_data["minutes"]
        return now + timedelta(minutes=int(minutes)) if minutes else None
