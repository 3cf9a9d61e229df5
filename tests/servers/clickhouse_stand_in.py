"""A stand-in for ClickHouse, over DuckDB: what the connector asks of its interface of HTTP, and nothing else.

Inserts must have the types of the columns there and the settings without which ClickHouse changes values in silence. It knows which
inserts it has as a MergeTree does, and merges rows as ReplacingMergeTree and CollapsingMergeTree do. `clickhouse_engine.py` is the
engine itself, for who has it.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from connectors.clickhouse.columns import Column, parts_of
from tests.servers.web import Reply, Request

__all__ = ["StandIn"]

_TYPES = {
    "Bool": "BOOLEAN", "Int8": "TINYINT", "Int16": "SMALLINT", "Int32": "INTEGER", "Int64": "BIGINT", "UInt8": "UTINYINT",
    "UInt16": "USMALLINT", "UInt32": "UINTEGER", "UInt64": "UBIGINT", "Float32": "FLOAT", "Float64": "DOUBLE", "Date": "DATE",
    "Date32": "DATE", "DateTime": "TIMESTAMP", "DateTime64": "TIMESTAMP",
}  # fmt: skip
_READING = {"output_format_arrow_string_as_string": "0", "prefer_column_name_to_alias": "1", "join_use_nulls": "0"}
_WRITING = {"input_format_null_as_default": "0", "async_insert": "0", "insert_deduplicate": "1"}
_MACROS = """
toString(x) AS CAST(x AS VARCHAR)
toDate32(x) AS CAST(x AS DATE)
toDateTime64(x, digits, zone) AS CAST(x AS TIMESTAMP)
toUnixTimestamp64Micro(x) AS epoch_us(x)
now64(digits) AS CAST(now() AS TIMESTAMP)
positiveModulo(x, y) AS ((x % y) + y) % y
fromUnixTimestamp64Micro(x, zone) AS make_timestamp(x)
""".strip().splitlines()
_CREATE = re.compile(
    r"CREATE TABLE (?P<maybe>IF NOT EXISTS )?(?P<name>\S+) \((?P<columns>.*)\) ENGINE = (?P<engine>\w+)(?P<more>.*?)"
    r"(?: COMMENT '(?P<comment>.*)')?",
    re.DOTALL,
)
_TEXT = re.compile(r"'(?:\\.|[^'\\]|'')*'", re.DOTALL)
_NAME = re.compile(r'(?:"?(\w+)"?\.)?"?(\w+)"?')


class _Refused(Exception):
    """`code`: that of ClickHouse."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"Code: {code}. DB::Exception: {message}. (version 0)")


@dataclass
class _Table:
    columns: list[Column]
    engine: str
    full: str
    partition: str
    window: int
    known: deque[str] = field(default_factory=deque[str])


