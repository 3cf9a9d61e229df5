"""DESCRIBE: the columns of a table or view, and the facts of other objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.core.errors import UnsupportedError, pointing_at
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.secrets import masked_text, shown_value
from runtime.core.types import BIGINT, BOOLEAN, DOUBLE, STRING, DataType
from runtime.expr.function import ScalarFunction
from runtime.spi.statistics import TableStatistics
from sqlengine.catalog.catalog import CatalogObject
from sqlengine.catalog.objects import (
    CatalogTable,
    CatalogView,
    ComputedColumn,
    MaterializedView,
    MetadataColumn,
    PhysicalColumn,
)
from sqlengine.database.jobs import RunningJob
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.nodes import FILE_DATABASE
from sqlengine.results.result import Result
from sqlengine.statements.create_text import identity_text
from sqlengine.statements.planning import object_schema
from sqlengine.text.cells import watermark_text
from sqlengine.text.functions import function_kind, signature_texts

if TYPE_CHECKING:
    import sqlengine.database.inferred_tables as _inferred_tables
    import sqlengine.statements.definitions as _definitions
    import sqlengine.statements.procedures as _procedures
else:
    _inferred_tables = Room("sqlengine.database.inferred_tables")
    _definitions = Room("sqlengine.statements.definitions")
    _procedures = Room("sqlengine.statements.procedures")

__all__ = ["column_rows", "describe", "described_schema"]


def describe(statement: st.Describe, session: Session) -> Result:
    match statement.kind:
        case "TABLE":
            found = _described(statement, session)
            rows = column_rows(session, found)
            schema = described_schema(rows)
            cells = [[r[i] for r in rows] for i in range(len(schema))]
            if not statement.extended:
                return Result.table(schema, cells)
            return Result.table(
                Schema((*schema.fields, *_MEASURED.fields)), [*cells, *_measured(found, [r[0] for r in rows])]
            )
        case "CATALOG":
            catalog = session.catalogs.catalog(statement.name.parts[-1], statement.name.span)
            facts = [
                ("name", catalog.name),
                ("type", catalog.options.get("type", "")),
                ("comment", catalog.comment or ""),
            ]
            return _facts(
                facts
                + (
                    [(f"option:{k}", shown_value(k, v)) for k, v in sorted(catalog.options.items())]
                    if statement.extended
                    else []
                )
            )
        case "DATABASE":
            parts = statement.name.parts
            name = parts if len(parts) == 2 else (session.catalogs.current_catalog, parts[0])
            database = session.catalogs.database(*name, statement.name.span)
            facts = [("name", database.name), ("comment", database.comment or "")]
            return _facts(
                facts
                + (
                    [(f"option:{k}", shown_value(k, v)) for k, v in sorted(database.options.items())]
                    if statement.extended
                    else []
                )
            )
        case "JOB":
            with pointing_at(statement.name.span):
                return _facts(_job_facts(session.jobs.get(statement.name.parts[-1]), session))
        case "FUNCTION":
            with pointing_at(statement.name.span):
                return _facts(_function_facts(statement.name.parts[-1], session))
        case "PROCEDURE":
            return _procedures.described_procedure(statement, session)
        case "MODEL":
            return _definitions.described_model(statement, session)
        case "CONNECTION":
            return _definitions.described_connection(statement, session)
        case _:
            raise UnsupportedError(
                f"DESCRIBE {statement.kind} cannot be carried out by this engine",
                code="E1604",
                span=statement.span,
                hint="DESCRIBE takes TABLE, CATALOG, DATABASE, FUNCTION, PROCEDURE, MODEL, CONNECTION and JOB",
            )


def _described(statement: st.Describe, session: Session) -> CatalogObject:
    database, name = statement.name.parts[0], statement.name.parts[-1]
    if database == FILE_DATABASE:
        return _inferred_tables.file_table(name, {}, session, statement.name.span)
    return session.described(statement.name.parts, statement.name.span)


def _job_facts(running: RunningJob, session: Session) -> list[tuple[str, str]]:
    job, flow = running.job, running.job.dataflow
    sources = [v for v in flow.vertices if v.operator is None]
    failure = running.failure
    facts = [
        ("job id", running.id),
        ("job name", job.name),
        ("status", job.status),
        ("statement", running.statement),
        ("input ends", "true" if job.bounded else "false"),
        ("epochs", str(flow.epoch)),
        ("rows in", str(sum(v.rows_in for v in sources))),
        ("rows out", str(sum(s.rows_written for s in flow.sinks()))),
        ("rows rejected", str(sum(n for (of, _, _), n in session.rejected.counts.items() if of == job.name))),
        ("operators", str(len(flow.vertices))),
        ("state rows", str(flow.state_rows)),
        ("state bytes", str(flow.state_bytes)),
        ("watermark", watermark_text(flow.watermark)),
        ("restarts", str(job.attempts)),
    ]
    return facts + ([("failure", masked_text(str(failure)))] if failure is not None else [])


def column_rows(session: Session, thing: CatalogObject) -> list[tuple[Any, ...]]:
    """name, type, null, key, extras, watermark, comment: as Flink's DESCRIBE shows them."""
    schema = object_schema(session, thing)
    key = getattr(thing, "primary_key", ())
    columns = {c.name: c for c in thing.columns if not isinstance(c, str)}
    comments = {name: getattr(c, "comment", None) for name, c in columns.items()}
    if isinstance(thing, CatalogView):
        comments = dict(zip(thing.columns, thing.column_comments, strict=False))
    watermark = thing.watermark if isinstance(thing, CatalogTable) else None
    rows = []
    for column in schema:
        declared = columns.get(column.name)
        extras = None
        if isinstance(declared, ComputedColumn):
            extras = f"AS {declared.text}"
        elif isinstance(declared, MetadataColumn):
            origin = f" FROM '{declared.key}'" if declared.key != declared.name else ""
            extras = f"METADATA{origin}{' VIRTUAL' if declared.virtual else ''}"
        elif isinstance(declared, PhysicalColumn) and declared.default is not None:
            extras = f"DEFAULT {declared.default.text}"
        elif isinstance(declared, PhysicalColumn) and declared.identity is not None:
            extras = identity_text(declared.identity)
        mark = watermark.text if watermark is not None and watermark.column == (column.name,) else None
        type_text = column.type.with_nullable(True).summary
        key_text = f"PRI({', '.join(key)})" if column.name in key else None
        rows.append((column.name, type_text, column.type.nullable, key_text, extras, mark, comments.get(column.name)))
    return rows


