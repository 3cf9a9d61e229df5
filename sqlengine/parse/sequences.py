"""CREATE, ALTER and DROP SEQUENCE: clauses in any order, as PostgreSQL takes them."""

from __future__ import annotations

from sqlengine.parse.column_rules import whole_number
from sqlengine.parse.ddl_nodes import ObjectName, RenameTo, Statement
from sqlengine.parse.lexer import END
from sqlengine.parse.session_nodes import AlterSequence, CreateSequence, DropSequence, SequenceOption
from sqlengine.parse.table_definitions import TableGrammar

__all__ = ["read_sequence_statement"]

_NAME = "the name of the sequence"
_CLAUSES = ("AS", "START", "INCREMENT", "MINVALUE", "MAXVALUE", "NO", "CACHE", "CYCLE", "OWNED")


def read_sequence_statement(grammar: TableGrammar) -> Statement:
    """A statement that begins with CREATE, ALTER or DROP SEQUENCE."""
    verb = grammar.expect_any("CREATE", "ALTER", "DROP")
    start = grammar.token
    if grammar.match("TEMPORARY"):
        grammar.refuse("a sequence cannot be temporary", start, f"{verb} SEQUENCE")
    grammar.expect("SEQUENCE")
    if verb == "CREATE":
        if_not_exists = grammar.match("IF", "NOT", "EXISTS")
        return CreateSequence(grammar.object_name(_NAME), _options(grammar, _CLAUSES), if_not_exists)
    if_exists = grammar.match("IF", "EXISTS")
    names = [grammar.object_name(_NAME)]
    if verb == "DROP":
        while grammar.match(","):
            names.append(grammar.object_name(_NAME))
        return DropSequence(tuple(names), if_exists, grammar.match_any("CASCADE", "RESTRICT") == "CASCADE")
    if grammar.match("RENAME"):
        grammar.expect("TO")
        return AlterSequence(names[0], RenameTo(grammar.object_name("the new name")), if_exists)
    options = _options(grammar, (*_CLAUSES, "RESTART"))
    if not options:
        grammar.fail(*_CLAUSES, "RESTART", "RENAME TO")
    return AlterSequence(names[0], options, if_exists)


def _options(grammar: TableGrammar, words: tuple[str, ...]) -> tuple[SequenceOption, ...]:
    found: dict[str, SequenceOption] = {}
    while grammar.token.kind is not END and not grammar.at(";"):
        start = grammar.token
        option = _option(grammar, grammar.expect_any(*words))
        if option.word in found:
            grammar.refuse(f"{option.word} stands twice", start, "keep one of them")
        found[option.word] = option
    return tuple(found.values())


def _option(grammar: TableGrammar, word: str) -> SequenceOption:
    match word:
        case "AS":
            start = grammar.token
            type_ = grammar.data_type()
            if not type_.is_integer:
                grammar.refuse("a sequence has whole numbers", start, "AS SMALLINT, INT or BIGINT")
            return SequenceOption(word, type_)
        case "START":
            grammar.match("WITH")
        case "INCREMENT":
            grammar.match("BY")
        case "RESTART":
            if not grammar.match("WITH") and (grammar.token.kind is END or grammar.at_any(";", *_CLAUSES)):
                return SequenceOption(word, None)
        case "NO":
            said = grammar.expect_any("MINVALUE", "MAXVALUE", "CYCLE")
            return SequenceOption(said, False if said == "CYCLE" else None)
        case "CYCLE":
            return SequenceOption(word, True)
        case "OWNED":
            grammar.expect("BY")
            return SequenceOption("OWNED BY", None if grammar.match("NONE") else _column(grammar))
        case _:
            pass
    start = grammar.token
    number = whole_number(grammar)
    if word == "INCREMENT" and number == 0:
        grammar.refuse("INCREMENT BY 0 numbers nothing", start, "INCREMENT BY 1")
    return SequenceOption(word, number)


def _column(grammar: TableGrammar) -> ObjectName:
    start = grammar.token
    column = grammar.object_name("a column: table.column")
    if len(column.parts) < 2:
        grammar.refuse("a sequence is owned by a column", start, "OWNED BY table.column, or OWNED BY NONE")
    return column
