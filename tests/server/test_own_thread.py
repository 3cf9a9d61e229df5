"""The thread of one connection."""

from __future__ import annotations

import asyncio
import threading

import pytest

from sqlengine.server.postgres.own_thread import OwnThread


def test_work_is_done_in_its_order_by_one_thread_beside_the_loop() -> None:
    async def run() -> list[int]:
        own, order = OwnThread("own"), list[int]()
        numbers = [own.do(lambda i=i: order.append(i) or threading.get_ident()) for i in range(20)]  # type: ignore[misc]
        threads = set(await asyncio.gather(*numbers))
        own.end()
        assert len(threads) == 1 and threading.get_ident() not in threads
        return order

    assert asyncio.run(run()) == list(range(20))


def test_what_work_raises_is_raised_where_it_is_awaited() -> None:
    async def run() -> int:
        own = OwnThread("own")
        with pytest.raises(ZeroDivisionError):
            await own.do(lambda: 1 // 0)
        found = await own.do(lambda: 7)
        own.end()
        return found

    assert asyncio.run(run()) == 7


def test_work_that_nobody_awaits_any_more_is_left_out() -> None:
    async def run() -> list[str]:
        own, done, may_go_on = OwnThread("own"), list[str](), threading.Event()
        first = own.do(may_go_on.wait)
        given_up = own.do(lambda: done.append("given up"))
        given_up.cancel()
        may_go_on.set()
        await first
        await own.do(lambda: done.append("last"))
        own.end()
        return done

    assert asyncio.run(run()) == ["last"]
