"""A process that has imported the engine and forks a child for each job: a start takes 20 ms instead of a second.

It reads a line of JSON from stdin for each, `[arguments of sqlengine, file for what it says]`, and writes two lines to
stdout: the child's process id, and, when it has ended, its exit status (negative: the signal that killed it); then it
reads another line, and forgets the child. That is a process like any other, and is killed like any other.
"""

from __future__ import annotations

import json
import os
import sys
import threading

from runtime.state import table
from sqlengine import TableEnvironment
from sqlengine.cli.main import main

__all__ = ["serve"]


def serve() -> None:
    """Until stdin ends."""
    with TableEnvironment.create() as t_env:
        t_env.explain_sql("SELECT COUNT(*) FROM (VALUES (1)) AS t (a)")
    # Checkpoints read also few rows only while they are written.
    table.MANY_ROWS = 1
    assert threading.active_count() == 1, "a child has only the thread that forks it"
    for line in sys.stdin:
        arguments, log = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(arguments, log)
        print(child, flush=True)
        # It keeps its number until it is waited for: whoever kills it, kills no other.
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        print(ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status, flush=True)
        sys.stdin.readline()
        os.waitpid(child, 0)


def _run(arguments: list[str], log: str) -> None:
    """In the child: never returns."""
    status = 1
    try:
        said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for stream in (1, 2):
            os.dup2(said, stream)
        status = main(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


if __name__ == "__main__":
    serve()
