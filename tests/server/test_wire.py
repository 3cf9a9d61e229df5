"""What is sent gathers until the connection waits for its client."""

from __future__ import annotations

import asyncio
from typing import Any

from sqlengine.server.postgres.wire import Wire


class _Transport(asyncio.Transport):
    """Writes down what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


def test_answers_go_together() -> None:
    async def run() -> list[bytes]:
        transport = _Transport()

        async def serve(wire: Wire) -> None:
            assert await wire.read() is not None
            wire.send(b"1")
            wire.send(b"2")
            assert transport.written == []
            # It waits for the client.
            assert await wire.read() is not None
            wire.send(b"3")
            await wire.drain()
            wire.send(b"4")
            wire.send(bytes(20_000))
            wire.send(b"5")
            wire.close()
            wire.send(b"too late")

        wire = Wire(serve)
        wire.connection_made(transport)
        await asyncio.sleep(0)
        for _ in range(2):
            wire.data_received(b"S\0\0\0\4")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return transport.written

    written = asyncio.run(run())
    assert written == [b"12", b"3", b"4", bytes(20_000), b"5"]


def test_what_a_slow_statement_has_sent_does_not_wait_for_its_end() -> None:
    async def run() -> list[bytes]:
        transport = _Transport()

        async def serve(wire: Wire) -> None:
            wire.send(b"1")
            await asyncio.Event().wait()

        wire = Wire(serve)
        wire.connection_made(transport)
        while not transport.written:
            await asyncio.sleep(0)
        return transport.written

    assert asyncio.run(run()) == [b"1"]
