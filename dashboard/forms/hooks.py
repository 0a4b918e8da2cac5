"""The form of a hook: where events of approvals and ends of runs are posted, in which form, and which of them."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from approvals.law import EVENTS, RUN_EVENTS

WORDS = {
    "asked": _("asked"),
    "warned": _("half of the time is over"),
    "reminded": _("little time left"),
    "overdue": _("overdue"),
    "escalated": _("escalated"),
    "delegated": _("handed over"),
    "approved": _("approved"),
    "rejected": _("rejected, or the time is over"),
    "cancelled": _("cancelled"),
    "superseded": _("superseded"),
    "consumed": _("used"),
    "lapsed": _("lapsed"),
    "voided": _("voided"),
    "revoked": _("revoked"),
    "run.completed": _("a run completed"),
    "run.partially_completed": _("a run completed in part"),
    "run.failed": _("a run failed"),
    "run.cancelled": _("a run was cancelled"),
    "run.needs_attention": _("a run needs a person"),
}


class HookForm(forms.Form):
    """An address, the form of what is posted there, and which events."""

    url = forms.CharField(
        label=_("Address"), max_length=500, help_text=_("https, on a host that the operator allows."),
        widget=forms.URLInput(attrs={"class": "in mono", "autocomplete": "off"}),
    )  # fmt: skip
    format = forms.ChoiceField(
        label=_("Form"),
        choices=[("standard", _("signed webhook")), ("chat", _("message for a chat"))],
        widget=forms.Select(attrs={"class": "in"}),
    )
    events = forms.MultipleChoiceField(
        label=_("Only these events"), required=False, choices=[(one, WORDS[one]) for one in (*EVENTS, *RUN_EVENTS)],
        widget=forms.CheckboxSelectMultiple, help_text=_("None chosen: all of approvals, and none of runs."),
    )  # fmt: skip

    def clean_events(self) -> list[str] | None:
        """Return None for all of approvals, as the action takes it."""
        return self.cleaned_data["events"] or None
