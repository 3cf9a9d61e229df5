"""Joins: conditions, USING and NATURAL, and the relations that see the ones to their left.

JOIN .. ON, a comma, CROSS JOIN            Join
[LEFT] JOIN UNNEST(x) AS t (..)            Unnest over the left side
[LEFT] JOIN LATERAL (query)                DependentJoin, or Join when the query refers to nothing on the left
[LEFT] JOIN t FOR SYSTEM_TIME AS OF x      TemporalJoin
ASOF [LEFT] JOIN                           AsofJoin (`asof_join.py`)
[LEFT] JOIN LATERAL TABLE(SNAPSHOT(..))    TemporalJoin, in batch mode Join
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from sqlglot import exp

from planner.logical.expressions import outer_ids
from planner.logical.nodes import DependentJoin, Filter, Join, JoinKind, LogicalNode, TemporalJoin, Unnest
from runtime.core.errors import BindError, Span, TypeMismatchError, UnsupportedError, did_you_mean, with_article
from runtime.core.rooms import Room
from runtime.core.types import BOOLEAN, INT, TypeRoot
from runtime.expr.function import ScalarFunction
from runtime.expr.nodes import TRUE, Call, Case, Column, Expr, fresh_column
from sqlengine.bind.coerce import unify
from sqlengine.bind.expression import ExpressionBinder
from sqlengine.bind.operators import conjunction, equality
from sqlengine.bind.scope import Scope, Source
from sqlengine.bind.session import BoundRelation, Clause, RelationRules
from sqlengine.bind.subquery import one_row
from sqlengine.parse.nodes import TableFunction
from sqlengine.parse.spans import span_of

if TYPE_CHECKING:
    import sqlengine.bind.asof_join as _asof_join
    import sqlengine.bind.row_sets as _row_sets
    import sqlengine.bind.snapshot as _snapshot
    import sqlengine.bind.time_travel as _time_travel
    import sqlengine.bind.vector_search as _vector_search
else:
    _asof_join = Room("sqlengine.bind.asof_join")
    _row_sets = Room("sqlengine.bind.row_sets")
    _snapshot = Room("sqlengine.bind.snapshot")
    _time_travel = Room("sqlengine.bind.time_travel")
    _vector_search = Room("sqlengine.bind.vector_search")

__all__ = ["as_rows", "bind_joins", "bind_unnest", "bind_vectors", "is_search", "lateral_query"]

_KINDS = {
    None: JoinKind.INNER,
    "": JoinKind.INNER,
    "LEFT": JoinKind.LEFT,
    "RIGHT": JoinKind.RIGHT,
    "FULL": JoinKind.FULL,
}


def bind_joins(rules: RelationRules, first: BoundRelation, joins: list[exp.Join]) -> BoundRelation:
    """The relation with all joins after it, left to right."""
    bound = first
    for tree in joins:
        bound = _join(rules, bound, tree)
    return bound


def _join(rules: RelationRules, left: BoundRelation, tree: exp.Join) -> BoundRelation:
    kind = _KINDS[tree.args.get("side") or None]
    right = as_rows(rules, tree.this)
    if tree.args.get("method") == "ASOF":
        _asof_join.check_asof(right, kind, tree)
    if isinstance(right, exp.Unnest):
        return _join_unnest(rules, left, tree, right, kind)
    if is_search(right):
        return _join_search(rules, left, tree, right, kind)
    if isinstance(right, exp.Lateral):
        return _join_lateral(rules, left, tree, right, kind)
    versions = right if isinstance(right, exp.Table) and right.args.get("version") is not None else None
    if versions is not None and not _time_travel.is_constant_moment(versions):
        return _join_versions(rules, left, tree, versions, kind)
    if tree.args.get("method") == "ASOF":
        return _asof(rules, left, rules.relation(right, rules.env), tree, kind)
    if isinstance(right, TableFunction) and right.args.get("lateral") and right.call.name.upper() == "SNAPSHOT":
        return _join_snapshot(rules, left, tree, right, kind)
    lateral = isinstance(right, TableFunction) and right.args.get("lateral")
    env = rules.env.inside(_seen(rules, left)) if lateral else rules.env
    return _joined(rules, left, rules.relation(right, env), tree, kind)


def _joined(
    rules: RelationRules, left: BoundRelation, right: BoundRelation, tree: exp.Join, kind: JoinKind
) -> BoundRelation:
    condition, scope = _condition(rules, left, right, tree, kind)
    plan = Join(left.plan, right.plan, kind, condition, _hints(rules, left, right))
    return BoundRelation(plan, scope.with_types(plan.columns))


def _asof(
    rules: RelationRules, left: BoundRelation, right: BoundRelation, tree: exp.Join, kind: JoinKind
) -> BoundRelation:
    condition, scope = _condition(rules, left, right, tree, kind)
    match = tree.args.get("match_condition")
    nearest = None
    if match is not None:
        both = left.scope.beside(right.scope, (), rules.env.outer)
        nearest = ExpressionBinder(rules.env, both, Clause("MATCH_CONDITION")).condition(match, "MATCH_CONDITION")
    plan = _asof_join.asof_plan(left.plan, right.plan, kind, condition, nearest, tree)
    return BoundRelation(plan, scope.with_types(plan.columns))


def _seen(rules: RelationRules, left: BoundRelation) -> Scope:
    """The left side as a relation to its right sees it."""
    return Scope(left.scope.sources, left.scope.shows, rules.env.outer)


def _hints(rules: RelationRules, left: BoundRelation, right: BoundRelation) -> tuple[tuple[str, str], ...]:
    """STATE_TTL of the sides that are one relation: ("left", milliseconds), ("right", milliseconds); and ("multi", "") where
    MULTI_JOIN names all relations of both sides."""
    found: list[tuple[str, str]] = []
    for key, side in (("left", left), ("right", right)):
        names = [s.name for s in side.scope.sources]
        ttl = rules.hints.ttl.get(names[0]) if len(names) == 1 and names[0] is not None else None
        if ttl is not None:
            found.append((key, str(ttl)))
    names = {s.name for side in (left, right) for s in side.scope.sources}
    if any(names <= merged for merged in rules.hints.merged):
        found.append(("multi", ""))
    return tuple(found)


def _condition(
    rules: RelationRules, left: BoundRelation, right: BoundRelation, tree: exp.Join, kind: JoinKind
) -> tuple[Expr, Scope]:
    """The condition of a join over both sides, and the scope of both sides."""
    _refuse_twice(left, right, tree)
    using = tree.args.get("using")
    names: list[tuple[str, Span | None]]
    if tree.args.get("method") == "NATURAL":
        mine = {n for n, _ in right.scope.star()}
        names = [(n, span_of(tree)) for n, _ in left.scope.star() if n in mine]
    elif using:
        names = [(c.name, span_of(c)) for c in using]
    else:
        on = tree.args.get("on")
        scope = left.scope.beside(right.scope, (), rules.env.outer)
        if on is None:
            return TRUE, scope
        return ExpressionBinder(rules.env, scope, Clause("ON")).condition(on, "ON"), scope
    pairs: list[Expr] = []
    merged: list[tuple[str, Expr]] = []
    for name, span in dict(names).items():
        a, b = (_shared(side, name, span) for side in (left.scope, right.scope))
        pairs.append(equality(a, b, span))
        merged.append((name, _merge(a, b, kind)))
    return conjunction(pairs), left.scope.beside(right.scope, merged, rules.env.outer)


def _refuse_twice(left: BoundRelation, right: BoundRelation, tree: exp.Join) -> None:
    taken = {s.name for s in left.scope.sources if s.name is not None}
    for source in right.scope.sources:
        if source.name in taken and not (
            source.path and any(s.path != source.path for s in left.scope.sources if s.name == source.name)
        ):
            raise BindError(
                f'the name "{source.name}" stands for two relations of FROM',
                code="E1205",
                span=span_of(tree.this),
                hint="give one of them another alias",
            )


def _shared(scope: Scope, name: str, span: Span | None) -> Expr:
    local = Scope(scope.sources, scope.shows)
    names = [n for n, _ in local.star()]
    if name not in names:
        raise BindError(
            f'the column "{name}" of USING is not on both sides of the join',
            code="E1201",
            span=span,
            hint=did_you_mean(name, names),
        )
    return local.resolve((name,), span).value


def _merge(left: Expr, right: Expr, kind: JoinKind) -> Expr:
    match kind:
        case JoinKind.RIGHT:
            return right
        case JoinKind.FULL:
            present = Call("IS NOT NULL", (left,), BOOLEAN.not_null())
            (first, second), result = unify((left, right), "USING")
            return Case(((present, first),), second, result.with_nullable(True))
        case _:
            return left


# Relations that see the left side


def _always_true(tree: exp.Join) -> bool:
    on = tree.args.get("on")
    return on is None or (isinstance(on, exp.Boolean) and bool(on.this))


def _join_unnest(
    rules: RelationRules, left: BoundRelation, tree: exp.Join, right: exp.Unnest, kind: JoinKind
) -> BoundRelation:
    if kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise UnsupportedError(
            "UNNEST stands on the right of an inner or LEFT JOIN",
            span=span_of(tree),
            hint="write t CROSS JOIN UNNEST(..) or t LEFT JOIN UNNEST(..) ON TRUE",
        )
    if kind is JoinKind.LEFT and not _always_true(tree):
        return _join_lateral(rules, left, tree, _as_lateral(right), kind)
    bound = bind_unnest(rules, left, right, outer_join=kind is JoinKind.LEFT)
    on = tree.args.get("on")
    if on is None or _always_true(tree):
        return bound
    scope = Scope(bound.scope.sources, bound.scope.shows, rules.env.outer)
    return BoundRelation(
        Filter(bound.plan, ExpressionBinder(rules.env, scope, Clause("ON")).condition(on, "ON")), bound.scope
    )


def _as_lateral(tree: exp.Unnest) -> exp.Lateral:
    """UNNEST as a query that reads it, which a LEFT JOIN takes with any condition."""
    inner = tree.copy()
    query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=inner))
    made = exp.Lateral(this=exp.Subquery(this=query), alias=inner.args.get("alias"))
    for part in (query, made, made.this):
        part.meta.update(tree.meta)
    return made


def is_search(tree: exp.Expr) -> TypeGuard[TableFunction]:
    """Whether a relation is VECTOR_SEARCH(..), which sees what stands to its left."""
    return isinstance(tree, TableFunction) and tree.call.name.upper() == "VECTOR_SEARCH"


def _join_search(
    rules: RelationRules, left: BoundRelation, tree: exp.Join, right: TableFunction, kind: JoinKind
) -> BoundRelation:
    if kind not in (JoinKind.INNER, JoinKind.LEFT) or (kind is JoinKind.LEFT and not _always_true(tree)):
        raise UnsupportedError(
            "VECTOR_SEARCH stands on the right of an inner join, or of a LEFT JOIN .. ON TRUE",
            span=span_of(tree),
            hint="filter with WHERE, and put the rows that search to the left",
        )
    bound = bind_vectors(rules, left, right, kind)
    on = tree.args.get("on")
    if on is None or _always_true(tree):
        return bound
    scope = Scope(bound.scope.sources, bound.scope.shows, rules.env.outer)
    return BoundRelation(
        Filter(bound.plan, ExpressionBinder(rules.env, scope, Clause("ON")).condition(on, "ON")), bound.scope
    )


def bind_vectors(rules: RelationRules, left: BoundRelation, tree: TableFunction, kind: JoinKind) -> BoundRelation:
    """`left, LATERAL TABLE(VECTOR_SEARCH(..)) AS s (..)`."""

    def relation(searched: exp.Expr) -> tuple[LogicalNode, Source]:
        bound = rules.relation(searched, rules.env)
        return bound.plan, bound.scope.sources[0]

    plan, columns = _vector_search.bind_search(tree.call, rules.env, left, _seen(rules, left), kind, relation)
    alias = tree.args.get("alias")
    names = [c.name for c in (alias.args.get("columns") or ())] if alias is not None else []
    if names and len(names) != len(columns):
        raise BindError(
            f"VECTOR_SEARCH gives {len(columns)} columns, and {len(names)} names are given for them",
            code="E1208",
            span=span_of(tree),
            hint="name them all, or none",
        )
    if names:
        columns = tuple(Column(c.id, n, c.type) for c, n in zip(columns, names, strict=True))
    name = alias.this.name if alias is not None and alias.this is not None else None
    return BoundRelation(plan, left.scope.beside(Scope([Source(name, columns)]), (), rules.env.outer))


def as_rows(rules: RelationRules, tree: exp.Expr) -> exp.Expr:
    """`LATERAL TABLE(f(..)) AS t (a, b)` of a function that gives rows as an array is UNNEST of that array; any other
    relation stays as it is."""
    if not isinstance(tree, TableFunction):
        return tree
    function = rules.env.context.functions.find(tree.call.name)
    if not isinstance(function, ScalarFunction) or not function.gives_rows:
        return tree
    alias = tree.args.get("alias")
    if function.name == "GENERATE_SERIES":
        alias = _named_like(alias, function.name.lower())
    unnest = exp.Unnest(expressions=[tree.call.copy()], offset=False, alias=alias)
    unnest.meta.update(tree.meta)
    return unnest


def _named_like(alias: exp.TableAlias | None, name: str) -> exp.TableAlias:
    """The alias of a series, whose only column is called as the whole, as in PostgreSQL."""
    if alias is not None and alias.args.get("columns"):
        return alias
    called = exp.to_identifier(name) if alias is None or alias.this is None else alias.this
    return exp.TableAlias(this=called.copy(), columns=[called.copy()])


def bind_unnest(rules: RelationRules, left: BoundRelation, tree: exp.Unnest, *, outer_join: bool) -> BoundRelation:
    """`left, UNNEST(x) [WITH ORDINALITY] AS t (..)`: a row of an array becomes its fields, a map key and value."""
    written = tree.expressions[0]
    span = span_of(tree)
    binder = ExpressionBinder(rules.env, _seen(rules, left), Clause("UNNEST", gives_rows=True))
    arrays = [binder.bind(e) for e in tree.expressions]
    several = len(arrays) > 1
    collection = _row_sets.in_lockstep(rules.env.context.functions, arrays, span) if several else arrays[0]
    kind = collection.type
    match kind.root:
        case TypeRoot.ARRAY | TypeRoot.MULTISET:
            element = kind.children[0]
            if element.root is TypeRoot.ROW:
                parts = [(f.name, f.type.with_nullable(f.type.nullable or element.nullable)) for f in element.fields]
            else:
                parts = [("f0", element)]
        case TypeRoot.MAP:
            parts = [("f0", kind.children[0]), ("f1", kind.children[1])]
        case _:
            raise TypeMismatchError(
                f"UNNEST takes an ARRAY, MAP or MULTISET, and this is {with_article(kind.with_nullable(True))}",
                code="E1302",
                span=span_of(written),
                hint="ARRAY[x] is an array of one value",
            )
    ordinality = bool(tree.args.get("offset"))
    if ordinality:
        parts.append(("ORDINALITY", INT.not_null()))
    alias = tree.args.get("alias")
    names = [c.name for c in (alias.args.get("columns") or ())] if alias is not None else []
    if names:
        if len(names) != len(parts):
            raise BindError(
                f"UNNEST gives {len(parts)} columns, and {len(names)} names are given for them",
                code="E1208",
                span=span,
                hint="name them all, or none",
            )
        parts = [(n, t) for n, (_, t) in zip(names, parts, strict=True)]
    produced = tuple(fresh_column(n, t) for n, t in parts)
    plan = Unnest(left.plan, collection, produced, ordinality, outer_join)
    columns = plan.columns[len(left.plan.columns) :]
    name = alias.this.name if alias is not None and alias.this is not None else None
    scope = left.scope.beside(Scope([Source(name, columns)]), (), rules.env.outer)
    return BoundRelation(plan, scope)


def lateral_query(rules: RelationRules, tree: exp.Lateral, seen: Scope | None) -> BoundRelation:
    """`LATERAL (query) AS a (..)` where `seen` is what stands to its left."""
    bound = rules.relation(_with_alias(tree), rules.env.inside(seen))
    return BoundRelation(_one_row_if_aggregate(bound.plan), bound.scope)


def _with_alias(tree: exp.Lateral) -> exp.Expr:
    inner = tree.this.copy()
    alias = tree.args.get("alias")
    if alias is not None:
        inner.set("alias", alias.copy())
    return inner


def _one_row_if_aggregate(plan: LogicalNode) -> LogicalNode:
    # LATERAL (SELECT COUNT(*) ..) gives a row for every left row, also when nothing matches.
    return one_row(plan) if outer_ids(plan) else plan


def _join_lateral(
    rules: RelationRules, left: BoundRelation, tree: exp.Join, right: exp.Lateral, kind: JoinKind
) -> BoundRelation:
    if kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise UnsupportedError(
            "LATERAL stands on the right of an inner or LEFT JOIN",
            span=span_of(tree),
            hint="exchange the sides of the join",
        )
    bound = lateral_query(rules, right, _seen(rules, left))
    if not outer_ids(bound.plan) & {c.id for c in left.plan.columns}:
        return _joined(rules, left, bound, tree, kind)
    condition, scope = _condition(rules, left, bound, tree, kind)
    plan = DependentJoin(left.plan, bound.plan, kind, condition)
    return BoundRelation(plan, scope.with_types(plan.columns))


def _join_versions(
    rules: RelationRules, left: BoundRelation, tree: exp.Join, right: exp.Table, kind: JoinKind
) -> BoundRelation:
    if kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise UnsupportedError(
            "FOR SYSTEM_TIME AS OF stands on the right of an inner or LEFT JOIN",
            span=span_of(tree),
            hint="put the versioned table on the right",
        )
    version = right.args["version"].expression
    time = ExpressionBinder(rules.env, _seen(rules, left), Clause("FOR SYSTEM_TIME AS OF", subqueries=False)).bind(
        version
    )
    if time.type.time_attribute is None:
        raise TypeMismatchError(
            "FOR SYSTEM_TIME AS OF takes a time attribute of the left side, "
            f"and this is {with_article(time.type.with_nullable(True))}",
            code="E1233",
            span=span_of(version),
            hint="a rowtime column, or a column that is PROCTIME()",
        )
    plain = right.copy()
    plain.set("version", None)
    bound = rules.table(plain, rules.env, for_lookup=time.type.is_proctime, versions=not time.type.is_proctime)
    condition, scope = _condition(rules, left, bound, tree, kind)
    requests, retry = rules.hints.lookups.get(bound.scope.sources[0].name or "") or (None, None)
    plan = TemporalJoin(
        left.plan, bound.plan, kind, time, condition, span=span_of(tree), retry=retry, requests=requests
    )
    return BoundRelation(plan, scope.with_types(plan.columns))


def _join_snapshot(
    rules: RelationRules, left: BoundRelation, tree: exp.Join, right: TableFunction, kind: JoinKind
) -> BoundRelation:
    if kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise UnsupportedError(
            "SNAPSHOT stands on the right of an inner or LEFT JOIN",
            span=span_of(tree),
            hint="exchange the sides of the join",
        )
    table, load = _snapshot.bind_snapshot(right.call, rules.env)
    named = table.copy()
    if right.args.get("alias") is not None:
        named.set("alias", right.args["alias"].copy())
    bound = rules.relation(named, rules.env)
    condition, scope = _condition(rules, left, bound, tree, kind)
    plan: LogicalNode = Join(left.plan, bound.plan, kind, condition)
    if not rules.env.context.batch:
        plan = TemporalJoin(left.plan, bound.plan, kind, TRUE, condition, span_of(tree), load)
    return BoundRelation(plan, scope.with_types(plan.columns))
