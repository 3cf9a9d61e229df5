"""Where in the user's own code an exception of a Python function came from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import AggregateFunction, TableEnvironment, col, udaf, udf


@pytest.fixture
def env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as environment:
        yield environment


def _boom(n: int) -> int:
    return 1 // (n - 2)


class Deep(AggregateFunction):
    """Fails some calls down."""

    def create_accumulator(self) -> int:
        return 0

    def accumulate(self, total: int, n: int) -> int:
        return total + self._checked(n)

    def _checked(self, n: int) -> int:
        return n if n < 2 else sorted([n], key=_boom)[0]

    def get_value(self, total: int) -> int:
        return total


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_failure_shows_the_users_own_frames(env: TableEnvironment, parallelism: int) -> None:
    """Those of the engine, of libraries and of the interpreter are left out; they come from tasks as well."""
    env.execute_sql(f"SET 'parallelism.default' = '{parallelism}'")
    numbers = env.from_elements([(1,), (2,)], ["n"])
    deep = udaf(Deep, result_type="BIGINT", name="deep")
    for failing in (deep(col("n")), udf(lambda n: [_boom(n)], result_type="ARRAY<INT>", name="nested")(col("n"))):
        with pytest.raises(SqlEngineError) as caught:
            numbers.select(failing).to_arrow()
        names = [line.split(",")[0] for line in caught.value.trace]
        assert names in (["in accumulate", "in _checked", "in _boom"], ["in <lambda>", "in _boom"])
        assert caught.value.trace[-1].endswith(": return 1 // (n - 2)")

    def down(n: int) -> int:
        return down(n - 1) if n else _boom(2)

    with pytest.raises(SqlEngineError) as caught:
        numbers.select(udf(lambda n: down(30), result_type="INT", name="far")(col("n"))).to_arrow()
    assert len(caught.value.trace) == 11
    assert caught.value.trace[5] == "... 23 more"
