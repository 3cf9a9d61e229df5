"""Statements without queries and expressions, by the grammar in `statements.lark`.

The tokens of `lexer` are fed to lark's LALR machine one by one: the machine says what it can take next, and a word is
the keyword if the machine can take it and a name otherwise. lark is imported and its tables are built only when the
first such statement is met (about 60 ms), because a script of queries needs neither.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING, Any, NoReturn

from sqlglot import exp

from runtime.core.errors import Span, did_you_mean
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import statement_nodes as nodes
from sqlengine.parse.cursor import Cursor
from sqlengine.parse.lexer import END, NUMBER, QUOTED, STRING, UNICODE, WORD, Token
from sqlengine.parse.nodes import FILE_DATABASE

if TYPE_CHECKING:
    from lark import Lark

__all__ = ["UTILITY_WORDS", "grammar_rules", "read_utility"]

UTILITY_WORDS = frozenset(
    (
        "ADD",
        "ALTER",
        "ANALYZE",
        "BACKUP",
        "BEGIN",
        "COMMIT",
        "CREATE",
        "DESC",
        "DESCRIBE",
        "DROP",
        "END",
        "EXECUTE",
        "FLUSH",
        "LOAD",
        "REMOVE",
        "RESET",
        "RESTORE",
        "ROLLBACK",
        "SET",
        "SHOW",
        "START",
        "STOP",
        "SUBSCRIBE",
        "TRUNCATE",
        "UNLOAD",
        "USE",
    )
)
"""The first words of the statements that are read here."""

_MARKS = {"(": "LPAR", ")": "RPAR", ",": "COMMA", "=": "EQUAL", ".": "DOT"}
_SPOKEN = {
    "NAME": "a name",
    "STRING": "a text in single quotes",
    "NUMBER": "a number",
    "$END": "the end of the statement",
    **{terminal: mark for mark, terminal in _MARKS.items()},
}


def read_utility(cursor: Cursor) -> nodes.Statement:
    """The statement at the current place, up to a semicolon or the end; its own span is not set yet.

    Raises:
        SqlSyntaxError: a word does not fit.
    """
    from lark import Token as Leaf  # lark costs tens of milliseconds, which a script of queries need not pay

    machine = _grammar().parse_interactive()
    while True:
        token = cursor.token
        choices = machine.choices()
        if token.kind is END or token.upper == ";":
            cursor.offered(lambda machine=machine: machine.accepts())
            # A state may stand for the ends of several rules, of which only some may end here.
            if "$END" not in choices or "$END" not in machine.accepts():
                _fail(cursor, machine.accepts())
            return _Builder(cursor).build(machine.feed_eof().children[0])
        terminal = _terminal(cursor, token, choices)
        # A word that ends a rule elsewhere is among the choices, though nothing here takes it.
        if terminal is None or not _fits(machine, Leaf(terminal, token.text)):
            _fail(cursor, machine.accepts())
        value = cursor.string() if terminal == "STRING" else cursor.advance()
        machine.feed_token(Leaf(terminal, value.value, start_pos=value.start, end_pos=value.end))


def _fits(machine: Any, leaf: Any) -> bool:
    """Whether the grammar takes a token here."""
    from lark import UnexpectedInput

    try:
        machine.copy().feed_token(leaf)
    except UnexpectedInput:
        return False
    return True


def _terminal(cursor: Cursor, token: Token, choices: Any) -> str | None:
    """What a token is for the grammar here, or None if it fits nothing."""
    if token.kind is WORD:
        last = not cursor.unfinished and (cursor.peek().kind is END or cursor.peek().upper == ";")
        if token.upper in choices and not (last and "NAME" in choices):
            return token.upper
        return "NAME" if "NAME" in choices else None
    if token.kind is QUOTED:
        terminal = "NAME"
    elif token.kind is STRING or token.kind is UNICODE:
        terminal = "STRING"
    else:
        terminal = "NUMBER" if token.kind is NUMBER else _MARKS.get(token.upper)
    return terminal if terminal in choices else None


def _fail(cursor: Cursor, accepted: set[str]) -> NoReturn:
    expected = sorted(_SPOKEN.get(terminal, terminal) for terminal in accepted)
    hint = None
    if cursor.token.kind is WORD:
        words = [terminal for terminal in accepted if terminal not in _SPOKEN]
        near = did_you_mean(cursor.token.text, words) if words else None
        hint = near if near and near.startswith("did you mean") else None
    if "STRING" in accepted and cursor.previous.upper in ("SET", "RESET", "="):
        hint = "keys and values stand in single quotes, as in SET 'key' = 'value'"
    cursor.fail(*(expected if len(expected) <= 12 else [*expected[:12], "others"]), hint=hint)


@functools.cache
def _grammar() -> Lark:
    from lark import Lark
    from lark.lexer import Lexer

    class Fed(Lexer):
        """No lexer: the tokens are fed by hand."""

        def __init__(self, _conf: Any) -> None:
            super().__init__()

        def lex(self, lexer_state: Any, parser_state: Any) -> Any:
            return iter(())

    text = resources.files("sqlengine.parse").joinpath("statements.lark").read_text("utf-8")
    return Lark(text, parser="lalr", lexer=Fed, maybe_placeholders=True)


def grammar_rules() -> dict[str, list[list[str]]]:
    """The rules of the grammar: the names of the rules and terminals that each may consist of, in order."""
    rules: dict[str, list[list[str]]] = {}
    for rule in _grammar().rules:
        rules.setdefault(rule.origin.name, []).append([symbol.name for symbol in rule.expansion])
    return rules


def _span(leaf: Any) -> Span:
    return Span(leaf.start_pos, leaf.end_pos)


def _upper(tree: Any) -> str:
    """The words of a rule that keeps them."""
    return " ".join(str(leaf).upper() for leaf in tree.children)


class _Builder:
    """Statements from the trees of the grammar: one method for each rule, named like it."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor

    def build(self, tree: Any) -> Any:
        """What a tree stands for; None stays None."""
        return None if tree is None else getattr(self, tree.data)(*tree.children)

    def all(self, trees: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self.build(tree) for tree in trees if tree is not None)

    # Parts

    def name(self, leaf: Any) -> ddl.Name:
        return ddl.Name(str(leaf), _span(leaf))

    def object(self, *leaves: Any) -> ddl.ObjectName:
        span = Span(leaves[0].start_pos, leaves[-1].end_pos)
        # system.state.job.operator.table
        if len(leaves) > 3 and not (str(leaves[0]) == "system" and len(leaves) == 5):
            self.cursor.refuse("a name has at most three parts", span, "catalog.database.name")
        return ddl.ObjectName(tuple(map(str, leaves)), span, tuple(map(_span, leaves)))

    def option(self, key: Any, value: Any) -> ddl.Option:
        return ddl.Option(str(key), str(value), Span(key.start_pos, value.end_pos), _span(key), _span(value))

    def options(self, *options: Any) -> tuple[ddl.Option, ...]:
        return self.all(options)

    def with_options(self, options: Any) -> tuple[ddl.Option, ...]:
        return self.build(options)

    def comment(self, leaf: Any) -> str:
        return str(leaf)

    def like(self, *leaves: Any) -> nodes.LikePattern:
        words = [str(leaf).upper() for leaf in leaves[:-1]]
        return nodes.LikePattern(str(leaves[-1]), "NOT" in words, "ILIKE" in words)

    def partition(self, *values: Any) -> ddl.PartitionSpec:
        found = self.all(values)
        return ddl.PartitionSpec(found, Span(found[0][0].span.start, self.cursor.previous.end))

    def partition_value(self, leaf: Any, value: Any) -> tuple[ddl.Name, ddl.ExpressionText | None]:
        name = ddl.Name(str(leaf), _span(leaf))
        if value is None:
            return name, None
        span = _span(value)
        literal = exp.Literal(this=str(value), is_string=value.type != "NUMBER")
        literal.meta.update(start=span.start, end=span.end - 1)
        return name, ddl.ExpressionText(literal, self.cursor.slice(span), span)

    def in_database(self, tree: Any) -> ddl.ObjectName:
        return self.build(tree)

    # SHOW and DESCRIBE

    def show_list(self, kind: Any, like: Any) -> nodes.Show:
        return nodes.Show(_upper(kind), like=self.build(like))

    def show_in_database(self, kind: Any, where: Any, like: Any) -> nodes.Show:
        return nodes.Show(_upper(kind), self.build(where), self.build(like))

    def show_functions(self, user: Any, where: Any, like: Any) -> nodes.Show:
        return nodes.Show("FUNCTIONS", self.build(where), self.build(like), user=user is not None)

    def show_full_modules(self) -> nodes.Show:
        return nodes.Show("MODULES", full=True)

    def show_grants(self, role: Any) -> nodes.Show:
        found = self.build(role)
        return nodes.Show("GRANTS", None if found is None else ddl.ObjectName((found.text,), found.span))

    def show_current(self, kind: Any) -> nodes.Show:
        return nodes.Show(f"CURRENT {_upper(kind)}")

    def show_create(self, kind: Any, name: Any) -> nodes.Show:
        return nodes.Show(f"CREATE {_upper(kind)}", self.build(name))

    def show_create_or_alter(self, name: Any) -> nodes.Show:
        return nodes.Show("CREATE OR ALTER MATERIALIZED TABLE", self.build(name))

    def show_columns(self, where: Any, like: Any) -> nodes.Show:
        return nodes.Show("COLUMNS", self.build(where), self.build(like))

    def show_partitions(self, name: Any, partition: Any) -> nodes.Show:
        return nodes.Show("PARTITIONS", self.build(name), partition=self.build(partition))

    def describe(self, kind: Any, extended: Any, name: Any) -> nodes.Describe:
        return nodes.Describe(_upper(kind) if kind else "TABLE", self.build(name), extended is not None)

    def describe_file(self, leaf: Any) -> nodes.Describe:
        return nodes.Describe(
            "TABLE", ddl.ObjectName((FILE_DATABASE, str(leaf)), _span(leaf), (_span(leaf), _span(leaf))), False
        )

    def describe_job(self, leaf: Any) -> nodes.Describe:
        return nodes.Describe("JOB", ddl.ObjectName((str(leaf),), _span(leaf), (_span(leaf),)))

    # Session

    def use_catalog(self, name: Any) -> nodes.UseCatalog:
        return nodes.UseCatalog(self.build(name))

    def use_modules(self, *names: Any) -> nodes.UseModules:
        return nodes.UseModules(self.all(names))

    def use_database(self, name: Any) -> nodes.UseDatabase:
        return nodes.UseDatabase(self.build(name))

    def set_option(self, option: Any) -> nodes.Set:
        return nodes.Set(self.build(option))

    def reset_option(self, leaf: Any) -> nodes.Reset:
        return nodes.Reset(None if leaf is None else self.name(leaf))

    def load_module(self, name: Any, options: Any) -> nodes.LoadModule:
        return nodes.LoadModule(self.build(name), self.build(options) or ())

    def unload_module(self, name: Any) -> nodes.UnloadModule:
        return nodes.UnloadModule(self.build(name))

    # Jobs, epochs, rows

    def stop_job(self, leaf: Any, *modes: Any) -> nodes.StopJob:
        words = {str(mode.children[-1]).upper() for mode in modes}
        return nodes.StopJob(self.name(leaf), "SAVEPOINT" in words, "DRAIN" in words)

    def create_savepoint(self, path: Any, leaf: Any) -> nodes.CreateSavepoint:
        return nodes.CreateSavepoint(self.name(leaf), None if path is None else self.name(path))

    def backup(self, path: Any) -> nodes.Backup:
        return nodes.Backup(self.name(path))

    def restore(self, path: Any) -> nodes.Restore:
        return nodes.Restore(self.name(path))

    def execute_plan(self, if_exists: Any, leaf: Any) -> nodes.ExecutePlan:
        return nodes.ExecutePlan(str(leaf), if_exists is not None)

    def add_jar(self, leaf: Any) -> nodes.AddJar:
        return nodes.AddJar(str(leaf))

    def remove_jar(self, leaf: Any) -> nodes.RemoveJar:
        return nodes.RemoveJar(str(leaf))

    def truncate(self, name: Any) -> nodes.Truncate:
        return nodes.Truncate(self.build(name))

    def analyze(self, name: Any, partition: Any, columns: Any) -> nodes.AnalyzeTable:
        chosen = () if columns is None else self.all(tuple(columns.children))
        every = columns is not None and not chosen
        return nodes.AnalyzeTable(self.build(name), self.build(partition), chosen, every)

    def begin_epoch(self) -> nodes.BeginEpoch:
        return nodes.BeginEpoch()

    def end_epoch(self) -> nodes.EndEpoch:
        return nodes.EndEpoch()

    def rollback_epoch(self) -> nodes.RollbackEpoch:
        return nodes.RollbackEpoch()

    def flush(self) -> nodes.Flush:
        return nodes.Flush()

    def subscribe(self, name: Any) -> nodes.Subscribe:
        return nodes.Subscribe(self.build(name))

    # Definitions

    def create_database(self, absent: Any, name: Any, comment: Any, options: Any) -> nodes.CreateDatabase:
        return nodes.CreateDatabase(
            self.build(name), self.build(comment), self.build(options) or (), absent is not None
        )

    def create_catalog(self, absent: Any, name: Any, comment: Any, options: Any) -> nodes.CreateCatalog:
        return nodes.CreateCatalog(self.build(name), self.build(comment), self.build(options) or (), absent is not None)

    def create_function(self, temporary: Any, absent: Any, name: Any, body: Any, options: Any) -> nodes.CreateFunction:
        identifier, language, files = body.children
        return nodes.CreateFunction(
            self.build(name),
            str(identifier),
            self.build(language),
            self.build(files) or (),
            self.build(options) or (),
            temporary is not None,
            _system(temporary),
            absent is not None,
            _span(identifier),
        )

    def language(self, leaf: Any) -> str:
        return str(leaf).upper()

    def resources(self, *leaves: Any) -> tuple[str, ...]:
        return tuple(map(str, leaves))

    def alter_database(self, name: Any, action: Any) -> ddl.AlterDatabase:
        return ddl.AlterDatabase(self.build(name), self.build(action))

    def alter_catalog(self, name: Any, action: Any) -> ddl.AlterCatalog:
        built = self.build(action)
        return ddl.AlterCatalog(self.build(name), ddl.SetComment(built) if isinstance(built, str) else built)

    def alter_function(
        self, temporary: Any, if_exists: Any, name: Any, identifier: Any, language: Any
    ) -> nodes.AlterFunction:
        return nodes.AlterFunction(
            self.build(name),
            str(identifier),
            self.build(language),
            temporary is not None,
            _system(temporary),
            if_exists is not None,
        )

    def alter_model(self, if_exists: Any, name: Any, action: Any) -> nodes.AlterModel:
        return nodes.AlterModel(self.build(name), self.build(action), if_exists is not None)

    def alter_connection(self, if_exists: Any, name: Any, action: Any) -> nodes.AlterConnection:
        return nodes.AlterConnection(self.build(name), self.build(action), if_exists is not None)

    def create_connection(
        self, temporary: Any, absent: Any, name: Any, comment: Any, options: Any
    ) -> nodes.CreateConnection:
        return nodes.CreateConnection(
            self.build(name), self.build(comment), self.build(options), temporary is not None, absent is not None
        )

    def create_procedure(
        self, temporary: Any, absent: Any, name: Any, identifier: Any, language: Any
    ) -> nodes.CreateProcedure:
        return nodes.CreateProcedure(
            self.build(name), self.name(identifier), self.build(language), temporary is not None, absent is not None
        )

    def drop_procedure(self, temporary: Any, if_exists: Any, name: Any) -> nodes.DropProcedure:
        return nodes.DropProcedure(self.build(name), temporary is not None, if_exists is not None)

    def rename(self, name: Any) -> ddl.RenameTo:
        return ddl.RenameTo(self.build(name))

    def set_options(self, options: Any) -> ddl.SetOptions:
        return ddl.SetOptions(self.build(options))

    def reset_options(self, *leaves: Any) -> ddl.ResetOptions:
        return ddl.ResetOptions(tuple(self.name(leaf) for leaf in leaves))

    def drop_table(self, temporary: Any, if_exists: Any, name: Any) -> nodes.DropTable:
        return nodes.DropTable(self.build(name), temporary is not None, if_exists is not None)

    def drop_view(self, temporary: Any, if_exists: Any, name: Any) -> nodes.DropView:
        return nodes.DropView(self.build(name), temporary is not None, if_exists is not None)

    def drop_materialized_view(self, if_exists: Any, name: Any) -> nodes.DropMaterializedView:
        return nodes.DropMaterializedView(self.build(name), if_exists is not None)

    def drop_materialized_table(self, if_exists: Any, name: Any) -> nodes.DropMaterializedView:
        return nodes.DropMaterializedView(self.build(name), if_exists is not None, table=True)

    def drop_database(self, if_exists: Any, name: Any, behaviour: Any) -> nodes.DropDatabase:
        cascade = behaviour is not None and _upper(behaviour) == "CASCADE"
        return nodes.DropDatabase(self.build(name), if_exists is not None, cascade)

    def drop_catalog(self, if_exists: Any, name: Any) -> nodes.DropCatalog:
        return nodes.DropCatalog(self.build(name), if_exists is not None)

    def drop_function(self, temporary: Any, if_exists: Any, name: Any) -> nodes.DropFunction:
        return nodes.DropFunction(self.build(name), temporary is not None, _system(temporary), if_exists is not None)

    def drop_model(self, temporary: Any, if_exists: Any, name: Any) -> nodes.DropModel:
        return nodes.DropModel(self.build(name), temporary is not None, if_exists is not None)

    def drop_connection(self, temporary: Any, if_exists: Any, name: Any) -> nodes.DropConnection:
        return nodes.DropConnection(self.build(name), temporary is not None, if_exists is not None)


def _system(temporary: Any) -> bool:
    return temporary is not None and len(temporary.children) == 2
