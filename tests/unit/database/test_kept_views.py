"""Views of a database in a folder go on from its checkpoints; what cannot go on is made again, and says why."""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.checkpoint.keys import NO_KEYS
from runtime.checkpoint.local_storage import LocalStorage
from runtime.core.clock import VirtualClock
from runtime.core.errors import ConnectorError, SqlEngineError
from sqlengine import TableEnvironment
from sqlengine.database.folder import checkpoint
from tests.unit.database.test_lasting import _die, rows, run

Ends = Callable[[TableEnvironment], None]


@pytest.fixture(autouse=True)
def _logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.WARNING, "sqlengine.database"):
        yield


def went_on(t_env: TableEnvironment) -> set[str]:
    """The views that have gone on from a checkpoint."""
    return {view.path.name for view in t_env.session.views.jobs() if view.job.restored is not None}


def why(caplog: pytest.LogCaptureFixture) -> dict[str, str]:
    """Why views were made again."""
    texts = [r.getMessage() for r in caplog.records]
    found = [t.split(" is made again from its definition: ") for t in texts if "is made again from" in t]
    return {name.rpartition(".")[2]: reason for name, reason in found}


def close(t_env: TableEnvironment) -> None:
    t_env.close()


def checkpointed_and_killed(t_env: TableEnvironment) -> None:
    """A checkpoint, some epochs behind it, and the end of the process."""
    checkpointed(t_env)
    t_env.execute_sql("INSERT INTO k VALUES (90, 900, 'late')")
    t_env.execute_sql("INSERT INTO bag VALUES (90), (2)")
    t_env.execute_sql("DELETE FROM k WHERE id = 3")
    _die(t_env)


TABLES = (
    "CREATE TABLE k (id INT PRIMARY KEY NOT ENFORCED, n INT, s STRING)",
    "INSERT INTO k VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'a')",
    "CREATE TABLE bag (n INT) WITH ('changelog-mode' = 'retract')",
    "INSERT INTO bag VALUES (1), (1), (2), (CAST(NULL AS INT))",
)
QUERIES = {
    "groups": "SELECT s, SUM(n) AS n, MAX(n) AS x FROM k GROUP BY s",
    "pairs": "SELECT k.id, b.n, k.s FROM k JOIN bag AS b ON k.id = b.n",
    "outside": "SELECT k.id, b.n FROM k LEFT JOIN bag AS b ON k.id = b.n",
    "plain": "SELECT n + 1 AS n FROM bag WHERE n > 1",
    "top": "SELECT id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY s ORDER BY n DESC) AS r FROM k) WHERE r = 1",
    "once": "SELECT DISTINCT n FROM bag",
    "ranks": "SELECT id, n, SUM(n) OVER (PARTITION BY s ORDER BY id) AS upto FROM k",
    "above": "SELECT COUNT(*) AS c, SUM(x) AS x FROM groups",
    "divided": "SELECT id, 100 / n AS d FROM k",
    "tops": "SELECT n FROM bag ORDER BY n DESC LIMIT 2",
}


def answers(t_env: TableEnvironment) -> dict[str, list[tuple[object, ...]]]:
    return {name: rows(t_env, f"SELECT * FROM {name}") for name in QUERIES}


def fresh(t_env: TableEnvironment) -> dict[str, list[tuple[object, ...]]]:
    """What the queries say over the tables."""
    found = {}
    for name, query in QUERIES.items():
        below = query.replace("FROM groups", f"FROM ({QUERIES['groups']})")
        found[name] = rows(t_env, f"SELECT * FROM ({below})")
    return found


def made(path: Path, config: dict[str, str] | None = None) -> TableEnvironment:
    t_env = TableEnvironment.create(config, path=path)
    for statement in TABLES:
        t_env.execute_sql(statement)
    for name, query in QUERIES.items():
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return t_env


@pytest.mark.parametrize("ends", [close, checkpointed_and_killed])
@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_all_go_on(tmp_path: Path, ends: Ends, backend: str, caplog: pytest.LogCaptureFixture) -> None:
    config = {"state.backend.type": backend, "sqlengine.state.keys-in-memory": "1" if backend == "rocksdb" else "0"}
    t_env = made(tmp_path / "db", config)
    for number in range(3):
        ends(t_env)
        t_env = TableEnvironment.create(path=tmp_path / "db")
        assert went_on(t_env) == set(QUERIES), why(caplog)
        assert answers(t_env) == fresh(t_env)
        # They take what comes next, also what takes back what they have from before.
        t_env.execute_sql(f"INSERT INTO k VALUES (1, {number + 1}, 'b'), ({100 + number}, 5, 'c')")
        t_env.execute_sql("DELETE FROM bag WHERE n = 1")
        t_env.execute_sql("UPDATE k SET n = n + 1 WHERE s = 'a'")
        t_env.execute_sql("INSERT INTO bag VALUES (1), (3)")
        assert answers(t_env) == fresh(t_env)
    _die(t_env)


