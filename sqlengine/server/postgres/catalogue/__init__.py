"""PostgreSQL's catalogue: `pg_catalog` and `information_schema`, over which any query can be asked.

They are tables and macros of an in-memory DuckDB, filled from the engine's catalogs, anew when definitions have changed.
Questions are put into DuckDB's words (`rewriting`); none is recognised by its text.
"""

from __future__ import annotations

import datetime as dt
import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling

from runtime.core.logs import Log
from sqlengine.api.environment import TableEnvironment
from sqlengine.server.postgres.catalogue.acting import Acts
from sqlengine.server.postgres.catalogue.contents import Contents, last_values
from sqlengine.server.postgres.catalogue.definitions import COLUMNS, KEYWORDS, SCRIPTS
from sqlengine.server.postgres.catalogue.live import Sessions, live_rows, sizes
from sqlengine.server.postgres.catalogue.own_tables import own_rows
from sqlengine.server.postgres.catalogue.relations import SCHEMA
from sqlengine.server.postgres.catalogue.rewriting import VECTORS, Question, rewritten
from sqlengine.server.postgres.settings import SERVER_VERSION
from sqlengine.server.postgres.sqlstate import PgError
from sqlengine.server.postgres.statements import PIECE, Outcome, Piece
from sqlengine.server.postgres.types import ARRAYS, TYPES, Described, PgType
from sqlengine.statements.limited import check_rows

if TYPE_CHECKING:
    from sqlengine.server.postgres.session import ClientSession

__all__ = ["Catalogues"]

_log = Log("server")
# DuckDB says so on stderr, of results of a few rows.
warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)
_MOST_KEPT = 32
_VERSION = f"PostgreSQL {SERVER_VERSION} on Python, compiled by CPython, 64-bit"


_EVERY_TYPE = (*TYPES.values(), *ARRAYS.values())
_CONSTANTS: dict[str, Any] = {
    "keywords": sorted(KEYWORDS),
    "type_oids": [type_.oid for type_ in _EVERY_TYPE],
    "type_names": [type_.name for type_ in _EVERY_TYPE],
    "type_elements": [0 if type_.element is None else type_.element.oid for type_ in _EVERY_TYPE],
}
"""Variables that functions of the catalogue read."""


class Catalogues:
    """The catalogues of a database's connections: one for each catalog and user, as long as definitions do not change.

    Args:
        sessions: of those who are connected.
    """

    def __init__(self, environment: TableEnvironment, sessions: Sessions) -> None:
        self._sessions = sessions
        self.acts = Acts(sessions)
        self._database = environment.session.database
        self._started = dt.datetime.now(dt.UTC)
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str], tuple[tuple[object, int], duckdb.DuckDBPyConnection]] = {}
        self._texts: dict[str, Question | None] = {}

    def statement(self, text: str, session: ClientSession) -> CatalogueStatement | None:
        """A question to the catalogue; None for another statement. Raises PgError for a question that it cannot
        answer."""
        texts = self._texts
        if text not in texts:
            if len(texts) > 4096:
                texts = self._texts = {}
            texts[text] = rewritten(text)
        found = texts[text]
        return None if found is None else CatalogueStatement(self, session, found)

    def connect(self, session: ClientSession, question: Question, *, described: bool) -> duckdb.DuckDBPyConnection:
        """A connection that knows whose question it is asked, and has the tables that are filled for it; those of users without
        rows when it is only described."""
        own = own_rows(session, question.own, described=described)
        engine = session.environment.session
        catalogs = engine.catalogs
        temporary = bool(catalogs.temporary_objects())
        user = session.settings.get("session_authorization")
        key, marker = (catalogs.current_catalog, user), (self._database.shown.catalogs, self._database.roles.version)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept[0][0] is not marker[0] or kept[0][1] != marker[1] or temporary:
                made = _made(Contents(engine, user), self.acts)
                if not temporary:
                    self._kept.pop(key, None)
                    self._kept[key] = marker, made
                    if len(self._kept) > _MOST_KEPT:
                        del self._kept[next(iter(self._kept))]
            else:
                made = kept[1]
            connection = made.cursor()
        settings = list(session.settings.everything())
        values = _CONSTANTS | {
            "current_database": catalogs.current_catalog,
            "current_schema": catalogs.current_database,
            "user": user,
            "version": _VERSION,
            "started": self._started,
            "backend_pid": session.number,
            "listening": sorted(session.listener.channels),
            "sequences": last_values(engine),
            "settings": [f"{name}={value}" for name, value in settings],
            "setting_names": [name.lower() for name, _ in settings],
            "setting_values": [value for _, value in settings],
        }
        # As PostgreSQL divides.
        connection.execute("SET integer_division = true")
        for name, value in values.items():
            connection.execute(f"SET VARIABLE {name} = $1", [value])
        if question.asks_sizes:
            for name, numbers in zip(("sized", "sizes"), sizes(engine), strict=True):
                connection.execute(f"SET VARIABLE {name} = $1", [numbers])
        for name, rows in own.items():
            connection.register(name, rows)
        for name in question.live:
            connection.execute(f"CREATE TEMP TABLE {name} AS FROM {SCHEMA}.{name} LIMIT 0")
            _fill(connection, f"temp.{name}", COLUMNS[name], live_rows(name, session, self._sessions))
        return connection


