"""Small tables and plans for tests of traits, lowering and cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from planner.logical import nodes as n
from planner.lower import LowerContext
from planner.traits.context import TraitContext
from runtime.core.changelog import APPEND, RETRACT, UPSERT, ChangelogMode
from runtime.core.options import Options
from runtime.core.schema import Field, Schema
from runtime.core.types import BIGINT, BOOLEAN, INT, STRING, DataType, TimeAttribute, timestamp
from runtime.expr.function import FunctionRegistry, ScalarFunction
from runtime.expr.nodes import TRUE, AggregateCall, Call, Column, ColumnRef, Expr, Literal, fresh_column
from runtime.expr.rewrite import conjunction
from runtime.plan.nodes import JoinKind
from runtime.spi.sink import Delivery
from runtime.spi.statistics import ColumnStatistics, TableStatistics

ROWTIME = timestamp(3, TimeAttribute.ROWTIME)


@dataclass(frozen=True)
class FakeSource:
    """A table of which only the description counts."""

    name: str
    schema: Schema
    changelog_mode: ChangelogMode = APPEND
    rows: float | None = None
    distinct: tuple[tuple[str, float], ...] = ()
    bounded: bool = False

    def statistics(self) -> TableStatistics:
        return TableStatistics(self.rows, tuple((c, ColumnStatistics(n)) for c, n in self.distinct))

    def splits(self) -> list[Any]:
        return []

    def open(self, split: Any, context: Any) -> Any:
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        return {"connector": "fake", "name": self.name}


@dataclass(frozen=True)
class FakeSink:
    """A sink that takes the given kinds of change."""

    schema: Schema
    primary_key: tuple[str, ...] = ()
    mode: ChangelogMode = RETRACT

    @property
    def delivery(self) -> Delivery:
        return "exactly-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return self.mode

    def open_writer(self, job: str) -> Any:
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        return {"connector": "fake"}


def scan(
    name: str,
    columns: dict[str, DataType],
    mode: ChangelogMode = APPEND,
    key: Sequence[str] = (),
    rows: float | None = None,
    distinct: dict[str, float] | None = None,
) -> n.Scan:
    """A fresh scan of a table."""
    made = tuple(fresh_column(c, t.not_null() if c in key else t) for c, t in columns.items())
    ids = {c.name: c.id for c in made}
    table = FakeSource(
        name, Schema(tuple(Field(c.name, c.type) for c in made)), mode, rows, tuple((distinct or {}).items())
    )
    return n.Scan(table, name, made, (tuple(ids[k] for k in key),) if key else ())


def bids() -> n.LogicalNode:
    """An insert-only stream with event time."""
    source = scan("bids", {"item": STRING, "price": INT, "ts": ROWTIME})
    return n.AssignWatermark(source, col(source, "ts"), col(source, "ts"))


def products(mode: ChangelogMode = RETRACT) -> n.Scan:
    """A table with changes, keyed by id."""
    return scan("products", {"id": INT, "cat": STRING, "price": INT}, mode, ("id",))


def col(plan: n.LogicalNode, name: str) -> ColumnRef:
    """The first column of that name."""
    return next(c for c in plan.columns if c.name == name).ref()


def call(function: str, *args: Expr, type_: DataType = BOOLEAN) -> Call:
    return Call(function, args, type_)


def eq(a: Expr, b: Expr) -> Call:
    return call("=", a, b)


def lit(value: int) -> Literal:
    return Literal(value, INT.not_null())


def project(plan: n.LogicalNode, *names: str, **computed: Expr) -> n.Project:
    items: list[tuple[Column, Expr]] = [(col(plan, name).column, col(plan, name)) for name in names]
    items += [(fresh_column(name, e.type), e) for name, e in computed.items()]
    return n.Project(plan, tuple(items))


def count_by(plan: n.LogicalNode, *names: str) -> n.Aggregate:
    return n.Aggregate(
        plan,
        tuple(col(plan, name) for name in names),
        ((fresh_column("n", BIGINT.not_null()), AggregateCall("COUNT", (), BIGINT.not_null())),),
    )


def join(left: n.LogicalNode, right: n.LogicalNode, *conditions: Expr, kind: JoinKind = JoinKind.INNER) -> n.Join:
    return n.Join(left, right, kind, conjunction(conditions) if conditions else TRUE)


def sink(
    plan: n.LogicalNode, mode: ChangelogMode = UPSERT, key: Sequence[str] = (), on_conflict: str | None = None
) -> n.Sink:
    table = FakeSink(Schema(tuple(Field(c.name, c.type) for c in plan.columns)), tuple(key), mode)
    return n.Sink(plan, table, "out", on_conflict=on_conflict)


def functions() -> FunctionRegistry:
    registry = FunctionRegistry()
    for name in ("+", "-", "*", "=", ">", "<", "UPPER"):
        registry.register(ScalarFunction(name=name, signatures=(), document=""))
    registry.register(ScalarFunction(name="/", signatures=(), document="", can_fail=True))
    registry.register(ScalarFunction(name="RAND", signatures=(), document="", deterministic=False))
    return registry


def traits(**options: str) -> TraitContext:
    return TraitContext(functions(), Options({k.replace("__", "."): v for k, v in options.items()}))


def context(options: dict[str, str] | None = None) -> LowerContext:
    return LowerContext(TraitContext(functions(), Options(options or {})), "UTC")
