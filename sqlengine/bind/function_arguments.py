"""The arguments of a call of a process table function: by name or position, tables, descriptors, and the two that each has.

f(TABLE t PARTITION BY k, 3)        f(input => TABLE t PARTITION BY k, n => 3, on_time => DESCRIPTOR(ts), uid => 'x')
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from runtime.core.errors import BindError, TypeMismatchError, did_you_mean
from runtime.core.types import BIGINT, BOOLEAN, DOUBLE, NULL, STRING, DataType, TypeRoot
from runtime.eval.constant import fold_constant
from runtime.expr.function import ScalarFunction, shown_name
from runtime.expr.nodes import Column, Expr, Literal
from runtime.expr.typing import implicit_cast
from sqlengine.bind.coerce import cast_to
from sqlengine.bind.expression import ExpressionBinder
from sqlengine.bind.scope import Scope, Source
from sqlengine.bind.session import Clause, QueryEnv
from sqlengine.parse.nodes import DefaultArg, Descriptor, FunctionCall, NamedArg
from sqlengine.parse.spans import span_of

__all__ = ["SYSTEM", "call_arguments", "check_uid", "constant_argument", "descriptor_column", "in_order", "refused"]

SYSTEM = ("on_time", "uid")
"""The arguments that each process table function has."""


def refused(message: str, tree: exp.Expr, hint: str) -> BindError:
    """The error E1230 at an argument."""
    return BindError(message, code="E1230", span=span_of(tree), hint=hint)


def call_arguments(
    name: str,
    call: FunctionCall,
    parameters: Sequence[str],
    optional: Sequence[str],
    usage: str,
    system: Sequence[str] = SYSTEM,
) -> dict[str, exp.Expr]:
    """The arguments that are given, by the names of `parameters` and `system`; DEFAULT stands for one that is not.

    Raises BindError E1230 for arguments that the function does not have, that are there twice, or that are missing.
    """
    names = (*parameters, *system)
    lowered = {p.lower(): p for p in names}
    found: dict[str, exp.Expr] = {}
    for position, argument in enumerate(call.expressions):
        value = argument
        if isinstance(argument, NamedArg):
            given = argument.this.name
            key = lowered.get(given.lower())
            if key is None:
                raise refused(f'{name} has no argument "{given}"', argument, did_you_mean(given, names) or usage)
            value = argument.expression
        elif position < len(parameters):
            key = parameters[position]
        else:
            raise refused(f"{name} has at most {len(parameters)} arguments by position", argument, usage)
        if key in found:
            raise refused(f"the argument {key} of {name} is there twice", argument, "give it once")
        found[key] = value
    found = {key: value for key, value in found.items() if not isinstance(value, DefaultArg)}
    for parameter in parameters:
        if parameter not in found and parameter not in optional:
            raise refused(f"{name} lacks its argument {parameter}", call, usage)
    return found


def in_order(function: ScalarFunction, call: FunctionCall) -> list[exp.Expr | Literal]:
    """The arguments of a call of a Python function by name, in the order of its parameters; what is left out before others
    is the default that the function has.

    Raises BindError E1230 as `call_arguments`, and for a default that is no plain value.
    """
    names, name = function.parameters, shown_name(function.name)
    optional = names[len(names) - len(function.defaults) :]
    usage = f"it takes {', '.join(names)}"
    given = call_arguments(name, call, names, optional, usage, system=())
    defaults = dict(zip(optional, function.defaults, strict=True))
    last = max((names.index(n) for n in given), default=-1)
    found: list[exp.Expr | Literal] = []
    for parameter in names[: last + 1]:
        if parameter in given:
            found.append(given[parameter])
            continue
        type_ = _PLAIN.get(type(defaults[parameter]))
        if type_ is None:
            raise refused(
                f"the argument {parameter} of {name} has a default that SQL cannot write, and others are behind it",
                call,
                "give it",
            )
        found.append(Literal(defaults[parameter], type_))
    return found


_PLAIN = {
    bool: BOOLEAN.not_null(),
    int: BIGINT.not_null(),
    float: DOUBLE.not_null(),
    str: STRING.not_null(),
    type(None): NULL,
}

_UID = re.compile(r"[a-zA-Z_][a-zA-Z-_0-9]*")


def check_uid(tree: exp.Expr) -> str:
    """The `uid` of a call: a literal of letters, digits, `_` and `-`. Raises BindError E1230."""
    if not (isinstance(tree, exp.Literal) and tree.is_string and _UID.fullmatch(tree.name)):
        raise refused(
            "uid is a text of letters, digits, _ and -, which begins with a letter or _",
            tree,
            "for example uid => 'totals'",
        )
    return tree.name


def descriptor_column(tree: exp.Expr, argument: str) -> exp.Expr:
    """The one column name of a DESCRIPTOR. Raises BindError E1230."""
    if not isinstance(tree, Descriptor):
        raise refused(f"{argument} is DESCRIPTOR(column)", tree, f"write {argument} => DESCRIPTOR(name)")
    if len(tree.expressions) != 1:
        raise refused(
            f"the DESCRIPTOR of {argument} has {len(tree.expressions)} columns, and takes one",
            tree,
            f"write {argument} => DESCRIPTOR(name)",
        )
    (column,) = tree.expressions
    return column


def input_column(source: Source, name: str, tree: exp.Expr, function: str) -> Column:
    """The column of an input that has a name. Raises BindError E1201."""
    found = source.find(name)
    if not found:
        known = [c.name for c in source.columns]
        raise BindError(
            f'the input of {function} has no column "{name}"',
            code="E1201",
            span=span_of(tree),
            hint=did_you_mean(name, known),
        )
    return found[0]


def bound_argument(tree: exp.Expr, argument: str, env: QueryEnv) -> Expr:
    """An argument without columns."""
    return ExpressionBinder(env, Scope(), Clause(f"the argument {argument}", subqueries=False)).bind(tree)


def constant_argument(tree: exp.Expr, argument: str, env: QueryEnv) -> Literal:
    """The value of an argument without columns."""
    context = env.context
    return fold_constant(bound_argument(tree, argument, env), context.functions, context.time_zone, context.now)


def typed_argument(function: str, name: str, type_: DataType | None, tree: exp.Expr, env: QueryEnv) -> Expr:
    """An argument without columns, as one of a declared type; None: of any. Raises TypeMismatchError E1230."""
    value = bound_argument(tree, name, env)
    if type_ is None or value.type.same_ignoring_nullability(type_):
        return value
    if not (implicit_cast(value.type, type_) or (value.type.is_numeric and type_.is_approximate)):
        raise TypeMismatchError(
            f"the argument {name} of {shown_name(function).lower()} is {type_.with_nullable(True)}, not {value.type.with_nullable(True)}",
            code="E1230",
            span=span_of(tree),
            hint=f"write CAST(.. AS {type_.with_nullable(True)})",
        )
    return cast_to(value, type_)


def text_argument(tree: exp.Expr, argument: str, env: QueryEnv) -> str:
    """The text of an argument. Raises BindError E1230."""
    value = constant_argument(tree, argument, env)
    if not value.type.is_character or value.value is None:
        raise refused(f"{argument} is a text", tree, f"write {argument} => '..'")
    return str(value.value)


def text_map(tree: exp.Expr, argument: str, env: QueryEnv) -> tuple[tuple[str, str], ...]:
    """The entries of a map of texts. Raises BindError E1230."""
    value = constant_argument(tree, argument, env)
    entries = value.value if value.type.root is TypeRoot.MAP else None
    if entries is None or not all(t.is_character for t in value.type.children) or any(None in e for e in entries):
        raise refused(f"{argument} is a MAP of texts", tree, f"write {argument} => MAP['..', '..']")
    return tuple(entries)


__all__ += ["bound_argument", "input_column", "text_argument", "text_map", "typed_argument"]
