"""`sqlengine run`: statements in order, results on stdout, everything else on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from runtime.core.errors import UnsupportedError
from runtime.core.secrets import masked_text
from runtime.local.job import Job
from sqlengine.api.environment import TableEnvironment
from sqlengine.cli.interrupt import Interrupt
from sqlengine.results.render import render_result
from sqlengine.results.result import Result
from sqlengine.results.stopped import INSERT_STOPPED, QUERY_STOPPED
from sqlengine.terminal.colours import Paint
from sqlengine.terminal.progress import Progress
from sqlengine.terminal.scripts import named, scripts

__all__ = ["run_command"]

SHOWN_REASONS = 10
SLOW_SECONDS = 0.5


def run_command(
    texts: Sequence[str],
    files: Sequence[str],
    options: dict[str, str],
    form: str,
    *,
    fresh: bool = False,
    database: str | None = None,
    wait: bool = False,
) -> int:
    """Run all statements, on the database in a folder if one is given; the first that fails stops the rest. Jobs without
    an end that they start run until Ctrl-C; so do those of the database, to `wait` or when there is no statement. Gives the
    exit status."""
    with (
        Interrupt() as interrupt,
        Progress() as progress,
        TableEnvironment.create(options, fresh=fresh, path=database) as environment,
    ):
        run = _Run(environment, interrupt, progress, form)
        try:
            for source, text in scripts(texts, files):
                if run.interrupted(source, text):
                    break
            run.wait_for_jobs(earlier=wait or run.statements == 0)
        except KeyboardInterrupt:
            run.say("interrupted")
        except UnsupportedError as error:
            if error.code != INSERT_STOPPED or not interrupt.seen:
                raise
            run.say(f"interrupted: {error.message}")
        finally:
            run.finish()
        return interrupt.exit_status if interrupt.seen else 0


class _Run:
    """One invocation of the command."""

    def __init__(self, environment: TableEnvironment, interrupt: Interrupt, progress: Progress, form: str) -> None:
        self._environment = environment
        environment.session.rejected.on_left_out = self.say
        self._interrupt = interrupt
        self._form = form
        self._paint = Paint(sys.stdout)
        self._progress = progress
        self._background: list[tuple[str | None, Result]] = []
        self.statements = 0
        environment.session.on_job = self._watch
        # A job that the database keeps does not end with this process: it stops when the database is closed.
        interrupt.goes_on = self._is_kept
        # Whoever waits for the jobs raises what made them fail.
        environment.session.jobs.on_ended = lambda running: None
        environment.session.views.on_failed = lambda error: self.say(f"{error.code} {error.message}")

    def _watch(self, job: Job) -> None:
        self._progress.watch(job)
        self._interrupt.watch(job)
        job.on_note = self.say
        for problem in job.restored.problems if job.restored is not None else ():
            self.say(problem)
        if job.restored is not None and not job.resumed_finished:
            self.say(f"{job.name} goes on after epoch {job.restored.epoch:,}, from {masked_text(job.restored.path)}")

    def _is_kept(self, job: Job) -> bool:
        running = self._environment.session.jobs.jobs.get(job.name)
        return running is not None and running.job is job and running.kept

    def interrupted(self, source: str | None, text: str) -> bool:
        """Run a script; tells whether the user stopped it."""
        with named(source):
            started = time.monotonic()
            results = self._environment.run_script(text)
            while True:
                with self._progress.statement():
                    result = next(results, None)
                    if result is None:
                        break
                    self.statements += 1
                    self._show(source, result, time.monotonic() - started)
                self._raise_failed()
                if self._interrupt.seen:
                    return True
                started = time.monotonic()
        return False

    def _show(self, source: str | None, result: Result, seconds: float) -> None:
        for warning in result.warnings:
            self.say(f"warning: {warning}")
        if result.summary is not None:
            self.say(result.summary + (f" in {seconds:.1f} s" if result.bounded and seconds >= SLOW_SECONDS else ""))
            if not result.bounded:
                self._background.append((source, result))
            if result.returns:
                self._show_query(result)
        elif result.is_query:
            self._show_query(result)
        elif result.schema.names == ("result",) and self._form in ("table", "changelog"):
            self._print("".join(f"{row[0]}\n" for row in result if row[0] != "OK"))
        elif result.schema.names != ("result",) or next(iter(result))[0] != "OK":
            for piece in render_result(result, self._form, self._paint):
                self._print(piece)

    def _show_query(self, result: Result) -> None:
        self._interrupt.at_hand = result
        try:
            for piece in render_result(result, self._form, self._paint):
                self._print(piece)
        except UnsupportedError as error:
            if error.code != QUERY_STOPPED:
                raise
            self.say("interrupted before all rows were there; --format changelog shows rows as they come")
        finally:
            self._interrupt.at_hand = None
            self._progress.done()

    def _print(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def say(self, text: str) -> None:
        with self._progress.wiped():
            print(text, file=sys.stderr, flush=True)

    def _raise_failed(self) -> None:
        """Raise what made a job in the background fail."""
        for source, result in self._background:
            if result.job is not None and result.job.status == "FAILED":
                with named(source):
                    result.wait()

    def wait_for_jobs(self, *, earlier: bool) -> None:
        """Until all jobs in the background have ended that the statements have started, and with `earlier` those of the
        database, or one has failed; a materialized view that failed is an error, too."""
        session = self._environment.session
        self._raise_failed()
        interrupted = self._interrupt.seen
        session.jobs.wait_for_all(lambda job: (earlier or not job.goes_on) and not (interrupted and job.kept))
        self._raise_failed()
        for running in list(session.jobs.jobs.values()) if earlier else ():
            if running.failure is not None and not running.told:
                running.wait()
        for view in session.views.jobs():
            session.views.check(view.path)

    def finish(self) -> None:
        """Stop what still runs, and say what became of it and of rows that could not be used."""
        self._environment.close()
        self._progress.done()
        for _, result in self._background:
            job = result.job
            if job is not None and job.status != "FAILED":
                rows = sum(s.rows_written for s in job.dataflow.sinks())
                stopped = "stopped until the database is opened again" if self._is_kept(job) else "stopped"
                self.say(f"{job.name} has {'ended' if job.status == 'FINISHED' else stopped}: {rows:,} rows written")
        rejected = self._environment.session.rejected.counts.most_common()
        for (job_name, operator, reason), count in rejected[:SHOWN_REASONS]:
            self.say(f"{count:,} row{'' if count == 1 else 's'} rejected by {operator} of {job_name}: {reason}")
        if len(rejected) > SHOWN_REASONS:
            self.say(f"... and {len(rejected) - SHOWN_REASONS} other reasons")
        if rejected:
            self.say("SELECT * FROM system.rejected, as the last statement, shows such rows")