def test_a_checkpoint_writes_what_has_changed(tmp_path: Path) -> None:
    """The state of a view that nothing has changed is named again, and of others the changes are written."""
    t_env = TableEnvironment.create(path=tmp_path / "db")
    t_env.execute_sql("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, b INT)")
    t_env.execute_sql("CREATE TABLE u (a INT)")
    t_env.execute_sql("INSERT INTO t VALUES " + ", ".join(f"({i}, {i % 7000})" for i in range(20_000)))
    t_env.execute_sql("CREATE MATERIALIZED VIEW m AS SELECT b, COUNT(*) AS c, MAX(a) AS a FROM t GROUP BY b")
    folder = tmp_path / "db" / "checkpoints"

    def written() -> int:
        before = {path.name for path in folder.glob("state*")}
        checkpointed(t_env)
        return sum(path.stat().st_size for path in folder.glob("state*") if path.name not in before)

    whole = written()
    t_env.execute_sql("UPDATE t SET b = b + 1 WHERE a < 20")
    few = written()
    t_env.execute_sql("INSERT INTO u VALUES (1)")
    none = written()
    assert none < 2_000 < few < whole / 8
    t_env.close()
    t_env = TableEnvironment.create(path=tmp_path / "db")
    t_env.execute_sql("INSERT INTO u VALUES (1)")
    assert written() < 2_000
    t_env.execute_sql("UPDATE t SET b = b + 1 WHERE a = 20")
    assert rows(t_env, "SELECT * FROM m") == rows(t_env, "SELECT b, COUNT(*), MAX(a) FROM t GROUP BY b")
    t_env.close()
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        assert went_on(t_env) == {"m"}
        assert rows(t_env, "SELECT * FROM m") == rows(t_env, "SELECT b, COUNT(*), MAX(a) FROM t GROUP BY b")


STREAM = (
    "CREATE TABLE f (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{0}/in', 'format' = 'csv', "
    "'source.monitor-interval' = '1 ms')",
    "CREATE TABLE t (n BIGINT)",
    "INSERT INTO t VALUES (1), (2)",
    "CREATE MATERIALIZED VIEW m AS SELECT COUNT(*) AS c, SUM(n) AS s FROM f",
    "CREATE MATERIALIZED VIEW both AS SELECT f.n FROM f JOIN t ON f.n = t.n",
    "CREATE MATERIALIZED VIEW above AS SELECT MAX(c) AS c FROM m",
)


def come(tmp_path: Path, name: str, *numbers: int) -> None:
    (tmp_path / "in").mkdir(exist_ok=True)
    (tmp_path / f"_{name}").write_text("".join(f"{n}\n" for n in numbers))
    (tmp_path / f"_{name}").rename(tmp_path / "in" / f"{name}.csv")


def stream(tmp_path: Path) -> TableEnvironment:
    t_env = TableEnvironment.create({"parallelism.default": "1"}, path=tmp_path / "db")
    for statement in STREAM:
        t_env.execute_sql(statement.format(tmp_path))
    return t_env


def test_a_view_over_files_goes_on_where_it_was(tmp_path: Path) -> None:
    """What it has read is not read again, and may be gone."""
    come(tmp_path, "a", 1, 2, 3)
    t_env = stream(tmp_path)
    t_env.flush()
    t_env.close()
    (tmp_path / "in" / "a.csv").write_text("7\n7\n7\n")
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        assert went_on(t_env) == {"m", "both", "above"}
        assert rows(t_env, "SELECT * FROM m") == [(3, 6)]
        come(tmp_path, "b", 10, 2)
        t_env.flush()
        assert rows(t_env, "SELECT * FROM m") == [(5, 18)]
        assert rows(t_env, "SELECT * FROM both") == [(1,), (2,), (2,)]
        assert rows(t_env, "SELECT * FROM above") == [(5,)]


