"""Tasks write the data files of lakes, and the driver commits the list of them: once, whatever is repeated. On a simulated
cluster."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from connectors.kit.commits import StagedWriter
from runtime.local.job import Job
from runtime.spark.simulated import SimulatedCluster
from runtime.tasks import divided
from sqlengine import TableEnvironment
from tests.spark.test_simulated import Stopped

CATALOGS = """
CREATE CATALOG iceberg WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = '{at}/iceberg');
CREATE CATALOG delta WITH ('type' = 'delta', 'path' = '{at}/delta');
CREATE TABLE given (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '600', 'fields.n.kind' = 'sequence',
  'fields.n.start' = '0', 'fields.n.end' = '599');
"""
TABLES = "".join(
    f"CREATE DATABASE {lake}.db; CREATE TABLE {lake}.db.t (n BIGINT, part INT) PARTITIONED BY (part);"
    for lake in ("iceberg", "delta")
)
INSERTS = """EXECUTE STATEMENT SET BEGIN
INSERT INTO iceberg.db.t SELECT n, CAST(MOD(n, 2) AS INT) FROM given WHERE n < 500;
INSERT INTO delta.db.t SELECT n, CAST(MOD(n, 3) AS INT) FROM given WHERE n < 500;
END"""


def environment(folder: Path, cluster: SimulatedCluster | None = None, **more: str) -> TableEnvironment:
    options = {
        "execution.checkpointing.dir": str(folder / "state"),
        "execution.checkpointing.interval": "1 ms",
        "parallelism.default": "3",
        "sqlengine.epoch.max-rows": "150",
        "sqlengine.spark.read-in-tasks": "true",
        "sqlengine.spark.write-in-tasks.min-rows": "1",
        **more,
    }
    t_env = TableEnvironment.create(options)
    if cluster is not None:
        t_env.get_config().set("execution.target", "spark")
        t_env.session.target.cluster = cluster
    t_env.execute_script(CATALOGS.format(at=folder))
    return t_env


def run(folder: Path, seed: int, until: int) -> None:
    """Up to an epoch, or to the end."""
    with environment(folder, SimulatedCluster(seed)) as t_env:

        def on_epoch(job: Job) -> None:
            if job.dataflow.epoch == until:
                raise Stopped

        t_env.session.on_job = lambda job: setattr(job, "on_epoch", on_epoch)
        with suppress(Stopped):
            t_env.execute_sql(INSERTS)


def test_rows_are_there_once_and_pass_by_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adopted: list[Any] = []
    adopt = StagedWriter.adopt

    def noted(self: StagedWriter[Any], written: Any) -> None:
        adopted.append(written)
        adopt(self, written)

    def refused(self: StagedWriter[Any], batch: Any) -> None:
        raise AssertionError("rows came to the driver")

    monkeypatch.setattr(divided, "PREFIX_ROWS", 1)
    monkeypatch.setattr(StagedWriter, "adopt", noted)
    monkeypatch.setattr(StagedWriter, "write", refused)
    with environment(tmp_path) as t_env:
        t_env.execute_script(TABLES)
    run(tmp_path, 3, until=3)
    run(tmp_path, 4, until=-1)
    assert len(adopted) >= 8
    before = len(adopted)
    with environment(tmp_path) as t_env:
        found = t_env.execute_sql("SELECT n FROM delta.db.t").to_arrow().column("n").to_pylist()
        assert sorted(found) == list(range(500))
    # What replaces the rows of a partition comes from tasks as well.
    with environment(tmp_path, SimulatedCluster(5), **{"execution.checkpointing.dir": ""}) as t_env:
        t_env.execute_sql("INSERT OVERWRITE delta.db.t SELECT n, 1 FROM given WHERE n >= 500").wait()
    assert len(adopted) > before
    with environment(tmp_path) as t_env:
        replaced = [*(n for n in range(500) if n % 3 != 1), *range(500, 600)]
        for lake, rows in {"iceberg": range(500), "delta": replaced}.items():
            found = t_env.execute_sql(f"SELECT n FROM {lake}.db.t").to_arrow().column("n").to_pylist()
            assert sorted(found) == list(rows), lake
