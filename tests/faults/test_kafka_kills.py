"""A job from one topic into another whose process is killed with SIGKILL at random moments: its answer is in the topic once.

`make faults` kills it fifty times.
"""

from __future__ import annotations

import json
import random
import signal
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sqlengine import TableEnvironment
from tests.faults.conftest import FIRST_SEED, KILLS
from tests.faults.processes import WarmProcess

pytestmark = [pytest.mark.long, pytest.mark.skipif(sys.platform == "win32", reason="kills with SIGKILL")]

ROWS = 300 * (KILLS + 2)


def table(name: str, servers: str) -> str:
    return (
        f"CREATE TABLE {name} (id INT, n INT) WITH ('connector' = 'kafka', 'topic' = '{name}', 'format' = 'json', "
        f"'properties.bootstrap.servers' = '{servers}', 'scan.startup.mode' = 'earliest-offset', "
        "'scan.bounded.mode' = 'latest-offset', 'sink.delivery-guarantee' = 'exactly-once', "
        "'sink.transactional-id-prefix' = 'test', 'properties.fetch.wait.max.ms' = '10');"
    )


def test_a_killed_job_writes_each_row_once(kafka_servers: str, tmp_path: Path, warm: WarmProcess) -> None:
    servers = kafka_servers
    admin = AdminClient({"bootstrap.servers": servers})
    made = admin.create_topics([NewTopic(t, 2, 1) for t in ("given", "made")])
    assert all(done.result(60) is None for done in made.values())
    producer = Producer({"bootstrap.servers": servers})
    for number in range(ROWS):
        producer.produce("given", json.dumps({"id": number, "n": 1}), partition=number % 2)
    assert producer.flush(60) == 0
    tables = table("given", servers) + table("made", servers)
    (tmp_path / "job.sql").write_text(f"{tables} INSERT INTO made SELECT id, n + 1 FROM given;")
    options = {
        "execution.checkpointing.dir": str(tmp_path / "state"),
        "execution.checkpointing.interval": "5 ms",
        "sqlengine.epoch.max-rows": "4",
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
        rows = t_env.execute_sql("SELECT id, n FROM made").to_arrow().to_pylist()
    assert sorted((row["id"], row["n"]) for row in rows) == [(number, 2) for number in range(ROWS)]
    print(f"{killed} kills")
