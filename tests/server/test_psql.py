"""psql: its commands are questions to the catalogue. It is installed from Debian's packages where it is missing."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.server.conftest import Address

COMMANDS = r"""
\d \d+ \dt \dt+ \dv \dm \di \ds \dn \dn+ \l \l+ \du \du+ \df \df+ \da \dT \dT+ \dp \z \db \db+ \dC \do \dx \dx+ \dy \det \des
\deu \dew \dF \dFd \dFp \dFt \dc \dO \dL \dL+ \dD \ddp \dE \dg \drds \dRp \dRp+ \dRs \dX \dP \dA \dAc \dAf \dAo \dAp \dd \dl \dconfig
\dS \conninfo \encoding"""


@pytest.fixture(scope="session")
def psql() -> str:
    if shutil.which("psql") is None:
        for command in (["apt-get", "update"], ["apt-get", "install", "--yes", "postgresql-client"]):
            subprocess.run(command, check=True, capture_output=True)
    found = shutil.which("psql")
    assert found is not None
    return found


def run(psql: str, address: Address, *commands: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PGHOST": address.host,
        "PGPORT": str(address.port),
        "PGUSER": "sqlengine",
        "PGDATABASE": "default_catalog",
        "PGOPTIONS": f"-c search_path={address.schema}",
        "PSQLRC": "/dev/null",
    }
    words = [word for command in commands for word in ("-c", command)]
    return subprocess.run([psql, *words], input=stdin, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture
def shop(address: Address) -> Address:
    with address.connect() as connection:
        connection.execute(
            "CREATE TABLE orders (id INT PRIMARY KEY NOT ENFORCED, name STRING COMMENT 'who', amount DECIMAL(10, 2))"
        )
        connection.execute("CREATE VIEW names AS SELECT name FROM orders")
        connection.execute(
            "CREATE MATERIALIZED VIEW totals AS SELECT name, SUM(amount) AS total FROM orders GROUP BY name"
        )
    return address


def test_all_commands_that_ask_the_catalogue(psql: str, shop: Address) -> None:
    ended = run(psql, shop, *COMMANDS.split())
    told = [line for line in ended.stderr.splitlines() if not line.startswith("Did not find any ")]
    assert (ended.returncode, told) == (0, [])


def test_what_they_show(psql: str, shop: Address) -> None:
    ended = run(psql, shop, r"\d", r"\d orders", r"\d+ totals", r"\sv names", r"\dt+ nothing")
    lines = [" | ".join(cell.strip() for cell in line.split("|")) for line in ended.stdout.splitlines()]
    assert lines[3:6] == [
        f"{shop.schema} | names | view | sqlengine",
        f"{shop.schema} | orders | table | sqlengine",
        f"{shop.schema} | totals | materialized view | sqlengine",
    ]
    at = lines.index(f'Table "{shop.schema}.orders"')
    assert lines[at + 3 : at + 8] == [
        "id | integer |  | not null | ",
        "name | text |  |  | ",
        "amount | numeric(10,2) |  |  | ",
        "Indexes:",
        '"orders_pkey" PRIMARY KEY, btree (id)',
    ]
    at = lines.index("View definition:")
    assert lines[at + 1].endswith("(amount) AS total FROM orders GROUP BY name")
    assert f"CREATE OR REPLACE VIEW {shop.schema}.names AS\nSELECT name FROM orders" in ended.stdout
    assert 'Did not find any relation named "nothing".' in ended.stderr


def test_constraints(psql: str, shop: Address) -> None:
    made = """ALTER TABLE orders ADD CONSTRAINT named UNIQUE (name, amount), ADD CHECK (amount > 0 OR "name" = '`')"""
    ended = run(psql, shop, made, r"\d orders", r"\set VERBOSITY verbose", "INSERT INTO orders VALUES (1, 'ann', -1)")
    assert ended.stdout.rstrip().splitlines()[-5:] == [
        "Indexes:",
        '    "orders_pkey" PRIMARY KEY, btree (id)',
        '    "named" UNIQUE CONSTRAINT, btree (name, amount)',
        "Check constraints:",
        """    "orders_check" CHECK ((amount > 0 OR "name" = '`'))""",
    ]
    assert "ERROR:  23514: a row of" in ended.stderr
    assert f"SCHEMA NAME:  {shop.schema}\nTABLE NAME:  orders\nCONSTRAINT NAME:  orders_check\n" in ended.stderr
    asked = run(psql, shop, "SELECT constraint_name, constraint_type FROM information_schema.table_constraints "
                f"WHERE table_schema = '{shop.schema}' ORDER BY 1")  # fmt: skip
    assert [line.replace(" ", "") for line in asked.stdout.splitlines()[2:5]] == [
        "named|UNIQUE",
        "orders_check|CHECK",
        "orders_pkey|PRIMARYKEY",
    ]


def test_statements_copy_and_fetch_count(psql: str, shop: Address) -> None:
    ended = run(
        psql,
        shop,
        stdin="\\set ON_ERROR_STOP on\n\\set FETCH_COUNT 2\nCOPY orders FROM STDIN;\n1\tann\t9.50\n2\tbob\t\\N\n3\t\\N\t1\n\\.\n"
        "SELECT id, name FROM orders ORDER BY id;\nBEGIN;\nDELETE FROM orders;\nROLLBACK;\nSELECT COUNT(*) AS n FROM orders \\gdesc\n"
        "\\copy orders TO STDOUT CSV\n",
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == (
        "COPY 3\n id | name \n----+------\n  1 | ann\n  2 | bob\n  3 | \n(3 rows)\n\nBEGIN\nDELETE 3\nROLLBACK\n"
        " Column |  Type  \n--------+--------\n n      | bigint\n(1 row)\n\n1,ann,9.50\n2,bob,\n3,,1.00\n"
    )
