"""GRANT and REVOKE, what SHOW GRANTS says, and which privileges are kept when names change or go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from runtime.core.errors import BindError, CatalogError, Span, did_you_mean
from runtime.core.schema import Schema
from runtime.core.types import STRING
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.ddl_nodes import Name, ObjectName
from sqlengine.results.result import Result
from sqlengine.roles.outside import whole_path
from sqlengine.roles.privileges import OWNERSHIP, PRIVILEGES, PUBLIC, Target
from sqlengine.statements.targets import function_target, is_there

__all__ = ["grant", "grant_role", "restore_grants", "show_grants"]

_OF_OWNERS = ("table", "database", "function", "procedure", "model", "connection", "sequence")
"""What somebody owns, who then may give privileges on it; on all else superusers do."""


def grant(statement: st.Grant, session: Session) -> Result:
    """Roles may do more, or less. Raises CatalogError for what is not there, AccessError for what is another's."""
    targets = list(_targets(statement, session))
    for target, span in targets:
        if session.authority is not None:
            _check_giver(session, target, span)
    _apply(statement, session, [target for target, _ in targets])
    return Result.ok()


def restore_grants(statement: st.Grant | st.GrantRole, session: Session) -> None:
    """What was granted before: names are whole, and what they name comes later."""
    roles = session.database.roles
    if isinstance(statement, st.GrantRole):
        for member in statement.members:
            for group in statement.groups:
                roles.join(member.text, group.text)
        return
    _apply(statement, session, [Target(statement.kind, name.parts) for name in statement.objects])


def _apply(statement: st.Grant, session: Session, targets: Iterable[Target]) -> None:
    roles = session.database.roles
    for target in targets:
        privileges = _privileges(statement, target)
        for name in statement.roles:
            role = _receiver(name, session)
            if OWNERSHIP in privileges and role == PUBLIC:
                raise CatalogError("everybody cannot own something", code="E1471", span=name.span)
            if statement.revokes:
                roles.revoke(role, target, privileges)
            else:
                roles.grant(role, target, privileges)


def _privileges(statement: st.Grant, target: Target) -> list[str]:
    """Those that are named; ALL are those that the kind has, but for OWNERSHIP. Raises CatalogError E1476."""
    known = PRIVILEGES[target.kind]
    for name in statement.privileges:
        if name.text not in known:
            raise CatalogError(
                f"there is no privilege {name.text} on a {target.kind}",
                code="E1476",
                span=name.span,
                hint=did_you_mean(name.text, known) or f"there are {', '.join(known)}",
            )
    return [name.text for name in statement.privileges] or [p for p in known if p != OWNERSHIP]


def _receiver(name: Name, session: Session) -> str:
    roles = session.database.roles.roles
    if name.text.lower() == PUBLIC:
        return PUBLIC
    if name.text not in roles:
        raise CatalogError(
            f'there is no role "{name.text}"',
            code="E1473",
            span=name.span,
            hint=did_you_mean(name.text, roles) or "SHOW ROLES lists them",
        )
    return name.text


def _check_giver(session: Session, target: Target, span: Span) -> None:
    authority = session.authority
    assert authority is not None
    if target.kind in _OF_OWNERS:
        authority.require_own(target, span)
    elif not authority.is_superuser:
        raise authority.denied(str(target), span, "superusers give privileges on it")


