"""Results and inputs in asyncio and on threads: left, cancelled, closed and forgotten at every moment."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from sqlengine import SqlEngineError, TableEnvironment
from sqlengine.results.async_items import AsyncItems
from sqlengine.results.following import Turns
from sqlengine.results.result import Result


@pytest.fixture
def env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        made.create_input("numbers", {"n": "INT"}, capacity=4)
        yield made
    assert not [t for t in threading.enumerate() if t.name == "async result"], "a thread is left"


def started(env: TableEnvironment) -> Result:
    return env.execute_sql("SELECT n FROM numbers")


def ended(result: Result) -> bool:
    return result.job is not None and result.job.status == "CANCELED" and not result.is_running


class Faults:
    """What asyncio tells its handler: tasks whose exception nobody took, generators that could not be closed."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def run(self, main: Any) -> Any:
        async def watched() -> Any:
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: self.seen.append(context))
            found = await main
            gc.collect()
            await asyncio.sleep(0)
            return found

        found = asyncio.run(watched())
        gc.collect()
        assert self.seen == []
        return found


def test_anyio_cancels_again_and_again_until_the_scope_is_left(env: TableEnvironment) -> None:
    results = [started(env) for _ in range(3)]

    async def reader(result: Result, begun: anyio.Event) -> None:
        begun.set()
        async for _ in result:
            pass

    async def main() -> None:
        for result in results[:2]:
            begun = anyio.Event()
            async with anyio.create_task_group() as group:
                group.start_soon(reader, result, begun)
                await begun.wait()
                await anyio.sleep(0)
                group.cancel_scope.cancel()
        with anyio.move_on_after(0) as scope:
            await reader(results[2], anyio.Event())
        assert scope.cancelled_caught

    Faults().run(main())
    assert ended(results[0]) and ended(results[1])


@pytest.mark.parametrize("loops", range(6))
def test_a_task_is_cancelled_at_any_moment(env: TableEnvironment, loops: int) -> None:
    result = started(env)

    async def read() -> None:
        async for _ in result.rows_async():
            await asyncio.sleep(0)

    async def main() -> None:
        task = asyncio.create_task(read())
        for _ in range(loops):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                async for _ in started(env):
                    pass

    Faults().run(main())
    result.cancel()
    assert env.execute_sql("SELECT 1 AS a").to_arrow().to_pydict() == {"a": [1]}


def test_a_generator_is_left_closed_and_forgotten(env: TableEnvironment) -> None:
    numbers = env.create_input("more", {"n": "INT"})
    results = [env.execute_sql("SELECT n FROM more") for _ in range(4)]
    numbers.push([(1,), (2,)])

    async def main() -> None:
        async for _ in results[0]:
            break
        rows = results[1].rows_async()
        assert await anext(rows) == [(1,), (2,)]
        await rows.aclose()
        await rows.aclose()
        with pytest.raises(ZeroDivisionError):
            async for _ in results[2]:
                raise ZeroDivisionError
        forgotten = aiter(results[3])
        await anext(forgotten)
        del forgotten
        gc.collect()
        await asyncio.sleep(0)

    Faults().run(main())
    assert all(map(ended, results))


def test_a_loop_that_is_closed_in_the_middle_holds_no_thread(env: TableEnvironment) -> None:
    result = started(env)
    loop = asyncio.new_event_loop()
    rows = result.rows_async()
    task = loop.create_task(anext(rows))  # type: ignore[arg-type]
    loop.run_until_complete(asyncio.sleep(0))
    task.cancel()
    loop.close()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    del task, rows
    gc.collect()
    for thread in [t for t in threading.enumerate() if t.name == "async result"]:
        thread.join(30)
    assert ended(result)


def test_more_queries_are_read_than_a_pool_has_threads(env: TableEnvironment) -> None:
    numbers = env.create_input("many", {"n": "INT"})
    results = [env.execute_sql("SELECT n FROM many") for _ in range(40)]

    async def first(result: Result) -> object:
        async for row in result:
            return row.n
        return None

    async def main() -> list[object]:
        reading = [asyncio.create_task(first(result)) for result in results]
        await asyncio.sleep(0)
        await numbers.push_async([(7,)])
        return await asyncio.gather(*reading)

    assert Faults().run(main()) == [7] * 40


def test_two_who_read_one_result_are_told(env: TableEnvironment) -> None:
    numbers = env.create_input("shared", {"n": "INT"})
    result = env.execute_sql("SELECT n FROM shared")
    numbers.push([(1,)])

    async def main() -> None:
        rows = result.rows_async()
        assert await anext(rows) == [(1,)]
        with pytest.raises(SqlEngineError, match="E1612.*being read"):
            async for _ in result:
                pass
        numbers.push([(2,)])
        assert await anext(rows) == [(2,)]
        await rows.aclose()

    Faults().run(main())


