"""CREATE and ALTER of materialized views and materialized tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.core.rooms import Room
from sqlengine.parse.ddl_nodes import (
    AlterMaterializedTable,
    AlterMaterializedView,
    Name,
    Refresh,
    ResetOptions,
    Resume,
    SetOptions,
    Statement,
    Suspend,
)
from sqlengine.parse.lexer import NUMBER, Token
from sqlengine.parse.statement_nodes import CreateMaterializedView, ViewColumn
from sqlengine.parse.table_definitions import TableGrammar

if TYPE_CHECKING:
    import sqlengine.parse.refresh_nodes as _refresh
    from sqlengine.parse.refresh_nodes import StartMode, TableRefresh
else:
    _refresh = Room("sqlengine.parse.refresh_nodes")

__all__ = ["MaterializedGrammar"]

_MODES = ("CONTINUOUS", "FULL")
_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "SECONDS", "MINUTES", "HOURS", "DAYS", "MONTH", "YEAR", "MONTHS", "YEARS")
_STARTS = (
    "FROM_BEGINNING", "FROM_NOW", "FROM_TIMESTAMP", "RESUME_OR_FROM_BEGINNING", "RESUME_OR_FROM_NOW", "RESUME_OR_FROM_TIMESTAMP",
)  # fmt: skip


class MaterializedGrammar(TableGrammar):
    """Reads definitions of queries whose answers are kept."""

    def create_materialized(self, *, replace: bool) -> CreateMaterializedView:
        """From before the words OR ALTER, or MATERIALIZED."""
        alters = self.match("OR", "ALTER")
        self.expect("MATERIALIZED")
        table = self.match("TABLE")
        if not table and alters:
            self.fail("TABLE", hint="write CREATE OR REPLACE MATERIALIZED VIEW")
        if not table:
            self.expect("VIEW")
        if table and replace:
            self.refuse(
                "a materialized table is not replaced", self.previous, "write CREATE OR ALTER MATERIALIZED TABLE"
            )
        if_not_exists = self.match("IF", "NOT", "EXISTS")
        name = self.object_name("the name of the table" if table else "the name of the view")
        columns = self.view_columns()
        comment = self.comment()
        if not table:
            options = self.with_options()
            self.expect("AS")
            return CreateMaterializedView(name, self.query_text(), columns, comment, options, replace, if_not_exists)
        if self.at("DISTRIBUTED"):
            self.refuse(
                "a materialized table is not distributed", self.token, "leave DISTRIBUTED out: it is kept by key"
            )
        partitioned_by: tuple[Name, ...] = ()
        if self.match("PARTITIONED"):
            self.expect("BY")
            partitioned_by = self.names("a partition column")
        options = self.with_options()
        refresh = self._refresh_clauses(partitioned_by)
        return CreateMaterializedView(
            name, self.query_text(), columns, comment, options, alters, if_not_exists, table=refresh
        )

    def _refresh_clauses(self, partitioned_by: tuple[Name, ...]) -> TableRefresh:
        """The clauses up to AS."""
        freshness, span, mode = None, None, None
        if self.match("FRESHNESS"):
            self.expect("=")
            first = self.token
            freshness = self._age()
            span = self.span_from(first)
        if self.match("REFRESH_MODE"):
            self.expect("=")
            mode = self.expect_any(*_MODES)
        start = self._start_mode()
        suspended = self.match("SUSPENDED")
        self.expect("AS")
        return _refresh.TableRefresh(partitioned_by, freshness, span, mode, suspended, start)

    def _age(self) -> tuple[str, str]:
        self.expect("INTERVAL")
        text = self.string("a number in single quotes").value
        return text, self.expect_any(*_UNITS).removesuffix("S")

    def _start_mode(self) -> StartMode | None:
        if not self.match("START_MODE"):
            return None
        self.expect("=")
        first = self.token
        word = self.expect_any(*_STARTS)
        kind, ago = word.rpartition("_")[2], None
        moment: str | int | None = None
        if kind == "NOW" and self.match("("):
            ago = self._age()
            self.expect(")")
        elif kind == "TIMESTAMP":
            self.expect("(")
            moment = self._moment()
            self.expect(")")
        return _refresh.StartMode(kind, word.startswith("RESUME"), self.span_from(first), ago, moment)

    def _moment(self) -> str | int:
        """`TIMESTAMP '..'`, or `TO_TIMESTAMP_LTZ(milliseconds, 3)`."""
        if self.expect_any("TIMESTAMP", "TO_TIMESTAMP_LTZ") == "TIMESTAMP":
            return self.string("a timestamp in single quotes").value
        self.expect("(")
        found = self._digits("a number of milliseconds")
        self.expect(",")
        digits = self.token
        if self._digits("3") != 3:
            self.refuse("a moment is a number of milliseconds", digits, "write TO_TIMESTAMP_LTZ(milliseconds, 3)")
        self.expect(")")
        return found

    def _digits(self, what: str) -> int:
        token = self.token
        if token.kind is not NUMBER or not token.text.isdigit() or len(token.text) > 18:
            self.fail(what)
        return int(self.advance().text)

    def alter_materialized(self, start: Token) -> Statement:
        """From the word MATERIALIZED on."""
        self.expect("MATERIALIZED")
        if not self.match("TABLE"):
            self.expect("VIEW")
            name = self.object_name("the name of the materialized view")
            if self.match("SET"):
                return AlterMaterializedView(name, SetOptions(self.options()))
            if self.match("RESET"):
                return AlterMaterializedView(name, self._reset())
            if not self.match("AS"):
                self.fail("AS", "SET", "RESET")
            return CreateMaterializedView(name, self.query_text(), or_replace=True, alters=True)
        name = self.object_name("the name of the materialized table")
        if self.at_any("AS", "START_MODE"):
            refresh = _refresh.TableRefresh(start=self._start_mode())
            self.expect("AS")
            return CreateMaterializedView(name, self.query_text(), or_replace=True, alters=True, table=refresh)
        if self.match("SUSPEND"):
            return AlterMaterializedTable(name, Suspend())
        if self.match("RESUME"):
            return AlterMaterializedTable(name, Resume(self.with_options()))
        if self.match("REFRESH"):
            return AlterMaterializedTable(name, Refresh(self.partition_spec() if self.at("PARTITION") else None))
        if self.match("SET"):
            return AlterMaterializedTable(name, SetOptions(self.options()))
        if self.match("RESET"):
            return AlterMaterializedTable(name, self._reset())
        if self.at_any("ADD", "MODIFY", "DROP", "RENAME"):
            self.refuse(
                "the columns and the name of a materialized table cannot be changed",
                self.token,
                "give it another query, ALTER MATERIALIZED TABLE t AS .., or drop it and make another",
            )
        self.fail("SUSPEND", "RESUME", "REFRESH", "SET", "RESET", "AS")

    def _reset(self) -> ResetOptions:
        self.expect("(")
        keys = [self._key()]
        while self.match(","):
            keys.append(self._key())
        self.expect(")")
        return ResetOptions(tuple(keys))

    def _key(self) -> Name:
        token = self.string("a key in single quotes")
        return Name(token.value, token.span)

    def view_columns(self) -> tuple[ViewColumn, ...]:
        """`(name [COMMENT ..], ..)`, or nothing."""
        if not self.match("("):
            return ()
        found: list[ViewColumn] = []
        while not found or self.match(","):
            found.append(ViewColumn(self.name("a column name"), self.comment()))
        self.expect(")")
        return tuple(found)