def _targets(statement: st.Grant, session: Session) -> Iterator[tuple[Target, Span]]:
    """The things that are named. Raises CatalogError, BindError for those that are not there."""
    catalogs = session.catalogs
    for name in statement.objects:
        parts, span = name.parts, name.span
        match statement.kind:
            case "system":
                yield Target("system", ()), span
            case "path":
                yield Target("path", (whole_path(parts[0]),)), span
            case "connector":
                session.registry.connectors.get(parts[0])
                yield Target("connector", (parts[0],)), span
            case "secret":
                if parts[0] not in session.database.roles.secrets or len(parts) > 1:
                    raise CatalogError(
                        f'there is no secret "{".".join(parts)}"',
                        code="E1473",
                        span=span,
                        hint="SHOW SECRETS lists them",
                    )
                yield Target("secret", parts), span
            case "function":
                yield _function(session, name), span
            case "catalog":
                _one_part(name)
                yield Target("catalog", (catalogs.catalog(parts[0], span).name,)), span
            case "database":
                yield Target("database", _database(session, name)), span
            case "tables in database" | "tables in catalog":
                if statement.kind == "tables in catalog":
                    _one_part(name)
                    homes = [(parts[0], d) for d in catalogs.catalog(parts[0], span).databases]
                else:
                    homes = [_database(session, name)]
                for home in homes:
                    for thing in catalogs.objects(*home):
                        if not getattr(thing, "temporary", False):
                            yield Target("table", thing.path.parts), span
            case "table":
                found = catalogs.get(parts, span)
                if getattr(found, "temporary", False):
                    raise CatalogError(
                        f'"{found.path.name}" is temporary, and this session\'s alone', code="E1477", span=span
                    )
                yield Target("table", found.path.parts), span
            case kind:
                yield Target(kind, catalogs.definition(kind, parts, span).path.parts), span


def _function(session: Session, name: ObjectName) -> Target:
    target = function_target(name.parts[-1])
    if target.path[0] not in session.database.user_functions:
        raise CatalogError(
            f'there is no function "{name.parts[-1]}" of a user',
            code="E1442",
            span=name.span,
            hint=did_you_mean(name.parts[-1], session.database.user_functions) or "everybody may call the engine's own",
        )
    return target


def _one_part(name: ObjectName) -> None:
    if len(name.parts) != 1:
        raise BindError("the name of a catalog has one part", code="E1202", span=name.span)


def _database(session: Session, name: ObjectName) -> tuple[str, str]:
    match name.parts:
        case (database,):
            catalog = session.catalogs.current_catalog
        case (catalog, database):
            pass
        case _:
            raise BindError("the name of a database has one or two parts", code="E1202", span=name.span)
    session.catalogs.database(catalog, database, name.span)
    return catalog, database


def grant_role(statement: st.GrantRole, session: Session) -> Result:
    """Roles may do what others may, or may so no more. Raises CatalogError E1475 for a circle."""
    roles, authority = session.database.roles, session.authority
    pairs = [(member, group) for group in statement.groups for member in statement.members]
    for member, group in pairs:
        for name in (member, group):
            if _receiver(name, session) == PUBLIC:
                raise CatalogError("everybody is in no role, and in every other one", code="E1471", span=name.span)
        role = roles.roles[group.text]
        if authority is not None and not authority.is_superuser and (role.superuser or not authority.role.create_role):
            raise authority.denied(
                f'role "{role.name}"', group.span, "that needs CREATEROLE, or SUPERUSER for superusers"
            )
        if not statement.revokes and member.text in roles.all_of(group.text):
            raise CatalogError(
                f'"{member.text}" would be in itself: "{group.text}" is in it already', code="E1475", span=group.span
            )
        if statement.revokes:
            roles.leave(member.text, group.text)
        else:
            roles.join(member.text, group.text)
    return Result.ok()


def show_grants(statement: st.Show, session: Session) -> Result:
    """SHOW GRANTS: what roles may do, all or one, its groups included. Who makes no roles sees the own."""
    roles, authority = session.database.roles, session.authority
    wanted: frozenset[str] | None = None
    if statement.name is not None:
        wanted = roles.all_of(_receiver(Name(statement.name.parts[0], statement.name.span), session))
    if authority is not None and not authority.is_superuser and not authority.role.create_role:
        own = roles.all_of(authority.name)
        wanted = own if wanted is None else wanted & own
    rows = [
        (role, privilege, target.kind, ".".join(target.path) or None)
        for (role, target), privileges in roles.granted.items()
        for privilege in sorted(privileges)
        if is_there(session, target)
    ]
    rows += [(role, "MEMBER", "role", group) for role, groups in roles.groups.items() for group in sorted(groups)]
    rows = sorted(
        (row for row in rows if wanted is None or row[0] in wanted),
        key=lambda row: (row[0], row[2], row[3] or "", row[1]),
    )
    schema = Schema.of(
        ("role", STRING.not_null()), ("privilege", STRING.not_null()), ("kind", STRING.not_null()), ("object", STRING)
    )
    return Result.table(schema, [[row[i] for row in rows] for i in range(4)])