def test_a_view_in_the_middle_of_a_file(tmp_path: Path) -> None:
    come(tmp_path, "a", *range(1, 2001))
    t_env = TableEnvironment.create(path=tmp_path / "db")
    # Nobody reads on after the first epoch.
    t_env.session.harness.cut = _Hundred()
    t_env.session.views.sources._run = lambda: None  # type: ignore[method-assign]
    for statement in STREAM:
        t_env.execute_sql(statement.format(tmp_path))
    assert rows(t_env, "SELECT * FROM m") == [(100, 5050)]
    t_env.close()
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        assert went_on(t_env) == {"m", "both", "above"}
        t_env.flush()
        assert rows(t_env, "SELECT * FROM m") == [(2000, 2001000)]
        assert rows(t_env, "SELECT * FROM above") == [(2000,)]


class _Hundred:
    """Epochs of a hundred rows."""

    def rows(self, sources: list[object], epoch: int) -> list[int]:
        return [100 for _ in sources]


def test_state_waits_for_a_source_that_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a checkpoint says of a view over connectors stays as long as the view cannot be made."""
    come(tmp_path, "a", 1, 2, 3)
    t_env = stream(tmp_path)
    t_env.flush()
    t_env.close()

    def unreachable(*args: object) -> None:
        raise ConnectorError("nobody is there", code="E3107")

    with monkeypatch.context() as patch:
        for room in ("views", "view_goes_on"):
            patch.setattr(f"sqlengine.statements.{room}.plan_view", unreachable)
        for _ in range(2):
            with TableEnvironment.create(path=tmp_path / "db") as t_env:
                t_env.execute_sql("INSERT INTO t VALUES (3)")
                with pytest.raises(SqlEngineError, match="nobody is there"):
                    t_env.execute_sql("SELECT * FROM m")
    (tmp_path / "in" / "a.csv").write_text("")
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        # The table has gone on without the join.
        assert went_on(t_env) == {"m"}
        t_env.flush()
        assert rows(t_env, "SELECT * FROM m") == [(3, 6)]
        assert rows(t_env, "SELECT * FROM both") == []
        assert rows(t_env, "SELECT * FROM above") == [(3,)]


def test_processing_time_goes_on(tmp_path: Path) -> None:
    """Rows stay in the windows in which they came: of a table that is read again all would come now."""
    t_env = TableEnvironment.create(clock=VirtualClock(1_000_000), path=tmp_path / "db")
    for statement in (
        "CREATE TABLE t (n INT, at AS PROCTIME())",
        "CREATE MATERIALIZED VIEW m AS SELECT window_start, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), "
        "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end",
        "INSERT INTO t (n) VALUES (1), (2)",
    ):
        t_env.execute_sql(statement)
    t_env.close()
    clock = VirtualClock(1_070_000)
    with TableEnvironment.create(clock=clock, path=tmp_path / "db") as t_env:
        assert went_on(t_env) == {"m"}
        t_env.execute_sql("INSERT INTO t (n) VALUES (3)")
        clock.advance_to(1_200_000)
        t_env.session.views.tick()
        assert sorted(r["c"] for r in t_env.execute_sql("SELECT c FROM m").to_arrow().to_pylist()) == [1, 2]


LATE = (
    "CREATE TABLE k (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)",
    "CREATE MATERIALIZED VIEW m AS SELECT window_start, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE k, DESCRIPTOR(ts), "
    "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end",
    "INSERT INTO k VALUES (1, TIMESTAMP '2020-01-01 00:00:10')",
)
_AT = "INSERT INTO k VALUES (2, TIMESTAMP '2020-01-01 {}')"


def test_late_rows_stay_late(tmp_path: Path) -> None:
    """Epochs behind a checkpoint are taken one by one, where it matters what comes in one of them."""
    t_env = TableEnvironment.create(path=tmp_path / "db")
    for statement in LATE:
        t_env.execute_sql(statement)
    checkpointed(t_env)
    t_env.execute_sql(_AT.format("00:01:10"))
    t_env.execute_sql(_AT.format("00:00:20"))  # late
    assert rows(t_env, "SELECT c FROM m") == [(1,)]
    _die(t_env)
    for _ in range(2):
        with TableEnvironment.create(path=tmp_path / "db") as t_env:
            assert went_on(t_env) == {"m"}
            assert rows(t_env, "SELECT c FROM m") == [(1,)]
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        t_env.execute_sql(_AT.format("00:00:30"))  # late, by the watermark of before
        t_env.execute_sql(_AT.format("00:03:10"))
        assert rows(t_env, "SELECT c FROM m") == [(1,), (1,)]


def checkpointed(t_env: TableEnvironment) -> None:
    with t_env.session.views.lock:
        assert t_env.session.durable is not None and t_env.session.durable.checkpoint()


def test_views_that_are_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Those that were replaced after the checkpoint, that read a table that was written anew, and those above them."""
    t_env = made(tmp_path / "db")
    checkpointed(t_env)
    t_env.execute_sql("CREATE OR REPLACE MATERIALIZED VIEW plain AS SELECT n + 2 AS n FROM bag WHERE n > 1")
    t_env.execute_sql("ALTER MATERIALIZED VIEW groups AS SELECT s, SUM(n) AS n, MIN(n) AS x FROM k GROUP BY s")
    t_env.execute_sql("INSERT INTO k VALUES (9, 1, 'a')")
    expected = answers(t_env)
    _die(t_env)
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        assert went_on(t_env) == set(QUERIES) - {"plain", "groups", "above"}
        assert why(caplog) == {"above": "a view that it reads is made again"}
        assert answers(t_env) == expected
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        assert went_on(t_env) == set(QUERIES)
        assert answers(t_env) == expected
        checkpointed(t_env)
        for name in ("pairs", "outside", "plain", "once", "tops"):
            t_env.execute_sql(f"DROP MATERIALIZED VIEW {name}")
        t_env.execute_sql("CREATE OR REPLACE TABLE bag AS SELECT n FROM k")
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW once AS {QUERIES['once']}")
        expected_once = rows(t_env, "SELECT * FROM once")
        _die(t_env)
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        assert "once" not in went_on(t_env) and "was written anew" in why(caplog)["once"]
        assert rows(t_env, "SELECT * FROM once") == expected_once


