"""CALL, CREATE PROCEDURE, and what SHOW and DESCRIBE say of procedures: those of users, and those of the engine, which are
in the database `sys` of every catalog.

A call takes no lock: its procedure runs statements, of which each takes what it needs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner.logical.nodes import Values
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import CatalogError, PlanningError, SqlEngineError, TypeMismatchError, did_you_mean
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.types import BOOLEAN, STRING
from runtime.eval.context import BatchContext
from runtime.eval.evaluator import Evaluator
from sqlengine.bind.procedures import bind_call
from sqlengine.catalog.definitions import CatalogProcedure
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.binding import Binding
from sqlengine.database.session import Session
from sqlengine.options.dialect import DIALECT
from sqlengine.parameters.rows import bound
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.ddl_nodes import ObjectName
from sqlengine.results.result import Result
from sqlengine.statements.definitions import is_free
from sqlengine.statements.functions import check_language, load_object
from sqlengine.user_functions.failures import failed_call
from sqlengine.user_functions.procedures import ProcedureDeclaration, declared_procedure
from sqlengine.values.code import path_sql
from sqlengine.values.python_data import elements
from sqlengine.values.rows import Row, python_values

if TYPE_CHECKING:
    import sqlengine.statements.system_procedures as _system
else:
    _system = Room("sqlengine.statements.system_procedures")

__all__ = [
    "SYS",
    "call",
    "create_procedure",
    "described_procedure",
    "procedure_names",
    "register_procedure",
    "result_columns",
]

SYS = "sys"
"""The database of the engine's own procedures."""


# --- CALL
# ---------------------------------------------------------------------------------------------------------------------


def call(statement: st.Call, session: Session) -> Result:
    """Carry out a procedure; its rows are the result.

    Raises:
        CatalogError: E1460 there is no such procedure.
        BindError, TypeMismatchError: E1230 for wrong arguments.
        ExpressionError: E2110 the user's procedure has failed. An error of a statement that it runs stays as it is.
    """
    found = _find(statement.procedure, session)
    declared = _declaration(found)
    name = statement.procedure.parts[-1]
    values = _arguments(name, declared, statement, session)
    if found is declared:
        try:
            return _result(name, declared, declared.call(session, **values))
        except SqlEngineError as error:
            # What it has run is no text of the user's.
            error.span = statement.procedure.span
            raise
    context = session.procedure_context()
    if context is None:
        raise PlanningError(f"the procedure {name} needs an environment", code="E1629", span=statement.procedure.span)
    try:
        with _reading_flink(session):
            rows = declared.call(context, **values)
            if isinstance(rows, Iterator):
                rows = list(rows)
    except SqlEngineError:
        raise
    except Exception as error:
        raise failed_call(name, error, "", "procedure", "what its statements have done by then stays done") from error
    return _result(name, declared, rows)


@contextmanager
def _reading_flink(session: Session) -> Generator[None]:
    """The statements of a procedure mean the same whoever calls it."""
    options, key = session.options, DIALECT.key
    before = options.text(key)
    options.reset(key)
    try:
        yield
    finally:
        if before is not None:
            options.set(key, before)


def _arguments(name: str, declared: ProcedureDeclaration, statement: st.Call, session: Session) -> dict[str, Any]:
    """The values of arguments by name, as Python has them."""
    values = _bound(name, declared, statement, session)
    now = BatchContext(1, session.time_zone, session.clock.now())
    one = pa.RecordBatch.from_arrays([pa.array([True])], names=["one"])
    columns = Evaluator(values.rows[0], session.functions).evaluate(one, now)
    return {c.name: python_values(v, c.type)[0] for c, v in zip(values.columns, columns, strict=True)}


def _bound(name: str, declared: ProcedureDeclaration, statement: st.Call, session: Session) -> Values:
    usage = f"write CALL {declared.usage_as(str(statement.procedure))}"
    span = statement.span or statement.procedure.span
    binding = Binding(session, False)

    def bind() -> Values:
        return bind_call(name, declared.parameters, statement.arguments, usage, span, binding)

    return bind() if binding.parameters is None else bound(binding.parameters, bind)


def result_columns(statement: st.Call, session: Session) -> Schema | None:
    """The columns of the rows that a call will give, without calling; its parameters learn their types. Raises what `call`
    raises for names and arguments."""
    declared = _declaration(_find(statement.procedure, session))
    _bound(statement.procedure.parts[-1], declared, statement, session)
    return declared.result


def _result(name: str, declared: ProcedureDeclaration, rows: Any) -> Result:
    if declared.result is None:
        return Result.ok()
    given = [] if rows is None else rows if isinstance(rows, (list, tuple)) and not isinstance(rows, Row) else [rows]
    try:
        schema, table = elements(given, {f.name: f.type for f in declared.result})
    except TypeMismatchError as error:
        error.message = f"the procedure {name} gave rows that do not fit: {error.message}"
        raise
    batches = [ChangelogBatch.of(b.columns, schema) for b in table.combine_chunks().to_batches()]
    return Result(schema, batches or [ChangelogBatch.empty(schema)])


