"""What names mean inside one query: the relations of its FROM, their columns, and the scopes around it.

A name is looked up among the relations of the query itself, then in the scopes outside (a correlated subquery or a
LATERAL relation sees those); what is found outside becomes an `OuterRef`. Names are compared with regard to case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from runtime.core.errors import BindError, Span, did_you_mean
from runtime.core.types import TypeRoot
from runtime.expr.nodes import Column, ColumnRef, Expr, OuterRef, transform
from sqlengine.bind.habits import COLUMNS

__all__ = ["Found", "Scope", "Source", "outer"]


@dataclass(frozen=True, slots=True)
class Source:
    """A relation of FROM. `name` is its alias or its table's name; `path` the full name when there is no alias.
    `*` leaves out the last columns, as many as are `hidden`."""

    name: str | None
    columns: tuple[Column, ...]
    path: tuple[str, ...] = ()
    hidden: int = 0

    @property
    def shown(self) -> tuple[Column, ...]:
        return self.columns[: len(self.columns) - self.hidden]

    def called(self, parts: tuple[str, ...]) -> bool:
        """Whether the relation may be named so: by its name, or by the end of its path."""
        if len(parts) == 1:
            return self.name == parts[0]
        return len(parts) <= len(self.path) and self.path[-len(parts) :] == parts

    def find(self, name: str) -> list[Column]:
        return [c for c in self.columns if c.name == name]


@dataclass(frozen=True, slots=True)
class Found:
    """What a dotted name stands for: a value, and the parts that are fields of it still to be taken."""

    value: Expr
    fields: tuple[str, ...] = ()


@dataclass(slots=True)
class Scope:
    """The relations of one query in order, and what `*` `shows`: the columns of all of them (None), or those with the
    columns that USING and NATURAL made one of two.

    A name without a qualifier is one of those that are shown; with one, every column of a relation can be reached.
    """

    sources: list[Source] = field(default_factory=list)
    shows: list[tuple[str, Expr]] | None = None
    parent: Scope | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(c for s in self.sources for c in s.columns)

    def with_types(self, columns: Iterable[Column]) -> Scope:
        """The same names over the columns of a plan: an outer join makes types nullable."""
        types = {c.id: c.type for c in columns}

        def fresh(expr: Expr) -> Expr:
            if isinstance(expr, ColumnRef) and expr.id in types:
                return ColumnRef(expr.id, expr.name, types[expr.id])
            return expr

        sources = [
            replace(s, columns=tuple(c.with_type(types.get(c.id, c.type)) for c in s.columns)) for s in self.sources
        ]
        shows = None if self.shows is None else [(name, transform(value, fresh)) for name, value in self.shows]
        return Scope(sources, shows, self.parent)

    def beside(self, right: Scope, merged: Sequence[tuple[str, Expr]], parent: Scope | None) -> Scope:
        """The scope of a join: the merged columns, then the others of the left side, then those of the right side."""
        names = {name for name, _ in merged}
        rest = [(name, value) for name, value in (*self.star(), *right.star()) if name not in names]
        plain = not merged and self.shows is None and right.shows is None
        return Scope(self.sources + right.sources, None if plain else [*merged, *rest], parent)

    def source(self, parts: tuple[str, ...], span: Span | None = None) -> Source | None:
        """The relation of a name, None when there is none here; two of one name are ambiguous (E1205)."""
        named = [s for s in self.sources if s.called(parts)]
        if len(named) > 1:
            raise BindError(
                f'the name "{".".join(parts)}" stands for {len(named)} relations of FROM',
                code="E1205",
                span=span,
                hint="give each its own alias",
            )
        return named[0] if named else None

    def star(self) -> Iterator[tuple[str, Expr]]:
        """What `*` stands for, in order."""
        if self.shows is not None:
            yield from self.shows
            return
        for source in self.sources:
            for column in source.shown:
                yield column.name, column.ref()

    def resolve(self, parts: tuple[str, ...], span: Span | None) -> Found:
        """The meaning of a dotted name, here or in a scope outside.

        Raises:
            BindError: E1201 when nothing has the name, E1205 when two things have.
        """
        # A relation of any scope goes before a column whose fields the rest would be: `t.a` is never column "t" of an
        # inner query.
        for meaning in (Scope._qualified, Scope._column):
            scope: Scope | None = self
            while scope is not None:
                found = meaning(scope, parts, span)
                if found is not None:
                    return found if scope is self else Found(outer(found.value), found.fields)
                scope = scope.parent
        raise self._unknown(parts, span)

    def _qualified(self, parts: tuple[str, ...], span: Span | None) -> Found | None:
        for length in range(min(3, len(parts) - 1), 0, -1):
            source = self.source(parts[:length], span)
            if source is None:
                continue
            name = parts[length]
            columns = source.find(name)
            if len(columns) > 1:
                raise _ambiguous(name, span, [source.name])
            if columns:
                return Found(columns[0].ref(), parts[length + 1 :])
            whole = ".".join(parts[:length])
            raise BindError(
                f'"{whole}" has no column "{name}"',
                code="E1201",
                span=span,
                hint=did_you_mean(name, [c.name for c in source.columns]),
            )
        return None

    def _column(self, parts: tuple[str, ...], span: Span | None) -> Found | None:
        name = parts[0]
        named = self._named(name)
        if len(named) > 1:
            if len(parts) > 1 and not any(v.type.root is TypeRoot.ROW for v in named):
                return None
            raise _ambiguous(name, span, [s.name for s in self.sources for _ in s.find(name)])
        if not named:
            return None
        value = named[0]
        if len(parts) > 1 and value.type.root is not TypeRoot.ROW:
            raise _not_a_row(parts, value, span)
        return Found(value, parts[1:])

    def _named(self, name: str) -> list[Expr]:
        if self.shows is not None:
            return [value for shown, value in self.shows if shown == name]
        return [c.ref() for s in self.sources for c in s.find(name)]

    def _unknown(self, parts: tuple[str, ...], span: Span | None) -> BindError:
        first = parts[0]
        if len(parts) > 1:
            names = [s.name for s in self.everywhere() if s.name is not None]
            return BindError(
                f'there is no relation "{first}" here',
                code="E1201",
                span=span,
                hint=did_you_mean(first, names) or "a relation is named in FROM",
            )
        columns = [c.name for s in self.everywhere() for c in s.columns]
        hint = COLUMNS.get(first.upper())
        tables = [s.name for s in self.everywhere() if s.name == first]
        if hint is None and tables:
            hint = f'"{first}" is a relation of FROM: name one of its columns, such as {_example(self, first)}'
        return BindError(
            f'unknown column "{first}"', code="E1201", span=span, hint=hint or did_you_mean(first, columns)
        )

    def everywhere(self) -> Iterator[Source]:
        """The relations of this scope and of all around it."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope.sources
            scope = scope.parent


