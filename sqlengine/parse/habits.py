"""What people write who know another SQL, or who mistype: what to write instead, by the tokens around the place.

`syntax_hint` is asked when a token does not fit; it knows the habits of PostgreSQL, MySQL, SQL Server, Oracle, Spark,
ksqlDB and of other languages. `TYPES` and `FOREIGN` name types and statements that other systems have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from runtime.core.errors import did_you_mean, position
from runtime.core.likeness import edits
from sqlengine.parse.lexer import END, NUMBER, QUOTED, STRING, WORD, Token

__all__ = ["FOREIGN", "TYPES", "syntax_hint", "type_hint"]

TYPES = {
    "VARCHAR2": "STRING", "NVARCHAR": "STRING", "NVARCHAR2": "STRING", "CLOB": "STRING",
    "CHARACTER_VARYING": "STRING", "UUID": "STRING", "JSON": "STRING, which the JSON functions read",
    "JSONB": "STRING, which the JSON functions read", "ENUM": "STRING",
    "NUMBER": "DECIMAL(precision, scale), or BIGINT", "MONEY": "DECIMAL(19, 2)",
    "INT16": "SMALLINT", "INT32": "INT", "INT64": "BIGINT", "LONG": "BIGINT", "SHORT": "SMALLINT",
    "BYTE": "TINYINT", "HUGEINT": "DECIMAL(38, 0)", "FLOAT64": "DOUBLE",
    "BIT": "BOOLEAN", "BLOB": "BYTES", "DATETIME": "TIMESTAMP(3)",
    "DATETIME2": "TIMESTAMP(3)", "TIMESTAMP_NTZ": "TIMESTAMP(3)",
    "STRUCT": "ROW<name type, ..>", "OBJECT": "ROW<name type, ..>", "LIST": "ARRAY<type>",
    "SERIAL": "BIGINT; rows are not numbered by themselves", "BIGSERIAL": "BIGINT; rows are not numbered by themselves",
}  # fmt: skip
"""Types of other systems, and what they are here."""

_EPOCHS = (
    "each statement takes effect by itself; BEGIN EPOCH .. END EPOCH (or ROLLBACK EPOCH) holds several changes together"
)
FOREIGN = {
    "COMMIT": _EPOCHS,
    "START": _EPOCHS,
    "MERGE": "a table with a primary key keeps the last row of each key: write INSERT INTO",
    "UPSERT": "a table with a primary key keeps the last row of each key: write INSERT INTO",
    "FROM": "a query begins with SELECT",
    "WHERE": "a query begins with SELECT",
    "PRINT": "write SELECT, or INSERT INTO a table WITH ('connector' = 'print')",
    "COMMENT": "comments stand in CREATE, or use ALTER TABLE t MODIFY c type COMMENT '..'",
    "GRANT": "there are no users and no rights here",
    "REVOKE": "there are no users and no rights here",
    "EMIT": "at the end of a SELECT: EMIT CHANGES, or EMIT ON WINDOW CLOSE",
    "PRAGMA": "options are set with SET 'key' = 'value'",
    "QUIT": "at the prompt of sqlengine shell it is \\q or QUIT alone",
    "EXIT": "at the prompt of sqlengine shell it is \\q or EXIT alone",
    "COPY": "files are tables WITH ('connector' = 'filesystem')",
    "LOAD": "files are tables WITH ('connector' = 'filesystem')",
    "VACUUM": "there is nothing to clean up: leave it out",
}
"""First words of statements that other systems have, and what to do here."""

_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "ORDER", "LIMIT")
"""Clauses of a query, in the order in which they stand."""
_EXPRESSION = "an expression"
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_SHORT_UNITS = {"SEC": "SECOND", "SECS": "SECOND", "MIN": "MINUTE", "MINS": "MINUTE", "HR": "HOUR", "HRS": "HOUR"}
_UNNEST = "write FROM t CROSS JOIN UNNEST(array) AS u (x)"
_COLUMN_EXTRAS = {
    "AUTO_INCREMENT": "rows are not numbered by themselves",
    "AUTOINCREMENT": "rows are not numbered by themselves",
    "IDENTITY": "rows are not numbered by themselves",
    "DEFAULT": "there are no default values; INSERT INTO t (a, b) leaves the other columns NULL",
    "UNIQUE": "the only constraints are NOT NULL and PRIMARY KEY (..) NOT ENFORCED",
    "CHECK": "the only constraints are NOT NULL and PRIMARY KEY (..) NOT ENFORCED",
    "REFERENCES": "the only constraints are NOT NULL and PRIMARY KEY (..) NOT ENFORCED",
    "GENERATED": "a computed column is written: name AS expression",
}
_NO_OBJECTS = {
    "INDEX": "there are no indexes: the engine keeps what its queries need",
    "UNIQUE": "there are no indexes: the engine keeps what its queries need",
    "STREAM": "write CREATE TABLE .. WITH ('connector' = ..): every table is a stream",
    "SOURCE": "write CREATE TABLE .. WITH ('connector' = ..): a table is read as a source",
    "SINK": "write CREATE TABLE .. WITH ('connector' = ..), and INSERT INTO it",
    "TEMP": "write TEMPORARY",
    "SCHEMA": "write CREATE DATABASE",
    "EXTERNAL": "write CREATE TABLE .. WITH ('connector' = ..)",
    "SEQUENCE": "there are no sequences",
    "TRIGGER": "there are no triggers: CREATE MATERIALIZED VIEW keeps an answer up to date",
    "PROCEDURE": "there are no procedures",
}
_REGEXP = "write REGEXP(text, 'pattern')"
_PIVOT = "there is no PIVOT: write an aggregate for each column, such as SUM(x) FILTER (WHERE name = 'a')"
_DAY_OF_WEEK = ("WEEKDAY", "DAYOFWEEK", "DAY_OF_WEEK")


class _Place:
    """The token that does not fit, and those around it. `expected` is what the grammar would take."""

    def __init__(self, tokens: Sequence[Token], at: int, expected: Sequence[str], text: str) -> None:
        self.tokens, self.index, self.expected, self.text = tokens, at, expected, text
        self.token = tokens[at]
        self.word = self.token.upper

    def near(self, by: int) -> Token:
        """The token so many places on, negative for before; the ends are never passed."""
        return self.tokens[min(max(self.index + by, 0), len(self.tokens) - 1)]

    def after(self, *words: str) -> bool:
        """Whether these words and marks stand right before the token."""
        count = len(words)
        return self.index >= count and all(self.near(i - count).upper == w for i, w in enumerate(words))

    def followed(self, *words: str) -> bool:
        return all(self.near(i + 1).upper == w for i, w in enumerate(words))


def syntax_hint(tokens: Sequence[Token], at: int, expected: Sequence[str], text: str) -> str | None:
    """What to write instead, where the token at a place is a known mistake; None where nothing is known."""
    place = _Place(tokens, at, expected, text)
    return next((hint for rule in _RULES if (hint := rule(place)) is not None), None)


def type_hint(word: Token, before: Token, known: Sequence[str]) -> str | None:
    """What to write instead of a word that is no type."""
    if before.upper == "WATERMARK":
        return "a watermark is written: WATERMARK FOR column AS column - INTERVAL '5' SECOND"
    if before.upper in ("FOREIGN", "UNIQUE"):
        return _COLUMN_EXTRAS["UNIQUE"]
    if word.upper in TYPES:
        return f"write {TYPES[word.upper]}"
    near = did_you_mean(word.text, known)
    return near or "types are, for example, STRING, INT, BIGINT, DOUBLE, DECIMAL(10, 2), DATE, TIMESTAMP(3)"


def _operators(p: _Place) -> str | None:
    if p.word == "=" and p.after("="):
        return "equality is written with one ="
    if p.word == "=>":
        return "greater or equal is written >="
    if p.word == "&":
        return "write AND"
    if p.word == "~" and p.after("~"):
        return "write text LIKE 'pattern'"
    if p.word in ("RLIKE", "REGEXP", "GLOB"):
        return _REGEXP
    if p.word == "[":
        if _EXPRESSION in p.expected or "a table" in p.expected:
            return "a name that needs quotes stands in `back-ticks`"
        return f"an array type is written ARRAY<{p.near(-1).text}>" if "," in p.expected else None
    if p.token.kind in (STRING, NUMBER) and (p.after("IS") or p.after("IS", "NOT")):
        return f"compare a value with {'<>' if p.after('NOT') else '='}; IS is for NULL, TRUE and FALSE"
    return None


def _intervals(p: _Place) -> str | None:
    if p.token.kind is NUMBER and p.after("INTERVAL"):
        return f"write {_interval(p.token.text, p.near(1).text)}"
    unit = _unit(p.word)
    if unit is not None and p.near(-1).kind is NUMBER:
        return f"write {_interval(p.near(-1).text, p.word)}"
    if p.near(-1).kind is STRING and p.near(-2).upper == "INTERVAL":
        parts = re.fullmatch(r"\s*(\d+)\s*([a-zA-Z]*)\s*", p.near(-1).value)
        return f"write {_interval(parts[1], parts[2])}" if parts else "for example INTERVAL '5' MINUTE"
    if p.after("EXTRACT", "("):
        if p.word in _DAY_OF_WEEK:
            return "the day of the week is DOW, 1 for Sunday"
        return None if p.near(1).upper == "FROM" else f"write EXTRACT(HOUR FROM {p.token.text})"
    return None


def _unit(word: str) -> str | None:
    word = word.upper()
    return next((u for u in _UNITS if word in (u, u + "S")), _SHORT_UNITS.get(word))


def _interval(number: str, unit: str) -> str:
    return f"INTERVAL '{number}' {_unit(unit) or 'MINUTE'}"


def _commas(p: _Place) -> str | None:
    if p.word == "," and p.after(","):
        return "remove one of the commas"
    if p.after(",") and (p.word in _CLAUSES or p.word in (")", "UNION", ";") or p.token.kind is END):
        return "remove the comma before it"
    if p.word == "BY" and p.near(-1).upper == "PARTITION" and p.near(-2).upper == ",":
        return "PARTITION BY belongs to the table: leave out the comma before it"
    if p.word == "," and p.near(-2).upper == "LIMIT":
        return f"write LIMIT {p.near(1).text} OFFSET {p.near(-1).text}"
    return None


def _brackets(p: _Place) -> str | None:
    opened = _open_bracket(p)
    if p.word == "SELECT" and p.after("("):
        return 'did you mean "EXISTS"?' if p.near(-2).upper in ("EXIST", "EXISTIS", "EXITS", "EXSITS") else None
    if (
        p.expected == ("(",)
        and p.token.kind in (WORD, QUOTED)
        and p.near(-1).upper in ("USING", "KEY", "CUBE", "ROLLUP")
    ):
        before = "PRIMARY KEY" if p.near(-1).upper == "KEY" else p.near(-1).upper
        return f"write {before} ({p.token.text})"
    if p.after("CUBE") or p.after("ROLLUP"):
        return f"write {p.near(-1).upper} ({p.token.text})" if p.token.kind in (WORD, QUOTED) else None
    if p.after("DESCRIPTOR", "(") and p.token.kind is STRING:
        return f"a column stands without quotes: DESCRIPTOR({p.token.value})"
    if p.expected == ("(",) and p.after("AS") and p.word in ("SELECT", "VALUES"):
        return "the query of WITH stands in parentheses"
    if any(p.near(-i).upper in ("PIVOT", "UNPIVOT") for i in range(1, 5)):
        return _PIVOT
    if p.word == ")" and opened is None:
        return 'there is no "(" that it closes'
    if p.word == ")" and p.after("IN", "("):
        return "IN takes at least one value, or a query"
    if p.after("IN") and "(" in p.expected:
        return "write the values in parentheses: IN (1, 2)"
    if p.word == "EXISTS" and not p.followed("("):
        return "write EXISTS (SELECT ..)"
    if ")" in p.expected and opened is not None and p.word != ",":
        line, column = position(p.text, opened.start)
        return f'the "(" at {line}:{column} is not closed'
    return None


def _open_bracket(p: _Place) -> Token | None:
    """The last bracket before the place that is not closed."""
    depth = 0
    for token in reversed(p.tokens[: p.index]):
        if token.upper == ";":
            return None
        depth += (token.upper == ")") - (token.upper == "(")
        if depth < 0:
            return token
    return None


def _clauses(p: _Place) -> str | None:
    if p.token.kind is NUMBER and p.after("TOP"):
        return f"write LIMIT {p.token.text} at the end of the query"
    if p.word == "WITH" and p.near(1).upper in ("ROLLUP", "CUBE"):
        return f"write GROUP BY {p.near(1).upper} (..)"
    if p.word == "MINUS":
        return "write EXCEPT"
    if p.after("*") and p.word in ("REPLACE", "RENAME"):
        return "leave columns out with * EXCLUDE (a, b), and name the others that you want"
    if p.word == "LATERAL" and p.followed("VIEW"):
        return _UNNEST
    if p.word == "UNNEST" and _EXPRESSION in p.expected:
        return _UNNEST
    if p.word == "SELECT" and _EXPRESSION in p.expected and not p.after("("):
        return "one SELECT is too much" if p.after("SELECT") else "a subquery stands in parentheses"
    if p.word == "FROM" and p.after("SELECT"):
        return "name columns between SELECT and FROM, or write SELECT *"
    if p.after("SELECT", "*") and p.token.kind in (WORD, QUOTED):
        return f"write SELECT * FROM {p.token.text}"
    if p.word == "OUTER":
        return "write LEFT, RIGHT or FULL OUTER JOIN"
    if p.after("EMIT") or p.word == "EMIT":
        return FOREIGN["EMIT"]
    if p.word == "FOR" and p.near(1).upper == "SYSTEM":
        return "write FOR SYSTEM_TIME AS OF"
    if p.word in _CLAUSES and "the end of the statement" in p.expected:
        return _wrong_order(p)
    return None


def _wrong_order(p: _Place) -> str | None:
    """A clause that stands behind one that comes after it."""
    rank, depth = _CLAUSES.index(p.word), 0
    for token in reversed(p.tokens[: p.index]):
        depth += (token.upper == ")") - (token.upper == "(")
        if depth < 0 or token.upper in (";", "SELECT"):
            break
        if depth == 0 and token.upper in _CLAUSES and _CLAUSES.index(token.upper) > rank:
            both = {"GROUP": "GROUP BY", "ORDER": "ORDER BY"}
            first, second = (both.get(w, w) for w in (p.word, token.upper))
            return f"{first} stands before {second}"
    return None


def _statements(p: _Place) -> str | None:
    """Words that a statement lacks before a name."""
    if p.token.kind is WORD and p.word not in _CLAUSES:
        name = p.token.text
        if p.after("DROP") and p.near(1).upper in ("", ";"):
            return f"write DROP TABLE {name}, or DROP VIEW {name}"
        if p.after("SHOW", "CREATE"):
            return f"write SHOW CREATE TABLE {name}, or SHOW CREATE VIEW {name}"
        if p.after("SHOW", "COLUMNS"):
            return f"write SHOW COLUMNS FROM {name}"
        if p.after("DELETE"):
            return f"write DELETE FROM {name}"
        if p.after("ANALYZE"):
            return f"write ANALYZE TABLE {name} COMPUTE STATISTICS"
        if p.near(-1).upper == "JOB" and p.near(-2).upper in ("STOP", "DESCRIBE", "DESC"):
            end = p.near(2).end if p.near(1).upper == "-" else p.token.end
            return f"write '{p.text[p.token.start : end]}', in single quotes"
        if p.word == "NOT" and p.after("IF") and p.near(1).kind is WORD:
            return "write IF NOT EXISTS"
        if p.near(-2).upper == "USE" and edits(p.near(-1).upper, "DATABASE", 2) <= 2:
            return f"write USE {name}"
    if p.expected == ("TO",) and p.after("SUBSCRIBE") and p.token.kind is WORD:
        return f"write SUBSCRIBE TO {p.token.text}"
    if p.expected == ("EPOCH",):
        return _EPOCHS
    if p.word == "SET" and p.near(-2).upper == "INTO":
        return f"write INSERT INTO {p.near(-1).text} (a, b) VALUES (..)"
    return None


def _definitions(p: _Place) -> str | None:
    if p.after("CREATE") and p.word in _NO_OBJECTS:
        return _NO_OBJECTS[p.word]
    if p.word in _COLUMN_EXTRAS and "," in p.expected:
        return _COLUMN_EXTRAS[p.word]
    if p.expected == ("a key in single quotes",) and p.token.kind in (WORD, QUOTED):
        value = p.near(2).text if p.near(2).kind is STRING else "'value'"
        return f"write '{p.token.value}' = {value}"
    if p.expected == ("a value in single quotes",) and p.token.kind in (WORD, QUOTED, NUMBER):
        return f"write '{p.token.value}'"
    if p.word == "(" and p.near(1).kind is STRING and p.near(2).upper == "=" and p.after(")"):
        return "options stand behind WITH: WITH ('connector' = ..)"
    if p.after("ARRAY") and "<" in p.expected:
        return f"write ARRAY<{p.token.text}>"
    if p.word == ">" and p.near(-2).upper == "<" and p.near(-3).upper == "MAP":
        return f"write MAP<key type, {p.near(-1).text}>"
    if "a type" in p.expected and p.near(-1).kind in (WORD, QUOTED):
        return f"for example {p.near(-1).text} STRING"
    if "AS" in p.expected and p.near(-3).upper == "WATERMARK":
        column = p.near(-1).text
        return f"for example WATERMARK FOR {column} AS {column} - INTERVAL '5' SECOND"
    if p.index == 3 and p.near(-3).upper == "CREATE" and p.near(-2).upper == "TABLE" and p.token.kind is WORD:
        return "the columns stand in parentheses"
    if "," in p.expected and p.near(1).kind is WORD and p.token.kind in (WORD, QUOTED) and p.near(-1).upper != "(":
        return f'put a comma before "{p.token.text}"'
    if p.after("DROP", "COLUMN"):
        return f"write DROP {p.token.text}"
    if p.word == "INTO" and p.after("REPLACE"):
        return FOREIGN["UPSERT"]
    return None


def _select_list(p: _Place) -> str | None:
    """Two values without a comma between them, before FROM."""
    if "the end of the statement" not in p.expected or p.token.kind not in (WORD, QUOTED, STRING, NUMBER):
        return None
    if p.word in _CLAUSES or p.near(-1).kind not in (WORD, QUOTED) or p.near(-1).upper in ("SELECT", "DISTINCT"):
        return None
    words = [t.upper for t in p.tokens[: p.index]]
    start = len(words) - words[::-1].index("SELECT") if "SELECT" in words else None
    if start is None or set(words[start:]) & {*_CLAUSES, "TOP", "INTERVAL", "EXCEPT", "EXCLUDE"}:
        return None
    return "put a comma before it, if it is a column of its own" if p.near(1).upper in ("FROM", ",") else None


_RULES: tuple[Callable[[_Place], str | None], ...] = (
    _operators,
    _intervals,
    _commas,
    _clauses,
    _statements,
    _definitions,
    _brackets,
    _select_list,
)
"""Asked in this order."""