def described_schema(rows: list[tuple[Any, ...]]) -> Schema:
    """Columns of DESCRIBE; `comment` stands there only when some column has one."""
    columns: list[tuple[str, DataType]] = [
        ("name", STRING),
        ("type", STRING),
        ("null", BOOLEAN),
        ("key", STRING),
        ("extras", STRING),
        ("watermark", STRING),
    ]
    if any(r[6] for r in rows):
        columns.append(("comment", STRING))
    return Schema.of(*columns)


_MEASURED = Schema.of(
    ("rows", BIGINT),
    ("distinct values", BIGINT),
    ("nulls", BIGINT),
    ("min", STRING),
    ("max", STRING),
    ("average length", DOUBLE),
)


def _measured(thing: CatalogObject, names: list[str]) -> list[list[Any]]:
    """What ANALYZE TABLE has found, a list per column of `_MEASURED`; nothing where nothing was measured."""
    measured = thing.measured if isinstance(thing, CatalogTable | MaterializedView) else None
    known = measured.table() if measured is not None else TableStatistics()
    cells: list[list[Any]] = [[] for _ in _MEASURED]
    for name in names:
        column = known.column(name)
        figures = (_whole(known.rows), _whole(column.distinct), _whole(column.nulls), _text(column.low))
        for cell, value in zip(cells, (*figures, _text(column.high), column.average_length), strict=True):
            cell.append(value)
    return cells


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _facts(pairs: list[tuple[str, str]]) -> Result:
    return Result.table(
        Schema.of(("info name", STRING), ("info value", STRING)), [[k for k, _ in pairs], [v for _, v in pairs]]
    )


def _function_facts(name: str, session: Session) -> list[tuple[str, str]]:
    function = session.functions.get(name)
    # Functions of users have names inside plans that no text has.
    known = name if name.upper() in session.user_functions else function.name
    facts = [
        ("name", known),
        ("kind", function_kind(function)),
        ("signature", "; ".join(signature_texts(function, known))),
        ("about", function.document),
    ]
    if isinstance(function, ScalarFunction):
        facts.append(("deterministic", "true" if function.deterministic else "false"))
    return facts
