"""Streams that a program pushes, and results that other threads and asyncio take."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from runtime.core.errors import SqlEngineError, render
from sqlengine import Row, TableEnvironment, TableSchema, Tumble, col, lit

COLUMNS = {"name": "STRING", "n": "INT"}
NOON = dt.datetime(2024, 1, 1, 12)


@pytest.fixture
def env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        yield made


def contents(env: TableEnvironment, sql: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in env.execute_sql(sql))


def test_a_query_sees_what_was_pushed_before_and_after_it_began(env: TableEnvironment) -> None:
    numbers = env.create_input("numbers", COLUMNS)
    numbers.push([("a", 1), ("b", 2)])
    result = env.from_path("numbers").group_by("name").select("name", col("n").sum.alias("s")).execute()
    numbers.push_row("a", 3)
    numbers.push([{"n": 5, "name": "b"}])
    numbers.close()
    folded: Counter[tuple[object, ...]] = Counter()
    for row in result:
        folded[tuple(row)] += 1 if row.kind in ("+I", "+U") else -1
    assert +folded == Counter([("a", 4), ("b", 7)])


def test_a_push_is_one_epoch_and_a_query_that_names_an_input_twice_sees_it_twice(env: TableEnvironment) -> None:
    numbers = env.create_input("numbers", COLUMNS)
    result = env.execute_sql("SELECT SUM(a.n - b.n) FROM numbers a JOIN numbers b ON a.name = b.name")
    changes = result.rows()
    for n in range(5):
        numbers.push([("x", n), ("y", -n)])
    numbers.close()
    # Every difference stands beside its opposite: a sum that is not 0 would be half an epoch.
    assert {row[0] for rows in changes for row in rows} == {0}


def test_a_view_follows_and_flush_waits_for_it(env: TableEnvironment) -> None:
    numbers = env.create_input("numbers", COLUMNS, changelog_mode="retract")
    env.execute_sql("CREATE MATERIALIZED VIEW sums AS SELECT name, SUM(n) AS s FROM numbers GROUP BY name")
    numbers.push([("a", 1), ("b", 2), ("a", 3)])
    env.flush()
    assert contents(env, "SELECT * FROM sums") == [("a", 4), ("b", 2)]
    numbers.update([("a", 3)], [("a", 10)])
    numbers.delete([("b", 2)])
    env.flush()
    assert contents(env, "SELECT * FROM sums") == [("a", 11)]


def test_upserts_go_by_key(env: TableEnvironment) -> None:
    users = env.create_input("users", TableSchema().column("id", "INT").column("name", "STRING").primary_key("id"))
    env.execute_sql("CREATE MATERIALIZED VIEW named AS SELECT * FROM users")
    users.upsert([(1, "x"), (2, "y")])
    users.push([(1, "z"), (2, None)], ["+U", "-D"])
    env.flush()
    assert contents(env, "SELECT * FROM named") == [(1, "z")]


def test_the_watermark_is_told(env: TableEnvironment) -> None:
    clicks = env.create_input("clicks", {"n": "INT", "at": "TIMESTAMP(3)"}, rowtime="at")
    by_minute = (
        env.from_path("clicks")
        .window(Tumble.over(lit(1).minute).on("at").alias("w"))
        .group_by("w")
        .select(col("w").start, col("n").sum.alias("s"))
    )
    env.create_temporary_view("minutes", by_minute)
    env.execute_sql("CREATE MATERIALIZED VIEW sums AS SELECT * FROM minutes")
    clicks.push([(1, NOON), (2, NOON + dt.timedelta(seconds=90))])
    env.flush()
    assert contents(env, "SELECT * FROM sums") == []
    clicks.advance_watermark(NOON + dt.timedelta(minutes=1))
    env.flush()
    assert contents(env, "SELECT * FROM sums") == [(NOON, 1)]
    clicks.push_row(100, NOON)
    clicks.close()
    env.flush()
    assert contents(env, "SELECT * FROM sums") == [(NOON, 1), (NOON + dt.timedelta(minutes=1), 2)]
    assert contents(env, "SELECT COUNT(*) FROM system.rejected")[-1] == (1,)


def test_an_input_that_rests_holds_nobody_back(env: TableEnvironment) -> None:
    schema = {"k": "INT", "at": "TIMESTAMP(3)"}
    left, right = (env.create_input(name, schema, rowtime="at") for name in ("l", "r"))
    left.push_row(1, NOON)
    left.advance_watermark(NOON + dt.timedelta(hours=1))
    right.mark_idle()
    joined = env.execute_sql("SELECT l.k FROM l LEFT JOIN r ON l.k = r.k AND r.at BETWEEN l.at AND l.at").rows()
    assert next(joined) == [(1,)]


def test_arrow_and_data_frames_are_pushed_by_name(env: TableEnvironment) -> None:
    numbers = env.create_input("numbers", COLUMNS, keep=True)
    numbers.push(pa.table({"n": [1], "name": ["arrow"]}))
    numbers.push(pd.DataFrame({"name": ["pandas"], "n": [2]}))
    numbers.push(pl.DataFrame({"name": ["polars"], "n": [3]}))
    numbers.push(pa.RecordBatch.from_pydict({"x": ["in order"], "y": np.array([4])}))
    numbers.push([])
    numbers.close()
    rows = [("arrow", 1), ("in order", 4), ("pandas", 2), ("polars", 3)]
    assert contents(env, "SELECT * FROM numbers") == rows
    # Closed and kept: it is a table that ends, for any number of queries.
    assert sorted(env.from_path("numbers").to_arrow().to_pydict()["n"]) == [1, 2, 3, 4]


def test_pushes_of_many_threads_all_come(env: TableEnvironment) -> None:
    numbers = env.create_input("numbers", {"thread": "INT", "n": "INT"}, capacity=50)
    result = env.execute_sql("SELECT thread, n FROM numbers")
    seen: dict[int, list[int]] = {i: [] for i in range(4)}

    def write(thread: int) -> None:
        for start in range(0, 100, 10):
            numbers.push([(thread, n) for n in range(start, start + 10)])

    writers = [threading.Thread(target=write, args=(i,)) for i in seen]
    listener = result.listen(lambda rows: [seen[row.thread].append(row.n) for row in rows])
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    numbers.close()
    listener.join(30)
    assert seen == {i: list(range(100)) for i in range(4)}


def test_a_push_waits_while_there_is_no_room(env: TableEnvironment) -> None:
    numbers = env.create_input("numbers", {"n": "INT"}, capacity=3)
    numbers.push([(1,), (2,), (3,), (4,)])
    with pytest.raises(SqlEngineError, match="E3121.*no query reads them"):
        numbers.push_row(5)
    result = env.execute_sql("SELECT n FROM numbers").rows()
    with pytest.raises(SqlEngineError, match="E3121.*has read them for 0 s"):
        numbers.push_row(5, timeout=0)
    waiting = threading.Thread(target=numbers.push_row, args=(5,))
    waiting.start()
    rows = next(result)
    waiting.join(30)
    # The fifth row may come in the epoch that made room for it, or in one of its own.
    rows = rows if len(rows) == 5 else [*rows, *next(result)]
    assert rows == [(1,), (2,), (3,), (4,), (5,)]


def test_a_query_that_nobody_has_any_more_holds_up_no_push(env: TableEnvironment) -> None:
    numbers = env.create_input("numbers", {"n": "INT"}, capacity=1)
    cancelled, abandoned = (env.execute_sql("SELECT n FROM numbers") for _ in range(2))
    cancelled.cancel()
    del abandoned
    kept = env.execute_sql("SELECT n FROM numbers").rows()
    for n in range(3):
        numbers.push_row(n, timeout=0)
        assert next(kept) == [(n,)]


def test_asyncio_pushes_and_reads(env: TableEnvironment) -> None:
    numbers = env.create_input("numbers", {"n": "INT"}, capacity=2)
    doubled = env.from_path("numbers").select(col("n") * 2).execute()

    async def write() -> None:
        for n in range(8):
            await numbers.push_async([(n,)])
        numbers.close()

    async def read() -> list[Row]:
        return [row async for row in doubled]

    async def both() -> list[Row]:
        reading = asyncio.create_task(read())
        await write()
        return await reading

    assert asyncio.run(both()) == [(2 * n,) for n in range(8)]


def test_leaving_an_async_loop_or_cancelling_its_task_stops_the_query(env: TableEnvironment) -> None:
    numbers = env.create_input("numbers", {"n": "INT"})
    first, second = (env.execute_sql("SELECT n FROM numbers") for _ in range(2))
    numbers.push([(1,), (2,)])

    async def leave() -> None:
        async for rows in first.rows_async():
            assert rows == [(1,), (2,)]
            break

    async def wait_for_ever(started: asyncio.Event) -> None:
        async for _ in second.rows_async():
            started.set()

    async def cancel() -> None:
        started = asyncio.Event()
        task = asyncio.create_task(wait_for_ever(started))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    asyncio.run(cancel())
    assert first.job is not None and second.job is not None
    assert {first.job.status, second.job.status} == {"CANCELED"}


def test_a_listener_tells_what_failed(env: TableEnvironment) -> None:
    numbers = env.create_input("numbers", {"s": "STRING"})
    failing = env.execute_sql("SELECT CAST(s AS INT) FROM numbers").listen(print)
    numbers.push_row("x")
    with pytest.raises(SqlEngineError, match="E2101"):
        failing.join(30)
    broken = env.execute_sql("SELECT s FROM numbers").listen(lambda rows: 1 / 0)
    numbers.push_row("y")
    with pytest.raises(ZeroDivisionError):
        broken.join(30)
    quiet = env.execute_sql("SELECT s FROM numbers").listen(print)
    quiet.stop()
    assert not quiet.is_running


MISTAKES: dict[str, tuple[Callable[[TableEnvironment], object], str]] = {
    "kind": (
        lambda e: e.create_input("i", COLUMNS).delete([("a", 1)]),
        """E1625 default_catalog.default_database.i takes no -D rows
  hint: create it with changelog_mode='retract', or 'upsert' and a primary key""",
    ),
    "no kind": (
        lambda e: e.create_input("i", COLUMNS).push([("a", 1)], "I"),
        """E1327 'I' is no row kind
  hint: the row kinds are '+I', '-U', '+U' and '-D'""",
    ),
    "one row": (
        lambda e: e.create_input("i", COLUMNS).push(("a", 1)),
        """E1325 default_catalog.default_database.i takes a list of rows, and this is one row
  hint: push([row]), or push_row(value, ...)""",
    ),
    "one row by name": (
        lambda e: e.create_input("i", COLUMNS).push({"name": "a", "n": 1}),
        """E1325 default_catalog.default_database.i takes a list of rows, and this is one row
  hint: push([row]), or push_row(value, ...)""",
    ),
    "null": (
        lambda e: e.create_input("i", {"n": "INT NOT NULL"}).push([(None,)]),
        """E1326 the column "n" of default_catalog.default_database.i is NOT NULL, and a row has NULL there
  hint: leave the row out, or declare the column without NOT NULL""",
    ),
    "key": (
        lambda e: e.create_input("i", {"n": "INT NOT NULL"}, changelog_mode="upsert"),
        """E1511 an input of mode 'upsert' needs a primary key
  hint: TableSchema().column("id", "BIGINT").primary_key("id")""",
    ),
    "rowtime": (
        lambda e: e.create_input("i", {"at": "TIMESTAMP(3)"}, rowtime="ts"),
        """E1201 rowtime names "ts", which is no column that is pushed
  hint: there is: "at\"""",
    ),
    "watermark": (
        lambda e: e.create_input("i", COLUMNS).advance_watermark(0),
        """E1625 nobody can tell default_catalog.default_database.i its watermark
  hint: name the event-time column: create_input(name, schema, rowtime="ts")""",
    ),
    "type": (
        lambda e: e.create_input("i", ["a"]),
        """E1324 the column "a" has no type
  hint: give one: {"a": "STRING"}""",
    ),
    "sql": (
        lambda e: e.execute_script("CREATE TABLE p (a INT) WITH ('connector' = 'python-input'); SELECT * FROM p"),
        """E1510 default_catalog.default_database.p has no program that pushes into it
  at 1:75
  1 | CREATE TABLE p (a INT) WITH ('connector' = 'python-input'); SELECT * FROM p
                                                                                ^
  hint: make it in Python: t_env.create_input("name", schema)""",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(env: TableEnvironment, name: str) -> None:
    mistake, expected = MISTAKES[name]
    with pytest.raises(SqlEngineError) as caught:
        mistake(env)
    assert render(caught.value) == expected


def test_a_closed_input_takes_nothing(env: TableEnvironment) -> None:
    with env.create_input("numbers", COLUMNS) as numbers:
        numbers.push_row("a", 1)
    with pytest.raises(SqlEngineError, match="E3120"):
        numbers.push_row("b", 2)
    numbers.close()
