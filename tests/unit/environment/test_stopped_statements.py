"""Statements that are stopped, or interrupted, in the middle of an epoch: soon, and as if they had not begun.

How soon is counted in looks at the request to stop, not in seconds.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import connectors.memory.table as memory_table
import runtime.eval.slices as slices
import runtime.local.vertex as vertex
from connectors.memory import MemoryTable
from runtime.core.cancellation import Cancellation, Stopped, governed, look, whole
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, ChangelogBatch
from runtime.core.errors import SqlEngineError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, INT
from runtime.local.job import Job
from sqlengine import TableEnvironment


class AtLook(Cancellation):
    """Counts the looks, and does something at one of them."""

    def __init__(self, at: int = 0, then: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.looks = 0
        self._at = at
        self._then = then or self.request

    def look(self) -> None:
        self.looks += 1
        if self.looks == self._at:
            self._then()
        super().look()


def interrupt() -> None:
    """What Python does for Ctrl-C."""
    raise KeyboardInterrupt


@pytest.fixture
def t_env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as env:
        env.execute_sql("CREATE TABLE n (v INT, k INT)")
        table = env.session.memory_table(env.session.catalogs.get(("n",), None))  # type: ignore[arg-type]
        table.apply(ChangelogBatch.of([pa.array(range(3000), pa.int32()), pa.array([1] * 3000, pa.int32())], _N))
        env.session.publish([table])
        yield env


_N = Schema.of(("v", INT), ("k", INT))


def watched(env: TableEnvironment, stop: AtLook) -> AtLook:
    def on_job(job: Job) -> None:
        job.cancellation = stop

    env.session.on_job = on_job
    return stop


HEAVY = {
    # 9,000,000 pairs in pieces of 262,144, and each of them through an aggregate.
    "join": ("SELECT COUNT(*) FROM n a JOIN n b ON a.k = b.k", 35),
    "outer join": ("SELECT COUNT(b.v) FROM n a LEFT JOIN n b ON a.k = b.k AND a.v <> b.v", 35),
    "cross join": ("SELECT MAX(a.v + b.v) FROM n a CROSS JOIN n b", 35),
    "semi join": ("SELECT COUNT(*) FROM n a WHERE EXISTS (SELECT 1 FROM n b WHERE b.k = a.k AND b.v > a.v + 2998)", 30),
    "unnest": ("SELECT COUNT(*) FROM n CROSS JOIN UNNEST(ARRAY[1, 2, 3]) AS u (x)", 5),
    "over": (
        "SELECT COUNT(s) FROM (SELECT COLLECT(v) OVER (ORDER BY v ROWS BETWEEN 1000 PRECEDING AND CURRENT ROW) s FROM n)",
        10,
    ),
}


@pytest.mark.parametrize("name", HEAVY)
def test_work_looks_between_its_pieces(t_env: TableEnvironment, name: str) -> None:
    sql, least = HEAVY[name]
    counted = watched(t_env, AtLook())
    t_env.execute_sql(sql).to_arrow()
    assert counted.looks >= least


@pytest.mark.parametrize("name", ["join", "outer join", "over"])
@pytest.mark.parametrize("at", [3, 9, 17])
def test_a_query_ends_at_the_look_and_the_next_one_runs(t_env: TableEnvironment, name: str, at: int) -> None:
    stop = watched(t_env, AtLook(at))
    result = t_env.execute_sql(HEAVY[name][0])
    with pytest.raises(SqlEngineError, match="E1620"):
        result.to_arrow()
    assert stop.looks == at and result.job is not None and result.job.status == "CANCELED"
    watched(t_env, AtLook(at, interrupt))
    with pytest.raises(KeyboardInterrupt):
        t_env.execute_sql(HEAVY[name][0]).to_arrow()
    t_env.session.on_job = None
    assert t_env.execute_sql("SELECT COUNT(*) AS c FROM n").to_arrow().to_pydict() == {"c": [3000]}


@pytest.mark.parametrize("target", ["(v INT)", "(v INT, PRIMARY KEY (v) NOT ENFORCED)"])
@pytest.mark.parametrize("filled", [False, True])
def test_an_insert_into_memory_that_is_stopped_leaves_the_table_as_it_was(
    t_env: TableEnvironment, monkeypatch: pytest.MonkeyPatch, target: str, filled: bool
) -> None:
    monkeypatch.setattr(memory_table, "_PIECE_ROWS", 500)
    t_env.execute_script(f"CREATE TABLE kept {target}; CREATE MATERIALIZED VIEW c AS SELECT COUNT(*) AS c FROM kept")
    if filled:
        t_env.execute_sql("INSERT INTO kept SELECT v FROM n WHERE MOD(v, 2) = 0")
    before = t_env.execute_sql("SELECT * FROM kept").to_arrow()
    counted = t_env.execute_sql("SELECT c FROM c").to_arrow()
    ends = 0
    for then in (None, interrupt):
        for at in range(1, 400):
            stop = watched(t_env, AtLook(at, then))
            try:
                t_env.execute_sql("INSERT INTO kept SELECT v FROM n")
            except KeyboardInterrupt:
                assert then is not None
            except SqlEngineError as error:
                assert error.code == "E1633" and "nothing was written to kept" in error.message
                assert then is None and stop.looks == at
            else:
                break
            ends += 1
            t_env.session.on_job = None
            after = t_env.execute_sql("SELECT * FROM kept").to_arrow()
            assert sorted(after["v"].to_pylist()) == sorted(before["v"].to_pylist())
            assert t_env.execute_sql("SELECT c FROM c").to_arrow().equals(counted)
        else:
            raise AssertionError("the INSERT never got to its end")
        # It got to its end, for once: back to where it began.
        t_env.session.on_job = None
        t_env.execute_script("DROP MATERIALIZED VIEW c; DROP TABLE kept")
        t_env.execute_script(
            f"CREATE TABLE kept {target}; CREATE MATERIALIZED VIEW c AS SELECT COUNT(*) AS c FROM kept"
        )
        if filled:
            t_env.execute_sql("INSERT INTO kept SELECT v FROM n WHERE MOD(v, 2) = 0")
    assert ends >= 14


def test_changes_of_a_table_are_taken_back_whatever_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_table, "_PIECE_ROWS", 2)
    schema = Schema.of(("k", BIGINT.not_null()), ("v", BIGINT))

    def batch(rows: list[tuple[int, int, int]]) -> ChangelogBatch:
        kinds = [kind for _, _, kind in rows]
        columns = [pa.array([r[0] for r in rows]), pa.array([r[1] for r in rows])]
        return ChangelogBatch.of(columns, schema, kinds=pa.array(kinds, pa.int8()).to_numpy())

    for history in (False, True):
        table = MemoryTable("t", schema, ["k"], history=history)
        table.apply(batch([(1, 10, INSERT), (2, 20, INSERT), (3, 30, INSERT)]))
        table.publish()
        before = table.contents().to_pylist()
        changes = [
            (1, 11, UPDATE_AFTER),
            (4, 40, INSERT),
            (2, 20, DELETE),
            (1, 12, UPDATE_AFTER),
            (4, 41, UPDATE_AFTER),
        ]
        changes += [(4, 41, DELETE), (2, 21, INSERT), (5, 50, INSERT)]
        for at in (1, 2, 3, 4):
            with pytest.raises(Stopped), AtLook(at).governing():
                table.apply(batch(changes))
            assert sorted(table.contents().to_pylist(), key=str) == before
            assert not table.publish()
        table.apply(batch(changes))
        assert {r["k"]: r["v"] for r in table.contents().to_pylist()} == {1: 12, 2: 21, 3: 30, 5: 50}


def test_create_materialized_view_that_is_interrupted_makes_none(t_env: TableEnvironment) -> None:
    class Interrupted(Cancellation):
        def look(self) -> None:
            raise KeyboardInterrupt

    class StoppedAtOnce(Cancellation):
        def look(self) -> None:
            raise Stopped

    made = Job.__init__
    for cancellation, error in ((Interrupted, KeyboardInterrupt), (StoppedAtOnce, SqlEngineError)):
        with pytest.MonkeyPatch.context() as patch:

            def make(job: Job, *args: object, given: type[Cancellation] = cancellation, **more: object) -> None:
                made(job, *args, **more)  # type: ignore[arg-type]
                job.cancellation = given()

            patch.setattr(Job, "__init__", make)
            with pytest.raises(error):
                t_env.execute_sql("CREATE MATERIALIZED VIEW p AS SELECT COUNT(*) AS c FROM n a JOIN n b ON a.k = b.k")
    t_env.execute_sql("CREATE MATERIALIZED VIEW p AS SELECT COUNT(*) AS c FROM n")
    assert t_env.execute_sql("SELECT c FROM p").to_arrow()["c"].to_pylist() == [3000]


def test_a_job_with_checkpoints_that_gives_up_an_epoch_goes_on_exactly(t_env: TableEnvironment, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.csv").write_text(
            "".join(f"{v}\n" for v in range(number * 100, number * 100 + 100))
        )
    script = (
        f"CREATE TABLE i (v INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'csv');"
        f"CREATE TABLE o (v INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'csv')"
    )
    options = {
        "execution.checkpointing.dir": str(tmp_path / "state"),
        "execution.checkpointing.interval": "1 ms",
        "sqlengine.epoch.max-rows": "40",
        "sqlengine.batch.max-rows": "8",
    }
    insert = "INSERT INTO o SELECT i.v FROM i CROSS JOIN UNNEST(ARRAY[1, 2]) AS u (x)"

    def written() -> list[int]:
        files = [p for p in (tmp_path / "out").glob("*") if not p.name.startswith(".")]
        return sorted(int(line) for p in files for line in p.read_text().split())

    stops = 0
    for at in range(5, 400, 14):
        with TableEnvironment.create(options) as env:
            env.execute_script(script)
            watched(env, AtLook(at))
            try:
                env.execute_sql(insert)
                break
            except SqlEngineError as error:
                assert error.code == "E1633" and "checkpoint" in error.message
                stops += 1
        assert len(written()) % 80 in (0, 40), "half an epoch"
    with TableEnvironment.create(options) as env:
        env.execute_script(script)
        env.execute_sql(insert)
    assert stops >= 2
    assert written() == sorted([v for v in range(300) for _ in range(2)])


def test_half_an_epoch_is_never_published(tmp_path: Path) -> None:
    for at in range(1, 60, 3):
        out = tmp_path / str(at)
        with TableEnvironment.create({"sqlengine.batch.max-rows": "10"}) as env:
            env.execute_script(
                "CREATE TABLE i (v INT); INSERT INTO i VALUES (1), (2), (3);"
                f"CREATE TABLE o (v INT) WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv')"
            )
            watched(env, AtLook(at))
            try:
                env.execute_sql(
                    f"INSERT INTO o SELECT v FROM i CROSS JOIN UNNEST(ARRAY[{', '.join('1' * 20)}]) AS u (x)"
                )
            except SqlEngineError as error:
                assert error.code == "E1633"
            rows = sum(len(p.read_text().split()) for p in out.glob("*") if not p.name.startswith("."))
        assert rows in (0, 60)
        assert not [p for p in out.glob(".*") if p.is_file()], "hidden files are left"


def test_patience_lets_a_short_epoch_end() -> None:
    now = [0.0]
    stop = Cancellation(0.5, lambda: now[0])
    with stop.governing():
        stop.request()
        look()
        now[0] = 0.4
        look()
        now[0] = 0.5
        with pytest.raises(Stopped):
            look()
        with whole():
            look()
        with pytest.raises(Stopped):
            governed(look)()
    look()


def test_ctrl_c_waits_for_the_end_of_what_is_whole() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with whole():
            signal.raise_signal(signal.SIGINT)
            assert heard == []
        assert heard == [signal.SIGINT]
        signal.raise_signal(signal.SIGINT)
        assert len(heard) == 2
    finally:
        signal.signal(signal.SIGINT, before)


def test_many_rows_are_taken_in_parts(t_env: TableEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT a.v AS v, b.v AS w FROM n a JOIN n b ON a.v = b.v + 1 WHERE a.v < 50"
    expected = t_env.execute_sql(sql).to_arrow().sort_by("v")
    few = watched(t_env, AtLook())
    t_env.execute_sql(sql).to_arrow()
    monkeypatch.setattr(vertex, "PART_ROWS", 100)
    monkeypatch.setattr(slices, "FIRST_ROWS", 64)
    monkeypatch.setattr(slices, "GROWTH", 1.0)
    many = watched(t_env, AtLook())
    assert t_env.execute_sql(sql).to_arrow().sort_by("v").equals(expected)
    assert many.looks > few.looks + 60
    in_slices = watched(t_env, AtLook())
    texts = t_env.execute_sql("SELECT LEFT(CAST(v AS STRING), k) AS s FROM n").to_arrow()
    assert texts["s"].to_pylist() == [str(v)[:1] for v in range(3000)] and in_slices.looks >= 3000 // 64
    monkeypatch.setattr(slices, "LARGE_BYTES", 100)
    texts_of_n = "SELECT CONCAT('x', CAST(v AS STRING)) AS s, CAST(k AS STRING) AS k FROM n"
    sql = f"SELECT REGEXP_REPLACE(s, '1+', k) AS s, UPPER(s) = s AS u FROM ({texts_of_n})"
    regular = watched(t_env, AtLook())
    found = t_env.execute_sql(sql).to_arrow().to_pydict()
    assert found["s"][11] == "x1" and found["s"][2121] == "x2121" and not any(found["u"]) and regular.looks >= 90
