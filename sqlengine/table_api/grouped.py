"""What stands between `group_by`, `window` or `over_window` and the `select` that makes a table of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.core.errors import BindError
from sqlengine.table_api.code import Code, compose, name_sql, operation
from sqlengine.table_api.expression import Expression
from sqlengine.table_api.query import Query, listed
from sqlengine.table_api.select_list import items, shown
from sqlengine.table_api.windows import GroupWindow, OverWindow

if TYPE_CHECKING:
    from sqlengine.table_api.table import Table

__all__ = ["GroupedTable", "OverWindowedTable", "WindowGroupedTable", "WindowedTable"]


class GroupedTable:
    """A table in groups: `select` says what to know of each."""

    def __init__(self, table: Table, keys: Sequence[Expression | str]) -> None:
        self._table = table
        self._keys = keys

    def select(self, *columns: Expression | str) -> Table:
        """A row for each group: its keys, and aggregates such as `col("a").sum.alias("total")`."""
        return _grouped(self._table, self._table.query, self._keys, columns)


class WindowedTable:
    """A table cut into windows of time."""

    def __init__(self, table: Table, window: GroupWindow) -> None:
        if window.time is None or window.name is None:
            missing = '.on(col("ts"))' if window.time is None else '.alias("w")'
            raise BindError(
                f"the window lacks {missing}", code="E1230", hint=f"add {missing} to {window.python.python}"
            )
        self._table = table
        self._window = window

    def group_by(self, *keys: Expression | str) -> WindowGroupedTable:
        """GROUP BY the window, `col("w")`, and further keys. Raises BindError E1216 without the window."""
        return WindowGroupedTable(self._table, self._window, keys)

    def as_table(self) -> Table:
        """The rows with `window_start`, `window_end` and `window_time`, once for each window that they are in: the
        window function of SQL as it is, for joins and top-n of windows."""
        query, text = _window_relation(self._table, self._window, ())
        return self._table._then(query, text)


class WindowGroupedTable:
    """A table in groups by window: `select` says what to know of each."""

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

    def select(self, *columns: Expression | str) -> Table:
        """A row for each window and group: keys, aggregates, and `col("w").start`, `.end`, `.rowtime`."""
        query, _ = _window_relation(self._table, self._window, self._keys)
        own = ["window_start", "window_end"]
        if any("window_time" in shown(c).sql for c in columns):
            own.append("window_time")
        return _grouped(self._table, query, self._keys, columns, own)


class OverWindowedTable:
    """A table with named windows of rows around each row."""

    def __init__(self, table: Table, windows: Sequence[OverWindow]) -> None:
        self._table = table
        self._windows = windows

    def select(self, *columns: Expression | str) -> Table:
        """Columns and calls over the windows: `col("a").sum.over(col("w"))`."""
        text, codes = operation("select", *(shown(c) for c in columns), *(w.declaration for w in self._windows))
        declarations = codes[len(columns) :]
        query = self._table.query.opened()
        tail = compose(["WINDOW ", listed(declarations)])
        return self._table._then(replace(query, columns=items(columns, codes[: len(columns)]), tail=tail), text)


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
    named = [k for k in keys if isinstance(k, Expression) and k.aliases]
    if named:
        # A key that has a name is a column of that name for what is selected.
        _, codes = operation("group_by", *(k.code for k in named))
        query = Query(query.with_columns(compose(["*, ", items(named, codes)])).relation)
        keys = [k.aliases[0] if isinstance(k, Expression) and k.aliases else k for k in keys]
    _, by = operation("group_by", *(shown(k) for k in keys))
    text, codes = operation("select", *(shown(c) for c in columns))
    tail = compose(["GROUP BY ", listed([*(Code(n) for n in window), *by])])
    return table._then(replace(query.opened(), columns=items(columns, codes), tail=tail), text)
