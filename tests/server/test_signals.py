"""A signal reaches a server whatever else its loop is told."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import asyncio, os, signal, sys
from sqlengine.server.signals import on_signal

async def main():
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    on_signal(loop, signal.SIGTERM, ended.set)
    # As many things are handed over as the pipe holds, before the loop looks at it.
    try:
        while True:
            os.write(loop._csock.fileno(), b"\\0" * 4096)
    except BlockingIOError:
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    await ended.wait()
    print("ended")

asyncio.run(main())
"""


def test_a_signal_that_finds_the_pipe_full() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.stdout == "ended\n", done.stderr
