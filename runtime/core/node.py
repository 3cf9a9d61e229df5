"""Immutable, structurally equal tree nodes with a hash that is computed once.

Every family of tree in the project (types, expressions, statements, logical plan, physical plan) is built from `Node`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

__all__ = ["Node", "NodeField", "node", "node_fields"]

_T = TypeVar("_T")


REQUIRED: Any = object()
"""Stands for "no default"."""


@dataclasses.dataclass(frozen=True, slots=True)
class NodeField:
    """A declared field of a node class. `role`: what it is for, as `dataclasses.field(metadata={"role": ...})` says."""

    name: str
    default: Any = REQUIRED
    default_factory: Any = REQUIRED
    compare: bool = True
    keyword_only: bool = False
    role: str = ""

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED and self.default_factory is REQUIRED


class Node:
    """A frozen, slotted value. Identity is its class and its compared fields.

    The hash is cached because nodes share subtrees: a hash computed anew on every use walks the whole tree and is
    exponential on `x + x` chains.
    """

    __slots__ = ("_hash",)

    _fields: ClassVar[tuple[NodeField, ...]] = ()
    _positional: ClassVar[tuple[str, ...]] = ()
    _compared: ClassVar[tuple[str, ...]] = ()
    _behind: ClassVar[tuple[tuple[NodeField, ...], ...]] = ((),)
    """By the number of values given by position: the fields that they leave out."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls = type(self)
        if len(args) > len(cls._positional):
            raise TypeError(f"{cls.__name__} takes {len(cls._positional)} positional arguments, not {len(args)}")
        put = object.__setattr__
        for name, value in zip(cls._positional, args, strict=False):
            put(self, name, value)
        for field in cls._behind[len(args)]:
            if field.name in kwargs:
                put(self, field.name, kwargs.pop(field.name))
            elif field.default is not REQUIRED:
                put(self, field.name, field.default)
            elif field.default_factory is not REQUIRED:
                put(self, field.name, field.default_factory())
            else:
                raise TypeError(f"{cls.__name__} needs a value for {field.name!r}")
        if kwargs:
            raise TypeError(f"{cls.__name__} has no field {next(iter(kwargs))!r}, or it was given twice")

    def with_(self, **changes: Any) -> Self:
        """A copy with some fields replaced; field names that do not exist raise TypeError."""
        cls = type(self)
        copy = cls.__new__(cls)
        put = object.__setattr__
        for field in cls._fields:
            name = field.name
            put(copy, name, changes.pop(name) if name in changes else getattr(self, name))
        if changes:
            raise TypeError(f"{cls.__name__} has no field {next(iter(changes))!r}")
        return copy

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: use with_({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or hash(self) != hash(other):
            return False
        return all(_same(getattr(self, n), getattr(other, n)) for n in type(self)._compared)

    def __hash__(self) -> int:
        try:
            return self._hash  # type: ignore[attr-defined, no-any-return]
        except AttributeError:
            cls = type(self)
            value = hash((cls.__qualname__, *(_hashable(getattr(self, n)) for n in cls._compared)))
            object.__setattr__(self, "_hash", value)
            return value

    def __repr__(self) -> str:
        fields = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in type(self)._fields)
        return f"{type(self).__qualname__}({fields})"

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in type(self)._fields}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)


@dataclass_transform(frozen_default=True, kw_only_default=False, field_specifiers=(dataclasses.field,))
def node(cls: type[_T]) -> type[_T]:
    """Class decorator: the annotations of the class are its fields, slotted and immutable.

    Fields are declared as in a dataclass; of `dataclasses.field` the default, `compare`, `kw_only` and the `role` in
    `metadata` count. Made by
    hand because `dataclass(frozen=True, slots=True)` compiles four methods for each of some two hundred classes, which
    is a tenth of the time that the engine takes to start.
    """
    namespace = dict(cls.__dict__)
    inherited: tuple[NodeField, ...] = getattr(cls, "_fields", ())
    fields = {f.name: f for f in inherited}
    own: list[str] = []
    for name, annotation in namespace.get("__annotations__", {}).items():
        if str(annotation).startswith("ClassVar"):
            continue
        fields[name] = _field(name, namespace.pop(name, REQUIRED))
        own.append(name)
    ordered = tuple(fields.values())
    known = {f.name for f in inherited}
    namespace.pop("__dict__", None)
    namespace.pop("__weakref__", None)
    namespace["__slots__"] = tuple(n for n in own if n not in known)
    namespace["_fields"] = ordered
    namespace["_positional"] = tuple(f.name for f in ordered if not f.keyword_only)
    namespace["_behind"] = _behind(ordered)
    namespace["_compared"] = tuple(f.name for f in ordered if f.compare)
    namespace["__match_args__"] = namespace["_positional"]
    made: Any = type(cls)(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    return made


def _behind(fields: tuple[NodeField, ...]) -> tuple[tuple[NodeField, ...], ...]:
    positional = [f.name for f in fields if not f.keyword_only]
    return tuple(tuple(f for f in fields if f.name not in positional[:n]) for n in range(len(positional) + 1))


def node_fields(thing: Node | type[Node]) -> tuple[NodeField, ...]:
    """The fields of a node or node class, in order of declaration."""
    return thing._fields  # pyright: ignore[reportPrivateUsage]


def _field(name: str, declared: Any) -> NodeField:
    if isinstance(declared, dataclasses.Field):
        default, factory = (
            REQUIRED if v is dataclasses.MISSING else v for v in (declared.default, declared.default_factory)
        )
        role = str(declared.metadata.get("role", ""))
        return NodeField(name, default, factory, declared.compare is not False, declared.kw_only is True, role)
    return NodeField(name, declared)


def _same(a: Any, b: Any) -> bool:
    # NaN literals are one value; 1 and True are two, and so are 0.0 and -0.0.
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (a == b and str(a) == str(b)) or (a != a and b != b)
    return a == b


def _hashable(value: Any) -> Any:
    if isinstance(value, (list, dict, set)):
        raise TypeError("fields of a node are immutable: use tuples")
    # Python gives each NaN a hash of its own.
    return "NaN" if type(value) is float and value != value else value
