"""Templates: JSON in which an object with the single key ``$`` stands for the value of an expression.

``{"$$": x}`` is how a literal key ``$`` is written: a key of two or more ``$`` loses one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runtime.graph.expressions import CONTEXT_NAMES, Expression, compile_expression
from runtime.kernel.errors import InvalidExpression

MAX_TEMPLATE_DEPTH = 64


@dataclass(frozen=True, slots=True)
class _Expr:
    expression: Expression
    where: str

    def render(self, context: Mapping[str, Any]) -> Any:
        return self.expression.evaluate(context, self.where)


@dataclass(frozen=True, slots=True)
class _Object:
    constant: dict[str, Any]
    computed: tuple[tuple[str, Any], ...]

    def render(self, context: Mapping[str, Any]) -> Any:
        # The copy keeps the order of the keys: computed members hold a place in ``constant``.
        result = self.constant.copy()
        for key, part in self.computed:
            result[key] = part.render(context)
        return result


@dataclass(frozen=True, slots=True)
class _List:
    constant: list[Any]
    computed: tuple[tuple[int, Any], ...]

    def render(self, context: Mapping[str, Any]) -> Any:
        result = self.constant.copy()
        for index, part in self.computed:
            result[index] = part.render(context)
        return result


@dataclass(frozen=True, slots=True)
class Reference:
    """An expression at the JSON pointer ``where`` reads the output of ``node``."""

    node: str
    where: str


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """A compiled template. ``references`` are the nodes its expressions read, ``names`` the context names."""

    references: tuple[Reference, ...]
    names: frozenset[str]
    constant: Any
    part: Any = None

    @property
    def refs(self) -> frozenset[str]:
        """The ids of the nodes it reads."""
        return frozenset(reference.node for reference in self.references)

    def sources(self) -> Iterator[tuple[tuple[str | int, ...], Expression]]:
        """Yield each computed place of the rendered value (keys and indexes) and the expression that it comes from."""
        return _sources(self.part, ())

    def render(self, context: Mapping[str, Any]) -> Any:
        """Return the JSON value. Constant parts are shared between renderings: callers must not change them.

        Raises InvalidExpression whose ``where`` is the JSON pointer of the place inside the workflow.
        """
        return self.constant if self.part is None else self.part.render(context)


def _sources(part: Any, place: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Expression]]:
    if isinstance(part, _Expr):
        yield place, part.expression
    elif part is not None:
        for key, inner in part.computed:
            yield from _sources(inner, (*place, key))


class _Compiler:
    def __init__(self, allowed: frozenset[str]) -> None:
        self.allowed = allowed
        self.references: list[Reference] = []
        self.names: set[str] = set()

    def compile(self, value: Any, where: str, depth: int) -> tuple[Any, Any]:
        """Return (constant, part); ``part`` is None when nothing inside is computed."""
        if depth > MAX_TEMPLATE_DEPTH:
            raise InvalidExpression(f"nested deeper than {MAX_TEMPLATE_DEPTH}", where=where)
        if isinstance(value, dict):
            if len(value) == 1 and "$" in value:
                return None, self._expression(value["$"], where)
            items: dict[str, Any] = {}
            computed = []
            for key, item in value.items():
                name = key[1:] if len(key) > 1 and key.strip("$") == "" else key
                items[name], part = self.compile(item, f"{where}/{pointer_token(key)}", depth + 1)
                if part is not None:
                    computed.append((name, part))
            return items, _Object(items, tuple(computed)) if computed else None
        if isinstance(value, list):
            elements, computed_at = [], []
            for index, item in enumerate(value):
                constant, part = self.compile(item, f"{where}/{index}", depth + 1)
                elements.append(constant)
                if part is not None:
                    computed_at.append((index, part))
            return elements, _List(elements, tuple(computed_at)) if computed_at else None
        return value, None

    def _expression(self, text: Any, where: str) -> _Expr:
        if not isinstance(text, str):
            raise InvalidExpression(
                "`$` must hold the text of an expression",
                where=f"{where}/$",
                remediation='Write {"$": "input.amount"}; for a literal key `$` write `$$`.',
            )
        try:
            expression = compile_expression(text, self.allowed)
        except InvalidExpression as problem:
            problem.where = f"{where}/$"
            raise
        self.references += [Reference(node, f"{where}/$") for node in sorted(expression.node_refs)]
        self.names |= expression.names
        return _Expr(expression, f"{where}/$")


def pointer_token(key: str) -> str:
    """Return ``key`` as one token of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def compile_template(value: Any, where: str = "", allowed: frozenset[str] = CONTEXT_NAMES) -> Template:
    """Compile ``value``; ``where`` is its JSON pointer and the prefix of every error's place.

    Raises InvalidExpression for the first expression that does not compile.
    """
    compiler = _Compiler(allowed)
    constant, part = compiler.compile(value, where, 0)
    return Template(tuple(compiler.references), frozenset(compiler.names), constant, part)
