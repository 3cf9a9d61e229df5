"""What waiting costs: the share of a core that idle views, jobs and subscribers take.

    python -m tests.benchmarks.idle [--seconds 10] [--scale 1.0]

Each line is one environment in a process of its own: processor time (user and system, of all threads) in so many
seconds of wall time in which nothing comes, as a share of one core, and how long a row then takes from where it comes
to where it is seen.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from sqlengine import TableEnvironment

FOLDER = "'connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv', 'source.monitor-interval' = '{interval}'"


def memory_views(env: TableEnvironment, count: int, folder: Path) -> None:
    env.execute_sql("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v INT)")
    for number in range(count):
        env.execute_sql(f"CREATE MATERIALIZED VIEW m{number} AS SELECT v, COUNT(*) AS n FROM t GROUP BY v")
    env.execute_sql("INSERT INTO t VALUES (1, 1)")


def folder_jobs(env: TableEnvironment, count: int, folder: Path, interval: str = "1 s") -> None:
    env.execute_sql("CREATE TABLE nowhere (v INT) WITH ('connector' = 'blackhole')")
    for number in range(count):
        options = FOLDER.format(path=_watched(folder / f"jobs{number}"), interval=interval)
        env.execute_sql(f"CREATE TABLE j{number} (v INT) WITH ({options})")
        env.execute_sql(f"INSERT INTO nowhere SELECT v FROM j{number}")


def folder_views(env: TableEnvironment, count: int, folder: Path, interval: str = "1 s") -> None:
    for number in range(count):
        options = FOLDER.format(path=_watched(folder / f"views{number}"), interval=interval)
        env.execute_sql(f"CREATE TABLE f{number} (v INT) WITH ({options})")
        env.execute_sql(f"CREATE MATERIALIZED VIEW w{number} AS SELECT v, COUNT(*) AS n FROM f{number} GROUP BY v")


def pushed_jobs(env: TableEnvironment, count: int, folder: Path) -> None:
    env.execute_sql("CREATE TABLE gone (v INT) WITH ('connector' = 'blackhole')")
    for number in range(count):
        env.create_input(f"i{number}", {"v": "INT"})
        env.execute_sql(f"INSERT INTO gone SELECT v FROM i{number}")


def _watched(path: Path) -> Path:
    path.mkdir(parents=True)
    for number in range(3):
        (path / f"{number}.csv").write_text("1\n")
    return path


SCENES: dict[str, tuple[tuple[Callable[[TableEnvironment, int, Path], None], int], ...]] = {
    "nothing": (),
    "1,000 views over tables": ((memory_views, 1000),),
    "100 jobs over folders": ((folder_jobs, 100),),
    "100 jobs over inputs of a program": ((pushed_jobs, 100),),
    "100 views over folders": ((folder_views, 100),),
    "1,000 views, 100 jobs over folders": ((memory_views, 1000), (folder_jobs, 100)),
    "1,000 views, 100 jobs and 100 views over folders": (
        (memory_views, 1000),
        (folder_jobs, 100),
        (folder_views, 100),
    ),
}


@contextmanager
def environment(scene: str, scale: float) -> Iterator[TableEnvironment]:
    with tempfile.TemporaryDirectory() as folder, TableEnvironment.create() as env:
        for make, count in SCENES[scene]:
            make(env, max(1, int(count * scale)), Path(folder))
        yield env


def pushed_milliseconds(env: TableEnvironment, count: int = 200) -> list[float]:
    """How long a row that is inserted takes to a subscriber who waits for it in another thread."""
    env.execute_sql("CREATE TABLE seen (v BIGINT)")
    subscription = env.execute_sql("SUBSCRIBE TO seen")
    found: list[float] = []

    def follow() -> None:
        for changes in islice(subscription.changes(), count):
            found.append((time.perf_counter_ns() - changes.column(0)[0].as_py()) / 1e6)

    follower = threading.Thread(target=follow)
    follower.start()
    for _ in range(count):
        time.sleep(0.01)
        env.execute_sql(f"INSERT INTO seen VALUES ({time.perf_counter_ns()})")
    follower.join()
    return sorted(found)


def measure(scene: str, seconds: float, scale: float) -> dict[str, float]:
    with environment(scene, scale) as env:
        # All that was there has been taken, and everybody has begun to wait.
        time.sleep(2)
        before, began = time.process_time(), time.perf_counter()
        time.sleep(seconds)
        share = (time.process_time() - before) / (time.perf_counter() - began)
        took = pushed_milliseconds(env)
    return {"share": share, "median": took[len(took) // 2], "p99": took[len(took) * 99 // 100]}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=10)
    arguments.add_argument("--scale", type=float, default=1.0, help="of the numbers of views and jobs")
    arguments.add_argument("--scene", choices=SCENES)
    given = arguments.parse_args()
    if given.scene:
        print(json.dumps(measure(given.scene, given.seconds, given.scale)))
        return
    print(f"{'idle':52} {'of a core':>10} {'a row, median':>14} {'p99':>10}")
    for scene in SCENES:
        command = [sys.executable, "-m", "tests.benchmarks.idle", "--scene", scene]
        command += ["--seconds", str(given.seconds), "--scale", str(given.scale)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
        found = json.loads(done.stdout.splitlines()[-1])
        print(f"{scene:52} {found['share']:10.2%} {found['median']:11.2f} ms {found['p99']:7.2f} ms", flush=True)


if __name__ == "__main__":
    main()
