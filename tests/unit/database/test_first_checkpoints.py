"""The first checkpoint after a start writes what has changed in the state of views, behind what was read."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from runtime.checkpoint.keys import NO_KEYS
from runtime.checkpoint.local_storage import LocalStorage
from sqlengine import TableEnvironment
from sqlengine.database.folder import checkpoint
from tests.unit.database.test_kept_views import went_on
from tests.unit.database.test_lasting import _die, rows

QUERIES = {
    "groups": "SELECT g, COUNT(*) AS c, MAX(n) AS x, COUNT(DISTINCT m) AS d FROM t GROUP BY g",
    "listed": "SELECT g, LISTAGG(CAST(n AS STRING)) AS l FROM (SELECT DISTINCT g, n FROM t) GROUP BY g",
    "pairs": "SELECT t.n, u.s FROM t JOIN u ON t.g = u.id",
    "outside": "SELECT t.n, u.s FROM t LEFT JOIN u ON t.g = u.id AND t.n > u.id",
    "tops": "SELECT g, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY n DESC, m) AS r FROM t) WHERE r <= 2",
    "ranks": "SELECT g, n, SUM(n) OVER (PARTITION BY g ORDER BY n) AS upto FROM (SELECT DISTINCT g, n FROM t)",
    "common": "SELECT n FROM t INTERSECT SELECT id FROM u",
    "above": "SELECT c, COUNT(*) AS m FROM groups GROUP BY c",
}


def _answers(t_env: TableEnvironment) -> dict[str, list[tuple[object, ...]]]:
    return {name: _listed(rows(t_env, f"SELECT * FROM {name}")) for name in QUERIES}


def _fresh(t_env: TableEnvironment) -> dict[str, list[tuple[object, ...]]]:
    below = {name: q.replace("FROM groups", f"FROM ({QUERIES['groups']})") for name, q in QUERIES.items()}
    return {name: _listed(rows(t_env, f"SELECT * FROM ({query})")) for name, query in below.items()}


def _listed(found: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """A list has its members in the order in which they came."""
    return [tuple(sorted(v.split(",")) if isinstance(v, str) else v for v in row) for row in found]


def _files(path: Path) -> dict[str, set[str]]:
    """The files of the state of each view in the newest checkpoint."""
    storage = LocalStorage(str(path))
    epoch, manifest = checkpoint.manifests(storage)[0]
    views = checkpoint.read_manifest(storage, manifest, epoch, NO_KEYS).views
    return {
        storage[2]: {
            segment.file
            for operator in view.operators
            for task in operator.tasks
            for pieces in task.values()
            for piece in pieces
            for segment in piece.segments
        }
        for storage, view in views.items()
    }


def _checkpoint(t_env: TableEnvironment) -> None:
    with t_env.session.views.lock:
        assert t_env.session.durable is not None and t_env.session.durable.checkpoint()


def _change(t_env: TableEnvironment, rng: random.Random) -> None:
    values = ", ".join(f"({rng.randrange(60)}, {rng.randrange(90)}, {rng.randrange(4)})" for _ in range(8))
    t_env.execute_sql(
        rng.choice(
            [
                f"INSERT INTO t VALUES {values}",
                f"INSERT INTO t VALUES {values}",
                f"DELETE FROM t WHERE g = {rng.randrange(60)}",
                f"DELETE FROM t WHERE n % 17 = {rng.randrange(17)}",
                f"UPDATE t SET n = n + 1 WHERE g = {rng.randrange(60)}",
                f"INSERT INTO u VALUES ({rng.randrange(70)}, 'v{rng.randrange(9)}')",
                f"DELETE FROM u WHERE id = {rng.randrange(70)}",
            ]
        )
    )


def _made(path: Path, rng: random.Random) -> None:
    with TableEnvironment.create(path=path) as t_env:
        t_env.execute_sql("CREATE TABLE t (g INT, n INT, m INT) WITH ('changelog-mode' = 'retract')")
        t_env.execute_sql("CREATE TABLE u (id INT PRIMARY KEY NOT ENFORCED, s STRING)")
        for name, query in QUERIES.items():
            t_env.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        values = ", ".join(f"({rng.randrange(60)}, {rng.randrange(90)}, {rng.randrange(4)})" for _ in range(600))
        t_env.execute_sql(f"INSERT INTO t VALUES {values}")
        t_env.execute_sql(f"INSERT INTO u VALUES {', '.join(f'({i}, {str(i)!r})' for i in range(0, 70, 2))}")
        for _ in range(6):
            _change(t_env, rng)


@pytest.mark.parametrize("seed", range(4))
def test_views_go_on_from_chains_that_were_read(tmp_path: Path, seed: int) -> None:
    """Over and over: what was read, what has changed since, and what another start reads of both."""
    rng = random.Random(seed)
    path = tmp_path / "db"
    _made(path, rng)
    for _ in range(6):
        t_env = TableEnvironment.create(path=path)
        assert went_on(t_env) == set(QUERIES)
        assert _answers(t_env) == _fresh(t_env)
        for _ in range(rng.randrange(4)):
            for _ in range(rng.randrange(3)):
                _change(t_env, rng)
            _checkpoint(t_env)
        for _ in range(rng.randrange(3)):
            _change(t_env, rng)
        assert _answers(t_env) == _fresh(t_env)
        t_env.close() if rng.random() < 0.5 else _die(t_env)


def test_the_files_that_were_read_are_named_again(tmp_path: Path) -> None:
    """Also where groups were deleted: their places are taken by the last ones. Top rows are put in order when they are
    loaded, so they are written anew; the join of tables keeps nothing."""
    path = tmp_path / "db"
    _made(path, random.Random(9))
    for statement in ("DELETE FROM t WHERE g = 5", "DELETE FROM u WHERE id = 4"):
        before = _files(path)
        with TableEnvironment.create(path=path) as t_env:
            t_env.execute_sql(statement)
            t_env.execute_sql("INSERT INTO t VALUES (1, 2, 3)")
        after = _files(path)
        assert {name for name in QUERIES if before[name] & after[name]} >= set(QUERIES) - {"tops", "pairs"}
