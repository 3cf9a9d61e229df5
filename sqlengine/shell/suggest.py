"""What may be typed next: names of the catalog, functions, options and their values, keywords, by position.

The parser tells what fits at a place (`sqlengine.parse.expectations`); this module says which names there are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.core.errors import SqlEngineError
from runtime.core.options import Option
from sqlengine.catalog.objects import CatalogTable, CatalogView, MaterializedView
from sqlengine.database.session import Session
from sqlengine.parse.cursor import RESERVED
from sqlengine.parse.expectations import Expected, expected_after
from sqlengine.parse.lexer import OP, QUOTED, STRING, WORD, Token
from sqlengine.shell.help_texts import STATEMENTS, TABLE_FUNCTIONS
from sqlengine.shell.meta import COMMANDS
from sqlengine.shell.reader import CLIENT_WORDS
from sqlengine.shell.scope import Relation, Scope, tokens_of
from sqlengine.statements.settings import SESSION_OPTIONS
from sqlengine.table_options.lookups import LOOKUP_OPTIONS
from sqlengine.table_options.sources import SOURCE_OPTIONS
from sqlengine.table_options.watermarks import WATERMARK_OPTIONS
from sqlengine.text.functions import function_kind, is_called_by_name, signature_texts

__all__ = ["Suggester", "Suggestion"]

_TYPES = (
    "INT", "BIGINT", "STRING", "BOOLEAN", "DOUBLE", "DECIMAL(10, 2)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "DATE", "TIME", "TINYINT",
    "SMALLINT", "FLOAT", "CHAR(1)", "VARCHAR(100)", "BYTES", "BINARY(1)", "VARBINARY(100)", "ARRAY<INT>", "MAP<STRING, INT>",
    "MULTISET<INT>", "ROW<a INT>",
)  # fmt: skip
_PHRASES = {
    "GROUP": "GROUP BY", "ORDER": "ORDER BY", "CROSS": "CROSS JOIN", "INNER": "INNER JOIN", "LEFT": "LEFT JOIN",
    "RIGHT": "RIGHT JOIN", "FULL": "FULL JOIN", "NATURAL": "NATURAL JOIN", "PARTITIONED": "PARTITIONED BY", "IF": "IF EXISTS",
    "MATERIALIZED": "MATERIALIZED VIEW", "SIMILAR": "SIMILAR TO", "PRIMARY": "PRIMARY KEY",
}  # fmt: skip
"""Words that are not typed alone."""
_VALUES = ("CASE", "CAST", "EXISTS", "FALSE", "INTERVAL", "NULL", "TRUE", "TRY_CAST")
TABLES_LOOKED_AT = 30
PATHS_SHOWN = 200
_COLUMNS = frozenset(("a column name", "the column of the watermark"))
_TABLES = frozenset(("a table", "a table name", "the name of a table", "the name of the table"))


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What may take the place of the last `replaces` characters. `shown` stands in the menu, `about` beside it."""

    text: str
    replaces: int
    kind: str
    about: str = ""
    shown: str = ""


