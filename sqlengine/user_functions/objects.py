"""Dataclasses of Python as structured types: results as rows, and arguments as instances of the annotated class."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["fields_of", "is_data_class", "of_objects", "taking_objects"]

_Made = Callable[[Any], Any]


def is_data_class(annotation: Any) -> bool:
    """Whether an annotation is a class made by `dataclasses.dataclass`."""
    return isinstance(annotation, type) and dataclasses.is_dataclass(annotation)


def fields_of(value: Any) -> dict[str, Any] | None:
    """The fields of an instance of a dataclass by name; None for any other value."""
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        return None
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


def of_objects(value: Any) -> Any:
    """A value with the instances of dataclasses in it as dicts."""
    fields = fields_of(value)
    if fields is not None:
        return {name: of_objects(part) for name, part in fields.items()}
    if isinstance(value, list):
        return [of_objects(part) for part in value]
    if isinstance(value, Mapping):
        return {name: of_objects(part) for name, part in value.items()}
    return value


def taking_objects(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with its rows as instances of the dataclasses that its parameters are annotated with, by name; the
    function itself when there is none."""
    try:
        hints = typing.get_type_hints(function)
        parameters = list(inspect.signature(function).parameters)
    except (NameError, TypeError, ValueError):
        return function
    made = [_maker(hints.get(name)) for name in parameters]
    if not any(made):
        return function

    @functools.wraps(function)
    def call(*values: Any) -> Any:
        given = [v if m is None or v is None else m(v) for v, m in zip(values, made, strict=False)]
        return function(*given, *values[len(given) :])

    return call


def _maker(annotation: Any) -> _Made | None:
    """What makes an instance of a row; None where the annotation is no dataclass."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        real = [a for a in typing.get_args(annotation) if a is not type(None)]
        return _maker(real[0]) if len(real) == 1 else None
    if not is_data_class(annotation):
        return None
    hints = typing.get_type_hints(annotation)
    names = [f.name for f in dataclasses.fields(annotation) if f.init]
    inner = {name: _maker(hints.get(name)) for name in names}

    def make(row: Any) -> Any:
        given = {name: row[name] for name in names}
        return annotation(**{n: v if (m := inner[n]) is None or v is None else m(v) for n, v in given.items()})

    return make
