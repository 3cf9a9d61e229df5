"""What tables and views were: every moment that is asked for is what a copy says that was taken then.

Random changes, a clock that moves by hand, restarts after a clean end and after none. FUZZ_CASES is how many cases there are.
"""

from __future__ import annotations

import os
import random
from bisect import bisect_right
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.memory import MemoryTable, column_files
from connectors.memory import rows as row_store
from runtime.core.clock import VirtualClock
from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment
from tests.unit.database.test_lasting import rows

CASES = max(6, int(os.environ.get("FUZZ_CASES", "0")) // 50)
START = 1_700_000_000_000
RETENTION = 60_000
WITH = f"WITH ('history.retention' = '{RETENTION} ms')"
TABLES = (
    f"CREATE TABLE k (id INT PRIMARY KEY NOT ENFORCED, n INT) {WITH}",
    f"CREATE TABLE bag (id INT, n INT) {WITH}",
    f"""CREATE TABLE versions (id INT, n INT, PRIMARY KEY (id) NOT ENFORCED, ts AS TO_TIMESTAMP_LTZ(n, 3),
        WATERMARK FOR ts AS ts) {WITH}""",
    "CREATE MATERIALIZED VIEW sums AS SELECT n, COUNT(*) AS c FROM bag GROUP BY n",
    f"CREATE MATERIALIZED VIEW counts {WITH} AS SELECT c, COUNT(*) AS d FROM sums GROUP BY c",
    f"CREATE MATERIALIZED VIEW pairs {WITH} AS SELECT k.id, bag.n FROM k JOIN bag ON k.id = bag.id",
)
NAMES = ("k", "bag", "versions", "counts", "pairs")
Contents = dict[str, list[tuple[object, ...]]]
Copies = dict[str, list[tuple[int, list[tuple[object, ...]]]]]


def as_of(t_env: TableEnvironment, name: str, moment: int, columns: str = "*") -> list[tuple[object, ...]]:
    return rows(t_env, f"SELECT {columns} FROM {name} FOR SYSTEM_TIME AS OF TO_TIMESTAMP_LTZ({moment}, 3)")


def _killed(t_env: TableEnvironment) -> None:
    """As if the process had ended: nothing more is written, and the folder is nobody's."""
    assert t_env.session.durable is not None
    t_env.session.durable.abandon()


def _change(chance: random.Random) -> str:
    name = chance.choice(("k", "bag", "bag", "versions"))
    match chance.randint(0, 5):
        case 0:
            return f"DELETE FROM {name} WHERE id = {chance.randint(0, 5)}"
        case 1:
            return f"UPDATE {name} SET n = n + 1 WHERE id < {chance.randint(0, 5)}"
        case 2 if name != "versions":
            return f"TRUNCATE TABLE {name}"
        case _:
            columns = "(id, n)" if name == "versions" else ""
            values = ", ".join(f"({chance.randint(0, 5)}, {chance.randint(0, 4)})" for _ in range(chance.randint(1, 6)))
            return f"INSERT INTO {name} {columns} VALUES {values}"


def _contents(t_env: TableEnvironment, name: str) -> MemoryTable:
    return t_env.session.memory[t_env.session.catalogs.qualify((name,))]


def _sorted(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def _copy(t_env: TableEnvironment, copies: Copies, now: int) -> None:
    for name in NAMES:
        found = copies.setdefault(name, [])
        if found and found[-1][0] == now:
            found.pop()
        found.append((now, _sorted(_contents(t_env, name).contents())))


def _check(t_env: TableEnvironment, copies: Copies, moment: int, now: int, *, asks: bool) -> None:
    for name in NAMES:
        oldest = max(now - RETENTION, START)
        if moment < oldest:
            with pytest.raises(SqlEngineError, match=r"the history of .* goes back to") as refused:
                as_of(t_env, name, moment)
            assert refused.value.code == "E1721"
            continue
        at = bisect_right([m for m, _ in copies[name]], moment) - 1
        expected = copies[name][at][1]
        assert _sorted(t_env.session.database.rows_as_of(_contents(t_env, name), moment).rows()) == expected, name
        if asks:
            columns = "id, n" if name == "versions" else "*"
            assert as_of(t_env, name, moment, columns) == expected, (name, moment)


def _check_epochs(t_env: TableEnvironment, epochs: list[tuple[int, int, Contents]], at: int, now: int) -> None:
    """What one of the epochs is answered with, by its number, also after restarts: what was there, or, when that was over
    before the retention, nothing."""
    number, _, contents = epochs[at]
    over = epochs[at + 1][1] if at + 1 < len(epochs) else now
    for name in NAMES:
        columns = "id, n" if name == "versions" else "*"
        try:
            found = rows(t_env, f"SELECT {columns} FROM {name} FOR SYSTEM_TIME AS OF EPOCH {number}")
        except SqlEngineError as refused:
            assert refused.code == "E1721" and over <= now - RETENTION, (name, number)
        else:
            assert found == contents[name], (name, number)


@pytest.mark.parametrize("seed", range(CASES))
def test_every_moment_is_what_it_was(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(row_store, "_CHUNK_ROWS", chance.choice((4, 64, 1 << 16)))
    monkeypatch.setattr(column_files, "_LEAST_BYTES", 0)
    config = chance.choice(({}, {"state.backend.type": "rocksdb"}))
    path = str(tmp_path / "db") if chance.random() < 0.7 else None
    clock = VirtualClock(START)
    t_env = TableEnvironment.create(dict(config), clock=clock, path=path)
    for statement in TABLES:
        t_env.execute_sql(statement)
    copies: Copies = {}
    epochs: list[tuple[int, int, Contents]] = []
    _copy(t_env, copies, START)
    for _ in range(30):
        if chance.random() < 0.7:
            clock.advance_to(clock.now() + chance.choice((1, 10, 1000, 7000)))
        match chance.randint(0, 11):
            case 0 if path is not None:
                (TableEnvironment.close if chance.random() < 0.5 else _killed)(t_env)
                t_env = TableEnvironment.create(dict(config), clock=clock, path=path)
            case 1:
                t_env.execute_sql("BEGIN EPOCH")
                for _ in range(3):
                    t_env.execute_sql(_change(chance))
                t_env.execute_sql(chance.choice(("END EPOCH", "ROLLBACK EPOCH")))
            case 2 | 3:
                now = clock.now()
                back = chance.choice((0, 1, 500, 5000, 30_000, 59_999, 61_000))
                _check(t_env, copies, now - back, now, asks=True)
                if epochs:
                    _check_epochs(t_env, epochs, chance.randrange(len(epochs)), now)
                continue
            case _:
                t_env.execute_sql(_change(chance))
        _copy(t_env, copies, clock.now())
        contents = {name: found[-1][1] for name, found in copies.items()}
        number = t_env.session.database.shown.epoch
        if not epochs or epochs[-1][0] < number:
            epochs.append((number, clock.now(), contents))
        assert epochs[-1][2] == contents
    now = clock.now()
    for number, (moment, _) in enumerate(copies["k"]):
        _check(t_env, copies, moment, now, asks=number % 8 == 0)
    for at in range(0, len(epochs), 5):
        _check_epochs(t_env, epochs, at, now)
    t_env.close()
