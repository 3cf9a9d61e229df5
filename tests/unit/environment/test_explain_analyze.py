"""EXPLAIN ANALYZE and the profile of a job: figures of a run that are known beforehand."""

from __future__ import annotations

import re

import pytest

from runtime.core.errors import UnsupportedError
from sqlengine import TableEnvironment

HEADS = ("rows in", "rows out", "out/in", "time", "share", "state at most")


@pytest.fixture
def t_env() -> TableEnvironment:
    environment = TableEnvironment.create({"table.local-time-zone": "UTC"})
    environment.execute_sql("CREATE TABLE t (id INT, item STRING)")
    rows = ", ".join(f"({i}, '{'abc'[i % 3]}')" for i in range(30))
    environment.execute_sql(f"INSERT INTO t VALUES {rows}")
    return environment


def figures(text: str) -> dict[str, tuple[str, ...]]:
    """By the first word of the operator: rows in, rows out, out/in, state."""
    head, *lines = text.splitlines()
    assert re.split("  +", head.strip()) == [*HEADS, "operator"]
    edges = [m.end() for m in re.finditer("|".join(HEADS), head)]
    found: dict[str, tuple[str, ...]] = {}
    for line in lines[:-1]:
        cells = [line[start:end].strip() for start, end in zip([0, *edges], edges, strict=False)]
        operator = line[edges[-1] :].split()[0]
        assert operator == "Shared" or re.fullmatch(r"[\d,.]+ ms", cells[3])
        found[operator] = (cells[0], cells[1], cells[2], cells[5].partition(" rows")[0])
    assert re.fullmatch(r"\d+ epochs, [\d,.]+ ms in operators and sources", lines[-1])
    return found


def test_rows_and_state_of_each_operator(t_env: TableEnvironment) -> None:
    query = "EXPLAIN ANALYZE SELECT item, COUNT(*) FROM t WHERE id >= 24 GROUP BY item"
    ((text,),) = t_env.execute_sql(query).collect()
    assert figures(text) == {
        "GroupAggregate": ("6", "3", "50.0%", "3"),
        "Calc": ("30", "6", "20.0%", ""),
        "Source": ("", "30", "", ""),
    }


def test_an_insert_writes(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE out (id INT, item STRING)")
    ((text,),) = t_env.execute_sql("EXPLAIN ANALYZE INSERT INTO out SELECT * FROM t WHERE item = 'a'").collect()
    assert figures(text)["Sink"] == ("10", "", "", "")
    assert len(list(t_env.execute_sql("SELECT * FROM out").collect())) == 10


def test_operators_that_are_shared_are_told_once(t_env: TableEnvironment) -> None:
    query = "SELECT item, n FROM v UNION ALL SELECT item, n FROM v"
    t_env.execute_sql("CREATE VIEW v AS SELECT item, COUNT(*) AS n FROM t GROUP BY item")
    ((text,),) = t_env.execute_sql(f"EXPLAIN ANALYZE {query}").collect()
    assert text.count("GroupAggregate by") == 1
    assert figures(text)["Shared"] == ("", "", "", "")


def test_input_without_end_is_refused(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE g (id INT) WITH ('connector' = 'datagen')")
    with pytest.raises(UnsupportedError, match="E1623 .*g has none"):
        t_env.execute_sql("EXPLAIN ANALYZE SELECT * FROM g")


def test_a_profile_names_operators_and_kernels(t_env: TableEnvironment, capsys: pytest.CaptureFixture[str]) -> None:
    t_env.execute_sql("SET 'sqlengine.profile' = 'true'")
    assert len(list(t_env.execute_sql("SELECT item, COUNT(*) FROM t GROUP BY item").collect())) == 3
    told = capsys.readouterr().err
    assert told.startswith("profile of job-")
    assert re.search(r"ms +30 +3 +GroupAggregate", told)
    assert "runtime.operators.group_aggregate" in told
    t_env.execute_sql("RESET 'sqlengine.profile'")
    assert len(list(t_env.execute_sql("SELECT item FROM t").collect())) == 30
    assert capsys.readouterr().err == ""
