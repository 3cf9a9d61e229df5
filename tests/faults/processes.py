"""Jobs in processes of their own, which are killed with SIGKILL."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.faults.jobs import FaultJob
from tests.faults.runs import published

__all__ = ["Killings", "ProcessJob", "WarmProcess"]

_ROOT = Path(__file__).parents[2]


class WarmProcess:
    """Starts processes quickly, one after another; see `warm_process.py`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.warm_process"],
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._child = 0

    def start(self, arguments: list[str], log: Path) -> None:
        """Run `sqlengine` with arguments; what it says goes to a file."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([arguments, str(log)]).encode() + b"\n")
        self._child = int(self._line())

    @property
    def number(self) -> int:
        """Of the process that was started last."""
        return self._child

    def ended(self, seconds: float) -> bool:
        """Whether it has ended, within so many seconds."""
        return bool(select.select([self._process.stdout], [], [], seconds)[0])

    def kill(self) -> None:
        """As `kill -9`; nothing happens when it has ended meanwhile."""
        os.kill(self._child, signal.SIGKILL)

    def status(self) -> int:
        """Waits for its end, and gives its exit status: -9 when it was killed."""
        status = int(self._line())
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        return status

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@dataclass(frozen=True)
class Killings:
    """What became of a job: how often it was killed, how often it went on from a checkpoint, and what it has written."""

    kills: int
    resumed: int
    lines: list[str]


class ProcessJob:
    """A job as a file of SQL, and the command that runs it.

    Args:
        folder: the file, its output and its checkpoints go there.
        epoch_rows: the most rows that a source gives to an epoch.
    """

    def __init__(self, job: FaultJob, inputs: Path, folder: Path, epoch_rows: int, warm: WarmProcess) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._warm = warm
        self.out = folder / "out"
        self._file = folder / "job.sql"
        self._file.write_text(job.script(inputs, self.out))
        self._options = {**job.options, "sqlengine.epoch.max-rows": str(epoch_rows)}

    def whole(self) -> tuple[list[str], float]:
        """The output of a run that nothing disturbs and that has no checkpoints, and its seconds."""
        started = time.monotonic()
        assert self._run(saved=False) == 0, self._said()
        return published(self.out), time.monotonic() - started

    def killed(self, seed: int, kills: int, seconds: float) -> Killings:
        """Run it and kill it at random moments, until it has been killed so often; the last run goes to its end. A run
        that gets there before it is killed is the last one, too.

        Some moments are counted from the start, the others from the first checkpoint of the run, so that jobs get on.
        `seconds`: what a whole run takes.
        """
        rng = random.Random(seed)
        killed = resumed = 0
        while True:
            status = self._run_for(rng, seconds / kills) if killed < kills else self._run(saved=True)
            resumed += "goes on after epoch" in self._said()
            if status == -signal.SIGKILL:
                killed += 1
                continue
            assert status == 0, f"seed {seed}, after {killed} kills: {self._said()}"
            return Killings(killed, resumed, published(self.out))

    def arguments(self, *, saved: bool) -> list[str]:
        """Of the command `sqlengine`."""
        options = dict(self._options)
        if saved:
            options["execution.checkpointing.dir"] = str(self._folder / "state")
            options["execution.checkpointing.interval"] = "5 ms"
        return ["run", str(self._file), *(part for key, value in options.items() for part in ("-D", f"{key}={value}"))]

    def checkpoints(self) -> set[str]:
        """The manifests that are there."""
        return {str(path) for path in self._folder.glob("state/*/chk-*/manifest.json")}

    def _run(self, *, saved: bool) -> int:
        self._warm.start(self.arguments(saved=saved), self._folder / "said")
        return self._warm.status()

    def _run_for(self, rng: random.Random, seconds: float) -> int:
        """Run it, and kill it within about so many seconds."""
        before = self.checkpoints()
        self._warm.start(self.arguments(saved=True), self._folder / "said")
        if rng.random() < 0.7:
            while not self._warm.ended(0.002) and self.checkpoints() <= before:
                pass
        if not self._warm.ended(rng.uniform(0, seconds)):
            self._warm.kill()
        return self._warm.status()

    def _said(self) -> str:
        said = self._folder / "said"
        return said.read_text() if said.exists() else ""
