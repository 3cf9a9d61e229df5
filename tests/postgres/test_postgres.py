"""The answers of PostgreSQL 15 itself, recorded by `record.py`, against those of the dialect."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pytest

from sqlengine import TableEnvironment
from sqlengine.options.dialect import DIALECT
from sqlengine.parse import parse_script, parse_statement
from sqlengine.parse.interval_texts import amount_of
from sqlengine.parse.reading import without_header
from sqlengine.parse.statement_nodes import QueryStatement

HERE = Path(__file__).parent
ANSWERS = json.loads((HERE / "answers.json").read_text("utf-8"))
DIFFERENCES = dict(
    line.split(" -- ", 1) for line in (HERE / "differences.txt").read_text("utf-8").splitlines() if " -- " in line
)
"""Queries whose answer is another one here, each with the reason."""


@pytest.fixture(scope="module")
def t_env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create({"sqlengine.sql.dialect": "postgres"}) as made:
        made.execute_script((HERE / "setup.sql").read_text("utf-8"))
        yield made


def same(value: Any, text: str | None, type_: str) -> bool:
    """Whether a value is what PostgreSQL shows as a text."""
    if value is None or text is None:
        return value is None and text is None
    if type_ == "VARIANT":
        return bool(json.loads(value) == json.loads(text))
    match value:
        case bool():
            return text == ("t" if value else "f")
        case int() | Decimal() | float():
            try:
                wanted = Decimal(text)
            except InvalidOperation:
                return False
            return abs(Decimal(str(value)) - wanted) <= abs(wanted) * Decimal("1e-9") + Decimal("1e-14")
        case dt.datetime():
            shown = (
                value.replace(tzinfo=None).isoformat(" ").rstrip("0").rstrip(".") if value.microsecond else str(value)
            )
            return text.removesuffix("+00") == shown.removesuffix("+00:00")
        case dt.timedelta():
            amount = amount_of(re.sub(r"^(\d)", r"\1", text))
            return amount is not None and Decimal(amount[0]) == Decimal(str(value.total_seconds()))
        case list():
            return text == "{" + ",".join("NULL" if v is None else str(v) for v in value) + "}"
        case _:
            return str(value) == text


def check(t_env: TableEnvironment, answer: dict[str, Any]) -> str | None:
    """What differs."""
    result = t_env.execute_sql(answer["query"])
    types = [str(f.type).removesuffix(" NOT NULL") for f in result.schema]
    rows = [tuple(row.values()) for row in result.to_arrow().to_pylist()]
    names = [re.sub(r"^(\?column\?|[a-z_0-9]+?)\d*$", r"\1", f.name) for f in result.schema]
    wanted = [re.sub(r"^(\?column\?|[a-z_0-9]+?)\d*$", r"\1", n) for n in answer["names"]]
    if names != wanted:
        return f"columns {names}, not {wanted}"
    found = list(rows)
    for row in answer["rows"]:
        equal = next((r for r in found if all(same(v, t, k) for v, t, k in zip(r, row, types, strict=True))), None)
        if equal is None:
            return f"no row {row} among {found}"
        found.remove(equal)
    if found:
        return f"rows too many: {found}"
    if "ORDER BY" in answer["query"] and "OVER" not in answer["query"]:
        ordered = all(
            all(same(v, t, k) for v, t, k in zip(r, row, types, strict=True))
            for r, row in zip(rows, answer["rows"], strict=True)
        )
        if not ordered:
            return f"the order is {rows}, not {answer['rows']}"
    return None


def test_there_are_many() -> None:
    assert len(ANSWERS) >= 150
    assert set(DIFFERENCES) <= {answer["query"] for answer in ANSWERS}


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer["query"][:60])
def test_as_postgresql_answers(answer: dict[str, Any], t_env: TableEnvironment) -> None:
    if answer["query"] in DIFFERENCES:
        with pytest.raises(Exception):  # noqa: B017
            assert check(t_env, answer) is None
        return
    assert check(t_env, answer) is None


def test_what_is_kept_of_a_query_is_flink_sql(t_env: TableEnvironment) -> None:
    """The text of a view is read by sessions of the other dialect, and means the same."""
    with t_env.new_session() as other:
        assert other.session.options.get(DIALECT) == "flink"
        wrong = []
        for answer in ANSWERS:
            if answer["query"] not in DIFFERENCES:
                statement = parse_statement(answer["query"], "postgres")
                assert isinstance(statement, QueryStatement)
                differs = check(other, {**answer, "query": statement.query.text})
                if differs is not None:
                    wrong.append(f"{answer['query']}\n{statement.query.text}\n{differs}")
        assert not wrong, "\n\n".join(wrong)


def test_dialects_of_texts() -> None:
    script = """SELECT 1 AS A; SET 'sqlengine.sql.dialect' = 'postgres'; SELECT 1 AS A, "x" FROM T;
        SELECT 'SET ''sqlengine.sql.dialect'' = ''flink''; "'; RESET 'sqlengine.sql.dialect'; SELECT `A` FROM T"""
    texts = [s.query.text if isinstance(s, QueryStatement) else "-" for s in parse_script(script)]
    assert texts[0] == "SELECT 1 AS A" and texts[-1] == "SELECT `A` FROM T"
    assert texts[2:4] == [
        "SELECT 1 AS a, `x` FROM t",
        "SELECT CAST('SET ''sqlengine.sql.dialect'' = ''flink''; \"' AS STRING) AS `?column?`",
    ]
    headed = parse_statement("-- dialect: postgres\nSELECT ID FROM T")
    again = parse_statement(headed.text)
    assert isinstance(again, QueryStatement) and again.query.text == "SELECT id FROM t"
    assert without_header(headed.text) == "SELECT ID FROM T"


def test_a_view_lasts_whatever_the_dialect(tmp_path: Path) -> None:
    folder = str(tmp_path / "base")
    with TableEnvironment.create(path=folder) as env:
        env.execute_script("""SET 'sqlengine.sql.dialect' = 'postgres';
            CREATE TABLE "T" (id int PRIMARY KEY, x int);
            CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, avg(x) AS a FROM "T";
            CREATE VIEW w AS SELECT x / 2.0 AS half FROM "T" ORDER BY x DESC LIMIT 1;
            INSERT INTO "T" VALUES (1, 5)""")
    with TableEnvironment.create(path=folder) as env:
        env.execute_sql("INSERT INTO T VALUES (2, CAST(NULL AS INT))")
        assert [tuple(r.values()) for r in env.execute_sql("SELECT * FROM v").to_arrow().to_pylist()] == [
            (2, Decimal(5))
        ]
        assert env.execute_sql("SELECT half FROM w").to_arrow().to_pylist() == [{"half": None}]
