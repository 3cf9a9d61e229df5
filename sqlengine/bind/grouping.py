"""What GROUP BY says: keys, grouping sets, and the deprecated windows TUMBLE(time, size), HOP and SESSION.

`GROUP BY a, ROLLUP (b, c)` is the product of its items: the sets (a, b, c), (a, b) and (a). Numbers are constants here,
as in Flink, and aliases of SELECT have no meaning.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from planner.lower.emit import window_emit
from runtime.core.errors import BindError, Span, TypeMismatchError
from runtime.expr.nodes import Column, ColumnRef, Expr, SubqueryExpr, walk
from runtime.plan.windows import WindowEmit, WindowSpec
from sqlengine.bind.expression import ExpressionBinder
from sqlengine.bind.scope import Scope
from sqlengine.bind.session import Clause, QueryEnv
from sqlengine.bind.table_functions import milliseconds, window_of
from sqlengine.parse.nodes import FunctionCall
from sqlengine.parse.spans import span_of

__all__ = ["GroupBy", "GroupWindow", "bind_group_by"]

_WINDOWS = {"TUMBLE": ("SIZE", "OFFSET"), "HOP": ("SLIDE", "SIZE", "OFFSET"), "SESSION": ("GAP",)}


@dataclass(frozen=True, slots=True)
class GroupWindow:
    """A window in GROUP BY: `args` as bound, to recognise the same window in `TUMBLE_START(..)` and its like."""

    name: str
    args: tuple[Expr, ...]
    time: ColumnRef
    spec: WindowSpec
    span: Span | None
    emit: WindowEmit | None = None


@dataclass(frozen=True, slots=True)
class GroupBy:
    """`keys` are the different expressions; each of `sets` holds positions of keys. One set is a plain GROUP BY."""

    keys: tuple[Expr, ...]
    sets: tuple[tuple[int, ...], ...]
    window: GroupWindow | None = None
    spans: dict[int, Span | None] = field(default_factory=dict)
    written: tuple[tuple[exp.Expr, Expr], ...] = ()
    """Keys with subqueries as they were written."""

    @property
    def is_simple(self) -> bool:
        return len(self.sets) == 1

    @property
    def common(self) -> frozenset[int]:
        """Keys that are in every set: they are never NULL for being left out."""
        return frozenset.intersection(*(frozenset(s) for s in self.sets))

    @property
    def never_empty(self) -> bool:
        """Whether every group has a row: not so for the group of all rows."""
        return self.window is not None or all(self.sets)


def bind_group_by(
    tree: exp.Group | None, env: QueryEnv, scope: Scope, mentions: dict[int, Span]
) -> tuple[GroupBy, Scope]:
    """The grouping, and the scope for what is computed from it: keys that a grouping set leaves out may be NULL
    there.
    """
    if tree is None:
        return GroupBy((), ((),)), scope
    reader = _Reader(env, scope, mentions)
    group = reader.read(tree)
    if group.is_simple:
        return group, scope
    left_out = {
        e.id for i, k in enumerate(group.keys) if i not in group.common for e in walk(k) if isinstance(e, ColumnRef)
    }
    nullable = [Column(c.id, c.name, c.type.with_nullable(True)) for c in scope.columns if c.id in left_out]
    wider = scope.with_types(nullable)
    return _Reader(env, wider, mentions).read(tree), wider


class _Reader:
    def __init__(self, env: QueryEnv, scope: Scope, mentions: dict[int, Span]) -> None:
        self.binder = ExpressionBinder(env, scope, Clause("GROUP BY", row_sets=True), mentions=mentions)
        self._batch = env.context.batch
        self._options = env.context.options
        self.keys: list[Expr] = []
        self.window: GroupWindow | None = None
        self.written: list[tuple[exp.Expr, Expr]] = []

    def read(self, tree: exp.Group) -> GroupBy:
        alternatives = [self._item(item) for item in tree.expressions]
        sets = tuple(
            tuple(dict.fromkeys(itertools.chain.from_iterable(choice))) for choice in itertools.product(*alternatives)
        )
        if self.window is not None and len(sets) > 1:
            raise BindError(
                f"{self.window.name} in GROUP BY does not go with grouping sets",
                code="E1216",
                span=self.window.span,
                hint="use the window function in FROM: TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), size))",
            )
        return GroupBy(tuple(self.keys), sets, self.window, written=tuple(self.written))

    def _item(self, tree: exp.Expr) -> list[tuple[int, ...]]:
        """The sets that one item stands for."""
        match tree:
            case exp.Rollup():
                parts = [self._set(e) for e in tree.expressions]
                return [tuple(itertools.chain.from_iterable(parts[:n])) for n in range(len(parts), -1, -1)]
            case exp.Cube():
                parts = [self._set(e) for e in tree.expressions]
                picks = itertools.product((True, False), repeat=len(parts))
                return [tuple(itertools.chain.from_iterable(itertools.compress(parts, pick))) for pick in picks]
            case exp.GroupingSets():
                return [s for e in tree.expressions for s in self._item(e)]
            case _:
                if isinstance(tree, FunctionCall) and tree.name.upper() in _WINDOWS and not tree.qualifier:
                    self._window(tree)
                    return [()]
                return [self._set(tree)]

    def _set(self, tree: exp.Expr) -> tuple[int, ...]:
        written: Sequence[exp.Expr] = tree.expressions if isinstance(tree, exp.Tuple) else [tree]
        return tuple(self._key(e) for e in written)

    def _key(self, tree: exp.Expr) -> int:
        key = self.binder.bind(tree)
        if any(isinstance(e, SubqueryExpr) for e in walk(key)):
            self.written.append((tree, key))
        for index, known in enumerate(self.keys):
            if known == key:
                return index
        self.keys.append(key)
        return len(self.keys) - 1

    def _window(self, tree: FunctionCall) -> None:
        name, span = tree.name.upper(), span_of(tree)
        if self.window is not None:
            raise BindError(
                "GROUP BY has two windows",
                code="E1216",
                span=span,
                hint="group by one window, and the other in a query around it",
            )
        parameters = _WINDOWS[name]
        if not 2 <= len(tree.expressions) <= len(parameters) + 1:
            raise BindError(
                f"{name} in GROUP BY takes a time attribute and its lengths",
                code="E1230",
                span=span,
                hint="for example TUMBLE(ts, INTERVAL '5' MINUTE)",
            )
        args = tuple(self.binder.bind(e) for e in tree.expressions)
        time = args[0]
        timed = time.type.time_attribute is not None or (self._batch and time.type.is_timestamp)
        if not isinstance(time, ColumnRef) or not timed:
            raise TypeMismatchError(
                f"{name} in GROUP BY takes a time attribute",
                code="E1231",
                span=span_of(tree.expressions[0]),
                hint="a column that its table's WATERMARK FOR names, or one that is PROCTIME()",
            )
        lengths = {p: milliseconds(a, p, span) for p, a in zip(parameters, args[1:], strict=False)}
        if any(p not in lengths for p in parameters if p != "OFFSET"):
            raise BindError(
                f"{name} in GROUP BY lacks a length",
                code="E1230",
                span=span,
                hint="for example HOP(ts, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)",
            )
        spec = window_of(name, lengths, span)
        emit = None if self._batch else window_emit(self._options, spec, time.type.is_proctime, span)
        self.window = GroupWindow(name, args, time, spec, span, emit)
