"""CREATE, ALTER and DROP of roles and tokens, GRANT and REVOKE."""

from __future__ import annotations

from typing import Any

from sqlengine.parse.cursor import Cursor
from sqlengine.parse.ddl_nodes import Name, ObjectName, Statement
from sqlengine.parse.lexer import NUMBER, STRING, WORD
from sqlengine.parse.session_nodes import (
    AlterRole,
    CreateRole,
    CreateSecret,
    CreateToken,
    DropRole,
    DropSecret,
    DropToken,
    Grant,
    GrantRole,
    RoleOptions,
)
from sqlengine.parse.table_definitions import TableGrammar

__all__ = ["ROLE_WORDS", "read_alter_role", "read_create_role", "read_drop_role", "read_grant"]

ROLE_WORDS = ("ROLE", "USER", "TOKEN", "SECRET")
"""Behind CREATE and DROP."""
_KINDS = (
    "TABLE",
    "VIEW",
    "CATALOG",
    "DATABASE",
    "SCHEMA",
    "FUNCTION",
    "PROCEDURE",
    "MODEL",
    "CONNECTION",
    "SEQUENCE",
    "CONNECTOR",
    "PATH",
    "SECRET",
)
_SWITCHES: dict[str, tuple[str, bool]] = {
    "LOGIN": ("login", True),
    "NOLOGIN": ("login", False),
    "SUPERUSER": ("superuser", True),
    "NOSUPERUSER": ("superuser", False),
    "CREATEROLE": ("create_role", True),
    "NOCREATEROLE": ("create_role", False),
}
_LIMITS = {
    "CONNECTION": "connections",
    "ROW": "row_limit",
    "STATEMENT": "statement_limit",
    "MEMORY": "memory_limit",
    "STATE": "state_limit",
}
_COUNTS = ("CONNECTION", "ROW")
_AS_IT_IS = ("INHERIT", "NOCREATEDB", "NOREPLICATION", "NOBYPASSRLS")
"""What PostgreSQL's programs say of roles, and what every role is here."""


def read_create_role(grammar: TableGrammar) -> Statement:
    """From after CREATE on."""
    word = grammar.expect_any(*ROLE_WORDS)
    if word == "TOKEN":
        return _create_token(grammar)
    if word == "SECRET":
        return _secret(grammar, alters=False)
    if_not_exists = grammar.match("IF", "NOT", "EXISTS")
    name = grammar.name("the name of the role")
    options = _options(grammar, {"login": True} if word == "USER" else {})
    return CreateRole(name, options, if_not_exists)


def read_alter_role(grammar: TableGrammar) -> Statement:
    """From after ALTER on."""
    if grammar.expect_any("ROLE", "USER", "SECRET") == "SECRET":
        return _secret(grammar, alters=True)
    name = grammar.name("the name of a role")
    if grammar.match("RENAME"):
        grammar.expect("TO")
        return AlterRole(name, RoleOptions(), grammar.name("the new name"))
    before = grammar.index
    options = _options(grammar, {})
    if grammar.index == before:
        grammar.fail("RENAME TO", "WITH", "PASSWORD", "VALID UNTIL", *(f"{word} LIMIT" for word in _LIMITS), *_SWITCHES)
    return AlterRole(name, options)


def read_drop_role(grammar: TableGrammar) -> Statement:
    """From after DROP on."""
    word = grammar.expect_any(*ROLE_WORDS)
    if_exists = grammar.match("IF", "EXISTS")
    if word == "TOKEN":
        return DropToken(grammar.name("the name of a token"), if_exists)
    if word == "SECRET":
        return DropSecret(grammar.name("the name of a secret"), if_exists)
    names = [grammar.name("the name of a role")]
    while grammar.match(","):
        names.append(grammar.name("the name of a role"))
    return DropRole(tuple(names), if_exists)


def read_grant(grammar: TableGrammar, *, database_is: str) -> Statement:
    """GRANT or REVOKE. `database_is`: what DATABASE means: a database, or a catalog."""
    revokes = grammar.expect_any("GRANT", "REVOKE") == "REVOKE"
    if grammar.match("ALL"):
        grammar.match("PRIVILEGES")
        given: tuple[Name, ...] = ()
        grammar.expect("ON")
    else:
        given = _names(grammar, "a privilege, or a role")
        if not grammar.match("ON"):
            if not grammar.at_any("TO", "FROM"):
                grammar.fail("ON", "FROM" if revokes else "TO")
            return GrantRole(given, _receivers(grammar, revokes), revokes)
    kind, objects = _objects(grammar, database_is)
    privileges = tuple(Name(name.text.upper(), name.span) for name in given)
    return Grant(privileges, kind, objects, _receivers(grammar, revokes), revokes)


