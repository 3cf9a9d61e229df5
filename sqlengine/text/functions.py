"""Functions as people read them: their kind, and how they are called."""

from __future__ import annotations

from runtime.expr.function import AggregateFunction, AnyFunction, ProcessFunction, ScalarFunction

__all__ = ["function_kind", "is_called_by_name", "signature_texts"]


def function_kind(function: AnyFunction) -> str:
    """`SCALAR`, `AGGREGATE`, `WINDOW` or `PROCESS TABLE`."""
    if isinstance(function, ScalarFunction):
        return "SCALAR"
    if isinstance(function, ProcessFunction):
        return "PROCESS TABLE"
    return "AGGREGATE" if isinstance(function, AggregateFunction) else "WINDOW"


def is_called_by_name(function: AnyFunction) -> bool:
    """Whether it is written `NAME(..)`, and not as an operator or with words inside."""
    name = function.name
    if not name[:1].isalpha() or " " in name:
        return False
    syntax = function.syntax if isinstance(function, ScalarFunction) else None
    return syntax is None or syntax == name or syntax.startswith(f"{name}(")


def signature_texts(function: AnyFunction, name: str | None = None) -> list[str]:
    """The ways to call a function: `ROUND(<NUMERIC>, [<INTEGER>])`; under another name than its own if given."""
    found = []
    for signature in function.signatures:
        args = [f"<{a.name}>" if not a.is_optional else f"[<{a.name}>]" for a in signature.args]
        found.append(f"{name or function.name}({', '.join(args)}{', ...' if signature.variadic else ''})")
    return found
