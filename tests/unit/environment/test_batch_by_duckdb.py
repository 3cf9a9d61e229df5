"""What DuckDB answers of batch queries is what the engine's own operators answer."""

from __future__ import annotations

import datetime
import decimal
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from runtime.core.cancellation import Cancellation, Stopped
from runtime.core.errors import SqlEngineError
from runtime.eval.duckdb_plans.answer import Inputs, answers
from runtime.plan.nodes import DuckDBExec
from sqlengine import TableEnvironment

CASES = int(os.environ.get("FUZZ_CASES", "30"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
COLUMNS = (
    "k INT, b BIGINT, n SMALLINT, d DECIMAL(10, 2), e DECIMAL(38, 6), s STRING, c CHAR(3), t DATE, ts TIMESTAMP(3), "
    "o BOOLEAN, x DOUBLE"
)


def _rows(chance: random.Random, count: int) -> dict[str, list[Any]]:
    def some(*values: Any) -> list[Any]:
        return [chance.choice((None, *values)) for _ in range(count)]

    day, moment = datetime.date(1969, 12, 31), datetime.datetime(1969, 12, 31, 23, 59, 59, 999000)
    return {
        "k": some(*range(-2, 4)),
        "b": some(-7, -1, 0, 1, 2, 9, 2**62, -(2**63)),
        "n": some(-3, 0, 1, 2, 32767),
        "d": some(*(decimal.Decimal(v) for v in ("-1.25", "0.00", "0.01", "1.25", "2.50", "99999999.99"))),
        "e": some(*(decimal.Decimal(v) for v in ("-0.000001", "0.5", "1.000000", "123456789012345678901234567890.5"))),
        "s": some("", "a", "A", "ab", "b ", "é", "𝄞x", "𝄞", "a%b", "z_z"),
        "c": some("abc", "a  ", "xyz"),
        "t": some(day, datetime.date(2000, 2, 29), datetime.date(2024, 1, 1)),
        "ts": some(moment, datetime.datetime(2000, 2, 29, 12, 30, 0, 5000), datetime.datetime(2024, 1, 1)),
        "o": some(True, False),
        "x": some(-0.0, 0.0, 1.5, float("nan"), float("inf")),
    }


def _environment(folder: Path, by_duckdb: bool, stored: str, chance: random.Random) -> TableEnvironment:
    env = TableEnvironment.create({"execution.runtime-mode": "batch", "sqlengine.batch.duckdb": str(by_duckdb).lower()})
    for name in ("p", "q"):
        rows = _rows(random.Random(f"{chance.random()}"), 40)
        table = pa.table(rows, schema=_schema())
        if stored == "files":
            (folder / name).mkdir(exist_ok=True)
            pq.write_table(table.slice(0, 25), folder / name / "1.parquet", row_group_size=10)
            pq.write_table(table.slice(25), folder / name / "2.parquet")
            env.execute_sql(
                f"CREATE TEMPORARY TABLE {name} ({COLUMNS}) "
                f"WITH ('connector' = 'filesystem', 'path' = '{folder}/{name}', 'format' = 'parquet')"
            )
        else:
            env.create_temporary_view(f"m{name}", env.from_arrow(table))
            # What compares doubles is not for DuckDB; all rows pass.
            where = " WHERE COALESCE(x, 0) <= x OR x IS NULL OR x <> x" if stored == "operators" else ""
            env.execute_sql(f"CREATE TEMPORARY VIEW {name} AS SELECT * FROM m{name}{where}")
    return env


def _schema() -> pa.Schema:
    types = [pa.int32(), pa.int64(), pa.int16(), pa.decimal128(10, 2), pa.decimal128(38, 6), pa.string(), pa.string(), pa.date32(),
             pa.timestamp("us"), pa.bool_(), pa.float64()]  # fmt: skip
    return pa.schema(zip(["k", "b", "n", "d", "e", "s", "c", "t", "ts", "o", "x"], types, strict=True))


NUMBERS = ("k", "b", "n", "d", "e", "k + 1", "d * 2", "d - e", "k * d", "d / 3", "e / d", "b / 2", "k / n", "0.5 * d", "b + k",
           "CAST(k AS DECIMAL(12, 3))", "CAST(d AS DECIMAL(38, 4))", "COALESCE(d, 0)", "CASE WHEN o THEN d ELSE e END",
           "EXTRACT(YEAR FROM t)", "EXTRACT(MONTH FROM ts)", "CAST(n AS BIGINT)", "CHAR_LENGTH(s)", "-k")  # fmt: skip
TEXTS = (
    "s",
    "c",
    "SUBSTRING(s FROM 1 FOR 1)",
    "UPPER(s)",
    "COALESCE(s, c)",
    "CASE WHEN k > 1 THEN 'one' ELSE s END",
    "s || c",
    "TRIM(s)",
)
OTHERS = ("t", "ts", "o", "k IS NULL", "x")
TESTS = ("k > 1", "d <= 1.25", "d < e", "b = k", "s LIKE '%a%'", "s LIKE 'a_b'", "s LIKE 'a!%b' ESCAPE '!'", "s LIKE '_'", "s LIKE c",
         "s = 'ab'", "s < c", "o", "NOT o", "o IS NOT TRUE",
         "k IN (1, 2, 9)", "d IN (0.01, 2.5)", "s IN ('a', 'é')", "t >= DATE '1970-01-01'", "ts < TIMESTAMP '2000-03-01 00:00:00'",
         "k IS NOT NULL", "d BETWEEN 0 AND 2", "x > 1", "t <> DATE '2024-01-01' OR n = 1", "k IS DISTINCT FROM n", "x = x")  # fmt: skip
AGGREGATES = (
    "COUNT(*)", "COUNT(s)", "COUNT(DISTINCT k)", "SUM(k)", "SUM(b)", "SUM(n)", "SUM(d)", "SUM(e)", "SUM(DISTINCT d)", "AVG(k)",
    "AVG(d)", "AVG(e)", "AVG(n)", "MIN(s)", "MAX(s)", "MIN(d)", "MAX(t)", "MIN(ts)", "MAX(o)", "SUM(d * k)", "MAX(x)", "SUM(x)",
    "SUM(d) FILTER (WHERE k > 0)", "COUNT(*) FILTER (WHERE o)", "AVG(d * 2)", "SUM(d) / COUNT(d)",
)  # fmt: skip
JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
ON = (
    "a.k = z.k",
    "a.d = z.d",
    "a.s = z.s AND a.k < z.k",
    "a.k = z.n",
    "a.e = z.d",
    "a.c = z.s",
    "a.k = z.k AND a.o",
    "a.t = z.t AND a.b > z.b",
)


def query_of(chance: random.Random) -> str:
    """One query whose answer is a bag that no order decides."""
    pick = chance.choice

    def table(depth: int) -> str:
        if depth == 0 or chance.random() < 0.4:
            return pick(("p", "q"))
        return f"({select(depth - 1)})"

    def select(depth: int) -> str:
        where = f" WHERE {pick(TESTS)}" if chance.random() < 0.6 else ""
        return f"SELECT * FROM {table(depth)} AS w{where}"

    kind = chance.randrange(7)
    if kind == 0:
        keys = chance.sample(("k", "s", "o", "t", "d", "c", "SUBSTRING(s FROM 1 FOR 1)"), chance.randrange(0, 3))
        calls = chance.sample(AGGREGATES, 3)
        having = (
            f" HAVING {pick(('COUNT(*) > 1', 'SUM(d) > 1', 'MAX(s) IS NOT NULL'))}" if chance.random() < 0.3 else ""
        )
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join([*keys, *calls])} FROM {table(1)} AS w{group}{having}"
    if kind in (1, 2):
        left, right = select(1), select(1)
        items = ", ".join(f"a.{c}" for c in ("k", "d", "s")) + ", z.k, z.e, z.ts"
        return f"SELECT {items} FROM ({left}) a {pick(JOINS)} ({right}) z ON {pick(ON)}"
    if kind == 3:
        negated = pick(("", "NOT "))
        inner = pick(
            (
                "w.k IN (SELECT z.n FROM q z)",
                "EXISTS (SELECT 1 FROM q z WHERE z.s = w.s AND z.k > w.k)",
                "w.d > (SELECT AVG(z.d) FROM q z)",
            )
        )
        return f"SELECT k, d, s FROM {table(1)} AS w WHERE {negated}({inner})"
    if kind == 4:
        operation = pick(("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL"))
        return f"SELECT k, d, s FROM {table(1)} AS w {operation} SELECT n, e, c FROM {table(1)} AS w"
    if kind == 5:
        order = ", ".join(
            f"{c}{pick(('', ' DESC', ' NULLS LAST', ' DESC NULLS FIRST'))}"
            for c in ("s", "d", "k", "t", "b", "n", "e", "c", "ts", "o")
        )
        return f"SELECT k, d, s, t FROM {table(1)} AS w ORDER BY {order} LIMIT {chance.randrange(1, 9)}"
    items = chance.sample(NUMBERS, 3) + chance.sample(TEXTS, 2) + [pick(OTHERS)]
    return f"SELECT DISTINCT {', '.join(items)} FROM {table(1)} AS w"


def answer(env: TableEnvironment, query: str) -> Counter[str] | str:
    """The rows as a bag, or the code of the error."""
    try:
        rows = env.execute_sql(query).to_arrow()
    except SqlEngineError as error:
        return error.code
    return Counter(map(repr, zip(*(column.to_pylist() for column in rows.columns), strict=True)))


@pytest.mark.parametrize("stored", ["files", "memory", "operators"])
def test_random_queries_have_the_answer_of_the_operators(stored: str, tmp_path: Path) -> None:
    refused = 0
    for case in range(CASES):
        chance = random.Random(f"{SEED} {case} {stored}")
        folder = tmp_path / str(case // 10)
        folder.mkdir(exist_ok=True)
        if case % 10 == 0:
            tables = random.Random(f"{SEED} {case // 10}")
            state = tables.getstate()
            mine = _environment(folder, True, stored, tables)
            tables.setstate(state)
            theirs = _environment(folder, False, stored, tables)
        query = query_of(chance)
        found, wanted = answer(mine, query), answer(theirs, query)
        refused += isinstance(wanted, str)
        assert found == wanted, f"case {case} of seed {SEED}: {query}"
    assert refused < CASES / 2


# --- where DuckDB fails, is stopped, or has more than memory holds


@pytest.fixture
def env() -> TableEnvironment:
    made = TableEnvironment.create({"execution.runtime-mode": "batch"})
    made.execute_sql("CREATE TABLE t (k INT, a INT, d DECIMAL(18, 2))")
    made.execute_sql("INSERT INTO t VALUES (1, 2147483647, 9999999999999999.99), (1, 1, 0.01), (2, -7, NULL)")
    return made


def test_integers_wrap_as_in_flink(env: TableEnvironment) -> None:
    found = env.execute_sql("SELECT k, SUM(a), SUM(a) / 2 FROM t GROUP BY k").to_arrow().to_pydict()
    assert dict(zip(*list(found.values())[:2], strict=True)) == {1: -2147483648, 2: -7}
    assert dict(zip(found["k"], found["EXPR$2"], strict=True)) == {1: -1073741824, 2: -3}


def test_more_digits_than_a_machine_word_are_computed_by_duckdb(env: TableEnvironment) -> None:
    result = env.execute_sql("SELECT k, MAX(d * a), SUM(d * d) FROM t GROUP BY k")
    rows = {row["k"]: row for row in result.to_arrow().to_pylist()}
    assert rows[1]["EXPR$1"] == decimal.Decimal("9999999999999999.99") * 2147483647
    assert rows[1]["EXPR$2"] == decimal.Decimal("99999999999999999800000000000000.0002")
    assert rows[2]["EXPR$1"] is None


def test_the_error_is_that_of_the_operators(env: TableEnvironment) -> None:
    with pytest.raises(SqlEngineError, match="E2102 division by zero at 1:15"):
        env.execute_sql("SELECT k, SUM(a / (k - 1)) FROM t GROUP BY k").to_arrow()


def test_a_job_says_what_duckdb_answers(env: TableEnvironment) -> None:
    env.execute_sql("CREATE TABLE s (k INT, n BIGINT) WITH ('connector' = 'blackhole')")
    env.execute_sql("INSERT INTO s SELECT k, COUNT(*) FROM t GROUP BY k").wait()
    job = list(env.session.jobs.jobs.values())[-1].job
    assert sum(isinstance(v.node, DuckDBExec) for v in job.dataflow.vertices) == 1


def test_rows_beyond_memory_wait_on_disk() -> None:
    """Sorted and joined: 80 MB with 64 MB of memory."""
    inputs = Inputs({"part1": ["BIGINT", "VARCHAR"]}, 64 << 20, 8 << 20)
    count, size = 1_000_000, 1 << 17
    for begin in range(0, count, size):
        numbers = pa.array(range(begin, min(begin + size, count)))
        mixed = pc.subtract(
            pc.multiply(numbers, 7919), pc.multiply(pc.divide(pc.multiply(numbers, 7919), count), count)
        )
        texts = pc.binary_join_element_wise(pc.cast(mixed, pa.string()), " " * 60, "")
        inputs.add("part1", pa.RecordBatch.from_arrays([mixed, texts], names=["c0", "c1"]))
    assert inputs.bytes <= 8 << 20
    ordered = pa.concat_arrays([b.column(0) for b in answers(inputs, "SELECT c0, c1 FROM part1 ORDER BY c0")])
    assert ordered.equals(pa.array(range(count)))
    text = "SELECT COUNT(*), SUM(length(l.c1)) FROM part1 l JOIN part1 r ON l.c1 = r.c1"
    (joined,) = answers(inputs, text)
    assert joined.column(0).to_pylist() == [count]
    inputs.close()


def test_a_query_of_duckdb_is_stopped() -> None:
    inputs = Inputs({}, 64 << 20, 8 << 20)
    cancellation = Cancellation()
    with cancellation.governing():
        found = answers(
            inputs, "SELECT COUNT(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range % 7 = b.range % 3"
        )
        cancellation.request()
        with pytest.raises(Stopped):
            next(found)
    inputs.close()


def test_an_unbounded_table_is_refused(env: TableEnvironment) -> None:
    env.execute_sql("CREATE TABLE g (a INT) WITH ('connector' = 'datagen')")
    with pytest.raises(SqlEngineError, match="E1621"):
        env.execute_sql("SELECT a, COUNT(*) FROM g GROUP BY a")
