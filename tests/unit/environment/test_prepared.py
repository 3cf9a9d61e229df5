"""Prepared statements: what they tell before they run, and plans that are used again as long as they hold."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from runtime.core.errors import SqlEngineError
from runtime.core.types import DOUBLE, INT
from sqlengine import SqlEngineWarning, TableEnvironment
from sqlengine.statements import planning as planning_room


@pytest.fixture
def t_env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        made.execute_script("CREATE TABLE t (a INT, b STRING); INSERT INTO t VALUES (1, 'one'), (2, 'two')")
        yield made


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Grows with every query that is planned."""
    seen: list[object] = []
    plan = planning_room._plan_query
    monkeypatch.setattr(
        planning_room,
        "_plan_query",
        lambda session, query, *, live: (seen.append(query), plan(session, query, live=live))[1],
    )
    return seen


def rows(result: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(r) for r in result), key=str)


def test_a_prepared_statement_tells_its_types_before_it_runs(t_env: TableEnvironment) -> None:
    query = t_env.prepare("SELECT a, b AS name, ? AS tag FROM t WHERE a = $2 AND b LIKE $3 LIMIT $4")
    assert query.parameters == (1, 2, 3, 4)
    assert [str(t) for t in query.parameter_types] == ["STRING", "INT", "STRING", "BIGINT"]
    assert query.schema is not None
    assert [(f.name, str(f.type)) for f in query.schema] == [("a", "INT"), ("name", "STRING"), ("tag", "STRING")]
    insert = t_env.prepare("INSERT INTO t (b, a) VALUES (:name, :id)")
    assert (insert.parameters, insert.schema) == (("name", "id"), None)
    assert [str(t) for t in insert.parameter_types] == ["STRING", "INT"]
    assert [str(t) for t in t_env.prepare("UPDATE t SET a = ? WHERE b = ?").parameter_types] == ["INT", "STRING"]
    assert [str(t) for t in t_env.prepare("DELETE FROM t WHERE a + ? > 1").parameter_types] == ["INT"]
    assert [str(t) for t in t_env.prepare("SELECT CAST(? AS DATE)").parameter_types] == ["DATE"]
    assert t_env.prepare("SELECT x FROM UNNEST(?) AS v (x)").parameter_types == (None,)


def test_mistakes_are_told_when_a_statement_is_prepared(t_env: TableEnvironment) -> None:
    for statement, code in (
        ("SELECT x FROM t WHERE a = ?", "E1201"),
        ("SELECT a FROM nowhere WHERE a = ?", "E1202"),
        ("INSERT INTO t VALUES (?)", "E1224"),
        ("SELECT ?, :x", "E1253"),
        ("CREATE VIEW v AS SELECT ?", "E1250"),
    ):
        with pytest.raises(SqlEngineError) as caught:
            t_env.prepare(statement)
        assert (caught.value.code, caught.value.text) == (code, statement)
    with pytest.warns(SqlEngineWarning, match="NULL"):
        t_env.prepare("SELECT a FROM t WHERE a = NULL AND b = ?")


def test_a_plan_is_used_again(t_env: TableEnvironment, planned: list[object]) -> None:
    query = t_env.prepare("SELECT t.a, u.b FROM t JOIN t AS u ON t.a = u.a WHERE t.a >= ? ORDER BY t.a")
    assert rows(query.execute([2])) == [(2, "two")]
    made = len(planned)
    assert rows(query.execute([1])) == [(1, "one"), (2, "two")]
    t_env.execute_sql("INSERT INTO t VALUES (3, 'three')")
    assert rows(query.execute([2])) == [(2, "two"), (3, "three")]
    assert len(planned) == made
    assert rows(query.execute([2.5])) == [(3, "three")]
    assert rows(query.execute([None])) == []
    assert rows(query.execute([1.5])) == [(2, "two"), (3, "three")]
    assert len(planned) == made + 1


