"""Scripts and statements: what each statement is, by its first words, and where one ends and the next begins.

A script is read with one scan; its statements are separated by semicolons, and those inside EXECUTE STATEMENT SET ..
END belong to the set. Statements with queries or expressions in them are read here, definitions of tables by
`table_definitions`, and the rest by the grammar of `utility`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from sqlglot import exp

from runtime.core.errors import Span, did_you_mean
from runtime.core.rooms import Room
from sqlengine.parse.ddl_nodes import AlterView, CreateTable, Name, NewQuery, RenameTo, Statement
from sqlengine.parse.lexer import END, WORD, Token, scan
from sqlengine.parse.materialized import MaterializedGrammar
from sqlengine.parse.statement_nodes import (
    Call,
    CompilePlan,
    CreateMaterializedView,
    CreateView,
    Delete,
    ExecutePlan,
    Explain,
    Insert,
    QueryStatement,
    StatementSet,
    Update,
)
from sqlengine.parse.utility import UTILITY_WORDS, read_utility

if TYPE_CHECKING:
    import sqlengine.parse.column_rules as _rules
    import sqlengine.parse.habits as _habits
    import sqlengine.parse.joined_changes as _joined
    import sqlengine.parse.model_definitions as _models
    import sqlengine.parse.parameters as _parameters
    import sqlengine.parse.prepared_statements as _prepared
    import sqlengine.parse.role_statements as _roles
    import sqlengine.parse.sequences as _sequences
else:
    _joined = Room("sqlengine.parse.joined_changes")
    _rules = Room("sqlengine.parse.column_rules")
    _habits = Room("sqlengine.parse.habits")
    _models = Room("sqlengine.parse.model_definitions")
    _parameters = Room("sqlengine.parse.parameters")
    _prepared = Room("sqlengine.parse.prepared_statements")
    _roles = Room("sqlengine.parse.role_statements")
    _sequences = Room("sqlengine.parse.sequences")

__all__ = [
    "MADE",
    "STARTERS",
    "parse_expression",
    "parse_plain",
    "parse_query",
    "parse_script",
    "parse_statement",
    "statement_spans",
]


_S = TypeVar("_S", bound=Statement)

_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "PLAN_ADVICE", "JSON_EXECUTION_PLAN", "STATE", "RESTORE", "ANALYZE")
_QUERY_WORDS = ("SELECT", "WITH", "VALUES")
STARTERS = (
    *_QUERY_WORDS,
    "INSERT",
    "UPDATE",
    "DELETE",
    "REPLACE",
    "EXPLAIN",
    "COMPILE",
    "CALL",
    "DEALLOCATE",
    "GRANT",
    "PREPARE",
    "REVOKE",
    *sorted(UTILITY_WORDS),
)
MADE = (
    "TABLE",
    "VIEW",
    "MATERIALIZED VIEW",
    "DATABASE",
    "CATALOG",
    "FUNCTION",
    "PROCEDURE",
    "MODEL",
    "CONNECTION",
    "SEQUENCE",
    "SAVEPOINT",
    "ROLE",
    "USER",
    "TOKEN",
    "SECRET",
)
"""What CREATE makes."""
_BEFORE_TABLE = ("FROM", "JOIN", "INTO", "TABLE", "UPDATE")
_CLAUSES = (
    "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "FETCH", "JOIN", "LEFT",
    "RIGHT", "FULL", "INNER", "CROSS", "UNION", "EXCEPT", "INTERSECT", "AS", "ON", "USING", "AND", "OR", "WITH",
    "COMMENT", "PARTITIONED", "DISTRIBUTED", "LIKE", "BETWEEN",
)  # fmt: skip


class StatementGrammar(MaterializedGrammar):
    """Reads statements."""

    database_is = "database"
    """What GRANT means by DATABASE."""

    def statement(self) -> Statement:
        """One statement, up to its semicolon or the end."""
        start = self.token
        try:
            return self._finish(self._statement(), start)
        except RecursionError:
            self.refuse("the statement is nested too deeply", start.span)

    def _finish(self, statement: _S, start: Token) -> _S:
        span = self.span_from(start)
        if self.has_parameters:
            _parameters.number_marks(statement)
        return statement.with_(span=span, text=self.slice(span))

    def _statement(self) -> Statement:
        match self.token.upper:
            case "INSERT":
                return self._insert()
            case "EXECUTE" if self.peek().upper != "PLAN":
                return self._execute()
            case "BEGIN" if self.peek().upper == "STATEMENT":
                self.expect("BEGIN", "STATEMENT", "SET", ";")
                return self._set_body()
            case "UPDATE":
                return self._update()
            case "DELETE":
                return self._delete()
            case "CREATE" | "ALTER" | "DROP" if self.peek(1 + (self.peek().upper == "TEMPORARY")).upper == "SEQUENCE":
                return _sequences.read_sequence_statement(self)
            case "CREATE" | "REPLACE":
                return self._create()
            case "ALTER" if self.peek().upper in ("TABLE", "VIEW", "MATERIALIZED"):
                return self._alter()
            case "ALTER" if self._at_role("ALTER"):
                return _roles.read_alter_role(self)
            case "DROP" if self._at_role("DROP"):
                return _roles.read_drop_role(self)
            case "GRANT" | "REVOKE":
                return _roles.read_grant(self, database_is=self.database_is)
            case "EXPLAIN":
                return self._explain()
            case "COMPILE":
                return self._compile()
            case "CALL":
                return self._call()
            case "PREPARE":
                return _prepared.read_prepare(self, self.statement)
            case "DEALLOCATE":
                return _prepared.read_deallocate(self)
            case "COMMENT":
                return _prepared.read_comment(self)
            case word if word in UTILITY_WORDS:
                return read_utility(self)
        if self.at("WITH") and (insert := self._insert_with()) is not None:
            return insert
        if self.at_query() or self.at("("):
            return QueryStatement(self.query_text())
        if self.token.kind is WORD:
            near = did_you_mean(self.token.text, STARTERS)
            hint = _habits.FOREIGN.get(self.token.upper) or (near if near and near.startswith("did you mean") else None)
            self.refuse(f'no statement starts with "{self.token.text}"', hint=hint)
        self.fail("a statement")

    def _at_role(self, verb: str) -> bool:
        """Steps over the verb of a statement about roles, or tokens."""
        words = ("ROLE", "USER", "SECRET") if verb == "ALTER" else ("ROLE", "USER", "TOKEN", "SECRET")
        return any(self.at(verb, word) for word in words) and self.match(verb)

    # Changes of rows

    def _execute(self) -> Statement:
        self.expect("EXECUTE")
        if self.match("STATEMENT"):
            self.expect("SET", "BEGIN")
            return self._set_body()
        if self.at("INSERT"):
            return self._insert()
        if self.at_query():
            return QueryStatement(self.query_text())
        # Behind another word stands what was meant by it: STATMENT SET.
        if self.at_name() and (self.peek().kind is END or self.peek().upper in ("(", ";")):
            return _prepared.read_execute(self)
        self.fail("STATEMENT SET", "PLAN", "INSERT", "SELECT")

    def _set_body(self) -> StatementSet:
        """The statements of a set, from after its BEGIN up to its END."""
        found: list[Statement] = []
        while not self.at("END"):
            start = self.token
            self.match("EXECUTE")
            if not self.at("INSERT"):
                self.fail("INSERT", "END")
            found.append(self._finish(self._insert(), start))
            if not self.match(";"):
                if self.previous.upper == "END":
                    self.fail("END", hint="every INSERT of a statement set ends with a semicolon")
                self._leftover()
        if not found:
            self.refuse("a statement set needs at least one INSERT")
        self.expect("END")
        return StatementSet(tuple(found))

    def _insert(self) -> Insert:
        self.expect("INSERT")
        overwrite = self.expect_any("INTO", "OVERWRITE") == "OVERWRITE"
        self.match("TABLE")
        table = self.object_name("the name of a table")
        hints = self.option_hints()
        partition = self.partition_spec() if self.at("PARTITION") else None
        columns: tuple[Name, ...] = ()
        if self.at("(") and not self._query_in_parentheses():
            columns = self.names("a column name")
        overriding = self.at("OVERRIDING") and _rules.read_overriding(self)
        defaults = self.at("DEFAULT", "VALUES")
        if defaults:
            query = _rules.read_default_values(self)
        elif self.at_query():
            self.takes_default = self.at("VALUES")
            query = self.query_text()
            self.takes_default = False
        else:
            self.fail("SELECT", "VALUES", "WITH")
        insert = Insert(
            table, query, columns, partition, overwrite, None, hints, overriding=overriding, defaults=defaults
        )
        return self.on_conflict(insert).with_(returning=self.returning())

    def _insert_with(self) -> Insert | None:
        """An INSERT behind WITH; None where another statement stands there."""
        index, start = self.index, self.token
        with_, text = self._with(), self.slice(self.span_from(start))
        if with_ is not None and self.at("INSERT"):
            return _joined.with_tables(self._insert(), with_, text)
        self.back_to(index)
        return None

    def _update(self) -> Update:
        self.expect("UPDATE")
        table = self.object_name("the name of a table")
        alias = None
        if self.match("AS") or (self.at_name() and not self.at("SET")):
            alias = self.name("an alias")
        self.expect("SET")
        assignments = self.assignments()
        relations = _joined.read_relations(self, "FROM") if self.at("FROM") else None
        where = self.expression_text() if self.match("WHERE") else None
        return Update(table, assignments, where, alias, self.returning(), relations)

    def _delete(self) -> Delete:
        self.expect("DELETE", "FROM")
        table = self.object_name("the name of a table")
        alias = self.name("an alias") if self.match("AS") or (not self.at("USING") and self.at_alias()) else None
        relations = _joined.read_relations(self, "USING") if self.at("USING") else None
        where = self.expression_text() if self.match("WHERE") else None
        return Delete(table, where, alias, self.returning(), relations)

    # Definitions

    def _create(self) -> Statement:
        index = self.index
        start = self.token
        if self.match("REPLACE"):
            self.expect("TABLE")
            return self.create_table(temporary=False, create=False, replace=True)
        self.expect("CREATE")
        replace = self.match("OR", "REPLACE")
        temporary = self.match_any("TEMPORARY", "TEMP") is not None
        if replace and not self.at_any("TABLE", "VIEW", "MATERIALIZED"):
            self.fail("TABLE", "VIEW", "MATERIALIZED VIEW")
        if self.match("TABLE"):
            return self.create_table(temporary=temporary, create=True, replace=replace)
        if self.match("VIEW"):
            return self._create_view(temporary=temporary, replace=replace)
        if self.at("MATERIALIZED") or self.at("OR", "ALTER", "MATERIALIZED"):
            if temporary:
                self.refuse("a materialized view cannot be temporary", start)
            return self.create_materialized(replace=replace)
        if not replace and not temporary and self.at_any("ROLE", "USER", "TOKEN", "SECRET"):
            return _roles.read_create_role(self)
        if not replace and self.match("MODEL"):
            return _models.read_create_model(self, temporary=temporary)
        if self.at_any("DATABASE", "SCHEMA", "CATALOG", "FUNCTION", "PROCEDURE", "CONNECTION", "SAVEPOINT", "SYSTEM"):
            self.back_to(index)
            return read_utility(self)
        self.fail(*MADE)

    def _create_view(self, *, temporary: bool, replace: bool) -> CreateView:
        if_not_exists = self.match("IF", "NOT", "EXISTS")
        name = self.object_name("the name of the view")
        columns = self.view_columns()
        comment = self.comment()
        self.expect("AS")
        return CreateView(name, self.query_text(), columns, comment, temporary, if_not_exists, replace)

    def _alter(self) -> Statement:
        start = self.expect("ALTER")
        if self.match("TABLE"):
            return self.alter_table()
        if self.match("VIEW"):
            name = self.object_name("the name of the view")
            if self.match("RENAME"):
                self.expect("TO")
                return AlterView(name, RenameTo(self.object_name("the new name")))
            if not self.match("AS"):
                self.fail("RENAME TO", "AS")
            return AlterView(name, NewQuery(self.query_text()))
        return self.alter_materialized(start)

    # Plans and procedures

    def _explain(self) -> Explain:
        self.expect("EXPLAIN")
        details: list[str] = []
        if not self.match("PLAN", "FOR"):
            wrapped = self.at("(") and self.peek().upper in _DETAILS and self.match("(")
            while self.at_any(*_DETAILS):
                details.append(self.advance().upper)
                if not self.match(","):
                    break
            if wrapped:
                self.expect(")")
        start = self.token
        if start.kind is END or start.upper == ";":
            self.fail("a query or INSERT to explain", *(() if details else _DETAILS))
        if self.match("STATEMENT"):
            self.expect("SET", "BEGIN")
            return Explain(self._finish(self._set_body(), start), tuple(details))
        if start.kind is WORD and start.upper not in STARTERS and not details:
            self.fail("a query", "INSERT", "STATEMENT SET", *_DETAILS)
        inner = self.statement()
        made = isinstance(inner, (CreateTable, CreateMaterializedView, CreateView)) and inner.query is not None
        if not made and not isinstance(inner, (QueryStatement, Insert, StatementSet, ExecutePlan)):
            self.refuse(
                "only queries, INSERT, statement sets, CREATE .. AS and EXECUTE PLAN can be explained",
                start,
                hint="other statements have no plan",
            )
        return Explain(inner, tuple(details))

    def _compile(self) -> CompilePlan:
        self.expect("COMPILE")
        execute = self.match("AND", "EXECUTE")
        self.expect("PLAN")
        path = None
        if execute or not self.at("FOR"):
            path = self.string("a path in single quotes").value
        if_not_exists = path is not None and self.match("IF", "NOT", "EXISTS")
        self.expect("FOR")
        start = self.token
        if self.match("STATEMENT"):
            self.expect("SET", "BEGIN")
            inner: Statement = self._finish(self._set_body(), start)
        else:
            inner = self.statement()
        if not isinstance(inner, (Insert, StatementSet)):
            self.refuse(
                "only INSERT and statement sets can be compiled",
                start,
                hint="a query alone writes nothing: write INSERT INTO t before it, or EXPLAIN (JSON_EXECUTION_PLAN)",
            )
        return CompilePlan(inner, path, if_not_exists, execute)

    def _call(self) -> Call:
        self.expect("CALL")
        name = self.object_name("the name of a procedure")
        self.expect("(")
        found = []
        while not self.match(")"):
            if found:
                self.expect(",")
            found.append(self.argument_text())
        return Call(name, tuple(found))

    # Scripts

    def script(self) -> Iterator[Statement]:
        """The statements up to the end, one at a time."""
        while True:
            while self.match(";"):
                pass
            if self.token.kind is END:
                return
            statement = self.statement()
            if self.token.kind is not END and not self.match(";"):
                self._leftover()
            yield statement

    def _leftover(self) -> None:
        """Complain about what follows a complete statement, most often a misspelt clause before it."""
        token, before = self.token, self.previous
        if token.kind is WORD and token.upper in STARTERS and token.upper != "WITH":
            self.fail(";", hint="statements are separated by semicolons")
        names_table = self.tokens[max(self.index - 2, 0)].upper in _BEFORE_TABLE
        for word in (token,) if names_table else (before, token):
            if word.kind is WORD and word.upper not in _CLAUSES:
                near = difflib.get_close_matches(word.upper, _CLAUSES, n=1, cutoff=0.7)
                if near:
                    self.fail("the end of the statement", hint=f'did you mean "{near[0]}" where it says "{word.text}"?')
        self.fail("the end of the statement")


def parse_plain(text: str) -> list[Statement]:
    """The statements of a script with every constant as a tree of its own, for those who know sqlglot's trees."""
    return list(StatementGrammar(text, scan(text)).script())


