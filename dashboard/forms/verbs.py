"""The form of a verb: the version that was shown, a reason, and for the gravest a part of the id typed again."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from runtime.kernel.unseen import is_blank


class VerbForm(forms.Form):
    """``typed`` is what has to be typed to confirm, empty for nothing; ``required`` asks for a reason."""

    version = forms.IntegerField(widget=forms.HiddenInput, min_value=0)
    seq = forms.IntegerField(widget=forms.HiddenInput, required=False, min_value=0)
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=2000,
        required=False,
        widget=forms.Textarea(attrs={"class": "in", "rows": 3}),
        help_text=gettext_lazy("Goes to the audit with your name, the time and both states."),
    )

    def __init__(self, *args: Any, typed: str = "", required: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.typed = typed
        self.fields["reason"].required = required
        if required:
            self.fields["reason"].widget.attrs["aria-required"] = "true"
            self.fields["reason"].error_messages["required"] = _("Say why, in one sentence.")
        if typed:
            self.fields["typed"] = forms.CharField(
                label=_("Type %(id)s to confirm") % {"id": typed},
                widget=forms.TextInput(
                    attrs={"class": "in mono", "autocomplete": "off", "spellcheck": "false", "data-confirm": typed}
                ),
                error_messages={"required": _("Type the end of the step's id.")},
            )
            self.fields["evidence"] = forms.CharField(
                label=_("Evidence"),
                max_length=2000,
                required=False,
                widget=forms.TextInput(attrs={"class": "in", "autocomplete": "off"}),
                help_text=_("What shows that it succeeded: a ticket, a receipt, a name."),
            )
            self.fields["no_evidence"] = forms.BooleanField(label=_("There is no evidence"), required=False)
            self.fields["checked"] = forms.BooleanField(
                label=_("I checked the steps that follow"), error_messages={"required": _("Check them first.")}
            )

    def clean(self) -> dict[str, Any]:
        """Ask for the evidence, or for the word that there is none; never both."""
        data = super().clean() or {}
        if self.typed and is_blank(data.get("evidence", "")) != bool(data.get("no_evidence")):
            self.add_error("evidence", _("Name the evidence, or say that there is none."))
        return data

    def clean_typed(self) -> str:
        """Refuse another id."""
        value = self.cleaned_data["typed"].strip()
        if value != self.typed:
            raise forms.ValidationError(_("This is another id; the step's ends in %(id)s.") % {"id": self.typed})
        return value

    @property
    def typed_field(self) -> Any:
        """Return the field to type into; its name is taken by what has to be typed."""
        return self["typed"]