def _example(scope: Scope, name: str) -> str:
    """A column of a relation, as it is written."""
    source = next(s for s in scope.everywhere() if s.name == name)
    return f"{name}.{source.columns[0].name}" if source.columns else f"{name}.*"


def outer(expr: Expr) -> Expr:
    """An expression of an enclosing query as a subquery refers to it."""
    return transform(expr, lambda e: OuterRef(e.id, e.name, e.type) if isinstance(e, ColumnRef) else e)


def _ambiguous(name: str, span: Span | None, owners: list[str | None]) -> BindError:
    """`owners`: the relation of each column of this name, None for relations without a name."""
    if len(set(owners)) < len(owners):
        hint = f'a relation has more than one column "{name}"; rename the columns there with AS'
    elif None in owners:
        hint = "give each relation of FROM a name with AS, and write it before the column"
    else:
        hint = "write " + " or ".join(f"{o}.{name}" for o in owners)
    return BindError(f'the column "{name}" is ambiguous', code="E1205", span=span, hint=hint)


def _not_a_row(parts: tuple[str, ...], value: Expr, span: Span | None) -> BindError:
    name, rest = parts[0], ".".join(parts[1:])
    hint = f'"{name}" is a column of type {value.type.with_nullable(True)}, which has no fields'
    if value.type.root is TypeRoot.MAP:
        hint = f"the value of a key of the map \"{name}\" is {name}['{rest}']"
    if value.type.root is TypeRoot.VARIANT:
        hint = f"the member of the variant \"{name}\" is {name}['{rest}']"
    return BindError(f'there is no relation "{name}" here', code="E1201", span=span, hint=hint)
