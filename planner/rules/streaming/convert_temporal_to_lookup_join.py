"""A temporal join at processing time asks the outside table for each row, or keeps the other side to ask it.

    TemporalJoin k as of proctime (d.uid = l.uid AND c) X (Scan d)   →   LookupJoin k d(uid = l.uid) on c X
    TemporalJoin k as of proctime c X Y                              →   CurrentJoin k on c X Y

Equalities of a plain column of the table with the left row or a constant are the keys that the table is asked by;
filters and other conditions are tested on what comes back. Streaming: no state; changes of the table do not change
rows that are out. A retraction asks again and may get another answer. PlanningError when no equality gives a key. A
table that cannot be asked by key, and any other relation, is kept as it is now: state follows its rows.
"""

from __future__ import annotations

from planner.logical.build import null, only_columns, passing
from planner.logical.nodes import (
    AssignWatermark,
    CurrentJoin,
    Filter,
    LogicalNode,
    LookupJoin,
    Project,
    Scan,
    TemporalJoin,
)
from planner.rule import Rule, RuleContext
from runtime.core.errors import PlanningError, UnsupportedError
from runtime.core.types import BOOLEAN
from runtime.expr.analysis import columns_of, conjuncts
from runtime.expr.nodes import Call, Case, Column, ColumnRef, Expr
from runtime.expr.rewrite import conjunction, substitute
from runtime.spi.lookup import LookupTable

__all__ = ["RULE"]


def convert_temporal_to_lookup_join(node: TemporalJoin, context: RuleContext) -> LogicalNode | None:
    if node.snapshot is not None or not node.time.type.is_proctime:
        return None
    looked_up = _looked_up(node)
    if looked_up is None:
        if context.batch:
            raise UnsupportedError(
                "a join as of processing time needs a table that can be asked by key in batch mode",
                span=node.span,
                hint="in batch mode rows have no moment in which they come: write a regular join",
            )
        return CurrentJoin(node.left, node.right, node.kind, node.condition)
    scan, conditions, values, lookup = looked_up
    fields = {c.id: c.name for c in scan.scanned}
    conditions = [*(substitute(c, values) for c in conjuncts(node.condition)), *conditions]
    left = frozenset(c.id for c in node.left.columns)
    keys: dict[str, Expr] = {}
    rest: list[Expr] = []
    for condition in conditions:
        key = _key(condition, fields, left)
        if key is None or key[1] in keys:
            rest.append(condition)
        else:
            keys[key[1]] = key[0]
    if not keys:
        raise PlanningError(
            f'a lookup join needs an equality with a column of "{scan.name}"',
            span=node.span,
            hint="add ... ON <left column> = <column of the table>",
        )
    pairs = tuple((expr, name) for name, expr in keys.items())
    join = LookupJoin(
        node.left, lookup, scan.name, node.kind, pairs, scan.scanned, conjunction(rest), node.retry, node.requests
    )
    if node.right.columns == scan.scanned:
        return join
    key_column = next(c for c in scan.scanned if c.name == pairs[0][1])
    return Project(join, (*passing(join.columns[: len(left)]), *_right_items(node, values, key_column)))


def _looked_up(node: TemporalJoin) -> tuple[Scan, list[Expr], dict[int, Expr], LookupTable] | None:
    """The scan below the right side, the filters on the way in terms of its columns, and what each column of the
    right side is, and the table to ask; None where there is no such table."""
    chain: list[LogicalNode] = []
    source = node.right
    while isinstance(source, Project | Filter | AssignWatermark):
        chain.append(source)
        source = source.input
    if not isinstance(source, Scan) or source.lookup is None:
        return None
    values: dict[int, Expr] = {c.id: c.ref() for c in source.scanned}
    conditions: list[Expr] = []
    for step in reversed(chain):
        if isinstance(step, Filter):
            conditions.extend(substitute(c, values) for c in conjuncts(step.predicate))
        elif isinstance(step, Project):
            values = {id_: substitute(e, values) for id_, e in only_columns(step.items).items()}
    return source, conditions, values, source.lookup


def _key(condition: Expr, fields: dict[int, str], left: frozenset[int]) -> tuple[Expr, str] | None:
    if not isinstance(condition, Call) or condition.function != "=" or len(condition.args) != 2:
        return None
    for column, value in (condition.args, condition.args[::-1]):
        if isinstance(column, ColumnRef) and column.id in fields and columns_of(value) <= left:
            return value, fields[column.id]
    return None


def _right_items(node: TemporalJoin, values: dict[int, Expr], key: Column) -> tuple[tuple[Column, Expr], ...]:
    """The right side's columns over the looked-up ones; a computed one is NULL where no row was found."""
    found = Call("IS NOT NULL", (key.with_type(key.type.with_nullable(True)).ref(),), BOOLEAN.not_null())
    items: list[tuple[Column, Expr]] = []
    for column in node.columns[len(node.left.columns) :]:
        value = values[column.id]
        if node.kind.keeps_left and not isinstance(value, ColumnRef):
            value = Case(((found, value),), null(column.type), column.type.with_nullable(True))
        elif node.kind.keeps_left:
            value = value.with_(type=value.type.with_nullable(True))
        items.append((column, value))
    return tuple(items)


RULE = Rule("convert_temporal_to_lookup_join", TemporalJoin, convert_temporal_to_lookup_join, essential=True)
