"""The executor whose tasks are long-lived processes on this machine, one for each partition.

Rows between driver and tasks lie in shared memory (`runtime/tasks/shelf.py`), and so do versions of state. A process that
has gone is started again and carries out its stage from the named versions, as on a cluster.
"""

from __future__ import annotations

import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from runtime.core.cancellation import look
from runtime.core.errors import ProcessError
from runtime.core.logs import Log
from runtime.core.memory import count_worker, forget_worker, own_bytes, worker_bytes
from runtime.core.options import Options
from runtime.plan.nodes import PhysicalNode
from runtime.tasks.by_value import dumps
from runtime.tasks.options import PROCESSES_DIR
from runtime.tasks.reading import ReadStage
from runtime.tasks.saving import SaveStage
from runtime.tasks.shelf import Maps, Shelf, clear
from runtime.tasks.stage import Stage
from runtime.tasks.task import Record
from runtime.tasks.versions import StateFolder
from runtime.tasks.worker import Answer, Work, no_room
from runtime.tasks.working import WorkStage

__all__ = ["ProcessExecutor"]

_log = Log("tasks")

_SERVE = f"import sys; from {__package__}.worker import serve; serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])"
_SHARED = "/dev/shm"
_LEAST_ROOM = 1 << 30
"""Shared memory with less room than this (containers have 64 MB) is left alone."""
_ATTEMPTS = 4
"""So often a process may end in one stage before the job fails."""
_LOOK_SECONDS = 0.1


