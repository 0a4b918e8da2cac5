"""Reads the tokens of a CEL expression: what it refers to, and whether it stays within what may run in a worker.

The library offers no syntax tree, keeps the interpreter lock while it evaluates and overflows the C stack on long
operator chains (measured: segmentation fault at about 2,000 terms). So size, nesting and comprehensions are bounded
here, at registration, before the library sees the text.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from runtime.graph.celpatterns import MAX_COST, MAX_COST_EACH, pattern_cost
from runtime.kernel.errors import InvalidExpression

MAX_CHARS = 4_000
MAX_TOKENS = 500
MAX_DEPTH = 32
MAX_PLUS = 64
MAX_MACROS = 4
MAX_GROWTH = 64

ROOT_FUNCTIONS = frozenset(
    {"size", "string", "int", "uint", "double", "bytes", "type", "dyn", "timestamp", "duration", "has"}
)
MACROS = frozenset({"map", "filter", "all", "exists", "exists_one", "existsOne"})
METHODS = MACROS | {
    "size", "contains", "startsWith", "endsWith", "matches", "getFullYear", "getMonth", "getDate", "getDayOfMonth",
    "getDayOfWeek", "getDayOfYear", "getHours", "getMinutes", "getSeconds", "getMilliseconds",
}  # fmt: skip
_WORDS = frozenset({"true", "false", "null", "in"})

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<str>(?:[bB]?[rR]|[rR][bB])(?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|"[^"\n]*"|'[^'\n]*')
        |[bB]?(?:\"\"\"(?:\\[\s\S]|[^\\])*?\"\"\"|'''(?:\\[\s\S]|[^\\])*?'''
            |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<num>0[xX][0-9a-fA-F]+[uU]?|(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?[uU]?)
    |(?P<id>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<op>&&|\|\||[<>=!]=|[-+*/%!<>?:.,()\[\]{}])""",
    re.VERBOSE,
)


@dataclass(slots=True)
class _Macro:
    variable: str
    bracket: int
    uses: int = 0


