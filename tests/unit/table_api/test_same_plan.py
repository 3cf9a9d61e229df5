"""Every operation of the Table API has the plan, and the schema, of the SQL that means the same."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal

import pytest

from sqlengine import (
    CURRENT_RANGE,
    CURRENT_ROW,
    UNBOUNDED_RANGE,
    Cumulate,
    DataTypes,
    Over,
    Session,
    Slide,
    Table,
    TableEnvironment,
    Tumble,
    and_,
    array,
    call,
    call_sql,
    coalesce,
    col,
    if_then_else,
    lit,
    map_,
    not_,
    null_of,
    or_,
    row,
    row_interval,
    unnest,
)

DDL = """
CREATE TABLE orders (
  id BIGINT, customer STRING, amount DECIMAL(10, 2), tags ARRAY<STRING>, place ROW<city STRING, zip INT>,
  marks MAP<STRING, INT>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);
CREATE TABLE customers (name STRING, city STRING, PRIMARY KEY (name) NOT ENFORCED);
CREATE TABLE shipments (order_id BIGINT, shipped TIMESTAMP(3), WATERMARK FOR shipped AS shipped);
CREATE TABLE totals (customer STRING, total DECIMAL(38, 2), PRIMARY KEY (customer) NOT ENFORCED);
CREATE TABLE `a table` (`order` INT, `a``b` STRING);
"""


@pytest.fixture(scope="module")
def env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        made.execute_script(DDL)
        yield made


ten_minutes = Tumble.over(lit(10).minutes).on(col("ts")).alias("w")
rows_before = Over.partition_by("customer").order_by("ts").preceding(row_interval(2)).following(CURRENT_ROW)

CASES: dict[str, tuple[Callable[[Table, Table, Table], Table], str]] = {
    "from_path": (lambda o, c, s: o, "SELECT * FROM orders"),
    "select": (lambda o, c, s: o.select(col("id"), "customer"), "SELECT id, customer FROM orders"),
    "select_all": (lambda o, c, s: o.select("*"), "SELECT * FROM orders"),
    "select_expression": (
        lambda o, c, s: o.select((col("id") + 1) * 2 - col("id") / 3 % 2, -col("amount"), (1 - col("id")).alias("x")),
        "SELECT (id + 1) * 2 - id / 3 % 2, -amount, 1 - id AS x FROM orders",
    ),
    "select_twice": (
        lambda o, c, s: o.select((col("id") + 1).alias("n")).select(col("n") * 2),
        "SELECT n * 2 FROM (SELECT id + 1 AS n FROM orders)",
    ),
    "attributes": (lambda o, c, s: o.select(o.id, o["amount"]), "SELECT id, amount FROM orders"),
    "where": (
        lambda o, c, s: o.where((col("id") > 1) & ((col("id") < 9) | (col("customer") == "it's")) & ~(col("id") == 5)),
        "SELECT * FROM orders WHERE id > 1 AND (id < 9 OR customer = 'it''s') AND NOT id = 5",
    ),
    "where_twice": (
        lambda o, c, s: o.where((col("id") > 1) | (col("id") < 0)).filter((col("id") != 3) | (col("id") <= 4)),
        "SELECT * FROM orders WHERE (id > 1 OR id < 0) AND (id <> 3 OR id <= 4)",
    ),
    "where_after_select": (
        lambda o, c, s: o.select((col("id") * 2).alias("d")).where(col("d") > 4),
        "SELECT * FROM (SELECT id * 2 AS d FROM orders) WHERE d > 4",
    ),
    "and_or_not": (
        lambda o, c, s: o.where(and_(or_(col("id") > 1, col("id") < 0), not_(col("id") == 7))),
        "SELECT * FROM orders WHERE (id > 1 OR id < 0) AND NOT id = 7",
    ),
    "alias": (
        lambda o, c, s: c.alias("n", "town"),
        "SELECT name AS n, city AS town FROM customers",
    ),
    "add_columns": (
        lambda o, c, s: c.add_columns(col("name").upper_case.alias("loud")),
        "SELECT *, UPPER(name) AS loud FROM customers",
    ),
    "add_or_replace_columns": (
        lambda o, c, s: c.add_or_replace_columns(col("city").lower_case.alias("city"), lit(1).alias("one")),
        "SELECT name, LOWER(city) AS city, 1 AS one FROM customers",
    ),
    "rename_columns": (
        lambda o, c, s: c.rename_columns(col("city").alias("town")),
        "SELECT name, city AS town FROM customers",
    ),
    "drop_columns": (
        lambda o, c, s: o.drop_columns("tags", col("place"), "marks", "ts"),
        "SELECT id, customer, amount FROM orders",
    ),
    "distinct": (lambda o, c, s: o.select("customer").distinct(), "SELECT DISTINCT customer FROM orders"),
    "distinct_all": (lambda o, c, s: c.distinct(), "SELECT DISTINCT * FROM customers"),
    "top": (
        lambda o, c, s: o.order_by(col("amount").desc, "id").limit(3),
        "SELECT * FROM orders ORDER BY amount DESC, id LIMIT 3",
    ),
    "select_of_order": (
        lambda o, c, s: o.where(col("id") > 1).order_by(col("amount").desc).select("customer", "id"),
        "SELECT customer, id FROM orders WHERE id > 1 ORDER BY amount DESC",
    ),
    "page": (
        lambda o, c, s: o.order_by("id").offset(10).fetch(5),
        "SELECT * FROM orders ORDER BY id LIMIT 5 OFFSET 10",
    ),
    "limit_offset": (
        lambda o, c, s: o.order_by(col("id").asc).limit(5, 2),
        "SELECT * FROM orders ORDER BY id LIMIT 5 OFFSET 2",
    ),
    "select_of_limit": (
        lambda o, c, s: o.order_by("id").limit(2).select("customer"),
        "SELECT customer FROM (SELECT * FROM orders ORDER BY id LIMIT 2)",
    ),
    "limit_of_select": (
        lambda o, c, s: o.select("customer").order_by("customer").limit(2),
        "SELECT customer FROM orders ORDER BY customer LIMIT 2",
    ),
    "group_by": (
        lambda o, c, s: o.group_by("customer").select(
            col("customer"),
            col("amount").sum.alias("total"),
            col("id").count,
        ),
        "SELECT customer, SUM(amount) AS total, COUNT(id) FROM orders GROUP BY customer",
    ),
    "group_by_expression": (
        lambda o, c, s: o.group_by((col("id") % 2).alias("k")).select("k", col("id").max),
        "SELECT k, MAX(id) FROM (SELECT *, id % 2 AS k FROM orders) GROUP BY k",
    ),
    "having": (
        lambda o, c, s: o.group_by("customer").select("customer", col("id").count.alias("n")).where(col("n") > 1),
        "SELECT * FROM (SELECT customer, COUNT(id) AS n FROM orders GROUP BY customer) WHERE n > 1",
    ),
    "global_aggregate": (
        lambda o, c, s: o.select(col("id").count.distinct, col("amount").avg, col("id").sum.filter(col("id") > 3)),
        "SELECT COUNT(DISTINCT id), AVG(amount), SUM(id) FILTER (WHERE id > 3) FROM orders",
    ),
    "tumble": (
        lambda o, c, s: (
            o.window(ten_minutes)
            .group_by(col("w"), col("customer"))
            .select(col("customer"), col("w").start, col("w").end.alias("till"), col("amount").sum)
        ),
        "SELECT customer, window_start, window_end AS till, SUM(amount) FROM TABLE(TUMBLE(TABLE orders, "
        "DESCRIPTOR(ts), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, customer",
    ),
    "tumble_of_query": (
        lambda o, c, s: o.where(col("id") > 1).window(ten_minutes).group_by("w").select(col("id").count),
        "SELECT COUNT(id) FROM TABLE(TUMBLE((SELECT * FROM orders WHERE id > 1), DESCRIPTOR(ts), INTERVAL '10' "
        "MINUTES)) GROUP BY window_start, window_end",
    ),
    "window_of_window": (
        lambda o, c, s: (
            o.window(ten_minutes)
            .group_by("w", "customer")
            .select(col("w").rowtime.alias("t"), col("amount").sum.alias("a"))
            .window(Tumble.over(lit(1).hours).on("t").alias("h"))
            .group_by("h")
            .select(col("h").start, col("a").max)
        ),
        "SELECT window_start, MAX(a) FROM TABLE(TUMBLE((SELECT window_time AS t, SUM(amount) AS a FROM TABLE(TUMBLE("
        "TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, window_time, "
        "customer), DESCRIPTOR(t), INTERVAL '1' HOUR)) GROUP BY window_start, window_end",
    ),
    "slide": (
        lambda o, c, s: (
            o.window(Slide.over(lit(10).minutes).every(lit(30).seconds).on("ts").alias("w"))
            .group_by("w")
            .select(col("w").end, col("id").count)
        ),
        "SELECT window_end, COUNT(id) FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '10' "
        "MINUTE)) GROUP BY window_start, window_end",
    ),
    "cumulate": (
        lambda o, c, s: (
            o.window(Cumulate.over(lit(1).day).every(lit(1).hour).on("ts").alias("w"))
            .group_by("w")
            .select(col("w").end, col("id").count)
        ),
        "SELECT window_end, COUNT(id) FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL "
        "'1' DAY)) GROUP BY window_start, window_end",
    ),
    "session": (
        lambda o, c, s: (
            o.window(Session.with_gap(lit(5).minutes).on("ts").alias("w"))
            .group_by(col("w"), "customer")
            .select("customer", col("w").start, col("id").count)
        ),
        "SELECT customer, window_start, COUNT(id) FROM TABLE(SESSION(TABLE orders PARTITION BY (customer), "
        "DESCRIPTOR(ts), INTERVAL '5' MINUTES)) GROUP BY window_start, window_end, customer",
    ),
    "window_table": (
        lambda o, c, s: o.window(ten_minutes).as_table(),
        "SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTES))",
    ),
    "over_window": (
        lambda o, c, s: o.over_window(
            Over.partition_by("customer").order_by("ts").preceding(UNBOUNDED_RANGE).following(CURRENT_RANGE).alias("w")
        ).select("id", col("amount").sum.over(col("w")), col("id").count.over(col("w"))),
        "SELECT id, SUM(amount) OVER w, COUNT(id) OVER w FROM orders WINDOW w AS (PARTITION BY customer ORDER BY ts "
        "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
    ),
    "over_range": (
        lambda o, c, s: o.select(col("amount").max.over(Over.order_by("ts").preceding(lit(1).hours))),
        "SELECT MAX(amount) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) FROM orders",
    ),
    "over_rows": (
        lambda o, c, s: o.select(col("amount").sum.over(rows_before)),
        "SELECT SUM(amount) OVER (PARTITION BY customer ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) "
        "FROM orders",
    ),
    "top_n": (
        lambda o, c, s: o.select(
            "id",
            "customer",
            call("ROW_NUMBER").over(Over.partition_by("customer").order_by(col("amount").desc)).alias("rank"),
        ).where(col("rank") <= 2),
        "SELECT * FROM (SELECT id, customer, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount DESC) AS `rank` "
        "FROM orders) WHERE `rank` <= 2",
    ),
    "join": (
        lambda o, c, s: o.join(c, col("customer") == col("name")),
        "SELECT * FROM orders JOIN customers ON customer = name",
    ),
    "join_where": (
        lambda o, c, s: o.join(c).where(col("customer") == col("name")),
        "SELECT * FROM orders CROSS JOIN customers WHERE customer = name",
    ),
    "join_of_queries": (
        lambda o, c, s: (
            o.where(col("id") > 1)
            .select("id", "customer")
            .join(c.where(col("city") == "Bern"), col("customer") == col("name"))
            .select("id")
        ),
        "SELECT id FROM (SELECT id, customer FROM orders WHERE id > 1) JOIN (SELECT * FROM customers WHERE city = "
        "'Bern') ON customer = name",
    ),
    "left_outer_join": (
        lambda o, c, s: o.left_outer_join(c, col("customer") == col("name")),
        "SELECT * FROM orders LEFT JOIN customers ON customer = name",
    ),
    "right_outer_join": (
        lambda o, c, s: o.right_outer_join(c, col("customer") == col("name")),
        "SELECT * FROM orders RIGHT JOIN customers ON customer = name",
    ),
    "full_outer_join": (
        lambda o, c, s: o.full_outer_join(c, col("customer") == col("name")),
        "SELECT * FROM orders FULL JOIN customers ON customer = name",
    ),
    "interval_join": (
        lambda o, c, s: o.join(
            s, (col("id") == col("order_id")) & col("shipped").between(col("ts"), col("ts") + lit(4).hours)
        ).select("id", "shipped"),
        "SELECT id, shipped FROM orders JOIN shipments ON id = order_id AND shipped BETWEEN ts AND ts + INTERVAL '4' "
        "HOUR",
    ),
    "join_lateral": (
        lambda o, c, s: o.join_lateral(unnest(col("tags")).alias("tag")).select("id", "tag"),
        "SELECT id, tag FROM orders CROSS JOIN UNNEST(tags) AS t (tag)",
    ),
    "left_outer_join_lateral": (
        lambda o, c, s: o.left_outer_join_lateral(unnest(col("tags")).alias("tag")).select("id", "tag"),
        "SELECT id, tag FROM orders LEFT JOIN UNNEST(tags) AS t (tag) ON TRUE",
    ),
    "union": (
        lambda o, c, s: o.select("customer").union(c.select("name")),
        "SELECT customer FROM orders UNION SELECT name FROM customers",
    ),
    "union_all": (
        lambda o, c, s: o.select("customer").union_all(c.select("name")).union_all(c.select("city")),
        "SELECT customer FROM orders UNION ALL SELECT name FROM customers UNION ALL SELECT city FROM customers",
    ),
    "intersect": (
        lambda o, c, s: o.select("customer").intersect(c.select("name")),
        "SELECT customer FROM orders INTERSECT SELECT name FROM customers",
    ),
    "intersect_all": (
        lambda o, c, s: o.select("customer").intersect_all(c.select("name")),
        "SELECT customer FROM orders INTERSECT ALL SELECT name FROM customers",
    ),
    "minus": (
        lambda o, c, s: o.select("customer").minus(c.select("name")),
        "SELECT customer FROM orders EXCEPT SELECT name FROM customers",
    ),
    "minus_all": (
        lambda o, c, s: o.select("customer").minus_all(c.select("name")),
        "SELECT customer FROM orders EXCEPT ALL SELECT name FROM customers",
    ),
    "set_of_sets": (
        lambda o, c, s: (
            o.select("customer").minus(c.select("name").union(c.select("city"))).order_by("customer").limit(3)
        ),
        "SELECT * FROM (SELECT customer FROM orders EXCEPT (SELECT name FROM customers UNION SELECT city FROM "
        "customers)) ORDER BY customer LIMIT 3",
    ),
    "conditions": (
        lambda o, c, s: o.where(
            col("id").in_(1, 2)
            & col("id").not_between(5, 6)
            & col("customer").like("a%")
            & col("customer").is_not_null
            & col("customer").is_distinct_from("b")
            & (col("id") > 1).is_true
        ),
        "SELECT * FROM orders WHERE id IN (1, 2) AND id NOT BETWEEN 5 AND 6 AND customer LIKE 'a%' AND customer IS NOT "
        "NULL AND customer IS DISTINCT FROM 'b' AND (id > 1) IS TRUE",
    ),
    "in_table": (
        lambda o, c, s: o.where(col("customer").in_(c.select("name"))),
        "SELECT * FROM orders WHERE customer IN (SELECT name FROM customers)",
    ),
    "cases": (
        lambda o, c, s: o.select(
            (col("id") > 1).then("many", "one"),
            if_then_else(col("id").is_null, 0, col("id")),
            coalesce(col("id"), 0),
            col("customer").if_null("nobody"),
        ),
        "SELECT CASE WHEN id > 1 THEN 'many' ELSE 'one' END, CASE WHEN id IS NULL THEN 0 ELSE id END, COALESCE(id, 0), "
        "COALESCE(customer, 'nobody') FROM orders",
    ),
    "functions": (
        lambda o, c, s: o.select(
            col("customer").substring(2, 3),
            col("customer").char_length,
            col("customer").trim(),
            col("customer").replace("a", "b"),
            call("REGEXP_EXTRACT", col("customer"), "x(.)", 1),
            col("amount").round(1),
            col("ts").floor("HOUR"),
            col("ts").extract("DAY"),
            col("ts").date_format("yyyy"),
            col("customer").position("x"),
            col("customer").concat("-", col("customer")),
            col("id").power(2),
            2 ** col("id"),
        ),
        "SELECT SUBSTRING(customer FROM 2 FOR 3), CHAR_LENGTH(customer), TRIM(customer), REPLACE(customer, 'a', 'b'), "
        "REGEXP_EXTRACT(customer, 'x(.)', 1), ROUND(amount, 1), FLOOR(ts TO HOUR), EXTRACT(DAY FROM ts), "
        "DATE_FORMAT(ts, 'yyyy'), POSITION(customer IN 'x'), CONCAT(customer, '-', customer), POWER(id, 2), POWER(2, id) "
        "FROM orders",
    ),
    "types": (
        lambda o, c, s: o.select(
            col("id").cast(DataTypes.STRING()),
            col("customer").try_cast("INT"),
            null_of(DataTypes.DECIMAL(5, 2)),
            lit(1, "BIGINT"),
            call_sql("id + 1"),
        ),
        "SELECT CAST(id AS STRING), TRY_CAST(customer AS INT), CAST(NULL AS DECIMAL(5, 2)), CAST(1 AS BIGINT), (id + 1) FROM orders",
    ),
    "literals": (
        lambda o, c, s: o.select(
            lit(True),
            lit(1.5),
            lit(Decimal("2.50")),
            lit(b"ab"),
            lit(dt.date(2024, 2, 29)),
            lit(dt.datetime(2024, 2, 29, 1, 2, 3, 500000)),
            lit(dt.time(1, 2, 3)),
            lit(dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
            lit(dt.datetime(2024, 1, 1, 1, 0, 0, 5, tzinfo=dt.timezone(dt.timedelta(hours=1)))),
            col("ts") + dt.timedelta(hours=36),
            col("ts") - lit(3).months,
            lit(9_000_000_000),
        ),
        "SELECT TRUE, 1.5e0, 2.50, X'6162', DATE '2024-02-29', TIMESTAMP '2024-02-29 01:02:03.500000', TIME '01:02:03', "
        "TO_TIMESTAMP_LTZ(1704067200000, 3), "
        "TO_TIMESTAMP_LTZ(1704067200000005, 6), "
        "ts + INTERVAL '36' HOUR, ts - INTERVAL '3' MONTH, 9000000000 FROM orders",
    ),
    "nested": (
        lambda o, c, s: o.select(
            col("place").get("city"),
            col("tags").at(1),
            col("tags")[1],
            col("marks").at("x"),
            col("tags").cardinality,
            row(col("id"), "x"),
            array(1, col("id")),
            map_("k", col("id")),
        ),
        "SELECT (place).city, tags[1], tags[1], marks['x'], CARDINALITY(tags), ROW(id, 'x'), ARRAY[1, id], MAP['k', id] FROM orders",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operation_has_the_plan_of_its_sql(env: TableEnvironment, name: str) -> None:
    build, sql = CASES[name]
    made = build(*(env.from_path(t) for t in ("orders", "customers", "shipments")))
    assert _without_ids(made.explain("CHANGELOG_MODE")) == _without_ids(env.explain_sql(sql, "CHANGELOG_MODE"))
    twin = env.sql_query(sql)
    assert made.schema.types == twin.schema.types


def _without_ids(plan: str) -> str:
    # The plan that runs; names of columns inside it are those of the query.
    return plan[plan.index("== Physical Plan ==") :]


def test_inserts_have_the_plan_of_their_sql(env: TableEnvironment) -> None:
    table = env.from_path("orders").group_by("customer").select("customer", col("amount").sum)
    code = table.insert_code("totals")
    twin = "INSERT INTO totals SELECT customer, SUM(amount) FROM orders GROUP BY customer"
    assert env.explain_sql(code.sql) == env.explain_sql(twin)


def test_names_are_quoted_where_they_must_be(env: TableEnvironment) -> None:
    table = env.from_path("a table").select(col("order").alias("select"), "a`b")
    assert table.schema.names == ("select", "a`b")
