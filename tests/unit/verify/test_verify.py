"""SET 'sqlengine.verify': a difference stops the query and is told with few rows; what cannot be checked is said."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runtime.core.errors import SqlEngineError
from runtime.eval.aggregates.ends import EndValue
from runtime.operators.session_state import SessionState
from runtime.operators.unnest import UnnestOperator
from runtime.state.versions import Versions
from sqlengine import SqlEngineWarning, TableEnvironment
from sqlengine.verify import verifier
from sqlengine.verify.texts import Texts


@pytest.fixture
def t_env(monkeypatch: pytest.MonkeyPatch) -> Iterator[TableEnvironment]:
    monkeypatch.setattr(verifier, "SHRINKING_SECONDS", 120.0)
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
        (
            "SELECT FIRST_VALUE(customer) AS l FROM orders",
            "FIRST_VALUE or LAST_VALUE over anything but the rows of one",
        ),
        (
            "SELECT c.page, p.name FROM (SELECT page, PROCTIME() AS p FROM clicks) c JOIN product "
            "FOR SYSTEM_TIME AS OF c.p AS p ON c.page = p.name",
            "a lookup join, because each row has the answer of the moment when it asked",
        ),
        ("SELECT UPPER(LISTAGG(customer)) AS l FROM orders", "what is computed from the parts of LISTAGG"),
        (
            "SELECT * FROM TABLE(SESSION(TABLE clicks, DESCRIPTOR(at), INTERVAL '1' HOUR))",
            "a session window that is not",
        ),
        ("SELECT id FROM orders LIMIT 1", "LIMIT without ORDER BY, of which several answers are right"),
    ],
)
def test_what_cannot_be_asked_is_said(t_env: TableEnvironment, query: str, reason: str) -> None:
    t_env.execute_sql(
        "CREATE TABLE product (id INT, name STRING) "
        "WITH ('connector' = 'lookup-jsonl', 'path' = 'tests/golden/source/products.jsonl')"
    )
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


LISTS = "CREATE TABLE posts (id INT PRIMARY KEY NOT ENFORCED, who STRING, tags ARRAY<STRING>, parts ARRAY<ROW<a INT, b STRING>>);"
QUERIES = {
    "listagg": "SELECT who, LISTAGG(CAST(id AS STRING), '; ') AS ids, COUNT(*) AS n FROM posts GROUP BY who",
    "gathered": "SELECT who, ARRAY_AGG(id) AS ids, COLLECT(CARDINALITY(tags)) AS sizes FROM posts GROUP BY who",
    "correlated": "SELECT id, (SELECT LISTAGG(p.who) FROM posts AS p WHERE p.id < posts.id) AS before, "
    "(SELECT COLLECT(p.id) FROM posts AS p WHERE p.who = posts.who AND p.id <> posts.id) AS others, "
    "(SELECT ARRAY_AGG(DISTINCT p.who) FILTER (WHERE p.id > 1) FROM posts AS p WHERE p.id > posts.id) AS later FROM posts",
    "lateral": "SELECT id, w, n FROM posts, LATERAL (SELECT LISTAGG(p.who) AS w, COUNT(*) AS n FROM posts AS p "
    "WHERE p.who = posts.who AND p.id > posts.id)",
    "kept": "SELECT ids FROM (SELECT who, LISTAGG(DISTINCT who) AS ids, COUNT(*) AS n FROM posts GROUP BY who) WHERE n > 1",
    "nested": "SELECT ARRAY[id, 1] AS l, tags, parts[1].b AS b, ROW(id, tags) AS r FROM posts",
    "unnest": "SELECT id, tag, place FROM posts CROSS JOIN UNNEST(tags) WITH ORDINALITY AS u (tag, place)",
    "outer": "SELECT id, a, b FROM posts LEFT JOIN UNNEST(parts) AS u (a, b) ON TRUE",
    "by_tag": "SELECT tag, COUNT(*) AS n FROM posts CROSS JOIN UNNEST(tags) AS u (tag) GROUP BY tag",
    "by_tags": "SELECT tags, COUNT(*) AS n FROM posts GROUP BY tags",
    "sessions": "SELECT page, window_start, window_end, COUNT(*) AS n, LISTAGG(page) AS pages FROM TABLE(SESSION("
    "TABLE clicks PARTITION BY page, DESCRIPTOR(at), INTERVAL '5' MINUTES)) GROUP BY page, window_start, window_end",
}


VERSIONS = """
CREATE TABLE rate_log (page STRING, rate INT, since TIMESTAMP(3), WATERMARK FOR since AS since - INTERVAL '1' MINUTE);
CREATE TABLE rates (page STRING PRIMARY KEY NOT ENFORCED, rate INT, since TIMESTAMP(3),
  WATERMARK FOR since AS since - INTERVAL '1' MINUTE);
