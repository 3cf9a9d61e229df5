"""Python functions in SQL and the Table API: scalar, table, aggregate and table aggregate ones."""

from __future__ import annotations

import datetime as dt
import decimal
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from runtime.core.errors import SqlEngineError, render
from runtime.expr.function import made_by_program_in
from sqlengine import (
    AggregateFunction,
    DataTypes,
    ScalarFunction,
    Slide,
    Table,
    TableAggregateFunction,
    TableEnvironment,
    TableFunction,
    col,
    lit,
    udaf,
    udf,
    udtaf,
    udtf,
)
from sqlengine.user_functions.failures import shown_path

NOON = dt.datetime(2024, 1, 1, 12)


@udf
def plus(n: int, m: int = 1) -> int:
    """Adds two numbers."""
    return n + m


@udf(result_type="DOUBLE", func_type="arrow")
def half(values: pa.Array) -> pa.Array:
    return pc.divide(pc.cast(values, pa.float64()), 2)


@udf(result_type=DataTypes.BIGINT(), func_type="numpy")
def squared(values: np.ndarray) -> np.ndarray:
    return values * values


@udf(result_type="STRING", func_type="pandas")
def padded(values: Any, width: Any) -> Any:
    return values.str.zfill(4) + width.astype(str)


@udf(result_type={"first": "STRING", "rest": "STRING"})
def cut(text: str | None) -> tuple[str, str] | None:
    return None if text is None else (text[:1], text[1:])


@udtf(result_types={"word": "STRING", "length": "INT"})
def words(text: str) -> Iterator[tuple[str, int]]:
    for word in (text or "").split():
        yield word, len(word)


@udf
async def slow(n: int) -> int:
    return n * 10


