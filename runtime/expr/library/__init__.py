"""The built-in functions: one file per family, listed here by hand."""

from __future__ import annotations

from runtime.expr.function import AnyFunction, FunctionRegistry
from runtime.expr.library import aggregate, logical, window

__all__ = ["builtin_functions"]

_FAMILIES: tuple[tuple[str, list[AnyFunction]], ...] = (
    ("logical", [*logical.FAMILY.functions]),
    ("aggregate", [*aggregate.FUNCTIONS]),
    ("window", [*window.FUNCTIONS]),
)


def builtin_functions() -> FunctionRegistry:
    """A registry of all built-in functions; the caller may register more."""
    registry = FunctionRegistry()
    for _, functions in _FAMILIES:
        for function in functions:
            registry.register(function)
    return registry
