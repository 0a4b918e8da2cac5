"""The form of the sign-in page."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.utils.translation import gettext_lazy as _


class SignInForm(AuthenticationForm):
    """Name and password; what is wrong with them is never told apart."""

    username = forms.CharField(
        label=_("Name"),
        max_length=150,
        widget=forms.TextInput(
            attrs={"class": "in", "autocomplete": "username", "autofocus": True, "spellcheck": "false"}
        ),
    )
    password = forms.CharField(
        label=_("Password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"class": "in", "autocomplete": "current-password"}),
    )
    error_messages = {
        "invalid_login": _("No such name with this password. Nothing was signed in."),
        "inactive": _("No such name with this password. Nothing was signed in."),
    }

    def clean_username(self) -> Any:
        """Refuse what no database stores."""
        name = self.cleaned_data["username"]
        if "\x00" in name:
            raise self.get_invalid_login_error()
        return name


class OwnPasswordForm(PasswordChangeForm):
    """The old password, and twice the new one, judged by AUTH_PASSWORD_VALIDATORS; words of Django's own catalog."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs.update({"class": "in"})
