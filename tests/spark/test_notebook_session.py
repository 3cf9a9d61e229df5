"""`%sql` in a notebook that has a Spark session, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sqlengine import TableEnvironment
from sqlengine.notebook import magics


def test_sql_runs_in_the_session_of_the_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = type("SparkSession", (), {"__module__": "pyspark.sql.session"})()
    installed: list[Any] = []
    with TableEnvironment.create() as t_env:
        monkeypatch.setattr(
            magics, "_spark", SimpleNamespace(install=lambda spark: installed.append(spark) or t_env), raising=True
        )
        shell = SimpleNamespace(user_ns={"spark": session})
        magic = magics._Magic(shell)
        assert magic("SELECT 1 AS one").to_arrow().to_pydict() == {"one": [1]}
        assert magic("SELECT 2 AS two").to_arrow().to_pydict() == {"two": [2]}
    assert installed == [session]
    assert shell.user_ns["t_env"] is t_env
