"""Servers that send what a test says to whoever is connected: a socket, and a WebSocket."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

__all__ = ["SocketServer", "SocketWebServer", "socket_server", "websocket_server"]


@dataclass
class SocketServer:
    """`sends`: one for each connection, the next one; then connections stay open."""

    port: int
    sends: list[bytes]
    connections: int = 0


@contextmanager
def socket_server(*sends: bytes) -> Iterator[SocketServer]:
    """A server that sends each connection its bytes and ends it; the last one stays open."""
    listener = socket.create_server(("127.0.0.1", 0))
    there = SocketServer(listener.getsockname()[1], list(sends))
    stays: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            there.connections += 1
            if there.sends:
                connection.sendall(there.sends.pop(0))
            if there.sends:
                connection.close()
            else:
                stays.append(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield there
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for connection in stays:
            connection.close()


@dataclass
class SocketWebServer:
    """`told`: what clients have sent first; `headers`: of their requests."""

    url: str = ""
    told: list[str] = field(default_factory=list[str])
    headers: list[Any] = field(default_factory=list[Any])


Serve = Callable[[Any, int], Any]


@contextmanager
def websocket_server(serve: Serve, hello: bool = False) -> Iterator[SocketWebServer]:
    """A server whose `serve` is awaited with each WebSocket, and the number of the connection; when it returns, that ends. A
    response that it returns is answered instead, where it is a plain function. `hello`: a text is awaited at first."""
    there = SocketWebServer()
    loop = asyncio.new_event_loop()
    number = iter(range(1_000_000))
    runner: list[Any] = []

    async def answer(request: Any) -> Any:
        there.headers.append(request.headers)
        if not asyncio.iscoroutinefunction(serve):
            return serve(request, next(number))
        connection = web.WebSocketResponse(timeout=0.2)
        await connection.prepare(request)
        if hello:
            there.told.append(await connection.receive_str())
        await serve(connection, next(number))
        await connection.close()
        return connection

    async def start() -> None:
        made = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
        runner.append(made)
        await made.setup()
        site = web.TCPSite(made, "127.0.0.1", 0)
        await site.start()
        there.url = f"ws://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/stream"

    loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield there
    finally:
        asyncio.run_coroutine_threadsafe(_over(runner[0]), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _over(runner: Any) -> None:
    """Nothing of the server goes on."""
    await runner.cleanup()
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