def _objects(grammar: TableGrammar, database_is: str) -> tuple[str, tuple[ObjectName, ...]]:
    if grammar.match("SYSTEM"):
        return "system", (ObjectName((), grammar.previous.span),)
    if grammar.match("ALL"):
        grammar.expect("TABLES", "IN")
        word = grammar.expect_any("SCHEMA", "DATABASE")
        kind = database_is if word == "DATABASE" else "database"
        return f"tables in {kind}", _object_names(grammar, kind)
    if grammar.match("MATERIALIZED", "VIEW"):
        return "table", _object_names(grammar, "table")
    # Without a kind a table is meant, also one of such a name.
    if not grammar.at_any(*_KINDS) or grammar.peek().upper in (",", ".", "TO", "FROM"):
        return "table", _object_names(grammar, "table")
    word = grammar.advance().upper
    kind = {"VIEW": "table", "SCHEMA": "database", "DATABASE": database_is}.get(word, word.lower())
    return kind, _object_names(grammar, kind)


def _object_names(grammar: TableGrammar, kind: str) -> tuple[ObjectName, ...]:
    found: list[ObjectName] = []
    while not found or grammar.match(","):
        if kind == "path" or (kind == "connector" and grammar.token.kind is STRING):
            text = _text(grammar)
            found.append(ObjectName((text.text,), text.span))
        else:
            found.append(grammar.object_name(f"the name of a {kind}"))
    return tuple(found)


def _receivers(grammar: TableGrammar, revokes: bool) -> tuple[Name, ...]:
    grammar.expect("FROM" if revokes else "TO")
    found: list[Name] = []
    while not found or grammar.match(","):
        grammar.match_any("ROLE", "GROUP")
        found.append(grammar.name("the name of a role, or PUBLIC"))
    if revokes:
        grammar.match_any("CASCADE", "RESTRICT")
    return tuple(found)


def _names(grammar: TableGrammar, what: str) -> tuple[Name, ...]:
    found: list[Name] = []
    while not found or grammar.match(","):
        # INSERT and SELECT are words that are no names.
        if grammar.token.kind is WORD and grammar.token.upper in ("SELECT", "INSERT", "CREATE"):
            token = grammar.advance()
            found.append(Name(token.text, token.span))
        else:
            found.append(grammar.name(what))
    return tuple(found)


def _options(grammar: TableGrammar, given: dict[str, Any]) -> RoleOptions:
    grammar.match("WITH")
    while True:
        if grammar.at_any(*_AS_IT_IS):
            grammar.advance()
        elif grammar.at_any(*_SWITCHES):
            name, value = _SWITCHES[grammar.advance().upper]
            given[name] = value
        elif grammar.at_any(*_LIMITS):
            word = grammar.advance().upper
            grammar.expect("LIMIT")
            given[_LIMITS[word]] = _number(grammar) if word in _COUNTS else _amount(grammar)
        elif grammar.at("VALID"):
            given["valid_until"] = _valid_until(grammar)
        elif grammar.at("PASSWORD") or grammar.match("ENCRYPTED"):
            grammar.expect("PASSWORD")
            given["no_password"] = grammar.match("NULL")
            given["password"] = None if given["no_password"] else _text(grammar)
        else:
            return RoleOptions(**given)


def _secret(grammar: TableGrammar, *, alters: bool) -> CreateSecret:
    if_not_exists = not alters and grammar.match("IF", "NOT", "EXISTS")
    name = grammar.name("the name of the secret")
    grammar.expect("AS")
    return CreateSecret(name, _text(grammar), if_not_exists, alters)


def _create_token(grammar: TableGrammar) -> CreateToken:
    name = grammar.name("the name of the token")
    role = grammar.name("the name of a role") if grammar.match("FOR") else None
    until = _valid_until(grammar) if grammar.at("VALID") else None
    hash_ = _text(grammar) if grammar.match("HASH") else None
    return CreateToken(name, role, until, hash_)


def _valid_until(grammar: Cursor) -> Name:
    grammar.expect("VALID", "UNTIL")
    return _text(grammar)


def _text(grammar: Cursor) -> Name:
    token = grammar.string()
    return Name(token.value, token.span)


def _amount(grammar: Cursor) -> Name:
    """A time or a size in quotes, or -1."""
    if grammar.token.kind is STRING:
        return _text(grammar)
    before = grammar.token.span
    return Name(str(_number(grammar)), before)


def _number(grammar: Cursor) -> int:
    negative = grammar.match("-")
    token = grammar.token
    if token.kind is not NUMBER or not token.text.isdecimal() or (negative and token.text != "1"):
        grammar.fail("a whole number")
    grammar.advance()
    return -1 if negative else int(token.text)
