"""How old the answers of views are."""

from __future__ import annotations

import time

import pytest

from sqlengine import SqlEngineWarning, TableEnvironment
from sqlengine.database.freshness import ages


def test_a_view_is_as_of_now_unless_it_is_behind_or_has_failed() -> None:
    with TableEnvironment.create() as environment:
        environment.execute_script(
            "CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a;"
            "CREATE MATERIALIZED VIEW over_v AS SELECT n FROM v;"
            "CREATE MATERIALIZED VIEW fails AS SELECT 1 / a AS b FROM t"
        )
        views = {view.path.name: view for view in environment.session.views.jobs()}
        then = time.monotonic() + 10
        assert set(ages(views.values(), then).values()) == {0.0}
        with pytest.warns(SqlEngineWarning, match="fails"):
            environment.execute_sql("INSERT INTO t VALUES (0)")
        old = {path.name: age for path, age in ages(views.values(), then).items()}
        assert (old["v"], old["over_v"]) == (0.0, 0.0) and old["fails"] > 9
        # A view over a connector that is at work is as of the begin of its last epoch, and so is what reads it.
        views["v"].outside, views["v"].looked_at = True, then - 4
        old = {path.name: age for path, age in ages(views.values(), then).items()}
        assert (old["v"], old["over_v"]) == (4.0, 4.0)
        views["v"].waits = True
        assert {path.name: age for path, age in ages(views.values(), then).items()}["over_v"] == 0.0
        views["v"].outside = False
