"""Temporal joins, table functions, windows that count rows: the plans of their SQL, and right answers."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator

import pytest

from runtime.core.errors import render
from sqlengine import (
    CURRENT_RANGE,
    CURRENT_ROW,
    UNBOUNDED_ROW,
    Over,
    Session,
    Slide,
    SqlEngineError,
    Table,
    TableEnvironment,
    Tumble,
    call_sql,
    col,
    functions,
    lit,
    range_,
    row_interval,
    udtf,
    unnest,
    with_columns,
    without_columns,
)

DDL = """
CREATE TABLE orders (id INT, currency STRING, amount INT, tags ARRAY<STRING>, ts TIMESTAMP(3), pt AS PROCTIME(),
  WATERMARK FOR ts AS ts);
CREATE TABLE rates (currency STRING, rate INT, since TIMESTAMP(3), WATERMARK FOR since AS since,
  PRIMARY KEY (currency) NOT ENFORCED);
CREATE TABLE products (id INT, name STRING, price DECIMAL(8, 2))
  WITH ('connector' = 'lookup-jsonl', 'path' = 'tests/golden/source/products.jsonl');
"""
START = dt.datetime(2024, 1, 1)


@udtf(result_types={"letter": "STRING"})
def letters(text: str) -> Iterator[str]:
    yield from text or ""


@pytest.fixture(scope="module")
def env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        made.execute_script(DDL)
        made.create_temporary_system_function("letters", letters)
        yield made


CASES: dict[str, tuple[Callable[[Table, Table, Table], Table], str]] = {
    "temporal_join": (
        lambda o, r, p: (
            o.where(col("id") > 1)
            .join(r.for_system_time_as_of(col("ts")).alias("code", "rate", "since"), col("currency") == col("code"))
            .select("id", col("amount") * col("rate"))
        ),
        "SELECT o.id, o.amount * r.rate FROM (SELECT * FROM orders WHERE id > 1) AS o "
        "JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency = r.currency",
    ),
    "left_temporal_join": (
        lambda o, r, p: o.left_outer_join(
            r.for_system_time_as_of("ts").rename_columns(col("currency").alias("code")), col("currency") == col("code")
        ).select("id", "rate"),
        "SELECT o.id, r.rate FROM orders AS o LEFT JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r "
        "ON o.currency = r.currency",
    ),
    "lookup_join": (
        lambda o, r, p: o.join(
            p.for_system_time_as_of("pt").alias("pid", "name", "price"), (col("id") == col("pid")) & (col("price") > 1)
        ).select("id", "name"),
        "SELECT o.id, p.name FROM orders AS o JOIN products FOR SYSTEM_TIME AS OF o.pt AS p "
        "ON o.id = p.id AND p.price > 1",
    ),
    "left_lookup_join": (
        lambda o, r, p: o.left_outer_join(
            p.for_system_time_as_of("pt").rename_columns(col("id").alias("pid")), col("id") == col("pid")
        ).select("id", "name"),
        "SELECT o.id, p.name FROM orders AS o LEFT JOIN products FOR SYSTEM_TIME AS OF o.pt AS p ON o.id = p.id",
    ),
    "left_lateral_unnest": (
        lambda o, r, p: o.left_outer_join_lateral(unnest(col("tags")).alias("tag")).select("id", "tag"),
        "SELECT id, tag FROM orders LEFT JOIN UNNEST(tags) AS t (tag) ON TRUE",
    ),
    "over_rows_unbounded": (
        lambda o, r, p: o.over_window(
            Over.partition_by("currency").order_by("pt").preceding(UNBOUNDED_ROW).following(CURRENT_ROW).alias("w")
        ).select("id", col("amount").avg.over(col("w"))),
        "SELECT id, AVG(amount) OVER w FROM orders "
        "WINDOW w AS (PARTITION BY currency ORDER BY pt ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
    ),
    "over_range_interval": (
        lambda o, r, p: o.select(
            "id",
            col("amount").sum.over(
                Over.partition_by("currency").order_by("ts").preceding(lit(5).minutes).following(CURRENT_RANGE)
            ),
            col("amount").count.over(Over.order_by("ts").preceding(lit(4).rows)),
        ),
        "SELECT id, SUM(amount) OVER (PARTITION BY currency ORDER BY ts RANGE BETWEEN INTERVAL '5' MINUTE PRECEDING "
        "AND CURRENT ROW), COUNT(amount) OVER (ORDER BY ts ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) FROM orders",
    ),
    "column_ranges": (
        lambda o, r, p: o.select(with_columns(range_("currency", "tags"), 1), col("id") + 1),
        "SELECT currency, amount, tags, id, id + 1 FROM orders",
    ),
    "all_but": (
        lambda o, r, p: o.select(without_columns("pt", col("ts"))),
        "SELECT id, currency, amount, tags FROM orders",
    ),
    "drop_range": (
        lambda o, r, p: o.drop_columns(with_columns(range_(4, 6))),
        "SELECT id, currency, amount FROM orders",
    ),
    "rows_tumble": (
        lambda o, r, p: (
            o.window(Tumble.over(lit(3).rows).on("ts").alias("w"))
            .group_by(col("w"), "currency")
            .select("currency", (col("amount").sum + 1).alias("s"), functions.count_star())
        ),
        "SELECT c AS currency, s, n AS `EXPR$2` FROM (SELECT currency AS c, SUM(amount) OVER w + 1 AS s, COUNT(*) OVER w AS n, "
        "ROW_NUMBER() OVER (PARTITION BY currency ORDER BY ts) AS r FROM orders "
        "WINDOW w AS (PARTITION BY currency ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)) "
        "WHERE r >= 3 AND MOD(r - 3, 3) = 0",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operation_has_the_plan_of_its_sql(env: TableEnvironment, name: str) -> None:
    build, sql = CASES[name]
    made = build(*(env.from_path(t) for t in ("orders", "rates", "products")))
    assert plan(made.explain("CHANGELOG_MODE")) == plan(env.explain_sql(sql, "CHANGELOG_MODE"))
    assert made.schema.types == env.sql_query(sql).schema.types


def plan(text: str) -> str:
    # The plan that runs, without the names that queries give to computed columns.
    return text[text.index("== Physical Plan ==") :].replace("`$row`", "r").replace("$row", "r").partition("Calc")[2]


def test_a_table_function_gives_the_rows_of_its_sql(env: TableEnvironment) -> None:
    words = env.from_elements([("ab",), (None,), ("c",)], {"word": "STRING"})
    env.create_temporary_view("words", words)
    for made, sql in (
        (words.join_lateral(letters(col("word")).alias("l")), "CROSS JOIN LATERAL TABLE(letters(word)) AS t (l)"),
        (
            words.left_outer_join_lateral(letters(col("word")).alias("l")),
            "LEFT JOIN LATERAL TABLE(letters(word)) AS t (l) ON TRUE",
        ),
    ):
        twin = env.sql_query(f"SELECT * FROM words {sql}")
        assert made.schema == twin.schema
        assert list(made.execute()) == list(twin.execute())
    assert len(list(made.execute())) == 4


@pytest.mark.parametrize("time", ["ts", "pt"])
@pytest.mark.parametrize(("size", "every"), [(1, 1), (3, 3), (4, 2), (2, 5)])
def test_windows_of_rows_are_what_counting_gives(time: str, size: int, every: int) -> None:
    chosen = random.Random(size * 7 + every)
    rows = [(i, chosen.choice("ab"), chosen.randrange(100)) for i in range(60)]
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(
            "CREATE TABLE o (id INT, k STRING, v INT, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts)"
        )
        window = (Tumble if size == every else Slide).over(lit(size).rows)
        window = (window if size == every else window.every(row_interval(every))).on(time).alias("w")
        made = (
            t_env.from_path("o")
            .window(window)
            .group_by("w", "k", (col("v") % 2).alias("odd"))
            .select(
                "k",
                "odd",
                col("id").min,
                col("v").sum.filter(col("v") > 20),
                col("v").count.distinct,
                call_sql("MAX(v) - MIN(v)"),
            )
        )
        assert "[I]" in made.explain("CHANGELOG_MODE") and "[I,UB" not in made.explain("CHANGELOG_MODE")
        t_env.create_temporary_view("v", made)
        t_env.execute_sql("CREATE MATERIALIZED VIEW m AS SELECT * FROM v")
        for start in range(0, 60, 7):
            cut = rows[start : start + 7]
            t_env.from_elements(
                [(i, k, v, START + dt.timedelta(seconds=i)) for i, k, v in cut],
                {"id": "INT", "k": "STRING", "v": "INT", "ts": "TIMESTAMP(3)"},
            ).execute_insert("o")
        found = sorted(map(tuple, t_env.execute_sql("SELECT * FROM m")))
    expected = []
    for k, odd in {(k, v % 2) for _, k, v in rows}:
        group = [(i, v) for i, other, v in rows if (other, v % 2) == (k, odd)]
        for start in range(0, len(group) - size + 1, every):
            part = group[start : start + size]
            values = [v for _, v in part]
            big = [v for v in values if v > 20]
            expected.append(
                (k, odd, part[0][0], sum(big) if big else None, len(set(values)), max(values) - min(values))
            )
    # With time by rows the last row of the stream waits for the watermark to pass it.
    missing = [row for row in sorted(expected, key=str) if row not in found]
    assert sorted(found, key=str) == [row for row in sorted(expected, key=str) if row not in missing]
    assert len(missing) <= (2 if time == "ts" else 0)


MISTAKES: dict[str, tuple[Callable[[Table, Table, Table], object], str]] = {
    "a key that is none": (
        lambda o, r, p: (
            o.window(Tumble.over(lit(2).rows).on("ts").alias("w")).group_by("w", "currency").select(col("id") + 1)
        ),
        'E1217 the column "id" is not grouped\n  at 1:8\n  1 | select(col("id") + 1)\n             ^^^^^^^^^\n'
        "  hint: add it to GROUP BY, or aggregate it, for example MAX(..)",
    ),
    "the start of a window of rows": (
        lambda o, r, p: o.window(Tumble.over(lit(2).rows).on("ts").alias("w")).group_by("w").select(col("w").start),
        'E1230 a window of rows has no start in time\n  hint: for example the time of its last row: col("ts").max',
    ),
    "no rows": (
        lambda o, r, p: Tumble.over(row_interval(0)),
        "E1230 Tumble.over takes no row_interval(0)\n  hint: Tumble and Slide count rows: row_interval(n) with n of at "
        "least 1",
    ),
    "a session of rows": (
        lambda o, r, p: Session.with_gap(lit(2).rows),
        "E1230 Session.with_gap takes no row_interval(2)\n  hint: it takes a length of time, such as lit(10).minutes",
    ),
    "rows and time": (
        lambda o, r, p: Slide.over(lit(2).rows).every(lit(1).minutes),
        "E1230 the size and the step of a window are of one kind: both lengths of time, or both numbers of rows\n"
        "  hint: for example Slide.over(lit(10).rows).every(lit(5).rows)",
    ),
    "a step of TUMBLE": (
        lambda o, r, p: Tumble.over(lit(2).minutes).every(lit(1).minutes),
        "E1230 Tumble.over(..) takes no every\n  hint: Slide.over(size).every(step) and Cumulate.over(size).every(step) do",
    ),
    "two steps": (
        lambda o, r, p: Slide.over(lit(2).rows).every(lit(1).rows).every(lit(1).rows),
        "E1230 a window has one step, and every is there twice\n"
        "  hint: Slide.over(size).every(step) and Cumulate.over(size).every(step) do",
    ),
    "no step": (
        lambda o, r, p: o.window(Slide.over(lit(2).minutes).on("ts").alias("w")),
        "E1230 the window lacks its step\n  hint: add .every(..) to Slide.over(lit(2).minutes)",
    ),
    "a window table of rows": (
        lambda o, r, p: o.window(Tumble.over(lit(2).rows).on("ts").alias("w")).as_table(),
        'E1230 a window of rows has no table function in SQL\n  hint: group_by(col("w")).select(..) gives the results of '
        "such windows",
    ),
    "rows in no order of time": (
        lambda o, r, p: o.window(Tumble.over(lit(2).rows).on("id").alias("w")).group_by("w").select(col("id").max),
        'E1231 a window of rows takes a time attribute, and "id" is a plain INT\n  hint: name it in WATERMARK FOR of its '
        "table, or take a column that is PROCTIME()",
    ),
    "versions of a query": (
        lambda o, r, p: r.where(col("rate") > 1).for_system_time_as_of("ts"),
        "E1202 only a table or view of the catalog has versions, and this one is a query\n  hint: "
        'create_temporary_view("versions", table), then from_path("versions"); columns are renamed after '
        "for_system_time_as_of",
    ),
    "a table that is looked up": (
        lambda o, r, p: p.where(col("id") > 1),
        'E1628 the table "products" can only be looked up by key\n  at 1:1\n  1 | where(col("id") > 1)\n'
        "      ^^^^^^^^^^^^^^^^^^^^\n  hint: write JOIN products FOR SYSTEM_TIME AS OF t.proctime ON ..",
    ),
    "a column that is none": (
        lambda o, r, p: o.select(with_columns(range_("currency", "tag"))),
        'E1201 unknown column "tag"\n  hint: did you mean "tags"?',
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_where_it_is(env: TableEnvironment, name: str) -> None:
    build, message = MISTAKES[name]
    with pytest.raises(SqlEngineError) as caught:
        build(*(env.from_path(t) for t in ("orders", "rates", "products")))
    assert render(caught.value) == message
