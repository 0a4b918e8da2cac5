"""Forms for members and tokens."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from dashboard.presenters.states import role_word
from runtime.access.identity import MAX_DAYS
from runtime.access.roles import ROLES
from runtime.kernel.actor import Actor
from runtime.kernel.ids import uuid7


class MemberForm(forms.Form):
    """Who, in which role; the user exists already."""

    username = forms.CharField(
        label=_("User"), max_length=150, widget=forms.TextInput(attrs={"class": "in", "autocomplete": "off"})
    )
    role = forms.ChoiceField(label=_("Role"), widget=forms.Select(attrs={"class": "in"}))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["role"].choices = [(name, role_word(name)) for name in ROLES]  # type: ignore[attr-defined]


class TokenForm(forms.Form):
    """What a token is for, how long it lives, and which of its owner's verbs it carries.

    ``token_id`` is made with the form, so that sending it twice issues one token.
    """

    token_id = forms.UUIDField(widget=forms.HiddenInput, required=False, initial=uuid7)

    name = forms.CharField(label=_("What it is for"), max_length=100, widget=forms.TextInput(attrs={"class": "in"}))
    days = forms.IntegerField(
        label=_("Days"), min_value=1, max_value=MAX_DAYS, initial=30,
        widget=forms.NumberInput(attrs={"class": "in", "inputmode": "numeric"}),
    )  # fmt: skip
    verbs = forms.MultipleChoiceField(
        label=_("Only these verbs"), required=False, widget=forms.CheckboxSelectMultiple,
        help_text=_("None chosen: all that your role carries."),
    )  # fmt: skip

    def __init__(self, *args: Any, actor: Actor, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["verbs"].choices = [(one, one) for one in sorted(actor.verbs)]  # type: ignore[attr-defined]

    def clean_verbs(self) -> list[str] | None:
        """Return None for no narrowing, as the action takes it."""
        return self.cleaned_data["verbs"] or None
