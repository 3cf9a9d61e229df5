"""The jobs that the fault suite stops: SQL over the inputs of `inputs.py`, with output to files.

Each takes rows back, keeps state of another kind, or writes in another way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["JOBS", "FaultJob"]

_SOURCES = """
CREATE TABLE customers (id INT, name STRING, region STRING, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'filesystem', 'path' = '{inputs}/customers', 'format' = 'debezium-json');
CREATE TABLE products (id INT, title STRING, price INT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'filesystem', 'path' = '{inputs}/products', 'format' = 'debezium-json');
CREATE TABLE orders (id INT, customer INT, product INT, amount INT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'filesystem', 'path' = '{inputs}/orders', 'format' = 'debezium-json');
CREATE TABLE rates (currency STRING, rate INT, `at` TIMESTAMP(3), PRIMARY KEY (currency) NOT ENFORCED,
  WATERMARK FOR `at` AS `at`)
  WITH ('connector' = 'filesystem', 'path' = '{inputs}/rates', 'format' = 'debezium-json');
CREATE TABLE clicks (id INT, user_id INT, page STRING, n INT, `at` TIMESTAMP(3),
  WATERMARK FOR `at` AS `at` - INTERVAL '3' SECOND)
  WITH ('connector' = 'filesystem', 'path' = '{inputs}/clicks', 'format' = 'json');
CREATE TABLE payments (id INT, click INT, currency STRING, amount INT, `at` TIMESTAMP(3),
  WATERMARK FOR `at` AS `at` - INTERVAL '3' SECOND)
  WITH ('connector' = 'filesystem', 'path' = '{inputs}/payments', 'format' = 'json');
CREATE TABLE torn (id INT, user_id INT, page STRING, n INT, `at` TIMESTAMP(3),
  WATERMARK FOR `at` AS `at` - INTERVAL '3' SECOND)
  WITH ('connector' = 'filesystem', 'path' = '{inputs}/torn', 'format' = 'json', 'json.ignore-parse-errors' = 'true');
"""


@dataclass(frozen=True)
class FaultJob:
    """A job.

    Attributes:
        name: for people, and of its folder.
        tables: what it needs besides the inputs: views, and its sinks below `{out}`.
        insert: the statement.
        options: those that it needs.
        sources: the tables that it reads from; `{inputs}` is the folder with the inputs.
        in_order: False when processing time decides which rows it writes; then `sums` compares.
    """

    name: str
    tables: str
    insert: str
    options: Mapping[str, str] = field(default_factory=dict)
    sources: str = _SOURCES
    in_order: bool = True

    def ddl(self, inputs: Path, out: Path) -> str:
        """All that comes before the statement."""
        return (self.sources + self.tables).replace("{inputs}", str(inputs)).replace("{out}", str(out))

    def script(self, inputs: Path, out: Path) -> str:
        """The whole file."""
        return f"{self.ddl(inputs, out)}\n{self.insert};\n"


def _sink(columns: str, form: str = "debezium-json", name: str = "sink", more: str = "") -> str:
    return f"CREATE TABLE {name} ({columns}){more} WITH ('connector' = 'filesystem', 'path' = '{{out}}/{name}', 'format' = '{form}');"


def _changing(name: str, columns: str, query: str, **options: str) -> FaultJob:
    """A job that updates what it wrote."""
    return FaultJob(name, _sink(columns), f"INSERT INTO sink {query}", options)


def _appending(name: str, columns: str, query: str) -> FaultJob:
    return FaultJob(name, _sink(columns, "csv"), f"INSERT INTO sink {query}")


_JOIN = "FROM orders AS o {kind} JOIN customers AS c ON o.customer = c.id AND o.amount > CHAR_LENGTH(c.name) - 4"
_JOINED = "id INT, amount INT, name STRING, region STRING"
_PARTITIONED = """
CREATE TABLE sink (id INT, n INT, page STRING) PARTITIONED BY (page) WITH ('connector' = 'filesystem',
  'path' = '{out}/sink', 'format' = 'csv', 'sink.rolling-policy.file-size' = '200b',
  'sink.partition-commit.policy.kind' = 'success-file');
