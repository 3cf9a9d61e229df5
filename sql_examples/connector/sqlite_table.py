"""A connector in one file: tables of SQLite, read in the background, written exactly once, and asked by key.

It needs `sqlengine.spi` and nothing else of the engine. A package makes it known in its `pyproject.toml`:

    [project.entry-points."sqlengine.connectors"]
    sqlite-table = "my_package.sqlite_table:SQLITE_TABLE"
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from sqlengine.spi import (
    APPEND,
    ChangelogBatch,
    ChangelogMode,
    CommittingWriter,
    Condition,
    ConnectorFactory,
    Delivery,
    Expr,
    FencedError,
    Fetched,
    PrefetchingReader,
    ReadContext,
    Schema,
    Split,
    TableOptions,
    TableRequest,
    TableStatistics,
    UnavailableError,
    as_conditions,
    duration_option,
    physical_part,
    text_option,
    where,
)

PATH = text_option("path", "", "the file of the SQLite database")
TABLE = text_option("table-name", "", "the table in the database")
FOLLOW = duration_option("follow", 0, "how often to look for new rows, such as '1 s'; without it the table ends")
OPTIONS = (PATH, TABLE, FOLLOW)
ROWS_AT_ONCE = 1000


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def connect(path: str) -> sqlite3.Connection:
    """Locks and missing files may pass: the engine tries again."""
    try:
        return sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False)
    except sqlite3.OperationalError as error:
        raise UnavailableError(f"cannot open {path}: {error}", hint="check the option 'path'") from error


@dataclass(frozen=True)
class SqliteTable:
    """Source, sink and lookup table. It opens nothing: readers and writers do."""

    schema: Schema
    primary_key: tuple[str, ...]
    path: str
    table: str
    follow: int
    conditions: tuple[Condition, ...] = ()

    # --- what is read

    changelog_mode = APPEND

    @property
    def bounded(self) -> bool:
        return self.follow == 0

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        return [Split("table")]

    def watch_splits(self, wake: object) -> Any:
        return lambda: None  # There is never another one.

    def open(self, split: Split, context: ReadContext) -> PrefetchingReader:
        return PrefetchingReader(f"{self.table} of {self.path}", self.fetch, context, bounded=self.bounded)

    def fetch(self, position: Any, stop: threading.Event) -> Iterator[Fetched]:
        """Rows behind a rowid. Runs in a thread of its own, so it may wait."""
        after = -(2**63) if position is None else int(position)
        with closing(connect(self.path)) as connection:
            while not stop.is_set():
                try:
                    rows = connection.execute(self.query(), (after, ROWS_AT_ONCE)).fetchall()
                except sqlite3.OperationalError as error:
                    raise UnavailableError(f"cannot read {self.table}: {error}", hint="is it locked?") from error
                if rows:
                    after = rows[-1][0]
                    yield Fetched(self.columns(row[1:] for row in rows), after)
                elif self.bounded:
                    return
                else:
                    yield Fetched(None, after)  # All that was there has been given.
                    stop.wait(self.follow / 1000)

    def query(self) -> str:
        names = ", ".join(["rowid", *map(quoted, self.schema.names)])
        filtered = where(self.conditions) or " WHERE TRUE"
        return f"SELECT {names} FROM {quoted(self.table)}{filtered} AND rowid > ? ORDER BY rowid LIMIT ?"

    def columns(self, rows: Iterable[Sequence[Any]]) -> pa.RecordBatch:
        """Rows of SQLite as columns of the table's types."""
        cells = list(zip(*rows, strict=True)) or [()] * len(self.schema)
        arrays = [pa.array(values, f.type.arrow) for values, f in zip(cells, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.schema.names))

    def with_columns(self, names: Sequence[str]) -> SqliteTable:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

    def with_filters(self, filters: Sequence[Expr]) -> tuple[SqliteTable, list[Expr]]:
        taken, left = as_conditions(filters, self.schema, "sqlite", self.conditions)
        return replace(self, conditions=taken), left

    def pushed(self, schema: Schema) -> tuple[list[Expr], int | None]:
        return [condition.over(schema) for condition in self.conditions], None

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        names = ", ".join(map(quoted, self.schema.names))
        test = " AND ".join(f"{quoted(name)} = ?" for name in key_columns)
        places: list[int] = []
        found: list[Sequence[Any]] = []
        with closing(connect(self.path)) as connection:
            for place, key in enumerate(keys.to_pylist()):
                rows = connection.execute(
                    f"SELECT {names} FROM {quoted(self.table)} WHERE {test}", tuple(key.values())
                ).fetchall()
                places += [place] * len(rows)
                found += rows
        return pa.array(places, pa.int64()), self.columns(found)

    # --- what is written

    @property
    def delivery(self) -> Delivery:
        return "exactly-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return APPEND

    def open_writer(self, job: str) -> CommittingWriter:
        return CommittingWriter(self.table, self.schema.names, SqliteCommits(self, job))

    def describe(self) -> dict[str, Any]:
        filters = {"filters": [c.sql for c in self.conditions]} if self.conditions else {}
        return {"connector": "sqlite-table", "options": {"path": self.path, "table": self.table}, **filters}


class SqliteCommits:
    """`EpochCommits`: rows and the number of their commit in one transaction."""

    def __init__(self, table: SqliteTable, job: str) -> None:
        self._table = table
        self._job = job
        self._open = connect(table.path)

    def last(self) -> int:
        try:
            self._open.execute("CREATE TABLE IF NOT EXISTS commits (job TEXT PRIMARY KEY, number INT)")
            row = self._open.execute("SELECT number FROM commits WHERE job = ?", (self._job,)).fetchone()
        except sqlite3.OperationalError as error:
            raise UnavailableError(f"cannot read {self._table.path}: {error}", hint="is it locked?") from error
        return 0 if row is None else int(row[0])

    def commit(self, number: int, batches: Iterable[ChangelogBatch]) -> None:
        marks = ", ".join("?" * len(self._table.schema))
        names = ", ".join(map(quoted, self._table.schema.names))
        try:
            self._open.execute("BEGIN IMMEDIATE")
            try:
                taken = self._open.execute(
                    "INSERT INTO commits VALUES (?, ?) ON CONFLICT (job) DO UPDATE SET number = excluded.number "
                    "WHERE number < excluded.number",
                    (self._job, number),
                ).rowcount
                if not taken:
                    raise FencedError(f"another run of {self._job} has made commit {number}")
                for batch in batches:
                    rows = [tuple(row.values()) for row in batch.rows.to_pylist()]
                    self._open.executemany(f"INSERT INTO {quoted(self._table.table)} ({names}) VALUES ({marks})", rows)
                self._open.execute("COMMIT")
            except BaseException:
                self._open.execute("ROLLBACK")
                raise
        except sqlite3.OperationalError as error:
            raise UnavailableError(f"cannot write to {self._table.table}: {error}", hint="is it locked?") from error

    def close(self) -> None:
        self._open.close()


def table(request: TableRequest) -> SqliteTable:
    """Reads the options; the engine checks them when a table is declared."""
    options = TableOptions(request.options, "connector 'sqlite-table'", OPTIONS)
    return SqliteTable(
        physical_part(request),
        request.primary_key,
        options.required(PATH),
        options.required(TABLE),
        options.get(FOLLOW),
    )


SQLITE_TABLE = ConnectorFactory(
    name="sqlite-table",
    document="a table of a SQLite database",
    source=table,
    sink=table,
    lookup=table,
    options=OPTIONS,
)
