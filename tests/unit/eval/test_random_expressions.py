"""Random conditions over columns with NULLs, against DuckDB, where both speak the same SQL."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
from expression_builders import FUNCTIONS, call, lit

from runtime.core.types import BOOLEAN, INT, STRING
from runtime.eval.evaluator import BatchContext, Evaluator, Stage
from runtime.expr.display import show
from runtime.expr.nodes import Case, Expr, InList, InputRef, Literal
from runtime.expr.rewrite import conjunction, disjunction, negation

ROWS = 60
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
NAMES = ("a", "b", "s", "t")


def table(rng: np.random.Generator) -> pa.RecordBatch:
    def with_nulls(values: list[object], type_: pa.DataType) -> pa.Array:
        return pa.array(values, type_, mask=rng.random(ROWS) < 0.2)

    numbers = [with_nulls(rng.integers(-3, 4, ROWS).tolist(), pa.int32()) for _ in range(2)]
    words = [with_nulls(rng.choice(["", "a", "ab", "b%", "B"], ROWS).tolist(), pa.string()) for _ in range(2)]
    return pa.RecordBatch.from_arrays([*numbers, *words], names=list(NAMES))


class Maker:
    """Random typed expressions; a remainder stands behind a test of its divisor, so it must not fail."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def _pick(self, options: int) -> int:
        return int(self._rng.integers(options))

    def number(self, depth: int) -> Expr:
        match self._pick(7 if depth else 2):
            case 0:
                return InputRef(self._pick(2), INT)
            case 1:
                return lit(int(self._rng.integers(-3, 4)))
            case 2 | 3:
                return call(("+", "-", "*")[self._pick(3)], self.number(depth - 1), self.number(depth - 1))
            case 4:
                return Case(((self.condition(depth - 1), self.number(depth - 1)),), self.number(depth - 1), INT)
            case 5:
                divisor = self.number(0)
                guarded = call("%", self.number(depth - 1), divisor)
                return Case(((call("<>", divisor, 0), guarded),), lit(9), INT)
            case _:
                return call("COALESCE", self.number(depth - 1), self.number(depth - 1))

    def word(self) -> Expr:
        return InputRef(2 + self._pick(2), STRING) if self._pick(3) else lit("a" * self._pick(2), STRING)

    def condition(self, depth: int) -> Expr:
        match self._pick(9 if depth else 3):
            case 0 | 1:
                return call(COMPARISONS[self._pick(8)], self.number(depth), self.number(depth))
            case 2:
                return call(COMPARISONS[self._pick(8)], self.word(), self.word())
            case 3:
                return conjunction([self.condition(depth - 1) for _ in range(2 + self._pick(2))])
            case 4:
                return disjunction([self.condition(depth - 1) for _ in range(2 + self._pick(2))])
            case 5:
                return negation(self.condition(depth - 1))
            case 6:
                items: list[Expr] = [self.number(0) for _ in range(3)] + [Literal(None, INT)] * self._pick(2)
                return InList(self.number(depth - 1), tuple(items), BOOLEAN)
            case 7:
                tests = ("IS NULL", "IS NOT NULL", "IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE")
                return call(tests[self._pick(6)], self.condition(depth - 1))
            case _:
                return call("LIKE", self.word(), ("a%", "%b%", "_", "b!%")[self._pick(4)])


def test_conditions_equal_duckdb() -> None:
    rng = np.random.default_rng(11)
    connection = duckdb.connect()
    rows = table(rng)
    connection.register("t", pa.Table.from_batches([rows]))
    maker = Maker(rng)
    for _ in range(250):
        expr = maker.condition(3)
        sql = show(expr, lambda e: NAMES[e.index] if isinstance(e, InputRef) else None)
        expected = connection.sql(f"SELECT ({sql}) AS r FROM t").to_arrow_table().column(0).to_pylist()
        (got,) = Evaluator([expr], FUNCTIONS).evaluate(rows, BatchContext(ROWS))
        assert got.to_pylist() == expected, sql
        kept, (column,) = Stage(expr, [InputRef(0, INT)], FUNCTIONS).run(rows, BatchContext(ROWS))
        positions = [i for i, e in enumerate(expected) if e is True]
        assert (list(range(ROWS)) if kept is None else kept.tolist()) == positions
        assert column.to_pylist() == [rows.column(0)[i].as_py() for i in positions]
