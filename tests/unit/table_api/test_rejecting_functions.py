"""Rows for which functions fail: left out and told of, also when they are taken back, whatever the function says then."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import (
    AggregateFunction,
    SqlEngineWarning,
    TableAggregateFunction,
    TableEnvironment,
    col,
    udaf,
    udf,
    udtaf,
    udtf,
)

CASES = int(os.environ.get("REJECTED_CASES", "3"))


@pytest.fixture
def env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        yield made


def rows(env: TableEnvironment, query: str) -> list[tuple[object, ...]]:
    return sorted(map(tuple, env.execute_sql(query).collect()), key=repr)


def _fails(n: int | None) -> bool:
    return n is None or n % 3 == 0


def _value(n: int | None) -> int:
    if n is None or n % 3 == 0:
        raise ValueError(f"not {n}")
    return n * 10


class Total(AggregateFunction):
    """Changes its accumulator before it fails."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def accumulate(self, accumulator: list[int], n: int | None) -> None:
        accumulator[1] += 1
        accumulator[0] += _value(n)

    def retract(self, accumulator: list[int], n: int | None) -> None:
        accumulator[1] -= 1
        accumulator[0] -= _value(n)

    def get_value(self, accumulator: list[int]) -> int:
        return accumulator[0] * 100 + accumulator[1]


class Greatest(TableAggregateFunction):
    """The two greatest of a group. It has no `retract`."""

    def create_accumulator(self) -> list[int]:
        return []

    def accumulate(self, accumulator: list[int], n: int) -> None:
        accumulator.append(n)
        _value(n)

    def emit_value(self, accumulator: list[int]) -> Iterator[tuple[int]]:
        yield from ((n,) for n in sorted(accumulator)[-2:])


@pytest.mark.parametrize("seed", range(CASES))
@pytest.mark.parametrize(("restarts", "parallelism"), [(None, 1), (2, 3)])
def test_views_are_their_batch_answers(seed: int, restarts: int | None, parallelism: int) -> None:
    """Random changes, with restarts and in tasks, against what the rows that do not fail give. Rows without a key are
    there several times."""
    chance = random.Random(seed)
    with TableEnvironment.create() as env:
        env.session.harness.restarts = restarts
        env.execute_sql(f"SET 'parallelism.default' = '{parallelism}'")
        env.create_temporary_system_function("val", udf(_value, result_type="BIGINT", on_error="reject"))
        env.create_temporary_system_function(
            "many", udtf(lambda n: [n, _value(n)], result_types=["BIGINT"], on_error="reject")
        )
        env.create_temporary_system_function("total", udaf(Total(), result_type="BIGINT", on_error="reject"))
        env.execute_script(
            """CREATE TABLE t (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED);
               CREATE MATERIALIZED VIEW v AS SELECT k, val(n) AS p FROM t;
               CREATE MATERIALIZED VIEW bag AS SELECT val(n) AS p FROM (SELECT n FROM t);
               CREATE MATERIALIZED VIEW w AS SELECT k, x FROM t, LATERAL TABLE(many(n)) AS r (x);
               CREATE MATERIALIZED VIEW sums AS SELECT k % 2 AS g, total(n) AS p, COUNT(*) AS c, COUNT(n) AS d,
                 total(DISTINCT n) FILTER (WHERE k < 5) AS q FROM t GROUP BY k % 2;
               CREATE MATERIALIZED VIEW s AS SELECT k % 3 AS g, val(SUM(n)) AS p FROM t GROUP BY k % 3"""
        )
        kept: dict[int, int | None] = {}
        for _ in range(8):
            for _ in range(chance.randint(1, 4)):
                k, n = chance.randint(1, 6), chance.choice([None, *range(8)])
                if chance.random() < 0.3:
                    kept.pop(k, None)
                    env.execute_sql(f"DELETE FROM t WHERE k = {k}")
                else:
                    kept[k] = n
                    env.execute_sql(f"INSERT INTO t VALUES ({k}, {'NULL' if n is None else n})")
            good = {k: n for k, n in kept.items() if n is not None and not _fails(n)}
            assert rows(env, "SELECT * FROM v") == sorted(((k, n * 10) for k, n in good.items()), key=repr)
            assert rows(env, "SELECT * FROM bag") == sorted(((n * 10,) for n in good.values()), key=repr)
            assert rows(env, "SELECT * FROM w") == sorted(
                ((k, x) for k, n in good.items() for x in (n, n * 10)), key=repr
            )
            wanted: list[tuple[object, ...]] = []
            for g in sorted({k % 2 for k in good}):
                ns, few = (
                    [n for k, n in good.items() if k % 2 == g],
                    {n for k, n in good.items() if k % 2 == g and k < 5},
                )
                q = sum(few) * 1000 + len(few)
                wanted.append((g, sum(ns) * 1000 + len(ns), len(ns), len(ns), q))
            assert rows(env, "SELECT * FROM sums") == sorted(wanted, key=repr)
            groups = {g: [n for k, n in kept.items() if k % 3 == g and n is not None] for g in {k % 3 for k in kept}}
            sums = {g: sum(ns) for g, ns in groups.items() if ns and not _fails(sum(ns))}
            assert rows(env, "SELECT * FROM s") == sorted(((g, n * 10) for g, n in sums.items()), key=repr)