CREATE VIEW last_rate AS SELECT page, rate, since FROM
  (SELECT *, ROW_NUMBER() OVER (PARTITION BY page ORDER BY since DESC) AS n FROM rate_log) WHERE n = 1;
CREATE TABLE bags (id INT, tags MAP<STRING, INT>);
"""
AS_OF = "FOR SYSTEM_TIME AS OF c.at AS r ON c.page = r.page"
BY_ARRIVAL = {
    "versions": f"SELECT c.page, c.at, r.rate, r.since FROM clicks c LEFT JOIN rates {AS_OF}",
    "versions_of_view": f"SELECT c.page, c.at, r.rate FROM clicks c LEFT JOIN last_rate {AS_OF} AND r.rate > 11",
    "sums_of_versions": f"SELECT r.page, SUM(r.rate) AS s FROM clicks c JOIN rates {AS_OF} GROUP BY r.page",
    "ends": "SELECT page, FIRST_VALUE(rate) AS f, LAST_VALUE(rate) AS l, "
    "LAST_VALUE(rate) FILTER (WHERE rate > 12) AS g, COUNT(*) AS n FROM rate_log GROUP BY page",
    "ends_of_windows": "SELECT window_start, FIRST_VALUE(rate) AS f, LAST_VALUE(page) AS l FROM TABLE(TUMBLE("
    "TABLE rate_log, DESCRIPTOR(since), INTERVAL '5' MINUTE)) GROUP BY window_start, window_end",
    "maps": "SELECT id, tags, tags['a'] AS a, MAP_KEYS(tags) AS k, MAP[id, 'x'] AS made FROM bags WHERE id <> 3",
    "entries": "SELECT id, k, v FROM bags CROSS JOIN UNNEST(tags) AS u (k, v)",
}


def feed_versions(t_env: TableEnvironment) -> None:
    """Versions and rows in turn, several of a key in an epoch, none of them late."""

    def at(minute: int) -> str:
        return f"TIMESTAMP '2024-01-01 00:{minute:02d}:00'"

    for turn, page in enumerate("abaab"):
        minute = 4 * turn
        t_env.execute_sql(f"INSERT INTO rates VALUES ('{page}', {10 + turn}, {at(minute)})")
        t_env.execute_sql(
            f"INSERT INTO rate_log VALUES ('{page}', {10 + turn}, {at(minute)}), ('b', NULL, {at(minute + 1)}), "
            f"('{page}', {20 - turn}, {at(minute + 2)})"
        )
        t_env.execute_sql(f"INSERT INTO clicks VALUES ('a', {at(minute + 1)}), ('b', {at(minute + 3)})")
        t_env.execute_sql(f"INSERT INTO bags VALUES ({turn}, MAP['a', {turn}, 'b', 1]), ({turn}, NULL)")


@pytest.mark.filterwarnings("error")
def test_versions_ends_and_maps_are_compared(t_env: TableEnvironment) -> None:
    t_env.execute_script(VERSIONS)
    for name, query in BY_ARRIVAL.items():
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
    feed_versions(t_env)
    verified = {view.job.name: [v.compared for _, v in view.job.watch.verifiers] for view in t_env.session.views.jobs()}
    assert {name.removeprefix("view v_"): n >= 5 for name, (n,) in verified.items()} == dict.fromkeys(BY_ARRIVAL, True)
    found = t_env.execute_sql("SELECT * FROM v_versions").to_arrow()
    assert found.num_rows >= 8 and found.column("rate").null_count < 4


def test_versions_that_come_late_end_it(t_env: TableEnvironment) -> None:
    t_env.execute_script(VERSIONS)
    t_env.execute_sql(f"CREATE MATERIALIZED VIEW v AS {BY_ARRIVAL['versions']}")
    feed_versions(t_env)
    with pytest.warns(SqlEngineWarning, match="not verified any further: it holds versions that came late"):
        t_env.execute_sql("INSERT INTO rates VALUES ('a', 99, TIMESTAMP '2024-01-01 00:01:00')")


def feed(t_env: TableEnvironment) -> None:
    t_env.execute_script(
        """
        INSERT INTO posts VALUES
          (1, 'a', ARRAY['x', 'y'], ARRAY[ROW(1, 'p'), ROW(2, 'q')]), (2, 'a', ARRAY['y', CAST(NULL AS STRING), 'y'], NULL),
          (3, 'b', NULL, ARRAY[ROW(1, CAST(NULL AS STRING))]);
        UPDATE posts SET who = 'c' WHERE id = 1;
        DELETE FROM posts WHERE id = 2;
        INSERT INTO posts VALUES (4, 'c', ARRAY['x', 'y'], NULL), (5, 'c', ARRAY['z'], ARRAY[ROW(9, 'z')])
        """
    )
    for page, minute in (("a", 0), ("b", 0), ("a", 4), ("b", 7), ("a", 20), ("b", 40)):
        t_env.execute_sql(f"INSERT INTO clicks VALUES ('{page}', TIMESTAMP '2024-01-01 00:{minute:02d}:00')")


def test_lists_unnested_arrays_and_sessions_are_compared(t_env: TableEnvironment) -> None:
    t_env.execute_script(LISTS)
    for name, query in QUERIES.items():
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
    feed(t_env)
    verified = {view.job.name: [v.compared for _, v in view.job.watch.verifiers] for view in t_env.session.views.jobs()}
    assert {name.removeprefix("view v_"): n >= 4 for name, (n,) in verified.items()} == dict.fromkeys(QUERIES, True)


def lose_an_element(monkeypatch: pytest.MonkeyPatch) -> None:
    """UNNEST that loses the third element of a row."""
    right = UnnestOperator._output

    def wrong(self: UnnestOperator, batch: Any, collection: Any, *rest: Any) -> Any:
        rows, positions, ordinal, padded = rest
        kept = ordinal != 2
        return right(self, batch, collection, rows[kept], positions[kept], ordinal[kept], padded[kept])

    monkeypatch.setattr(UnnestOperator, "_output", wrong)


def double_the_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that wait twice as long."""
    right = SessionState.__init__
    monkeypatch.setattr(SessionState, "__init__", lambda self, keys, gap, zone: right(self, keys, 2 * gap, zone))