class _Worker:
    """A process and the socket to it.

    Raises:
        ProcessError: E3901 it cannot be started.
    """

    def __init__(self, life: int, root: str, partition: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            path = [os.getcwd() if entry == "" else entry for entry in sys.path]
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _SERVE, str(theirs.fileno()), str(life), root],
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
                    pass_fds=(theirs.fileno(), life),
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise ProcessError(f"a process for tasks cannot be started: {error}", code="E3901") from error
        self.pid = self._process.pid
        count_worker(self.pid, f"partition {partition}")
        self.connection = Connection(ours.detach())

    def ask(self, work: Work) -> None:
        """Raises OSError when it has ended."""
        self.connection.send_bytes(pickle.dumps(work, protocol=5))

    def end(self) -> None:
        """It ends now, whatever it does."""
        with suppress(OSError):
            self.connection.close()
        self._process.kill()
        self._process.wait()
        forget_worker(self.pid)

    def how_it_ended(self) -> str:
        """Of one whose socket is closed."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LOOK_SECONDS)
        self.end()
        code = self._process.returncode
        return f"killed by signal {-code}" if code < 0 else f"exit status {code}"


class ProcessExecutor:
    """See the module, and `runtime.tasks.executor.Executor`. Jobs that run at the same time share the processes: a phase
    of one waits for that of another."""

    local = True

    def __init__(self) -> None:
        self._workers: dict[int, _Worker] = {}
        self._turn = threading.Lock()
        self._root = ""
        self._life = -1
        self._end: Any = None

    @property
    def pids(self) -> list[int]:
        """The processes that run."""
        return [worker.pid for worker in self._workers.values()]

    def partitions(self, options: Options) -> int:
        """`parallelism.default`, else as many as this process may use processors."""
        given = options.text("parallelism.default")
        count = int(given) if given is not None else len(os.sched_getaffinity(0))
        return max(1, min(128, count))

    def long_lived(self, options: Options, nodes: Sequence[PhysicalNode]) -> bool:
        return True

    def described(self, options: Options, nodes: Sequence[PhysicalNode]) -> str:
        return f"{self.partitions(options)} processes of this machine"

    def open(self, options: Options, nodes: Sequence[PhysicalNode] = (), job: str = "") -> ProcessTasks:
        """Raises ProcessError E3901 when processes cannot be started."""
        with self._turn:
            if not self._root:
                self._begin(options)
            for partition in range(self.partitions(options)):
                self._worker(partition)
        return ProcessTasks(self, StateFolder.new(self._root))

    def close(self) -> None:
        """All processes end, and their files go."""
        if self._end is not None:
            self._end()
        self._root = ""

    def _begin(self, options: Options) -> None:
        if os.name != "posix":
            raise ProcessError(
                "tasks in processes need a system with sockets and pipes of POSIX", code="E3901", hint="use threads"
            )
        place = options.get(PROCESSES_DIR) or _shared_place()
        try:
            _remove_left_behind(place)
            # Only this user can open it.
            self._root = tempfile.mkdtemp(prefix=f"{_prefix()}{os.getpid()}-", dir=place)
        except OSError as error:
            raise ProcessError(f"there is no place for the rows of processes: {error}", code="E3901") from error
        life, ours = os.pipe()
        self._life = life
        self._end = weakref.finalize(self, _end, os.getpid(), self._workers, (life, ours), self._root)

    def _worker(self, partition: int) -> _Worker:
        found = self._workers.get(partition)
        if found is None:
            found = self._workers[partition] = _Worker(self._life, self._root, partition)
        return found

    @contextmanager
    def turn(self) -> Generator[None]:
        """The processes are for one job alone."""
        while not self._turn.acquire(timeout=_LOOK_SECONDS):
            look()
        try:
            yield
        finally:
            self._turn.release()

    def carry_out(self, place: str, stage: bytes, parts: Sequence[list[Any]]) -> list[list[tuple[int, Any]]]:
        """A stage for all partitions: what each gives. In a turn.

        Raises:
            ProcessError: E3900 a process has ended again and again. Whatever a task has raised is raised here.
        """
        waiting: dict[int, _Worker] = {}
        answers: dict[int, Answer] = {}
        lost: Counter[int] = Counter()
        taken = {pid: size for (pid, _), size in worker_bytes().items()}
        together = own_bytes() + sum(taken.values())

        def ask(partition: int) -> None:
            while True:
                worker = waiting[partition] = self._worker(partition)
                beside = together - taken.get(worker.pid, 0)
                try:
                    return worker.ask(Work(place, stage, partition, parts[partition], beside))
                except OSError:
                    self._lose(partition, lost)

        try:
            for partition in range(len(parts)):
                ask(partition)
            while waiting:
                ready = wait([w.connection for w in waiting.values()], _LOOK_SECONDS)
                look()
                for partition, worker in list(waiting.items()):
                    if worker.connection not in ready:
                        continue
                    try:
                        answers[partition] = pickle.loads(worker.connection.recv_bytes())
                        del waiting[partition]
                    except (EOFError, OSError):
                        self._lose(partition, lost)
                        ask(partition)
        except BaseException:
            # What they are at is of no use to anybody; their versions are in files.
            for partition in waiting:
                worker = self._workers.pop(partition, None)
                if worker is not None:
                    worker.end()
            raise
        for partition in sorted(answers):
            error = answers[partition].error
            if error is not None:
                raise error
        return [answers[partition].found for partition in range(len(parts))]

    def _lose(self, partition: int, lost: Counter[int]) -> None:
        """A process has ended."""
        how = self._workers.pop(partition).how_it_ended()
        lost[partition] += 1
        _log.warning("the process of partition %d has ended (%s) and is started again", partition, how)
        if lost[partition] >= _ATTEMPTS:
            raise ProcessError(
                f"the process of partition {partition} has ended {_ATTEMPTS} times in one stage: {how}",
                hint="signal 9 without anybody's doing is the system's, for want of memory: lower 'parallelism.default' or"
                " 'sqlengine.epoch.max-rows'",
            )

    def forget(self) -> None:
        """A job has ended: processes drop what they keep of it."""
        if not self._turn.acquire(timeout=1.0):
            # Another job is at work: with the end of that one they drop what ended jobs have left.
            return
        try:
            for worker in self._workers.values():
                with suppress(OSError):
                    worker.ask(Work("", b"", 0, []))
        finally:
            self._turn.release()


class ProcessTasks:
    """The tasks of a job: see `runtime.tasks.executor.Tasks`."""

    resident = True

    def __init__(self, executor: ProcessExecutor, folder: StateFolder) -> None:
        self._executor = executor
        self.folder = folder

    def run(
        self, stages: Sequence[Stage | ReadStage | SaveStage | WorkStage], given: Sequence[Sequence[Record]]
    ) -> list[Record]:
        place = self.folder.place
        with self._executor.turn():
            try:
                shelf = Shelf(place)
                parts: list[list[Any]] = [[[shelf.put(tuple(record)) for record in part]] for part in given]
                shelf.close()
                for stage in stages:
                    found = self._executor.carry_out(place, pickle.dumps(stage, protocol=5), parts)
                    parts = [[] for _ in given]
                    for sent in found:
                        for target, fields in sent:
                            parts[target].append((target, fields))
                maps = Maps()
                return [maps.record(fields) for part in parts for _, fields in part]
            except OSError as error:
                told = no_room(error)
                if told is None:
                    raise
                raise told from error
            finally:
                clear(place)

    def aside(self, stages: Sequence[SaveStage | WorkStage], given: Sequence[Sequence[Record]]) -> list[Record]:
        return self.run(stages, given)

    def dumps(self, thing: Any) -> bytes:
        return dumps(thing)

    def close(self) -> None:
        self.folder.remove()
        self._executor.forget()


def _end(owner: int, workers: dict[int, _Worker], life: tuple[int, int], root: str) -> None:
    """Nothing is left. A process that was forked from the owner leaves all to it."""
    if os.getpid() != owner:
        return
    # The pipe last: at its end workers would clear away what is cleared away here.
    for worker in workers.values():
        worker.end()
    workers.clear()
    for end in life:
        with suppress(OSError):
            os.close(end)
    shutil.rmtree(root, ignore_errors=True)


def _prefix() -> str:
    return f"sqlengine-processes-{os.getuid()}-"


def _shared_place() -> str:
    """Shared memory where it has room, else the folder of temporary files: the system keeps in memory what it can."""
    try:
        if shutil.disk_usage(_SHARED).free >= _LEAST_ROOM and os.access(_SHARED, os.W_OK):
            return _SHARED
    except OSError:
        pass
    return tempfile.gettempdir()


def _remove_left_behind(place: str) -> None:
    """What a process and all its workers have left that were killed at one moment."""
    for name in os.listdir(place):
        if name.startswith(_prefix()):
            owner = name.removeprefix(_prefix()).partition("-")[0]
            try:
                os.kill(int(owner), 0)
            except ProcessLookupError:
                shutil.rmtree(os.path.join(place, name), ignore_errors=True)
            except (ValueError, OSError):
                # It runs, or is none of ours to ask about: what it has is left alone.
                continue