def test_a_view_that_has_failed_is_made_again(tmp_path: Path) -> None:
    t_env = made(tmp_path / "db")
    checkpointed(t_env)
    t_env.execute_sql("INSERT INTO k VALUES (50, 0, 'zero')")
    with pytest.raises(SqlEngineError, match="has failed"):
        t_env.execute_sql("SELECT * FROM divided")
    _die(t_env)
    t_env = TableEnvironment.create(path=tmp_path / "db")
    assert "divided" not in went_on(t_env)
    with pytest.raises(SqlEngineError) as error:
        t_env.execute_sql("SELECT * FROM divided")
    assert error.value.code == "E1713"
    t_env.execute_sql("DELETE FROM k WHERE id = 50")
    t_env.close()
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        assert went_on(t_env) == set(QUERIES) - {"divided"}
        assert answers(t_env) == fresh(t_env)


def test_functions_that_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module = tmp_path / "kept_view_functions.py"
    module.write_text("def f(n: int) -> int:\n    return n + 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    run(
        tmp_path / "db",
        "CREATE TABLE t (n BIGINT) WITH ('changelog-mode' = 'retract')",
        "INSERT INTO t VALUES (1), (2)",
        "CREATE FUNCTION f AS 'kept_view_functions.f' LANGUAGE PYTHON",
        "CREATE VIEW v AS SELECT f(n) AS n FROM t",
        "CREATE MATERIALIZED VIEW m AS SELECT n FROM v",
        "CREATE MATERIALIZED VIEW other AS SELECT COUNT(*) AS c FROM t",
    )
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        assert went_on(t_env) == {"m", "other"}
        assert rows(t_env, "SELECT * FROM m") == [(2,), (3,)]
    module.write_text("def f(n: int) -> int:\n    return n + 10  # another one\n")
    monkeypatch.delitem(__import__("sys").modules, "kept_view_functions")
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        assert went_on(t_env) == {"other"}
        assert why(caplog) == {"m": "the function F may compute something else now"}
        t_env.execute_sql("DELETE FROM t WHERE n = 1")
        assert rows(t_env, "SELECT * FROM m") == [(12,)]