def test_a_failed_query_raises_where_it_is_awaited(env: TableEnvironment) -> None:
    texts = env.create_input("texts", {"s": "STRING"})
    result = env.execute_sql("SELECT CAST(s AS INT) AS n FROM texts")

    async def main() -> None:
        await texts.push_async([("x",)])
        with pytest.raises(SqlEngineError, match="E2101"):
            async for _ in result:
                pass
        with pytest.raises(SqlEngineError, match="E2101"):
            await texts.push_async([("1",)])

    Faults().run(main())


def test_a_push_that_is_cancelled_while_it_waits_pushes_nothing(env: TableEnvironment) -> None:
    numbers = env.create_input("small", {"n": "INT"}, capacity=1)
    result = env.execute_sql("SELECT n FROM small")
    numbers.push([(1,)])

    async def main() -> None:
        waiting = asyncio.create_task(numbers.push_async([(2,)]))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    Faults().run(main())
    rows = result.collect()
    assert next(rows).n == 1
    numbers.push([(3,)])
    numbers.close()
    assert [row.n for row in rows] == [3]


def test_rows_are_closed_from_another_thread_while_they_are_read(env: TableEnvironment) -> None:
    result = started(env)
    rows = result.collect()
    seen: list[object] = []
    reader = threading.Thread(target=lambda: seen.extend(rows))
    reader.start()
    rows.close()
    rows.close()
    reader.join(30)
    assert not reader.is_alive() and seen == [] and not result.is_running
    with pytest.raises(StopIteration):
        rows.next()


def test_an_iterator_closes_itself_from_within() -> None:
    log: list[str] = []

    def made() -> Iterator[int]:
        try:
            yield 1
            turns.close()
            yield 2
            yield 3
        finally:
            log.append("closed")

    turns = Turns(made(), lambda: log.append("stop"))
    assert turns.next(None) == 1
    assert turns.next(None) == 2
    assert turns.next(None) is None
    assert log == ["stop", "closed"]


def test_an_iterator_that_fails_on_close_tells_whoever_leaves() -> None:
    def made() -> Iterator[int]:
        try:
            yield 1
        finally:
            raise ValueError("no")

    async def main() -> None:
        items = AsyncItems(made(), lambda: None)
        assert await anext(items) == 1
        with pytest.raises(ValueError, match="no"):
            await items.aclose()

    Faults().run(main())


# --- pushes
# ---------------------------------------------------------------------------------------------------------------------


def test_a_push_is_read_or_raises(env: TableEnvironment) -> None:
    numbers = env.create_input("pushed", {"n": "INT"})
    first = env.execute_sql("SELECT n FROM pushed").collect()
    numbers.push([(1,)])
    assert next(first).n == 1
    first.close()
    # Nobody reads: it waits for the next one.
    numbers.push([(2,)])
    second = env.execute_sql("SELECT n FROM pushed").collect()
    assert next(second).n == 2
    numbers.close()
    assert list(second) == []
    for push in (lambda: numbers.push([(3,)]), lambda: numbers.push([]), lambda: numbers.push_row(3)):
        with pytest.raises(SqlEngineError, match="E3120"):
            push()
    with pytest.raises(SqlEngineError, match="E3120"):
        asyncio.run(numbers.push_async([(3,)]))


def test_a_push_after_the_failure_of_its_query_raises_that(env: TableEnvironment) -> None:
    texts = env.create_input("strings", {"s": "STRING"})
    env.execute_sql("CREATE TABLE sink (n INT) WITH ('connector' = 'blackhole')")
    job = env.execute_sql("INSERT INTO sink SELECT CAST(s AS INT) FROM strings")
    texts.push_row("x")
    with pytest.raises(SqlEngineError, match="E2101") as failed:
        job.wait(30)
    with pytest.raises(SqlEngineError) as again:
        texts.push_row("1")
    assert again.value.code == failed.value.code
    rows = env.execute_sql("SELECT s FROM strings").collect()
    texts.push_row("2")
    assert next(rows).s == "2"


def test_a_push_into_an_environment_that_is_closed_raises() -> None:
    env = TableEnvironment.create()
    numbers = env.create_input("numbers", {"n": "INT"}, capacity=1)
    env.execute_sql("CREATE MATERIALIZED VIEW s AS SELECT SUM(n) AS s FROM numbers")
    numbers.push_row(1)
    env.close()
    with pytest.raises(SqlEngineError, match="E3120.*environment was closed"):
        numbers.push_row(2)


def test_pushes_beside_a_close_are_all_read_or_raise(env: TableEnvironment) -> None:
    numbers = env.create_input("racing", {"n": "INT"}, capacity=1_000_000)
    result = env.execute_sql("SELECT n FROM racing")
    taken: list[int] = []

    def push(begin: int) -> None:
        for n in range(begin, begin + 200):
            try:
                numbers.push_row(n)
            except SqlEngineError as error:
                assert error.code == "E3120"
                return
            taken.append(n)

    threads = [threading.Thread(target=push, args=(n * 1000,)) for n in range(3)]
    for thread in threads:
        thread.start()
    rows = result.collect()
    read = [next(rows).n for _ in range(50)]
    numbers.close()
    for thread in threads:
        thread.join()
    read += [row.n for row in rows]
    assert sorted(read) == sorted(taken)