class StandIn:
    """An empty server. Texts are kept with a character for each byte."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[tuple[str, str], _Table] = {}
        self._open = duckdb.connect(":memory:")
        for macro in _MACROS:
            self._open.execute(f"CREATE MACRO {macro}")
        self._open.execute('CREATE SCHEMA "default"; CREATE SCHEMA sys')
        self._open.execute("CREATE SEQUENCE places")
        self._open.execute("CREATE TABLE sys.databases (name TEXT)")
        self._open.execute(
            "CREATE TABLE sys.tables (database TEXT, name TEXT, engine TEXT, engine_full TEXT, sorting_key TEXT, partition_key TEXT, "
            "total_rows BIGINT, comment TEXT, is_temporary INT)"
        )
        self._open.execute(
            'CREATE TABLE sys.columns (database TEXT, "table" TEXT, name TEXT, "type" TEXT, default_kind TEXT, comment TEXT, position INT)'
        )
        self._open.execute("CREATE TABLE sys.merge_tree_settings (name TEXT, value TEXT)")
        self._open.execute("INSERT INTO sys.databases VALUES ('default'), ('system')")
        self._open.execute("INSERT INTO sys.merge_tree_settings VALUES ('non_replicated_deduplication_window', '0')")

    def answer(self, request: Request) -> Reply:
        assert (request.method, request.path) == ("POST", "/")
        settings = dict(request.query)
        database, query = settings.pop("database"), settings.pop("query", "")
        try:
            with self._lock:
                if query:
                    self._inserted(query, request.body, settings)
                    return Reply()
                statement = request.body.decode()
                if statement.startswith("SELECT "):
                    assert settings == _READING, settings
                    return Reply(200, self._selected(statement, database))
                assert not settings
                self._ran(statement, database)
                return Reply()
        except (duckdb.Error, _Refused) as error:
            told = str(error) if isinstance(error, _Refused) else f"Code: 62. DB::Exception: {error}"
            return Reply(500, told.encode())

    def _ran(self, statement: str, database: str) -> None:
        if found := _CREATE.fullmatch(statement):
            self._created(found, database)
        elif found := re.fullmatch(r"DROP TABLE IF EXISTS (\S+)", statement):
            self._dropped(_names(found[1], database))
        elif found := re.fullmatch(r'CREATE DATABASE "?(\w+)"?', statement):
            self._open.execute(f'CREATE SCHEMA "{found[1]}"')
            self._open.execute("INSERT INTO sys.databases VALUES (?)", [found[1]])
        elif found := re.fullmatch(r'DROP DATABASE (?:IF EXISTS )?"?(\w+)"?', statement):
            for names in [n for n in self._tables if n[0] == found[1]]:
                self._dropped(names)
            self._open.execute(f'DROP SCHEMA IF EXISTS "{found[1]}"')
            self._open.execute("DELETE FROM sys.databases WHERE name = ?", [found[1]])
        elif found := re.fullmatch(r"INSERT INTO (\S+) (SELECT .*)", statement, re.DOTALL):
            names = _names(found[1], database)
            columns = ", ".join(f'"{c.name}"' for c in self._tables[names].columns)
            self._open.execute(f"INSERT INTO {_sql(names)} ({columns}) {_spoken(found[2])}")
        else:
            raise _Refused(62, f"Syntax error: {statement}")

    def _created(self, found: re.Match[str], database: str) -> None:
        names = _names(found["name"], database)
        if names in self._tables:
            assert found["maybe"]
            return
        columns = [_column(text) for text in parts_of(found["columns"])]
        full, more = found["engine"] + found["more"], found["more"]
        window = re.search(r"non_replicated_deduplication_window = (\d+)", more)
        ordered = re.search(r"ORDER BY (tuple\(\)|\([^)]*\)|\w+)", more)
        parted = re.search(r"PARTITION BY (\w+)", more)
        assert ordered is not None
        sorting, partition = ordered[1].replace("tuple()", ""), parted[1] if parted else ""
        sorting = sorting[1:-1] if "," in sorting else sorting
        table = _Table(columns, found["engine"], full, partition, int(window[1]) if window else 0)
        self._tables[names] = table
        own = ", ".join(f'"{c.name}" {_type(c)}' for c in columns)
        self._open.execute(f"CREATE TABLE {_sql(names)} ({own}, \"#place\" BIGINT DEFAULT nextval('places'))")
        self._open.execute(f"CREATE VIEW {_sql(names, ' FINAL')} AS {_merged(names, table, sorting)}")
        self._open.execute(
            "INSERT INTO sys.tables VALUES (?, ?, ?, ?, ?, ?, NULL, ?, 0)",
            [*names, table.engine, full, sorting.replace('"', ""), partition, found["comment"] or ""],
        )
        for place, column in enumerate(columns):
            values = [*names, column.name, column.declared, column.default, column.comment, place]
            self._open.execute("INSERT INTO sys.columns VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def _dropped(self, names: tuple[str, str]) -> None:
        if self._tables.pop(names, None) is not None:
            self._open.execute(f"DROP VIEW {_sql(names, ' FINAL')}; DROP TABLE {_sql(names)}")
            self._open.execute("DELETE FROM sys.tables WHERE database = ? AND name = ?", names)
            self._open.execute('DELETE FROM sys.columns WHERE database = ? AND "table" = ?', names)

    def _inserted(self, query: str, body: bytes, settings: dict[str, str]) -> None:
        found = re.fullmatch(r"INSERT INTO (\S+) \((.*)\) FORMAT ArrowStream", query)
        assert found is not None, query
        assert settings.items() >= _WRITING.items() and settings["insert_deduplication_token"]
        assert settings["throw_on_max_partitions_per_insert_block"] == "1"
        names = _names(found[1], "")
        table = self._tables[names]
        rows = pa.ipc.open_stream(body).read_all()
        columns = {c.name: c for c in table.columns}
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            there = columns[name]
            if column.type != there.wire or (column.null_count and not there.nullable):
                raise _Refused(53, f"a {column.type} with {column.null_count} NULL is sent into {there.declared}")
        plain = pa.table([_kept(c) for c in rows.columns], rows.schema.names)
        for part in self._parts(plain, table, settings):
            self._open.register("sent", part)
            listed = ", ".join(f'"{name}"' for name in plain.schema.names)
            self._open.execute(f"INSERT INTO {_sql(names)} ({listed}) SELECT {listed} FROM sent")
            self._open.unregister("sent")

    def _parts(self, rows: pa.Table, table: _Table, settings: dict[str, str]) -> list[pa.Table]:
        """Those of each partition that are not there yet."""
        parts = [("", rows)]
        if table.partition:
            of = rows[table.partition]
            parts = [(str(v), rows.filter(pa.compute.equal(of, v))) for v in of.unique()]
        found: list[pa.Table] = []
        for partition, part in parts:
            name = f"{partition} {settings['insert_deduplication_token']}"
            if name in table.known:
                continue
            table.known.append(name)
            while len(table.known) > table.window:
                table.known.popleft()
            found.append(part)
        return found

    def _selected(self, statement: str, database: str) -> bytes:
        query = statement.removesuffix(" FORMAT ArrowStream")
        assert query != statement
        if database != "default":
            raise _Refused(81, f"Database {database} does not exist")
        self._open.execute("SET schema = 'default'")
        found = self._open.sql(_spoken(query)).to_arrow_table()
        columns = [_given(column.combine_chunks()) for column in found.columns]
        batch = pa.RecordBatch.from_arrays(columns, names=found.schema.names)
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, batch.schema) as stream:
            for at in range(0, len(batch), 5):
                stream.write_batch(batch.slice(at, 5))
        return buffer.getvalue().to_pybytes() if len(batch) else b""


def _names(text: str, database: str) -> tuple[str, str]:
    found = _NAME.fullmatch(text)
    assert found is not None, text
    return found[1] or database, found[2]


def _sql(names: tuple[str, str], more: str = "") -> str:
    return f'"{names[0]}"."{names[1]}{more}"'


def _column(text: str) -> Column:
    text, _, comment = text.partition(" COMMENT ")
    name, _, declared = text.partition(" ")
    return Column(name.strip('"'), declared.strip().removesuffix(" NOT NULL"), "", comment.strip("'"))


def _type(column: Column) -> str:
    if column.word == "Array":
        return f"{_type(column.items)}[]"
    if column.word == "Decimal":
        return column.bare.upper()
    return _TYPES.get(column.word, "VARCHAR")


def _merged(names: tuple[str, str], table: _Table, sorting: str) -> str:
    """What FINAL gives."""
    arguments = parts_of((re.match(r"\w+\(([^)]*)\)", table.full) or ["", ""])[1])
    if table.engine == "ReplacingMergeTree":
        newest = ", ".join(f"{name} DESC" for name in [*arguments[:1], '"#place"'])
        there = f" AND {arguments[1]} = 0" if len(arguments) == 2 else ""
        rows = f'SELECT *, row_number() OVER (PARTITION BY {sorting} ORDER BY {newest}) AS "#age" FROM {_sql(names)}'
        return f'SELECT * EXCLUDE ("#age") FROM ({rows}) WHERE "#age" = 1{there}'
    if table.engine == "CollapsingMergeTree":
        rows = (
            f'SELECT *, sum({arguments[0]}) OVER (PARTITION BY {sorting}) AS "#sum", row_number() OVER (PARTITION BY {sorting}, '
            f'{arguments[0]} ORDER BY "#place" DESC) AS "#age" FROM {_sql(names)}'
        )
        return f'SELECT * EXCLUDE ("#age", "#sum") FROM ({rows}) WHERE {arguments[0]} = 1 AND "#age" = 1 AND "#sum" > 0'
    return f"SELECT * FROM {_sql(names)}"


def _spoken(query: str) -> str:
    """The same in DuckDB's words."""
    texts: list[str] = []

    def kept(found: re.Match[str]) -> str:
        texts.append(
            re.sub(r"\\(.)", r"\1", found[0][1:-1].replace("''", "'"), flags=re.DOTALL).encode().decode("latin-1")
        )
        return f"'{len(texts) - 1}'"

    def told(found: re.Match[str]) -> str:
        return "'" + texts[int(found[1])].replace("'", "''") + "'"

    query = _TEXT.sub(kept, query)
    query = re.sub(r"\bsystem\.", "sys.", query)
    query = re.sub(r"\bdefault\.", '"default".', query)
    query = re.sub(r'"?(\w+)"? FINAL', r'"\1 FINAL"', query)
    query = re.sub(r"CAST\(unhex\('(\d+)'\) AS (\w+)(?:\([^()]*\))?\)", lambda f: _cast(texts, f), query)
    query = re.sub(r"unhex\('(\d+)'\)", lambda f: _letters_of(texts, f), query)
    query = re.sub(r"arrayMap\(x -> (.*?\)), (\"[^\"]*\")\)", r"list_transform(\2, lambda x: \1)", query)
    query = re.sub(r'CAST\(SUM\(("[^"]*")\) AS Nullable\(Int(\d+)\)\)', _wrapped, query)
    return re.sub(r"'(\d+)'", told, query)


