"""Roles and tokens as the statements that make them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from sqlengine.roles.limits import Limits
from sqlengine.roles.privileges import PUBLIC
from sqlengine.roles.roles import Role, Roles, Token
from sqlengine.statements.create_text import literal, quoted
from sqlengine.statements.secrets import secret_definitions

__all__ = ["role_definitions", "role_text", "shown_time", "token_text"]


def role_definitions(roles: Roles) -> Iterator[tuple[tuple[str, str], str]]:
    """All that is to be kept, with where it is kept: nothing as long as nobody has changed anything."""
    if roles.is_untouched:
        return
    for role in roles.roles.values():
        yield ("role", role.name), role_text(role, masked=False)
    for token in roles.tokens.values():
        yield ("token", token.name), token_text(token)
    yield from secret_definitions(roles)
    for name in (PUBLIC, *roles.roles):
        text = ";\n".join((*_memberships(roles, name), *_grants(roles, name)))
        if text:
            yield ("grants", name), text


def _memberships(roles: Roles, name: str) -> Iterator[str]:
    groups = roles.groups.get(name)
    if groups:
        yield f"GRANT {', '.join(map(quoted, sorted(groups)))} TO {quoted(name)}"


def _grants(roles: Roles, name: str) -> Iterator[str]:
    for (role, target), privileges in sorted(roles.granted.items()):
        if role == name:
            path = ".".join(map(quoted, target.path))
            thing = "SYSTEM" if target.kind == "system" else f"{target.kind.upper()} {path}"
            if target.kind == "path":
                thing = f"PATH {literal(target.path[0])}"
            yield f"GRANT {', '.join(sorted(privileges))} ON {thing} TO {quoted(name)}"


def role_text(role: Role, *, masked: bool = True) -> str:
    """CREATE ROLE. `masked`: without what is kept of its password."""
    words = [f"CREATE ROLE {quoted(role.name)} {'LOGIN' if role.login else 'NOLOGIN'}"]
    words += ["SUPERUSER"] if role.superuser else []
    words += ["CREATEROLE"] if role.create_role else []
    words += _limits(role.limits)
    if role.verifier is not None:
        words.append(f"PASSWORD {literal('******' if masked else str(role.verifier))}")
    words += _until(role.valid_until)
    return " ".join(words)


def _limits(limits: Limits) -> list[str]:
    counts = {"CONNECTION": limits.connections, "ROW": limits.rows}
    amounts = {
        "STATEMENT": None if limits.milliseconds is None else f"{limits.milliseconds} ms",
        "MEMORY": None if limits.memory is None else f"{limits.memory} b",
        "STATE": None if limits.state is None else f"{limits.state} b",
    }
    words = [f"{word} LIMIT {count}" for word, count in counts.items() if count is not None]
    return [*words, *(f"{word} LIMIT {literal(amount)}" for word, amount in amounts.items() if amount is not None)]


def token_text(token: Token) -> str:
    """CREATE TOKEN of one that was made before."""
    words = [f"CREATE TOKEN {quoted(token.name)} FOR {quoted(token.role)}", *_until(token.valid_until)]
    return " ".join((*words, f"HASH {literal(token.hash)}"))


def _until(valid_until: int | None) -> list[str]:
    return [] if valid_until is None else [f"VALID UNTIL {literal(shown_time(valid_until))}"]


def shown_time(milliseconds: int) -> str:
    """A time as texts have it: 2030-01-31T12:00:00.000+00:00."""
    moment = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
    return moment.isoformat(timespec="milliseconds")
