"""The form of a request for an input, made from its JSON Schema: flat fields where it is flat, JSON where it is not.

What is typed becomes the JSON type that the schema names; whether it fits is judged by the action, against the schema.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from dashboard.forms.asks import pretty
from runtime.kernel.canonical import parse_strict
from runtime.kernel.errors import QuarterdeckError

MOST_FIELDS = 30
_TYPES = ("string", "integer", "number", "boolean")


class AnswerForm(forms.Form):
    """``schema`` is the form that the request shows; ``value()`` is the answer as JSON."""

    version = forms.IntegerField(widget=forms.HiddenInput, min_value=1)
    payload_hash = forms.CharField(widget=forms.HiddenInput, max_length=64)

    def __init__(self, *args: Any, schema: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.parts = _flat(schema)
        if self.parts is None:
            self.fields["json"] = forms.CharField(
                label=_("Answer as JSON"), max_length=100_000, strip=False, initial=pretty(schema.get("default", {})),
                widget=forms.Textarea(attrs={"class": "in mono", "rows": 8, "spellcheck": "false"}),
            )  # fmt: skip
            self._belong()
            return
        required = schema.get("required") or []
        for name, part in self.parts.items():
            self.fields[f"f.{name}"] = _field(name, part, name in required)
        self._belong()

    def _belong(self) -> None:
        """Let the fields belong to the form "answer", wherever on the page they stand."""
        for field in self.fields.values():
            field.widget.attrs["form"] = "answer"

    def clean_json(self) -> Any:
        """Return the value. Raises ValidationError naming what is wrong in it."""
        return _parsed(self.cleaned_data["json"])

    def value(self) -> Any:
        """Return the answer; what was left empty and is not required is left out."""
        if self.parts is None:
            return self.cleaned_data["json"]
        found = {}
        for name, part in self.parts.items():
            given = self.cleaned_data[f"f.{name}"]
            if part.get("type") == "boolean" or given not in ("", None):
                found[name] = given
        return found

    def clean(self) -> dict[str, Any]:
        """Turn what was typed into the schema's types."""
        data = super().clean() or {}
        for name, part in (self.parts or {}).items():
            key = f"f.{name}"
            if part.get("type") in ("integer", "number") and data.get(key) not in ("", None):
                try:
                    data[key] = _parsed(str(data[key]))
                except forms.ValidationError as problem:
                    self.add_error(key, problem)
        return data


def _flat(schema: dict[str, Any]) -> dict[str, dict[str, Any]] | None:
    """Return the properties of a flat object schema, None when it is anything else."""
    parts = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(parts, dict) or not 0 < len(parts) <= MOST_FIELDS:
        return None
    simple = all(isinstance(one, dict) and (one.get("type") in _TYPES or "enum" in one) for one in parts.values())
    texts = all(all(isinstance(v, str) for v in one.get("enum", [])) for one in parts.values()) if simple else False
    return parts if simple and texts else None


def _field(name: str, part: dict[str, Any], required: bool) -> forms.Field:
    label = str(part.get("title") or name.replace("_", " ").capitalize())
    help_text = str(part.get("description") or "")
    if "enum" in part:
        choices = [(one, one) for one in part["enum"]]
        choices = choices if required else [("", "—"), *choices]
        select = forms.Select(attrs={"class": "in"})
        return forms.ChoiceField(label=label, choices=choices, required=required, help_text=help_text, widget=select)
    if part.get("type") == "boolean":
        return forms.BooleanField(label=label, required=False, help_text=help_text)
    numeric = part.get("type") in ("integer", "number")
    attrs = {"class": "in mono" if numeric else "in", "inputmode": "decimal" if numeric else "text"}
    text = forms.TextInput(attrs=attrs)
    return forms.CharField(label=label, required=required, max_length=4000, help_text=help_text, widget=text)


def _parsed(text: str) -> Any:
    try:
        return parse_strict(text)
    except QuarterdeckError as problem:
        raise forms.ValidationError(f"{problem.detail} {problem.remediation}") from problem
