"""One job, run in this process as often as it takes: from its newest checkpoint to its end, a failure, or a kill.

Nothing here depends on time or on threads: the clock stands at a time that the epoch gives, input is cut into epochs by
their number, and checkpoints are written when a seed says so. A failure is found again by its seed.
"""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyarrow.fs import PyFileSystem

from runtime.checkpoint.keys import keys_of
from runtime.checkpoint.store import CheckpointStore, read_savepoint
from runtime.core.options import Options
from runtime.local.checkpoints import _WRITING, RETAINED, Checkpoints
from runtime.local.job import Job
from runtime.local.rejected import RejectedRows
from runtime.plan.nodes import PhysicalNode, SourceExec
from runtime.spark.simulated import SimulatedCluster
from sqlengine import TableEnvironment
from sqlengine.database.letters import with_letters
from tests.faults.disk import Disk, Killed, fault_from
from tests.faults.jobs import FaultJob
from tests.unit.checkpoint.object_store import MemoryObjects

__all__ = ["PlannedJob", "published"]

_MILLIS_PER_EPOCH = 10
_UPLOADS = 60
"""About so many operations of an object store a run has."""


def published(folder: Path) -> list[str]:
    """All lines that a reader sees, each after the folder that it stands in, sorted; and the marks of partitions."""
    if not folder.exists():
        return []
    found: list[str] = []
    for path in folder.rglob("*"):
        where = path.parent.relative_to(folder)
        if path.name == "_SUCCESS":
            found.append(f"{where}/_SUCCESS")
        elif path.is_file() and not path.name.startswith((".", "_")):
            found += [f"{where}: {line}" for line in path.read_text().splitlines()]
    return sorted(found)


class Planned(Exception):
    """Carries the plans of a statement out of its session."""


class EpochClock:
    """Processing time as the epoch gives it, so that a job that goes back has the same time again."""

    def __init__(self) -> None:
        self.job: Job | None = None

    def now(self) -> int:
        return 1 if self.job is None else 1 + _MILLIS_PER_EPOCH * self.job.dataflow.epoch


class EpochNumberCut:
    """So many rows of each source, by the number of the epoch."""

    def __init__(self, most: int) -> None:
        self._most = most

    def rows(self, sources: Sequence[SourceExec], epoch: int) -> Sequence[int]:
        chance = random.Random(epoch)
        return [chance.choice((0, 1, self._most, 2 * self._most)) for _ in sources]


