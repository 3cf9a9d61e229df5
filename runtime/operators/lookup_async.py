"""A table that is asked for several keys at once."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pyarrow as pa

from runtime.core.errors import ConnectorError
from runtime.operators.lookup_answers import Found, found_in
from runtime.operators.operator import CacheFigures
from runtime.plan.parts import ASYNC_TIMEOUT
from runtime.spi.lookup import AsyncLookupTable

__all__ = ["ConcurrentlyAskedTable"]

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class ConcurrentlyAskedTable:
    """Asks for each key by itself, because the system outside answers keys one by one, and for at most `capacity` of them at
    once. What it gives does not depend on who answers first.

    Args:
        retries: how often a request that fails is tried again.
        timeout: seconds that a key may take, pauses and further tries included.
    """

    def __init__(self, table: AsyncLookupTable, retries: int, capacity: int, timeout: float) -> None:
        self._table = table
        self._retries = retries
        self._capacity = capacity
        self._timeout = timeout
        self._schema = table.schema

    @property
    def figures(self) -> CacheFigures | None:
        return None

    def answer(self, keys: pa.RecordBatch, rows: int, now: int) -> Found:
        outcome: list[list[pa.RecordBatch] | BaseException] = []

        def work() -> None:
            try:
                outcome.append(asyncio.run(self._all(keys)))
            except BaseException as error:
                outcome.append(error)

        # A thread of its own: the thread at hand may have a running loop.
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
        (found,) = outcome
        if isinstance(found, BaseExceptionGroup):
            raise found.exceptions[0]
        if isinstance(found, BaseException):
            raise found
        positions = np.repeat(np.arange(len(found)), [batch.num_rows for batch in found])
        columns = [pa.concat_arrays([batch.column(i) for batch in found]) for i in range(len(self._schema))]
        return found_in(self._schema, positions, columns)

    async def _all(self, keys: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The answers of all keys, in order; the first failure stops the others."""
        room = asyncio.Semaphore(self._capacity)

        async def one(position: int) -> pa.RecordBatch:
            async with room:
                return await self._in_time(keys.slice(position, 1))

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(position)) for position in range(keys.num_rows)]
        return [task.result() for task in tasks]

    async def _in_time(self, key: pa.RecordBatch) -> pa.RecordBatch:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._asked(key)
        except TimeoutError as error:
            raise ConnectorError(
                f"a lookup has taken longer than {self._timeout:g} s",
                code="E3109",
                hint=f"SET '{ASYNC_TIMEOUT.key}', or the option 'timeout' of the hint LOOKUP, gives it more time",
            ) from error

    async def _asked(self, key: pa.RecordBatch) -> pa.RecordBatch:
        names, seconds = key.schema.names, _FIRST_PAUSE
        for _ in range(self._retries):
            try:
                return (await self._table.lookup_async(names, key))[1]
            except ConnectorError:
                await asyncio.sleep(seconds)
                seconds = min(2 * seconds, _LONGEST_PAUSE)
        return (await self._table.lookup_async(names, key))[1]