"""

JOBS: tuple[FaultJob, ...] = (
    *(
        _changing(f"{kind.lower()}-join", _JOINED, "SELECT o.id, amount, name, region " + _JOIN.format(kind=kind))
        for kind in ("INNER", "LEFT", "RIGHT", "FULL")
    ),
    _changing(
        "semi-join", "id INT, amount INT",
        "SELECT id, amount FROM orders WHERE customer IN (SELECT id FROM customers WHERE region <> 'east')",
    ),
    _changing(
        "anti-join", "id INT, amount INT",
        "SELECT id, amount FROM orders AS o WHERE NOT EXISTS (SELECT * FROM customers AS c WHERE c.id = o.customer)",
    ),
    _changing(
        "three-joins", "id INT, name STRING, title STRING, total INT",
        "SELECT o.id, c.name, p.title, o.amount * p.price FROM orders AS o JOIN customers AS c ON o.customer = c.id "
        "LEFT JOIN products AS p ON o.product = p.id",
    ),
    _changing(
        "top-n", "product INT, id INT, amount INT, r BIGINT",
        "SELECT product, id, amount, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY product ORDER BY amount DESC) AS r "
        "FROM orders) WHERE r <= 3",
    ),
    _changing(
        "last-row", "user_id INT, id INT, page STRING",
        "SELECT user_id, id, page FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY `at` DESC) AS r "
        "FROM clicks) WHERE r = 1",
    ),
    _changing(
        "first-row", "user_id INT, id INT, page STRING",
        "SELECT user_id, id, page FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY `at`) AS r "
        "FROM clicks) WHERE r = 1",
    ),
    _appending(
        "over-rows", "id INT, s INT, previous INT, c BIGINT",
        "SELECT id, SUM(n) OVER w, LAG(n) OVER (PARTITION BY page ORDER BY `at`), COUNT(*) OVER (PARTITION BY user_id "
        "ORDER BY `at` RANGE BETWEEN INTERVAL '9' SECOND PRECEDING AND CURRENT ROW) FROM clicks "
        "WINDOW w AS (PARTITION BY page ORDER BY `at` ROWS BETWEEN 4 PRECEDING AND CURRENT ROW)",
    ),
    _appending(
        "sessions", "user_id INT, s TIMESTAMP(3), e TIMESTAMP(3), c BIGINT, pages BIGINT",
        "SELECT user_id, window_start, window_end, COUNT(*), COUNT(DISTINCT page) FROM TABLE(SESSION(TABLE clicks "
        "PARTITION BY user_id, DESCRIPTOR(`at`), INTERVAL '8' SECOND)) GROUP BY user_id, window_start, window_end",
    ),
    _appending(
        "window-top-n", "w TIMESTAMP(3), page STRING, c BIGINT, r BIGINT",
        "SELECT window_start, page, c, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
        "ORDER BY c DESC, page) AS r FROM (SELECT window_start, window_end, page, COUNT(*) AS c FROM TABLE(HOP("
        "TABLE clicks, DESCRIPTOR(`at`), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end, page)) "
        "WHERE r <= 2",
    ),
    _appending(
        "window-join", "w TIMESTAMP(3), click INT, payment INT",
        "SELECT COALESCE(l.window_start, r.window_start), l.id, r.id FROM (SELECT * FROM TABLE(TUMBLE(TABLE clicks, "
        "DESCRIPTOR(`at`), INTERVAL '6' SECOND))) AS l FULL JOIN (SELECT * FROM TABLE(TUMBLE(TABLE payments, "
        "DESCRIPTOR(`at`), INTERVAL '6' SECOND))) AS r ON l.id = r.click AND l.window_start = r.window_start "
        "AND l.window_end = r.window_end",
    ),
    _appending(
        "interval-join", "click INT, payment INT, amount INT",
        "SELECT c.id, p.id, p.amount FROM clicks AS c LEFT JOIN payments AS p ON c.id = p.click AND p.`at` BETWEEN "
        "c.`at` - INTERVAL '1' SECOND AND c.`at` + INTERVAL '2' SECOND",
    ),
    _appending(
        "temporal-join", "id INT, amount INT, rate INT",
        "SELECT p.id, amount, rate FROM payments AS p LEFT JOIN rates FOR SYSTEM_TIME AS OF p.`at` AS r "
        "ON p.currency = r.currency",
    ),
    _changing(
        "extremes", "product INT, low INT, high INT, customers BIGINT, total INT, mean INT",
        "SELECT product, MIN(amount), MAX(amount), COUNT(DISTINCT customer), SUM(amount), AVG(amount) FROM orders "
        "GROUP BY product",
    ),
    _changing(
        "two-aggregations", "region STRING, c BIGINT, best INT",
        "SELECT region, COUNT(*), MAX(total) FROM (SELECT c.region, c.id, SUM(amount) AS total FROM orders AS o "
        "JOIN customers AS c ON o.customer = c.id GROUP BY c.region, c.id) GROUP BY region",
    ),
    _changing(
        "set-operations", "id INT",
        "(SELECT customer FROM orders UNION SELECT id FROM customers) EXCEPT SELECT id FROM products WHERE price < 20",
    ),
    _changing(
        "multisets", "id INT",
        "(SELECT customer FROM orders INTERSECT ALL SELECT product FROM orders) EXCEPT ALL SELECT id FROM customers",
    ),
    _changing(
        "distinct", "customer INT, region STRING",
        "SELECT DISTINCT customer, region FROM orders LEFT JOIN customers AS c ON customer = c.id",
    ),
    FaultJob(
        "two-sinks",
        _sink("product INT, total INT") + _sink("id INT, amount INT, price INT", name="other"),
        "EXECUTE STATEMENT SET BEGIN INSERT INTO sink SELECT product, SUM(amount) FROM orders GROUP BY product; "
        "INSERT INTO other SELECT o.id, amount, price FROM orders AS o JOIN products AS p ON o.product = p.id; END",
    ),
    FaultJob("partitions", _PARTITIONED, "INSERT INTO sink SELECT id, n, page FROM clicks"),
    FaultJob("overwrite", _PARTITIONED, "INSERT OVERWRITE sink SELECT id, n, page FROM clicks"),
    _changing(
        "ttl", "region STRING, c BIGINT",
        "SELECT /*+ STATE_TTL('o' = '2 h', 'c' = '1 h') */ region, COUNT(*) FROM orders AS o "
        "JOIN customers AS c ON o.customer = c.id GROUP BY region",
        **{"table.exec.state.ttl": "3 h"},
    ),
    FaultJob(
        "two-watermarks",
        "CREATE VIEW together AS SELECT 'click' AS kind, `at` FROM clicks UNION ALL SELECT 'payment', `at` FROM payments;"
        + _sink("w TIMESTAMP(3), kind STRING, c BIGINT", "csv"),
        "INSERT INTO sink SELECT window_start, kind, COUNT(*) FROM TABLE(TUMBLE(TABLE together, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) "
        "GROUP BY window_start, window_end, kind",
    ),
    _changing(
        "parallel", "name STRING, total INT, best INT",
        "SELECT name, SUM(amount), MAX(amount) FROM orders AS o JOIN customers AS c ON o.customer = c.id GROUP BY name",
        **{"parallelism.default": "3"},
    ),
    FaultJob(
        "rejecting",
        _sink("w TIMESTAMP(3), page STRING NOT NULL, total INT", "csv")
        + _sink("reason STRING, event_time TIMESTAMP(3), `row` STRING NOT NULL", "csv", name="letters"),
        "INSERT INTO sink SELECT window_start, page, SUM(n) FROM TABLE(TUMBLE(TABLE torn, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) "
        "GROUP BY window_start, window_end, page",
        {"table.exec.sink.not-null-enforcer": "DROP", "sqlengine.rejected.table": "letters"},
    ),
    _changing(
        "over-changes", "id INT, s INT, r BIGINT",
        "SELECT id, SUM(amount) OVER (PARTITION BY customer ORDER BY id), ROW_NUMBER() OVER (PARTITION BY customer "
        "ORDER BY id) FROM orders",
    ),
)  # fmt: skip
