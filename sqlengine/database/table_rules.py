"""The constraints of a table, ready to look at its rows: conditions are bound to the columns, and evaluated in columns.

A condition means the same to all sessions and after a restart: functions are those that are built in, options have their
defaults, the time zone is UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import pyarrow as pa

from connectors.memory.constraints import CheckRule, TableRules, UniqueRule
from runtime.core.clock import Clock
from runtime.core.errors import Span, TypeMismatchError, UnsupportedError
from runtime.core.options import Options
from runtime.core.schema import Field, Schema
from runtime.core.types import BOOLEAN, TypeRoot
from runtime.eval.context import BatchContext
from runtime.eval.evaluator import Evaluator
from runtime.expr.analysis import columns_of
from runtime.expr.function import FunctionRegistry
from runtime.expr.library import builtin_functions
from runtime.expr.nodes import Column, Expr, fresh_column
from runtime.expr.rewrite import to_input_refs
from sqlengine.bind.binder import bind_expression
from sqlengine.catalog.objects import CatalogTable, Constraint, EpochNumber, PhysicalColumn
from sqlengine.parse.spans import span_of

__all__ = ["columns_read", "table_rules"]

_ZONE = "UTC"


def table_rules(table: CatalogTable, clock: Clock) -> TableRules:
    """What holds for every row of a table without connector. Raises what binding a condition raises."""
    schema = _schema(table)
    checks: list[CheckRule] = []
    uniques: list[UniqueRule] = []
    for constraint in table.constraints:
        if constraint.condition is not None:
            condition = _Condition(*_bound(constraint, schema), clock)
            checks.append(CheckRule(constraint.name, constraint.condition.text, condition.holds))
        elif not set(table.primary_key) <= set(constraint.columns) or not table.primary_key:
            positions = [schema.index_of(name) for name in constraint.columns]
            uniques.append(UniqueRule(constraint.name, positions, nulls_distinct=constraint.nulls_distinct))
    return TableRules(checks, uniques)


def columns_read(table: CatalogTable, constraint: Constraint) -> tuple[str, ...]:
    """The columns that a condition reads, in the order of the table. Raises what binding it raises, TypeMismatchError E1302
    for what is no condition."""
    condition, columns = _bound(constraint, _schema(table))
    read = columns_of(condition)
    return tuple(column.name for column in columns if column.id in read)


def _schema(table: CatalogTable) -> Schema:
    return Schema(tuple(Field(c.name, c.type.materialized()) for c in table.columns if isinstance(c, PhysicalColumn)))


def _bound(constraint: Constraint, schema: Schema) -> tuple[Expr, tuple[Column, ...]]:
    assert constraint.condition is not None
    columns = tuple(fresh_column(f.name, f.type) for f in schema)
    tree = constraint.condition.expression
    bound = bind_expression(tree, columns, _Everywhere(), place="CHECK")
    if bound.type.root not in (BOOLEAN.root, TypeRoot.NULL):
        raise TypeMismatchError(
            f"CHECK takes a condition, and this is {bound.type}",
            code="E1302",
            span=span_of(tree),
            hint="compare it with a value",
        )
    return bound, columns


@dataclass(frozen=True)
class _Condition:
    condition: Expr
    columns: tuple[Column, ...]
    clock: Clock

    def holds(self, rows: pa.RecordBatch) -> pa.Array:
        """For each row whether the condition is true, NULL where that is not known."""
        evaluator = Evaluator([to_input_refs(self.condition, self.columns)], builtin_functions())
        context = BatchContext(rows.num_rows, _ZONE, self.clock.now())
        (found,) = evaluator.evaluate(rows, context)
        return found.cast(pa.bool_())


@dataclass(frozen=True)
class _Everywhere:
    """A binding in which nothing depends on a session, and nothing but the columns of a row can be read."""

    functions: FunctionRegistry = field(default_factory=builtin_functions)
    options: Options = field(default_factory=lambda: Options({}))
    parameters: None = None
    time_zone: str = _ZONE
    current_database: str = ""
    batch: bool = False
    now: None = None

    def resolve(self, path: tuple[str, ...], span: Span | None, options: Mapping[str, str]) -> NoReturn:
        _refuse(path, span)

    def past(
        self, path: tuple[str, ...], span: Span | None, options: Mapping[str, str], moment: int | EpochNumber
    ) -> NoReturn:
        _refuse(path, span)

    def model(self, path: tuple[str, ...], span: Span | None) -> NoReturn:
        _refuse(path, span)

    def kept_query(self, path: tuple[str, ...]) -> None:
        return None

    def within(self, view: object) -> _Everywhere:
        return self


def _refuse(path: Sequence[str], span: Span | None) -> NoReturn:
    raise UnsupportedError(
        f"CHECK looks at its row alone, and cannot read {'.'.join(path)}", span=span, hint="compare columns and values"
    )
