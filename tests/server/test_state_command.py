"""`sqlengine serve --state`: who may ask, encryption, and what is wrong with its arguments."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.core.errors import OptionError, StateQueryError
from sqlengine.server.running import Serving, serve
from sqlengine.state import NotAllowed, StateClient
from tests.server.conftest import stop
from tests.server.test_serve import certificate, users_file


def test_the_command_with_users_and_tls(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    init = tmp_path / "init.sql"
    init.write_text("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED); INSERT INTO t VALUES (1)")
    command = [sys.executable, "-m", "sqlengine", "serve", "--postgres", "127.0.0.1:0", "--state", "localhost:0"]
    command += [
        "--users",
        users_file(tmp_path, "ann:secret"),
        "--tls-cert",
        cert,
        "--tls-key",
        key,
        "--init",
        str(init),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    match = re.match(r"state is read at (\S+):(\d+):", process.stdout.readline())
    assert match is not None
    address, root = f"{match[1]}:{match[2]}", Path(cert).read_bytes()
    for user, password in ((None, ""), ("ann", "wrong"), ("bob", "secret")):
        with StateClient(address, root_certificate=root, user=user, password=password) as client:
            with pytest.raises(NotAllowed):
                client.states()
            with pytest.raises(NotAllowed):
                client.get("t", 1)
    with StateClient(address, root_certificate=root, user="ann", password="secret") as client:
        assert client.get("t", 1) == [{"id": 1}]
    with StateClient(address, timeout=0.2) as client, pytest.raises(StateQueryError):
        client.states()
    assert stop(process) == 0


@pytest.mark.parametrize("state", ["127.0.0.1", "127.0.0.1:9-", "127.0.0.1:70000", "127.0.0.1:1,x", "0.0.0.0:9069"])
def test_arguments_that_are_wrong(state: str) -> None:
    with pytest.raises(OptionError, match="E1500"):
        serve(Serving(None, "127.0.0.1:0", state=state), {})
