"""Immutable, structurally equal tree nodes with a hash that is computed once.

Every family of tree in the project (types, expressions, logical plan, physical plan) is built from `Node`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Self, TypeVar, dataclass_transform

__all__ = ["Node", "node"]

_T = TypeVar("_T")


class Node:
    """A frozen, slotted value. Identity is its class and its compared fields.

    The hash is cached because nodes share subtrees: a hash computed anew on every use walks the whole tree and is
    exponential on `x + x` chains.
    """

    __slots__ = ("_hash",)

    def with_(self, **changes: Any) -> Self:
        """A copy with some fields replaced; field names that do not exist raise TypeError."""
        values = {name: getattr(self, name) for name in _field_names(type(self))}
        for name in changes:
            if name not in values:
                raise TypeError(f"{type(self).__name__} has no field {name!r}")
        values.update(changes)
        return type(self)(**values)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or hash(self) != hash(other):
            return False
        return all(_same(getattr(self, n), getattr(other, n)) for n in _compared_names(type(self)))

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            value = hash((type(self).__qualname__, *(_hashable(getattr(self, n)) for n in _compared_names(type(self)))))
            object.__setattr__(self, "_hash", value)
            return value

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _field_names(type(self))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)


@dataclass_transform(frozen_default=True, kw_only_default=False, field_specifiers=(dataclasses.field,))
def node(cls: type[_T]) -> type[_T]:
    """Class decorator: a frozen, slotted dataclass whose equality and hash come from `Node`.

    A field declared with `dataclasses.field(compare=False)` takes no part in equality.
    """
    return dataclasses.dataclass(frozen=True, slots=True, eq=False)(cls)


_FIELDS: dict[type, tuple[str, ...]] = {}
_COMPARED: dict[type, tuple[str, ...]] = {}


def _field_names(cls: type) -> tuple[str, ...]:
    names = _FIELDS.get(cls)
    if names is None:
        names = _FIELDS[cls] = tuple(f.name for f in dataclasses.fields(cls) if f.init)
    return names


def _compared_names(cls: type) -> tuple[str, ...]:
    names = _COMPARED.get(cls)
    if names is None:
        names = _COMPARED[cls] = tuple(f.name for f in dataclasses.fields(cls) if f.compare)
    return names


def _same(a: Any, b: Any) -> bool:
    # NaN literals are one value; 1 and True are two.
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return a == b and str(a) == str(b) or (a != a and b != b)
    return a == b


def _hashable(value: Any) -> Any:
    if isinstance(value, (list, dict, set)):
        raise TypeError("fields of a node are immutable: use tuples")
    return value