def test_a_backup_has_the_state_of_views(tmp_path: Path) -> None:
    """Also of what was read of files that are gone."""
    come(tmp_path, "a", 1, 2, 3)
    t_env = stream(tmp_path)
    for name, query in {**QUERIES}.items():
        if name == "groups":
            for statement in TABLES:
                t_env.execute_sql(statement)
        t_env.execute_sql(
            f"CREATE OR REPLACE MATERIALIZED VIEW {'a_' + name} AS {query.replace('FROM groups', 'FROM a_groups')}"
        )
    t_env.flush()
    expected = {
        name: rows(t_env, f"SELECT * FROM {name}") for name in ("m", "both", "above", *(f"a_{q}" for q in QUERIES))
    }
    t_env.execute_sql(f"BACKUP TO '{tmp_path / 'saved'}'")
    t_env.execute_sql("INSERT INTO k VALUES (1, 1, 'after')")
    t_env.close()
    (tmp_path / "in" / "a.csv").write_text("")
    t_env = TableEnvironment.create(path=tmp_path / "again")
    t_env.execute_sql(f"RESTORE FROM '{tmp_path / 'saved'}'")
    for ends in (close, close):
        assert went_on(t_env) == set(expected)
        assert {name: rows(t_env, f"SELECT * FROM {name}") for name in expected} == expected
        ends(t_env)
        t_env = TableEnvironment.create(path=tmp_path / "again")
    t_env.close()
    with TableEnvironment.create(path=tmp_path / "saved") as t_env:
        assert went_on(t_env) == set(expected)
        t_env.execute_sql("DELETE FROM k WHERE id = 1")
        assert rows(t_env, "SELECT * FROM a_groups") == rows(t_env, QUERIES["groups"])


@pytest.mark.parametrize("seed", range(4))
def test_random_statements(tmp_path: Path, seed: int) -> None:
    """Views are what their queries say, after statements, checkpoints and starts of all kinds."""
    rng = random.Random(seed)
    config = {"sqlengine.database.checkpoint-size": rng.choice(["1", "3kb", "64mb"])}
    t_env = made(tmp_path / "db", config)
    for _ in range(60):
        n, m = rng.randrange(8), rng.randrange(1, 100)
        choice = rng.random()
        if choice < 0.1:
            (close if rng.random() < 0.5 else _die)(t_env)
            t_env = TableEnvironment.create(config, path=tmp_path / "db")
            assert answers(t_env) == fresh(t_env)
            continue
        if choice < 0.2:
            checkpointed(t_env)
            continue
        t_env.execute_sql(
            rng.choice(
                [
                    f"INSERT INTO k VALUES ({n}, {m}, '{'abc'[m % 3]}')",
                    f"INSERT INTO k SELECT n, {m}, 'x' FROM bag WHERE n > {n} ON CONFLICT DO DEDUPLICATE",
                    f"UPDATE k SET n = n + 1 WHERE id > {n}",
                    f"UPDATE k SET s = 'c' WHERE id = {n}",
                    f"DELETE FROM k WHERE id = {n}",
                    f"INSERT INTO bag VALUES ({n}), ({n}), ({m})",
                    f"DELETE FROM bag WHERE n = {n}",
                    f"CREATE OR REPLACE MATERIALIZED VIEW pairs AS {QUERIES['pairs']}",
                    "TRUNCATE TABLE bag",
                ]
            )
        )
    assert answers(t_env) == fresh(t_env)
    t_env.close()


def _segments(folder: Path) -> list[tuple[Path, int, int]]:
    """Where the state and answers of views are."""
    storage = LocalStorage(str(folder))
    ((epoch, path),) = checkpoint.manifests(storage)
    manifest = checkpoint.read_manifest(storage, path, epoch, NO_KEYS)
    return [(folder / s.file, s.offset, s.length) for view in manifest.views.values() for s in view.segments]


@pytest.mark.parametrize("seed", range(3))
def test_damaged_files_of_views(tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """A view whose files are damaged is made again, and says so."""
    rng = random.Random(seed)
    t_env = made(tmp_path / "db")
    expected = answers(t_env)
    t_env.close()
    segments = _segments(tmp_path / "db")
    assert len(segments) > 20
    for path, offset, length in rng.sample(segments, 4):
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / "db", copy)
        damaged = copy / path.relative_to(tmp_path / "db")
        data = bytearray(damaged.read_bytes())
        data[offset + rng.randrange(length)] ^= 0x10
        damaged.write_bytes(data)
        caplog.clear()
        with TableEnvironment.create(path=copy) as again:
            assert answers(again) == expected
            assert any("damaged" in reason for reason in why(caplog).values())
        with TableEnvironment.create(path=copy) as again:
            assert went_on(again) == set(QUERIES)
            assert answers(again) == expected
        shutil.rmtree(copy)
