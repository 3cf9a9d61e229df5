"""Where the columns of a plan come from: the columns of tables from whose values they are computed.

What only decides which rows there are, such as a condition or a group, is no origin of a value. A function over whole
tables, and a pattern, may compute each column from all that they read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from planner.logical.expressions import node_expressions
from planner.logical.join_nodes import LookupJoin
from planner.logical.nodes import (
    Aggregate,
    Except,
    Expand,
    Intersect,
    LogicalNode,
    Over,
    Project,
    Remember,
    Scan,
    Shared,
    TopN,
    Union,
    Unnest,
    WindowAggregate,
    WindowTable,
    WindowTopN,
)
from planner.logical.recursive import LastRound, Recursive
from runtime.expr.nodes import Column, ColumnRef, Expr, OuterRef, SubqueryExpr, walk

__all__ = ["Origin", "Origins", "column_origins", "tables_read"]

Origin = tuple[str, str]
"""The full name of a table, and a column of it."""
Origins = frozenset[Origin]
_Known = dict[int, Origins]
_ROUNDS = 32
"""A recursive query is followed so far: origins only become more, and few."""


def column_origins(plan: LogicalNode) -> list[Origins]:
    """For each column of a plan the columns of tables that it comes from."""
    return _of(plan.columns, _Reading({}).known(plan, {}))


def tables_read(plan: LogicalNode) -> frozenset[str]:
    """The full names of all tables that a plan reads, for rows or for conditions."""
    found: set[str] = set()
    waiting: list[LogicalNode] = [plan]
    while waiting:
        node = waiting.pop()
        waiting.extend(node.inputs)
        if isinstance(node, Scan | LookupJoin):
            found.add(node.name)
        elif isinstance(node, Shared):
            waiting.append(node.plan)
        for expression in node_expressions(node):
            for part in walk(expression):
                if isinstance(part, SubqueryExpr) and isinstance(part.plan, LogicalNode):
                    waiting.append(part.plan)
    return frozenset(found)


def _of(columns: Iterable[Column], known: Mapping[int, Origins]) -> list[Origins]:
    return [known.get(column.id, frozenset()) for column in columns]


def _all(origins: Iterable[Origins]) -> Origins:
    return frozenset().union(*origins)


class _Reading:
    """One plan. `rounds`: what is known of recursive queries whose inside is being read."""

    def __init__(self, rounds: dict[int, list[Origins]]) -> None:
        self._rounds = rounds
        self._shared: dict[LogicalNode, list[Origins]] = {}

    def known(self, node: LogicalNode, outer: Mapping[int, Origins]) -> _Known:
        """The origins of all columns at a node, by id; `outer`: of enclosing queries."""
        if isinstance(node, Recursive):
            return self._recursive(node, outer)
        known: _Known = dict(outer)
        for source in node.inputs:
            known.update(self.known(source, known))
        match node:
            case Scan(name=name, scanned=scanned):
                known.update((c.id, frozenset([(name, c.name)])) for c in scanned)
            case Shared(produced=produced, plan=plan):
                if plan not in self._shared:
                    self._shared[plan] = _of(plan.columns, self.known(plan, {}))
                self._give(known, produced, self._shared[plan])
            case LastRound(produced=produced, loop=loop):
                self._give(known, produced, self._rounds.get(loop, [frozenset()] * len(produced)))
            case Union() | Intersect() | Except():
                parts = [_of(part.columns, known) for part in node.inputs]
                self._give(known, node.produced, [_all(each) for each in zip(*parts, strict=True)])
            case Expand(projections=projections, produced=produced):
                for position, column in enumerate(produced):
                    known[column.id] = self._read((row[position] for row in projections), known)
            case LookupJoin(name=name, produced=produced):
                known.update((c.id, frozenset([(name, c.name)])) for c in produced)
            case _:
                self._computed(node, known)
        return known

    @staticmethod
    def _give(known: _Known, columns: Sequence[Column], origins: Sequence[Origins]) -> None:
        known.update((c.id, o) for c, o in zip(columns, origins, strict=False))

    def _recursive(self, node: Recursive, outer: Mapping[int, Origins]) -> _Known:
        found = _of(node.left.columns, self.known(node.left, outer))
        for _ in range(_ROUNDS):
            self._rounds[node.loop] = found
            more = _of(node.right.columns, self.known(node.right, outer))
            merged = [a | b for a, b in zip(found, more, strict=False)]
            if merged == found:
                break
            found = merged
        known: _Known = dict(outer)
        self._give(known, node.produced, found)
        return known

    def _computed(self, node: LogicalNode, known: _Known) -> None:
        """The columns that a node adds, from what it computes them; where it does not say, from all that it reads."""
        for column, expression in _pairs(node):
            known[column.id] = self._read((expression,), known)
        added = [column for column in node.columns if column.id not in known]
        if added:
            if isinstance(node, TopN | WindowTopN | Unnest | WindowTable | WindowAggregate):
                origins = self._read(_deciding(node), known)
            else:
                origins = _all(_of((c for source in node.inputs for c in source.columns), known))
            known.update((column.id, origins) for column in added)

    def _read(self, expressions: Iterable[Expr], known: Mapping[int, Origins]) -> Origins:
        found: list[Origins] = []
        for expression in expressions:
            for part in walk(expression):
                if isinstance(part, ColumnRef | OuterRef):
                    found.append(known.get(part.id, frozenset()))
                elif isinstance(part, SubqueryExpr) and isinstance(part.plan, LogicalNode):
                    found.extend(_of(part.plan.columns, self.known(part.plan, known)))
        return _all(found)


def _pairs(node: LogicalNode) -> Iterable[tuple[Column, Expr]]:
    match node:
        case Project(items=pairs) | Aggregate(calls=pairs) | Over(calls=pairs) | Remember(values=pairs):
            return pairs
        case WindowAggregate(calls=pairs):
            return pairs
        case _:
            return ()


def _deciding(node: LogicalNode) -> Iterable[Expr]:
    """What the columns that a node adds are computed from."""
    match node:
        case TopN(order=order) | WindowTopN(order=order):
            return [key.expr for key in order]
        case WindowAggregate(time=time, start=start, end=end):
            return [ref for ref in (time, start, end) if ref is not None]
        case WindowTable(time=time):
            return [time]
        case _:
            return node_expressions(node)
