"""The forms of what bounds the work: a limit as it was shown, a breaker opened or closed by hand."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from runtime.actions.limits import MOST

SPANS = {
    "": gettext_lazy("as long as one that opens by itself"),
    "60": gettext_lazy("for 1 minute"),
    "900": gettext_lazy("for 15 minutes"),
    "3600": gettext_lazy("for 1 hour"),
    "28800": gettext_lazy("for 8 hours"),
}


def _number(label: Any, hint: Any = "") -> forms.IntegerField:
    widget = forms.NumberInput(attrs={"class": "in", "inputmode": "numeric"})
    return forms.IntegerField(label=label, min_value=1, max_value=MOST, required=False, widget=widget, help_text=hint)


class LimitForm(forms.Form):
    """What is bounded and by how much; ``version`` is that of the limit that was shown, 0 where none was."""

    version = forms.IntegerField(widget=forms.HiddenInput, min_value=0, max_value=2**31 - 1, initial=0)
    scope = forms.ChoiceField(
        label=gettext_lazy("Bound"),
        choices=[
            ("tool", gettext_lazy("a tool")),
            ("workflow", gettext_lazy("a workflow")),
            ("tenant", gettext_lazy("this whole tenant")),
            ("global", gettext_lazy("the whole installation")),
        ],
        widget=forms.Select(attrs={"class": "in"}),
    )
    name = forms.CharField(
        label=gettext_lazy("Name"), max_length=200, required=False,
        widget=forms.TextInput(attrs={"class": "in mono", "list": "names", "autocomplete": "off"}),
        help_text=gettext_lazy("Of the tool, with or without @version, or of the workflow."),
    )  # fmt: skip
    most = _number(gettext_lazy("Calls at once"))
    calls = _number(gettext_lazy("Calls that start"))
    per_s = forms.FloatField(
        label=gettext_lazy("in so many seconds"), min_value=0.001, max_value=86_400, required=False,
        widget=forms.NumberInput(attrs={"class": "in", "inputmode": "decimal", "step": "any"}),
    )  # fmt: skip
    reason = forms.CharField(
        label=gettext_lazy("Reason"), max_length=2000, required=False,
        widget=forms.Textarea(attrs={"class": "in", "rows": 2}),
    )  # fmt: skip

    def clean(self) -> dict[str, Any]:
        """Refuse what bounds nothing; the rest is the action's to judge."""
        data = super().clean() or {}
        if not self.errors:
            if data.get("most") is None and data.get("calls") is None:
                self.add_error("most", _("Give a number of calls at once, or of calls that start in a time."))
            if (data.get("calls") is None) != (data.get("per_s") is None):
                self.add_error("per_s", _("The number of calls and the time go together."))
            if data.get("scope") in ("tool", "workflow") and not data.get("name"):
                self.add_error("name", _("Name the tool or the workflow."))
        return data

    def asked(self) -> dict[str, Any]:
        """Return what ``set_limit`` takes."""
        data = self.cleaned_data
        bounds = {name: data[name] for name in ("scope", "most", "calls", "per_s", "reason")}
        name = data["name"] if data["scope"] in ("tool", "workflow") else ""
        return {**bounds, "name": name, "expected_version": data["version"]}
