"""Names to columns, types and functions: trees of the parser to logical plans.

    bind_query(tree, context)                          a query: `BoundQuery(plan, names)`
    bind_insert(statement, table, sink, context)       INSERT INTO: a plan that ends in `Sink`
    bind_insert_source(query, target, table, ..)       a bound query brought to the columns of a table
    insert_columns(table)                              what INSERT writes: physical and not virtual metadata columns
    bind_values(tree, context)                         the rows of VALUES bind_expression(tree, columns, context)
        an expression over given columns: DDL, UPDATE, DELETE
    bind_watermark_expression(watermark, columns, context)

The environment gives the catalog as a `BindContext`. Columns get ids of their own each time a table, view or common
table is used. Time attributes travel with bare columns; grouping, set operations and functions make plain timestamps of
them.

Codes of errors (names and clauses are BindError, types TypeMismatchError, what cannot be run UnsupportedError E16xx):

    E1201 unknown column or relation          E1202 unknown table (the environment)   E1203 unknown function
    E1204 function of another kind            E1205 ambiguous name                    E1206 * where it means nothing
    E1207 unknown field of a row              E1208 number of column aliases E1210 aggregate in a wrong place
    E1211 DISTINCT, FILTER, NULLS of a function that takes none E1212 window function without OVER        E1213 OVER in
    a wrong place             E1214 order or frame of OVER E1215 WINDOW clause                       E1216 window in
    GROUP BY                E1217 column is not grouped E1218 GROUPING of what is not grouped     E1219 ORDER BY
    position, LIMIT, DISTINCT with ORDER BY E1220 number of columns of a subquery     E1221 subquery in a wrong place
         E1222 view in itself, WITH twice
    E1223 numbers of columns of UNION, VALUES E1224 numbers of columns of INSERT      E1225 column that cannot be
    written E1230 arguments of a window function      E1231 no time attribute                 E1232 sizes of a window
    E1233 AS OF without a time attribute      E1234 too many windows per row          E1240 unknown hint
    E1241 hint for no relation                E1301 arguments of a function           E1302 type for a clause or operator
    E1303 no common type                      E1304 types that do not compare         E1305 CAST that is impossible
    E1306 NULL without a type                 E1307 number out of range               E1308 malformed temporal literal
    E1309 argument must be a literal          E1310 columns of a set operation        E1311 CURRENT_WATERMARK
    E1312 rowtime column, watermark           E1313 INSERT of a wrong type            E1314 NOT NULL column left out
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
