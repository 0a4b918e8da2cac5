"""The form of a tenant's rules: as JSON, and why they are proposed."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from approvals.policy import MAX_BYTES
from runtime.kernel.canonical import parse_strict
from runtime.kernel.errors import QuarterdeckError
from runtime.kernel.ids import uuid7


class PolicyForm(forms.Form):
    """Rules to try or to propose; only proposing asks why.

    ``policy_id`` is made with the form, so that sending it twice proposes one version.
    """

    policy_id = forms.UUIDField(widget=forms.HiddenInput, required=False, initial=uuid7)

    rules = forms.CharField(
        label=_("Rules"),
        widget=forms.Textarea(attrs={"class": "in mono", "rows": 18, "spellcheck": "false"}),
        help_text=_("JSON: a list of rules, read from the top. What no rule names is denied."),
    )
    note = forms.CharField(
        label=_("Reason"), max_length=2000, required=False,
        widget=forms.Textarea(attrs={"class": "in", "rows": 2, "placeholder": _("Kept in the audit.")}),
        error_messages={"required": _("Say why, in one sentence.")},
    )  # fmt: skip

    def __init__(self, *args: Any, proposing: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["note"].required = proposing
        # The browser must not ask for what trying does not need.
        self.use_required_attribute = False

    def renew(self) -> None:
        """Let what was typed be another proposal than the one under the form's id."""
        self.data = {**self.data.dict(), "policy_id": str(uuid7())}  # type: ignore[attr-defined]

    def clean_rules(self) -> Any:
        """Return the value; refuse what is not JSON that can be stored without loss."""
        try:
            # Spaces between are not counted by the limit of the rules themselves.
            return parse_strict(self.cleaned_data["rules"], max_bytes=4 * MAX_BYTES, max_depth=10)
        except QuarterdeckError as problem:
            raise forms.ValidationError(f"{problem.detail} {problem.where or ''}") from problem
