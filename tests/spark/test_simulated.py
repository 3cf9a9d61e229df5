"""Jobs whose tasks fail, run twice and forget, on a simulated cluster; either runtime goes on from what the other saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runtime.core.clock import VirtualClock
from runtime.local.dataflow import Vertex
from runtime.local.job import Job
from runtime.local.job_metrics import job_samples
from runtime.local.rejected import RejectedRows
from runtime.plan.nodes import SinkExec, SourceExec
from runtime.spark.simulated import SimulatedCluster
from runtime.tasks import divided, taking, task_inputs
from runtime.tasks.divided import Divided
from runtime.tasks.sinks import adopt as real_adopt
from runtime.tasks.task_inputs import TaskInputs
from sqlengine.api.environment import TableEnvironment

TABLES = """
CREATE TABLE bid (auction BIGINT, price BIGINT, at AS TIMESTAMPADD(SECOND, CAST(auction AS INT), TIMESTAMP '2024-01-01 00:00:00'),
  WATERMARK FOR at AS at)
WITH ('connector' = 'datagen', 'number-of-rows' = '1500', 'seed' = '3', 'fields.auction.kind' = 'sequence', 'fields.auction.start' = '0',
  'fields.auction.end' = '1499', 'fields.price.kind' = 'random', 'fields.price.min' = '0', 'fields.price.max' = '60');