@dataclass(slots=True)
class Scan:
    """What an expression refers to.

    ``roots`` are the free names, ``node_refs`` the nodes read through ``nodes.…``, ``macros`` the number of
    comprehensions (map, filter, all, exists, exists_one), ``patterns`` about the microseconds that its regular
    expressions take to compile.
    """

    roots: set[str] = field(default_factory=set)
    node_refs: set[str] = field(default_factory=set)
    macros: int = 0
    patterns: int = 0


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokenize(text)
        self.out = Scan()
        self.depth = 0
        self.plus = 0
        self.growth = 1
        self.open: list[_Macro] = []

    def kind(self, i: int) -> str:
        return self.tokens[i][0] if 0 <= i < len(self.tokens) else ""

    def word(self, i: int) -> str:
        return self.tokens[i][1] if 0 <= i < len(self.tokens) else ""

    def refuse(self, i: int, detail: str, mend: str) -> InvalidExpression:
        at = self.tokens[i][2] if i < len(self.tokens) else len(self.text)
        return InvalidExpression(f"{detail} (column {at + 1} of `{shorten(self.text)}`)", remediation=mend)

    def run(self) -> Scan:
        for i, (kind, word, _at) in enumerate(self.tokens):
            if kind == "op":
                self._operator(i, word)
            elif kind == "id" and word not in _WORDS:
                self._identifier(i, word)
        return self.out

    def _operator(self, i: int, word: str) -> None:
        if word in "([{":
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise self.refuse(i, f"nested deeper than {MAX_DEPTH} brackets", "Compute it in a step of its own.")
        elif word in ")]}":
            self.depth -= 1
            if self.open and self.depth < self.open[-1].bracket:
                self._close_macro(i)
        elif word == "+":
            self.plus += 1
            if self.plus > MAX_PLUS:
                raise self.refuse(i, f"more than {MAX_PLUS} additions", "Compute it in a step of its own.")

    def _close_macro(self, i: int) -> None:
        # `x + x` in a comprehension doubles its input; several of them in a row would fill the memory.
        self.growth *= max(1, self.open.pop().uses)
        if self.growth > MAX_GROWTH:
            raise self.refuse(i, "the comprehensions use their variables too often", "Compute it in a step of its own.")

    def _identifier(self, i: int, word: str) -> None:
        called = self.word(i + 1) == "("
        if self.word(i - 1) == ".":
            if called and word not in METHODS:
                raise self.refuse(i, f"no method is named `{word}`", f"Methods: {', '.join(sorted(METHODS))}.")
            if called and word in MACROS:
                self._open_macro(i, word)
            elif called and word == "matches":
                self._pattern(i)
            return
        if called:
            if word not in ROOT_FUNCTIONS:
                known = ", ".join(sorted(ROOT_FUNCTIONS))
                raise self.refuse(i, f"no function is named `{word}`", f"Functions: {known}.")
            return
        if self.word(i + 1) == "{":
            raise self.refuse(i, f"there is no type `{word}` to build", 'Write an object as `{"key": value}`.')
        for macro in reversed(self.open):
            if macro.variable == word:
                macro.uses += 1
                return
        self.out.roots.add(word)
        if word == "nodes":
            self.out.node_refs.add(self._node_reference(i))

    def _pattern(self, i: int) -> None:
        if self.kind(i + 2) != "str" or self.word(i + 3) != ")":
            mend = 'Write it as one text: `name.matches("^[a-z]+$")`.'
            raise self.refuse(i, "the pattern of `matches` is computed", mend)
        cost = pattern_cost(_literal(self.word(i + 2)))
        self.out.patterns += cost
        if self.out.patterns > MAX_COST or (self.open and cost > MAX_COST_EACH):
            where = " for each item of a comprehension" if self.open and cost > MAX_COST_EACH else ""
            mend = "Count less, or name the letters: [A-Za-z0-9_] in place of \\w, [0-9] in place of \\d."
            raise self.refuse(i + 2, f"its patterns take too long to compile{where}", mend)

    def _open_macro(self, i: int, word: str) -> None:
        variable = self.word(i + 2)
        if self.kind(i + 2) != "id" or variable in _WORDS or self.word(i + 3) != ",":
            raise self.refuse(i, f"`{word}` needs a variable and an expression", f"Write `list.{word}(x, …)`.")
        if variable in ("input", "nodes", "run", "task", "output"):
            raise self.refuse(i + 2, f"`{variable}` cannot be a variable here", "Choose another name for the variable.")
        self.out.macros += 1
        if self.out.macros > MAX_MACROS:
            raise self.refuse(i, f"more than {MAX_MACROS} comprehensions", "Compute it in a step of its own.")
        if self.open and self._receiver(i) not in {m.variable for m in self.open}:
            raise self.refuse(
                i,
                f"`{word}` inside another comprehension must run over a member of that one's variable",
                "Write for example `orders.all(o, o.items.all(i, i.qty > 0))`, or compute it in a step of its own.",
            )
        # The declaration itself is met by the main loop and counted as a use: start below zero.
        self.open.append(_Macro(variable, self.depth + 1, uses=-1))

    def _receiver(self, i: int) -> str:
        """Return the root name of the plain path before ``.macro(``, or "" when it is not a plain path."""
        j = i - 2
        while self.kind(j) == "id" and self.word(j - 1) == ".":
            j -= 2
        return self.word(j) if self.kind(j) == "id" else ""

    def _node_reference(self, i: int) -> str:
        if self.word(i + 1) == "." and self.kind(i + 2) == "id" and self.word(i + 3) != "(":
            return self.word(i + 2)
        if self.word(i + 1) == "[" and self.kind(i + 2) == "str" and self.word(i + 3) == "]":
            return _literal(self.word(i + 2))
        raise self.refuse(
            i,
            "`nodes` must be followed by the id of a node",
            'Write `nodes.load.output` or `nodes["an id"].output`; the id cannot be computed.',
        )


