"""A topic that tasks write, exactly once: with a real broker, on a cluster in this process that fails by a seed."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from connectors.catalogue import standard_registry
from connectors.kafka.lane_commit import LaneCommit
from connectors.kafka.table import KAFKA
from connectors.kafka.transactions import KafkaTaskWriter
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import BIGINT
from runtime.spark.simulated import SimulatedCluster
from runtime.spi.registry import TableRequest
from runtime.tasks import divided, wire
from sqlengine import TableEnvironment

ROWS = 1200
_numbers = itertools.count()


@pytest.fixture
def topic(kafka_servers: str) -> str:
    name = f"in-tasks-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": kafka_servers})
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(60)
    return name


@pytest.fixture(autouse=True)
def few_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divided, "PREFIX_ROWS", 10)
    monkeypatch.setattr(wire, "_SLICE_ROWS", 10)


def options(servers: str, topic: str) -> str:
    return (
        f"'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}', 'scan.startup.mode' = 'earliest-offset', "
        "'scan.bounded.mode' = 'latest-offset', 'sink.delivery-guarantee' = 'exactly-once', "
        f"'sink.transactional-id-prefix' = '{topic}', 'properties.fetch.wait.max.ms' = '10'"
    )


def run(folder: Path, statements: str, cluster: SimulatedCluster | None, **more: object) -> None:
    config = {
        "execution.checkpointing.dir": str(folder / "state"),
        "execution.checkpointing.interval": "1 ms",
        "sqlengine.epoch.max-rows": "200",
        "parallelism.default": "2",
        "restart-strategy.type": "none",
        "sqlengine.spark.write-in-tasks.min-rows": "30",
        "execution.target": "local" if cluster is None else "spark",
        **{key.replace("__", "-").replace("_", "."): str(value) for key, value in more.items()},
    }
    with TableEnvironment.create(config) as t_env:
        if cluster is not None:
            t_env.session.target.cluster = cluster  # type: ignore[assignment]
        for result in t_env.execute_script(statements):
            result.wait()


SOURCE = f"""CREATE TABLE given (id BIGINT, k BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{ROWS}',
'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{ROWS}',
'fields.k.kind' = 'sequence', 'fields.k.start' = '1', 'fields.k.end' = '{ROWS}');"""


def made(servers: str, topic: str) -> str:
    return f"CREATE TABLE made (id BIGINT, n BIGINT) WITH ('connector' = 'kafka', 'format' = 'json', {options(servers, topic)});"


def upserted(servers: str, topic: str) -> str:
    return (
        "CREATE TABLE made (k BIGINT, n BIGINT, last BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = "
        "'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json', "
        + options(servers, topic).replace("'scan.startup.mode' = 'earliest-offset', ", "")
        + ");"
    )


def rows(table: str) -> list[tuple[int, ...]]:
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(table)
        found = t_env.execute_sql("SELECT * FROM made").to_arrow()
        return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


WHOLE = [(number, number + 1) for number in range(1, ROWS + 1)]
COPY = "INSERT INTO made SELECT id, k + 1 FROM given;"


class Told:
    """Counts what tasks have written and committed, and breaks when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written = self.committed = 0
        self.breaks = 0
        """So many lanes are committed until the job breaks; 0: never."""
        put, call = KafkaTaskWriter.put, LaneCommit.__call__

        def counted(of: KafkaTaskWriter, given: Any) -> str:
            self.written += given.num_rows
            return put(of, given)

        def commits(of: LaneCommit) -> None:
            self.committed += 1
            if self.committed == self.breaks:
                raise ConnectorError("the machine is gone")
            call(of)

        monkeypatch.setattr(KafkaTaskWriter, "put", counted)
        monkeypatch.setattr(LaneCommit, "__call__", commits)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)


def left(folder: Path) -> list[Path]:
    return [path for path in folder.rglob(".staged/*/*") if path.is_file()]


def test_each_row_is_there_once(kafka_servers: str, topic: str, tmp_path: Path, told: Told) -> None:
    table = made(kafka_servers, topic)
    run(tmp_path, SOURCE + table + COPY, SimulatedCluster(1))
    assert rows(table) == WHOLE
    assert told.written > ROWS // 2 and told.committed >= 6
    assert not left(tmp_path)


def test_a_job_that_breaks_between_lanes_goes_on_in_either_runtime(
    kafka_servers: str, topic: str, tmp_path: Path, told: Told
) -> None:
    table = made(kafka_servers, topic)
    for breaks, cluster in ((5, SimulatedCluster(None)), (2, None), (0, SimulatedCluster(2))):
        told.committed, told.breaks = 0, breaks
        if breaks:
            with pytest.raises(ConnectorError, match="the machine is gone"):
                run(tmp_path, SOURCE + table + COPY, cluster)
        else:
            run(tmp_path, SOURCE + table + COPY, cluster)
    assert rows(table) == WHOLE
    assert not left(tmp_path)


def test_the_last_change_of_a_key_is_the_last_message(
    kafka_servers: str, topic: str, tmp_path: Path, told: Told
) -> None:
    table = upserted(kafka_servers, topic)
    query = "INSERT INTO made SELECT MOD(id, 400), COUNT(*), MAX(k) FROM given GROUP BY MOD(id, 400);"
    # Some epochs come from tasks, some from the driver, and one checkpoint has several.
    run(tmp_path, SOURCE + table + query, SimulatedCluster(3), sqlengine_epoch_max__rows=110)
    ids = range(1, ROWS + 1)
    expected = [(k, sum(i % 400 == k for i in ids), max(i for i in ids if i % 400 == k)) for k in range(400)]
    assert rows(table) == expected
    assert told.written > 500


def test_a_run_that_was_replaced_sends_nothing(kafka_servers: str, topic: str, tmp_path: Path) -> None:
    """Not even a lane: the brokers refuse it before."""
    schema = Schema.of(("id", BIGINT), ("n", BIGINT))
    given = {
        key.strip("' "): value.strip("' ")
        for key, _, value in (pair.partition(" = ") for pair in options(kafka_servers, topic).split(", "))
    }
    environment = Options({"execution.checkpointing.dir": str(tmp_path)})
    request = TableRequest("made", schema, (), {**given, "format": "json"}, environment, registry=standard_registry())
    runs = [KAFKA.sink(request).open_writer("job") for _ in range(2)]  # type: ignore[misc]
    named: list[Any] = []
    for number, writer in enumerate(runs):
        writer.commit_in_tasks(2, lambda works: [work() for work in works])
        writer.recover(named[:number])
        task_writer = writer.task_writer()
        writer.adopt(task_writer.write(ChangelogBatch.of([pa.array([number, 9]), pa.array([number, 9])], schema)))
        named.append(writer.prepare())
    with pytest.raises(FencedError, match="E3413"):
        runs[0].publish(named[0])
    runs[1].publish(named[1])
    for writer in runs:
        writer.close()
    # What the first one had prepared the second one was given with the checkpoint.
    assert rows(made(kafka_servers, topic)) == [(0, 0), (1, 1), (9, 9), (9, 9)]
