"""Aggregates of a table, which the server counts, adds and compares: the question, and its answer as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from connectors.kit.aggregates import Aggregation, check_fits, question
from connectors.kit.predicates import where
from connectors.mysql.columns import typed
from connectors.mysql.connection import quoted
from connectors.mysql.described import Relation

if TYPE_CHECKING:
    from connectors.mysql.table import MysqlTable

__all__ = ["aggregates_sql", "typed_groups"]


def aggregates_sql(table: MysqlTable, relation: Relation, aggregation: Aggregation) -> str:
    """The whole question."""
    forms = {f.name: quoted(f.name) for f in aggregation.rows}
    for condition in table.conditions:
        for name, type_ in condition.columns.items():
            forms[name] = relation.column(name).compared(quoted(name), type_)
    inner = ", ".join(f"{form} AS {quoted(name)}" for name, form in forms.items()) or "NULL"
    rows = f"SELECT * FROM (SELECT {inner} FROM {relation.sql}) AS r{where(table.conditions)}"
    return question(aggregation, "mysql", rows, _checks(aggregation, relation))


def typed_groups(
    table: MysqlTable, relation: Relation, aggregation: Aggregation, rows: pa.RecordBatch
) -> pa.RecordBatch:
    """Cells of the answer as rows. Raises FormatError E3164 when a value of the table does not fit."""
    width = len(aggregation.schema)
    checks = [column.cast(pa.string()) for column in rows.columns[width:]]
    check_fits(checks, aggregation, _checks(aggregation, relation), table.place())
    columns = [*aggregation.group, *(c.column if c.function in ("MIN", "MAX") else None for c in aggregation.calls)]
    words = ["" if name is None else relation.column(name).word for name in columns]
    arrays = [typed(rows.column(i), field, table.place(), words[i]) for i, field in enumerate(aggregation.schema)]
    return pa.RecordBatch.from_arrays(arrays, names=list(aggregation.schema.names))


def _checks(aggregation: Aggregation, relation: Relation) -> dict[str, str | None]:
    """By column whether a value fits."""
    return {f.name: relation.column(f.name).check(quoted(f.name), f.type) for f in aggregation.checked}
