"""SET 'sqlengine.verify': a difference stops the query and is told with few rows; what cannot be checked is said."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import SqlEngineWarning, TableEnvironment
from sqlengine.verify.texts import Texts


@pytest.fixture
def t_env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create({"sqlengine.verify": "true"}) as made:
        made.execute_script(
            "CREATE TABLE orders (id INT PRIMARY KEY NOT ENFORCED, customer STRING, amount INT);"
            "CREATE TABLE clicks (page STRING, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '1' SECOND)"
        )
        yield made


def compared(t_env: TableEnvironment) -> int:
    return sum(v.compared for view in t_env.session.views.jobs() for _, v in getattr(view.job.watch, "verifiers", ()))


def test_a_right_answer_is_compared_after_every_epoch(t_env: TableEnvironment) -> None:
    t_env.execute_sql(
        "CREATE MATERIALIZED VIEW spent AS SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer"
    )
    before = compared(t_env)
    t_env.execute_script("INSERT INTO orders VALUES (1, 'a', 3), (2, 'b', 4); DELETE FROM orders WHERE id = 1")
    assert compared(t_env) == before + 2
    t_env.get_config().set("sqlengine.verify.every", "3")
    t_env.execute_sql("CREATE MATERIALIZED VIEW twice AS SELECT customer FROM orders")
    for number in range(3, 9):
        t_env.execute_sql(f"INSERT INTO orders VALUES ({number}, 'c', 1)")
    assert compared(t_env) == before + 2 + 6 + 2


@pytest.fixture
def wrong_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference that reads `>` as `>=`: one of the two is wrong, and the verifier cannot know which."""
    right = Texts.of

    def wrong(self: Texts, expr: object) -> str:
        return right(self, expr).replace(" > ", " >= ")  # type: ignore[arg-type]

    monkeypatch.setattr(Texts, "of", wrong)


def test_a_difference_is_told_with_the_one_row_that_shows_it(t_env: TableEnvironment, wrong_comparison: None) -> None:
    t_env.execute_sql(
        "CREATE MATERIALIZED VIEW big AS SELECT customer, COUNT(*) AS n FROM orders WHERE amount > 50 GROUP BY customer"
    )
    rows = ", ".join(f"({i}, 'c{i % 5}', {i})" for i in range(40))
    with pytest.warns(SqlEngineWarning, match="is not DuckDB's"):
        t_env.execute_script(
            f"INSERT INTO orders VALUES {rows}; INSERT INTO orders VALUES (100, 'ann', 50), (101, 'bob', 51)"
        )
    with pytest.raises(SqlEngineError) as caught:
        t_env.execute_sql("SELECT * FROM big")
    failure = caught.value.__cause__
    assert isinstance(failure, SqlEngineError) and failure.code == "E9102"
    assert failure.message.splitlines()[1:] == [
        "  only in DuckDB's (1x): ('ann', 1)",
        "input that shows it, 1 of 42 changes:",
        "  epoch 1, orders: +I 100 | ann | 50",
    ]


def test_a_query_and_an_insert_verify_themselves(t_env: TableEnvironment, wrong_comparison: None) -> None:
    t_env.execute_script("INSERT INTO orders VALUES (1, 'a', 3), (2, 'b', 4); CREATE TABLE copy (id INT)")
    with pytest.raises(SqlEngineError, match="E9102"):
        t_env.execute_sql("SELECT id FROM orders WHERE amount > 3").to_arrow()
    with pytest.raises(SqlEngineError, match="E9102"):
        t_env.execute_sql("INSERT INTO copy SELECT id FROM orders WHERE amount > 3")
    assert t_env.execute_sql("SELECT * FROM copy").to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT RAND() AS r FROM orders", "RAND, which gives another value each time"),
        ("SELECT LISTAGG(customer) AS l FROM orders", "the aggregate LISTAGG"),
        ("SELECT id FROM orders LIMIT 1", "LIMIT without ORDER BY, of which several answers are right"),
        ("SELECT ARRAY[id] AS l FROM orders", "a value of type ARRAY<INT NOT NULL>"),
    ],
)
def test_what_cannot_be_asked_is_said(t_env: TableEnvironment, query: str, reason: str) -> None:
    with pytest.warns(SqlEngineWarning, match="is not verified: DuckDB cannot be asked about") as told:
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert reason in str(told[0].message)


def test_functions_of_several_columns_are_the_engines_own(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE t (a INT, b STRING)")
    t_env.execute_sql("INSERT INTO t VALUES (3, 'x'), (NULL, 'y')")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = t_env.execute_sql("SELECT POWER(a, a + 1), CONCAT(b, CAST(a AS STRING)), RPAD(b, a, b) FROM t")
        assert sorted(map(tuple, result), key=str) == [(81.0, "x3", "xxx"), (None, None, None)]


def test_a_time_to_live_and_late_rows_end_it(t_env: TableEnvironment) -> None:
    t_env.execute_sql(
        "CREATE MATERIALIZED VIEW minutes AS SELECT window_start, COUNT(*) AS n "
        "FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
    )
    t_env.execute_sql("INSERT INTO clicks VALUES ('a', TIMESTAMP '2024-01-01 00:00:01')")
    t_env.execute_sql("INSERT INTO clicks VALUES ('b', TIMESTAMP '2024-01-01 00:02:00')")
    so_far = compared(t_env)
    assert so_far >= 2
    with pytest.warns(SqlEngineWarning, match="is not verified any further: rows were rejected"):
        t_env.execute_sql("INSERT INTO clicks VALUES ('late', TIMESTAMP '2024-01-01 00:00:02')")
    t_env.execute_sql("INSERT INTO clicks VALUES ('c', TIMESTAMP '2024-01-01 00:09:00')")
    assert compared(t_env) == so_far
    t_env.get_config().set("table.exec.state.ttl", "1 h")
    with pytest.warns(SqlEngineWarning, match="state with a time to live"):
        t_env.execute_sql("CREATE MATERIALIZED VIEW forgetful AS SELECT page FROM clicks GROUP BY page")


def test_equal_rows_at_a_limit_are_not_judged(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE MATERIALIZED VIEW best AS SELECT id FROM orders ORDER BY amount DESC LIMIT 1")
    before = compared(t_env)
    t_env.execute_sql("INSERT INTO orders VALUES (1, 'a', 3), (2, 'b', 3)")
    assert compared(t_env) == before
    t_env.execute_sql("UPDATE orders SET amount = 4 WHERE id = 2")
    assert compared(t_env) == before + 1
