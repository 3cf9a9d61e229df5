"""How fast changes are read from the log of a MariaDB of this machine whose transactions have one row each: the most that a change
can cost.

    python -m tests.benchmarks.mysql_cdc [--changes 200000] [--repeat 3]

Half of the changes are insertions, half are updates of one column of four. A materialized view counts and sums them; the time is
that of its making and a FLUSH, the best of several. Beside the changes in a second stands how many a second of one core's time is
enough for, of this process alone, which depends less on what else the machine does.
"""

from __future__ import annotations

import argparse

from sqlengine import TableEnvironment
from tests.benchmarks.kafka import measure
from tests.servers.mariadb import PASSWORD, MariaDatabase, running

LOOP = """CREATE PROCEDURE {name}() BEGIN
  DECLARE i INT DEFAULT 0; WHILE i < {count} DO {statement}; SET i = i + 1; END WHILE; END"""


def filled(database: MariaDatabase, changes: int) -> None:
    """A table, and its log of so many transactions."""
    database.server.run(f"CREATE DATABASE {database.name}", "SET GLOBAL max_statement_time = 0")
    statements = {
        "insertions": "INSERT INTO t VALUES (i, CONCAT('name', i % 1000), i * 3, i / 7)",
        "updates": "UPDATE t SET n = n + 1 WHERE id = i",
    }
    database.run("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), n BIGINT, amount DECIMAL(12, 2))")
    for name, statement in statements.items():
        database.run(LOOP.format(name=name, count=changes // 2, statement=statement), f"CALL {name}()")


def counted(database: MariaDatabase, changes: int) -> None:
    """All changes through a view."""
    with TableEnvironment.create() as env:
        env.execute_sql(
            f"CREATE TABLE t (id INT, name STRING, n BIGINT, amount DECIMAL(12, 2)) WITH ('connector' = 'mysql-cdc', "
            f"'hostname' = '127.0.0.1', 'port' = '{database.server.port}', 'username' = 'root', 'password' = '{PASSWORD}', "
            f"'database-name' = '{database.name}', 'table-name' = 't', 'scan.startup.mode' = 'earliest-offset')"
        )
        env.execute_sql("CREATE MATERIALIZED VIEW sums AS SELECT COUNT(*) AS c, SUM(n) AS n FROM t")
        env.execute_sql("FLUSH").wait()
        ((count, _),) = env.execute_sql("SELECT * FROM sums").collect()
        assert count == changes // 2, count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--changes", type=int, default=200_000)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    with running() as server:
        database = MariaDatabase(server, "shop")
        filled(database, given.changes)
        best, of_core = measure(lambda: counted(database, given.changes), given.changes, given.repeat)
        print(f"{best:12,.0f} changes/s {of_core:12,.0f} in a second of a core")


if __name__ == "__main__":
    main()
