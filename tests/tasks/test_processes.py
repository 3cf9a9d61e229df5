"""Jobs in processes of this machine: the same answers, whatever becomes of the processes, and nothing is left behind."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest

from runtime.core.cancellation import Cancellation, Stopped
from runtime.core.errors import ExpressionError, OptionError, ProcessError, SqlEngineError
from runtime.local.job import Job
from runtime.tasks import divided, shelf
from runtime.tasks import processes as processes_module
from runtime.tasks.by_value import dumps
from runtime.tasks.processes import ProcessExecutor
from sqlengine import TableEnvironment
from sqlengine.options.target import target_options
from sqlengine.testing.runner import process_cuts_for
from tests.golden.elsewhere import wrong_lines

ROOT = Path(__file__).parents[2]
FILES = (
    "aggregate/grouping_sets.slt",
    "join/outer.slt",
    "rank/top_n.slt",
    "set/intersect.slt",
    "join/temporal.slt",
    "window/session.slt",
)
"""Files that together have the operators which are built most differently. `PROCESS_MATRIX=1` runs all files."""
EVENTS = """
CREATE TABLE n (i BIGINT, text STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '{rows}', 'fields.i.kind' = 'sequence',
  'fields.i.start' = '0', 'fields.i.end' = '{last}', 'fields.text.length' = '20', 'seed' = '5')"""
QUERY = """SELECT k, COUNT(*) AS n, SUM(i) AS s, MAX(length) AS m FROM
  (SELECT MOD(i, 97) AS k, i, CHAR_LENGTH(text) AS length FROM n WHERE i > 3) GROUP BY k"""


def answer(rows: int) -> list[tuple[int, int, int, int]]:
    found: dict[int, list[int]] = {}
    for i in range(4, rows):
        found.setdefault(i % 97, []).append(i)
    return sorted((k, len(v), sum(v), 20) for k, v in found.items())


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessExecutor]:
    executor = ProcessExecutor()
    yield executor
    executor.close()


def environment(processes: ProcessExecutor, rows: int = 2000, **options: str) -> TableEnvironment:
    t_env = TableEnvironment.create({"execution.target": "processes", "parallelism.default": "2", **options})
    t_env.session.target.processes = processes
    t_env.execute_sql(EVENTS.format(rows=rows, last=rows - 1))
    return t_env


def result(t_env: TableEnvironment) -> list[tuple[int, ...]]:
    return sorted(tuple(row.values()) for row in t_env.execute_sql(QUERY).to_arrow().to_pylist())


def gone(pids: list[int], seconds: float = 60) -> bool:
    """Whether processes have ended, or do so before long: one that has closed its files may still be at its end."""
    for pid in pids:
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if not select.select([process], [], [], seconds)[0]:
                return False
        finally:
            os.close(process)
    return True


@pytest.mark.long
def test_golden_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert not wrong_lines(FILES, process_cuts_for, everything=bool(os.environ.get("PROCESS_MATRIX")))


@pytest.mark.parametrize("least", [1, 1 << 20], ids=["all rows in shared memory", "all rows in messages"])
@pytest.mark.parametrize("prefix", [10, 100_000], ids=["sliced in tasks", "divided by the driver"])
def test_rows_come_as_they_were_sent(
    processes: ProcessExecutor, least: int, prefix: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "LEAST_BYTES", least)
    monkeypatch.setattr(divided, "PREFIX_ROWS", prefix)
    with environment(processes, 40_000, **{"sqlengine.epoch.max-rows": "20000"}) as t_env:
        assert result(t_env) == answer(40_000)


@pytest.mark.parametrize("partition", [0, 1])
def test_a_process_that_is_killed_is_replaced_and_the_answer_is_the_same(
    processes: ProcessExecutor, partition: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once between epochs, and once in the middle of one: it stands still when it is asked, so that it cannot answer."""
    killed: list[int] = []
    still: list[int] = []

    def kill(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

    def waiting(connections: list[Any], seconds: float) -> list[Any]:
        if still:
            kill(still.pop())
        return wait(connections, seconds)

    def watch(job: Job) -> None:
        def tick(job: Job) -> None:
            if job.dataflow.epoch == 3:
                kill(processes.pids[partition])
            if job.dataflow.epoch == 6:
                still.append(processes.pids[partition])
                os.kill(still[0], signal.SIGSTOP)

        job.on_epoch = tick

    monkeypatch.setattr(processes_module, "wait", waiting)
    with environment(processes, **{"sqlengine.epoch.max-rows": "200"}) as t_env:
        t_env.session.on_job = watch
        assert result(t_env) == answer(2000)
    assert len(set(killed)) == 2 and gone(killed)
    text = caplog.text
    assert text.count("has ended (killed by signal 9) and is started again") == 2
    assert "was lost and opens its state from files" in text


def test_a_process_that_always_ends_fails_the_job(processes: ProcessExecutor) -> None:
    with environment(processes) as t_env:
        t_env.create_temporary_system_function("ends", _ends)
        with pytest.raises(ProcessError, match="has ended 4 times in one stage: exit status 7") as told:
            t_env.execute_sql("SELECT MOD(i, 7), ends(MAX(i)) FROM n GROUP BY MOD(i, 7)").to_arrow()
        assert told.value.code == "E3900"
        assert result(t_env) == answer(2000)


def _ends(value: int) -> int:
    os._exit(7)


def test_an_error_in_a_task_is_that_of_the_query(processes: ProcessExecutor) -> None:
    with environment(processes) as t_env:
        pids = processes.pids
        query = "SELECT MOD(i, 7), MAX(CAST(text AS INT)) FROM n GROUP BY MOD(i, 7)"
        with pytest.raises(ExpressionError) as told:
            t_env.execute_sql(query).to_arrow()
        t_env.get_config().set("execution.target", "local")
        with pytest.raises(ExpressionError) as here:
            t_env.execute_sql(query).to_arrow()
        assert told.value.code == here.value.code == "E2101" and told.value.span == here.value.span
        assert not pids or processes.pids == pids


def test_functions_of_the_program_run_in_processes(processes: ProcessExecutor) -> None:
    factor = 3

    def times(value: int) -> int:
        return value * factor

    with environment(processes) as t_env:
        t_env.create_temporary_system_function("times", times)
        rows = t_env.execute_sql("SELECT MOD(i, 2), times(MAX(i)) FROM n GROUP BY MOD(i, 2)").to_arrow()
        assert sorted(tuple(row.values()) for row in rows.to_pylist()) == [(0, 3 * 1998), (1, 3 * 1999)]


def test_a_function_that_cannot_be_sent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.tasks.by_value._LIBRARIES", ())
    with pytest.raises(ProcessError, match="lambda") as told:
        dumps({"twice": lambda value: 2 * value})
    assert told.value.code == "E3903" and "sqlengine[processes]" in (told.value.hint or "")


def test_a_job_that_is_stopped_does_not_wait_for_its_tasks(
    processes: ProcessExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request comes while tasks work; what they work at is given up."""
    stop = Cancellation()
    at_work: list[int] = []

    def waiting(connections: list[Any], seconds: float) -> list[Any]:
        at_work.extend(processes.pids)
        stop.request()
        return []

    def watch(job: Job) -> None:
        job.cancellation = stop

    with environment(processes) as t_env:
        assert result(t_env) == answer(2000)
        t_env.session.on_job = watch
        monkeypatch.setattr(processes_module, "wait", waiting)
        with pytest.raises((Stopped, SqlEngineError)):
            result(t_env)
        monkeypatch.undo()
        assert len(at_work) == 2 and gone(at_work)
        t_env.session.on_job = None
        assert result(t_env) == answer(2000)


def test_nothing_is_left_when_a_session_ends(tmp_path: Path) -> None:
    with TableEnvironment.create(
        {"execution.target": "processes", "parallelism.default": "2", "sqlengine.processes.dir": str(tmp_path)}
    ) as t_env:
        t_env.execute_sql(EVENTS.format(rows=2000, last=1999))
        assert result(t_env) == answer(2000)
        executor = t_env.session.target.processes
        assert executor is not None
        pids = executor.pids
        (root,) = tmp_path.iterdir()
        assert len(pids) == 2 and not gone(pids, 0) and not list(root.iterdir())
        assert root.stat().st_mode & 0o777 == 0o700
    assert gone(pids) and not list(tmp_path.iterdir())


DIES = """
import os, signal, sys
from sqlengine import TableEnvironment
t_env = TableEnvironment.create({{"execution.target": "processes", "parallelism.default": "2", "sqlengine.processes.dir": {place!r},
  "sqlengine.epoch.max-rows": "200"}})
t_env.execute_sql({events!r})
def watch(job):
    def tick(job):
        if job.dataflow.epoch == 3:
            print(*t_env.session.target.processes.pids, len(os.listdir({place!r})), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    job.on_epoch = tick
t_env.session.on_job = watch
t_env.execute_sql({query!r}).to_arrow()
"""


def test_processes_end_with_their_driver_when_it_is_killed(tmp_path: Path) -> None:
    program = DIES.format(place=str(tmp_path), events=EVENTS.format(rows=2000, last=1999), query=QUERY)
    # Its workers have its output: that ends when they do.
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    *pids, folders = map(int, done.stdout.split())
    assert len(pids) == 2 and folders == 1
    assert gone(pids) and not list(tmp_path.iterdir())


def test_what_was_killed_with_all_its_processes_is_cleared_by_the_next(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = tmp_path / f"sqlengine-processes-{os.getuid()}-{ended.pid}-abc"
    others = tmp_path / f"sqlengine-processes-{os.getuid()}-{os.getpid()}-abc"
    for folder in (left, others):
        folder.mkdir()
        (folder / "rows").write_text("x")
    executor = ProcessExecutor()
    with environment(executor, **{"sqlengine.processes.dir": str(tmp_path)}) as t_env:
        assert result(t_env) == answer(2000)
    executor.close()
    assert list(tmp_path.iterdir()) == [others]


@pytest.mark.parametrize(
    ("on", "options"),
    [
        ("processes", {"execution.target": "processes"}),
        ("Processes=4", {"execution.target": "processes", "parallelism.default": "4"}),
        ("spark=local[2]", {"execution.target": "spark", "sqlengine.spark.master": "local[2]"}),
        ("local", {"execution.target": "local"}),
    ],
)
def test_on_says_where_jobs_run(on: str, options: dict[str, str]) -> None:
    assert target_options(on) == options


@pytest.mark.parametrize("on", ["processes=0", "processes=two", "local=1", "threads"])
def test_on_is_refused_with_what_it_may_be(on: str) -> None:
    with pytest.raises(OptionError, match=re.escape(f"jobs cannot run on '{on}'")):
        target_options(on)


def test_a_place_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    executor = ProcessExecutor()
    with (
        environment(executor, **{"sqlengine.processes.dir": str(tmp_path / "missing")}) as t_env,
        pytest.raises(ProcessError) as told,
    ):
        result(t_env)
    assert told.value.code == "E3901"


_LIMITED = """
import sys
from runtime.core import memory
from sqlengine import SqlEngineError, TableEnvironment

config = {"execution.target": "processes", "parallelism.default": "2", "sqlengine.processes.dir": sys.argv[1]}
generated = (
    "CREATE TABLE {} (a BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{}', 'fields.a.kind' = 'sequence', "
    "'fields.a.start' = '1', 'fields.a.end' = '500000000')"
)
with TableEnvironment.create(config) as t_env:
    t_env.execute_sql(generated.format("few", 1000))
    t_env.execute_sql(generated.format("many", 500000000))
    t_env.execute_sql("CREATE TABLE b (a BIGINT, n BIGINT) WITH ('connector' = 'blackhole')")
    t_env.execute_sql("INSERT INTO b SELECT a, COUNT(*) FROM few GROUP BY a").wait()
    workers = t_env.session.target.processes
    before, own, pids = memory.worker_bytes(), memory.own_bytes(), workers.pids
    t_env.execute_sql(f"SET 'sqlengine.memory.limit' = '{own + sum(before.values()) + (300 << 20)}'")
    try:
        t_env.execute_sql("INSERT INTO b SELECT a, COUNT(*) FROM many GROUP BY a").wait()
    except SqlEngineError as error:
        print(error.code, "the largest owners are job " in error.message)
    grown = memory.own_bytes() - own
    print(grown < 250 << 20, sum(memory.worker_bytes().values()) < sum(before.values()) + (150 << 20))
    count = "SELECT COUNT(*) AS n FROM (SELECT a, COUNT(*) AS n FROM few GROUP BY a)"
    print(t_env.execute_sql(count).to_arrow().to_pylist())
    shown = "SELECT owner, part, process FROM system.memory WHERE owner_kind = 'WORKER' AND bytes > 10000000"
    print(sorted(t_env.execute_sql(shown).to_arrow().to_pylist(), key=str))
print(memory.worker_bytes())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what a process takes is measured on Linux")
def test_the_memory_limit_is_for_the_processes_too(tmp_path: Path) -> None:
    """The state that grows is in the workers; those at work end, and the next statement has others."""
    done = subprocess.run([sys.executable, "-c", _LIMITED, str(tmp_path)], capture_output=True, text=True, timeout=300)
    shown = [{"owner": f"partition {n}", "part": "other", "process": "workers"} for n in (0, 1)]
    said = f"E3800 True\nTrue True\n[{{'n': 1000}}]\n{shown}\n{{}}\n"
    assert (done.stdout, done.returncode) == (said, 0), done.stderr


def test_the_state_of_tasks_is_in_the_account_of_memory(processes: ProcessExecutor) -> None:
    with environment(processes, 3000) as t_env:
        changes = t_env.execute_sql("SELECT text, COUNT(*) AS n FROM n GROUP BY text").changes()
        next(changes)
        found = [a for a in t_env.session.database.memory_accounts.accounts() if a.process == "workers"]
        (state,) = [a for a in found if a.part.startswith("state of GroupAggregate")]
        assert (state.owner_kind, state.rows) == ("QUERY", 3000)
        assert state.bytes >= 3000 * 20
        changes.close()
        assert not [a for a in t_env.session.database.memory_accounts.accounts() if a.owner_kind == "QUERY"]
