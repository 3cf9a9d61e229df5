"""Each pipeline is started as its file says, and its answer follows what changes outside."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sqlengine import TableEnvironment
from tests.pipelines.places import PIPELINES, Servers, script_of
from tests.servers.postgres import PostgresDatabase

CHANGES = 2


@pytest.mark.parametrize("name", PIPELINES)
def test_the_answer_follows(
    name: str,
    postgres: PostgresDatabase,
    kafka_servers: str,
    s3_endpoint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        servers = Servers(stack, tmp_path, postgres=postgres, kafka=kafka_servers, s3=s3_endpoint)
        pipeline = PIPELINES[name](servers)
        for key, value in pipeline.variables.items():
            monkeypatch.setenv(key, value)
        t_env = stack.enter_context(TableEnvironment.create())
        # Nobody has to wait for a second.
        t_env.execute_script(script_of(name).read_text(encoding="utf-8").replace("'1 s'", "'50 ms'"))
        other = t_env if pipeline.serves else stack.enter_context(TableEnvironment.create())
        if pipeline.declared:
            other.execute_script(pipeline.declared)
        for _ in range(CHANGES):
            expected = next(pipeline.changes)
            while _rows(other, pipeline.shown) != expected:
                pass


def _rows(t_env: TableEnvironment, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in t_env.execute_sql(query).to_arrow().to_pylist()]