@pytest.mark.parametrize("seed", range(CASES))
def test_a_row_that_was_rejected_is_left_out_whatever_the_function_says_later(seed: int) -> None:
    """A function that fails by chance: what is in the view is what was taken, and a row that was rejected takes nothing
    back."""
    chance = random.Random(seed)
    taken: list[int] = []

    def moody(n: int) -> int:
        # It fails for rows that come, and not when they are taken back.
        if n not in taken and chance.random() < 0.5:
            raise OSError("not now")
        taken.append(n)
        return n

    with TableEnvironment.create() as env:
        env.create_temporary_system_function("moody", udf(moody, result_type="BIGINT", on_error="reject"))
        env.execute_script(
            """CREATE TABLE t (n BIGINT, PRIMARY KEY (n) NOT ENFORCED);
               CREATE MATERIALIZED VIEW v AS SELECT moody(n) AS n FROM t"""
        )
        for n in range(20):
            env.execute_sql(f"INSERT INTO t VALUES ({n})")
        shown = [n for (n,) in rows(env, "SELECT * FROM v")]
        assert sorted(shown, key=repr) == sorted(taken, key=repr)
        assert len(shown) + len(rows(env, "SELECT * FROM system.rejected")) == 20
        # Now it fails no more: only rows that were taken are taken back.
        taken.extend(range(20))
        env.execute_sql("DELETE FROM t WHERE n < 10")
        assert [n for (n,) in rows(env, "SELECT * FROM v")] == [n for n in shown if int(str(n)) >= 10]
        env.execute_sql("DELETE FROM t")
        assert rows(env, "SELECT * FROM v") == []


def test_a_failure_for_a_row_that_is_taken_back_fails_the_job(env: TableEnvironment) -> None:
    fails: list[int] = []

    def fickle(n: int) -> int:
        if n in fails:
            raise OSError("gone")
        return n

    env.create_temporary_system_function("fickle", udf(fickle, result_type="BIGINT", on_error="reject"))
    env.execute_script(
        """CREATE TABLE t (n BIGINT, PRIMARY KEY (n) NOT ENFORCED);
           CREATE MATERIALIZED VIEW v AS SELECT fickle(n) AS n FROM t;
           INSERT INTO t VALUES (1), (2)"""
    )
    assert rows(env, "SELECT * FROM v") == [(1,), (2,)]
    fails.append(2)
    with pytest.warns(SqlEngineWarning, match="the materialized view .v. has failed"):
        env.execute_sql("DELETE FROM t")
    with pytest.raises(SqlEngineError, match="is taken back.*fickle failed for .2.: OSError: gone"):
        rows(env, "SELECT * FROM v")


def test_a_row_that_comes_and_goes_in_one_epoch(env: TableEnvironment) -> None:
    """The function fails when the row comes and not when it goes: nothing may be taken back that was never given."""
    seen: Counter[int] = Counter()

    def first_fails(n: int) -> int:
        seen[n] += 1
        if seen[n] == 1:
            raise OSError("once")
        return n

    env.create_temporary_system_function("first_fails", udf(first_fails, result_type="BIGINT", on_error="reject"))
    env.execute_sql("CREATE TABLE t (n BIGINT, PRIMARY KEY (n) NOT ENFORCED)")
    env.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT first_fails(n) AS n FROM t")
    env.execute_script("BEGIN EPOCH; INSERT INTO t VALUES (1), (2); DELETE FROM t WHERE n = 1; END EPOCH")
    assert rows(env, "SELECT * FROM v") == []
    env.execute_sql("INSERT INTO t VALUES (1)")
    env.execute_sql("DELETE FROM t WHERE n = 2")
    assert rows(env, "SELECT * FROM v") in ([], [(1,)])
    env.execute_sql("DELETE FROM t")
    assert rows(env, "SELECT * FROM v") == []


def test_the_option_is_for_functions_that_do_not_say(env: TableEnvironment) -> None:
    def half(n: int) -> int:
        return 100 // n

    env.create_temporary_system_function("half", udf(half))
    env.create_temporary_system_function("strict", udf(half, on_error="fail"))
    env.create_temporary_view("t", env.from_elements([(0,), (5,)], ["n"]))
    with pytest.raises(SqlEngineError, match="E2110"):
        rows(env, "SELECT half(n) FROM t")
    env.execute_sql("SET 'sqlengine.functions.on-error' = 'reject'")
    assert rows(env, "SELECT half(n) FROM t") == [(20,)]
    assert [tuple(r) for r in env.from_path("t").select(udf(half)(col("n"))).execute()] == [(20,)]
    with pytest.raises(SqlEngineError, match="E2110.*half"):
        rows(env, "SELECT strict(n) FROM t")
    (row,) = env.execute_sql("SELECT reason, `row`, error FROM system.rejected LIMIT 1").collect()
    assert tuple(row)[:2] == ("the Python function half failed: ZeroDivisionError", "(0)")
    assert "in half, " in row.error
    assert row.error.endswith(": return 100 // n")