# --- names
# ---------------------------------------------------------------------------------------------------------------------


def _find(name: ObjectName, session: Session) -> CatalogProcedure | ProcedureDeclaration:
    """The procedure of a name: that of a user before that of the engine. Raises CatalogError E1460 with near names."""
    path = session.catalogs.qualify(name.parts)
    found = session.catalogs.find_definition("procedure", path)
    if isinstance(found, CatalogProcedure):
        return found
    system = _system.procedures()
    if path.database == SYS and path.name in system:
        session.catalogs.catalog(path.catalog, name.span)
        return system[path.name]
    raise CatalogError(
        f'there is no procedure "{".".join(name.parts)}"', code="E1460", span=name.span, hint=_near(path, session)
    )


def _declaration(found: CatalogProcedure | ProcedureDeclaration) -> ProcedureDeclaration:
    declared = found.declared if isinstance(found, CatalogProcedure) else found
    assert isinstance(declared, ProcedureDeclaration)
    return declared


def _near(path: ObjectPath, session: Session) -> str:
    known = _names(path.catalog, path.database, session)
    system = _system.procedures()
    if path.database != SYS and path.name in system:
        return f"did you mean {SYS}.{path.name}?"
    qualified = [*known, *(f"{SYS}.{n}" for n in system)] if path.database != SYS else known
    near = did_you_mean(path.name, qualified)
    if near is None and path.database != SYS and (close := did_you_mean(path.name, system)):
        near = close.replace('"', f'"{SYS}.', 1)
    where = "" if path.database == session.catalogs.current_database else f" IN {path.database}"
    return near or f"SHOW PROCEDURES{where} lists them; SHOW PROCEDURES IN {SYS} those of the engine"


def _names(catalog: str, database: str, session: Session) -> list[str]:
    names = {d.path.name for d in session.catalogs.seen_definitions("procedure", catalog, database)}
    return sorted(names | set(_system.procedures() if database == SYS else ()))


def procedure_names(statement: st.Show, session: Session) -> list[str]:
    """The procedures of the database that SHOW PROCEDURES names, or of the current one."""
    catalogs = session.catalogs
    parts = statement.name.parts if statement.name is not None else (catalogs.current_database,)
    catalog, database = parts if len(parts) == 2 else (catalogs.current_catalog, parts[0])
    span = None if statement.name is None else statement.name.span
    if database == SYS:
        catalogs.catalog(catalog, span)
    else:
        catalogs.database(catalog, database, span)
    return _names(catalog, database, session)


def described_procedure(statement: st.Describe, session: Session) -> Result:
    """The arguments of a procedure."""
    declared = _declaration(_find(statement.name, session))
    rows = [
        (p.name, "ANY" if p.type is None else str(p.type.with_nullable(True)), p.optional, True)
        for p in declared.parameters
    ]
    rows += [(f.name, str(f.type.with_nullable(True)), False, False) for f in declared.result or ()]
    schema = Schema.of(("name", STRING), ("type", STRING), ("optional", BOOLEAN), ("is input", BOOLEAN))
    return Result.table(schema, [[r[i] for r in rows] for i in range(len(schema))])


# --- procedures of users
# ---------------------------------------------------------------------------------------------------------------------


def create_procedure(statement: st.CreateProcedure, session: Session) -> Result:
    """Make a Python object known as a procedure. Raises UnsupportedError E1604 for another language, CatalogError E1443 for
    what cannot be imported, E1401 for a name that is taken."""
    check_language(statement.language, statement.span)
    declared = declared_procedure(load_object(statement.identifier.text, statement.identifier.span))
    path, found = session.catalogs.qualify(statement.name.parts), statement.identifier.text
    made = CatalogProcedure(path=path, temporary=statement.temporary, identifier=found, declared=declared)
    if is_free(made, session, statement.name.span, if_not_exists=statement.if_not_exists):
        session.catalogs.define(made)
    return Result.ok()


def register_procedure(session: Session, path: str, procedure: Any, *, temporary: bool, if_not_exists: bool) -> None:
    """Make what a program has given known by a path. Raises CatalogError E1401 for a name that is taken."""
    named = parse_statement(f"DESCRIBE {path_sql(path)}")
    assert isinstance(named, st.Describe)
    declared = declared_procedure(procedure)
    with session.alone(redefines=True):
        made = CatalogProcedure(path=session.catalogs.qualify(named.name.parts), temporary=temporary, declared=declared)
        if is_free(made, session, None, if_not_exists=if_not_exists):
            session.catalogs.define(made)
