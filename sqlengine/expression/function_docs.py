"""The functions of SQL as functions of Python: names, parameters and documentation, from their declarations."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from runtime.expr.function import AnyFunction, Signature
from runtime.expr.library import builtin_functions
from runtime.expr.typing import signature_text

__all__ = ["FunctionDoc", "Parameter", "function_docs"]

_WORDS = frozenset({"EXTRACT", "TIMESTAMPADD", "TIMESTAMPDIFF"})
"""Functions whose first argument is a word: `extract("DAY", col("ts"))`."""
_OWN_FORM = frozenset(
    {"ARRAY", "MAP", "ITEM", "GET_FIELD", "NEGATE", "AND", "OR", "NOT", "JSON", "LIKE", "JSON_OBJECT", "JSON_OBJECTAGG"}
)
"""What operators, methods and `functions.py` itself write."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a Python function."""

    name: str
    optional: bool = False
    variadic: bool = False

    def __str__(self) -> str:
        if self.variadic:
            return f"*{self.name}: Operand"
        return f"{self.name}: {'str' if self.name == 'unit' else 'Operand'}" + (" = ..." if self.optional else "")


@dataclass(frozen=True)
class FunctionDoc:
    """A function: its SQL name, what Python calls it, its parameters, and what its documentation says."""

    sql: str
    python: str
    parameters: tuple[Parameter, ...]
    text: str
    bare: bool
    """Whether it is written without parentheses: CURRENT_DATE."""
    takes_word: bool


@cache
def function_docs() -> dict[str, FunctionDoc]:
    """All of them, by Python name."""
    found = (_documented(f) for f in builtin_functions() if _is_plain(f))
    return {doc.python: doc for doc in sorted(found, key=lambda d: d.python)}


def _is_plain(function: AnyFunction) -> bool:
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", function.name) or function.name in _OWN_FORM:
        return False
    if function.name.endswith(("_IGNORE_NULLS", "_ON_NULL")):
        # Forms of a function with a clause.
        return False
    syntax = getattr(function, "syntax", None)
    # `a IS NULL`, `array[n]`: forms of operators.
    return syntax is None or syntax == function.name or syntax.startswith(f"{function.name}(")


def _documented(function: AnyFunction) -> FunctionDoc:
    bare = getattr(function, "syntax", None) == function.name
    lowered = function.name.lower()
    python = f"{lowered}_" if keyword.iskeyword(lowered) else lowered
    takes_word = function.name in _WORDS
    parameters = () if bare else tuple(_parameters(function.signatures))
    if takes_word:
        parameters = (Parameter("unit"), *parameters[1:])
    forms = [getattr(function, "syntax", None) or signature_text(function.name, s) for s in function.signatures]
    text = f"{function.document}\n\nSQL: {'; '.join(dict.fromkeys(forms))}"
    return FunctionDoc(function.name, python, parameters, text.replace("\\", "\\\\"), bare, takes_word)


def _parameters(signatures: tuple[Signature, ...]) -> Iterator[Parameter]:
    longest = max(signatures, key=lambda s: len(s.args))
    least = min(sum(not a.is_optional for a in s.args) for s in signatures)
    taken: set[str] = set()
    for index, argument in enumerate(longest.args):
        base = re.sub(r"\W+", "_", argument.name.lower()).strip("_") or "value"
        base = f"{base}_" if keyword.iskeyword(base) else base
        name, number = base, 2
        while name in taken:
            name, number = f"{base}{number}", number + 1
        taken.add(name)
        last = index == len(longest.args) - 1
        if last and any(s.variadic for s in signatures):
            if not argument.is_optional:
                yield Parameter(name)
            yield Parameter("more", variadic=True)
            return
        yield Parameter(name, optional=index >= least)
