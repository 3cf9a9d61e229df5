"""`sqlengine run`: statements in order, results on stdout, everything else on stderr."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType

from runtime.core.errors import SqlEngineError
from sqlengine.cli.progress import Progress, human_count
from sqlengine.cli.render import render_result
from sqlengine.cli.scripts import scripts
from sqlengine.environment import TableEnvironment
from sqlengine.result import Result

__all__ = ["run_command"]


def run_command(texts: Sequence[str], files: Sequence[str], options: dict[str, str], form: str) -> int:
    """Run all statements; the first that fails stops the rest. Ctrl-C stops running jobs cleanly (exit status 130)."""
    interrupted = _Interrupt()
    with TableEnvironment.create(options) as environment, interrupted:
        progress = Progress()
        environment.session.on_job = lambda job: (progress.watch(job), interrupted.watch(job))
        try:
            for name, text in scripts(texts, files):
                try:
                    for result in environment.run_script(text):
                        _show(result, form, progress)
                        if interrupted.seen:
                            return 130
                except SqlEngineError as error:
                    error.source = name  # type: ignore[attr-defined]
                    raise
            for running in environment.session.jobs.active():
                running.wait()
        finally:
            progress.done()
            _report_rejected(environment)
    return 130 if interrupted.seen else 0


def _show(result: Result, form: str, progress: Progress) -> None:
    if not result.is_query and result.job is not None:
        if result.bounded:
            progress.done()
            for name, count in zip(result.schema.names, next(iter(result.collect())), strict=True):
                print(f"{name}: {human_count(count)} rows written", file=sys.stderr)
        return
    if not result.is_query and result.schema.names == ("result",):
        lines = [str(row[0]) for row in result.collect() if row[0] != "OK"]
    elif form == "table" and result.is_query and not result.bounded:
        lines = render_result(result, "changelog")
    else:
        lines = render_result(result, form)
    for line in lines:
        progress.done()
        print(line, flush=not result.bounded)
    sys.stdout.flush()


def _report_rejected(environment: TableEnvironment) -> None:
    for (job, operator, reason), count in environment.session.rejected.counts.items():
        print(f"{count} row{'' if count == 1 else 's'} rejected by {operator} of {job}: {reason} (SELECT * FROM system.rejected shows them)", file=sys.stderr)


class _Interrupt:
    """Ctrl-C: the first asks the job at hand to stop after its epoch, a second one ends at once."""

    def __init__(self) -> None:
        self.seen = False
        self._jobs: list[object] = []
        self._before: object = None

    def watch(self, job: object) -> None:
        self._jobs.append(job)

    def __enter__(self) -> _Interrupt:
        self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        running = [j for j in self._jobs if getattr(j, "status", "") in ("CREATED", "RUNNING")]
        if self.seen or not running:
            self.seen = True
            raise KeyboardInterrupt
        self.seen = True
        for job in running:
            job.cancel()  # type: ignore[attr-defined]
