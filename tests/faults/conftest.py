"""How much of the fault suite is run: little of everything in CI, `make faults` for more."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from sqlengine import TableEnvironment
from tests.faults.gates import Beside, Gate
from tests.faults.inputs import make_inputs
from tests.faults.processes import WarmProcess

SEEDS = int(os.environ.get("FAULT_SEEDS", "900"))
DAMAGES = int(os.environ.get("FAULT_SEEDS", "100"))
KILLS = int(os.environ.get("FAULT_KILLS", "2"))
FIRST_SEED = int(os.environ.get("FAULT_FIRST_SEED", "0"))
MANY_KILLS = 10


@pytest.fixture(autouse=True)
def held_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints read also few rows only while they are written."""
    monkeypatch.setattr("runtime.state.table.MANY_ROWS", 1)


@pytest.fixture(scope="session")
def few_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inputs for jobs that run very often."""
    folder = tmp_path_factory.mktemp("few_rows")
    make_inputs(folder, 40)
    return folder


@pytest.fixture(scope="session")
def many_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inputs for jobs that are to live long enough to be killed so often."""
    folder = tmp_path_factory.mktemp("many_rows")
    make_inputs(folder, 800 if KILLS <= MANY_KILLS else 4000)
    return folder


@pytest.fixture(scope="session")
def warm() -> Iterator[WarmProcess]:
    """Starts processes quickly."""
    process = WarmProcess()
    yield process
    process.close()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def beside(t_env: TableEnvironment) -> Iterator[Beside]:
    with t_env.new_session() as session:
        yield Beside(session)


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """A server that speaks S3, with a bucket `lake`, and credentials in the environment; what a URI says of it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/lake", method="PUT")).close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "somebody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
        yield f"region=us-east-1&scheme=http&endpoint_override={host}:{port}"
    server.stop()
