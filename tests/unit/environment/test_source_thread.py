"""The thread that takes what connectors give to views."""

from __future__ import annotations

import itertools
from collections.abc import Hashable

import pytest

from runtime.local.agenda import Agenda
from sqlengine import TableEnvironment
from sqlengine.database import source_thread


class _AtOnce(Agenda[Hashable]):
    """Whoever is due later is due at once."""

    def put(self, item: Hashable, seconds: float | None) -> None:
        super().put(item, None if seconds is None else 0.0)


def test_a_view_that_is_due_again_at_once_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_thread, "Agenda", _AtOnce)
    with TableEnvironment.create() as environment:
        environment.execute_script(
            "CREATE TABLE t (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000');"
            "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t"
        )
        result = environment.execute_sql("SUBSCRIBE TO v")
        seen = [batch for batch in itertools.islice(result.changes(), 20) if len(batch)]
        result.cancel()
    assert len(seen) == 20
