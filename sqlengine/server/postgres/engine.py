"""Statements that the engine answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa
from sqlglot import exp

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import UnsupportedError
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot
from runtime.expr.json_text import json_text
from runtime.expr.library.jsonb import shown_values
from sqlengine.api.environment import TableEnvironment
from sqlengine.database.session import RUNTIME_MODE
from sqlengine.options.dialect import DIALECT, POSTGRES
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.server.postgres.notices import Notice, skipping
from sqlengine.server.postgres.statements import PIECE, Outcome, Piece
from sqlengine.server.postgres.types import TYPES, Described, PgType, columns_of, told_type, type_of
from sqlengine.server.postgres.words import scan
from sqlengine.statements.point_lookup import PointLookup, point_lookup
from sqlengine.statements.prepared_statement import PreparedStatement, mismatch_of, newest_plan

__all__ = ["EngineStatement", "carried", "dialect_of", "spoken"]

T = TypeVar("T")

_PREPARED = (st.QueryStatement, st.Insert, st.Update, st.Delete, st.Call)
_SHOWN_AT_ONCE = (st.Show, st.Describe, st.Explain)
_DEFINING = (
    ddl.CreateTable, ddl.AlterTable, st.CreateView, st.CreateMaterializedView, st.CreateDatabase, st.DropTable, st.DropView,
    st.DropMaterializedView, st.DropDatabase, st.Truncate,
)  # fmt: skip
_PLAN = (Described("QUERY PLAN", TYPES["text"]),)
"""PostgreSQL tells a plan line by line."""
_JSON = (TypeRoot.MAP, TypeRoot.MULTISET, TypeRoot.ROW)


def dialect_of(options: Options) -> str:
    """The dialect of this port, unless the client has set another one."""
    return options.text(DIALECT.key) or POSTGRES


def spoken(options: Options, work: Callable[[], T]) -> T:
    """Carry out something in that dialect."""
    if options.text(DIALECT.key) is not None:
        return work()
    options.set(DIALECT.key, POSTGRES)
    try:
        return work()
    finally:
        if options.text(DIALECT.key) == POSTGRES:
            options.reset(DIALECT.key)


class EngineStatement:
    """A statement of SQL: a query, a change of rows, a definition.

    Args:
        text: the statement alone.
        given: the types that the client says its parameters have.
        must_end: a query over input without end is refused.
    Raises what parsing and binding it raise.
    """

    in_failed_transaction = False

    def __init__(
        self, environment: TableEnvironment, text: str, given: Sequence[PgType | None] = (), *, must_end: bool = False
    ) -> None:
        self._environment = environment
        self._must_end = must_end
        self._text = text
        self._parsed = parse_statement(text, dialect_of(environment.session.options))
        self._prepared: PreparedStatement | None = None
        self._shown: Result | None = None
        self.parameters: Sequence[PgType | None] = ()
        self.columns: Sequence[Described] | None = None
        self._mode = "batch" if isinstance(self._parsed, st.QueryStatement) else None
        if isinstance(self._parsed, _PREPARED):
            types = [told_type(type_) for type_ in given]
            self._prepared = self._spoken(lambda: environment.prepare(self._text, types))
            self.parameters = [None if t is None else type_of(t) for t in self._prepared.parameter_types]
            if self._prepared.schema is not None:
                columns = columns_of(self._prepared.schema)
                if TYPES["numeric"] in given:
                    # Each value has digits of its own.
                    columns = tuple(replace(c, modifier=-1) if c.type is TYPES["numeric"] else c for c in columns)
                self.columns = _under_their_names(columns, self._parsed)
            elif self.is_query and (mismatch := mismatch_of(self._prepared)) is not None:
                raise mismatch
        elif isinstance(self._parsed, st.ExecutePrepared):
            found = environment.session.prepared.get(self._parsed.name.text)
            self._mode = "batch" if found is not None and isinstance(found.statement, st.QueryStatement) else None
            if found is not None and found.schema is not None:
                self.columns = columns_of(found.schema)
        elif isinstance(self._parsed, _SHOWN_AT_ONCE):
            # They change nothing, and only their answer tells its columns.
            self._shown = self._spoken(lambda: environment.execute_sql(text))
            self.columns = _PLAN if isinstance(self._parsed, st.Explain) else columns_of(self._shown.schema)

    @property
    def defines(self) -> bool:
        """Whether it changes definitions, which take effect at once and stay when a transaction is rolled back."""
        return not isinstance(self._parsed, (*_PREPARED, *_SHOWN_AT_ONCE, st.Set, st.Reset))

    @property
    def writes(self) -> str | None:
        """See `Statement`. Temporary things may be made."""
        parsed = self._parsed
        if isinstance(parsed, st.ExecutePrepared):
            found = self._environment.session.prepared.get(parsed.name.text)
            parsed = parsed if found is None else found.statement
        if getattr(parsed, "temporary", False) or not isinstance(parsed, (st.Insert, st.Update, st.Delete, *_DEFINING)):
            return None
        return self._words if parsed is self._parsed else _words_of_tag(parsed.text)

    @cached_property
    def _words(self) -> str:
        return _words_of_tag(self._text)

    @property
    def is_query(self) -> bool:
        """Whether it is a query that was prepared."""
        return self._prepared is not None and isinstance(self._parsed, st.QueryStatement)

    def empty_piece(self) -> Piece:
        """The columns of a prepared query without rows."""
        assert self._prepared is not None and self._prepared.schema is not None
        return [carried(pa.array([], f.type.arrow), f.type) for f in self._prepared.schema]

    def point_lookup(self) -> PointLookup | None:
        """The lookup by key that it is, as it was carried out last; None for any other statement."""
        kept = None if self._prepared is None or not self.is_query else newest_plan(self._prepared)
        return None if kept is None else point_lookup(kept, self._environment.session)

    def run(self, values: Sequence[Any]) -> Outcome:
        """See `Statement`."""
        prepared = self._prepared
        skipped = None if prepared is not None else skipping(self._parsed, self._environment.session.catalogs)
        if prepared is not None:
            given = list(values) if values or prepared.parameters else None
            result = self._spoken(lambda: prepared.execute(given))
        elif self._shown is not None:
            result, self._shown = self._shown, None
        else:
            result = self._spoken(lambda: self._environment.execute_sql(self._text))
        notices: list[str | Notice] = [str(warning) for warning in result.warnings]
        if skipped is not None:
            notices.append(skipped)
        if isinstance(self._parsed, st.Explain):
            lines = [line for row in result.folded().column(0).to_pylist() for line in str(row).split("\n")]
            return Outcome(lambda _: "EXPLAIN", _PLAN, [[pa.array(lines, pa.string())]], notices)
        if self.columns is not None or isinstance(self._parsed, _SHOWN_AT_ONCE):
            columns = columns_of(result.schema) if self._prepared is None else self.columns
            return Outcome(self._tag(), columns, _final_rows(result), notices, result.cancel)
        count = _rows_changed(result) if isinstance(self._parsed, st.Insert | st.Update | st.Delete) else 0
        tag = self._tag()(count)
        return Outcome(lambda _: tag, None, (), notices)

    def _spoken(self, work: Callable[[], T]) -> T:
        return spoken(self._environment.session.options, lambda: self._in_mode(work))

    def _in_mode(self, work: Callable[[], T]) -> T:
        """A query over input that ends has the meaning that SQL gives it: an aggregate over no rows is a row, and only
        final rows are given. Any other runs as a stream."""
        if self._mode is None:
            return work()
        options = self._environment.session.options
        before = options.text(RUNTIME_MODE.key)
        if before is not None:
            return work()
        options.set(RUNTIME_MODE.key, self._mode)
        try:
            return work()
        except UnsupportedError as error:
            if error.code != "E1621" or self._must_end:
                raise
        finally:
            options.reset(RUNTIME_MODE.key)
        self._mode = None
        return work()

    def _tag(self) -> Any:
        match self._parsed:
            case st.QueryStatement() | st.Describe() | st.ExecutePrepared():
                return lambda count: f"SELECT {count}"
            case st.Insert():
                return lambda count: f"INSERT 0 {count}"
            case st.Update():
                return lambda count: f"UPDATE {count}"
            case st.Delete():
                return lambda count: f"DELETE {count}"
            case ddl.CreateTable(query=query) if query is not None:
                return lambda count: "CREATE TABLE AS"
            case _:
                tag = self._words
                return lambda count: tag


def _under_their_names(columns: Sequence[Described], statement: st.Statement) -> Sequence[Described]:
    """The columns of a query, of which several may have one name in PostgreSQL, as far as the text tells: a star does
    not."""
    if not isinstance(statement, st.QueryStatement):
        return columns
    tree = statement.query.query
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    if isinstance(tree, exp.Values):
        return [replace(column, name=f"column{i}") for i, column in enumerate(columns, 1)]
    items = tree.expressions if isinstance(tree, exp.Select) else []
    if len(items) != len(columns) or not all(isinstance(i, exp.Alias | exp.Column) and not i.is_star for i in items):
        return columns
    return [replace(column, name=item.alias_or_name) for column, item in zip(columns, items, strict=True)]


def _words_of_tag(text: str) -> str:
    """`CREATE MATERIALIZED VIEW`, `DROP TABLE`, `SHOW`: what a statement does, and to what kind of thing."""
    words = [w.value.upper() for w in list(scan(text))[:6] if w.kind == "word"]
    words = [w for w in words if w not in ("OR", "REPLACE", "TEMPORARY", "TEMP", "RECURSIVE")] or ["OK"]
    if words[0] not in ("CREATE", "DROP", "ALTER"):
        return "TRUNCATE TABLE" if words[0] == "TRUNCATE" else words[0]
    return " ".join(words[: 3 if words[1:2] == ["MATERIALIZED"] else 2])


def _rows_changed(result: Result) -> int:
    """How many rows a statement has changed, where it tells; a job in the background tells none."""
    if result.rows_changed is not None:
        return result.rows_changed
    if result.summary is None or (result.job is not None and result.is_running):
        return 0
    counted = list(result.changes())
    if len(counted) != 1 or len(counted[0]) != 1 or not pa.types.is_integer(counted[0].columns[0].type):
        return 0
    return int(counted[0].columns[0][0].as_py() or 0)


def _final_rows(result: Result) -> Iterator[Piece]:
    """The rows of a result in pieces. Those of a query whose rows are never taken back are given as they come."""
    schema = result.schema
    if not result.is_query or (result.bounded and not (result.is_append_only and not result.is_sorted_at_end)):
        batches: Iterable[ChangelogBatch | pa.RecordBatch] = [result.folded()]
    elif result.bounded or result.is_append_only:
        batches = result.changes()
    else:
        raise UnsupportedError(
            "the input of this query has no end, and its rows are taken back and replaced",
            code="E1613",
            hint="CREATE MATERIALIZED VIEW v AS the query, then SELECT from v, or SUBSCRIBE TO v",
        )
    for batch in batches:
        rows = batch.rows if isinstance(batch, ChangelogBatch) else batch
        yield from pieces_of(rows, schema)


def pieces_of(rows: pa.RecordBatch, schema: Schema) -> Iterator[Piece]:
    """Rows in pieces, in types that have a form in PostgreSQL."""
    for start in range(0, rows.num_rows, PIECE):
        part = rows.slice(start, PIECE)
        yield [carried(column, field.type) for column, field in zip(part.columns, schema, strict=True)]


def carried(column: pa.Array, type_: DataType) -> pa.Array:
    """Values of MAP, ROW and MULTISET, and arrays that hold such or arrays, as JSON; those of VARIANT as PostgreSQL writes
    them."""
    if type_.root is TypeRoot.VARIANT:
        return shown_values(column)
    if type_.root in _JSON or (type_.root is TypeRoot.ARRAY and type_of(type_) is TYPES["jsonb"]):
        return json_text(column, type_)
    if type_.root is TypeRoot.ARRAY and type_.children[0].root in _JSON:
        values = json_text(column.flatten(), type_.children[0])
        lists = pa.ListArray.from_arrays(_offsets(column), values)
        return pa.array([None if n else v for n, v in zip(column.is_null().to_pylist(), lists.to_pylist())], lists.type)
    return column


def _offsets(column: pa.Array) -> pa.Array:
    ends = [0]
    for size in column.value_lengths().to_pylist():
        ends.append(ends[-1] + (size or 0))
    return pa.array(ends, pa.int32())
