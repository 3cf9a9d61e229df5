"""A session that acts on somebody's behalf: what it may read, what it knows of, and which functions it may call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace

from runtime.core.errors import Span
from runtime.core.secrets import refers
from runtime.expr.function import AnyFunction, FunctionRegistry
from runtime.spi.registry import TableRequest
from sqlengine.catalog.catalog import CONNECTION
from sqlengine.catalog.objects import CatalogTable, CatalogView, MaterializedView, ObjectPath
from sqlengine.database.session import Session
from sqlengine.roles.authority import Authority
from sqlengine.roles.outside import check_outside, hosts_of, paths_of
from sqlengine.roles.privileges import Target
from sqlengine.roles.secrets import resolved

__all__ = [
    "act_for",
    "callable_functions",
    "check_connection",
    "check_model",
    "check_read",
    "checked_request",
    "owner_of",
    "with_secrets",
]


def act_for(session: Session, authority: Authority) -> None:
    """From now on a session does what a role may, and knows of what it may know."""
    session.authority = authority
    session.catalogs.sees = lambda kind, path: authority.sees(Target(kind, path))


def owner_of(session: Session, path: ObjectPath) -> Authority:
    """By whose rights the query of a view is carried out."""
    roles = session.database.roles
    return Authority(roles, roles.owner(Target("table", path.parts)))


def check_read(
    authority: Authority, thing: CatalogTable | CatalogView | MaterializedView | None, span: Span | None
) -> None:
    """Raises AccessError where somebody may not read a table or view; None is what the engine tells of itself."""
    if thing is None:
        authority.require("MONITOR", Target("system", ()), span)
    elif not getattr(thing, "temporary", False):
        authority.require("SELECT", Target("table", thing.path.parts), span)


def check_model(authority: Authority, path: tuple[str, ...], span: Span | None) -> None:
    """Raises AccessError where somebody may not ask a model."""
    authority.require("USAGE", Target("model", path), span)


def checked_request(
    session: Session, table: CatalogTable, request: TableRequest, hints: Mapping[str, str], *, writes: bool
) -> TableRequest:
    """What a connector is told of a table, with the secrets that options refer to: once it is clear what the server reaches,
    what the table's owner may, and what whoever has written a hint may. Raises AccessError, and OptionError E1531."""
    authority = session.authority
    kept = not table.temporary and session.catalogs.find(table.path) is not None
    owner = None if authority is None else owner_of(session, table.path) if kept else authority
    if refers(hints) and authority is not None and kept:
        authority.require_own(Target("table", table.path.parts))
    if refers(request.options):
        request = replace(request, options=with_secrets(session, request.options, owner))
    if session.database.outside is not None:
        session.database.outside.check(request.options)
    if authority is None:
        return request
    privilege = "WRITE" if writes else "READ"
    check_outside(owner, table.connector, request.options, privilege)
    if hints and (CONNECTION in hints or any(paths_of(hints)) or any(hosts_of(hints))):
        # With its secrets a table would go where somebody else says.
        if kept:
            authority.require_own(Target("table", table.path.parts))
        check_connection(session, authority, hints, table.path)
        check_outside(authority, table.connector, request.options, privilege)
    return request


def with_secrets(session: Session, options: Mapping[str, str], owner: Authority | None) -> dict[str, str]:
    """Options with the secrets that they refer to, as far as their owner may use them."""
    known = session.database.known_roles
    return resolved(options, {} if known is None else known.secrets, owner)


def check_connection(session: Session, authority: Authority, options: Mapping[str, str], home: ObjectPath) -> None:
    """Raises AccessError where options name a connection whose options, and secrets, are not for a role."""
    name = options.get(CONNECTION)
    if name is not None:
        parts = tuple(name.split("."))
        whole = (*(home.catalog, home.database)[: max(0, 3 - len(parts))], *parts)
        found = session.catalogs.find_definition(CONNECTION, session.catalogs.qualify(whole))
        if found is not None and not found.temporary:
            authority.require("USAGE", Target("connection", found.path.parts))


class _Callable(MutableMapping[str, AnyFunction]):
    """Functions by name; one that may not be called is refused when it is asked for."""

    def __init__(
        self, functions: MutableMapping[str, AnyFunction], own: Mapping[str, object], authority: Authority
    ) -> None:
        self._functions = functions
        self._own = own
        self._authority = authority

    def __getitem__(self, name: str) -> AnyFunction:
        found = self._functions[name]
        if name in self._own:
            self._authority.require("EXECUTE", Target("function", (name,)))
        return found

    def __setitem__(self, name: str, function: AnyFunction) -> None:
        self._functions[name] = function

    def __delitem__(self, name: str) -> None:
        del self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return (n for n in self._functions if n not in self._own or self._authority.sees(Target("function", (n,))))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def callable_functions(session: Session, authority: Authority) -> FunctionRegistry:
    """The functions that somebody may call: the engine's, the session's, and those of users that were given to the role."""
    users = session.database.user_functions
    if not users or authority.is_superuser:
        return session.functions
    shared = {name: entry for name, entry in users.items() if name not in session.own_functions}
    return FunctionRegistry(_Callable(session.functions.functions, shared, authority))
