"""A topic that long-lived tasks of Spark write, and that are killed with signal 9 while messages wait for their checkpoint or are
being sent: each is there once. SPARK_FAULTS times (`make spark-faults`; not at all without it).
"""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from runtime.spark.continuous import continuous_of
from runtime.spark.session import spark_session
from sqlengine import TableEnvironment

KILLS = int(os.environ.get("SPARK_FAULTS", "0"))
ROWS = int(os.environ.get("SPARK_EVENTS", "400000"))
SEED = int(os.environ.get("FAULT_SEED", "1"))

pytestmark = [
    pytest.mark.skipif(not KILLS, reason="a broker and a JVM of its own: make spark-faults"),
]


@pytest.mark.timeout(0)
def test_each_message_is_there_once(kafka_servers: str, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    admin = AdminClient({"bootstrap.servers": kafka_servers})
    admin.create_topics([NewTopic("killed", 4, 1)])["killed"].result(60)
    spark = spark_session("local[2,4]")
    crews = continuous_of(spark.sparkContext)
    options = {
        "execution.checkpointing.dir": str(tmp_path / "state"),
        "execution.checkpointing.interval": "200 ms",
        "parallelism.default": "2",
        "sqlengine.epoch.max-rows": str(max(1000, ROWS // (4 * KILLS))),
        "sqlengine.spark.write-in-tasks.min-rows": "100",
    }
    address = f"'topic' = 'killed', 'properties.bootstrap.servers' = '{kafka_servers}'"
    over, killed = threading.Event(), 0

    def kill() -> None:
        """As soon as a crew has written what the one before had not, or a moment later."""
        nonlocal killed
        seen: set[str] = set()
        crew: list[int] = []
        while not over.wait(0.01) and killed < KILLS:
            there = {file.name for file in (tmp_path / "state").rglob("*.rows")}
            if there - seen and crews.pids and crews.pids != crew and not over.wait(chance.random() / 2):
                crew = crews.pids
                os.kill(chance.choice(crew), signal.SIGKILL)
                killed += 1
            seen |= there

    killer = threading.Thread(target=kill)
    with TableEnvironment.create(options, spark=spark) as t_env:
        t_env.execute_script(
            f"""CREATE TABLE given (id BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{ROWS}',
              'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{ROWS}');
            CREATE TABLE made (id BIGINT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka',
              'key.format' = 'json', 'value.format' = 'json', 'sink.delivery-guarantee' = 'exactly-once',
              'sink.transactional-id-prefix' = 'killed', {address})"""
        )
        killer.start()
        try:
            t_env.execute_sql("INSERT INTO made SELECT id, COUNT(*) FROM given GROUP BY id").wait()
        finally:
            over.set()
            killer.join()
    spark.stop()
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(
            f"""CREATE TABLE made (id BIGINT) WITH ('connector' = 'kafka', 'format' = 'json', {address},
            'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset')"""
        )
        (found,) = t_env.execute_sql("SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS ids FROM made").to_arrow().to_pylist()
    print(f"{killed} of {KILLS} kills, {crews.gathered} crews")
    assert killed and crews.gathered > 1
    assert found == {"n": ROWS, "ids": ROWS}
    assert not list((tmp_path / "state").rglob("*.rows"))
