"""CREATE, ALTER and DROP of roles and tokens, and what SHOW says of them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

from runtime.core.errors import AccessError, CatalogError, OptionError, did_you_mean
from runtime.core.options import parse_duration, parse_memory
from runtime.core.schema import Schema
from runtime.core.types import BOOLEAN, INT, STRING
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.ddl_nodes import Name
from sqlengine.parse.session_nodes import RoleOptions
from sqlengine.results.result import Result
from sqlengine.roles.limits import Limits
from sqlengine.roles.privileges import Target
from sqlengine.roles.roles import FIRST, Role, Token, new_token, token_hash
from sqlengine.roles.verifier import Verifier
from sqlengine.statements.role_texts import shown_time
from sqlengine.statements.targets import function_target, is_there
from sqlengine.text.amounts import counted_rows, human_bytes

__all__ = [
    "alter_role",
    "create_role",
    "create_token",
    "declared_role",
    "drop_role",
    "drop_token",
    "known_functions",
    "own_jobs",
    "show_roles",
    "show_tokens",
]

_RESERVED = ("public", "none", "current_user", "session_user", "current_role")


def create_role(statement: st.CreateRole, session: Session) -> Result:
    """Make a role. The first one is there already: what is said of it changes it."""
    roles, name = session.database.roles, statement.name
    _check_name(name)
    is_first = name.text == FIRST and roles.roles[FIRST] == Role(FIRST, login=True, superuser=True)
    if name.text in roles.roles and not is_first:
        if statement.if_not_exists:
            return Result.ok()
        raise CatalogError(
            f'role "{name.text}" already exists', code="E1470", span=name.span, hint="ALTER ROLE changes it"
        )
    role = declared_role(statement, session)
    _check_may_make(session, role, None, name)
    if is_first and not (role.superuser and role.login):
        raise _first_stays(name)
    roles.put(role)
    return Result.ok()


def declared_role(statement: st.CreateRole, session: Session) -> Role:
    """What CREATE ROLE says, whoever may make it."""
    return _with_options(Role(statement.name.text), statement.options, session)


def alter_role(statement: st.AlterRole, session: Session) -> Result:
    """Change a role, or its name. Everybody may change the own password."""
    roles, name = session.database.roles, statement.name
    before = _role(session, name)
    if statement.rename is not None:
        _check_may_make(session, before, before, name)
        _check_name(statement.rename)
        if before.name == FIRST:
            raise _first_stays(name)
        if statement.rename.text in roles.roles:
            raise CatalogError(
                f'role "{statement.rename.text}" already exists', code="E1470", span=statement.rename.span
            )
        roles.rename(before.name, statement.rename.text)
        return Result.ok()
    after = _with_options(before, statement.options, session)
    only_password = replace(after, verifier=before.verifier) == before
    own = session.authority is not None and session.authority.name == before.name
    if not (own and only_password):
        _check_may_make(session, after, before, name)
    if before.name == FIRST and not (after.superuser and after.login):
        raise _first_stays(name)
    roles.put(after)
    return Result.ok()


def drop_role(statement: st.DropRole, session: Session) -> Result:
    """Roles are gone, and their tokens. Who is connected as one may do nothing any more."""
    roles = session.database.roles
    gone: list[Role] = []
    for name in statement.names:
        if name.text not in roles.roles and statement.if_exists:
            continue
        role = _role(session, name)
        if role.name == FIRST:
            raise _first_stays(name)
        if session.authority is not None and session.authority.name == role.name:
            raise CatalogError(f'"{role.name}" is you', code="E1471", span=name.span, hint="connect as another role")
        _check_may_make(session, role, role, name)
        owned = [target for target in roles.owned_by(role.name) if is_there(session, target)]
        if owned:
            raise CatalogError(
                f'"{role.name}" owns the {owned[0]}' + (f" and {len(owned) - 1} more" if len(owned) > 1 else ""),
                code="E1478",
                span=name.span,
                hint=f"DROP it, or GRANT OWNERSHIP ON it TO another role: SHOW GRANTS FOR {role.name}",
            )
        gone.append(role)
    for role in gone:
        roles.remove(role.name)
    return Result.ok()


def create_token(statement: st.CreateToken, session: Session) -> Result:
    """Make a token; its text is the result, and is shown this once. Everybody may make tokens of the own role."""
    roles, name = session.database.roles, statement.name
    if name.text in roles.tokens:
        raise CatalogError(
            f'token "{name.text}" already exists', code="E1470", span=name.span, hint="DROP TOKEN, or another name"
        )
    own = FIRST if session.authority is None else session.authority.name
    role = _role(session, statement.role or Name(own, name.span))
    if role.name != own or statement.hash is not None:
        _check_may_make(session, role, role, statement.role or name)
    if not role.login:
        raise CatalogError(
            f'role "{role.name}" may not log in', code="E1472", span=name.span, hint=f"ALTER ROLE {role.name} LOGIN"
        )
    until = None if statement.valid_until is None else _time(statement.valid_until, session)
    if statement.hash is not None:
        if re.fullmatch("[0-9a-f]{64}", statement.hash.text) is None:
            raise OptionError(
                "HASH is no SHA-256",
                span=statement.hash.span,
                hint="64 hexadecimal digits; leave it out, and a token is made",
            )
        roles.put_token(Token(name.text, role.name, statement.hash.text, until))
        return Result.ok()
    text = new_token()
    roles.put_token(Token(name.text, role.name, token_hash(text), until))
    return Result.table(Schema.of(("token", STRING.not_null())), [[text]])


def drop_token(statement: st.DropToken, session: Session) -> Result:
    """A token counts no more."""
    roles, name = session.database.roles, statement.name
    found = roles.tokens.get(name.text)
    if found is None:
        if statement.if_exists:
            return Result.ok()
        raise CatalogError(
            f'there is no token "{name.text}"',
            code="E1473",
            span=name.span,
            hint=did_you_mean(name.text, roles.tokens) or "SHOW TOKENS lists them",
        )
    if session.authority is None or session.authority.name != found.role:
        role = roles.roles[found.role]
        _check_may_make(session, role, role, name)
    roles.remove_token(name.text)
    return Result.ok()


# --- what is shown
# ---------------------------------------------------------------------------------------------------------------------


def show_roles(statement: st.Show, session: Session) -> Result:
    """SHOW ROLES, and SHOW USERS: those that may log in."""
    roles = session.database.roles.roles.values()
    found = sorted((r for r in roles if r.login or statement.kind == "ROLES"), key=lambda role: role.name)
    schema = Schema.of(
        ("role name", STRING.not_null()),
        ("login", BOOLEAN.not_null()),
        ("superuser", BOOLEAN.not_null()),
        ("create role", BOOLEAN.not_null()),
        ("password", BOOLEAN.not_null()),
        ("valid until", STRING),
        ("connections", INT),
        ("other limits", STRING),
    )
    columns: list[list[object]] = [
        [role.name for role in found],
        [role.login for role in found],
        [role.superuser for role in found],
        [role.create_role for role in found],
        [role.verifier is not None for role in found],
        [None if role.valid_until is None else shown_time(role.valid_until) for role in found],
        [role.limits.connections for role in found],
        [_other_limits(role.limits) for role in found],
    ]
    return Result.table(schema, columns)


def show_tokens(statement: st.Show, session: Session) -> Result:
    """SHOW TOKENS: those of the own role, and all for those who may make roles."""
    authority = session.authority
    tokens = session.database.roles.tokens.values()
    if authority is not None and not authority.is_superuser and not authority.role.create_role:
        tokens = [token for token in tokens if token.role == authority.name]
    found = sorted(tokens, key=lambda token: token.name)
    schema = Schema.of(("token name", STRING.not_null()), ("role", STRING.not_null()), ("valid until", STRING))
    times = [None if token.valid_until is None else shown_time(token.valid_until) for token in found]
    return Result.table(schema, [[token.name for token in found], [token.role for token in found], times])


def own_jobs(rows: dict[str, list[Any]], session: Session) -> dict[str, list[Any]]:
    """The rows of SHOW JOBS that a role may know of: its own, or all."""
    authority = session.authority
    assert authority is not None
    if authority.may("MONITOR", Target("system", ())) or authority.may("JOBS", Target("system", ())):
        return rows
    started = session.database.roles.jobs
    kept = [i for i, name in enumerate(rows["job"]) if started.get(name) == authority.user]
    return {name: [column[i] for i in kept] for name, column in rows.items()}


def known_functions(names: Iterable[str], session: Session) -> list[str]:
    """The functions that a role may know of: the engine's, the session's, and those of users that it may call."""
    authority, users = session.authority, session.database.user_functions
    assert authority is not None
    return [
        name
        for name in names
        if name not in users or name in session.own_functions or authority.sees(function_target(name))
    ]


# --- what is allowed
# ---------------------------------------------------------------------------------------------------------------------


def _role(session: Session, name: Name) -> Role:
    roles = session.database.roles.roles
    found = roles.get(name.text)
    if found is None:
        raise CatalogError(
            f'there is no role "{name.text}"',
            code="E1473",
            span=name.span,
            hint=did_you_mean(name.text, roles) or "SHOW ROLES lists them",
        )
    return found


def _check_name(name: Name) -> None:
    if name.text.lower() in _RESERVED or name.text.startswith("pg_") or not name.text or "\0" in name.text:
        raise CatalogError(f'a role cannot be called "{name.text}"', code="E1474", span=name.span)


def _check_may_make(session: Session, after: Role, before: Role | None, name: Name) -> None:
    """Who makes superusers, or changes them, is one; others need CREATEROLE. Nobody gives a right on that he has not."""
    authority = session.authority
    if authority is None or authority.is_superuser:
        return
    above = after.superuser or (before is not None and before.superuser)
    if not authority.role.create_role or above:
        needed = "SUPERUSER" if above else "CREATEROLE"
        raise AccessError(
            f'"{authority.name}" may not make or change the role "{after.name}"',
            span=name.span,
            hint=f"that needs {needed}",
        )


def _first_stays(name: Name) -> CatalogError:
    return CatalogError(
        f'"{FIRST}" is the role that may do everything: it is not dropped or renamed, and stays a superuser that may log in',
        code="E1471",
        span=name.span,
        hint=f"give it a password: ALTER ROLE {FIRST} PASSWORD '..'",
    )


def _with_options(role: Role, options: RoleOptions, session: Session) -> Role:
    if options.login is not None:
        role = replace(role, login=options.login)
    if options.superuser is not None:
        role = replace(role, superuser=options.superuser)
    if options.create_role is not None:
        role = replace(role, create_role=options.create_role)
    role = replace(role, limits=_with_limits(role.limits, options))
    if options.valid_until is not None:
        role = replace(role, valid_until=_time(options.valid_until, session))
    if options.no_password:
        role = replace(role, verifier=None)
    if options.password is not None:
        role = replace(role, verifier=_verifier(options.password))
    return role


def _with_limits(limits: Limits, options: RoleOptions) -> Limits:
    if options.connections is not None:
        limits = replace(limits, connections=None if options.connections < 0 else options.connections)
    if options.row_limit is not None:
        limits = replace(limits, rows=None if options.row_limit < 0 else options.row_limit)
    if options.statement_limit is not None:
        limits = replace(limits, milliseconds=_amount(options.statement_limit, parse_duration))
    if options.memory_limit is not None:
        limits = replace(limits, memory=_amount(options.memory_limit, parse_memory))
    if options.state_limit is not None:
        limits = replace(limits, state=_amount(options.state_limit, parse_memory))
    return limits


def _amount(text: Name, parse: Callable[[str], int]) -> int | None:
    """A limit that is above zero; None for -1."""
    if text.text.strip() == "-1":
        return None
    try:
        found = parse(text.text)
    except OptionError as error:
        error.span = text.span
        raise
    if found <= 0:
        raise OptionError(f"'{text.text}' allows nothing", span=text.span, hint="-1 is no limit")
    return found


def _other_limits(limits: Limits) -> str | None:
    """Those but for connections, for people: `10 s, 1,000 rows, 1.0 GiB of memory`."""
    words = [] if limits.milliseconds is None else [f"{limits.milliseconds / 1000:g} s"]
    words += [] if limits.rows is None else [counted_rows(limits.rows)]
    words += [] if limits.memory is None else [f"{human_bytes(limits.memory)} of memory"]
    words += [] if limits.state is None else [f"{human_bytes(limits.state)} of state"]
    return ", ".join(words) or None


def _verifier(password: Name) -> Verifier:
    text = password.text
    verifier = Verifier.read(text)
    if verifier is not None:
        return verifier
    if text.startswith("SCRAM-SHA-256$") or re.fullmatch("md5[0-9a-f]{32}", text):
        raise OptionError(
            "this is no verifier that can be used",
            span=password.span,
            hint="give the password, or SCRAM-SHA-256$iterations:salt$stored:server as PostgreSQL keeps it",
        )
    if not text:
        raise OptionError("a password has a character at least", span=password.span, hint="PASSWORD NULL takes it away")
    return Verifier.of_password(text)


def _time(text: Name, session: Session) -> int | None:
    if text.text.lower() == "infinity":
        return None
    try:
        moment = dt.datetime.fromisoformat(text.text)
    except ValueError:
        raise OptionError(
            f"'{text.text}' is no time", span=text.span, hint="write '2030-01-31 12:00:00', or 'infinity'"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(session.time_zone))
    return int(moment.timestamp() * 1000)