class Suggester:
    """Suggestions from a session's catalog, functions and options."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def suggest(self, before: str, after: str = "") -> list[Suggestion]:
        """What may be typed between two texts; the best first."""
        line = before.rpartition("\n")[2]
        start, words = _statement_before(before)
        statement = before[start:]
        if not before[start : len(before) - len(line)].strip():
            if line.lstrip().startswith("\\"):
                return self._of_command(line.lstrip())
            if line.upper().startswith("HELP "):
                return self._of_command("\\h " + line[5:].lstrip())
        quoted = _open_text(statement)
        if quoted is not None:
            return self._of_option(statement[:quoted], statement[quoted + 1 :])
        prefix = _word_before(statement)
        head = statement[: len(statement) - len(prefix)]
        expected = expected_after(head)
        if not expected.reached:
            return []
        tokens = tokens_of(head)
        found = list(self._fitting(expected, tokens, statement, after, prefix, len(words)))
        return _ranked(found, prefix.lstrip("`"))

    # --- by position
    # -----------------------------------------------------------------------------------------------------

    def _fitting(
        self, expected: Expected, tokens: list[Token], statement: str, after: str, prefix: str, number: int
    ) -> Iterator[Suggestion]:
        size = len(prefix)
        scope = Scope(self._session, statement + after, len(statement) - size)
        qualifier = _qualifier(tokens)
        if qualifier:
            yield from self._qualified(qualifier, scope, size, of_table=bool(expected.names & _TABLES))
            return
        first = tokens[0].upper if tokens else ""
        lower = _in_lower_case(tokens, prefix)
        if expected.names & _TABLES:
            yield from self._tables(scope, size, written=bool(tokens) and tokens[-1].upper in ("INTO", "OVERWRITE"))
        if expected.names & _COLUMNS and first == "CREATE":
            yield from _declared_columns(tokens, size)
        elif expected.names & _COLUMNS or _in_column_list(tokens):
            yield from self._columns(scope, size)
        if "a name" in expected.names:
            yield from self._named(tokens, size)
        if "a table function" in expected.names:
            for name, about in TABLE_FUNCTIONS.items():
                yield Suggestion(f"{name}(", size, "function", about, name)
        if expected.expression:
            if first == "CREATE":
                yield from _declared_columns(tokens, size)
            yield from self._columns(scope, size)
            yield from self._functions(size, lower=lower)
        for word in (*expected.words, *(_VALUES if expected.expression else ())):
            phrase = word if (first, word) == ("SHOW", "FULL") else _PHRASES.get(word, word)
            yield Suggestion(phrase.lower() if lower else phrase, size, "keyword")
        if expected.type:
            for name in _TYPES:
                yield Suggestion(name.lower() if lower else name, size, "type")
        if not tokens and number == 0:
            for word in sorted(CLIENT_WORDS):
                yield Suggestion(word.lower() if lower else word, size, "keyword", "of the shell")
        if expected.text and not size:
            yield from self._of_option(statement, "", opening="'")

    def _tables(self, scope: Scope, size: int, *, written: bool) -> Iterator[Suggestion]:
        """What a query can read; `written`: what takes rows."""
        session = self._session
        for name in () if written else scope.queries:
            yield Suggestion(_written(name), size, "table", "query of WITH", name)
        for thing in session.catalogs.seen_objects():
            if written and not isinstance(thing, CatalogTable):
                continue
            yield Suggestion(_written(thing.path.name), size, "table", _about(thing), thing.path.name)
        for database in session.catalogs.seen_databases(session.catalogs.current_catalog):
            if database != session.catalogs.current_database:
                yield Suggestion(_written(database) + ".", size, "database", "database", database)
        for database, about in () if written else _SYSTEM_DATABASES.items():
            yield Suggestion(f"{database}.", size, "database", about, database)

    def _columns(self, scope: Scope, size: int) -> Iterator[Suggestion]:
        relations = scope.relations()
        if not relations:
            # The select list is typed before FROM: any column may be meant.
            things = self._session.catalogs.seen_objects()[:TABLES_LOOKED_AT]
            relations = [Relation(thing.path.name, (thing.path.name,)) for thing in things]
        several = len(relations) > 1
        for relation in relations:
            for name, type_ in scope.columns(relation):
                about = f"{type_} of {relation.alias}" if several and relation.alias else type_
                yield Suggestion(_written(name), size, "column", about, name)
        if several:
            for relation in relations:
                if relation.alias:
                    yield Suggestion(_written(relation.alias) + ".", size, "table", "its columns", relation.alias)

    def _functions(self, size: int, *, lower: bool) -> Iterator[Suggestion]:
        for function in sorted(self._session.functions, key=lambda f: f.name):
            name = function.name
            # What the dialect of PostgreSQL writes into trees is nobody's to type.
            if not is_called_by_name(function) or name.startswith("PG_"):
                continue
            signatures = list(dict.fromkeys(signature_texts(function)))
            shown = signatures[0] if signatures else name
            without = not signatures or all(s == f"{name}()" for s in signatures)
            text = name + ("" if without and name.startswith(("CURRENT_", "LOCAL")) else "(")
            about = function.document if function_kind(function) == "SCALAR" else f"aggregate: {function.document}"
            yield Suggestion(
                text.lower() if lower else text, size, "function", about, shown.lower() if lower else shown
            )

    def _qualified(
        self, qualifier: tuple[str, ...], scope: Scope, size: int, *, of_table: bool
    ) -> Iterator[Suggestion]:
        """After a dot: columns of a table or alias, or (`of_table`) tables of a database."""
        relations = [] if of_table else scope.relations()
        for relation in relations:
            if qualifier in ((relation.alias,), relation.name):
                for name, type_ in scope.columns(relation):
                    yield Suggestion(_written(name), size, "column", type_, name)
                return
        if qualifier[-1] in _SYSTEM_DATABASES:
            tables = _SYSTEM_TABLES[qualifier[-1]]
            yield from (Suggestion(name, size, "table", about, name) for name, about in tables.items())
            return
        catalogs = self._session.catalogs
        known = {c.name for c in catalogs.seen_catalogs()}
        if len(qualifier) == 1 and qualifier[0] in known:
            for name in catalogs.seen_databases(qualifier[0]):
                yield Suggestion(_written(name), size, "database", "database", name)
        place = (catalogs.current_catalog, *qualifier) if len(qualifier) == 1 else qualifier
        for thing in catalogs.seen_objects(*place) if len(place) == 2 else ():
            yield Suggestion(_written(thing.path.name), size, "table", _about(thing), thing.path.name)

    def _named(self, tokens: list[Token], size: int) -> Iterator[Suggestion]:
        """Names that a statement without a query takes: DROP TABLE, USE, DESCRIBE, SHOW CREATE."""
        words = {t.upper for t in tokens}
        catalogs = self._session.catalogs
        if "CATALOG" in words:
            yield from (
                Suggestion(_written(c.name), size, "catalog", c.comment or "", c.name) for c in catalogs.seen_catalogs()
            )
            return
        if words & {"DATABASE", "USE", "DATABASES", "TABLES", "VIEWS", "FUNCTIONS"}:
            for name in catalogs.seen_databases(catalogs.current_catalog):
                yield Suggestion(_written(name), size, "database", "database", name)
            return
        if "FUNCTION" in words:
            for function in sorted(self._session.functions, key=lambda f: f.name):
                if is_called_by_name(function):
                    yield Suggestion(function.name.lower(), size, "function", function.document, function.name.lower())
            return
        kinds: tuple[type, ...] = (CatalogTable, CatalogView, MaterializedView)
        if "MATERIALIZED" in words:
            kinds = (MaterializedView,)
        elif "VIEW" in words:
            kinds = (CatalogView, MaterializedView) if "SHOW" in words else (CatalogView,)
        elif "TABLE" in words and "DESCRIBE" not in words:
            kinds = (CatalogTable,)
        elif "SUBSCRIBE" in words:
            kinds = (CatalogTable, MaterializedView)
        for thing in catalogs.seen_objects():
            if isinstance(thing, kinds):
                yield Suggestion(_written(thing.path.name), size, "table", _about(thing), thing.path.name)

    # --- texts
    # -----------------------------------------------------------------------------------------------------------

    def _of_option(self, head: str, typed: str, opening: str = "") -> list[Suggestion]:
        """Inside quotes: keys and values of options, jobs."""
        tokens = tokens_of(head)
        if not tokens:
            return []
        first, last = tokens[0].upper, tokens[-1].upper
        size = len(typed)

        def quoted(texts: Iterable[tuple[str, str]]) -> list[Suggestion]:
            made = [Suggestion(f"{opening}{text}'", size, "option", about, text) for text, about in texts]
            return [s for s in made if s.shown.lower().startswith(typed.lower())] or [
                s for s in made if typed and typed.lower() in s.shown.lower()
            ]

        if last == "JOB":
            jobs = self._session.jobs.jobs.values()
            return quoted((j.id, f"{j.job.status.lower()}: {' '.join(j.statement.split())[:60]}") for j in jobs)
        if last == "=" and len(tokens) > 1 and tokens[-2].kind is STRING:
            return quoted(self._option_values(tokens[-2].value, first, tokens))
        if first in ("SET", "RESET") and len(tokens) == 1:
            return quoted((key, _about_option(o)) for key, o in sorted(SESSION_OPTIONS.items()))
        words = [t.upper for t in tokens]
        if last in ("(", ",") and ("WITH" in words or "SET" in words or "OPTIONS" in words) and first != "SELECT":
            if "CATALOG" in words:
                return quoted(self._catalog_options(_given_options(tokens)))
            given = _given_options(tokens)
            return quoted((k, a) for k, a in self._table_options(given) if k not in given)
        return []

    def _table_options(self, given: dict[str, str]) -> Iterator[tuple[str, str]]:
        """The options that a table with some options given takes."""
        registry = self._session.registry
        yield "connector", "where the rows are: " + ", ".join(registry.connectors.names())
        if "connector" not in given:
            yield "changelog-mode", "of a table in memory: 'append' or 'retract'"
            return
        try:
            for option in registry.connectors.get(given["connector"]).options:
                yield option.key, _about_option(option)
            if "format" in given:
                for option in registry.formats.get(given["format"]).options:
                    yield f"{given['format']}.{option.key}", _about_option(option)
        except SqlEngineError:
            pass  # it is not there, which CREATE TABLE will say
        for option in (*SOURCE_OPTIONS, *WATERMARK_OPTIONS, *LOOKUP_OPTIONS):
            yield option.key, _about_option(option)

    def _catalog_options(self, given: dict[str, str]) -> Iterator[tuple[str, str]]:
        """The options that a catalog with some options given takes."""
        kind = given.get("type")
        if kind is None:
            yield "type", "where definitions are kept"
        elif kind == "file":
            yield "path", "the file"
        elif kind in self._session.registry.catalogs.names():
            options = self._session.registry.catalogs.get(kind).options
            yield from ((option.key, _about_option(option)) for option in options if option.key not in given)

    def _option_values(self, key: str, first: str, tokens: list[Token]) -> Iterator[tuple[str, str]]:
        registry = self._session.registry
        option: Option[object] | None = SESSION_OPTIONS.get(key) if first in ("SET", "RESET") else None
        if first not in ("SET", "RESET"):
            if key == "connector":
                yield from ((n, registry.connectors.get(n).document) for n in registry.connectors.names())
                return
            if key == "format":
                yield from ((n, registry.formats.get(n).document) for n in registry.formats.names())
                return
            if key == "type" and tokens[1].upper == "CATALOG":
                yield from (
                    ("file", "definitions are kept in a file"),
                    ("generic_in_memory", "definitions are forgotten"),
                )
                yield from ((n, registry.catalogs.get(n).document) for n in registry.catalogs.names())
                return
            option = self._declared(key, _given_options(tokens))
        if option is not None:
            choices = option.choices or (("true", "false") if isinstance(option.default, bool) else ())
            yield from ((choice, option.description) for choice in choices)

    def _declared(self, key: str, given: dict[str, str]) -> Option[Any] | None:
        try:
            of_connector = self._session.registry.connectors.get(given.get("connector", "")).options
            options = [*of_connector, *SOURCE_OPTIONS, *WATERMARK_OPTIONS, *LOOKUP_OPTIONS]
        except SqlEngineError:
            return None
        return next((o for o in options if o.key == key), None)

    # --- commands
    # --------------------------------------------------------------------------------------------------------

    def _of_command(self, line: str) -> list[Suggestion]:
        name, space, argument = line.partition(" ")
        if not space:
            return [
                Suggestion(key, len(name), "command", c.about, c.usage)
                for key, c in COMMANDS.items()
                if key.startswith(name)
            ]
        size = len(argument)
        choices: list[tuple[str, str]] = []
        if name in ("\\d", "\\dt", "\\dv", "\\dm"):
            choices = [(_written(o.path.name), _about(o)) for o in self._session.catalogs.seen_objects()]
        elif name == "\\df":
            choices = [(f.name.lower(), f.document) for f in self._session.functions if is_called_by_name(f)]
        elif name == "\\mode":
            choices = [("table", ""), ("changelog", ""), ("tableau", "")]
        elif name in ("\\x", "\\timing"):
            choices = [("on", ""), ("off", ""), *([("auto", "")] if name == "\\x" else [])]
        elif name in ("\\h", "\\?"):
            choices = [(key, "") for key in STATEMENTS]
        elif name in ("\\i", "\\o"):
            choices = _paths(argument)
        return [
            Suggestion(text, size, "name", about, text)
            for text, about in sorted(choices)
            if text.lower().startswith(argument.lower())
        ]


def _paths(typed: str) -> list[tuple[str, str]]:
    """Files and folders whose path begins so; hidden ones when a dot is typed."""
    folder, slash, name = typed.rpartition("/")
    try:
        found = sorted(Path((folder + slash) or ".").expanduser().iterdir())
    except OSError:
        return []
    shown = [p for p in found if p.name.startswith(name) and (name.startswith(".") or not p.name.startswith("."))]
    return [
        (f"{folder}{slash}{p.name}" + ("/" if p.is_dir() else ""), "folder" if p.is_dir() else "file")
        for p in shown[:PATHS_SHOWN]
    ]


_SYSTEM_DATABASES = {"system": "what the engine knows of itself", "information_schema": "what the catalog holds"}
_SYSTEM_TABLES: dict[str, dict[str, str]] = {
    "system": {
        "rejected": "rows that could not be used",
        "jobs": "jobs of statements and of views",
        "operators": "operators of jobs: rows, state, time",
        "checkpoints": "checkpoints of jobs",
        "state": "the state tables there are",
    },
    "information_schema": {
        "schemata": "databases",
        "tables": "tables and views",
        "columns": "their columns",
        "views": "views and their queries",
        "key_column_usage": "columns of primary keys",
        "table_options": "options of tables",
        "routines": "functions",
    },
}


def _about(thing: CatalogTable | CatalogView | MaterializedView) -> str:
    kind = (
        thing.kind
        if isinstance(thing, MaterializedView)
        else "view"
        if isinstance(thing, CatalogView)
        else f"table ({thing.connector or 'in memory'})"
    )
    return f"{kind}: {thing.comment}" if thing.comment else kind


def _about_option(option: Option[Any]) -> str:
    default = str(option.default).lower() if isinstance(option.default, bool) else str(option.default)
    return option.description + (f" [{default}]" if default else "")


def _written(name: str) -> str:
    """A name as it stands in SQL: in back-ticks where it must."""
    plain = name.isidentifier() and name.upper() not in RESERVED
    return name if plain else "`" + name.replace("`", "``") + "`"


def _statement_before(text: str) -> tuple[int, list[Token]]:
    """Where the statement at the end of a text begins, and its tokens."""
    tokens = tokens_of(text)
    last = max((i for i, t in enumerate(tokens) if t.kind is OP and t.upper == ";"), default=None)
    if last is None:
        return 0, tokens
    return tokens[last].end, tokens[last + 1 :]


def _open_text(text: str) -> int | None:
    """Where a text in quotes begins that is not closed."""
    tokens = tokens_of(text)
    end = tokens[-1].end if tokens else 0
    place = text.find("'", end)
    return place if place >= 0 and not text[end:place].strip() else None


def _word_before(text: str) -> str:
    """The word, or name in back-ticks, that is being typed at the end of a text."""
    if text.count("`") % 2:
        return text[text.rindex("`") :]
    size = 0
    while size < len(text) and (text[-1 - size].isalnum() or text[-1 - size] in "_$"):
        size += 1
    return text[len(text) - size :]


def _qualifier(tokens: list[Token]) -> tuple[str, ...]:
    """The names before a dot at the end."""
    parts: list[str] = []
    i = len(tokens)
    while i >= 2 and tokens[i - 1].upper == "." and tokens[i - 2].kind in (WORD, QUOTED):
        parts.insert(0, tokens[i - 2].value)
        i -= 2
    return tuple(parts)


def _in_lower_case(tokens: list[Token], prefix: str) -> bool:
    """Whether keywords are typed in lower case here."""
    if prefix:
        return prefix.islower()
    words = [t.text for t in tokens if t.kind is WORD and t.upper in RESERVED]
    return bool(words) and words[-1].islower()


def _in_column_list(tokens: list[Token]) -> bool:
    """INSERT INTO t (.. and UPDATE t SET ..."""
    words = [t.upper for t in tokens]
    if words[:1] == ["UPDATE"]:
        return words[-1] == "SET" or (words[-1] == "," and "SET" in words and "WHERE" not in words)
    return words[:1] == ["INSERT"] and "(" in words and ")" not in words and words[-1] in ("(", ",")


def _declared_columns(tokens: list[Token], size: int) -> Iterator[Suggestion]:
    """The columns that a CREATE TABLE has named so far."""
    depth = 0
    for token, following in itertools.pairwise(tokens):
        depth += (token.upper == "(") - (token.upper == ")")
        if depth == 1 and token.upper in ("(", ",") and following.kind in (WORD, QUOTED):
            if following.upper not in ("WATERMARK", "PRIMARY", "CONSTRAINT"):
                yield Suggestion(_written(following.value), size, "column", "of this table", following.value)


def _given_options(tokens: list[Token]) -> dict[str, str]:
    """The options in the text so far."""
    return {
        key.value: value.value
        for key, equals, value in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if key.kind is STRING and equals.upper == "=" and value.kind is STRING
    }


def _ranked(found: list[Suggestion], prefix: str) -> list[Suggestion]:
    """Those that begin with what was typed, then names in which a word begins with it; each once."""
    typed = prefix.lower()
    begin = [s for s in found if s.text.lstrip("`").lower().startswith(typed)]
    inside = [s for s in found if len(typed) > 1 and s.kind != "keyword" and f"_{typed}" in s.text.lower()]
    return list({(s.text, s.kind): s for s in (*begin, *inside)}.values())
