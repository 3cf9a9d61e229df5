"""SQL types of Python functions: given, or from annotations."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from runtime.core import types as sql
from runtime.core.errors import TypeMismatchError
from runtime.core.types import DataType, TypeRoot
from runtime.expr.function import ArgumentType, Signature
from runtime.expr.typing import implicit_cast
from sqlengine.values.data_types import column_types, to_type

__all__ = ["argument_types", "named_parameters", "positional", "result_of", "row_of", "signature"]

_PLAIN: dict[Any, DataType] = {
    bool: sql.BOOLEAN,
    int: sql.BIGINT,
    float: sql.DOUBLE,
    str: sql.STRING,
    bytes: sql.BYTES,
    decimal.Decimal: sql.decimal(38, 18),
    dt.date: sql.DATE,
    dt.time: sql.TIME,
    dt.datetime: sql.TIMESTAMP,
    dt.timedelta: sql.INTERVAL_SECOND,
}


def _of_annotation(annotation: Any) -> DataType | None:
    """The SQL type that a Python annotation means: BIGINT for int, ARRAY<BIGINT> for list[int]; None for one that means
    none."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if _is_data_class(annotation):
        return _of_class(annotation)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        real = [a for a in args if a is not type(None)]
        return _of_annotation(real[0]) if len(real) == 1 else None
    if origin in (list, Sequence) and args:
        element = _of_annotation(args[0])
        return None if element is None else sql.array(element)
    if origin is dict and args:
        key, value = (_of_annotation(a) for a in args)
        return None if key is None or value is None else sql.map_of(key, value)
    if origin is tuple and args and args[-1] is not Ellipsis:
        parts = [_of_annotation(a) for a in args]
        if None in parts:
            return None
        return sql.row(*((f"f{i}", t) for i, t in enumerate(parts) if t is not None))
    if origin in (Iterator, Iterable):
        return _of_annotation(args[0])
    return None


def _is_data_class(annotation: Any) -> bool:
    return isinstance(annotation, type) and dataclasses.is_dataclass(annotation)


def _of_class(class_: Any) -> DataType | None:
    """A dataclass as a structured type with the class's name; None when a field has no SQL type."""
    hints = typing.get_type_hints(class_)
    parts = [(f.name, _of_annotation(hints[f.name])) for f in dataclasses.fields(class_)]
    name = f"{class_.__module__}.{class_.__name__}"
    if any(t is None for _, t in parts):
        return None
    return sql.structured(name, *((n, t) for n, t in parts if t is not None))


def _has_class(annotation: Any) -> bool:
    return _is_data_class(annotation) or any(map(_has_class, typing.get_args(annotation)))


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError):
        return {}


def result_of(name: str, function: Callable[..., Any], given: Any) -> DataType:
    """The type of a function's result; E1324 when nothing tells it."""
    if given is not None:
        return _given(given)
    found = _of_annotation(_annotations(function).get("return"))
    if found is None:
        raise TypeMismatchError(
            f"the result type of the Python function {name} is not known",
            code="E1324",
            hint='say it: result_type="BIGINT", or annotate the function: -> int',
        )
    return found


def _given(given: Any) -> DataType:
    if isinstance(given, (list, tuple, dict)):
        return row_of(given)
    return to_type(given)


def row_of(given: Any) -> DataType:
    """The row type of a table function's rows: a ROW as it is, several types or named ones, or one value as `f0`."""
    if isinstance(given, dict):
        names, kinds = column_types(given)
        return sql.row(*((n, t) for n, t in zip(names, kinds, strict=True) if t is not None))
    if isinstance(given, (list, tuple)):
        if given and all(isinstance(g, tuple) for g in given):
            return sql.row(*((n, to_type(t)) for n, t in given))
        return sql.row(*((f"f{i}", to_type(t)) for i, t in enumerate(given)))
    kind = to_type(given)
    return kind if kind.root is TypeRoot.ROW else sql.row(("f0", kind))


def named_parameters(function: Callable[..., Any]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """The names of a function's parameters that SQL may name, and the default values of the last of them. None of one that
    takes any number of values."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = list(inspect.signature(function).parameters.values())
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return (), ()
    plain = [p for p in parameters if p.kind in kinds]
    defaults = tuple(p.default for p in plain if p.default is not inspect.Parameter.empty)
    return tuple(p.name for p in plain), defaults


def positional(function: Callable[..., Any], *, skip: int = 0) -> tuple[int, int | None]:
    """The least and the greatest number of arguments, after the first `skip`; None is any number."""
    parameters = list(inspect.signature(function).parameters.values())
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    plain = [p for p in parameters if p.kind in kinds][skip:]
    variadic = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    return sum(p.default is inspect.Parameter.empty for p in plain), None if variadic else len(plain)


def argument_types(function: Callable[..., Any], given: Any, *, skip: int = 0) -> list[DataType | None]:
    """The types of a function's arguments as far as they are given or annotated."""
    if given is not None:
        given = _columns(given)
        return [to_type(t) for t in (given if isinstance(given, (list, tuple)) else [given])]
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    hints = _annotations(function)
    plain = [p for p in parameters if p.kind is not inspect.Parameter.VAR_POSITIONAL]
    # A row becomes an instance of a dataclass by the names of its fields, whatever its type: `taking_objects`.
    found = (hints.get(p.name) for p in plain)
    return [None if _has_class(annotation) else _of_annotation(annotation) for annotation in found]


def _columns(given: Any) -> Any:
    """A ROW as the types of its fields, which PyFlink takes for several arguments."""
    if isinstance(given, (list, tuple)):
        return given
    row = to_type(given)
    return [f.type for f in row.fields] if row.root is TypeRoot.ROW else given


def signature(
    function: Callable[..., Any], given: Any, result: DataType, *, skip: int = 0, untyped: bool = False
) -> Signature:
    """How the function may be called in SQL. `untyped`: annotations are those of whole columns and tell nothing."""
    least, most = positional(function, skip=skip)
    types_ = [] if untyped and given is None else argument_types(function, given, skip=skip)
    if given is not None:
        most = len(types_) if most is None else min(most, len(types_))
    count = max(len(types_), least) if most is None else most
    arguments = [
        _argument(types_[i] if i < len(types_) else None, optional=i >= least and given is None) for i in range(count)
    ]
    if most is None:
        return Signature((*arguments, _argument(None, optional=True)), result, variadic=True)
    return Signature(tuple(arguments), result)


def _argument(type_: DataType | None, *, optional: bool) -> ArgumentType:
    if type_ is None:
        return ArgumentType("ANY", lambda t: t.root is not TypeRoot.NULL, lambda t: None, optional)

    def coerce(given: DataType) -> DataType | None:
        # SQL writes 1.5 as a DECIMAL: a function that takes a float takes it, too.
        return type_ if implicit_cast(given, type_) or (given.is_numeric and type_.is_approximate) else None

    def accepts(given: DataType) -> bool:
        return given.same_ignoring_nullability(type_)

    return ArgumentType(str(type_), accepts, coerce, optional)