class Sum(AggregateFunction):
    """A sum with all methods; its accumulator is changed in place."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def accumulate(self, accumulator: list[int], value: int) -> None:
        accumulator[0] += value
        accumulator[1] += 1

    def retract(self, accumulator: list[int], value: int) -> None:
        accumulator[0] -= value
        accumulator[1] -= 1

    def merge(self, accumulator: list[int], accumulators: list[list[int]]) -> None:
        for other in accumulators:
            accumulator[0] += other[0]
            accumulator[1] += other[1]

    def get_value(self, accumulator: list[int]) -> int:
        return accumulator[0] * 1000 + accumulator[1]


class Product(AggregateFunction):
    """No retract, and an accumulator that is a number."""

    def create_accumulator(self) -> int:
        return 1

    def accumulate(self, accumulator: int, value: int) -> int:
        return accumulator * value

    def get_value(self, accumulator: int) -> int:
        return accumulator


class Largest(TableAggregateFunction):
    def create_accumulator(self) -> list[int]:
        return []

    def accumulate(self, accumulator: list[int], value: int, number: int) -> None:
        accumulator.append(value)
        accumulator.sort()
        del accumulator[:-number]

    def emit_value(self, accumulator: list[int]) -> Iterator[tuple[int, int]]:
        yield from enumerate(reversed(accumulator), 1)


total = udaf(Sum(), result_type="BIGINT", name="total")
product = udaf(Product, result_type="BIGINT", name="product")
largest = udtaf(Largest(), result_types={"place": "INT", "value": "BIGINT"}, name="largest")


@udaf(result_type="DOUBLE", func_type="numpy")
def median(values: np.ndarray) -> float:
    return float(np.median(values))


@pytest.fixture
def env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        for function in (plus, half, words, total, product, largest, median):
            made.create_temporary_system_function(function.name, function)
        yield made


@pytest.fixture
def numbers(env: TableEnvironment) -> Table:
    rows = [(1, "a bc"), (2, None), (3, "d"), (4, "")]
    return env.from_elements(rows, {"n": "BIGINT", "s": "STRING"})


def rows(table: Table) -> list[tuple[Any, ...]]:
    return [tuple(r) for r in table.execute()]


def test_scalar_functions_of_rows_and_of_columns(numbers: Table) -> None:
    made = numbers.select(plus(col("n")), plus(col("n"), 10), half(col("n")), squared(col("n")), slow(col("n")))
    assert rows(made) == [(n + 1, n + 10, n / 2, n * n, n * 10) for n in range(1, 5)]
    assert rows(numbers.where(plus(col("n")) > 4).select(padded(col("s"), col("n")))) == [("00004",)]


def test_functions_by_name_in_sql(env: TableEnvironment, numbers: Table) -> None:
    env.create_temporary_view("numbers", numbers)
    assert rows(env.sql_query("SELECT plus(n, 2), HALF(n) FROM numbers WHERE n < 3")) == [(3, 0.5), (4, 1.0)]
    assert rows(env.sql_query("SELECT n, w FROM numbers, LATERAL TABLE(words(s)) AS t (w, l)")) == [
        (1, "a"),
        (1, "bc"),
        (3, "d"),
    ]
    assert rows(env.sql_query("SELECT * FROM TABLE(words('x yz'))")) == [("x", 1), ("yz", 2)]
    assert rows(env.sql_query("SELECT total(n), product(n), median(n) FROM numbers"))[-1] == (10004, 24, 2.5)
    assert env.list_user_defined_functions() == sorted(
        ["plus", "half", "words", "total", "product", "largest", "median"]
    )
    described = dict(env.execute_sql("DESCRIBE FUNCTION plus").collect())
    assert "Adds two numbers." in described.values()


def test_rows_of_functions_become_columns(numbers: Table) -> None:
    assert rows(numbers.map(cut(col("s")))) == [("a", " bc"), (None, None), ("d", ""), ("", "")]
    assert numbers.map(cut(col("s"))).schema.names == ("first", "rest")
    assert rows(numbers.map(plus(col("n")))) == [(2,), (3,), (4,), (5,)]
    assert rows(numbers.flat_map(words(col("s")))) == [("a", 1), ("bc", 2), ("d", 1)]
    joined = numbers.join_lateral(words(col("s")).alias("w", "l")).where(col("l") > 1).select("n", "w")
    assert rows(joined) == [(1, "bc")]
    outer = numbers.left_outer_join_lateral(words(col("s"))).select("n", "word")
    assert rows(outer) == [(1, "a"), (1, "bc"), (2, None), (3, "d"), (4, None)]


def test_aggregates_of_groups(numbers: Table) -> None:
    by_parity = numbers.group_by((col("n") % 2).alias("odd"))
    made = by_parity.select("odd", total(col("n")), product(col("n")), median(col("n")))
    assert sorted(rows(made)) == [(0, 6002, 8, 3.0), (1, 4002, 3, 2.0)]
    assert sorted(rows(by_parity.aggregate(total(col("n")).alias("t")).select("odd", "t"))) == [(0, 6002), (1, 4002)]
    top = by_parity.flat_aggregate(largest(col("n"), 1).alias("p", "v")).select("odd", "p", "v")
    assert sorted(rows(top)) == [(0, 1, 4), (1, 1, 3)]
    assert sorted(rows(numbers.flat_aggregate(largest(col("n"), 2)).select("*"))) == [(1, 4), (2, 3)]
    distinct = numbers.select(total(col("n") % 2).distinct, total(col("n")).filter(col("n") > 2))
    assert rows(distinct) == [(1002, 7002)]


@pytest.mark.parametrize("restarts", [None, 1])
def test_changes_of_rows_reach_aggregates(restarts: int | None) -> None:
    """With and without `retract`, of whole columns, as rows; also when state is saved and restored in between."""
    with TableEnvironment.create() as env:
        env.session.harness.restarts = restarts
        for function in (total, product, median, largest):
            env.create_temporary_system_function(function.name, function)
        env.execute_script(
            """CREATE TABLE t (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED);
               CREATE MATERIALIZED VIEW v AS SELECT total(n) AS t, product(n) AS p, median(n) AS m FROM t;
               CREATE MATERIALIZED VIEW w AS SELECT place, `value` FROM (SELECT largest(n, 2) AS r FROM t)
                 CROSS JOIN UNNEST(r) AS u (place, `value`);
               INSERT INTO t VALUES (1, 2), (2, 3), (3, 7);
               UPDATE t SET n = 5 WHERE k = 2;
               DELETE FROM t WHERE k = 1"""
        )
        assert env.execute_sql("SELECT * FROM v").to_arrow().to_pylist() == [{"t": 12002, "p": 35, "m": 6.0}]
        assert sorted(map(tuple, env.execute_sql("SELECT * FROM w"))) == [(1, 7), (2, 5)]
        env.execute_sql("DELETE FROM t WHERE k = 3")
        assert env.execute_sql("SELECT t, p FROM v").to_arrow().to_pylist() == [{"t": 5001, "p": 5}]


def test_aggregates_of_windows_and_over(env: TableEnvironment) -> None:
    events = env.create_input("events", {"n": "BIGINT", "at": "TIMESTAMP(3)"}, rowtime="at", keep=True)
    events.push([(n, NOON + dt.timedelta(seconds=20 * n)) for n in range(1, 5)])
    events.close()
    sliding = (
        env.from_path("events")
        .window(Slide.over(lit(60).seconds).every(lit(30).seconds).on("at").alias("w"))
        .group_by("w")
        .select(total(col("n")))
    )
    assert sorted(rows(sliding)) == [(1001,), (3002,), (7002,), (9003,)]
    over = env.sql_query("SELECT n, total(n) OVER (ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM events")
    assert rows(over) == [(1, 1001), (2, 3002), (3, 5002), (4, 7002)]
    with pytest.raises(SqlEngineError, match="E1626.*no merge"):
        rows(
            env.sql_query(
                "SELECT product(n) FROM TABLE(HOP(TABLE events, DESCRIPTOR(at), INTERVAL '30' SECOND, "
                "INTERVAL '60' SECOND)) GROUP BY window_start, window_end"
            )
        )


def test_values_keep_their_python_types(env: TableEnvironment) -> None:
    seen: list[Any] = []

    @udf(result_type="BOOLEAN", deterministic=False)
    def look(*values: Any) -> bool:
        seen.extend(values)
        return True

    row = (True, Decimal("1.50"), "x", b"y", dt.date(2024, 1, 1), NOON, dt.timedelta(hours=1), [1, None], {"k": 2})
    types = [
        "BOOLEAN",
        "DECIMAL(4, 2)",
        "STRING",
        "BYTES",
        "DATE",
        "TIMESTAMP(3)",
        "INTERVAL DAY TO SECOND(3)",
        "ARRAY<INT>",
        "MAP<STRING, INT>",
    ]
    table = env.from_elements([row], dict(zip("abcdefghi", types, strict=True)))
    assert rows(table.select(look(*map(col, "abcdefghi")))) == [(True,)]
    assert tuple(seen) == row


def test_types_follow_from_annotations() -> None:
    @udf
    def made(a: int, b: list[str] | None, c: decimal.Decimal) -> dict[str, float]:
        return {}

    declared = made.declaration.signatures[0]
    assert [a.name for a in declared.args] == ["BIGINT", "ARRAY<STRING>", "DECIMAL(38, 18)"]
    assert str(declared.returns) == "MAP<STRING, DOUBLE>"


def test_objects_of_the_base_classes(env: TableEnvironment, numbers: Table) -> None:
    class Twice(ScalarFunction):
        def eval(self, n: int) -> int:
            return 2 * n

    class Letters(TableFunction):
        def eval(self, text: str) -> Iterator[str]:
            yield from text or ""

    env.create_temporary_function("twice", Twice())
    assert rows(env.sql_query("SELECT twice(21)")) == [(42,)]
    assert rows(numbers.flat_map(udtf(Letters())(col("s"))).where(col("f0") != " ")) == [("a",), ("b",), ("c",), ("d",)]
    assert env.drop_temporary_function("twice")
    assert not env.drop_temporary_function("twice")


def test_functions_are_made_in_sql(env: TableEnvironment) -> None:
    here = __name__
    env.execute_script(
        f"""CREATE FUNCTION more AS '{here}.plus' LANGUAGE PYTHON;
            CREATE TEMPORARY SYSTEM FUNCTION IF NOT EXISTS more AS '{here}.half' LANGUAGE PYTHON;
            CREATE FUNCTION bare AS '{here}.bare' LANGUAGE PYTHON"""
    )
    assert rows(env.sql_query("SELECT more(1), bare('x')")) == [(2, "xx")]
    shown = {name for (name,) in env.execute_sql("SHOW USER FUNCTIONS").collect()}
    assert {"more", "bare", "plus"} <= shown
    env.execute_sql(f"ALTER FUNCTION more AS '{here}.half' LANGUAGE PYTHON")
    assert rows(env.sql_query("SELECT more(1)")) == [(0.5,)]
    env.execute_script("DROP FUNCTION more; DROP FUNCTION IF EXISTS more")


def bare(text: str) -> str:
    """A function that is not decorated."""
    return text * 2


def _boom(n: int) -> int:
    return 1 // (n - 2)


MISTAKES: dict[str, tuple[Callable[[TableEnvironment, Table], object], str]] = {
    "argument": (
        lambda e, t: t.select(plus(col("s"))),
        """E1301 PLUS does not take (STRING)
  at 1:8
  1 | select(plus(col("s")))
             ^^^^^^^^^^^^^^
  hint: it takes: PLUS(<BIGINT>[, <BIGINT>])""",
    ),
    "rows as a value": (
        lambda e, t: t.select(words(col("s"))),
        """E1204 WORDS is a table function: it gives rows, not a value
  at 1:8
  1 | select(words(col("s")))
             ^^^^^^^^^^^^^^^
  hint: write FROM t, LATERAL TABLE(WORDS(..)) AS r (a); of a Python table, join_lateral""",
    ),
    "failure": (
        lambda e, t: t.select(udf(_boom, name="boom")(col("n"))).to_arrow(),
        """E2110 the Python function boom failed for (2): ZeroDivisionError: integer division or modulo by zero
  at 1:8
  1 | select(boom(col("n")))
             ^^^^^^^^^^^^^^
  in _boom, {here}: return 1 // (n - 2)
  hint: filter out such rows, or have it return None""",
    ),
    "result": (
        lambda e, t: t.select(udf(lambda n: "x", result_type="INT", name="wrong")(col("n"))).to_arrow(),
        """E2111 the Python function wrong gave values that are no INT: Could not convert 'x' with type str: tried to convert to int32
  at 1:8
  1 | select(wrong(col("n")))
             ^^^^^^^^^^^^^^^
  hint: return values of the declared result type""",
    ),
    "length": (
        lambda e, t: t.select(
            udf(lambda n: n[:1], result_type="BIGINT", func_type="arrow", name="short")(col("n"))
        ).to_arrow(),
        """E2111 short gave 1 values for 4 rows
  at 1:8
  1 | select(short(col("n")))
             ^^^^^^^^^^^^^^^
  hint: a function of whole columns gives one value for each row""",
    ),
    "no type": (
        lambda e, t: udf(lambda n: n),
        """E1324 the result type of the Python function function is not known
  hint: say it: result_type="BIGINT", or annotate the function: -> int""",
    ),
    "kind": (
        lambda e, t: udf(_boom, func_type="panda"),
        """E1512 there is no func_type 'panda'
  hint: did you mean "pandas"?""",
    ),
    "taken": (
        lambda e, t: e.create_temporary_function("upper", plus),
        """E1441 UPPER is a function of the engine
  hint: give yours another name""",
    ),
    "twice": (
        lambda e, t: e.execute_sql("CREATE FUNCTION plus AS 'a.b' LANGUAGE PYTHON"),
        """E1440 there is a function "plus" already
  at 1:17
  1 | CREATE FUNCTION plus AS 'a.b' LANGUAGE PYTHON
                      ^^^^
  hint: DROP FUNCTION first, or ALTER FUNCTION""",
    ),
    "module": (
        lambda e, t: e.execute_sql("CREATE FUNCTION f AS 'nowhere.f' LANGUAGE PYTHON"),
        """E1443 the Python module 'nowhere' cannot be imported: No module named 'nowhere'
  at 1:22
  1 | CREATE FUNCTION f AS 'nowhere.f' LANGUAGE PYTHON
                           ^^^^^^^^^^^
  hint: write 'package.module.function'; the module has to be on Python's path""",
    ),
    "member": (
        lambda e, t: e.execute_sql("CREATE FUNCTION f AS 'math.sqr' LANGUAGE PYTHON"),
        """E1443 the Python module 'math' has no 'sqr'
  at 1:22
  1 | CREATE FUNCTION f AS 'math.sqr' LANGUAGE PYTHON
                           ^^^^^^^^^^
  hint: did you mean "sqrt" or "isqrt"?""",
    ),
    "java": (
        lambda e, t: e.execute_sql("CREATE FUNCTION f AS 'com.acme.F'"),
        """E1604 functions in JAVA cannot be run: there is no JVM here
  at 1:1
  1 | CREATE FUNCTION f AS 'com.acme.F'
      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: write it in Python: CREATE FUNCTION f AS 'package.module.function' LANGUAGE PYTHON""",
    ),
    "drop": (
        lambda e, t: e.execute_sql("DROP FUNCTION pluss"),
        """E1442 there is no function "pluss" of a user
  at 1:15
  1 | DROP FUNCTION pluss
                    ^^^^^
  hint: did you mean "PLUS"?""",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(env: TableEnvironment, numbers: Table, name: str) -> None:
    mistake, expected = MISTAKES[name]
    with pytest.raises(SqlEngineError) as caught:
        mistake(env, numbers)
    assert render(caught.value) == expected.replace(
        "{here}", f"{shown_path(__file__)}:{_boom.__code__.co_firstlineno + 1}"
    )


def test_statement_sets(env: TableEnvironment, numbers: Table) -> None:
    env.execute_script("CREATE TABLE small (n BIGINT); CREATE TABLE large (n BIGINT)")
    inserts = env.create_statement_set()
    inserts.add_insert("small", numbers.where(col("n") < 3).select("n"))
    inserts.add_insert_sql("INSERT INTO large SELECT CAST(9 AS BIGINT)")
    twin = (
        "EXECUTE STATEMENT SET BEGIN INSERT INTO small SELECT n FROM "
        + numbers.sql.partition("FROM ")[2]
        + " WHERE n < 3; INSERT INTO large SELECT CAST(9 AS BIGINT); END"
    )
    assert inserts.explain() == env.explain_sql(twin)
    inserts.execute().wait()
    assert len(inserts) == 0
    assert rows(env.from_path("small")) == [(1,), (2,)]
    assert rows(env.from_path("large")) == [(9,)]
    wrong = env.create_statement_set().add_insert("small", numbers.select(col("s").char_length, "s"))
    with pytest.raises(SqlEngineError, match="E1224"):
        wrong.execute()
    with pytest.raises(SqlEngineError, match="E1606"):
        env.create_statement_set().add_insert_sql("SELECT 1")


def test_functions_go_to_other_processes(env: TableEnvironment) -> None:
    """What a task of a cluster is sent: the functions that its plan names, by value."""
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")

    @udf
    def far(n: int) -> int:
        return n * 100

    table = env.from_elements([(1,)], ["n"]).select(far(col("n")))
    assert far.declaration.name in made_by_program_in(table.explain())
    code = (
        "import sys, pickle; from runtime.expr.function import adopt, made_by_program; "
        "sent = pickle.loads(sys.stdin.buffer.read()); adopt([sent]); print(made_by_program(sent.name).document)"
    )
    sent = cloudpickle.dumps(far.declaration)
    run = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=False, cwd=Path.cwd())
    assert run.stdout.decode().strip() == "A scalar function in Python.", run.stderr.decode()


