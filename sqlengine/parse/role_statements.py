"""CREATE, ALTER and DROP of roles and tokens."""

from __future__ import annotations

from typing import Any

from sqlengine.parse.cursor import Cursor
from sqlengine.parse.ddl_nodes import Name, Statement
from sqlengine.parse.lexer import NUMBER
from sqlengine.parse.session_nodes import AlterRole, CreateRole, CreateToken, DropRole, DropToken, RoleOptions
from sqlengine.parse.table_definitions import TableGrammar

__all__ = ["ROLE_WORDS", "read_alter_role", "read_create_role", "read_drop_role"]

ROLE_WORDS = ("ROLE", "USER", "TOKEN")
"""Behind CREATE and DROP."""
_SWITCHES: dict[str, tuple[str, bool]] = {
    "LOGIN": ("login", True),
    "NOLOGIN": ("login", False),
    "SUPERUSER": ("superuser", True),
    "NOSUPERUSER": ("superuser", False),
    "CREATEROLE": ("create_role", True),
    "NOCREATEROLE": ("create_role", False),
}
_AS_IT_IS = ("INHERIT", "NOCREATEDB", "NOREPLICATION", "NOBYPASSRLS")
"""What PostgreSQL's programs say of roles, and what every role is here."""


def read_create_role(grammar: TableGrammar) -> Statement:
    """From after CREATE on."""
    word = grammar.expect_any(*ROLE_WORDS)
    if word == "TOKEN":
        return _create_token(grammar)
    if_not_exists = grammar.match("IF", "NOT", "EXISTS")
    name = grammar.name("the name of the role")
    options = _options(grammar, {"login": True} if word == "USER" else {})
    return CreateRole(name, options, if_not_exists)


def read_alter_role(grammar: TableGrammar) -> Statement:
    """From after ALTER on."""
    grammar.expect_any("ROLE", "USER")
    name = grammar.name("the name of a role")
    if grammar.match("RENAME"):
        grammar.expect("TO")
        return AlterRole(name, RoleOptions(), grammar.name("the new name"))
    before = grammar.index
    options = _options(grammar, {})
    if grammar.index == before:
        grammar.fail("RENAME TO", "WITH", "PASSWORD", "VALID UNTIL", "CONNECTION LIMIT", *_SWITCHES)
    return AlterRole(name, options)


def read_drop_role(grammar: TableGrammar) -> Statement:
    """From after DROP on."""
    word = grammar.expect_any(*ROLE_WORDS)
    if_exists = grammar.match("IF", "EXISTS")
    if word == "TOKEN":
        return DropToken(grammar.name("the name of a token"), if_exists)
    names = [grammar.name("the name of a role")]
    while grammar.match(","):
        names.append(grammar.name("the name of a role"))
    return DropRole(tuple(names), if_exists)


def _options(grammar: TableGrammar, given: dict[str, Any]) -> RoleOptions:
    grammar.match("WITH")
    while True:
        if grammar.at_any(*_AS_IT_IS):
            grammar.advance()
        elif grammar.at_any(*_SWITCHES):
            name, value = _SWITCHES[grammar.advance().upper]
            given[name] = value
        elif grammar.match("CONNECTION"):
            grammar.expect("LIMIT")
            given["connections"] = _number(grammar)
        elif grammar.at("VALID"):
            given["valid_until"] = _valid_until(grammar)
        elif grammar.at("PASSWORD") or grammar.match("ENCRYPTED"):
            grammar.expect("PASSWORD")
            given["no_password"] = grammar.match("NULL")
            given["password"] = None if given["no_password"] else _text(grammar)
        else:
            return RoleOptions(**given)


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


def _number(grammar: Cursor) -> int:
    negative = grammar.match("-")
    token = grammar.token
    if token.kind is not NUMBER or not token.text.isdecimal() or (negative and token.text != "1"):
        grammar.fail("a whole number")
    grammar.advance()
    return -1 if negative else int(token.text)
