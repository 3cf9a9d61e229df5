"""DataFrames of a program by the names of their variables, as in DuckDB: `t_env.sql_query("SELECT * FROM df")`.

A name that no catalog knows may be a variable of the function that calls, or of its module. It is looked up when the
statement comes, and stands for that frame from then on, whatever the variable becomes. Only a program's own functions are
looked at, never those of the engine: a client of the server names none of its variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, NamedTuple, Protocol

from sqlglot import exp

from runtime.core.errors import SqlEngineError
from sqlengine.database.session import PYTHON_DATABASE
from sqlengine.options.dialect import FLINK
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.reading import dialect_of
from sqlengine.parse.spans import span_of
from sqlengine.table_api.table import Table
from sqlengine.values.code import Code, Mark, name_sql

__all__ = ["MakesTables", "Named", "Where", "named_variables"]

Where = FrameType | Mapping[str, Any]
"""Where variables are looked up: in the function that calls, or among these."""

_HOUSE = "sqlengine"
_HOW = {
    "pandas": "t_env.from_pandas({})",
    "polars": "t_env.from_polars({})",
    "pyspark": "{}",
    "arrow": "t_env.from_arrow({})",
    "sqlengine": "{}",
}
"""How a frame of a library is given to `create_temporary_view`."""
_SPARK = "pyspark"


class MakesTables(Protocol):
    """What makes tables of frames: an environment."""

    def from_arrow(self, rows: Any, schema: Any = None) -> Table: ...
    def from_pandas(self, pdf: Any, schema: Any = None, splits_num: int = 1) -> Table: ...
    def from_polars(self, frame: Any, schema: Any = None) -> Table: ...
    def from_spark(self, frame: Any) -> Table: ...


class Named(NamedTuple):
    """A statement in which tables stand for the names of variables, and what must live as long as it."""

    code: Code
    keeps: tuple[Any, ...]


def named_variables(
    error: SqlEngineError,
    text: str,
    dialect: str,
    where: Where,
    known: Callable[[tuple[str, ...]], bool],
    tables: MakesTables,
) -> Named | None:
    """The statement with tables in the places of variables; None where no variable stands for what the error misses.

    `known` tells whether a catalog has a name: its tables come before variables. A view keeps no variable: there the error
    gets a hint.
    """
    if error.code != "E1202" or not _is_of_a_program(where):
        return None
    statement = parse_statement(text, dialect)
    flink = dialect_of(text, dialect) == FLINK
    lasting = isinstance(statement, (st.CreateView, st.CreateMaterializedView))
    places: list[tuple[int, int, str]] = []
    made: dict[str, Table] = {}
    for tree in _queries(statement):
        common = {cte.alias for cte in tree.find_all(exp.CTE)}
        for table in tree.find_all(exp.Table):
            name, span = table.name, span_of(table.this)
            if len(table.parts) != 1 or span is None or name in common or known((name,)):
                continue
            if name not in made:
                value = _variable(name, where)
                if lasting and (made_by := _HOW.get(_kind(value))):
                    given = made_by.format(name)
                    error.hint = (
                        f"a view keeps no variable; t_env.create_temporary_view('{name}', {given}) makes it a table"
                    )
                    return None
                one = _as_table(value, tables)
                if one is None:
                    continue
                made[name] = one
            places.append((span.start, span.end, _relation(made[name], table, flink)))
    if not places:
        return None
    return Named(_written(text, sorted(places)), tuple(kept for table in made.values() for kept in table.keeps))


def _is_of_a_program(where: Where) -> bool:
    return isinstance(where, Mapping) or str(where.f_globals.get("__name__", "")).partition(".")[0] != _HOUSE


def _variable(name: str, where: Where) -> Any:
    """Its value: the function's own, else its module's; None where there is none."""
    if isinstance(where, Mapping):
        return where.get(name)
    return where.f_locals.get(name, where.f_globals.get(name))


def _queries(statement: st.Statement) -> Iterator[exp.Expr]:
    match statement:
        case st.Explain():
            yield from _queries(statement.statement)
        case st.StatementSet():
            for one in statement.statements:
                yield from _queries(one)
        case st.QueryStatement() | st.Insert() | st.CreateView() | st.CreateMaterializedView():
            yield statement.query.query
        case st.CreateTable() if statement.query is not None:
            yield statement.query.query
        case _:
            return


def _kind(value: Any) -> str:
    """The library of a frame; "" for what is none. Nothing is imported to tell."""
    library = type(value).__module__.partition(".")[0]
    if isinstance(value, Table):
        return _HOUSE
    if library == _SPARK:
        return library if hasattr(value, "toArrow") else ""
    if library in ("pandas", "polars"):
        return library if type(value).__name__ in ("DataFrame", "LazyFrame") else ""
    return "arrow" if hasattr(value, "__arrow_c_stream__") and hasattr(value, "schema") else ""


def _as_table(value: Any, tables: MakesTables) -> Table | None:
    match _kind(value):
        case "pandas":
            return tables.from_pandas(value)
        case "polars":
            return tables.from_polars(value.collect() if hasattr(value, "collect") else value)
        case "pyspark":
            return tables.from_spark(value)
        case "arrow":
            return tables.from_arrow(value)
        case "sqlengine":
            return value
        case _:
            return None


def _relation(stands: Table, name: exp.Table, flink: bool) -> str:
    """What stands in the place of a name, so that columns may still be called `name.column`."""
    if not (stands.query.is_plain and stands.keeps):
        alias = "" if name.alias else f" AS {name_sql(name.name)}"
        return f"({stands.query.code.sql}){alias}"
    quote = "`" if flink else '"'
    parts = (PYTHON_DATABASE, stands.keeps[0].name, name.name)
    return ".".join(quote + part.replace(quote, quote * 2) + quote for part in parts)


def _written(text: str, places: list[tuple[int, int, str]]) -> Code:
    """The text with others in some places, each of which stands for what was written there."""
    sql, marks, at = "", [Mark(0, 0, text, 0, len(text))], 0
    for start, end, instead in places:
        marks.append(Mark(len(sql), len(sql) + start - at, text, at, start))
        sql += text[at:start]
        marks.append(Mark(len(sql), len(sql) + len(instead), text, start, end))
        sql += instead
        at = end
    marks.append(Mark(len(sql), len(sql) + len(text) - at, text, at, len(text)))
    sql += text[at:]
    marks[0] = marks[0]._replace(end=len(sql))
    return Code(sql, text, tuple(marks))
