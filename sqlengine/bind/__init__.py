"""Names to columns, types and functions: trees of the parser to logical plans.

    bind_query(tree, context)                          a query: `BoundQuery(plan, names)`
    bind_insert(statement, table, sink, context)       INSERT INTO: a plan that ends in `Sink`
    bind_insert_source(query, target, table, ..)       a bound query brought to the columns of a table
    insert_columns(table)                              what INSERT writes: physical and not virtual metadata columns
    bind_values(tree, context)                         the rows of VALUES
    bind_expression(tree, columns, context)            an expression over given columns: DDL, UPDATE, DELETE
    bind_watermark_expression(watermark, columns, context)

The environment gives the catalog as a `BindContext`. Columns get ids of their own each time a table, view or common
table is used. Time attributes travel with bare columns; grouping, set operations and functions make plain timestamps of
them.

Names and clauses are BindError (E12xx), types TypeMismatchError (E13xx), what cannot be run UnsupportedError (E16xx);
`docs/errors.md` lists the codes.
"""

from __future__ import annotations

from sqlengine.bind.binder import (
    BoundQuery,
    bind_expression,
    bind_query,
    bind_values,
    bind_watermark_expression,
)
from sqlengine.bind.insert import bind_insert, bind_insert_source, insert_columns

__all__ = [
    "BoundQuery",
    "bind_expression",
    "bind_insert",
    "bind_insert_source",
    "bind_query",
    "bind_values",
    "bind_watermark_expression",
    "insert_columns",
]