def test_a_plan_is_made_anew_when_it_does_not_hold(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE VIEW v AS SELECT a FROM t")
    query, insert = t_env.prepare("SELECT * FROM v WHERE a > ?"), t_env.prepare("INSERT INTO t VALUES (?, ?)")
    update = t_env.prepare("UPDATE t SET b = ? WHERE a = ?")
    assert rows(query.execute([1])) == [(2,)]
    assert rows(insert.execute([3, "x"])) == rows(update.execute(["y", 3])) == [(1,)]
    t_env.execute_sql("ALTER VIEW v AS SELECT a * 10 AS a FROM t")
    assert rows(query.execute([1])) == [(10,), (20,), (30,)]
    t_env.execute_script("DROP TABLE t; CREATE TABLE t (a BIGINT, b VARCHAR(3) NOT NULL)")
    assert rows(query.execute([1])) == []
    assert rows(insert.execute([5_000_000_000, "abc"])) == [(1,)]
    assert rows(update.execute(["c", 5_000_000_000])) == [(1,)]
    assert rows(t_env.execute_sql("SELECT * FROM t")) == [(5_000_000_000, "c")]
    with pytest.raises(SqlEngineError, match="E2011"):
        insert.execute([1, None])
    t_env.create_temporary_system_function("twice", twice)
    called = t_env.prepare("SELECT twice(?)")
    assert rows(called.execute([4])) == [(8,)]
    t_env.drop_temporary_system_function("twice")
    with pytest.raises(SqlEngineError, match="E1203"):
        called.execute([4])
    moment = t_env.prepare("SELECT CAST(? AS STRING)")
    at = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    before = rows(moment.execute([at]))
    t_env.execute_sql("SET 'table.local-time-zone' = 'Asia/Tokyo'")
    assert rows(moment.execute([at])) != before


def twice(x: int) -> int:
    return 2 * x


def test_a_prepared_statement_sees_its_epoch(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS c FROM t")
    query, insert = t_env.prepare("SELECT c FROM n WHERE c > ?"), t_env.prepare("INSERT INTO t VALUES (?, 'x')")
    assert rows(query.execute([0])) == [(2,)]
    t_env.execute_sql("BEGIN EPOCH")
    insert.execute_many([[3], [4]])
    assert rows(query.execute([0])) == [(4,)]
    t_env.execute_sql("ROLLBACK EPOCH")
    assert rows(query.execute([0])) == [(2,)]


def test_a_closed_statement_runs_no_more(t_env: TableEnvironment) -> None:
    with t_env.prepare("SELECT ?") as query:
        assert rows(query.execute([1])) == [(1,)]
    with pytest.raises(SqlEngineError, match="E1636"):
        query.execute([1])


moments = some.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
LITERALS: dict[str, tuple[some.SearchStrategy[Any], Any]] = {
    "BOOLEAN": (some.booleans(), lambda v: str(v).upper()),
    "INT": (some.integers(-(2**31) + 1, 2**31 - 1), str),
    "BIGINT": (some.integers(-(2**63) + 1, 2**63 - 1), str),
    "DOUBLE": (
        some.floats(allow_nan=False, allow_infinity=False),
        lambda v: f"{v!r}e0" if "e" not in repr(v) else repr(v),
    ),
    "DECIMAL(18, 4)": (some.decimals(-(10**13), 10**13, places=4), lambda v: f"{v:f}"),
    "STRING": (
        some.text(some.characters(exclude_categories=["Cs"]), max_size=9),
        lambda v: "'" + v.replace("'", "''") + "'",
    ),
    "BYTES": (some.binary(max_size=9), lambda v: f"X'{v.hex()}'"),
    "DATE": (some.dates(dt.date(1, 1, 1)), lambda v: f"DATE '{v.isoformat()}'"),
    "TIMESTAMP(6)": (moments, lambda v: f"TIMESTAMP '{v.isoformat(' ', 'microseconds')}'"),
    "TIMESTAMP_LTZ(6)": (
        moments.map(lambda v: v.replace(tzinfo=dt.UTC)),
        lambda v: f"TIMESTAMP_LTZ '{v.replace(tzinfo=None).isoformat(' ', 'microseconds')}'",
    ),
    "INTERVAL DAY(9) TO SECOND(3)": (
        some.integers(0, 10**9).map(lambda v: dt.timedelta(milliseconds=v)),
        lambda v: f"INTERVAL '{v / dt.timedelta(seconds=1):.3f}' SECOND(9, 3)",
    ),
}


@pytest.mark.parametrize("type_", LITERALS)
@settings(max_examples=12, deadline=None)
@given(data=some.data())
def test_a_parameter_is_what_the_literal_is(type_: str, data: some.DataObject) -> None:
    values, literal = LITERALS[type_]
    found = data.draw(some.lists(values, min_size=2, max_size=4))
    with TableEnvironment.create() as t_env:
        stored = "STRING" if type_.startswith("INTERVAL") else type_
        t_env.execute_script(f"CREATE TABLE p (x {stored}); CREATE TABLE l (x {stored})")
        cast = "CAST({} AS STRING)" if stored != type_ else "{}"
        t_env.execute_sql(f"INSERT INTO p VALUES ({cast.format('?')})", rows=[[v] for v in found])
        t_env.execute_sql("INSERT INTO l VALUES " + ", ".join(f"({cast.format(literal(v))})" for v in found))
        written = rows(t_env.execute_sql("SELECT * FROM l"))
        assert rows(t_env.execute_sql("SELECT * FROM p")) == written
        query = f"SELECT {{}}, x FROM p WHERE {cast.format('{}')} <= x OR x IN ({cast.format('{}')}, x)"
        prepared = t_env.prepare(query.format("?", "?", "?"))
        for value in found:
            answer = rows(t_env.execute_sql(query.format(*[literal(value)] * 3)))
            assert rows(t_env.execute_sql(query.format("?", "?", "?"), [value] * 3)) == answer
            assert rows(prepared.execute([value] * 3)) == answer


def test_numbers_that_no_literal_has(t_env: TableEnvironment) -> None:
    (found,) = rows(t_env.execute_sql("SELECT ?, ?, ? < 1", [math.nan, -math.inf, Decimal("1E-10")]))
    assert (math.isnan(found[0]), found[1:]) == (True, (-math.inf, True))


def test_a_prepared_change_tells_the_columns_that_it_returns() -> None:
    with TableEnvironment.create() as t_env:
        t_env.execute_sql("CREATE TABLE t (id INT PRIMARY KEY, v DOUBLE)")
        insert = t_env.prepare("INSERT INTO t VALUES (?, ?) RETURNING id, v * 2 AS twice")
        assert insert.parameter_types == (INT, DOUBLE)
        assert insert.schema is not None and insert.schema.names == ("id", "twice")
        assert [tuple(row) for row in insert.execute([1, 2.5]).collect()] == [(1, 5.0)]
        update = t_env.prepare("UPDATE t SET v = ? WHERE id = ? RETURNING v + ? AS w")
        assert [tuple(row) for row in update.execute([4.0, 1, 3]).collect()] == [(7.0,)]
        with pytest.raises(SqlEngineError, match="E1635"):
            insert.execute_many([(2, 2.5), (3, 3.5)])