def _tokenize(text: str) -> list[tuple[str, str, int]]:
    if len(text) > MAX_CHARS:
        raise InvalidExpression(
            f"the expression has {len(text)} characters; the limit is {MAX_CHARS}",
            remediation="Compute it in a step of its own.",
        )
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise InvalidExpression(
                f"unexpected {text[at]!r} at column {at + 1} of `{shorten(text)}`",
                remediation="Expressions are CEL: quote texts, write && || ! for and, or, not.",
            )
        if match.lastgroup != "space":
            tokens.append((match.lastgroup or "", match.group(), at))
        at = match.end()
    if len(tokens) > MAX_TOKENS:
        raise InvalidExpression(
            f"the expression has {len(tokens)} tokens; the limit is {MAX_TOKENS}",
            remediation="Compute it in a step of its own.",
        )
    return tokens


def _literal(source: str) -> str:
    """Return the text that a CEL string literal stands for; its escapes are Python's but for a few nobody needs."""
    try:
        value = ast.literal_eval(source)
    except (ValueError, SyntaxError) as problem:
        raise InvalidExpression(
            f"the node id {source} is not a plain text", remediation="Write the id in double quotes."
        ) from problem
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def shorten(text: str, limit: int = 80) -> str:
    """Return at most ``limit`` characters of ``text`` on one line, for messages."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def scan(text: str) -> Scan:
    """Return what ``text`` refers to. Raises InvalidExpression when it leaves the bounds of this module."""
    return _Scanner(text).run()


def paths(text: str) -> set[tuple[str, ...]]:
    """Return the plain paths that ``text`` reads, as far as they are plain: ``'pay:' + input.to`` reads (input, to)."""
    tokens = _tokenize(text)

    def at(j: int) -> tuple[str, str]:
        return tokens[j][:2] if 0 <= j < len(tokens) else ("", "")

    found = set()
    for i, (kind, word, _at) in enumerate(tokens):
        if kind != "id" or word in _WORDS or at(i - 1)[1] == "." or at(i + 1)[1] == "(":
            continue
        names, j = [word], i + 1
        while True:
            if at(j)[1] == "." and at(j + 1)[0] == "id" and at(j + 2)[1] != "(":
                names.append(at(j + 1)[1])
                j += 2
            elif at(j)[1] == "[" and at(j + 1)[0] in ("str", "num") and at(j + 2)[1] == "]":
                names.append(_literal(at(j + 1)[1]) if at(j + 1)[0] == "str" else at(j + 1)[1])
                j += 3
            else:
                break
        found.add(tuple(names))
    return found


Side = tuple[str, tuple[str, ...]]


def comparisons(text: str) -> list[tuple[Side, Side]]:
    """Return both sides of each comparison whose sides are plain: ("text" | "number", ()) or ("path", its names).

    What is part of something larger (a sum, a call, an index) is left out: its type is not seen from here.
    """
    tokens = _tokenize(text)
    found = []
    for i, (kind, word, _at) in enumerate(tokens):
        if kind == "op" and word in _COMPARING:
            left, right = _side(tokens, i - 1, -1), _side(tokens, i + 1, 1)
            if left is not None and right is not None:
                found.append((left, right))
    return found


_COMPARING = frozenset({"==", "!=", "<", ">", "<=", ">="})
_BETWEEN = frozenset({"", "&&", "||", "?", ":", ","})
_BOUNDS = {-1: _BETWEEN | {"(", "[", "{"}, 1: _BETWEEN | {")", "]", "}"}}


def _side(tokens: list[tuple[str, str, int]], i: int, step: int) -> Side | None:
    """Read one side of a comparison, from the operator outwards (``step`` -1 or 1)."""

    def at(j: int) -> tuple[str, str]:
        return tokens[j][:2] if 0 <= j < len(tokens) else ("", "")

    kind, word = at(i)
    names: list[str] = []
    if kind in ("str", "num"):
        side: Side = ("text" if kind == "str" else "number", ())
        i += step
    elif kind == "id" and word not in _WORDS:
        while at(i)[0] == "id":
            names.append(at(i)[1])
            if at(i + step)[1] != ".":
                i += step
                break
            i += 2 * step
        side = ("path", tuple(names if step > 0 else reversed(names)))
    else:
        return None
    return side if at(i)[1] in _BOUNDS[step] else None
