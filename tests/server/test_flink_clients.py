"""Flink's own SQL client and JDBC driver. They come from Maven, which comes from Debian's packages where it is missing."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.conftest import started, stop
from tests.server.gateway_client import Gateway, gateway_address
from tests.server.maven import copied

HERE = Path(__file__).parent / "flink_clients"
JARS = Path(__file__).parents[2] / ".venv-flink-clients"


@pytest.fixture(scope="session")
def jars() -> Path:
    return copied(HERE / "pom.xml", JARS)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    process, *_ = started("--gateway", "127.0.0.1:0")
    assert process.stdout is not None
    yield Gateway(*gateway_address(process.stdout.readline()))
    assert stop(process) == 0


def _sql_client(jars: Path, gateway: Gateway, folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    (folder / "config.yaml").write_text("{}")
    (folder / "script.sql").write_text(script)
    command = [
        "java", "-cp", f"{jars}/*", "org.apache.flink.table.client.SqlClient", "gateway", "-e", f"{gateway.host}:{gateway.port}",
        "-hist", str(folder / "history"), "-f", str(folder / "script.sql"),
    ]  # fmt: skip
    return subprocess.run(
        command, env={**os.environ, "FLINK_CONF_DIR": str(folder)}, capture_output=True, text=True, timeout=300
    )


@pytest.mark.long
def test_sql_client(jars: Path, gateway: Gateway, tmp_path: Path) -> None:
    script = """
CREATE TABLE t (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED);
INSERT INTO t VALUES (1, 'a'), (2, CAST(NULL AS STRING));
SET 'execution.runtime-mode' = 'batch';
SET 'sql-client.execution.result-mode' = 'tableau';
SELECT id, name FROM t ORDER BY id;
SHOW TABLES;
DESCRIBE t;
EXECUTE STATEMENT SET BEGIN INSERT INTO t VALUES (3, 'c'); INSERT INTO t VALUES (4, 'd'); END;
SELECT COUNT(*) AS n, MAX(name) AS m FROM t;
SELECT * FROM nope;
SELECT 5 AS not_reached;
"""
    done = _sql_client(jars, gateway, tmp_path, script)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    for expected in (
        "|  1 |      a |\n|  2 | <NULL> |\n",
        "2 rows in set",
        "|          t |",
        "|   id |    INT | FALSE | PRI(id) |",
        "| n | m |\n+---+---+\n| 4 | d |",
        'sqlengine.SqlError: E1202 unknown table "nope" at 1:15',
    ):
        assert expected in shown, shown + done.stderr
    assert len(re.findall(r"Job ID: [0-9a-f]{32}\n", shown)) == 2
    assert "not_reached" not in shown and "Traceback" not in shown


@pytest.mark.long
def test_jdbc_driver(jars: Path, gateway: Gateway) -> None:
    path = os.pathsep.join(map(str, [*jars.glob("flink-sql-jdbc-driver-bundle-*.jar"), *jars.glob("slf4j-api-*.jar")]))
    url = f"jdbc:flink://{gateway.host}:{gateway.port}/default_catalog/default_database?execution.runtime-mode=batch"
    statements = (
        "CREATE TABLE j (id INT, n DECIMAL(8, 2), ts TIMESTAMP(3), s STRING, bo BOOLEAN, d DATE, tm TIME, l BIGINT, f DOUBLE)",
        "INSERT INTO j VALUES (1, 1.20, TIMESTAMP '2024-01-02 03:04:05.25', 'a\"b', TRUE, DATE '2024-02-29', TIME '10:11:12', 5, 1.5),"
        " (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        "SELECT * FROM j",
        "SELECT COUNT(*) AS c FROM j",
        "SELECT * FROM nope",
        "SELECT 7 AS still_there",
    )
    command = ["java", "-cp", path, str(HERE / "Queries.java"), url, *statements]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines[0] == "default_catalog.default_database"
    assert lines[1] == "updated 0"
    assert re.fullmatch(r"[0-9a-f]{32}; ", lines[3])
    assert lines[4].startswith(
        "id INT; n DECIMAL(8, 2); ts TIMESTAMP(3); s STRING; bo BOOLEAN; d DATE; tm TIME(0); l BIGINT"
    )
    assert lines[5] == '1; 1.20; 2024-01-02 03:04:05.25; a"b; true; 2024-02-29; 10:11:12; 5; 1.5; '
    assert lines[6] == "2; null; null; null; null; null; null; null; null; "
    assert lines[8] == "2; "
    assert lines[9].startswith("error ") and 'E1202 unknown table "nope"' in lines[9]
    assert lines[11] == "7; "
    assert "schema default_catalog.default_database" in lines
