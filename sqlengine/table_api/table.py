"""Tables of the Table API: queries that are built by method calls, one after another.

    orders = t_env.from_path("orders")
    orders.where(col("amount") > 10).group_by("customer").select(col("customer"), col("amount").sum.alias("total"))

A table is SQL (`table.sql` shows it), and each operation adds a clause to it. It is checked at once, by the binder that
checks all SQL, so that a mistake shows at the line of Python that makes it, with the expression it is in. Nothing runs
before `execute`, `execute_insert` or one of the `to_` methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn, Protocol

from runtime.core.errors import BindError, Span, did_you_mean
from runtime.core.schema import Schema
from runtime.core.types import TypeRoot
from sqlengine.expression.column_selection import Columns, expanded
from sqlengine.expression.expression import Expression, as_code, as_expression, column
from sqlengine.expression.given import a_number, refuse, wanted
from sqlengine.results.result import Result
from sqlengine.table_api.grouped import AggregatedTable, GroupedTable, OverWindowedTable, WindowedTable
from sqlengine.table_api.outcomes import Outcomes
from sqlengine.table_api.query import Query, listed
from sqlengine.table_api.row_functions import TableCall, called_with_rows
from sqlengine.table_api.select_list import items, shown
from sqlengine.table_api.table_descriptor import TableDescriptor
from sqlengine.table_api.temporal import TemporalTable, as_of
from sqlengine.table_api.windows import GroupWindow, OverWindow
from sqlengine.values.code import Code, compose, name_sql, operation

__all__ = ["Engine", "Table"]


class Engine(Protocol):
    """What a table asks of its environment."""

    def check(self, code: Code, operation: str) -> Schema:
        """The columns of a query; errors point into the Python that it was written as."""
        ...

    def run(self, code: Code, operation: str) -> Result:
        """Carry out a statement."""
        ...

    def explain(self, code: Code, operation: str, details: Sequence[str]) -> str:
        """The plans of a statement as text."""
        ...

    def target(self, table: str | TableDescriptor) -> str:
        """The name of a table to write into; one that is described becomes a temporary table."""
        ...

    def aggregates(self, code: Code) -> list[Span]:
        """The places of the calls of aggregates in an expression."""
        ...


class Table(Outcomes):
    """A query that has not run yet. Made by `TableEnvironment.from_path`, `sql_query`, `from_elements` and their like;
    every operation gives a new one."""

    def __init__(
        self,
        engine: Engine,
        query: Query,
        operation: str,
        keeps: tuple[Any, ...] = (),
        schema: Schema | None = None,
    ) -> None:
        self.engine = engine
        self.query = query
        self.operation = operation
        self.keeps = keeps
        """What must live as long as the table: rows that it reads and no catalog knows."""
        self.schema: Schema = engine.check(query.code, operation) if schema is None else schema
        """Names and types of the columns."""

    @property
    def sql(self) -> str:
        """The table as a SQL query."""
        return self.query.code.sql

    def __repr__(self) -> str:
        return f"Table({self.schema})"

    def get_schema(self) -> Schema:
        """Names and types of the columns."""
        return self.schema

    def get_resolved_schema(self) -> Schema:
        """The same as `get_schema`."""
        return self.schema

    def print_schema(self) -> None:
        """Print the columns, one a line, as in Flink."""
        print("(\n" + ",\n".join(f"  {name_sql(f.name)} {f.type}" for f in self.schema) + "\n)")

    def __iter__(self) -> NoReturn:
        raise TypeError("a Table has no rows before it is run: for row in table.execute()")

    def __getitem__(self, name: str) -> Expression:
        """A column by name: `orders["price"]`. Raises BindError E1201 for a name that is none."""
        if name not in self.schema.names:
            raise BindError(f'unknown column "{name}"', code="E1201", hint=did_you_mean(name, self.schema.names))
        return column(name)

    def __getattr__(self, name: str) -> Expression:
        """A column as an attribute: `orders.price`, where no method has its name."""
        schema = self.__dict__.get("schema")
        if schema is None or name.startswith("__") or name not in schema.names:
            hint = did_you_mean(name, [] if schema is None else schema.names)
            raise AttributeError(f"a table has no column or method {name!r}" + (f"; {hint}" if hint else ""))
        return column(name)

    # --- columns

    def select(self, *columns: Columns) -> Table:
        """SELECT: these columns, `"name"` or expressions; `"*"` is all of them. Aggregates make one row of all."""
        columns = tuple(expanded(columns, self.schema.names))
        text, codes = operation("select", *(shown(c) for c in columns))
        query = self.query
        names = {name_sql(n) for n in self.schema.names}
        if query == Query(query.source, where=query.where, order=query.order) and all(c.sql in names for c in codes):
            # Columns alone: the order stays.
            return self._then(replace(query, columns=items(columns, codes)), text)
        return self._then(query.with_columns(items(columns, codes)), text)

    def alias(self, name: str, *more: str) -> Table:
        """All columns under new names, in order. Raises BindError E1208 for another number of names."""
        names = (name, *more)
        text = f"alias({', '.join(map(repr, names))})"
        if len(names) != len(self.schema):
            raise BindError(
                f"the table has {len(self.schema)} columns, and {len(names)} names are given for them",
                code="E1208",
                hint="name them all, or rename some with rename_columns",
            )
        pairs = zip(self.schema.names, names, strict=True)
        return self._list(text, [Code(f"{name_sql(old)} AS {name_sql(new)}") for old, new in pairs])

    def add_columns(self, *columns: Expression) -> Table:
        """All columns, and further ones: `t.add_columns((col("a") * 2).alias("b"))`."""
        text, codes = operation("add_columns", *(shown(c) for c in columns))
        for added in columns:
            name = added if isinstance(added, str) else added.aliases[0] if added.aliases else None
            if name in self.schema.names:
                raise BindError(
                    f'there is a column "{name}" already',
                    code="E1205",
                    hint="add_or_replace_columns puts another one in its place",
                )
        return self._then(self.query.with_columns(compose(["*, ", items(columns, codes)])), text)

    def add_or_replace_columns(self, *columns: Expression) -> Table:
        """All columns; these replace columns of the same name, or are added at the end."""
        text, codes = operation("add_or_replace_columns", *(shown(c) for c in columns))
        for given in columns:
            wanted("add_or_replace_columns", "expressions", given, Expression, '(col("a") + 1).alias("a")')
        new = {
            c.aliases[0] if c.aliases else f"_{i}": items([c], [code])
            for i, (c, code) in enumerate(zip(columns, codes, strict=True))
        }
        kept = [new.pop(name) if name in new else Code(name_sql(name)) for name in self.schema.names]
        return self._list(text, [*kept, *new.values()])

    def rename_columns(self, *columns: Expression) -> Table:
        """All columns, some under new names: `t.rename_columns(col("a").alias("b"))`."""
        text, _ = operation("rename_columns", *(shown(c) for c in columns))
        for given in columns:
            if not isinstance(given, Expression) or not given.aliases:
                refuse("rename_columns", "columns with their new names", given, 'col("a").alias("b")')
        new = {c.code.sql: c.aliases[0] for c in columns if c.aliases}
        self._known(text, columns)
        pairs = [(n, new.get(name_sql(n))) for n in self.schema.names]
        return self._list(text, [Code(name_sql(n) + (f" AS {name_sql(to)}" if to else "")) for n, to in pairs])

    def drop_columns(self, *columns: Columns) -> Table:
        """All columns but these."""
        columns = tuple(expanded(columns, self.schema.names))
        text, _ = operation("drop_columns", *(shown(c) for c in columns))
        given = [column(c) if isinstance(c, str) else c for c in columns]
        self._known(text, given)
        dropped = {c.code.sql for c in given}
        return self._list(text, [Code(name_sql(n)) for n in self.schema.names if name_sql(n) not in dropped])

    def _known(self, text: str, columns: Sequence[Expression]) -> None:
        """Bind the names of columns, so that one that is none is an error of the binder."""
        _, codes = operation(text.partition("(")[0], *(c.code for c in columns))
        self.engine.check(Query(self.query.relation, listed(codes)).code, text)

    def _list(self, text: str, columns: Sequence[Code]) -> Table:
        return self._then(self.query.with_columns(listed(columns)), text)

    # --- rows

    def where(self, predicate: Expression) -> Table:
        """WHERE: the rows for which a condition is true. Over groups it is HAVING."""
        return self._filtered("where", predicate)

    def filter(self, predicate: Expression) -> Table:
        """The same as `where`."""
        return self._filtered("filter", predicate)

    def _filtered(self, name: str, given: Expression) -> Table:
        condition = as_expression(given)
        text, (code,) = operation(name, condition.code)
        return self._then(self.query.with_where(code, condition.level), text)

    def distinct(self) -> Table:
        """SELECT DISTINCT: the distinct rows."""
        query = self.query if self.query.columns is not None else self.query.opened()
        fits = not query.distinct and query.order is None and query.limit is None and query.offset is None
        query = query if fits and query.whole is None else Query(query.relation)
        return self._then(replace(query, distinct=True), "distinct()")

    def order_by(self, *keys: Expression | str) -> Table:
        """ORDER BY: `col("a").desc`, `col("a").asc` or just a column. Of an unbounded table with `fetch` or `limit`, or
        by event time."""
        text, codes = operation("order_by", *(shown(k) for k in keys))
        return self._then(replace(self.query.ordered(), order=listed(codes)), text)

    def limit(self, fetch: int, offset: int = 0) -> Table:
        """LIMIT: at most `fetch` rows, after skipping `offset` rows; after `order_by`, the first ones."""
        table = self.offset(offset) if offset else self
        return table._cut(f"limit({fetch})", fetch)

    def fetch(self, fetch: int) -> Table:
        """The same as `limit` without an offset."""
        return self._cut(f"fetch({fetch})", fetch)

    def _cut(self, text: str, fetch: int) -> Table:
        query = self.query
        fits = query.limit is None and query.whole is None
        return self._then(replace(query if fits else Query(query.relation), limit=a_number("limit", fetch)), text)

    def offset(self, offset: int) -> Table:
        """OFFSET: skip the first rows."""
        query = self.query
        fits = query.limit is None and query.offset is None and query.whole is None
        skipped = a_number("offset", offset)
        return self._then(replace(query if fits else Query(query.relation), offset=skipped), f"offset({offset})")

    # --- groups and windows

    def group_by(self, *keys: Columns) -> GroupedTable:
        """GROUP BY: `select` says next what to know of each group."""
        return GroupedTable(self, expanded(keys, self.schema.names))

    def window(self, window: GroupWindow) -> WindowedTable:
        """Assign rows to windows; `group_by(col("w"), ...)` comes next."""
        return WindowedTable(self, window)

    def over_window(self, *windows: OverWindow) -> OverWindowedTable:
        """Name windows of rows around each row; `select(col("a").sum.over(col("w")))` comes next."""
        return OverWindowedTable(self, windows)

    # --- joins

    def for_system_time_as_of(self, time: Expression | str) -> TemporalTable:
        """FOR SYSTEM_TIME AS OF: this table as of a time of the other side, for a temporal join:

            orders.join(rates.for_system_time_as_of("ordered_at").alias("code", "rate"), col("currency") == col("code"))

        `time` is a time attribute of the left side: a rowtime column where this table has versions by event time, and
        a processing time column for a table that is looked up. Raises BindError E1202 for a table that is a query.
        """
        return as_of(self, time)

    def join(self, right: Table | TemporalTable, join_predicate: Expression | None = None) -> Table:
        """JOIN: all pairs of rows that satisfy a condition. Without one, `where` gives it next (a cross join).

        The columns of the two tables must have different names (E1205): rename those of one side first.
        """
        return self._joined("join", "JOIN" if join_predicate is not None else "CROSS JOIN", right, join_predicate)

    def left_outer_join(self, right: Table | TemporalTable, join_predicate: Expression | None = None) -> Table:
        """LEFT JOIN: the pairs, and rows of the left table without one, with NULLs."""
        return self._joined("left_outer_join", "LEFT JOIN", right, join_predicate)

    def right_outer_join(self, right: Table, join_predicate: Expression) -> Table:
        """RIGHT JOIN: the pairs, and rows of the right table without one, with NULLs."""
        return self._joined("right_outer_join", "RIGHT JOIN", right, join_predicate)

    def full_outer_join(self, right: Table, join_predicate: Expression) -> Table:
        """FULL JOIN: the pairs, and rows of both tables without one, with NULLs."""
        return self._joined("full_outer_join", "FULL JOIN", right, join_predicate)

    def _joined(self, name: str, words: str, right: Table | TemporalTable, on: Expression | None) -> Table:
        wanted(name, "a table", right, (Table, TemporalTable), 't_env.from_path("orders") is one')
        text, codes = operation(name, "right", *(() if on is None else (as_code(on),)))
        names = right.names if isinstance(right, TemporalTable) else right.schema.names
        both = [n for n in self.schema.names if n in names]
        if both:
            new = f'right.rename_columns(col("{both[0]}").alias("right_{both[0]}"))'
            raise BindError(
                f'both tables of the join have a column "{both[0]}"', code="E1205", hint=f"rename one first: {new}"
            )
        other = right.table if isinstance(right, TemporalTable) else right
        relation = right.relation if isinstance(right, TemporalTable) else right.query.below().relation
        parts: list[str | Code] = [self.query.below().relation, f" {words} ", relation]
        if codes:
            parts += [" ON ", codes[0]]
        elif words != "CROSS JOIN":
            parts.append(" ON TRUE")
        return self._then(Query(compose(parts)), text, other)

    def join_lateral(self, table_function_call: TableCall, join_predicate: Expression | None = None) -> Table:
        """CROSS JOIN LATERAL: each row with the rows that a table function gives for it; `unnest(col("array"))`, too.
        `call.alias("a", "b")` names its columns."""
        return self._lateral("join_lateral", "JOIN", table_function_call, join_predicate)

    def left_outer_join_lateral(
        self, table_function_call: TableCall, join_predicate: Expression | None = None
    ) -> Table:
        """LEFT JOIN LATERAL: the same, and rows for which the function gives none, with NULLs. As in Flink the
        condition may only be TRUE."""
        return self._lateral("left_outer_join_lateral", "LEFT JOIN", table_function_call, join_predicate)

    def _lateral(self, name: str, words: str, function: TableCall, on: Expression | None = None) -> Table:
        call = self._call(function)
        text, (code, *condition) = operation(name, call.code, *(() if on is None else (as_code(on),)))
        alias = " AS `lateral`" + (f" ({', '.join(map(name_sql, call.aliases))})" if call.aliases else "")
        unnested = call.call is not None and call.call[0] == "UNNEST"
        piece = ["", code] if unnested else ["LATERAL TABLE(", code, ")"]
        if words == "JOIN" and not condition:
            words = "CROSS JOIN"
        on_words: list[str | Code] = [" ON ", *condition] if condition else [" ON TRUE"] * (words == "LEFT JOIN")
        query = Query(compose([self.query.below().relation, f" {words} ", *piece, alias, *on_words]))
        return self._then(query, text)

    # --- functions of rows

    def map(self, func: TableCall) -> Table:
        """One row for each row: the fields of the ROW that a function gives, or its value. A function that is not called
        gets the whole row."""
        text, (code,) = operation("map", self._call(func).code)
        made = self._then(self.query.with_columns(compose([code, " AS f0"])), text)
        return made._expanded(text)

    def flat_map(self, func: TableCall) -> Table:
        """The rows that a table function gives for each row, without the row itself. A function that is not called gets
        the whole row."""
        joined = self._lateral("flat_map", "JOIN", func)
        return joined._list(joined.operation, [Code(name_sql(n)) for n in joined.schema.names[len(self.schema) :]])

    def aggregate(self, func: TableCall) -> AggregatedTable:
        """An aggregate over all rows; `select` comes next. A function that is not called gets whole rows."""
        return GroupedTable(self, ()).aggregate(func)

    def flat_aggregate(self, func: TableCall) -> AggregatedTable:
        """The rows that a table aggregate function gives for all rows; `select` comes next."""
        return GroupedTable(self, ()).flat_aggregate(func)

    def _call(self, function: TableCall) -> Expression:
        return called_with_rows(function, self.schema)

    def _expanded(self, text: str) -> Table:
        """The fields of the only column where it is a row."""
        only = self.schema[0]
        if only.type.root is not TypeRoot.ROW:
            return self
        return self._then(Query(self.query.relation, Code(f"({name_sql(only.name)}).*")), text)

    # --- sets

    def union(self, right: Table) -> Table:
        """UNION: the distinct rows of both."""
        return self._set("union", "UNION", right)

    def union_all(self, right: Table) -> Table:
        """UNION ALL: the rows of both."""
        return self._set("union_all", "UNION ALL", right)

    def intersect(self, right: Table) -> Table:
        """INTERSECT: the distinct rows that are in both."""
        return self._set("intersect", "INTERSECT", right)

    def intersect_all(self, right: Table) -> Table:
        """INTERSECT ALL: the rows that are in both, each as often as in the table that has it less often."""
        return self._set("intersect_all", "INTERSECT ALL", right)

    def minus(self, right: Table) -> Table:
        """EXCEPT: the distinct rows that are not in the other table."""
        return self._set("minus", "EXCEPT", right)

    def minus_all(self, right: Table) -> Table:
        """EXCEPT ALL: the rows, each as often as here minus as often as in the other table."""
        return self._set("minus_all", "EXCEPT ALL", right)

    def _set(self, name: str, words: str, right: Table) -> Table:
        wanted(name, "a table", right, Table, 't_env.from_path("orders") is one')
        whole = compose([self.query.operand, f" {words} ", right.query.operand])
        return self._then(Query(whole=whole), f"{name}(right)", right)

    def _then(self, query: Query, text: str, *others: Table) -> Table:
        keeps = self.keeps
        for other in others:
            if other.engine is not self.engine:
                raise BindError(
                    "the two tables belong to different environments",
                    code="E1202",
                    hint="make both with the same TableEnvironment",
                )
            keeps += other.keeps
        return Table(self.engine, query, text, keeps)
