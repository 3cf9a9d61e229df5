"""A job from one topic into another whose process is killed with SIGKILL at random moments: its answer is in the topic once.

`make faults` kills it fifty times.
"""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sqlengine import TableEnvironment
from tests.faults.conftest import FIRST_SEED, KILLS
from tests.faults.processes import WarmProcess

KILLED_SINKS = ("kafka", "upsert-kafka")
"""Connectors of which the tests here prove something."""
ROWS = 300 * (KILLS + 2)


def table(name: str, servers: str) -> str:
    return (
        f"CREATE TABLE `{name}` (id INT, n INT) WITH ('connector' = 'kafka', 'topic' = '{name}', 'format' = 'json', "
        f"'properties.bootstrap.servers' = '{servers}', 'scan.startup.mode' = 'earliest-offset', "
        "'scan.bounded.mode' = 'latest-offset', 'sink.delivery-guarantee' = 'exactly-once', "
        f"'sink.transactional-id-prefix' = '{name}', 'properties.fetch.wait.max.ms' = '10');"
    )


def upserted(name: str, servers: str) -> str:
    """The same with a key."""
    return (
        table(name, servers)
        .replace("(id INT, n INT)", "(id INT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED)")
        .replace("'kafka'", "'upsert-kafka'")
        .replace("'format'", "'key.format' = 'json', 'value.format'")
        .replace("'scan.startup.mode' = 'earliest-offset', ", "")
    )


@pytest.mark.parametrize("target", ["local", "processes"])
def test_a_killed_job_writes_each_row_once(kafka_servers: str, tmp_path: Path, warm: WarmProcess, target: str) -> None:
    """In processes these write the rows, and commit them."""
    servers = kafka_servers
    given, out = f"given-{target}", f"made-{target}"
    admin = AdminClient({"bootstrap.servers": servers})
    made = admin.create_topics([NewTopic(t, 2, 1) for t in (given, out)])
    assert all(done.result(60) is None for done in made.values())
    producer = Producer({"bootstrap.servers": servers})
    for number in range(ROWS):
        producer.produce(given, json.dumps({"id": number, "n": 1}), partition=number % 2)
    assert producer.flush(60) == 0
    tables = table(given, servers) + table(out, servers)
    if target == "local":
        job = f"{tables} INSERT INTO `{out}` SELECT id, n + 1 FROM `{given}`;"
    else:
        job = f"{table(given, servers)} {upserted(out, servers)} "
        job += f"INSERT INTO `{out}` SELECT id, COUNT(*) + MAX(n) FROM `{given}` GROUP BY id;"
    (tmp_path / "job.sql").write_text(job)
    options = {
        "execution.target": target,
        "parallelism.default": "2",
        "sqlengine.spark.write-in-tasks.min-rows": "2",
        "execution.checkpointing.dir": str(tmp_path / "state"),
        "execution.checkpointing.interval": "5 ms",
        "sqlengine.epoch.max-rows": "4" if target == "local" else "120",
    }
    arguments = ["run", str(tmp_path / "job.sql"), *(p for k, v in options.items() for p in ("-D", f"{k}={v}"))]
    rng = random.Random(FIRST_SEED)
    killed = 0
    while True:
        before = set(tmp_path.glob("state/*/chk-*/manifest.json"))
        warm.start(arguments, tmp_path / "said")
        while killed < KILLS and not warm.ended(0.002) and set(tmp_path.glob("state/*/chk-*/manifest.json")) <= before:
            pass
        if killed < KILLS and not warm.ended(rng.uniform(0, 0.3)):
            warm.kill()
        status = warm.status()
        if status != -signal.SIGKILL:
            assert status == 0, (tmp_path / "said").read_text()
            break
        killed += 1
    assert killed == KILLS
    with TableEnvironment.create() as t_env:
        t_env.execute_script(tables)
        rows = t_env.execute_sql(f"SELECT id, n FROM `{out}`").to_arrow().to_pylist()
    assert sorted((row["id"], row["n"]) for row in rows) == [(number, 2) for number in range(ROWS)]
    groups = [group.group_id for group in admin.list_consumer_groups().result(60).valid]
    lanes = [name for name in groups if name.startswith(out) and name.endswith(("-0", "-1"))]
    assert len(lanes) == (2 if target == "processes" else 0)
    print(f"{killed} kills")
