"""What all tests share: `pytest --rewrite` writes golden specs and outputs anew instead of comparing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.core import retries
from tests.servers.clickhouse import clickhouse
from tests.servers.kafka import kafka
from tests.servers.mariadb import mariadb, mariadb_server
from tests.servers.mongodb import mongodb, mongodb_server
from tests.servers.mosquitto import mosquitto, mosquitto_server
from tests.servers.nats import nats, nats_server
from tests.servers.postgres import postgres, postgres_server
from tests.servers.rabbitmq import rabbitmq, rabbitmq_server
from tests.servers.redis import redis, redis_server
from tests.servers.s3 import s3_server

__all__ = [
    "clickhouse", "mariadb", "mariadb_server", "mongodb", "mongodb_server", "mosquitto", "mosquitto_server", "nats", "nats_server",
    "postgres", "postgres_server", "rabbitmq", "rabbitmq_server", "redis", "redis_server",
]  # fmt: skip


TESTS = Path(__file__).parent
LONG_FOLDERS = {"conformance", "faults", "oracle", "spark"}
REAL_SERVERS = {
    "kafka_servers", "mariadb", "mariadb_server", "mongodb", "mongodb_server", "mosquitto", "mosquitto_server", "nats", "nats_server",
    "postgres", "postgres_server", "rabbitmq", "rabbitmq_server", "redis", "redis_server", "s3_endpoint",
}  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write golden specs and outputs anew; review the change like code"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever kills, compares with another engine, or needs a real server is `long`, beside what is marked itself."""
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        if folder in LONG_FOLDERS or REAL_SERVERS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def kafka_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of a real broker of Kafka, started when a test first asks for it."""
    with kafka(tmp_path_factory.mktemp("kafka")) as servers:
        yield servers


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The address of a server that speaks S3, started when a test first asks for it."""
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails is tried again at once."""
    monkeypatch.setattr(retries, "rest", lambda seconds: None)


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite"))