def parse_script(text: str) -> list[Statement]:
    """The statements of a script.

    All of it is read before anything is returned, so that a script with a syntax error runs nothing.

    Raises:
        SqlSyntaxError: with the place in `text`.
        UnsupportedError: a statement, type or clause of Flink that this engine does not have.
    """
    return list(StatementGrammar(text).script())


def parse_statement(text: str, grammar: type[StatementGrammar] = StatementGrammar) -> Statement:
    """The one statement of a text, with or without its semicolon."""
    return _only(grammar(text))


def _only(grammar: StatementGrammar) -> Statement:
    statements = grammar.script()
    first = next(statements, None)
    if first is None:
        grammar.fail("a statement")
    while grammar.match(";"):
        pass
    if grammar.token.kind is not END:
        grammar.refuse("there is more than one statement", hint="run several statements as a script")
    return first


def parse_query(text: str, grammar: type[StatementGrammar] = StatementGrammar) -> exp.Expr:
    """The query of a text, every constant as a tree of its own: Select, Values, Union, Except, Intersect or Subquery."""
    statement = _only(grammar(text, grammar.scanner(text)))
    if not isinstance(statement, QueryStatement):
        grammar(text).fail("a query")
    return statement.query.query


def parse_expression(text: str) -> exp.Expr:
    """The expression of a text, for example a condition of the Table API."""
    grammar = StatementGrammar(text, scan(text))
    try:
        tree = grammar.expression()
    except RecursionError:
        grammar.refuse("the expression is nested too deeply", Span(0, len(text)))
    if grammar.token.kind is not END:
        grammar.fail("the end of the expression")
    return tree


def statement_spans(text: str, grammar: type[StatementGrammar] = StatementGrammar) -> list[tuple[Span, bool]]:
    """Where the statements of a text stand, and whether each is closed by a semicolon, without reading them.

    This is what a shell asks to know whether a line ends a statement. Semicolons inside a statement set close nothing.

    Raises:
        SqlSyntaxError: a text, identifier or comment is not closed; the shell then asks for more.
    """
    found: list[tuple[Span, bool]] = []
    start: Token | None = None
    last: Token | None = None
    in_set = False
    tokens = grammar.scanner(text)
    for index, token in enumerate(tokens):
        if token.kind is END or (token.upper == ";" and not in_set):
            if start is not None and last is not None:
                found.append((Span(start.start, last.end), token.kind is not END))
            start = last = None
            continue
        if start is None:
            start = token
        words = tuple(t.upper for t in tokens[max(index - 1, 0) : index + 1])
        if words == ("STATEMENT", "SET"):
            in_set = True
        elif in_set and token.upper == "END" and tokens[index - 1].upper == ";":
            in_set = False
        last = token
    return found