CREATE TABLE joined (price BIGINT, other BIGINT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{out}/joined', 'format' = 'json');
CREATE TABLE counted (start_at TIMESTAMP(3), price BIGINT, n BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{out}/counted', 'format' = 'json');
CREATE TABLE totals (price BIGINT, n BIGINT, latest BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{out}/totals', 'format' = 'debezium-json');
"""
INSERTS = """EXECUTE STATEMENT SET BEGIN
INSERT INTO counted SELECT window_start, price, COUNT(*)
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '1' MINUTE)) WHERE price < 20 GROUP BY window_start, window_end, price;
INSERT INTO joined SELECT a.price, b.price, a.auction FROM bid a JOIN bid b
  ON a.auction = b.auction + 7 AND a.at BETWEEN b.at AND b.at + INTERVAL '10' SECOND WHERE a.price > b.price;
INSERT INTO totals SELECT price, COUNT(*), MAX(auction) FROM bid GROUP BY price;
END"""


class Stopped(Exception):
    """What ends a run in the middle, as a crash would."""


def run(folder: Path, cluster: SimulatedCluster | None, *, until: int | None = None, **options: Any) -> Job | None:
    """Run the statement set, from its checkpoint on, up to an epoch or to the end."""
    clock = VirtualClock(1)
    config = {
        "execution.checkpointing.dir": str(folder / "state"),
        "execution.checkpointing.interval": "10 ms",
        "sqlengine.epoch.max-rows": "100",
        **options,
    }
    t_env = TableEnvironment.create(config, clock=clock)
    if cluster is not None:
        t_env.get_config().set("execution.target", "spark")
        t_env.session.target.cluster = cluster
    t_env.execute_script(TABLES.format(out=folder))
    seen: list[Job] = []

    def watch(job: Job) -> None:
        seen.append(job)

        def tick(job: Job) -> None:
            clock.advance_to(clock.now() + 10)
            if until is not None and job.dataflow.epoch >= until:
                raise Stopped

        job.on_epoch = tick

    t_env.session.on_job = watch
    if until is not None:
        with pytest.raises(Stopped):
            t_env.execute_sql(INSERTS)
        return None
    t_env.execute_sql(INSERTS)
    t_env.close()
    return seen[0]


def published(folder: Path, table: str) -> list[str]:
    files = [f for f in (folder / table).rglob("*") if f.is_file() and not f.name.startswith((".", "_"))]
    return sorted(line for f in files for line in f.read_text().splitlines())


def read_back(folder: Path) -> list[Any]:
    """The table of changes as its reader finds it."""
    with TableEnvironment.create() as t_env:
        t_env.execute_script(TABLES.format(out=folder))
        rows = t_env.execute_sql("SELECT price, n, latest FROM totals").folded().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("whole")
    run(folder, None)
    assert len(read_back(folder)) == 61
    return {table: published(folder, table) for table in ("joined", "counted", "totals")}


@pytest.mark.parametrize("seed", range(3))
def test_either_runtime_goes_on_where_the_other_stopped(
    tmp_path: Path, expected: dict[str, list[str]], seed: int
) -> None:
    run(tmp_path, SimulatedCluster(seed) if seed % 2 else None, until=4, **{"parallelism.default": 3})
    run(tmp_path, None if seed % 2 else SimulatedCluster(seed), until=8, **{"parallelism.default": 2})
    run(tmp_path, SimulatedCluster(seed), until=11, **{"parallelism.default": 5})
    job = run(tmp_path, SimulatedCluster(seed), **{"parallelism.default": 1})
    assert job is not None
    assert job.restored is not None
    assert job.restored.epoch >= 8
    assert len(expected["joined"]) > 100
    assert {table: published(tmp_path, table) for table in expected} == expected


def test_more_tasks_go_on_than_there_were_key_groups(tmp_path: Path, expected: dict[str, list[str]]) -> None:
    """State that few tasks have saved is restored in 150, of 256 key groups, and the other way."""
    run(tmp_path, None, until=4, **{"parallelism.default": 3})
    run(tmp_path, SimulatedCluster(None), until=6, **{"parallelism.default": 150})
    run(tmp_path, SimulatedCluster(None), **{"parallelism.default": 2})
    assert {table: published(tmp_path, table) for table in expected} == expected


def test_a_task_that_runs_again_does_not_change_state(
    tmp_path: Path, expected: dict[str, list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "sqlengine.tasks")
    cluster = SimulatedCluster(7)
    job = run(tmp_path, cluster, **{"parallelism.default": 4})
    assert job is not None
    assert isinstance(job.dataflow.elsewhere, Divided)
    assert cluster.repeated > 20
    assert job.dataflow.elsewhere.cold_starts > 20
    opened = [r.getMessage() for r in caplog.records if r.name == "sqlengine.tasks"]
    assert len(opened) == job.dataflow.elsewhere.cold_starts > sum(" was lost and " in text for text in opened) > 0
    figures = {s.metric.name: s.value for s in job_samples(job, RejectedRows(), 0)}
    assert figures["sqlengine_spark_cold_starts_total"] == job.dataflow.elsewhere.cold_starts
    assert figures["sqlengine_spark_partitions"] == 4
    assert {table: published(tmp_path, table) for table in expected} == expected


def test_operators_stay_in_memory_where_nothing_goes_wrong(tmp_path: Path) -> None:
    job = run(tmp_path, SimulatedCluster(None), **{"parallelism.default": 2})
    assert job is not None
    assert isinstance(job.dataflow.elsewhere, Divided)
    # The first epoch of each task makes its operators.
    assert job.dataflow.elsewhere.cold_starts <= 2 * 3


def test_functions_of_the_user_run_in_tasks() -> None:
    t_env = TableEnvironment.create({"execution.target": "spark", "parallelism.default": "2"})
    t_env.session.target.cluster = SimulatedCluster(3)
    factor = 2

    def times(value: int) -> int:
        return value * factor

    t_env.create_temporary_system_function("times", times)
    t_env.execute_sql("CREATE TABLE t (id BIGINT, g STRING)")
    t_env.execute_sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'a')")
    rows = t_env.execute_sql("SELECT g, times(SUM(id)) AS n FROM t GROUP BY g").to_arrow().to_pylist()
    assert sorted(map(tuple, (row.values() for row in rows))) == [("a", 8), ("b", 4)]


@pytest.mark.parametrize("seed", range(2))
def test_tasks_read_sources_and_write_sinks(
    tmp_path: Path, expected: dict[str, list[str]], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that small epochs go the way of large ones: parts of a split, files, a stage of filters.
    monkeypatch.setattr(divided, "PREFIX_ROWS", 10)
    monkeypatch.setattr(task_inputs, "_LEAST_ROWS", 20)
    adopted: dict[str, int] = {}

    def adopt(vertex: Vertex, written: object, rows: int) -> None:
        assert isinstance(vertex.node, SinkExec)
        adopted[vertex.node.name] = adopted.get(vertex.node.name, 0) + rows
        real_adopt(vertex, written, rows)

    monkeypatch.setattr(taking, "adopt", adopt)
    options = {"sqlengine.spark.read-in-tasks": "true", "sqlengine.spark.write-in-tasks.min-rows": "5"}
    run(tmp_path, SimulatedCluster(seed), until=4, **options, **{"parallelism.default": 3})
    run(tmp_path, None, until=6)
    job = run(tmp_path, SimulatedCluster(seed), **options, **{"parallelism.default": 2})
    assert job is not None
    assert isinstance(job.dataflow.elsewhere, Divided)
    assert sum(adopted.values()) > 50
    assert len(adopted) == 3, adopted
    assert not list(tmp_path.rglob(".staged-*"))
    assert all(isinstance(source, TaskInputs) for source in job._sources)
    assert {table: published(tmp_path, table) for table in expected} == expected
    counts: dict[int, int] = {}
    for line in expected["totals"]:
        event = json.loads(line)
        if event["after"]:
            counts[event["after"]["price"]] = max(event["after"]["n"], counts.get(event["after"]["price"], 0))
    assert [(price, n) for price, n, _ in read_back(tmp_path)] == sorted(counts.items())
    assert [v.rows_out for v in job.dataflow.vertices if isinstance(v.node, SourceExec)] == [1500]