def _made(contents: Contents, acts: Acts) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config={"threads": 1, "enable_external_access": "false"})
    for function in acts.functions():
        nulls = FunctionNullHandling.SPECIAL if function.takes_null else FunctionNullHandling.DEFAULT
        types: list[Any] = list(function.types)
        connection.create_function(
            function.name, function.call, types, function.gives, side_effects=True, null_handling=nulls
        )
    connection.execute(f"CREATE SCHEMA {SCHEMA}; CREATE SCHEMA info; SET TimeZone = 'UTC'")
    for script in SCRIPTS:
        connection.execute(script)
    for name, rows in contents.tables.items():
        _fill(connection, f"{SCHEMA}.{name}", COLUMNS[name], rows)
    return connection


def _fill(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str], rows: list[dict[str, Any]]
) -> None:
    named = [column for column in columns if any(column in row for row in rows)]
    if not named:
        return
    names = ", ".join(f'"{column}"' for column in named)
    connection.register("filling", pa.table({column: [row.get(column) for row in rows] for column in named}))
    connection.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM filling")
    connection.unregister("filling")


class CatalogueStatement:
    """A question to the catalogue, in DuckDB's words."""

    in_failed_transaction = False
    writes: str | None = None
    columns: Sequence[Described] | None

    def __init__(self, catalogues: Catalogues, session: ClientSession, question: Question) -> None:
        self._catalogues = catalogues
        self._session = session
        self._question = question
        text = question.text
        connection = catalogues.connect(session, question, described=True)
        try:
            count = len(connection.extract_statements(text)[0].named_parameters)
            self.parameters: Sequence[PgType | None] = [question.parameters.get(i) for i in range(1, count + 1)]
            answer = connection.execute(question.described, [None] * count)
            are_json = [str(column[1]) == "JSON" for column in answer.description or ()]
            nothing: Any = answer.to_arrow_table()
            self.columns = [
                Described(f.name, TYPES["json"] if is_json else _shown_type(i, f, question))
                for i, (f, is_json) in enumerate(zip(nothing.schema, are_json, strict=True))
            ]
        except duckdb.Error as error:
            raise _told(error) from error
        finally:
            connection.close()

    def run(self, values: Sequence[Any]) -> Outcome:
        """See `Statement`."""
        connection = self._catalogues.connect(self._session, self._question, described=False)
        try:
            self._session.stops_by(connection.interrupt)
            with self._catalogues.acts.on_behalf_of(self._session) as asked:
                table: Any = connection.execute(self._question.text, list(values)).to_arrow_table()
            if self._question.own:
                check_rows(self._session.environment.session, table.num_rows)
        except duckdb.Error as error:
            raise _told(error) from error
        finally:
            self._session.stops_by(None)
            connection.close()
        return Outcome(lambda count: f"SELECT {count}", self.columns, _pieces(table), asked.notices)


def _told(error: duckdb.Error) -> PgError:
    text = str(error).partition("\n")[0]
    if (missing := re.fullmatch(r'Invalid Input Error: ((relation|function) ".*" does not exist)', text)) is not None:
        return PgError("42P01" if missing[2] == "relation" else "42883", missing[1])
    if (setting := re.fullmatch(r"Invalid Input Error: (unrecognized configuration parameter .*)", text)) is not None:
        return PgError("42704", setting[1])
    state = (
        "42P01"
        if isinstance(error, duckdb.CatalogException)
        else "42703"
        if isinstance(error, duckdb.BinderException)
        else "22000"
    )
    _log.warning("a question to the catalogue was not answered: %s", text)
    return PgError(state, f"the catalogue does not answer this: {text}", hint="information_schema may tell the same")


def _pieces(table: pa.Table) -> Iterator[Piece]:
    for batch in table.to_batches(max_chunksize=PIECE):
        if batch.num_rows:
            yield [_plain(column) for column in batch.columns]


def _plain(column: pa.Array) -> pa.Array:
    """Values that have a type in PostgreSQL."""
    if pa.types.is_struct(column.type) or pa.types.is_map(column.type):
        return pa.array([None if v is None else str(v) for v in column.to_pylist()], pa.string())
    return column


def _shown_type(place: int, field: pa.Field, question: Question) -> PgType:
    is_vector = place in question.vectors or field.name in VECTORS
    return (_vector_of if is_vector else _type_of)(field.type)


def _vector_of(type_: pa.DataType) -> PgType:
    """The type of a column that is a vector of numbers in PostgreSQL."""
    if not pa.types.is_list(type_):
        return _type_of(type_)
    return TYPES["int2vector" if pa.types.is_int16(type_.value_type) else "oidvector"]


def _type_of(type_: pa.DataType) -> PgType:
    if pa.types.is_list(type_):
        inner = _type_of(type_.value_type)
        return ARRAYS[inner.array] if inner.array else TYPES["text"]
    for is_it, name in _ARROW:
        if is_it(type_):
            return TYPES[name]
    return TYPES["text"]


_ARROW = (
    (pa.types.is_boolean, "bool"),
    (pa.types.is_int8, "int2"),
    (pa.types.is_int16, "int2"),
    (pa.types.is_int32, "int4"),
    (pa.types.is_uint32, "oid"),
    (pa.types.is_integer, "int8"),
    (pa.types.is_float32, "float4"),
    (pa.types.is_float64, "float8"),
    (pa.types.is_decimal, "numeric"),
    (pa.types.is_date, "date"),
    (lambda t: pa.types.is_timestamp(t) and t.tz is not None, "timestamptz"),
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_binary, "bytea"),
)