def test_where_no_row_can_be_rejected_the_job_fails(env: TableEnvironment) -> None:
    env.create_temporary_system_function("val", udf(_value, result_type="BIGINT", on_error="reject"))
    env.create_temporary_view("t", env.from_elements([(1,), (2,)], ["n"]))
    with pytest.raises(SqlEngineError, match=r"E2110.*not 3") as caught:
        rows(env, "SELECT a.n FROM t AS a LEFT JOIN t AS b ON val(a.n + b.n) > 2")
    assert "no row can be rejected here" in str(caught.value.hint)
    env.create_temporary_system_function(
        "other", udf(_value, result_type="BIGINT", on_error="reject", deterministic=False)
    )
    assert rows(env, "SELECT other(n * 3 - 4) FROM t") == [(-10,), (20,)]
    env.execute_sql("CREATE TABLE u (n BIGINT, PRIMARY KEY (n) NOT ENFORCED)")
    env.execute_sql("INSERT INTO u VALUES (3)")
    with pytest.raises(SqlEngineError, match="E2110") as caught:
        env.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT other(n) AS n FROM u")
    assert "rejects no row of an input with updates" in str(caught.value.hint)
    with pytest.raises(SqlEngineError, match="E1512.*it is called for a group"):
        udaf(lambda n: 1, result_type="INT", func_type="numpy", on_error="reject")
    with pytest.raises(SqlEngineError, match="there is no on_error 'skip'"):
        udf(_value, result_type="INT", on_error="skip")


def test_aggregates_reject_rows_that_they_cannot_take_in(env: TableEnvironment) -> None:
    """In groups, windows, OVER, and as rows of a group; not the rows that a FILTER keeps from them, which count elsewhere."""
    total, greatest = udaf(Total(), result_type="BIGINT"), udtaf(Greatest(), result_type="ROW<n BIGINT>")
    env.create_temporary_system_function("total", total)
    env.create_temporary_system_function("strict", udaf(Total(), result_type="BIGINT", on_error="fail"))
    env.execute_script(
        """CREATE TABLE t (k INT, n BIGINT, g INT, at AS TO_TIMESTAMP(CONCAT('2024-01-01 00:00:0', CAST(k AS STRING))),
             WATERMARK FOR at AS at);
           INSERT INTO t VALUES (1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 4, 2), (5, 6, 2), (6, 7, 2);
           SET 'sqlengine.functions.on-error' = 'reject'"""
    )
    assert rows(env, "SELECT g, total(n), COUNT(*) FROM t GROUP BY g") == [(1, 3002, 2), (2, 11002, 2)]
    assert rows(env, "SELECT g, total(n) FILTER (WHERE n <> 3), COUNT(*) FROM t GROUP BY g") == [
        (1, 3002, 3),
        (2, 11002, 2),
    ]
    assert rows(env, "SELECT k, total(n) OVER (PARTITION BY g ORDER BY at) FROM t") == [
        (1, 1001), (2, 3002), (4, 4001), (6, 11002),
    ]  # fmt: skip
    hops = "HOP(TABLE t, DESCRIPTOR(at), INTERVAL '3' SECOND, INTERVAL '6' SECOND)"
    with pytest.raises(SqlEngineError, match="E1626"):
        rows(env, f"SELECT window_start, total(n) FROM TABLE({hops}) GROUP BY window_start, window_end")
    tumbles = "TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '4' SECOND)"
    assert [row[1:] for row in rows(env, f"SELECT window_start, total(n) FROM TABLE({tumbles}) GROUP BY window_start, window_end")] == [
        (3002,), (11002,),
    ]  # fmt: skip
    table = (
        env.from_path("t").group_by(col("g")).flat_aggregate(greatest(col("n")).alias("x")).select(col("g"), col("x"))
    )
    assert sorted(map(tuple, table.execute().collect())) == [(1, 1), (1, 2), (2, 4), (2, 7)]
    assert {row[0] for row in rows(env, "SELECT error FROM system.rejected WHERE reason LIKE '%Greatest%'")} and (
        rows(env, "SELECT DISTINCT reason FROM system.rejected")
        == [("the Python function Greatest failed: ValueError",), ("the Python function Total failed: ValueError",)]
    )
    with pytest.raises(SqlEngineError, match="E2110"):
        rows(env, "SELECT strict(n) FROM t")


def test_an_aggregate_that_fails_for_what_it_holds_fails_the_job(env: TableEnvironment) -> None:
    """No row alone is to blame, and which one it is would depend on the order."""

    class Few(Total):
        def accumulate(self, accumulator: list[int], n: int | None) -> None:
            if accumulator[1] == 2:
                raise ValueError("enough")
            super().accumulate(accumulator, n)

    env.create_temporary_system_function("few", udaf(Few(), result_type="BIGINT", on_error="reject"))
    assert rows(env, "SELECT few(n) FROM (VALUES (1), (2), (3)) AS t (n)") == [(3002,)]
    with pytest.raises(SqlEngineError, match="E2110"):
        rows(env, "SELECT few(n) FROM (VALUES (1), (2), (4)) AS t (n)")
