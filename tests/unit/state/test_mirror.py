"""What follows a state table shows what the operator keeps, after every epoch: all rows, and those of each key."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from runtime.core.errors import StateQueryError
from runtime.local.following import Following, stateful
from runtime.local.job import Job
from runtime.local.spilled_keys import is_spilled, read_keys
from runtime.local.vertex import Vertex
from runtime.spark.simulated import SimulatedCluster
from runtime.state.mirror import MirroredTable, StateMirror
from runtime.state.table import OWNER, SLOT, StateTable, TableChanges
from sqlengine.testing.simulated import SimulatedEnvironment

EPOCHS = max(8, int(os.environ.get("FUZZ_CASES", "0")))

VIEWS = """
SET 'table.optimizer.delta-join.strategy' = 'NONE';
CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, g STRING, a INT, d DECIMAL(38, 2));
CREATE TABLE o (k INT PRIMARY KEY NOT ENFORCED, g STRING);
CREATE MATERIALIZED VIEW aggregated AS
SELECT g, COUNT(*) AS n, SUM(d) AS s, MAX(a) AS m, COUNT(DISTINCT a) AS c, LISTAGG(CAST(a AS STRING)) AS l FROM t GROUP BY g;
CREATE MATERIALIZED VIEW joined AS SELECT t.id, t.a, o.k FROM t LEFT JOIN o ON t.g = o.g;
CREATE MATERIALIZED VIEW ranked AS SELECT * FROM (
  SELECT g, a, id, ROW_NUMBER() OVER (PARTITION BY g ORDER BY a, id) AS r FROM t) WHERE r <= 2;
