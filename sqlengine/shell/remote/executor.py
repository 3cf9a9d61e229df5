"""Carries out statements at a server and shows what it answers, as the shell shows its own."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Mapping

from runtime.core.errors import UnsupportedError
from sqlengine.api.environment import TableEnvironment
from sqlengine.options.client import CLIENT_OPTIONS, MAX_COLUMN_WIDTH
from sqlengine.options.dialect import DIALECT_OPTION, FLINK
from sqlengine.shell.executor import Executor
from sqlengine.shell.grid import (
    KIND_STYLES,
    GridColumn,
    body_line,
    bottom_rule,
    columns_of,
    fit,
    header_lines,
    measured,
)
from sqlengine.shell.meta import WORDS, run_command
from sqlengine.shell.reader import Piece
from sqlengine.shell.remote.connection import Answer, Connection
from sqlengine.shell.remote.mirror import refresh
from sqlengine.shell.remote.tables import as_result
from sqlengine.shell.screen import Screen
from sqlengine.statements.create_text import literal
from sqlengine.statements.settings import set_value

__all__ = ["RemoteExecutor"]

_SETS = re.compile(r"\s*(?:SET|RESET)\s+'([^']+)'(?:\s*=\s*'((?:[^']|'')*)')?\s*\Z", re.IGNORECASE)
_FOLLOWS = re.compile(r"\s*SUBSCRIBE\b", re.IGNORECASE)
_DEFINES = re.compile(r"\s*(?:CREATE|ALTER|DROP|USE|RENAME)\b", re.IGNORECASE)
_CLIENT = frozenset(option.key for option in CLIENT_OPTIONS)
_HERE = frozenset(("\\?", "\\h", "\\q", "\\x", "\\timing", "\\mode", "\\i", "\\o", "\\e", "\\watch", "\\clear"))
"""Commands that ask no catalog and no jobs."""
_QUERIES: Mapping[str, str] = {"\\dj": "SHOW JOBS", "\\l": "SHOW DATABASES"}
_KINDS = "CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' ELSE 'table' END"
_LISTS: Mapping[str, str] = {
    "\\d": "'r', 'v', 'm', 'f', 'p'",
    "\\dt": "'r', 'f', 'p'",
    "\\dv": "'v', 'm'",
    "\\dm": "'m'",
}


class RemoteExecutor(Executor):
    """The shell on a server, without its prompt.

    Args:
        connection: where statements go.
        environment: one without tables, which has the options of the shell, and the server's names for completion.
        screen: where everything is shown.
    """

    def __init__(self, connection: Connection, environment: TableEnvironment, screen: Screen) -> None:
        super().__init__(environment, screen)
        self.connection = connection
        self._first_dialect = FLINK

    def begin(self, options: Mapping[str, str]) -> None:
        """Give the server's session the dialect of the shell and its options."""
        self._first_dialect = options.get(DIALECT_OPTION, FLINK)
        for key, value in {DIALECT_OPTION: FLINK, **options}.items():
            if key in _CLIENT or key == DIALECT_OPTION:
                set_value(self.session, key, value)
            if key not in _CLIENT:
                self._answered(f"SET {literal(key)} = {literal(value)}")
        if self.screen.interactive:
            refresh(self.connection, self.session)

    @property
    def place(self) -> str:
        return self.connection.place

    def run(self, piece: Piece, source: str | None = None) -> None:
        """One statement or command. Raises SqlEngineError; `Leave` for QUIT; KeyboardInterrupt when it was cut off."""
        if piece.is_command:
            self._interrupt.seen = False
            self._command(piece.text)
            return
        if self._is_of_the_shell(piece.text):
            super().run(piece, source)
            return
        started = time.monotonic()
        answers = self.connection.ask(self._written(piece))
        with self._interrupt:
            try:
                if _FOLLOWS.match(piece.text):
                    self._follow(answers, started)
                else:
                    self._show_answers(answers, piece, started)
            except KeyboardInterrupt:
                answers.close()
                raise
        self._after(piece.text)

    def _written(self, piece: Piece) -> str:
        """What is sent. The dialect goes back to that of the shell, which is not that of other clients."""
        found = _SETS.match(piece.text)
        if found is not None and found[1] == DIALECT_OPTION and found[2] is None:
            return f"SET {literal(DIALECT_OPTION)} = {literal(self._first_dialect)}"
        return piece.placed

    def _is_of_the_shell(self, text: str) -> bool:
        found = _SETS.match(text)
        return found is not None and found[1] in _CLIENT

    def _after(self, text: str) -> None:
        """What a statement has changed for the shell: how statements are read, and which names there are."""
        found = _SETS.match(text)
        if found is not None and found[1] == DIALECT_OPTION:
            set_value(self.session, DIALECT_OPTION, found[2] or self._first_dialect)
        elif self.screen.interactive and _DEFINES.match(text):
            refresh(self.connection, self.session)

    def _answered(self, statement: str) -> list[tuple[str | None, ...]]:
        """The rows of a statement of the shell's own."""
        return [row for answer in self.connection.ask(statement) for row in answer.rows]

    # --- showing
    # --------------------------------------------------------------------------------------------------------

    def _show_answers(self, answers: Generator[Answer], piece: Piece, started: float) -> None:
        rows: list[tuple[str | None, ...]] = []
        for answer in answers:
            if answer.text:
                self._results(answer.text)
            rows += answer.rows
            if answer.tag is None:
                continue
            if answer.names:
                self.last_query = piece.text
                self._show_rows(answer, rows, piece, started)
            elif self.screen.interactive and not self.quiet:
                self.screen.say(f"{_said(answer.tag)}{self._timing(started)}", "note")
            elif answer.tag.startswith(("INSERT", "UPDATE", "DELETE", "MERGE")):
                self.screen.say(_said(answer.tag), "note")
            rows = []

    def _show_rows(self, answer: Answer, rows: list[tuple[str | None, ...]], piece: Piece, started: float) -> None:
        if answer.names == ("result",):
            for (text,) in rows:
                self._results(f"{text}\n")
            return
        self._show_table(as_result(answer.names, answer.types, rows), piece, started)

    def _follow(self, answers: Generator[Answer], started: float) -> None:
        """The rows of SUBSCRIBE as lines, as they come, until Ctrl-C."""
        frame, count = self.screen.frame, 0
        grid: list[GridColumn] | None = None
        try:
            for answer in answers:
                if not answer.names:
                    continue
                if grid is None:
                    # The first rows tell how wide the columns are; later values are cut.
                    columns = [
                        c.wide(max(len(c.name), 8))
                        for c in columns_of(as_result(answer.names, answer.types, ()).schema)
                    ]
                    wide = measured(columns, answer.rows, self.session.options.get(MAX_COLUMN_WIDTH))
                    columns = [m.wide(max(m.width, c.width)) for m, c in zip(wide, columns, strict=True)]
                    grid = fit(columns, self.screen.width) or columns
                    self.screen.lines(header_lines(grid, frame))
                op = answer.names.index("op") if "op" in answer.names else None
                count += len(answer.rows)
                self.screen.lines(
                    body_line(grid, row, frame, "" if op is None else KIND_STYLES.get(row[op] or "", ""))
                    for row in answer.rows
                )
        finally:
            if grid is not None:
                self.screen.lines([bottom_rule(grid, frame)])
            self.screen.say(f"{count:,} row{'' if count == 1 else 's'}{self._timing(started)}", "note")

    # --- commands
    # -------------------------------------------------------------------------------------------------------------

    def _command(self, text: str) -> None:
        name, _, argument = text.strip().rstrip(";").partition(" ")
        name, argument = WORDS.get(name.upper(), name), argument.strip()
        if name == "\\d" and argument and not any(c in argument for c in "*?"):
            self.run(Piece(f"DESCRIBE {argument}", False, 1))
        elif name in _LISTS:
            self._list(_LISTS[name], argument)
        elif name in _QUERIES:
            self._query(_QUERIES[name])
        elif name in _HERE:
            run_command(self, text)
        else:
            raise UnsupportedError(
                f"{name} is not there on a server",
                code="E1650",
                hint="SHOW FUNCTIONS, SHOW JOBS and system.* tell what it has",
            )

    def _list(self, kinds: str, pattern: str) -> None:
        like = literal(pattern.replace("*", "%").replace("?", "_") or "%")
        self._query(
            f"SELECT n.nspname AS schema, c.relname AS name, {_KINDS} AS kind FROM pg_catalog.pg_class c "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            f"WHERE c.relkind IN ({kinds}) AND n.nspname NOT IN ('pg_catalog', 'information_schema') "
            f"AND c.relname LIKE {like} ORDER BY 1, 2"
        )

    def _query(self, statement: str) -> None:
        self.run(Piece(statement, False, 1))


def _said(tag: str) -> str:
    """`INSERT 0 2` in words."""
    words = tag.split()
    if words[-1].isdecimal() and words[0] in ("INSERT", "UPDATE", "DELETE", "COPY", "MERGE"):
        count = int(words[-1])
        return f"{words[0]}: {count:,} row{'' if count == 1 else 's'}"
    return "OK" if tag not in ("BEGIN", "COMMIT", "ROLLBACK") else tag
