"""Signals that end a server, also while it has much to do."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

__all__ = ["on_signal"]


def on_signal(loop: asyncio.AbstractEventLoop, number: int, call: Callable[[], object]) -> None:
    """Have a loop on the main thread call something when a signal comes.

    asyncio hears of signals by a byte in a pipe that all threads write to that hand something over. When it is full, which a
    thousand clients do, the byte is lost and the signal with it; the handler of Python, which runs on the main thread whatever
    the pipe holds, is the second way. `call` may be called twice.
    """
    loop.add_signal_handler(number, call)
    signal.signal(number, lambda *_: loop.call_soon_threadsafe(call))
