"""Procedures, which CALL carries out: the base class `Procedure`, and the decorator `procedure`.

@procedure(result_type={"name": "STRING", "n": "BIGINT"})
def counts(context: ProcedureContext, least: int = 0):
    for name in context.environment.list_tables():
        rows = context.execute_sql(f"SELECT COUNT(*) FROM `{name}`").to_arrow()
        ...
        yield name, n

t_env.create_temporary_procedure("counts", counts)
t_env.execute_sql("CALL counts(least => 3)")

Source: Flink's `org.apache.flink.table.procedures.Procedure`, whose `call` gets a context and arguments and gives rows.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, overload

from runtime.core.errors import OptionError
from runtime.core.schema import Field, Schema
from runtime.core.types import DataType, TypeRoot
from sqlengine.user_functions.types import argument_types, result_of, row_of
from sqlengine.values.data_types import to_type

__all__ = ["Parameter", "Procedure", "ProcedureDeclaration", "declared_procedure", "procedure"]


class Procedure(ABC):
    """Base of procedures written as classes: `call(self, context, *arguments)` returns or yields rows, or None.

    The attributes `result_type` and `input_types`, where they are there, are the arguments of `procedure`.
    """

    @abstractmethod
    def call(self, context: Any, *values: Any, **named: Any) -> Any:
        """The rows of the result: tuples, dicts, or single values for one column. `context`: a `ProcedureContext`."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of a procedure: its type, None where any will do, and whether it may be left out."""

    name: str
    type: DataType | None
    optional: bool = False

    @property
    def text(self) -> str:
        """As usage shows it."""
        kind = "ANY" if self.type is None else str(self.type.with_nullable(True))
        return f"{self.name} => {kind}"


@dataclass(frozen=True)
class ProcedureDeclaration:
    """A procedure as CALL needs it.

    `result`: the columns of its rows; None for one that gives none. `call` gets a context and arguments by name.
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: Schema | None
    call: Callable[..., Any]
    document: str = ""

    def usage_as(self, name: str) -> str:
        """How it is called by a name; arguments that may be left out stand in brackets."""
        return f"{name}({', '.join(f'[{p.text}]' if p.optional else p.text for p in self.parameters)})"


@overload
def procedure(
    function: Callable[..., Any] | type[Procedure] | Procedure,
    *,
    result_type: Any = ...,
    input_types: Mapping[str, Any] | None = ...,
    name: str | None = ...,
) -> ProcedureDeclaration: ...
@overload
def procedure(
    *,
    result_type: Any = ...,
    input_types: Mapping[str, Any] | None = ...,
    name: str | None = ...,
) -> Callable[[Callable[..., Any] | type[Procedure] | Procedure], ProcedureDeclaration]: ...
def procedure(
    function: Any = None,
    *,
    result_type: Any = None,
    input_types: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Any:
    """A procedure for CALL: a function whose first parameter is the context, or a class with such a method `call`.

    Args:
        result_type: the columns of its rows, `{"name": "STRING", "n": "BIGINT"}`, or the type of its one column `result`.
            Without it the annotation of the result tells it (`list[int]`, `Iterator[str]`); a procedure that has none
            gives no rows.
        input_types: types of parameters by name, where annotations do not tell them.
        name: another name than the function's, for messages.

    Raises OptionError E1512 for a declaration that is wrong.
    """

    def decorate(decorated: Any) -> ProcedureDeclaration:
        return _declare(decorated, result_type, input_types or {}, name)

    return decorate if function is None else decorate(function)


def declared_procedure(thing: Any) -> ProcedureDeclaration:
    """What is decorated as it is, a function, class or object as its annotations and attributes say."""
    if isinstance(thing, ProcedureDeclaration):
        return thing
    return _declare(thing, getattr(thing, "result_type", None), getattr(thing, "input_types", {}), None)


def _declare(
    thing: Any, result_type: Any, input_types: Mapping[str, Any], given_name: str | None
) -> ProcedureDeclaration:
    name = given_name or getattr(thing, "__name__", None) or type(thing).__name__
    if inspect.isclass(thing) and not issubclass(thing, Procedure):
        raise _wrong(name, "a class has to be a Procedure", "write class P(Procedure) with a method call")
    try:
        found = thing() if inspect.isclass(thing) else thing
    except TypeError as error:
        raise _wrong(
            name, str(error), "write def call(self, context, ..), and a class that needs no arguments"
        ) from error
    call = found.call if isinstance(found, Procedure) else found
    if not callable(call):
        raise _wrong(name, "it cannot be called", "give a function, or an object of a class of Procedure")
    parameters = list(inspect.signature(call).parameters.values())
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if not parameters or any(p.kind in variadic for p in parameters):
        raise _wrong(
            name, "its parameters are the context and one for each argument", "write def p(context, n: int): .."
        )
    names = [p.name for p in parameters[1:]]
    unknown = [n for n in input_types if n not in names]
    if unknown:
        raise _wrong(name, f"it has no parameter {unknown[0]}", f"its parameters are {', '.join(names) or 'none'}")
    types = argument_types(call, None, skip=1)
    return ProcedureDeclaration(
        name,
        tuple(
            Parameter(p.name, to_type(input_types[p.name]) if p.name in input_types else t, p.default is not p.empty)
            for p, t in zip(parameters[1:], types, strict=True)
        ),
        _result(name, call, result_type),
        call,
        inspect.getdoc(thing) or "",
    )


def _result(name: str, call: Callable[..., Any], given: Any) -> Schema | None:
    """The columns of the rows. Raises TypeMismatchError E1324 for an annotation that is no type."""
    if given is None:
        annotation = inspect.signature(call).return_annotation
        if annotation in (inspect.Signature.empty, None, "None"):
            return None
        type_ = result_of(name, call, None)
        # A list of values is a row for each.
        type_ = type_.children[0] if type_.root is TypeRoot.ARRAY else type_
    else:
        type_ = row_of(given) if isinstance(given, (dict, list, tuple)) else to_type(given)
    if type_.root is TypeRoot.ROW:
        return Schema(tuple(Field(f.name, f.type) for f in type_.fields))
    return Schema((Field("result", type_),))


def _wrong(name: str, message: str, hint: str) -> OptionError:
    return OptionError(f"the procedure {name}: {message}", code="E1512", hint=hint)