CREATE MATERIALIZED VIEW total AS SELECT SUM(a) AS s FROM t;
CREATE MATERIALIZED VIEW both AS SELECT g FROM t INTERSECT SELECT g FROM o
"""


def random_statement(chance: random.Random) -> str:
    id_, g, a = (
        chance.randrange(12),
        chance.choice(["'x'", "'y'", "'z'", "NULL"]),
        chance.choice(["1", "2", "3", "NULL"]),
    )
    return chance.choice(
        [
            f"INSERT INTO t VALUES ({id_}, {g}, {a}, {chance.randrange(100)}.5)",
            f"DELETE FROM t WHERE id = {id_}",
            f"UPDATE t SET a = {a}, g = {g} WHERE id <= {id_}",
            f"INSERT INTO o VALUES ({id_}, {g})",
            f"DELETE FROM o WHERE k > {id_}",
        ]
    )


def rows_of(batches: Sequence[pa.RecordBatch], names: Sequence[str]) -> Counter[str]:
    """Without the numbers of arrival, which are others when state is read anew."""
    found: Counter[str] = Counter()
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in names if name != "$arrival"]
        found.update(map(repr, zip(*columns, strict=True)))
    return found


def compare(job: Job, followed: dict[tuple[str, str, str], Following]) -> int:
    """All states of a job with what its operators keep; how many there are."""
    count = 0
    for vertex, tables in stateful(job.dataflow):
        for table in tables:
            if table.shared:
                continue
            key = (job.name, vertex.name, table.name)
            if key not in followed or followed[key].over:
                followed[key] = Following(job, vertex.name, table.name)
                followed[key].begin()
            mirror = followed[key].mirror
            assert mirror is not None
            kept = [t.decoded() for task in vertex.operator.tasks for t in task.tables if t.name == table.name]
            names = [name for name in kept[0].schema.names if name not in (SLOT, OWNER)]
            assert mirror.table.columns.names == names
            scanned = mirror.scan(7)
            assert scanned is not None and scanned[0] == job.dataflow.epoch
            pieces = list(scanned[1])
            assert rows_of(pieces, names) == rows_of(kept, names), key
            compare_keys(mirror, pieces)
            count += 1
    return count


def compare_keys(mirror: StateMirror, pieces: list[pa.RecordBatch]) -> None:
    every = pa.Table.from_batches(pieces, schema=mirror.table.columns).combine_chunks()
    keys = [every.column(name).combine_chunks() for name in mirror.table.key]
    found = mirror.find(keys, every.num_rows)
    assert found is not None
    _, index, rows = found
    wanted: Counter[str] = Counter(map(repr, zip(*(k.to_pylist() for k in keys), strict=True))) if keys else Counter()
    for name, key in zip(mirror.table.key, keys, strict=True):
        assert key.take(pa.array(index)).to_pylist() == rows.column(name).to_pylist()
    if keys:
        sizes = np.bincount(index, minlength=every.num_rows)
        asked = list(map(repr, zip(*(k.to_pylist() for k in keys), strict=True)))
        assert sizes.tolist() == [wanted[key] for key in asked]


@pytest.mark.parametrize("where", ["alone", "restarts", "threads", "cluster"])
def test_a_mirror_shows_what_the_operator_keeps(where: str) -> None:
    chance = random.Random(7)
    with SimulatedEnvironment.create() as t_env:
        harness = t_env.session.harness
        if where == "restarts":
            harness.restarts = 3
        if where in ("threads", "cluster"):
            harness.job_options["parallelism.default"] = "3"
        if where == "cluster":
            harness.job_options["execution.target"] = "spark"
            t_env.session.target.cluster = SimulatedCluster(5)
        for statement in VIEWS.split(";"):
            t_env.execute_sql(statement)
        t_env.execute_sql("INSERT INTO t VALUES (1, 'x', 2, 1.5), (2, 'y', NULL, 0), (3, NULL, 3, 7)")
        followed: dict[tuple[str, str, str], Following] = {}
        checked = 0
        for _ in range(EPOCHS if where == "alone" else EPOCHS // 2):
            for _ in range(chance.choice([1, 1, 3])):
                t_env.execute_sql(random_statement(chance))
            checked += sum(compare(view.job, followed) for view in t_env.session.views.up_to_date())
        assert checked >= 8 * (EPOCHS // 2)


def one(name: str = "rows", key: tuple[str, ...] = ("k",)) -> MirroredTable:
    columns = pa.schema([("k", pa.string()), ("v", pa.int64())])
    return MirroredTable(name, columns, key, columns)


def changes(slots: list[int], keys: list[str], removed: Sequence[int] = (), complete: bool = False) -> TableChanges:
    columns = [pa.array(slots, pa.int64()), pa.array(keys, pa.large_string()), pa.array(slots, pa.int64())]
    rows = pa.RecordBatch.from_arrays(columns, names=[SLOT, "k", "v"])
    return TableChanges("rows", rows, np.array(removed, np.int64), complete)


def test_tasks_have_slots_of_their_own_and_complete_changes_replace_those_of_one_task() -> None:
    mirror = StateMirror(one(), 2)
    mirror.hear(1, [[changes([0, 1], ["a", "b"], complete=True)], [changes([0], ["c"], complete=True)]])
    assert mirror.find([pa.array(["a", "b", "c", "d"])], 4)[1].tolist() == [0, 1, 2]  # type: ignore[index]
    mirror.hear(2, [[changes([1], ["e"], complete=True)], []])
    epoch, index, rows = mirror.find([pa.array(["a", "b", "c", "e"])], 4)  # type: ignore[misc]
    assert (epoch, index.tolist(), rows.column("k").to_pylist()) == (2, [2, 3], ["c", "e"])
    mirror.hear(3, [[], [changes([], [], removed=[0, 5])]])
    assert mirror.find([pa.array(["c"])], 1)[1].tolist() == []  # type: ignore[index]


def test_an_answer_is_never_larger_than_it_may_be() -> None:
    mirror = StateMirror(one(), 1)
    mirror.hear(1, [[changes(list(range(100)), ["a"] * 100, complete=True)]])
    with pytest.raises(OverflowError):
        mirror.find([pa.array(["a"] * 5)], 5, most=400)
    assert len(mirror.find([pa.array(["a"] * 4)], 4, most=400)[1]) == 400  # type: ignore[index]


def test_a_mirror_that_nobody_asks_is_worn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.state.mirror._PATIENCE", 10)
    mirror = StateMirror(one(), 1)
    mirror.hear(1, [[changes([0], ["a"], complete=True)]])
    assert mirror.find([pa.array(["a"])], 1) is not None
    for epoch in range(2, 5):
        mirror.hear(epoch, [[changes([1, 2, 3, 4, 5], list("bcdef"))]])
    assert mirror.worn
    assert mirror.find([pa.array(["a"])], 1) is None


@pytest.mark.parametrize("tasks", ["1", "3"])
def test_keys_of_state_that_may_leave_memory_are_read_where_they_are(tasks: str) -> None:
    chance = random.Random(5)
    with SimulatedEnvironment.create() as t_env:
        options = t_env.session.harness.job_options
        options |= {
            "state.backend.type": "rocksdb",
            "sqlengine.state.keys-in-memory": "2",
            "parallelism.default": tasks,
        }
        for statement in VIEWS.split(";"):
            t_env.execute_sql(statement)
        checked = 0
        for _ in range(EPOCHS // 2):
            for _ in range(3):
                t_env.execute_sql(random_statement(chance))
            for view in t_env.session.views.up_to_date():
                checked += sum(compare_spilled(view.job, v, t) for v, ts in stateful(view.job.dataflow) for t in ts)
        assert checked >= 5 * (EPOCHS // 2)


def compare_spilled(job: Job, vertex: Vertex, table: StateTable) -> bool:
    if not is_spilled(vertex, table.name):
        return False
    with pytest.raises(StateQueryError, match="E4110"):
        Following(job, vertex.name, table.name).begin()
    shown = MirroredTable.of(table)
    kept = [t.decoded() for task in vertex.operator.tasks for t in task.tables if t.name == table.name]
    every = pa.Table.from_batches(kept).combine_chunks().select(shown.columns.names)
    every = every.cast(pa.schema([pa.field(n, shown.columns.field(n).type) for n in shown.columns.names]))
    asked = [every.column(name).combine_chunks() for name in shown.key]
    other = [pa.concat_arrays([key, pa.nulls(1, key.type)]) for key in asked]
    epoch, index, rows = read_keys(job, vertex.name, shown, other, 1 << 40)
    assert epoch == job.dataflow.epoch
    for name, key in zip(shown.key, other, strict=True):
        assert key.take(pa.array(index)).to_pylist() == rows.column(name).to_pylist()
    names = shown.columns.names
    distinct = {repr([key[i].as_py() for key in other]): i for i in range(len(other[0]))}
    of_distinct = [
        place for place, i in enumerate(index.tolist()) if distinct[repr([k[i].as_py() for k in other])] == i
    ]
    assert rows_of([rows.take(pa.array(of_distinct, pa.int64()))], names) == rows_of([*every.to_batches()], names)
    return True
