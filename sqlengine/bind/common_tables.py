"""Queries of WITH, and views, where they are used.

Each use is bound anew, under column ids of its own, so that every use is optimized for its place: filters and columns go
down into it. A large query that is used several times is bound, optimized and run once: a chain of WITH queries of which
each uses the one before it twice would double with every link. So is a query of WITH with values that differ each time:
all uses see the same.

Not shared: what carries time attributes (joins by time, windows and watermarks look through to their inputs), and what
stands inside another query.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.logical.expressions import node_expressions, walk_plan
from planner.logical.nodes import LogicalNode, Shared, WindowTable
from runtime.core.rooms import Room
from runtime.expr.analysis import is_deterministic, is_dynamic_otherwise
from runtime.expr.nodes import SubqueryExpr, fresh_column, walk
from sqlengine.bind.session import BoundQuery, CommonTable, QueryEnv
from sqlengine.catalog.objects import CatalogView

if TYPE_CHECKING:
    import sqlengine.bind.recursion as _recursion
else:
    _recursion = Room("sqlengine.bind.recursion")

__all__ = ["MOST_NODES_COPIED", "common_query", "view_query"]

MOST_NODES_COPIED = 60
"""A plan of more nodes is shared."""


def common_query(common: CommonTable, tree: exp.Table, env: QueryEnv) -> BoundQuery:
    """The query of a common table where `tree` names it."""
    if common.rounds is not None:
        return _recursion.last_round(common, common.rounds, tree, env)
    if common.recursive:
        return _recursion.bind_recursive(common)
    if common.uses < 2 or common.env.outer is not None or common.bound == [None]:
        return common.env.query(common.query)
    if not common.bound:
        first = common.env.query(common.query)
        shares = _is_large(first.plan) or _differs(first.plan, common.env)
        common.bound.append(first if shares and not _has_time(first.plan) else None)
        if common.bound == [None]:
            return first
    (shared,) = common.bound
    assert shared is not None
    columns = tuple(fresh_column(c.name, c.type) for c in shared.plan.columns)
    return BoundQuery(Shared(columns, shared.plan, common.name), shared.names)


def view_query(view: CatalogView, tree: exp.Table, env: QueryEnv, bind: Callable[[], BoundQuery]) -> BoundQuery:
    """The query of a view where `tree` names it; `bind` binds it anew. It is shared when the same text names it again."""
    key = (str(view.path), view.temporary)
    shared = env.views_bound.get(key)
    if shared is None:
        shared = bind()
        if not _is_large(shared.plan) or _has_time(shared.plan) or _mentions(tree) < 2:
            return shared
        env.views_bound[key] = shared
    columns = tuple(fresh_column(c.name, c.type) for c in shared.plan.columns)
    return BoundQuery(Shared(columns, shared.plan, view.path.name), shared.names)


def _mentions(tree: exp.Table) -> int:
    """How often a name stands in the text around it."""
    path = [p.name for p in tree.parts]
    return sum([p.name for p in other.parts] == path for other in tree.root().find_all(exp.Table))


def _is_large(plan: LogicalNode) -> bool:
    return sum(1 + len(_inner(node)) for node in _nodes(plan)) > MOST_NODES_COPIED


def _differs(plan: LogicalNode, env: QueryEnv) -> bool:
    """Whether a value of the plan may be another one each time."""
    functions = env.context.functions
    expressions = [expr for node in _nodes(plan) for expr in node_expressions(node)]
    return any(not is_deterministic(e, functions) or is_dynamic_otherwise(e, functions) for e in expressions)


def _has_time(plan: LogicalNode) -> bool:
    return any(
        isinstance(node, WindowTable) or any(c.type.time_attribute is not None for c in node.columns)
        for node in _nodes(plan)
    )


def _nodes(plan: LogicalNode) -> list[LogicalNode]:
    found = walk_plan(plan)
    return found + [deep for node in found for inner in _inner(node) for deep in _nodes(inner)]


def _inner(node: LogicalNode) -> list[LogicalNode]:
    parts = (part for expression in node_expressions(node) for part in walk(expression))
    return [p.plan for p in parts if isinstance(p, SubqueryExpr) and isinstance(p.plan, LogicalNode)]