@pytest.mark.parametrize(
    ("result_type", "value"),
    [
        (DataTypes.ARRAY(DataTypes.INT(False)), [1, None]),
        (DataTypes.MAP(DataTypes.STRING(False), DataTypes.INT(False)), {"a": None}),
        (DataTypes.ROW([("a", DataTypes.INT(False))]), (None,)),
    ],
)
def test_none_in_a_part_that_is_not_null(env: TableEnvironment, result_type: Any, value: Any) -> None:
    made = udf(lambda x: value if x > 1 else None, result_type=result_type)
    env.create_temporary_function("parts_of", made)
    assert [r[0] for r in env.execute_sql("SELECT parts_of(1) IS NULL").collect()] == [True]
    with pytest.raises(SqlEngineError) as caught:
        list(env.execute_sql("SELECT parts_of(2)").collect())
    assert caught.value.code == "E2111"


def test_the_state_of_a_function_of_vectors_is_told(env: TableEnvironment) -> None:
    env.execute_sql("CREATE TABLE measured (k INT, v DOUBLE) WITH ('connector' = 'datagen')")
    told = str(next(iter(env.execute_sql("EXPLAIN STATE SELECT k, median(v) FROM measured GROUP BY k"))))
    assert "all values of v; bounded by nothing" in told
