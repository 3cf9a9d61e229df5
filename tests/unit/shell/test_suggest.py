"""What completion offers, by position."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlengine import TableEnvironment
from sqlengine.parse.expectations import expected_after
from sqlengine.shell.suggest import Suggester

TABLES = """
CREATE TABLE orders (order_id INT, customer STRING, amount DECIMAL(10, 2), ts TIMESTAMP(3)) COMMENT 'what was bought';
CREATE TABLE clicks (id INT, `when` STRING) WITH ('connector' = 'datagen');
CREATE VIEW large AS SELECT customer, amount FROM orders WHERE amount > 100;
CREATE MATERIALIZED VIEW spent AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer;
CREATE DATABASE other;
CREATE TABLE other.elsewhere (x INT)
"""


@pytest.fixture(scope="module")
def suggester() -> Iterator[Suggester]:
    with TableEnvironment.create() as environment:
        environment.execute_script(TABLES)
        yield Suggester(environment.session)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("sel", ["select"]),
        ("SEL", ["SELECT"]),
        ("SELECT * FROM ", ["clicks", "large", "orders", "spent", "other.", "system."]),
        ("SELECT * FROM or", ["orders"]),
        ("SELECT * FROM orders WH", ["WHERE"]),
        ("SELECT * FROM orders GR", ["GROUP BY"]),
        ("SELECT * FROM orders LE", ["LEFT JOIN"]),
        ("SELECT cus| FROM orders", ["customer"]),
        ("SELECT customer FROM orders WHERE am", ["amount"]),
        ("SELECT o.| FROM orders AS o JOIN clicks c ON TRUE", ["order_id", "customer", "amount", "ts"]),
        ("SELECT * FROM orders o JOIN clicks c ON o.", ["order_id", "customer", "amount", "ts"]),
        ("SELECT * FROM orders o JOIN clicks c ON o.order_id = c.", ["id", "`when`"]),
        ("SELECT customer FROM orders WHERE orders.am", ["amount"]),
        ("SELECT customer FROM orders o GROUP BY o.", ["order_id"]),
        ("SELECT | FROM orders o JOIN clicks c", ["order_id", "customer", "amount", "ts", "id", "`when`", "o.", "c."]),
        ("SELECT x.w| FROM (SELECT customer AS who FROM orders) AS x", ["who"]),
        ("WITH q AS (SELECT amount AS much FROM orders) SELECT mu| FROM q", ["much"]),
        ("WITH q AS (SELECT 1 AS a) SELECT * FROM q", ["q"]),
        ("SELECT (SELECT am| FROM orders) FROM clicks", ["amount"]),
        ("SELECT id FROM clicks UNION ALL SELECT order| FROM orders", ["order_id"]),
        ("SELECT window_s| FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))", ["window_start"]),
        ("SELECT * FROM TABLE(", ["TUMBLE(", "HOP(", "CUMULATE(", "SESSION("]),
        ("SELECT * FROM TABLE(HOP(TABLE ord", ["orders"]),
        ("SELECT * FROM other.", ["elsewhere"]),
        ("SELECT * FROM default_catalog.o", ["other"]),
        ("SELECT * FROM system.", ["rejected", "jobs", "operators", "checkpoints", "state"]),
        ("SELECT * FROM information_schema.ta", ["tables", "table_options"]),
        ("SELECT rou", ["round("]),
        ("SELECT CAST(order_id AS BIG", ["BIGINT"]),
        ("INSERT INTO orders (", ["order_id", "customer", "amount", "ts"]),
        ("INSERT INTO ", ["clicks", "orders", "other.", "TABLE"]),
        ("UPDATE orders SET cu", ["customer"]),
        ("ALTER TABLE clicks DROP ", ["id", "`when`"]),
        ("SELECT INTERVAL '5' MIN", ["MINUTE"]),
        ("SELECT FLOOR(ts TO ", ["SECOND", "MINUTE", "HOUR"]),
        ("CREATE CATALOG c WITH ('type' = '", ["file'", "generic_in_memory'", "clickhouse'", "confluent-registry'"]),
        ("CREATE CATALOG c WITH ('type' = 'duckdb', '", ["path'"]),
        ("CREATE TABLE n (a INT, ts TIMESTAMP(3), WATERMARK FOR ", ["a", "ts"]),
        ("CREATE TABLE n (a INT, PRIMARY KEY (", ["a"]),
        ("CREATE TABLE n (a ", ["AS", "INT", "BIGINT"]),
        ("CREATE TABLE n (a INT) WITH ('", ["connector'", "changelog-mode'"]),
        ("CREATE TABLE n (a INT) WITH ('connector' = 'file", ["filesystem'"]),
        ("CREATE TABLE n (a INT) WITH ('connector' = 'filesystem', 'format' = '", ["avro'", "avro-confluent'", "canal-json'"]),
        ("CREATE TABLE n (a INT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'csv.h", ["csv.header'"]),
        ("SET 'table.local", ["table.local-time-zone'"]),
        ("SET 'execution.runtime-mode' = '", ["streaming'", "batch'"]),
        ("SET 'sql-client.verbose' = '", ["true'", "false'"]),
        ("DROP TABLE ", ["clicks", "orders", "IF EXISTS"]),
        ("DROP MATERIALIZED VIEW ", ["spent", "IF EXISTS"]),
        ("DROP VIEW ", ["large", "IF EXISTS"]),
        ("USE o", ["other"]),
        ("USE CATALOG ", ["default_catalog"]),
        ("DESCRIBE FUNCTION up", ["upper"]),
        ("SHOW CREATE ", ["CATALOG", "CONNECTION", "DATABASE"]),
        ("SELECT 1; SHO", ["SHOW"]),
        ("\\d", ["\\d", "\\dt", "\\dv"]),
        ("\\d sp", ["spent"]),
        ("\\mode ", ["changelog", "table", "tableau"]),
        ("help ins", ["INSERT"]),
        ("SELECT * FROM orders WHERE customer = 'ann", []),
        ("SELEC nonsense ", []),
        ("SELECT * FROM orders -- no", []),
    ],
)  # fmt: skip
def test_suggestions(suggester: Suggester, text: str, first: list[str]) -> None:
    before, _, after = text.partition("|")
    found = [s.text for s in suggester.suggest(before, after)]
    assert found[: len(first)] == first if first else not found


def test_paths_are_completed(suggester: Suggester, tmp_path: Path) -> None:
    (tmp_path / "first.sql").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / ".hidden").touch()
    found = [(s.text, s.replaces) for s in suggester.suggest(f"\\i {tmp_path}/f")]
    assert found == [(f"{tmp_path}/{name}", len(f"{tmp_path}/f")) for name in ("first.sql", "folder/")]


def test_functions_come_with_signature_and_documentation(suggester: Suggester) -> None:
    (found,) = [s for s in suggester.suggest("SELECT LTRI") if s.kind == "function"]
    assert (found.shown, found.about) == ("LTRIM(<CHARACTER>, [<CHARACTER>])", found.about) and found.about


def test_options_come_with_documentation_and_default(suggester: Suggester) -> None:
    (found,) = suggester.suggest("SET 'sqlengine.epoch.")
    assert found.about == "the most rows that one source gives to one epoch [524288]"


def test_operators_are_not_called_by_name(suggester: Suggester) -> None:
    names = {s.text for s in suggester.suggest("SELECT ") if s.kind == "function"}
    assert "UPPER(" in names and not names & {"AND(", "ARRAY(", "PLUS(", "NOT("}


@pytest.mark.parametrize(
    "text", ["SELECT a, ", "SELECT a FROM t WHERE ", "SELECT CASE WHEN ", "SELECT f(", "SELECT a FROM t ORDER BY "]
)
def test_the_parser_says_where_an_expression_may_begin(text: str) -> None:
    assert expected_after(text).expression


def test_the_parser_says_that_an_error_stands_before() -> None:
    assert not expected_after("SELECT FROM WHERE x ").reached
