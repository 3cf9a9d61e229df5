"""The process functions that are measured: both forms give the same."""

from __future__ import annotations

import pytest

from sqlengine import TableEnvironment
from tests.benchmarks.process_functions import FUNCTIONS


@pytest.mark.parametrize(("name", "time"), [("counts", ""), ("sessions", ", on_time => DESCRIPTOR(`dateTime`)")])
def test_both_forms_give_the_same(name: str, time: str) -> None:
    with TableEnvironment.create() as t_env:
        t_env.create_temporary_system_function("rowwise", FUNCTIONS[name])
        t_env.create_temporary_system_function("by_epoch", FUNCTIONS[f"{name} by epoch"])
        t_env.execute_sql(
            "CREATE TABLE bid (bidder BIGINT, `dateTime` TIMESTAMP(3), WATERMARK FOR `dateTime` AS `dateTime`)"
        )
        for form in ("rowwise", "by_epoch"):
            call = f"{form}(input => TABLE bid PARTITION BY bidder{time})"
            t_env.execute_sql(f"CREATE MATERIALIZED VIEW {form}_ AS SELECT * FROM {call}")
        for start in (0, 7, 40):
            rows = ", ".join(f"({i % 3}, TIMESTAMP '2024-01-01 00:00:{start + i:02}')" for i in range(8))
            t_env.execute_sql(f"INSERT INTO bid VALUES {rows}")
        t_env.execute_sql("INSERT INTO bid VALUES (9, TIMESTAMP '2024-01-01 00:00:59')")
        found = [sorted(t_env.execute_sql(f"SELECT * FROM {form}_").collect()) for form in ("rowwise", "by_epoch")]
        assert found[0] == found[1] and len(found[0]) > 2
