"""A database in a folder becomes one that several servers may follow."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from runtime.checkpoint.keys import NO_KEYS
from runtime.core.errors import DatabaseError
from sqlengine import TableEnvironment
from sqlengine.database.folder.lease import SharedLease
from sqlengine.database.folder.opening import shared_storage_of


def test_what_is_there_stays(tmp_path: Path) -> None:
    path = str(tmp_path / "shop")
    with TableEnvironment.create(path=path) as environment:
        environment.execute_sql("CREATE TABLE t (n INT)")
        environment.execute_sql("INSERT INTO t VALUES (1)").wait()
        with pytest.raises(DatabaseError, match="E3701"):
            shared_storage_of(path, NO_KEYS)
    # The end that a crash has left.
    log = max((tmp_path / "shop" / "log").iterdir())
    with log.open("ab") as file:
        file.write(b"torn")
    for number in (2, 3):
        shared_storage_of(path, NO_KEYS)
        with TableEnvironment.create(path=path) as environment:
            durable = environment.session.durable
            assert durable is not None and isinstance(durable.folder._lease, SharedLease)
            environment.execute_sql(f"INSERT INTO t VALUES ({number})").wait()
            with pytest.raises(DatabaseError, match="E3701"):
                TableEnvironment.create(path=path)
    with TableEnvironment.create(path=path) as environment:
        assert environment.execute_sql("SELECT n FROM t ORDER BY n").to_arrow()["n"].to_pylist() == [1, 2, 3]
        environment.execute_sql(f"BACKUP TO '{tmp_path}/saved'")
    with TableEnvironment.create(path=str(tmp_path / "saved")) as environment:
        assert len(environment.execute_sql("SELECT n FROM t").to_arrow()) == 3


def test_jobs_are_ended_before(tmp_path: Path) -> None:
    path = str(tmp_path / "shop")
    with TableEnvironment.create(path=path) as environment:
        environment.execute_sql("CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1')")
        environment.execute_sql("CREATE TABLE s (n BIGINT)")
        environment.execute_sql("INSERT INTO s SELECT n FROM g")
    with pytest.raises(DatabaseError, match="E3712 .* keeps jobs"):
        shared_storage_of(path, NO_KEYS)
    with pytest.raises(DatabaseError, match="E3706"):
        shared_storage_of(str(tmp_path), NO_KEYS)
    with TableEnvironment.create(path=path) as environment:
        (job,) = environment.session.database.jobs.jobs
        environment.execute_sql(f"STOP JOB '{job}'").wait()
    shared_storage_of(path, NO_KEYS)


def test_an_insert_that_is_computed_is_safe_when_it_is_told(tmp_path: Path) -> None:
    """Its rows are not known before, so it does not commit with those of others, although it is short."""
    path = str(tmp_path / "shop")
    shared_storage_of(path, NO_KEYS)
    with TableEnvironment.create({"sqlengine.sql.dialect": "postgres"}, path=path) as environment:
        environment.execute_sql("CREATE TABLE t (n INT)")
        durable = environment.session.durable
        assert durable is not None

        def insert() -> None:
            environment.execute_sql("INSERT INTO t VALUES (1)").wait()

        inserting = threading.Thread(target=insert)
        inserting.start()
        inserting.join()
        assert durable.folder._log.settled == durable.folder.epoch == 4
