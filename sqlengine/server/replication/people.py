"""Roles, tokens, grants and functions of a leader, and the same at a replica.

They go over as the statements that make them, as the folder of a database keeps them. Secrets stay with the leader: a replica
opens nothing that needs them.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlengine.database.database import Database
from sqlengine.database.folder.changes import Place
from sqlengine.database.session import Session
from sqlengine.parse import parse_script, parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.roles.roles import FIRST, Role
from sqlengine.statements import functions, grants, roles
from sqlengine.statements.create_text import literal, quoted
from sqlengine.statements.role_texts import role_definitions

__all__ = ["KINDS", "forget", "make", "sent", "state_of"]

KINDS = ("role", "token", "grants", "function")
"""Their kinds in the order in which they are made."""


def state_of(database: Database) -> object:
    """Something that is equal as long as nothing of them has changed."""
    known = database.known_roles
    return None if known is None else known.version, tuple((n, f.path) for n, f in database.user_functions.items())


def sent(database: Database) -> Iterator[tuple[Place, str]]:
    """Those of a leader, with the texts that make them. A function that a program has registered has no text."""
    if database.known_roles is not None:
        for place, text in role_definitions(database.known_roles):
            if place[0] != "secret":
                yield place, text
    for name, function in database.user_functions.items():
        if function.path:
            yield ("function", name), f"CREATE FUNCTION {quoted(name)} AS {literal(function.path)} LANGUAGE PYTHON"


def make(place: Place, text: str, session: Session) -> None:
    """Have it at a replica, in the place of what has its name. Raises SqlEngineError, such as for a function that cannot be
    imported there."""
    kind, name = place
    known = session.database.roles
    if kind == "grants":
        forget(place, session)
        for granted in parse_script(text):
            assert isinstance(granted, st.Grant | st.GrantRole)
            grants.restore_grants(granted, session)
        return
    statement = parse_statement(text)
    if isinstance(statement, st.CreateRole):
        known.put(roles.declared_role(statement, session))
    elif isinstance(statement, st.CreateToken):
        known.remove_token(name)
        roles.create_token(statement, session)
    else:
        assert isinstance(statement, st.CreateFunction)
        forget(place, session)
        functions.create_function(statement, session)


def forget(place: Place, session: Session) -> None:
    """It is gone from the leader. The first role stays, as it is where nobody has changed it."""
    kind, name = place
    known = session.database.roles
    match kind:
        case "role" if name == FIRST:
            known.put(Role(FIRST, login=True, superuser=True))
        case "role":
            known.remove(name)
        case "token":
            known.remove_token(name)
        case "grants":
            known.forget_grants(name)
        case _:
            functions.unregister(session, name, if_exists=True)
