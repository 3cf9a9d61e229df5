"""The connector `sqlite`: a table or view of a file of SQLite as source, sink and lookup table.

It is read in one transaction, from its beginning to its end. A position is how many rows were given, and the state of the
file that they are of: from another one nothing can be gone on with.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.databases.options import (
    COMPATIBLE,
    GUARANTEE,
    PARTITION_OPTIONS,
    TABLE,
    read_delivering,
    read_partition,
)
from connectors.databases.table import DatabaseTable
from connectors.formats.held import check_held
from connectors.kit.aggregates import Aggregation, check_fits, question
from connectors.kit.commits import SPOOL_SIZE
from connectors.kit.predicates import where
from connectors.kit.prefetch import Fetched
from connectors.options import TableOptions, physical_part
from connectors.sqlite.columns import bound, check, may_read, quoted, typed
from connectors.sqlite.commits import SqliteCommits, SqliteTransactions
from connectors.sqlite.database import Relation, connected, described, stamp, telling
from runtime.core.errors import ConnectorError, OptionError
from runtime.core.options import Option, text_option
from runtime.core.rooms import Room
from runtime.core.types import TypeRoot
from runtime.spi.registry import ConnectorFactory, TableRequest

if TYPE_CHECKING:
    import connectors.sqlite.catalog as _catalog
else:
    _catalog = Room("connectors.sqlite.catalog")

__all__ = ["OPTIONS", "SQLITE", "SqliteTable", "sqlite_options", "sqlite_table"]

_R = TypeRoot
PATH = text_option("path", "", "the file of the SQLite database")
URL = text_option("url", "", "another way to say it: 'jdbc:sqlite:/data/shop.db'")
OPTIONS: tuple[Option[Any], ...] = (PATH, URL, TABLE, *PARTITION_OPTIONS, GUARANTEE, SPOOL_SIZE)
_ROWS = 10_000
_FOR_KEYS = frozenset(
    {
        _R.TINYINT,
        _R.SMALLINT,
        _R.INT,
        _R.BIGINT,
        _R.DOUBLE,
        _R.CHAR,
        _R.VARCHAR,
        _R.BINARY,
        _R.VARBINARY,
        _R.BOOLEAN,
        _R.DATE,
    }
)
"""Types of which SQLite keeps each value in one way."""


@dataclass(frozen=True)
class SqliteTable(DatabaseTable):
    """A table of a file."""

    connector = "sqlite"
    dialect = "sqlite"

    path: str = field(kw_only=True)

    def place(self) -> str:
        return f"{self.path}/{self.table}"

    def counted(self) -> float | None:
        with telling(self.path, self.place()), connected(self.path) as connection:
            # What ANALYZE has found: to count is to read all.
            there = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'").fetchone()
            if there is None:
                return None
            found = connection.execute("SELECT stat FROM sqlite_stat1 WHERE tbl = ?", (self.table,)).fetchone()
        return float(str(found[0]).split()[0]) if found else None

    def fetched(self, position: Any, stop: threading.Event) -> Iterator[Fetched]:
        place = self.place()
        with telling(self.path, place), connected(self.path) as connection:
            connection.execute("BEGIN")
            relation = described(connection, self.table)
            self._check(relation)
            now = stamp(self.path)
            given = 0 if position is None else int(position["rows"])
            if position is not None and position["file"] != now:
                raise ConnectorError(
                    f"{self.path} is not as it was when it was last read",
                    code="E3105",
                    hint="begin anew: a database that others write to cannot be gone on with",
                )
            yield Fetched(None, {"rows": given, "file": now})
            rows = connection.execute(self._query(relation))
            skipped = 0
            while not stop.is_set() and (found := rows.fetchmany(_ROWS)):
                fresh = found[max(0, given - skipped) :]
                skipped += len(found)
                if fresh:
                    given += len(fresh)
                    yield Fetched(self._typed(fresh), {"rows": given, "file": now})

    def _typed(self, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
        if self.aggregation is not None:
            width = len(self.schema)
            checks = [pa.array(cells) for cells in zip(*(row[width:] for row in rows), strict=True)]
            check_fits(checks, self.aggregation, self._checks(), self.place())
            rows = [row[:width] for row in rows]
        if not len(self.schema):
            return pa.RecordBatch.from_arrays([pa.nulls(len(rows))], names=["none"]).select([])
        return typed(rows, self.schema, self.place())

    def _check(self, relation: Relation) -> None:
        """Raises ConnectorError E3163 for a column that is not there, or whose values are others."""
        for wanted in self.read_columns:
            there = relation.column(wanted.name)
            if not may_read(there, wanted.type):
                raise ConnectorError(
                    f"column {wanted.name} of {self.place()} is {there.declared or 'of no type'} there, "
                    f"which cannot be read as {wanted.type}",
                    code="E3163",
                    hint=f"declare it as {there.type.with_nullable(True)}, or CREATE TABLE without columns",
                )

    def _query(self, relation: Relation) -> str:
        """Rows as they are asked for, with a limit; the conditions see columns as they are here."""
        if self.aggregation is not None:
            return self._groups(relation, self.aggregation)
        raw = [f"c{place}" for place in range(len(self.schema))]
        inner = [
            f"{relation.column(f.name).asked(quoted(f.name), f.type)} AS {quoted('#' + r)}"
            for f, r in zip(self.schema, raw, strict=True)
        ]
        compared = {}
        for condition in self.conditions:
            compared |= condition.columns
        inner += [f"{relation.column(n).compared(quoted(n), t)} AS {quoted(n)}" for n, t in compared.items()]
        bounds = ""
        if self.partition is not None:
            name = quoted(relation.column(self.partition.column).name)
            bounds = f" WHERE {name} BETWEEN {self.partition.low} AND {self.partition.high}"
        asked = ", ".join(quoted("#" + r) for r in raw) or "NULL"
        rows = f"SELECT {', '.join(inner) or 'NULL'} FROM {quoted(self.table)}{bounds}"
        limit = "" if self.limit is None else f" LIMIT {self.limit}"
        return f"SELECT {asked} FROM ({rows}){where(self.conditions)}{limit}"

    def _groups(self, relation: Relation, aggregation: Aggregation) -> str:
        compared = {f.name: f.type for f in aggregation.rows}
        for condition in self.conditions:
            compared |= condition.columns
        inner = [f"{relation.column(n).compared(quoted(n), t)} AS {quoted(n)}" for n, t in compared.items()]
        rows = f"SELECT {', '.join(inner) or 'NULL'} FROM {quoted(self.table)}"
        return question(aggregation, "sqlite", f"SELECT * FROM ({rows}){where(self.conditions)}", self._checks())

    def _checks(self) -> dict[str, str | None]:
        """Any value may be in any column there."""
        assert self.aggregation is not None
        return {f.name: check(quoted(f.name), f.type) for f in self.aggregation.checked}

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        """The rows of each key, as they are in the file now: one question for all keys. NULL equals nothing."""
        place = self.place()
        names = [f"k{i}" for i in range(len(key_columns))]
        with telling(self.path, place), connected(self.path) as connection:
            relation = described(connection, self.table)
            self._check(relation)
            values = [self._key(n, keys.column(i)) for i, n in enumerate(key_columns)]
            connection.execute("PRAGMA temp_store = memory")
            kinds = ", ".join(f"{k} {self._kind(n)}" for k, n in zip(names, key_columns, strict=True))
            connection.execute(f"CREATE TEMPORARY TABLE asked (place INTEGER PRIMARY KEY, {kinds})")
            marks = ", ".join("?" * (len(names) + 1))
            connection.executemany(
                f"INSERT INTO temp.asked VALUES ({marks})", zip(range(len(keys)), *values, strict=True)
            )
            tests = [f"r.{quoted(n)} = a.{k}" for n, k in zip(key_columns, names, strict=True)]
            # An index of the column serves the first test; the second one is for columns that compare without case.
            tests += [
                f"CAST(r.{quoted(n)} AS TEXT) = a.{k} COLLATE BINARY"
                for n, k in zip(key_columns, names, strict=True)
                if self._kind(n) == "TEXT"
            ]
            asked = ", ".join(
                ["a.place", *(relation.column(f.name).asked(f"r.{quoted(f.name)}", f.type) for f in self.schema)]
            )
            rows = connection.execute(
                f"SELECT {asked} FROM temp.asked AS a CROSS JOIN {quoted(self.table)} AS r ON {' AND '.join(tests)} ORDER BY a.place"
            ).fetchall()
        columns = list(zip(*rows, strict=True)) or [()]
        return pa.array(columns[0], pa.int64()), self._typed([row[1:] for row in rows]) if rows else typed(
            [], self.schema, place
        )

    def _kind(self, name: str) -> str:
        root = self.schema[self.schema.index_of(name)].type.root
        return (
            "BLOB"
            if root in (_R.BINARY, _R.VARBINARY)
            else "TEXT"
            if root in (_R.CHAR, _R.VARCHAR, _R.DATE)
            else "NUMERIC"
        )

    def _key(self, name: str, column: pa.Array) -> list[Any]:
        wanted = self.schema[self.schema.index_of(name)]
        if wanted.type.root not in _FOR_KEYS:
            raise ConnectorError(
                f"{self.place()} cannot be asked by column {name}: SQLite keeps a {wanted.type} in more ways than one",
                code="E3164",
                hint="'lookup.cache' = 'FULL' reads the whole table",
            )
        return bound(column, wanted, self.place())

    def commits(self, job: str) -> SqliteCommits:
        return SqliteCommits(self, job)

    def transactions(self) -> SqliteTransactions:
        return SqliteTransactions(self)


def sqlite_options(request: TableRequest, connector: str) -> tuple[TableOptions, str]:
    """The options of a table, and the file."""
    known = OPTIONS if connector == "sqlite" else (*OPTIONS, *COMPATIBLE)
    options = TableOptions(request.options, f"connector '{connector}'", known)
    return options, database_path(options)


def database_path(options: TableOptions) -> str:
    """The file that options name; raises OptionError."""
    url = options.get(URL)
    if not url:
        return options.required(PATH)
    path = url.removeprefix("jdbc:").removeprefix("sqlite:")
    if path == url or not path or path.startswith((":", "//", "file:")) or "?" in path:
        raise OptionError("option 'url' is no file of SQLite", hint="write it as 'jdbc:sqlite:/data/shop.db'")
    return path


def sqlite_table(request: TableRequest, connector: str = "sqlite") -> SqliteTable:
    """The table that options describe; raises OptionError."""
    check_held(f"connector '{connector}'", request.schema)
    options, path = sqlite_options(request, connector)
    return SqliteTable(
        schema=physical_part(request),
        primary_key=request.primary_key,
        name=request.name,
        table=options.required(TABLE),
        partition=read_partition(options),
        parallel=1,
        delivering=read_delivering(options),
        path=path,
    )


SQLITE = ConnectorFactory(
    name="sqlite",
    document="a table of a file of SQLite: read, written exactly once, looked up by key",
    source=sqlite_table,
    sink=sqlite_table,
    lookup=sqlite_table,
    options=OPTIONS,
    check=sqlite_table,
    infer=lambda request: _catalog.described_table(request),
)
