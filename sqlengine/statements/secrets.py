"""CREATE, ALTER and DROP SECRET, and SHOW SECRETS, which shows names."""

from __future__ import annotations

from collections.abc import Iterator

from runtime.core.errors import CatalogError, DatabaseError, OptionError, did_you_mean
from runtime.core.schema import Schema
from runtime.core.secrets import LEAST_HIDDEN
from runtime.core.types import STRING
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.ddl_nodes import Name
from sqlengine.results.result import Result
from sqlengine.roles.roles import Roles
from sqlengine.roles.secret import Secret, is_reference
from sqlengine.statements.create_text import literal, quoted

__all__ = ["create_secret", "drop_secret", "secret_definitions", "show_secrets"]


def create_secret(statement: st.CreateSecret, session: Session) -> Result:
    """Make a secret, or give one another value. Raises DatabaseError E3711 for a value that would be written to the folder
    of a database."""
    roles, name = session.database.roles, statement.name
    if statement.alters:
        _find(roles, name)
    elif name.text in roles.secrets:
        if statement.if_not_exists:
            return Result.ok()
        raise CatalogError(
            f'secret "{name.text}" already exists', code="E1470", span=name.span, hint="ALTER SECRET changes it"
        )
    value = statement.value.text
    if not is_reference(value):
        if len(value) < LEAST_HIDDEN:
            raise OptionError(f"a secret has at least {LEAST_HIDDEN} characters", span=statement.value.span)
        if session.durable is not None:
            raise DatabaseError(
                "this database is in a folder, where the secret would be written as it is",
                code="E3711",
                span=name.span,
                hint=f"say where it is: CREATE SECRET {name.text} AS '${{file:/path}}', or '${{env:NAME}}'",
            )
    roles.put_secret(Secret(name.text, value))
    return Result.ok()


def drop_secret(statement: st.DropSecret, session: Session) -> Result:
    """A secret is there no more; what refers to it says so when it is used."""
    roles, name = session.database.roles, statement.name
    if name.text not in roles.secrets and statement.if_exists:
        return Result.ok()
    _find(roles, name)
    roles.remove_secret(name.text)
    return Result.ok()


def show_secrets(statement: st.Show, session: Session) -> Result:
    """The names of those that a role may know of."""
    sees = session.catalogs.sees
    names = sorted(n for n in session.database.roles.secrets if sees is None or sees("secret", (n,)))
    return Result.table(Schema.of(("secret name", STRING.not_null())), [names])


def secret_definitions(roles: Roles) -> Iterator[tuple[tuple[str, str], str]]:
    """Those that may be written down: where a secret is, and never what it is."""
    for secret in roles.secrets.values():
        if is_reference(secret.reveal()):
            yield ("secret", secret.name), f"CREATE SECRET {quoted(secret.name)} AS {literal(secret.reveal())}"


def _find(roles: Roles, name: Name) -> None:
    if name.text not in roles.secrets:
        raise CatalogError(
            f'there is no secret "{name.text}"',
            code="E1473",
            span=name.span,
            hint=did_you_mean(name.text, roles.secrets) or "SHOW SECRETS lists them",
        )
