"""What stands between `group_by`, `window` or `over_window` and the `select` that makes a table of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.core.errors import BindError
from runtime.core.types import TypeRoot
from sqlengine.expression.column_selection import Columns, expanded
from sqlengine.expression.expression import Expression
from sqlengine.expression.given import NextStep, wanted
from sqlengine.table_api.query import Query, listed
from sqlengine.table_api.row_functions import TableCall, called_with_rows
from sqlengine.table_api.row_windows import check_row_window, row_window
from sqlengine.table_api.select_list import items, shown
from sqlengine.table_api.windows import GroupWindow, OverWindow
from sqlengine.values.code import Code, compose, name_sql, operation

if TYPE_CHECKING:
    from sqlengine.table_api.table import Table

__all__ = ["AggregatedTable", "GroupedTable", "OverWindowedTable", "WindowGroupedTable", "WindowedTable"]


class GroupedTable(NextStep):
    """A table in groups: `select` says what to know of each."""

    next_step = 'say what to know of each group next: select("key", col("a").sum), aggregate(f) or flat_aggregate(f)'

    def __init__(self, table: Table, keys: Sequence[Expression | str]) -> None:
        self._table = table
        self._keys = keys

    def select(self, *columns: Columns) -> Table:
        """A row for each group: its keys, and aggregates such as `col("a").sum.alias("total")`."""
        names = self._table.schema.names
        return _grouped(self._table, self._table.query, self._keys, expanded(columns, names))

    def aggregate(self, func: TableCall) -> AggregatedTable:
        """An aggregate of each group; `select` chooses among the keys and its columns next: the fields of a ROW, or
        the name that `alias` gives it. A function that is not called gets whole rows."""
        return _aggregated(self._table, self._table.query, self._keys, func)

    def flat_aggregate(self, func: TableCall) -> AggregatedTable:
        """The rows that a table aggregate function gives for each group; `select` chooses among the keys and their
        columns next. `call.alias("a", "b")` names these. A function that is not called gets whole rows."""
        return _flat_aggregated(self._table, self._table.query, self._keys, func)


class AggregatedTable(NextStep):
    """Groups and what an aggregate function gives for them: `select` chooses the columns."""

    next_step = 'choose its columns next: select("*") takes all'

    def __init__(self, table: Table) -> None:
        self._table = table

    def select(self, *columns: Columns) -> Table:
        """Keys of the groups and columns of the function; `"*"` is all of them."""
        return self._table.select(*columns)


class WindowedTable(NextStep):
    """A table cut into windows of time."""

    next_step = 'group_by(col("w"), ..) comes next, or as_table() for the rows with their windows'

    def __init__(self, table: Table, window: GroupWindow) -> None:
        example = 'Tumble.over(lit(10).minutes).on("ts").alias("w"), and Slide, Cumulate and Session likewise'
        wanted("window", "a window", window, GroupWindow, example)
        if window.time is None or window.name is None:
            missing = '.on(col("ts"))' if window.time is None else '.alias("w")'
            raise BindError(
                f"the window lacks {missing}", code="E1230", hint=f"add {missing} to {window.python.python}"
            )
        step = window.lengths[0]
        if window.function in ("HOP", "CUMULATE") and len(window.lengths) < 2:
            raise BindError(
                "the window lacks its step",
                code="E1230",
                hint=f"add .every(..) to {window.shown}({step.python})",
            )
        self._table = table
        self._window = window

    def group_by(self, *keys: Columns) -> WindowGroupedTable:
        """GROUP BY the window, `col("w")`, and further keys. Raises BindError E1216 without the window."""
        return WindowGroupedTable(self._table, self._window, expanded(keys, self._table.schema.names))

    def as_table(self) -> Table:
        """The rows with `window_start`, `window_end` and `window_time`, once for each window that they are in: the
        window function of SQL as it is, for joins and top-n of windows."""
        if self._window.counts:
            raise BindError(
                "a window of rows has no table function in SQL",
                code="E1230",
                hint='group_by(col("w")).select(..) gives the results of such windows',
            )
        query, text = _window_relation(self._table, self._window, ())
        return self._table._then(query, text)


class WindowGroupedTable(NextStep):
    """A table in groups by window: `select` says what to know of each."""

    next_step = 'say what to know of each group next: select(col("w").start, col("a").sum), or aggregate(f)'

    def __init__(self, table: Table, window: GroupWindow, keys: Sequence[Expression | str]) -> None:
        own = name_sql(window.name or "")
        self._keys = [k for k in keys if _sql(k) != own]
        if len(self._keys) == len(keys):
            raise BindError(
                f'the window "{window.name}" is not among the keys of group_by',
                code="E1216",
                hint=f'group_by(col("{window.name}"), ...)',
            )
        self._table = table
        self._window = window

    def select(self, *columns: Columns) -> Table:
        """A row for each window and group: keys, aggregates, and `col("w").start`, `.end`, `.rowtime`."""
        columns = tuple(expanded(columns, self._table.schema.names))
        if self._window.counts:
            return self._of_rows(columns)
        query, _ = _window_relation(self._table, self._window, self._keys)
        own = ["window_start", "window_end"]
        if any("window_time" in shown(c).sql for c in columns):
            own.append("window_time")
        return _grouped(self._table, query, self._keys, columns, own)

    def aggregate(self, func: TableCall) -> AggregatedTable:
        """An aggregate of each window and group; `select` chooses among the keys, `col("w").start` and its like, and its
        columns next. A function that is not called gets whole rows."""
        self._check_time()
        query, _ = _window_relation(self._table, self._window, self._keys)
        return _aggregated(self._table, query, self._keys, func, _WINDOW)

    def flat_aggregate(self, func: TableCall) -> AggregatedTable:
        """The rows that a table aggregate function gives for each window and group; `select` comes next as after
        `aggregate`."""
        self._check_time()
        query, _ = _window_relation(self._table, self._window, self._keys)
        return _flat_aggregated(self._table, query, self._keys, func, _WINDOW)

    def _check_time(self) -> None:
        if self._window.counts:
            raise BindError(
                "a window of rows takes aggregates in select(..)",
                code="E1230",
                hint=f'group_by(col("{self._window.name}")).select(f(..)) does',
            )

    def _of_rows(self, columns: Sequence[Expression | str]) -> Table:
        source, keys = _named_keys(self._table.query, self._keys)
        _, by = operation("group_by", *(shown(k) for k in keys))
        check_row_window(self._table, columns, self._window)
        grouped = _grouped(self._table, self._table.query, self._keys, columns)
        return row_window(grouped, columns, source, listed(by), self._window)


class OverWindowedTable(NextStep):
    """A table with named windows of rows around each row."""

    next_step = 'use its windows next: select(col("a").sum.over(col("w")))'

    def __init__(self, table: Table, windows: Sequence[OverWindow]) -> None:
        for window in windows:
            wanted("over_window", "windows", window, OverWindow, 'Over.order_by("ts").alias("w")')
        self._table = table
        self._windows = windows

    def select(self, *columns: Columns) -> Table:
        """Columns and calls over the windows: `col("a").sum.over(col("w"))`."""
        columns = tuple(expanded(columns, self._table.schema.names))
        text, codes = operation("select", *(shown(c) for c in columns), *(w.declaration for w in self._windows))
        declarations = codes[len(columns) :]
        query = self._table.query.opened()
        tail = compose(["WINDOW ", listed(declarations)])
        return self._table._then(replace(query, columns=items(columns, codes[: len(columns)]), tail=tail), text)


_WINDOW = ("window_start", "window_end", "window_time")


def _aggregated(
    table: Table, query: Query, keys: Sequence[Expression | str], func: TableCall, window: Sequence[str] = ()
) -> AggregatedTable:
    text, made, call = _with_call("aggregate", table, query, keys, func, None, window)
    kind = made.schema[len(made.schema) - 1].type
    if kind.root is not TypeRoot.ROW:
        return AggregatedTable(made)
    rest = [Code(name_sql(n)) for n in made.schema.names[:-1]]
    last = name_sql(made.schema.names[-1])
    names = call.aliases if len(call.aliases) == len(kind.fields) else ()
    fields = [Code(f"({last}).{name_sql(f.name)} AS {name_sql(n)}") for f, n in zip(kind.fields, names, strict=False)]
    columns = listed([*rest, *(fields or [Code(f"({last}).*")])])
    return AggregatedTable(made._then(Query(made.query.relation, columns), text))


def _flat_aggregated(
    table: Table, query: Query, keys: Sequence[Expression | str], func: TableCall, window: Sequence[str] = ()
) -> AggregatedTable:
    text, made, call = _with_call("flat_aggregate", table, query, keys, func, "$rows", window)
    names = f" ({', '.join(map(name_sql, call.aliases))})" if call.aliases else ""
    source = compose([made.query.relation, f" CROSS JOIN UNNEST(`$rows`) AS `flat`{names}"])
    whole = made._then(Query(source), text)
    kept = [Code(name_sql(n)) for n in whole.schema.names if n != "$rows"]
    return AggregatedTable(whole._list(text, kept))


def _with_call(
    name: str,
    table: Table,
    query: Query,
    keys: Sequence[Expression | str],
    func: TableCall,
    alias: str | None,
    window: Sequence[str],
) -> tuple[str, Table, Expression]:
    """A table of the keys, the parts of the window, and what a function gives for each group, which is the last."""
    call = called_with_rows(func, table.schema)
    named = Expression(
        call.code, aliases=(call.aliases[0] if alias is None and len(call.aliases) == 1 else alias or "f0",)
    )
    text, _ = operation(name, call.code)
    shown_keys = [k.aliases[0] if isinstance(k, Expression) and k.aliases else k for k in keys]
    return text, _grouped(table, query, keys, [*shown_keys, *window, named], window), call


def _sql(key: Expression | str) -> str:
    return name_sql(key) if isinstance(key, str) else key.code.sql


def _window_relation(table: Table, window: GroupWindow, keys: Sequence[Expression | str]) -> tuple[Query, str]:
    """`TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), ..))` as the source of a query."""
    text, (arguments,) = operation("window", window.python)
    query = table.query
    data: list[str | Code] = ["TABLE ", query.relation] if query.is_plain else [query.relation]
    if window.function == "SESSION" and keys:
        if not query.is_plain:
            data = ["TABLE ", query.relation]
        data += [" PARTITION BY (", ", ".join(map(_sql, keys)), ")"]
    return Query(compose([f"TABLE({window.function}(", *data, ", ", arguments, "))"])), text


def _grouped(
    table: Table,
    query: Query,
    keys: Sequence[Expression | str],
    columns: Sequence[Expression | str],
    window: Sequence[str] = (),
) -> Table:
    query, keys = _named_keys(query, keys)
    _, by = operation("group_by", *(shown(k) for k in keys))
    text, codes = operation("select", *(shown(c) for c in columns))
    groups = [*(Code(n) for n in window), *by]
    tail = compose(["GROUP BY ", listed(groups)]) if groups else None
    return table._then(replace(query.opened(), columns=items(columns, codes), tail=tail), text)


def _named_keys(query: Query, keys: Sequence[Expression | str]) -> tuple[Query, Sequence[Expression | str]]:
    """A key that has a name is a column of that name for what is selected."""
    named = [k for k in keys if isinstance(k, Expression) and k.aliases]
    if not named:
        return query, keys
    _, codes = operation("group_by", *(k.code for k in named))
    query = Query(query.with_columns(compose(["*, ", items(named, codes)])).relation)
    return query, [k.aliases[0] if isinstance(k, Expression) and k.aliases else k for k in keys]
