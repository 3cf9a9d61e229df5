"""PREPARE, EXECUTE, DEALLOCATE: prepared statements that a session knows by name."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from runtime.core.errors import PlanningError, Span, SqlEngineError, UnsupportedError, did_you_mean
from runtime.core.types import DataType, TypeRoot
from runtime.eval.constant import fold_constant
from runtime.expr.nodes import Literal
from sqlengine.bind import bind_expression
from sqlengine.database.binding import Binding
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.statements.prepared_statement import Prepared
from sqlengine.values.rows import Row

__all__ = ["deallocate", "execute_prepared", "prepare"]

_PREPARED = (st.QueryStatement, st.Insert, st.Update, st.Delete)


def prepare(statement: st.Prepare, session: Session) -> Result:
    """Read and bind a statement, and remember it by its name."""
    name = statement.name.text
    if name in session.prepared:
        raise PlanningError(
            f'there is a prepared statement "{name}" already',
            code="E1637",
            span=statement.name.span,
            hint=f"DEALLOCATE {name} first",
        )
    inner = statement.statement
    if not isinstance(inner, _PREPARED):
        raise UnsupportedError(
            "only queries, INSERT, UPDATE and DELETE can be prepared",
            code="E1638",
            span=inner.span,
            hint="run the statement itself",
        )
    session.prepared[name] = Prepared(inner, session)
    return Result.ok()


def execute_prepared(
    statement: st.ExecutePrepared, session: Session, run: Callable[[st.Statement, Session], Result]
) -> Result:
    """Carry out a prepared statement; its values are constant expressions."""
    found = _find(statement.name, session)
    values = [_value(argument, session) for argument in statement.values]
    try:
        parameters = found.once(
            dict(zip(found.marks.keys, values, strict=True)) if _all_named(found, values) else values
        )
        session.parameters = parameters
        try:
            return run(found.statement, session)
        finally:
            session.parameters = None
    except SqlEngineError as error:
        # Places in the prepared text mean nothing in this one.
        error.span = statement.span
        raise


def _all_named(found: Prepared, values: list[Any]) -> bool:
    """Whether values go to names, in the order in which those stand first."""
    return found.marks.named and len(values) == len(found.marks.keys)


def deallocate(statement: st.Deallocate, session: Session) -> Result:
    """Forget a prepared statement, or all."""
    if statement.name is None:
        session.prepared.clear()
    else:
        _find(statement.name, session)
        del session.prepared[statement.name.text]
    return Result.ok()


def _find(name: st.Name, session: Session) -> Prepared:
    found = session.prepared.get(name.text)
    if found is None:
        raise PlanningError(
            f'there is no prepared statement "{name.text}"',
            code="E1636",
            span=name.span,
            hint=did_you_mean(name.text, session.prepared) or f"PREPARE {name.text} AS .. makes it",
        )
    return found


def _value(argument: st.ExpressionText, session: Session) -> Any:
    """The value of a constant expression as Python has it."""
    bound = bind_expression(argument.expression, (), Binding(session, False), place="a value of EXECUTE")
    return _in_python(fold_constant(bound, session.functions, session.time_zone, session.clock.now()), argument.span)


def _in_python(literal: Literal, span: Span) -> Any:
    if _holds(literal.type, TypeRoot.INTERVAL_MONTH):
        raise UnsupportedError(
            "an interval of months cannot be given to a prepared statement",
            code="E1638",
            span=span,
            hint="write it in the statement, with a number for it: TIMESTAMPADD(MONTH, ?, ts)",
        )
    return _plain(literal.value, literal.type)


def _holds(type_: DataType, root: TypeRoot) -> bool:
    return type_.root is root or any(_holds(t, root) for t in (*type_.children, *(f.type for f in type_.fields)))


def _plain(value: Any, type_: DataType) -> Any:
    if value is None:
        return None
    match type_.root:
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            if isinstance(value, int):
                value = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=value // 1000)
            return value.replace(tzinfo=dt.UTC if type_.root is TypeRoot.TIMESTAMP_LTZ else None)
        case TypeRoot.INTERVAL_SECOND:
            return dt.timedelta(milliseconds=value)
        case TypeRoot.ARRAY:
            return [_plain(v, type_.children[0]) for v in value]
        case TypeRoot.MAP:
            key, item = type_.children
            return {_plain(k, key): _plain(v, item) for k, v in value}
        case TypeRoot.ROW:
            fields = zip(value, type_.fields, strict=True)
            return Row.of([_plain(v, f.type) for v, f in fields], names=tuple(f.name for f in type_.fields))
        case _:
            return value
