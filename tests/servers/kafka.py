"""A broker of Kafka in KRaft mode, for as long as a test needs it.

Its 34 jars come from Maven Central, once, into a cache of the user; each must have the digest of `kafka_jars.txt`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.jars import fetched_jars
from tests.servers.process import free_port

__all__ = ["kafka"]

_LIST = Path(__file__).with_name("kafka_jars.txt")
_JAVA = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/logs
num.partitions=4
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
log.cleaner.enable=false
"""
_START_SECONDS = 120.0


@contextmanager
def kafka(folder: Path) -> Iterator[str]:
    """`host:port` of a new broker that works in a folder. `KAFKA_BOOTSTRAP` names one that is there already."""
    given = os.environ.get("KAFKA_BOOTSTRAP")
    if given:
        yield given
        return
    classes = f"{fetched_jars(_LIST, 'kafka-4.3.0')}/*"
    port, controller = free_port(), free_port()
    properties = folder / "server.properties"
    properties.write_text(_PROPERTIES.format(port=port, controller=controller, folder=folder))
    java = ["java", *_JAVA, "-cp", classes]
    said = folder / "said"
    with said.open("wb") as log:
        formatting = ["kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "--standalone"]
        subprocess.run([*java, *formatting, "-c", str(properties)], stdout=log, stderr=log, check=True)
        broker = subprocess.Popen([*java, "kafka.Kafka", str(properties)], stdout=log, stderr=log, cwd=folder)
        try:
            _wait(port, broker, said)
            yield f"127.0.0.1:{port}"
        finally:
            broker.kill()
            broker.wait()
            shutil.rmtree(folder / "logs", ignore_errors=True)


def _wait(port: int, broker: subprocess.Popen[bytes], said: Path) -> None:
    """Until it answers: it listens before that."""
    until = time.monotonic() + _START_SECONDS
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    asked = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0, "reconnect.backoff.max.ms": 100})
    while time.monotonic() < until:
        assert broker.poll() is None, said.read_text()
        try:
            if asked.list_topics(timeout=1).brokers:
                return
        except KafkaException:
            continue
    raise AssertionError(f"the broker does not answer: {said.read_text()}")
