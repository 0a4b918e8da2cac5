"""JSON Schema as the product needs it: compiled once, nothing fetched, 1 and 1.0 told apart, no values in messages."""

from __future__ import annotations

from typing import Any

import jsonschema_rs

_EXACT = "x-quarterdeck-exact-integer"
_ONE = ("additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then",
        "unevaluatedItems", "unevaluatedProperties", "additionalItems")  # fmt: skip
_LISTS = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
_MAPS = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
_MAX_DEPTH = 200
_BOUNDS = {
    "minimum": "at least", "maximum": "at most", "exclusiveMinimum": "more than", "exclusiveMaximum": "less than",
    "minItems": "at least this many items:", "maxItems": "at most this many items:",
    "minLength": "at least this many characters:", "maxLength": "at most this many characters:",
}  # fmt: skip
_MESSAGE = 300


class SchemaProblem(ValueError):
    """A schema cannot be used; ``where`` is a JSON pointer into it."""

    def __init__(self, detail: str, where: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.where = where


class Mismatch:
    """One place of a value that does not fit: a JSON pointer, a sentence without the value itself, and the mend."""

    __slots__ = ("detail", "mend", "where")

    def __init__(self, where: str, detail: str, mend: str = "Correct the value at `where`.") -> None:
        self.where = where
        self.detail = detail
        self.mend = mend


class _ExactInteger:
    """Custom keyword beside ``"type": "integer"``: the number must be written as an integer, not as 1.0."""

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        pass

    def validate(self, instance: Any) -> None:
        if isinstance(instance, float):
            raise ValueError("is written as a decimal number, an integer is asked for")


class Compiled:
    """A compiled schema. Thread-safe; ``fits`` costs under a microsecond for a small value."""

    __slots__ = ("_validator", "fits")

    def __init__(self, validator: Any) -> None:
        self._validator = validator
        self.fits = validator.is_valid

    def problems(self, value: Any, limit: int = 10) -> list[Mismatch]:
        """Return up to ``limit`` places where the value does not fit; an empty list when it fits."""
        found: list[Mismatch] = []
        try:
            for error in self._validator.iter_errors(value):
                found.append(Mismatch(pointer(error.instance_path), _bounded(error.message), _mend(error.kind)))
                if len(found) >= limit:
                    break
        except ValueError:  # a value that is no JSON at all: a set, a number as key, a lone surrogate
            found.append(Mismatch("", "is not a JSON value"))
        return found


def _mend(kind: Any) -> str:
    """Return what to do about an error of the library's ``kind``."""
    name, value = getattr(kind, "name", ""), getattr(kind, "value", None)
    if name == "required":
        return f"Add the member `{value}`."
    if name in ("additionalProperties", "unevaluatedProperties"):
        return _bounded("Remove " + ", ".join(f"`{key}`" for key in value or ()) + ", or correct the spelling.")
    if name == "falseSchema":
        return "Remove it; the schema allows nothing there."
    if name == "enum":
        return _bounded("Use one of " + ", ".join(str(option) for option in value or ()) + ".")
    if name == "type":
        return "Send a value of type " + " or ".join(value if isinstance(value, list) else [str(value)]) + "."
    if name in _BOUNDS:
        return f"Send {_BOUNDS[name]} {value}."
    if name == _EXACT:
        return "Write the number without a decimal point: 1, not 1.0."
    return "Correct the value at `where`."


def pointer(path: list[str | int]) -> str:
    """Return a JSON pointer (RFC 6901), each part bounded, since keys can come from outside."""
    return "".join("/" + str(part)[:100].replace("~", "~0").replace("/", "~1") for part in path[:64])


def compile_schema(schema: dict[str, Any] | bool) -> Compiled:
    """Compile a JSON Schema; SchemaProblem when it is wrong or refers to something outside itself."""
    try:
        validator = jsonschema_rs.validator_for(
            _with_exact_integers(schema, 0),
            mask="the value",
            offline=True,
            validate_formats=True,
            # A pattern comes from the contract's author: bounded work keeps one schema from stopping a worker.
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000),
            keywords={_EXACT: _ExactInteger},
        )
    except jsonschema_rs.ValidationError as error:
        raise SchemaProblem(_bounded(error.message), pointer(error.instance_path)) from None
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise SchemaProblem(_bounded(str(error).split("\n", 1)[0])) from None
    return Compiled(validator)


def _with_exact_integers(schema: Any, depth: int) -> Any:
    """Return a copy in which every ``"type": "integer"`` also carries the exact keyword."""
    if not isinstance(schema, dict):
        return schema
    if depth > _MAX_DEPTH:
        raise SchemaProblem("The schema is nested too deeply.")
    copy = {key: _inner(key, part, depth) for key, part in schema.items()}
    kind = schema.get("type")
    if kind == "integer" or (isinstance(kind, list) and "integer" in kind and "number" not in kind):
        copy[_EXACT] = True
    return copy


def _inner(key: str, part: Any, depth: int) -> Any:
    # Only places that hold schemas are entered: {"const": {"type": "integer"}} is data.
    if key in _LISTS and isinstance(part, list):
        return [_with_exact_integers(item, depth + 1) for item in part]
    if key in _MAPS and isinstance(part, dict):
        return {name: _with_exact_integers(item, depth + 1) for name, item in part.items()}
    if key in _ONE:
        return _with_exact_integers(part, depth + 1)
    return part


def _bounded(message: str) -> str:
    text = message if len(message) <= _MESSAGE else message[: _MESSAGE - 1] + "…"
    return text.encode("utf-8", "replace").decode("utf-8")
