"""dbt with its adapter for PostgreSQL, unchanged: seeds, models of every kind, tests, documentation, and runs again.

dbt pins libraries that others here have newer, so it has an environment of its own, made once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.server.conftest import Address

HOME = Path(__file__).parents[2] / ".venv-dbt"
FILES = {
    "dbt_project.yml": "name: shop\nversion: '1.0'\nprofile: shop\n",
    "seeds/currencies.csv": "code,name,rate\nEUR,Euro,1.1\nUSD,Dollar,1.0\n",
    "models/stg.sql": "{{ config(materialized='view') }}\nselect code, name, rate from {{ ref('currencies') }} where rate > 0\n",
    "models/tab.sql": "{{ config(materialized='table') }}\nselect code, count(*) as n from {{ ref('stg') }} group by code\n",
    "models/mv.sql": "{{ config(materialized='materialized_view') }}\n"
    "select name, sum(rate) as total from {{ ref('stg') }} group by name\n",
    "models/inc.sql": "{{ config(materialized='incremental', unique_key='code') }}\nselect code, rate from {{ ref('stg') }}\n",
    "models/schema.yml": "version: 2\nmodels:\n  - name: stg\n    columns:\n      - name: code\n"
    "        tests: [unique, not_null]\n",
}


@pytest.fixture(scope="session")
def dbt() -> str:
    program = HOME / "bin" / "dbt"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", HOME], check=True, capture_output=True)
        install = [
            HOME / "bin" / "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "dbt-core<1.11",
            "dbt-postgres<1.12",
        ]
        subprocess.run(install, check=True, capture_output=True)
    return str(program)


@pytest.mark.long
def test_dbt(dbt: str, address: Address, tmp_path: Path) -> None:
    schema = f"{address.schema}_dbt"
    profile = (
        f"shop:\n  target: dev\n  outputs:\n    dev: {{type: postgres, host: {address.host}, port: {address.port}, user: sqlengine,"
        f" password: x, dbname: default_catalog, schema: {schema}, threads: 1}}\n"
    )
    for name, text in {**FILES, "profiles.yml": profile}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def run(*words: str) -> None:
        ended = subprocess.run(
            [dbt, "--no-use-colors", "--quiet", *words, "--profiles-dir", str(tmp_path)],
            cwd=tmp_path,
            env={**os.environ, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr

    for command in (("debug",), ("seed",), ("run",), ("test",)):
        run(*command)
    with psycopg.connect(address.conninfo, autocommit=True) as connection:

        def rows(query: str) -> list[tuple[object, ...]]:
            return connection.execute(query).fetchall()

        assert rows(f"SELECT * FROM {schema}.mv ORDER BY name") == [("Dollar", 1), ("Euro", 1.1)]
        # The view follows its table at once; nothing has to be run for that.
        connection.execute(f"INSERT INTO {schema}.currencies VALUES ('JPY', 'Yen', 150)")
        assert rows(f"SELECT total FROM {schema}.mv WHERE name = 'Yen'") == [(150,)]
        run("run")
        assert rows(f"SELECT code FROM {schema}.inc ORDER BY code") == [("EUR",), ("JPY",), ("USD",)]
        assert rows(f"SELECT COUNT(*) FROM {schema}.tab") == [(3,)]
        # A model that means something else: the materialized view above it follows.
        (tmp_path / "models/stg.sql").write_text(FILES["models/stg.sql"].replace("rate > 0", "rate > 1"))
        run("run")
        assert rows(f"SELECT name FROM {schema}.mv ORDER BY name") == [("Euro",), ("Yen",)]
    run("docs", "generate")
