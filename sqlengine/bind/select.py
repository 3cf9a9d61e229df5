"""SELECT: from its clauses to a plan, in the order in which they mean something.

    FROM -> WHERE -> GROUP BY -> HAVING -> OVER -> QUALIFY -> select list -> DISTINCT -> ORDER BY, LIMIT

All expressions that may hold aggregates or window functions (select list, HAVING, QUALIFY, ORDER BY) are bound over
FROM first; then aggregation and window functions take their calls out of them, each leaving references to columns of
the plan that it builds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from planner.logical.nodes import Filter, LogicalNode, Project, Values
from planner.lower.emit import emits_between
from runtime.core.errors import BindError, Span, did_you_mean, with_article
from runtime.core.rooms import Room
from runtime.core.types import TypeRoot
from runtime.expr.nodes import Call, Column, ColumnRef, Expr, fresh_column, walk
from sqlengine.bind.aggregate import Grouped, group_distinct, has_aggregates
from sqlengine.bind.construct import get_field
from sqlengine.bind.expression import ExpressionBinder
from sqlengine.bind.grouping import bind_group_by
from sqlengine.bind.hints import QueryHints, check_hint_names, query_hints
from sqlengine.bind.output import bounds, check_sortable, limited, ordinal, output_items, output_names, select_columns
from sqlengine.bind.relation import RelationBinder
from sqlengine.bind.scope import Scope
from sqlengine.bind.select_shorthands import left_out, spelled_out
from sqlengine.bind.session import BoundQuery, BoundRelation, Clause, QueryEnv
from sqlengine.bind.sort_keys import sort_key
from sqlengine.bind.window import extract_windows
from sqlengine.parse.nodes import FunctionCall
from sqlengine.parse.spans import span_of

if TYPE_CHECKING:
    import sqlengine.bind.emission as _emission
    import sqlengine.bind.row_sets as _row_sets
else:
    _emission = Room("sqlengine.bind.emission")
    _row_sets = Room("sqlengine.bind.row_sets")

__all__ = ["bind_select"]


@dataclass(frozen=True, slots=True)
class _Item:
    """A column of the select list; `aliased` when AS names it."""

    name: str | None
    value: Expr
    aliased: bool = False


def bind_select(tree: exp.Select, env: QueryEnv) -> BoundQuery:
    """The plan of a SELECT with its ORDER BY and LIMIT."""
    tree = spelled_out(tree, env.context.functions)
    hints = query_hints(tree, env.context.options)
    start = _from(tree, env, hints)
    scope = Scope(start.scope.sources, start.scope.shows, env.outer)
    check_hint_names(tree, scope.sources, env.context.options)
    plan = start.plan
    mentions: dict[int, Span] = {}
    where, group_tree = tree.args.get("where"), tree.args.get("group")
    try:
        if where is not None:
            plan = Filter(plan, ExpressionBinder(env, scope, Clause("WHERE")).condition(where.this, "WHERE"))
        # Only what the groups are asked for can be refused for not being grouped.
        group, scope = bind_group_by(group_tree, env, scope, {})
        emit = tree.args.get("emit")
        if emit is not None or emits_between(env.context.options):
            group = _emission.emitted(emit, group, plan, env.context)
    except BindError as error:
        _tell_of_alias(error, tree)
        raise

    windows = _named_windows(tree)
    never_empty = group_tree is not None and group.never_empty
    clause = Clause("SELECT", aggregates=True, windows=True, never_empty=never_empty, row_sets=True)
    binder = ExpressionBinder(env, scope, clause, windows=windows, mentions=mentions, keys=group.written)
    items = _select_list(binder, tree.expressions)
    aliases = {i.name: i.value for i in items if i.aliased and i.name is not None}
    rest = _Rest(tree, binder, items, aliases)

    expressions = rest.all([i.value for i in items])
    row_sets = any(isinstance(e, Call) and e.function == "UNNEST" for r in (*expressions, *group.keys) for e in walk(r))
    if row_sets:
        plan, group, expressions = _row_sets.of_groups(plan, group, expressions, env.context.functions)
    own_ttl = _only_ttl(scope, hints.ttl)
    if group_tree is not None or rest.having is not None or has_aggregates(expressions):
        grouped = Grouped(plan, group, expressions, mentions, own_ttl)
        # The hint is about the rows of the relation: what stands above the groups goes by the option.
        own_ttl = None
        plan = grouped.plan
        values = rest.replace([grouped.rewrite(e) for e in expressions])
    else:
        values = rest.replace(expressions)
    if rest.having is not None:
        plan = Filter(plan, rest.having)
        rest.having = None
    plan, expressions = extract_windows(plan, rest.all(values), own_ttl)
    values = rest.replace(expressions)
    if rest.qualify is not None:
        plan = Filter(plan, rest.qualify)
        rest.qualify = None
    if row_sets:
        plan, expressions = _row_sets.spread(plan, rest.all(values), env.context.functions)
        values = rest.replace(expressions)
    names = output_names([i.name for i in items])
    return _project(plan, tree, env, names, values, rest.order)


def _from(tree: exp.Select, env: QueryEnv, hints: QueryHints) -> BoundRelation:
    from_ = tree.args.get("from_")
    if from_ is None:
        return BoundRelation(Values(((),), ()), Scope(parent=env.outer))
    return RelationBinder(env, hints).from_clause(from_.this, list(tree.args.get("joins") or ()))


def _tell_of_alias(error: BindError, tree: exp.Select) -> None:
    """WHERE and GROUP BY come before the select list: an alias that they name gets a hint of its own."""
    if error.code != "E1201":
        return
    for item in tree.expressions:
        if isinstance(item, exp.Alias) and error.message == f'unknown column "{item.args["alias"].name}"':
            error.hint = "this is an alias of SELECT, which WHERE and GROUP BY do not know: repeat its expression"


def _named_windows(tree: exp.Select) -> dict[str, exp.Window]:
    found: dict[str, exp.Window] = {}
    for window in tree.args.get("windows") or ():
        name = window.this.name
        if name in found:
            raise BindError(
                f'the window "{name}" is defined twice', code="E1215", span=span_of(window), hint="rename one of them"
            )
        found[name] = window
    return found


def _only_ttl(scope: Scope, ttl: Mapping[str, int]) -> int | None:
    """The time to live that a hint gives the only relation of FROM."""
    names = [s.name for s in scope.sources]
    return ttl.get(names[0]) if len(names) == 1 and names[0] is not None else None


class _Rest:
    """The expressions beside the select list: HAVING, QUALIFY and the keys of ORDER BY, rewritten together with it."""

    def __init__(
        self, tree: exp.Select, binder: ExpressionBinder, items: Sequence[_Item], aliases: Mapping[str, Expr]
    ) -> None:
        self.having: Expr | None = None
        self.qualify: Expr | None = None
        self.order: list[tuple[exp.Ordered, int | Expr]] = []
        env, scope = binder.env, binder.scope
        shared: dict[str, Any] = {"windows": binder.windows, "mentions": binder.mentions, "keys": binder.keys}
        having, qualify, order = tree.args.get("having"), tree.args.get("qualify"), tree.args.get("order")
        if having is not None:
            clause = Clause("HAVING", aggregates=True, never_empty=binder.clause.never_empty)
            self.having = ExpressionBinder(env, scope, clause, **shared).condition(having.this, "HAVING")
        if qualify is not None:
            clause = Clause("QUALIFY", aggregates=True, windows=True, never_empty=binder.clause.never_empty)
            self.qualify = ExpressionBinder(env, scope, clause, aliases=aliases, **shared).condition(
                qualify.this, "QUALIFY"
            )
        if order is not None:
            clause = replace(binder.clause, name="ORDER BY")
            shown = {**_columns_by_name(items), **aliases}
            by_name = ExpressionBinder(env, scope, clause, aliases=shown, aliases_first=True, **shared)
            for item in order.expressions:
                position = ordinal(item, len(items))
                self.order.append((item, position if position is not None else by_name.bind(item.this)))

    def all(self, values: Sequence[Expr]) -> list[Expr]:
        """The values of the select list and all that is here, as one list."""
        found = list(values)
        found += [e for e in (self.having, self.qualify) if e is not None]
        return found + [e for _, e in self.order if isinstance(e, Expr)]

    def replace(self, expressions: Sequence[Expr]) -> list[Expr]:
        """Takes back what `all` gave, changed; returns the values of the select list."""
        pending = list(expressions)
        for index in range(len(self.order) - 1, -1, -1):
            item, key = self.order[index]
            if isinstance(key, Expr):
                self.order[index] = (item, pending.pop())
        if self.qualify is not None:
            self.qualify = pending.pop()
        if self.having is not None:
            self.having = pending.pop()
        return pending


def _columns_by_name(items: Sequence[_Item]) -> dict[str, Expr]:
    """The values of the select list whose name no other one has: ORDER BY means these before columns of FROM."""
    often = Counter(item.name for item in items)
    return {item.name: item.value for item in items if item.name is not None and often[item.name] == 1}


def _select_list(binder: ExpressionBinder, trees: Sequence[exp.Expr]) -> list[_Item]:
    items: list[_Item] = []
    for tree in trees:
        match tree:
            case exp.Star():
                items += left_out(_star(binder, tree), tree)
            case exp.Column(this=exp.Star() as star):
                items += left_out(_star_of(binder, tree), star)
            case exp.Dot(expression=exp.Star() as star):
                items += left_out(_fields(binder.bind(tree.this), tree), star)
            case exp.Alias():
                items.append(_Item(tree.args["alias"].name, binder.bind(tree.this), aliased=True))
            case _:
                items.append(_Item(_name_of(tree), binder.bind(tree)))
    return items


def _star(binder: ExpressionBinder, tree: exp.Expr) -> list[_Item]:
    found = [_Item(name, value) for name, value in binder.scope.star()]
    if not binder.scope.sources:
        raise BindError("* needs a FROM", code="E1206", span=span_of(tree), hint="say from which table")
    _mention(binder, found, tree)
    return found


def _mention(binder: ExpressionBinder, items: Sequence[_Item], tree: exp.Expr) -> None:
    span = span_of(tree)
    for item in items:
        if isinstance(item.value, ColumnRef) and span is not None:
            binder.mentions.setdefault(item.value.id, span)


def _star_of(binder: ExpressionBinder, tree: exp.Column) -> list[_Item]:
    """`t.*`: the columns of a relation, or the fields of a row."""
    parts = tuple(p.name for p in tree.parts[:-1])
    scope: Scope | None = binder.scope
    source = scope.source(parts, span_of(tree)) if scope is not None else None
    if source is not None:
        found = [_Item(c.name, c.ref()) for c in source.shown]
        _mention(binder, found, tree)
        return found
    names = [s.name for s in binder.scope.everywhere() if s.name is not None]
    columns = {c.name for s in binder.scope.everywhere() for c in s.columns}
    if len(parts) == 1 and parts[0] not in columns:
        raise BindError(
            f'there is no relation "{parts[0]}" here',
            code="E1201",
            span=span_of(tree),
            hint=did_you_mean(parts[0], names),
        )
    meant = binder.scope.resolve(parts, span_of(tree))
    value = meant.value
    for name in meant.fields:
        value = get_field(value, name, span_of(tree))
    return _fields(value, tree)


def _fields(value: Expr, tree: exp.Expr) -> list[_Item]:
    if value.type.root is not TypeRoot.ROW:
        raise BindError(
            f".* takes a relation or a row, and this is {with_article(value.type.with_nullable(True))}",
            code="E1207",
            span=span_of(tree),
            hint="name the column without .*",
        )
    return [_Item(f.name, get_field(value, f.name, span_of(tree))) for f in value.type.fields]


def _name_of(tree: exp.Expr) -> str | None:
    """The name that a column of the select list has without AS: that of a column, field, or function that gives rows."""
    if isinstance(tree, exp.Column):
        return tree.this.name
    if isinstance(tree, exp.Dot):
        return tree.expression.name
    if isinstance(tree, FunctionCall) and tree.name.upper() in ("UNNEST", "GENERATE_SERIES"):
        return tree.name.lower()
    return None


def _project(
    plan: LogicalNode,
    tree: exp.Select,
    env: QueryEnv,
    names: tuple[str, ...],
    values: Sequence[Expr],
    order: Sequence[tuple[exp.Ordered, int | Expr]],
) -> BoundQuery:
    """Select list, DISTINCT, ORDER BY and LIMIT. A sort key that is not selected is computed beside the list and
    dropped after.
    """
    items = output_items(names, values)
    hidden: list[tuple[Column, Expr]] = []
    distinct = tree.args.get("distinct") is not None
    targets: list[int] = []
    for item, key in order:
        position = key if isinstance(key, int) else _position(values, key)
        if position is None:
            assert isinstance(key, Expr)
            if distinct:
                raise BindError(
                    "ORDER BY of SELECT DISTINCT takes only what is selected",
                    code="E1219",
                    span=span_of(item),
                    hint="add the expression to the select list",
                )
            position = len(items) + len(hidden)
            own = isinstance(key, ColumnRef) and key.id not in {c.id for c, _ in (*items, *hidden)}
            hidden.append((key.column if own else fresh_column(f"s{len(hidden)}", key.type), key))  # type: ignore[union-attr]
        check_sortable((*items, *hidden)[position][1], item)
        targets.append(position)
    wide = select_columns(plan, [*items, *hidden])
    if distinct:
        wide = group_distinct(wide)
    columns = wide.columns
    keys = [sort_key(columns[t].ref(), item) for t, (item, _) in zip(targets, order, strict=True)]
    offset, limit = bounds(tree, env)
    done = limited(wide, keys, offset, limit, env.keep_order, tree.args.get("order"))
    if hidden:
        done = Project(done, tuple((c, c.ref()) for c in done.columns[: len(items)]))
    return BoundQuery(done, names)


def _position(values: Sequence[Expr], key: Expr) -> int | None:
    return next((i for i, v in enumerate(values) if v == key), None)
