"""Start a pipeline with what it needs, change something outside each second, and show the answer: until Ctrl-C.

python -m tests.pipelines postgres_to_iceberg [CHANGES]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack, chdir
from pathlib import Path

import psycopg

from sqlengine import SqlEngineError, TableEnvironment
from tests.pipelines.places import PIPELINES, Pipeline, Servers, script_of
from tests.servers.process import free_port

_SHOWN = 8


def main() -> int:
    """Of the command line: the pipeline's name, and how many changes there are (without end)."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in PIPELINES:
        print(f"give one of {', '.join(PIPELINES)}")
        return 2
    most = int(sys.argv[2]) if len(sys.argv) > 2 else sys.maxsize
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pipeline-")))
        print("the servers are started ...", flush=True)
        pipeline = PIPELINES[name](Servers(stack, folder))
        os.environ |= pipeline.variables
        stack.enter_context(chdir(folder))
        port = free_port()
        script = str(script_of(name))
        words = ["run", script]
        if pipeline.serves:
            words = ["serve", "--init", script, "--postgres", f"127.0.0.1:{port}"]
        print(f"sqlengine {' '.join(words)}", flush=True)
        with subprocess.Popen([sys.executable, "-m", "sqlengine", *words]) as process:
            try:
                for number, _ in enumerate(pipeline.changes):
                    if number >= most:
                        break
                    try:
                        return process.wait(1)  # it has failed, and said why
                    except subprocess.TimeoutExpired:
                        _show(pipeline, port)
            except KeyboardInterrupt:
                pass
            finally:
                process.terminate()
    return 0


def _show(pipeline: Pipeline, port: int) -> None:
    try:
        if pipeline.serves:
            with psycopg.connect(f"host=127.0.0.1 port={port} user=sqlengine") as connection:
                rows = connection.execute(pipeline.shown.encode()).fetchall()
        else:
            with TableEnvironment.create() as t_env:
                t_env.execute_script(pipeline.declared)
                rows = [tuple(row.values()) for row in t_env.execute_sql(pipeline.shown).to_arrow().to_pylist()]
    except (SqlEngineError, psycopg.Error) as error:
        print(f"not yet: {str(error).splitlines()[0]}", flush=True)
        return
    print(f"\n{pipeline.shown}: {len(rows)} rows, the last ones", flush=True)
    for row in rows[-_SHOWN:]:
        print("  ", *row, flush=True)


if __name__ == "__main__":
    sys.exit(main())
