"""Forms for groups that decide, and for managers."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _


def _name(label: Any) -> forms.CharField:
    attributes = {"class": "in", "autocomplete": "off", "list": "members"}
    return forms.CharField(label=label, max_length=150, widget=forms.TextInput(attrs=attributes))


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(text.replace(",", " ").split()))


class GroupForm(forms.Form):
    """A group's name, and the user names of who is in it; ``were`` are those that the page showed."""

    name = forms.CharField(
        label=_("Group"), max_length=60, widget=forms.TextInput(attrs={"class": "in", "autocomplete": "off"})
    )
    members = forms.CharField(
        label=_("Who is in it"), max_length=20_000, required=False,
        widget=forms.TextInput(attrs={"class": "in", "autocomplete": "off", "spellcheck": "false"}),
    )  # fmt: skip

    were = forms.CharField(widget=forms.HiddenInput, max_length=20_000, required=False)

    def clean_members(self) -> list[str]:
        """Return the names, each once."""
        return _names(self.cleaned_data["members"])

    def clean_were(self) -> list[str]:
        """Return the names; a group that is to be made has none."""
        return _names(self.cleaned_data["were"])


class ManagerForm(forms.Form):
    """Whose manager is who; without a manager: nobody any more."""

    user = _name(_("Member"))
    manager = _name(_("Manager"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["manager"].required = False

    def clean_manager(self) -> str | None:
        """Return None for nobody, as the action takes it."""
        return self.cleaned_data["manager"] or None
