"""What a query reads: views, functions, and what ends with the session."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.core.errors import Span
from runtime.expr.function import AnyFunction, FunctionRegistry
from sqlengine.bind import bind_query
from sqlengine.catalog.objects import CatalogTable, CatalogView, EpochNumber, MaterializedView, ObjectPath, OpenTable
from sqlengine.database.binding import Binding
from sqlengine.database.session import PYTHON_DATABASE, Session
from sqlengine.parse.trees import Tree

if TYPE_CHECKING:
    from connectors.models.table import ModelTable

__all__ = ["Reads", "fingerprints", "kind_of", "query_reads", "reads_of"]


def query_reads(session: Session, query: Tree) -> tuple[frozenset[ObjectPath], list[str]]:
    """The views that a query reads, with the tables that it reads as they were, and what it reads that ends with the
    session."""
    reads = reads_of(session, query)
    return reads.views | reads.past, reads.temporary


@dataclass(frozen=True, slots=True)
class Reads:
    """What a query reads, with what the views in it read. `objects`: tables, views and models. `functions`: names of those that
    users have made. `temporary`: what ends with the session. `past`: what is read as of a moment."""

    objects: frozenset[ObjectPath]
    views: frozenset[ObjectPath]
    functions: frozenset[str]
    temporary: list[str]
    past: frozenset[ObjectPath]


def reads_of(session: Session, query: Tree) -> Reads:
    """What a query reads."""
    noted = _note(session, query)
    functions = frozenset(name for name in noted.functions if name in session.user_functions)
    own = [f"the function {name}" for name in noted.functions if name in session.own_functions]
    temporary = [*noted.temporary, *own]
    return Reads(frozenset(noted.objects), frozenset(noted.views), functions, temporary, frozenset(noted.past))


def fingerprints(session: Session, query: Tree) -> dict[str, str]:
    """A fingerprint of each function of users that a query calls, by name: of where it is found, and of the source of its
    module. One of a module without source has none that is ever found again."""
    if not session.user_functions:
        return {}
    called = [name for name in _note(session, query).functions if name in session.user_functions]
    return {name: _fingerprint(session.user_functions[name].path) for name in called}


def _fingerprint(path: str) -> str:
    try:
        module = importlib.import_module(path.rpartition(".")[0]) if path else None
        source = None if module is None else inspect.getsourcefile(module)
        text = b"" if source is None else Path(source).read_bytes()
    except (ImportError, OSError, TypeError):
        text = b""
    return f"{path} {hashlib.sha256(text).hexdigest()}" if text else ""


def kind_of(thing: CatalogTable | CatalogView | MaterializedView) -> str:
    """What statements call an object."""
    if isinstance(thing, CatalogTable):
        return "table"
    return "view" if isinstance(thing, CatalogView) else "materialized view"


def _note(session: Session, query: Tree) -> _Noted:
    noted = _Noted()
    registry = _NotingFunctions(session.functions.functions, noted)
    bind_query(query, _NotingBinding(session, True, None, noted, registry))
    return noted


@dataclass
class _Noted:
    """What was asked for while a query was bound."""

    objects: set[ObjectPath] = field(default_factory=set)
    views: set[ObjectPath] = field(default_factory=set)
    past: set[ObjectPath] = field(default_factory=set)
    temporary: list[str] = field(default_factory=list)
    functions: dict[str, None] = field(default_factory=dict)


class _NotingFunctions(FunctionRegistry):
    """Functions by name, noting which are asked for."""

    def __init__(self, functions: MutableMapping[str, AnyFunction], noted: _Noted) -> None:
        super().__init__(functions)
        self._noted = noted

    def find(self, name: str) -> AnyFunction | None:
        self._noted.functions[name.upper()] = None
        return super().find(name)


@dataclass(frozen=True)
class _NotingBinding(Binding):
    """A binding that notes which objects are named, those of views that are read as well."""

    noted: _Noted = field(default_factory=_Noted)
    registry: FunctionRegistry = field(default_factory=FunctionRegistry)

    @property
    def functions(self) -> FunctionRegistry:
        return self.registry

    def model(self, path: tuple[str, ...], span: Span | None) -> ModelTable:
        if self.current is not None and len(path) < 3:
            path = (*self.current[: 3 - len(path)], *path)
        found = self.session.catalogs.definition("model", path, span)
        self.noted.objects.add(found.path)
        if found.temporary:
            self.noted.temporary.append(f'the temporary model "{found.path.name}"')
        return super().model(path, span)

    def past(
        self, path: tuple[str, ...], span: Span | None, options: Mapping[str, str], moment: int | EpochNumber
    ) -> OpenTable:
        found = super().past(path, span, options, moment)
        self.noted.objects.add(found.table.path)
        self.noted.past.add(found.table.path)
        if found.table.temporary:
            self.noted.temporary.append(f'the temporary table "{found.table.path.name}"')
        return found

    def resolve(self, path: tuple[str, ...], span: Span | None, options: Mapping[str, str]) -> OpenTable | CatalogView:
        found = super().resolve(path, span, options)
        thing = found if isinstance(found, CatalogView) else found.table
        self.noted.objects.add(thing.path)
        if isinstance(found, CatalogView):
            self.noted.views.add(found.path)
        if getattr(thing, "temporary", False) or thing.path.database == PYTHON_DATABASE:
            self.noted.temporary.append(f'the temporary {kind_of(thing)} "{thing.path.name}"')
        return found
