"""Windows that count rows, as Flink's Table API has them and SQL has not:

    Tumble.over(lit(10).rows).on(col("ts")).alias("w")
    Slide.over(row_interval(10)).every(row_interval(5)).on(col("ts")).alias("w")

The rows of a group are counted in the order of the time column. A window begins at the first row and then every so
many, and gives its result with its last row; one that is not full at the end gives none. As SQL this is a window of
OVER that reaches back over its rows, of which every so-manieth result is kept: it only appends, and keeps no more rows
of a group than a window has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.core.errors import BindError, TypeMismatchError
from sqlengine.expression.expression import Expression
from sqlengine.table_api.query import Query, listed
from sqlengine.table_api.select_list import shown
from sqlengine.table_api.windows import GroupWindow
from sqlengine.values.code import Code, compose, inserted, name_sql, operation

if TYPE_CHECKING:
    from sqlengine.table_api.table import Table

__all__ = ["check_row_window", "row_window"]

_TIMES = ("window_start", "window_end", "window_time")


def check_row_window(table: Table, columns: Sequence[Expression | str], window: GroupWindow) -> None:
    """Raise TypeMismatchError E1231 when the rows are not ordered by a time attribute, BindError E1230 for the start or
    end of a window, which has none."""
    assert window.time is not None
    time = next((f for f in table.schema if name_sql(f.name) == window.time.sql), None)
    if time is not None and time.type.time_attribute is None:
        raise TypeMismatchError(
            f'a window of rows takes a time attribute, and "{time.name}" is a plain {time.type.with_nullable(True)}',
            code="E1231",
            hint="name it in WATERMARK FOR of its table, or take a column that is PROCTIME()",
        )
    for given in columns:
        sql = shown(given).sql
        if sql in _TIMES:
            raise BindError(
                f"a window of rows has no {sql.removeprefix('window_')} in time",
                code="E1230",
                hint=f"for example the time of its last row: {window.time.python}.max",
            )


def row_window(grouped: Table, columns: Sequence[Expression | str], source: Query, keys: Code, w: GroupWindow) -> Table:
    """The results of the windows.

    grouped: the same columns of whole groups, which has checked that they are keys and aggregates. source: where the
    rows come from. keys: the keys of the groups, an empty text for none.
    Raises BindError E1230 for the start or end of a window, which has none.
    """
    assert w.time is not None
    size, every = w.counts[-1], w.counts[0]
    text, codes = operation("select", *(shown(c) for c in columns))
    over = compose([*(["PARTITION BY ", keys, " "] if keys.sql else []), "ORDER BY ", w.time])
    frame = f" OVER ({over.sql} ROWS BETWEEN {size - 1} PRECEDING AND CURRENT ROW)"
    found: list[Code] = []
    for index, code in enumerate(codes):
        ends = [span.end for span in grouped.engine.aggregates(code)]
        found.append(compose([inserted(code, ends, frame), f" AS c{index}"]))
    number = compose(["ROW_NUMBER() OVER (", over, ") AS `$row`"])
    inner = Query(source.relation, listed([*found, number]))
    last = f"`$row` >= {size} AND MOD(`$row` - {size}, {every}) = 0"
    names = listed([Code(f"c{i} AS {name_sql(n)}") for i, n in enumerate(grouped.schema.names)])
    return grouped._then(Query(inner.relation, names, Code(last)), text)