def older_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporal join that looks two minutes too far back."""
    right = Versions.valid_at
    monkeypatch.setattr(Versions, "valid_at", lambda self, keys, times: right(self, keys, times - 120_000_000))


def first_for_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """LAST_VALUE that gives the first one."""
    right = EndValue.__init__
    monkeypatch.setattr(EndValue, "__init__", lambda self, type_, last: right(self, type_, False))


@pytest.mark.parametrize(
    ("plant", "query", "rows"),
    [
        (
            older_versions,
            "versions",
            [
                "  epoch 1, rates: +I a | 10 | 2024-01-01 00:00:00",
                "  epoch 2, clicks: +I a | 2024-01-01 00:01:00",
                "  epoch 2, clicks: +I b | 2024-01-01 00:03:00",
                "  epoch 3, rates: +I b | 11 | 2024-01-01 00:04:00",
            ],
        ),
        (
            first_for_last,
            "ends",
            [
                "  epoch 1, rate_log: +I a | 10 | 2024-01-01 00:00:00",
                "  epoch 1, rate_log: +I a | 20 | 2024-01-01 00:02:00",
            ],
        ),
        (lose_an_element, "unnest", ["  epoch 1, posts: +I 2 | a | ['y', None, 'y'] | None"]),
        (
            double_the_gap,
            "sessions",
            ["  epoch 1, clicks: +I b | 2024-01-01 00:00:00", "  epoch 2, clicks: +I b | 2024-01-01 00:07:00"],
        ),
    ],
    ids=["versions", "ends", "unnest", "sessions"],
)
def test_an_operator_that_is_wrong_is_found(
    t_env: TableEnvironment,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    query: str,
    rows: list[str],
) -> None:
    plant(monkeypatch)
    t_env.execute_script(LISTS + VERSIONS)
    t_env.execute_sql(f"CREATE MATERIALIZED VIEW v AS {(QUERIES | BY_ARRIVAL)[query]}")
    with pytest.warns(SqlEngineWarning, match="is not DuckDB's"):
        (feed if query in QUERIES else feed_versions)(t_env)
    with pytest.raises(SqlEngineError) as caught:
        t_env.execute_sql("SELECT * FROM v")
    failure = caught.value.__cause__
    assert isinstance(failure, SqlEngineError) and failure.code == "E9102"
    assert failure.message.partition("input that shows it")[2].splitlines()[1:] == rows


@pytest.mark.filterwarnings("error")
def test_time_that_a_view_tells_and_numbers_that_are_none(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE MATERIALIZED VIEW kept AS SELECT page, at FROM clicks WHERE page <> 'x'")
    t_env.execute_sql(
        "CREATE MATERIALIZED VIEW minutes AS SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE kept, "
        "DESCRIPTOR(at), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
    )
    for minute in range(4):
        t_env.execute_sql(f"INSERT INTO clicks VALUES ('a', TIMESTAMP '2024-01-01 00:{minute:02d}:30')")
    assert t_env.execute_sql("SELECT * FROM minutes").to_arrow().num_rows == 3
    t_env.execute_sql("CREATE TABLE numbers (x DOUBLE)")
    t_env.execute_sql(
        "INSERT INTO numbers VALUES (CAST('NaN' AS DOUBLE)), (CAST('-Infinity' AS DOUBLE)), (-0e0), (NULL)"
    )
    assert t_env.execute_sql("SELECT * FROM numbers").to_arrow().num_rows == 4


def test_sessions_of_a_table_that_changes_are_not_judged(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE visits (id INT PRIMARY KEY NOT ENFORCED, at TIMESTAMP(3), WATERMARK FOR at AS at) ")
    with pytest.warns(SqlEngineWarning, match="sessions of a table that changes"):
        t_env.execute_sql(
            "CREATE MATERIALIZED VIEW s AS SELECT window_start, COUNT(*) AS n FROM TABLE(SESSION(TABLE visits, "
            "DESCRIPTOR(at), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
        )


@pytest.mark.filterwarnings("error")
def test_an_upsert_stream_and_a_subquery_without_rows(t_env: TableEnvironment) -> None:
    t_env.execute_script("""
        CREATE TABLE src (id INT PRIMARY KEY NOT ENFORCED, p STRING, v INT) WITH ('connector' = 'values',
          'changelog-mode' = 'upsert',
          'data' = '[{"op":"+I","id":2,"p":"a","v":7}, {"op":"+U","id":2,"p":"b","v":9}, {"op":"+I","id":3,"p":"a","v":1}]');
        INSERT INTO orders VALUES (1, 'a', 3), (2, 'b', NULL)
    """)
    assert len(t_env.execute_sql("SELECT p, COUNT(*), MAX(v) FROM src GROUP BY p").to_arrow()) == 2
    some = "SELECT id FROM orders WHERE EXISTS (SELECT COUNT(*) FROM src WHERE src.id = orders.amount)"
    assert len(t_env.execute_sql(some).to_arrow()) == 2


@pytest.mark.filterwarnings("error")
def test_time_that_an_interval_join_holds_back(t_env: TableEnvironment) -> None:
    t_env.execute_script(
        VERSIONS + "CREATE TABLE looks (page STRING, seen TIMESTAMP(3), WATERMARK FOR seen AS seen);"
        "CREATE VIEW both_of AS SELECT c.page, c.at FROM clicks c JOIN looks l ON c.page = l.page "
        "AND l.seen BETWEEN c.at - INTERVAL '1' HOUR AND c.at + INTERVAL '1' HOUR;"
        "CREATE MATERIALIZED VIEW minutes AS SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE both_of, "
        "DESCRIPTOR(at), INTERVAL '20' MINUTE)) GROUP BY window_start, window_end;"
        f"CREATE MATERIALIZED VIEW versions AS SELECT c.page, r.rate FROM both_of c JOIN rates {AS_OF};"
        "INSERT INTO rates VALUES ('a', 1, TIMESTAMP '2024-01-01 00:00:00'), ('b', 1, TIMESTAMP '2024-01-01 09:00:00')"
    )
    for hour in range(1, 4):
        t_env.execute_sql(f"INSERT INTO clicks VALUES ('a', TIMESTAMP '2024-01-01 0{hour}:00:00')")
        t_env.execute_sql(f"INSERT INTO looks VALUES ('a', TIMESTAMP '2024-01-01 0{hour}:30:00')")
    assert t_env.execute_sql("SELECT * FROM minutes").to_arrow().num_rows == 1
    assert t_env.execute_sql("SELECT * FROM versions").to_arrow().num_rows == 1
    assert compared(t_env) >= 6
