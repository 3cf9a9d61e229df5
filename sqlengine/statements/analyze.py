"""ANALYZE TABLE: rows are counted and columns measured by a query of the engine, and kept with the table for the planner.

Flink runs it in batch mode only; here the input must end, whatever the mode. A table in memory is measured as it is now,
changes of the open epoch included. Partitioned tables name all their partition columns, with or without a value, as in
Flink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import BindError, CatalogError, UnsupportedError, did_you_mean
from runtime.core.types import DataType, TypeRoot
from runtime.local.job import Job
from runtime.spi.statistics import ColumnStatistics, TableStatistics
from sqlengine.catalog.objects import CatalogTable, CatalogView, MaterializedView, OpenTable, PhysicalColumn
from sqlengine.catalog.statistics import MeasuredTable, PartitionKey
from sqlengine.database.binding import Binding
from sqlengine.database.session import Session
from sqlengine.parse import parse_query
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.trees import where_equal
from sqlengine.results.result import Result, fold
from sqlengine.statements.planning import plan_query
from sqlengine.values.rows import python_values

__all__ = ["analyze_table"]

_UNMEASURED = (TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET, TypeRoot.ROW, TypeRoot.BINARY, TypeRoot.VARBINARY)
"""Types of which only NULLs are counted: their values have no order and are not compared in conditions."""


@dataclass(frozen=True, slots=True)
class _Measure:
    """One figure of one column: the field of `ColumnStatistics` that it fills, and the aggregate that gives it."""

    column: str
    figure: str
    aggregate: str


def analyze_table(statement: st.AnalyzeTable, session: Session) -> Result:
    """Measure a table and keep what was found in the catalog.

    Raises:
        CatalogError: E1409 for a view.
        BindError: E1201 for unknown columns and partition columns, E1226 for partitions that are missing or not there.
        UnsupportedError: E1640 when the table has no end, or a column is computed or metadata.
    """
    found = session.catalogs.get(statement.name.parts, statement.name.span)
    if isinstance(found, CatalogView):
        raise CatalogError(
            f'"{found.path.name}" is a view and has no statistics of its own',
            code="E1409",
            span=statement.name.span,
            hint="ANALYZE the tables that it reads",
        )
    _check_bounded(found, statement, session)
    fixed = _partition(statement, found)
    columns = _columns(statement, found)
    measures = [m for c in columns for m in _measures(c)]
    parts = _run(found, fixed, measures, columns, session)
    before = found.measured or MeasuredTable()
    complete = all(value is None for _, value in fixed)
    session.catalogs.replace(replace(found, measured=before.with_partitions(parts, complete=complete)))
    rows = sum(int(p.rows or 0) for p in parts.values())
    what = f"{rows:,} row{'' if rows == 1 else 's'}"
    if fixed:
        what += f" in {len(parts)} partition{'' if len(parts) == 1 else 's'}"
    return Result.ok(f"{found.path.name}: {what}, {len(columns)} column{'' if len(columns) == 1 else 's'} measured")


def _check_bounded(table: CatalogTable | MaterializedView, statement: st.AnalyzeTable, session: Session) -> None:
    opened = Binding(session, False).resolve(table.path.parts, statement.name.span, {})
    assert isinstance(opened, OpenTable)
    if opened.source is None:
        raise UnsupportedError(
            f'"{table.path.name}" can only be looked up by key, so its rows cannot be counted',
            code="E1640",
            span=statement.name.span,
            hint="ANALYZE TABLE takes tables that can be read to their end",
        )
    if not opened.source.bounded:
        raise UnsupportedError(
            f'"{table.path.name}" has no end, so its rows are never all counted',
            code="E1640",
            span=statement.name.span,
            hint="ANALYZE TABLE takes tables whose input ends, tables in memory and materialized views",
        )


def _partition(
    statement: st.AnalyzeTable, table: CatalogTable | MaterializedView
) -> list[tuple[str, st.ExpressionText | None]]:
    """The partition columns in declared order, each with the value asked for."""
    declared = table.partitioned_by if isinstance(table, CatalogTable) else ()
    given = statement.partition.values if statement.partition is not None else ()
    named = {name.text: value for name, value in given}
    for name, _ in given:
        if name.text not in declared:
            raise BindError(
                f'{table.path.name} is not partitioned by "{name.text}"',
                code="E1226",
                span=name.span,
                hint=did_you_mean(name.text, declared)
                or (f"its partition columns are {', '.join(declared)}" if declared else "leave PARTITION out"),
            )
    missing = [c for c in declared if c not in named]
    if missing:
        raise BindError(
            f'{table.path.name} is partitioned, and its partition column "{missing[0]}" is not named',
            code="E1226",
            span=statement.partition.span if statement.partition is not None else statement.name.span,
            hint=f"write PARTITION ({', '.join(declared)}) for all partitions, or give some of them a value",
        )
    return [(c, named[c]) for c in declared]


def _columns(statement: st.AnalyzeTable, table: CatalogTable | MaterializedView) -> list[PhysicalColumn]:
    stored = [c for c in table.columns if isinstance(c, PhysicalColumn)]
    if statement.all_columns:
        return stored
    chosen: list[PhysicalColumn] = []
    for name in statement.columns:
        column = next((c for c in table.columns if c.name == name.text), None)
        if column is None:
            raise BindError(
                f'unknown column "{name.text}"',
                code="E1201",
                span=name.span,
                hint=did_you_mean(name.text, [c.name for c in stored]),
            )
        if not isinstance(column, PhysicalColumn):
            raise UnsupportedError(
                f'"{name.text}" is not stored in {table.path.name}, so it has no statistics',
                code="E1640",
                span=name.span,
                hint="name the columns that it is computed from",
            )
        chosen.append(column)
    return list(dict.fromkeys(chosen))


def _measures(column: PhysicalColumn) -> list[_Measure]:
    name, type_ = _quoted(column.name), column.type
    found = [_Measure(column.name, "present", f"COUNT({name})")]
    if type_.root in _UNMEASURED:
        return found
    found.append(_Measure(column.name, "distinct", f"COUNT(DISTINCT {name})"))
    if _is_ordered(type_):
        found.append(_Measure(column.name, "low", f"MIN({name})"))
        found.append(_Measure(column.name, "high", f"MAX({name})"))
    if type_.is_character:
        found.append(_Measure(column.name, "average_length", f"AVG(CAST(CHAR_LENGTH({name}) AS DOUBLE))"))
    return found


def _is_ordered(type_: DataType) -> bool:
    return type_.is_numeric or type_.is_timestamp or type_.root in (TypeRoot.DATE, TypeRoot.TIME)


def _run(
    table: CatalogTable | MaterializedView,
    fixed: Sequence[tuple[str, st.ExpressionText | None]],
    measures: Sequence[_Measure],
    columns: Sequence[PhysicalColumn],
    session: Session,
) -> dict[PartitionKey, TableStatistics]:
    keys = [name for name, _ in fixed]
    selected = [*(_quoted(k) for k in keys), "COUNT(*)", *(m.aggregate for m in measures)]
    text = f"SELECT {', '.join(selected)} FROM {'.'.join(_quoted(p) for p in table.path.parts)}"
    tree = parse_query(text + (f" GROUP BY {', '.join(_quoted(k) for k in keys)}" if keys else ""))
    planned = plan_query(session, where_equal(tree, [(n, v.expression) for n, v in fixed if v is not None]))
    job = Job("analyze", [planned.physical], session.job_settings())
    batches: list[ChangelogBatch] = [output for (output,) in job.epochs() if output is not None]
    rows = fold(batches, planned.schema)
    cells = [python_values(column, f.type) for column, f in zip(rows.columns, planned.schema, strict=True)]
    found = [_statistics(values[len(keys) :], measures, columns) for values in zip(*cells, strict=True)]
    if not keys:
        # A stream has no sum over no rows.
        return {(): found[0] if found else _statistics([0, *[None] * len(measures)], measures, columns)}
    values = [tuple(zip(keys, key, strict=True)) for key in zip(*cells[: len(keys)], strict=True)]
    return dict(zip(values, found, strict=True))


def _statistics(
    values: Sequence[object], measures: Sequence[_Measure], columns: Sequence[PhysicalColumn]
) -> TableStatistics:
    rows = float(values[0])  # type: ignore[arg-type]
    figures: dict[str, dict[str, object]] = {c.name: {} for c in columns}
    for measure, value in zip(measures, values[1:], strict=True):
        figures[measure.column][measure.figure] = value
    measured: list[tuple[str, ColumnStatistics]] = []
    for name, found in figures.items():
        nulls = rows - float(found.pop("present") or 0)  # type: ignore[arg-type]
        distinct = float(found.pop("distinct") or 0) if "distinct" in found else None  # type: ignore[arg-type]
        measured.append((name, ColumnStatistics(distinct=distinct, nulls=nulls, **found)))  # type: ignore[arg-type]
    return TableStatistics(rows, tuple(measured))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
