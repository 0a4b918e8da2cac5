"""The form that starts a task: its input as JSON, a name to recognise it by, a key against doing it twice."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from runtime.kernel.canonical import parse_strict
from runtime.kernel.conf import conf
from runtime.kernel.errors import QuarterdeckError
from runtime.kernel.ids import uuid7


class StartForm(forms.Form):
    """``key`` is made with the form, so that sending it twice starts one task."""

    input = forms.CharField(
        label=_("Input"),
        widget=forms.Textarea(attrs={"class": "in mono", "rows": 8, "spellcheck": "false"}),
        help_text=_("JSON. Money best as a text, since it is never rounded."),
    )
    name = forms.CharField(
        label=_("Name"), max_length=300, required=False, widget=forms.TextInput(attrs={"class": "in"}),
        help_text=_("What people recognise it by, such as an order number."),
    )  # fmt: skip
    key = forms.CharField(widget=forms.HiddenInput, max_length=200, required=False, initial=lambda: f"form-{uuid7()}")

    def clean_input(self) -> Any:
        """Return the value; refuse what is not JSON that can be stored without loss."""
        try:
            return parse_strict(self.cleaned_data["input"], max_bytes=conf().max_payload_bytes, max_depth=50)
        except QuarterdeckError as problem:
            raise forms.ValidationError(f"{problem.detail} {problem.where or ''}") from problem


def example_of(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an input with the required members of a schema, to be overwritten."""
    properties = schema.get("properties") or {}
    return {name: _example(properties.get(name) or {}) for name in schema.get("required") or []}


def _example(schema: dict[str, Any]) -> Any:
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type") or next((one.get("type") for one in schema.get("anyOf") or [] if one.get("type")), None)
    return {"string": "", "integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}.get(str(kind), "")
