"""What EXPLAIN RESTORE says of a statement over tables that were declared otherwise when its state was saved."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlengine import TableEnvironment

TOTALS = "INSERT INTO totals SELECT shop, SUM(amount), MAX(id) FROM sales WHERE amount > 1 GROUP BY shop"
DEAR = "INSERT INTO dear SELECT shop, MAX(price), COUNT(DISTINCT amount) FROM sales GROUP BY shop"
OLD = "id INT, shop VARCHAR(10), amount INT, weight FLOAT, price DECIMAL(6, 2), at TIMESTAMP_LTZ(3)"
EXACT = "exact: what is written in the end is the result over all input"
ALLOW = "allowed with 'sqlengine.restore.allow-incomplete' = 'true'"


@pytest.fixture
def t_env(tmp_path: Path) -> Iterator[TableEnvironment]:
    rows = [
        '{"id": 1, "shop": "ann", "amount": 3, "weight": 0.1, "price": 1.5, "at": "2024-01-01 00:00:00Z"}',
        '{"id": 2, "shop": "bob", "amount": 2147483000, "weight": 0.2, "price": 2.5, "at": "2024-01-01 00:00:01Z"}',
    ]
    (tmp_path / "sales").mkdir()
    (tmp_path / "sales" / "1.json").write_text("\n".join(rows) + "\n")
    with TableEnvironment.create() as made:
        made.execute_script(
            """CREATE TABLE totals (shop STRING, n BIGINT, best BIGINT) WITH ('connector' = 'blackhole');
            CREATE TABLE dear (shop STRING, price DECIMAL(20, 4), n BIGINT) WITH ('connector' = 'blackhole');
            CREATE TABLE texts (shop STRING, a STRING) WITH ('connector' = 'blackhole')"""
        )
        yield made


def declare(t_env: TableEnvironment, folder: Path, columns: str, options: str = "") -> None:
    t_env.execute_script(
        f"""DROP TABLE IF EXISTS sales; CREATE TABLE sales ({columns})
        WITH ('connector' = 'filesystem', 'path' = '{folder}/sales', 'format' = 'json'{options})"""
    )


def save(t_env: TableEnvironment, folder: Path, *inserts: str) -> None:
    """Runs statements to their end; what they have saved is what comes after goes on from."""
    t_env.execute_sql(f"SET 'execution.checkpointing.dir' = '{folder}/state'")
    t_env.execute_sql("SET 'pipeline.name' = 'job'")
    t_env.execute_sql("EXECUTE STATEMENT SET BEGIN " + "; ".join(inserts) + "; END")
    t_env.execute_sql("RESET 'execution.checkpointing.dir'")
    t_env.execute_sql(f"SET 'execution.savepoint.path' = '{folder}/state/job/chk-1'")


def restored(t_env: TableEnvironment, *inserts: str) -> tuple[list[str], str]:
    """Each part as `kind verdict why`, and the outcome."""
    ((text,),) = t_env.execute_sql("EXPLAIN RESTORE STATEMENT SET BEGIN " + "; ".join(inserts) + "; END").collect()
    table, outcome = text.split("\n\n")[1:]
    found = re.findall(r"^(\w+)\[.*?\]\S* .*?(kept|new|incomplete|changed|dropped) +(.*)$", table, re.MULTILINE)
    return [" ".join(part) for part in found], outcome


KEPT = [
    "Source kept read on from its position",
    "GroupAggregate kept computes the same",
    "Sink kept the same query",
    "GroupAggregate kept computes the same",
    "GroupAggregate kept computes the same",
    "Sink kept the same query",
]


def test_a_column_more_another_order_and_wider_types_are_exact(t_env: TableEnvironment, tmp_path: Path) -> None:
    declare(t_env, tmp_path, OLD)
    save(t_env, tmp_path, TOTALS, DEAR)
    assert restored(t_env, TOTALS, DEAR) == (KEPT, EXACT)
    declare(t_env, tmp_path, "amount BIGINT, note STRING, price DECIMAL(12, 2), id BIGINT, shop VARCHAR(20)")
    assert restored(t_env, TOTALS, DEAR) == (KEPT, EXACT)


def test_a_statement_less_reads_less_and_the_others_go_on(t_env: TableEnvironment, tmp_path: Path) -> None:
    declare(t_env, tmp_path, OLD)
    save(t_env, tmp_path, TOTALS, DEAR)
    parts, outcome = restored(t_env, TOTALS)
    assert parts[:3] == KEPT[:3]
    assert all(part.split()[1] == "dropped" for part in parts[3:])
    assert outcome.startswith("refused (E3410)")


def test_what_is_computed_otherwise_of_wider_columns_is_refused(t_env: TableEnvironment, tmp_path: Path) -> None:
    declare(t_env, tmp_path, OLD)
    doubled, new_column = TOTALS.replace("SUM(amount)", "SUM(amount + 1)"), TOTALS.replace("MAX(id)", "COUNT(note)")
    save(t_env, tmp_path, doubled)
    assert restored(t_env, doubled)[1] == EXACT
    declare(t_env, tmp_path, OLD.replace("amount INT", "amount BIGINT") + ", note STRING")
    for insert in (doubled, new_column):
        parts, outcome = restored(t_env, insert)
        assert parts[0] == KEPT[0]
        assert parts[1].startswith("GroupAggregate incomplete")
        assert outcome.startswith("refused (E3411)")


def test_a_sum_that_has_wrapped_around_is_refused(t_env: TableEnvironment, tmp_path: Path) -> None:
    declare(t_env, tmp_path, OLD)
    twice = "INSERT INTO totals SELECT 'all', SUM(amount), 1 FROM (SELECT amount FROM sales UNION ALL SELECT amount FROM sales)"
    save(t_env, tmp_path, twice)
    declare(t_env, tmp_path, OLD.replace("amount INT", "amount BIGINT"))
    assert restored(t_env, twice)[1].startswith("refused (E3411)")


def test_a_wider_type_may_have_read_other_values(t_env: TableEnvironment, tmp_path: Path) -> None:
    """The text 0.1 is another number as a DOUBLE; where errors are ignored, what did not fit was left out."""
    heavy = "INSERT INTO texts SELECT shop, CAST(MAX(weight) AS STRING) FROM sales GROUP BY shop"
    declare(t_env, tmp_path, OLD)
    save(t_env, tmp_path, heavy)
    declare(t_env, tmp_path, OLD.replace("FLOAT", "DOUBLE"))
    parts, outcome = restored(t_env, heavy)
    assert parts[0] == "Source new read from the start: weight was FLOAT, and may have had other values"
    assert outcome.startswith("refused (E3411)")


LENIENT = ", 'json.ignore-parse-errors' = 'true'"


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("", LENIENT, ""),
        (LENIENT, "", "json.ignore-parse-errors"),
        ("", ", 'json.timestamp-format.standard' = 'ISO-8601'", "json.timestamp-format.standard"),
        ("", ", 'source.path.regex-pattern' = '.*json'", "source.path.regex-pattern"),
        ("", ", 'source.report-statistics' = 'NONE'", ""),
    ],
)
def test_options_of_a_source(t_env: TableEnvironment, tmp_path: Path, before: str, after: str, changed: str) -> None:
    """To leave out from now on what would have failed the job is the same; other rows, or read otherwise, are not."""
    declare(t_env, tmp_path, OLD, before)
    save(t_env, tmp_path, TOTALS)
    declare(t_env, tmp_path, OLD, after)
    parts, outcome = restored(t_env, TOTALS)
    assert parts[1:] == KEPT[1:3]
    assert parts[0] == (f"Source changed rows before were read with other options: {changed}" if changed else KEPT[0])
    assert outcome == (f"refused (E3411); {ALLOW}" if changed else EXACT)


def test_a_longer_time_to_live_does_not_bring_back_what_is_gone(t_env: TableEnvironment, tmp_path: Path) -> None:
    declare(t_env, tmp_path, OLD)
    t_env.execute_sql("SET 'table.exec.state.ttl' = '1 h'")
    save(t_env, tmp_path, TOTALS)
    t_env.execute_sql("SET 'table.exec.state.ttl' = '30 min'")
    assert restored(t_env, TOTALS) == (KEPT[:3], EXACT)
    for longer in ("1 d", "0 s"):
        t_env.execute_sql(f"SET 'table.exec.state.ttl' = '{longer}'")
        parts, outcome = restored(t_env, TOTALS)
        assert parts[1] == "GroupAggregate changed what was not touched for 1 h is gone: so long it lived until now"
        assert outcome == f"refused (E3411); {ALLOW}"


def test_another_time_zone_matters_where_it_was_read(t_env: TableEnvironment, tmp_path: Path) -> None:
    days = "INSERT INTO texts SELECT DATE_FORMAT(at, 'yyyy-MM-dd'), 'x' FROM sales"
    declare(t_env, tmp_path, OLD)
    save(t_env, tmp_path, days, TOTALS)
    t_env.execute_sql("SET 'table.local-time-zone' = 'Asia/Tokyo'")
    declare(t_env, tmp_path, OLD)
    parts, outcome = restored(t_env, days, TOTALS)
    assert outcome.startswith("refused (E3411)")
    assert "Sink changed computed in the time zone UTC until now" in parts
    assert parts[-2:] != KEPT[1:3]


def test_statements_that_change_tables_with_each_other(t_env: TableEnvironment, tmp_path: Path) -> None:
    """All operators are there as before, but each table would get the rows of the other."""
    declare(t_env, tmp_path, OLD)
    t_env.execute_sql("CREATE TABLE others (shop STRING, n BIGINT, best BIGINT) WITH ('connector' = 'blackhole')")
    most = "INSERT INTO others SELECT shop, MAX(amount), MIN(id) FROM sales GROUP BY shop"
    save(t_env, tmp_path, TOTALS, most)
    parts, outcome = restored(t_env, TOTALS.replace("totals", "others"), most.replace("others", "totals"))
    assert [part.split()[1] for part in parts] == ["kept", "kept", "changed", "kept", "changed"]
    assert outcome == f"refused (E3411); {ALLOW}"


def test_another_column_into_the_same_table(t_env: TableEnvironment, tmp_path: Path) -> None:
    declare(t_env, tmp_path, OLD)
    save(t_env, tmp_path, "INSERT INTO totals SELECT shop, amount, id FROM sales", DEAR)
    parts, outcome = restored(t_env, "INSERT INTO totals SELECT shop, id, id FROM sales", DEAR)
    assert parts[1].startswith("Sink changed another query")
    assert outcome.startswith("refused (E3411)")
