"""How a stream that a program pushes becomes a table of the catalog."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from connectors.pushed import PushedTable
from runtime.core.changelog import APPEND, RETRACT, UPSERT
from runtime.core.errors import BindError, OptionError, SqlEngineError, TypeMismatchError, did_you_mean
from runtime.core.schema import Schema
from runtime.core.types import DataType, TimeAttribute
from sqlengine.api.pushed_input import Input
from sqlengine.catalog.objects import CatalogTable, PhysicalColumn
from sqlengine.database.session import PYTHON_INPUT, Session, physical_schema
from sqlengine.parse import parse_statement
from sqlengine.statements.dispatch import execute
from sqlengine.values.code import path_sql
from sqlengine.values.data_types import TableSchema, column_types

__all__ = ["InputOptions", "create_input"]

_MODES = {"append": APPEND, "retract": RETRACT, "upsert": UPSERT}


@dataclass(frozen=True)
class InputOptions:
    """What `create_input` is told beside name and schema."""

    rowtime: str | None
    changelog_mode: str | None
    capacity: int
    keep: bool


def create_input(session: Session, name: str, schema: Any, options: InputOptions) -> Input:
    """The handle of a new input, which is a temporary table of this name from now on."""
    text = f"CREATE TEMPORARY TABLE {path_sql(name)} ({_ddl(schema)}) WITH ('connector' = '{PYTHON_INPUT}')"
    rowtime = options.rowtime or (schema.rowtime if isinstance(schema, TableSchema) else None)
    statement = parse_statement(text)
    try:
        execute(statement, session)
    except SqlEngineError as error:
        error.text = error.text or text
        raise
    found = session.catalogs.find(session.catalogs.qualify(tuple(part for part in _parts(name))))
    assert isinstance(found, CatalogTable)
    try:
        mode = _mode(found, options.changelog_mode)
        table = found if rowtime is None else _with_rowtime(found, rowtime)
    except SqlEngineError:
        execute(parse_statement(f"DROP TEMPORARY TABLE {path_sql(name)}"), session)
        raise
    session.catalogs.replace(table)
    plain = Schema(tuple(f.with_(type=f.type.materialized()) for f in physical_schema(found)))
    pushed = PushedTable(
        str(table.path), plain, _MODES[mode], options.capacity, timed=rowtime is not None, keep=options.keep
    )
    session.inputs[table.storage] = pushed
    return Input(pushed)


def _ddl(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    if isinstance(schema, TableSchema):
        return schema.ddl
    names, types = column_types(schema)
    missing = [n for n, t in zip(names, types, strict=True) if t is None]
    if missing:
        raise TypeMismatchError(
            f'the column "{missing[0]}" has no type', code="E1324", hint=f'give one: {{"{missing[0]}": "STRING"}}'
        )
    return TableSchema(tuple((n, t) for n, t in zip(names, types, strict=True) if isinstance(t, DataType))).ddl


def _parts(name: str) -> list[str]:
    return [name.strip("`")] if "`" in name else name.split(".")


def _mode(table: CatalogTable, wanted: str | None) -> str:
    mode = wanted or ("upsert" if table.primary_key else "append")
    if mode not in _MODES:
        raise OptionError(f"an input has no changelog mode '{mode}'", code="E1511", hint=did_you_mean(mode, _MODES))
    if mode == "upsert" and not table.primary_key:
        raise OptionError(
            "an input of mode 'upsert' needs a primary key",
            code="E1511",
            hint='TableSchema().column("id", "BIGINT").primary_key("id")',
        )
    return mode


def _with_rowtime(table: CatalogTable, name: str) -> CatalogTable:
    """The table with a column as its event time, whose watermark the source tells."""
    columns = []
    if table.watermark is not None:
        raise OptionError(
            "the schema has a watermark already, and rowtime asks to tell it",
            code="E1511",
            hint="leave out one of the two",
        )
    for column in table.columns:
        if column.name == name and isinstance(column, PhysicalColumn):
            if not column.type.is_timestamp or column.type.precision > 3:
                raise TypeMismatchError(
                    f'the event-time column "{name}" is {column.type}',
                    code="E1312",
                    hint="it takes a TIMESTAMP(3) or TIMESTAMP_LTZ(3)",
                )
            column = replace(column, type=column.type.with_(time_attribute=TimeAttribute.ROWTIME))
        columns.append(column)
    if tuple(columns) == table.columns:
        raise BindError(
            f'rowtime names "{name}", which is no column that is pushed',
            code="E1201",
            hint=did_you_mean(name, [c.name for c in table.columns]),
        )
    return replace(table, columns=tuple(columns))