class SeededWriter:
    """Stands in for the thread that writes checkpoints: one is written when it is looked for, or when it is needed."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._last: _Writing | None = None

    def submit(self, write: Callable[..., Any], *args: Any) -> _Writing:
        self._last = _Writing(lambda: write(*args), self._rng)
        return self._last

    def shutdown(self) -> None:
        if self._last is not None:
            with suppress(Exception):
                self._last.result()


class _Writing:
    def __init__(self, write: Callable[[], Any], rng: random.Random) -> None:
        self._write = write
        self._rng = rng
        self._ran = False
        self._value: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        if not self._ran and self._rng.random() < 0.6:
            with suppress(Exception):
                self.result()
        return self._ran

    def result(self) -> Any:
        if not self._ran:
            self._ran = True
            try:
                self._value = self._write()
            except BaseException as error:
                self._error = error
        if self._error is not None:
            raise self._error
        return self._value


class PlannedJob:
    """A job with a folder of its own, planned once.

    Args:
        inputs: the folder of its inputs.
        folder: its output and its checkpoints go there.
        rows: about so many rows of each source come in an epoch.
        cluster: where its tasks run; in this process, embedded, when not given.
    """

    def __init__(
        self,
        job: FaultJob,
        inputs: Path,
        folder: Path,
        rows: int,
        cluster: SimulatedCluster | None = None,
        **options: str,
    ) -> None:
        self.job = job
        self.out = folder / "out"
        self.state = folder / "state"
        self._rows = rows
        self._objects = MemoryObjects(partial=False)
        self._environment = TableEnvironment.create({**job.options, **options})
        if cluster is not None:
            self._environment.get_config().set("execution.target", "spark")
            self._environment.session.target.cluster = cluster
        self._environment.execute_script(job.ddl(inputs, self.out))
        self._roots = self._plans()
        self.rejected = RejectedRows()
        """What the last run has rejected, with what was restored."""
        self.started: Job | None = None
        """The last one that could begin."""
        self.clear()
        disk = Disk()
        with disk.installed():
            self.run({"execution.checkpointing.interval": "1 ms"}, random.Random(0))
        self.operations = disk.count
        self.clear()
        self.epochs = self.run({}, random.Random(0), saved=False).dataflow.epoch
        self.expected = published(self.out)
        self.expected_rejected = self.rejected.counts
        self.clear()

    def _plans(self) -> Sequence[PhysicalNode]:
        def planned(name: str, roots: Sequence[PhysicalNode], *more: Any) -> Job:
            raise Planned(roots)

        session: Any = self._environment.session
        session.new_job = planned
        try:
            self._environment.execute_sql(self.job.insert)
        except Planned as carried:
            roots: Sequence[PhysicalNode] = carried.args[0]
            return roots
        finally:
            del session.new_job
        raise AssertionError("the statement is no INSERT")

    def clear(self) -> None:
        """As if it had never run."""
        for folder in (self.out, self.state):
            shutil.rmtree(folder, ignore_errors=True)
        self._objects = MemoryObjects(partial=False)

    def forget_checkpoints(self) -> None:
        """What comes next goes on from a savepoint, or begins anew; what was published stays."""
        shutil.rmtree(self.state, ignore_errors=True)

    def run(
        self,
        options: Mapping[str, str],
        rng: random.Random,
        *,
        saved: bool = True,
        uploads: bool = False,
        savepoint: str | None = None,
        watch: Callable[[Job], None] | None = None,
    ) -> Job:
        """To its end. Raises what ends it before.

        Args:
            saved: with checkpoints.
            uploads: these are in an object store.
            savepoint: what it goes on from when it has none.
            watch: called after every epoch.
        """
        clock = EpochClock()
        settings = self._environment.session.job_settings()
        all_options = Options({**settings.options.as_dict(), **options})
        self.rejected = RejectedRows()
        cut = EpochNumberCut(self._rows)
        settings = replace(settings, options=all_options, clock=clock, rejected=self.rejected, cut=cut)
        if settings.wants_letters:
            settings = with_letters(self._environment.session, settings, self._roots)
        checkpoints: Any = None
        keys = keys_of(all_options)
        if saved:
            store = CheckpointStore(
                PyFileSystem(self._objects) if uploads else str(self.state), "job", all_options.get(RETAINED), keys
            )
            checkpoints = Checkpoints("job", store, all_options, clock)
            checkpoints._writer = SeededWriter(rng)
        try:
            held = read_savepoint(savepoint, keys) if savepoint else None
            job = clock.job = self.started = Job("job", self._roots, settings, checkpoints, held)
            job.on_epoch = watch
            job.run()
        finally:
            if saved:
                store.close()
        return job

    def trial(self, seed: int) -> Counter[str]:
        """Runs that fail or are killed as the seed says, then one on a good disk: the output is exact, and before that
        nothing else was visible. Counts what happened."""
        rng = random.Random(seed)
        self.clear()
        counts: Counter[str] = Counter()
        story: list[str] = []
        uploads = rng.random() < 0.2
        try:
            runs = rng.choice((1, 1, 2, 3))
            for _ in range(runs):
                how = self._faulty_run(rng, self.operations // runs, story, uploads)
                counts[how] += 1
                extra = Counter(published(self.out)) - Counter(self.expected)
                assert not extra, f"visible before the end: {list(extra)[:3]}"
            self.run({}, rng, uploads=uploads)
            assert published(self.out) == self.expected
            assert self.rejected.counts == self.expected_rejected
            left = [str(p) for p in self.out.rglob(".*")]
            # Of each line of runs one token stays: the next run is to know who wrote last.
            lines = Counter(token[1] for p in left if (token := re.search(r"(/\.owner-\w+)-\d+$", p)))
            assert len(left) == len(lines), f"left behind: {left[:3]}"
        except BaseException as error:
            error.add_note(f"{self.job.name}, seed {seed}: " + "; ".join(story))
            raise
        return counts

    def _faulty_run(self, rng: random.Random, operations: int, story: list[str], uploads: bool) -> str:
        options = {
            "execution.checkpointing.interval": rng.choice(("1 ms", "1 ms", "1 ms", "35 ms")),
            "execution.checkpointing.num-retained": rng.choice(("1", "1", "3")),
            "execution.checkpointing.tolerable-failed-checkpoints": rng.choice(("0", "0", "1", "9")),
            "restart-strategy.type": rng.choice(("none", "fixed-delay")),
            "restart-strategy.fixed-delay.delay": "0",
            "restart-strategy.fixed-delay.attempts": "3",
        }
        if rng.random() < 0.5:
            at = rng.randrange(operations)
            disk, how = Disk(killed_at=at), f"killed at {at}"
        else:
            how, fault = fault_from(rng, operations)
            disk = Disk(fault)
        if uploads:
            first = self._objects.count + rng.randrange(_UPLOADS)
            self._objects.failing = range(first, first + rng.choice((1, 1, 5, 1 << 30)))
            how += f", the store from {first}"
        end = "finished"
        with disk.installed():
            try:
                job = self.run(options, rng, uploads=uploads)
                end = "restarted" if job.attempts else end
            except Killed:
                end = "killed"
                # Of a process that is gone no job writes any more.
                _WRITING.clear()
            except Exception as error:
                end = "failed"
                story.append(f"{how} {disk.failed[:3]}: {error}")
                if getattr(error, "code", None) in (None, "E9100"):
                    raise
            else:
                story.append(f"{how} {disk.failed[:3]}: {end}")
        self._objects.failing = None
        if disk.dead and end == "killed":
            story.append(how)
        return end