def _cast(texts: list[str], found: re.Match[str]) -> str:
    return f"CAST({_letters_of(texts, found)} AS {_TYPES.get(found[2], 'VARCHAR')})"


def _letters_of(texts: list[str], found: re.Match[str]) -> str:
    at = int(found[1])
    texts[at] = bytes.fromhex(texts[at]).decode("latin-1")
    return f"'{at}'"


def _wrapped(found: re.Match[str]) -> str:
    half, all_ = 1 << (int(found[2]) - 1), 1 << int(found[2])
    return f"CAST(((SUM(CAST({found[1]} AS HUGEINT)) + {half}) % {all_} + {all_}) % {all_} - {half} AS BIGINT)"


def _kept(column: pa.ChunkedArray) -> pa.Array:
    """As DuckDB keeps it."""
    whole = column.combine_chunks()
    if pa.types.is_list(whole.type) and pa.types.is_binary(whole.type.value_type):
        return pa.ListArray.from_arrays(whole.offsets, _letters(whole.values))
    if pa.types.is_timestamp(whole.type):
        return whole.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    return _letters(whole) if pa.types.is_binary(whole.type) else whole


def _letters(column: pa.Array) -> pa.Array:
    return pa.array([None if v is None else v.decode("latin-1") for v in column.to_pylist()], pa.string())


def _given(column: pa.Array) -> pa.Array:
    """As ClickHouse gives it."""
    if pa.types.is_list(column.type):
        return pa.ListArray.from_arrays(column.offsets, _given(column.values))
    if pa.types.is_string(column.type):
        values: list[Any] = column.to_pylist()
        return pa.array([None if v is None else v.encode("latin-1") for v in values], pa.binary())
    return column.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column
