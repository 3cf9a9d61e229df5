"""Carries out statements one by one and shows what comes out of them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TextIO

from runtime.core.changelog import KIND_NAMES
from runtime.core.errors import ConnectorError, UnsupportedError, code_and_text
from runtime.core.secrets import masked_sql, masked_text
from runtime.local.job import Job
from runtime.operators.sink import SinkOperator
from runtime.plan.nodes import SinkExec
from sqlengine.api.environment import TableEnvironment
from sqlengine.database.jobs import RunningJob
from sqlengine.options.client import MAX_COLUMN_WIDTH, PRINT_TIME, RESULT_MODE, VERBOSE
from sqlengine.options.dialect import DIALECT
from sqlengine.results.render import render_result
from sqlengine.results.result import Result
from sqlengine.results.stopped import INSERT_STOPPED, QUERY_STOPPED
from sqlengine.shell.grid import (
    KIND_STYLES,
    GridColumn,
    body_line,
    bottom_rule,
    columns_of,
    fit,
    header_lines,
    measured,
)
from sqlengine.shell.interrupt import StatementInterrupt
from sqlengine.shell.meta import run_command
from sqlengine.shell.reader import Piece, pieces
from sqlengine.shell.screen import Screen, texts_of
from sqlengine.terminal.colours import Paint
from sqlengine.terminal.progress import Progress
from sqlengine.terminal.scripts import named, scripts

__all__ = ["Executor", "Rows", "Viewer"]

BACKGROUND_AFTER_SECONDS = 1.0
CHROME_LINES = 6
_FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "json"}

Row = tuple[str | None, ...]


class Rows:
    """A result that is complete: its columns, and its rows as texts. `kinds` are row kinds where they are shown; `total`
    is how many there were when the first are not among `rows`."""

    def __init__(
        self,
        columns: Sequence[GridColumn],
        rows: Sequence[Row],
        kinds: Sequence[str] | None = None,
        total: int | None = None,
    ) -> None:
        self.columns = columns
        self.rows = rows
        self.kinds = kinds
        self.total = len(rows) if total is None else total


class Viewer:
    """What shows results on a full screen: a terminal has one, a pipe has none."""

    def rows(self, rows: Rows, title: str) -> None:
        """Scroll through a complete result until the user leaves."""
        raise NotImplementedError

    def live(self, result: Result, title: str, *, changelog: bool) -> Rows:
        """Show a result as it changes until the user leaves or it ends; gives the rows of the end. Raises what made the
        query fail."""
        raise NotImplementedError

    def top(self) -> None:
        """The jobs and their operators until the user leaves."""
        raise NotImplementedError


class Executor:
    """The shell without its prompt.

    Args:
        environment: what runs the statements.
        screen: where everything is shown.
        viewer: full screens, where there is a terminal.
    """

    def __init__(self, environment: TableEnvironment, screen: Screen, viewer: Viewer | None = None) -> None:
        self.environment = environment
        self.session = environment.session
        self.screen = screen
        self.viewer = viewer
        self.quiet = False
        """Whether statements that only say OK say nothing: those of the user's own start."""
        self.expanded: bool | None = None
        """`\\x`: True on, False off, None when a row is too wide for the screen."""
        self.last_query: str | None = None
        self.output: tuple[TextIO, str] | None = None
        """`\\o`: the file that results go to, and their format."""
        self.session.inserts_in_background = screen.interactive
        self.session.jobs.on_ended = self._ended
        self.session.on_job = self._on_job
        self.notes: Callable[[str], None] = screen.say
        """How to say what happens in the background."""
        self.session.views.on_failed = lambda error: self.notes(screen.paint(f"{error.code} {error.message}", "error"))
        self.session.rejected.on_left_out = lambda text: self.notes(screen.paint(text, "warning"))
        self._interrupt = StatementInterrupt()
        self._progress: Progress | None = None
        self._told = threading.Lock()
        self._waited_for: set[str] = set()
        """Jobs whose end is told by the statement that began them."""
        self._background: list[tuple[str | None, Result]] = []

    # --- running
    # --------------------------------------------------------------------------------------------------------

    def dialect(self) -> str:
        """How statements are read now."""
        return self.session.options.get(DIALECT).lower()

    @property
    def place(self) -> str:
        """Where names are looked up, for the prompt."""
        catalogs = self.session.catalogs
        default = catalogs.current_catalog == "default_catalog" and catalogs.current_database == "default_database"
        return "sqlengine" if default else f"{catalogs.current_catalog}.{catalogs.current_database}"

    def run_text(self, text: str, source: str | None = None) -> None:
        """All statements and commands of a text; the first that fails raises."""
        self.run_pieces(pieces(text, self.dialect), source)

    def run_pieces(self, found: Iterable[Piece], source: str | None = None) -> None:
        with named(source):
            for piece in found:
                self.run(piece, source)
                if self.interrupted:
                    raise KeyboardInterrupt

    def run_file(self, name: str) -> None:
        """`\\i`: the statements of a file. Raises ConnectorError E3300 when it cannot be read."""
        for source, text in scripts((), (name,)):
            self.run_text(text, source)

    def run(self, piece: Piece, source: str | None = None) -> None:
        """One statement or command. Raises SqlEngineError; `Leave` for QUIT; KeyboardInterrupt when it was cut off."""
        if piece.is_command:
            self._interrupt.seen = False
            run_command(self, piece.text)
            return
        self._check_background()
        started = time.monotonic()
        with self._interrupt:
            try:
                with Progress() as self._progress, self._progress.statement():
                    result = self.environment.execute_sql(piece.placed)
                for warning in result.warnings:
                    self.screen.say(f"warning: {warning}", "warning")
                self._interrupt.result = result
                self._show(result, piece, source, started)
            except UnsupportedError as error:
                if error.code != INSERT_STOPPED or not self._interrupt.seen:
                    raise
                self.screen.say(f"interrupted: {error.message}", "warning")
            finally:
                self._progress = None

    def _on_job(self, job: Job) -> None:
        self._interrupt.watch(job)
        self._waited_for.add(job.name)
        job.on_note = self.notes
        for problem in job.restored.problems if job.restored is not None else ():
            self.screen.say(problem)
        if job.restored is not None and not job.resumed_finished:
            self.screen.say(
                f"{job.name} goes on after epoch {job.restored.epoch:,}, from {masked_text(job.restored.path)}"
            )
        if self._progress is not None and not self.session.inserts_in_background:
            self._progress.watch(job)

    # --- showing
    # --------------------------------------------------------------------------------------------------------

    def _show(self, result: Result, piece: Piece, source: str | None, started: float) -> None:
        if result.summary is not None:
            if result.returns:
                self._show_table(result, piece, started)
            self._show_written(result, source, started)
        elif result.is_query:
            self.last_query = piece.text
            self._show_query(result, piece, started)
        elif result.schema.names == ("result",):
            for (text,) in result:
                if text != "OK":
                    self._results(f"{text}\n")
                elif self.screen.interactive and not self.quiet:
                    self.screen.say(f"OK{self._timing(started)}", "note")
        else:
            self.last_query = piece.text
            self._show_table(result, piece, started)

    def _show_written(self, result: Result, source: str | None, started: float) -> None:
        job = result.job
        if result.bounded or job is None:
            self.screen.say(f"{result.summary}{self._timing(started)}", "note")
            return
        # From here on Ctrl-C ends the waiting, and the job goes on.
        self._interrupt.job = self._interrupt.result = None
        with contextlib.suppress(TimeoutError, KeyboardInterrupt):
            if job.bounded and self.screen.interactive:
                result.wait(BACKGROUND_AFTER_SECONDS)
        with self._told:
            ended = self._job_of(job).done.is_set()
            if not ended:
                self._waited_for.discard(job.name)
        if not ended:
            self.screen.say(f"{result.summary}", "note")
            self._background.append((source, result))
        else:
            result.wait()
            self.screen.say(f"{_written(job)}{self._timing(started)}", "note")

    def _job_of(self, job: Job) -> RunningJob:
        return next(running for running in self.session.jobs.jobs.values() if running.job is job)

    def _show_query(self, result: Result, piece: Piece, started: float) -> None:
        mode = self.session.options.get(RESULT_MODE)
        if self.output is not None or not (self.screen.interactive or (self.expanded and result.bounded)):
            form = self.output[1] if self.output is not None else "changelog" if mode == "changelog" else "table"
            self._print_result(result, form)
            self._timed(started)
            return
        if not result.bounded and self.viewer is not None and mode != "tableau":
            rows = self.viewer.live(result, _title(masked_sql(piece.text)), changelog=mode == "changelog")
            if rows.kinds is None:
                self._print_rows(rows, "the first", started, most=self._room())
            else:
                room = self._room()
                last = Rows(rows.columns, rows.rows[-room:], rows.kinds[-room:], rows.total)
                self._print_rows(last, "the last", started)
        elif mode == "table" and result.bounded:
            self._show_table(result, piece, started)
        else:
            self._stream(result, started)

    def _show_table(self, result: Result, piece: Piece, started: float) -> None:
        if self.output is not None or not (self.screen.interactive or self.expanded):
            self._print_result(result, self.output[1] if self.output is not None else "table")
            self._timed(started)
            return
        try:
            with Progress() as progress, progress.statement():
                if result.job is not None and result.is_query:
                    progress.watch(result.job)
                folded = result.folded()
        except UnsupportedError as error:
            if error.code != QUERY_STOPPED:
                raise
            self.screen.say("cancelled before all rows were there", "warning")
            return
        cells = texts_of(folded.columns, result.schema, result.time_zone)
        rows: list[Row] = list(zip(*cells, strict=True)) if cells else []
        found = Rows(columns_of(result.schema), rows)
        if self.expanded or self._fits(found):
            self._print_rows(found, None, started)
        elif self.viewer is not None:
            opened = time.monotonic()
            self.viewer.rows(found, _title(masked_sql(piece.text)))
            started += time.monotonic() - opened  # looking is not the statement's time
            self._print_rows(found, "the first", started, most=self._room())
        else:
            self._print_rows(found, None, started)

    def show_list(self, result: Result) -> None:
        """A finished result of a command."""
        self._show_table(result, Piece("", True, 1), time.monotonic())

    def _room(self) -> int:
        return max(3, self.screen.height - CHROME_LINES)

    def _fits(self, rows: Rows) -> bool:
        count = len(rows.rows)
        if count > self._room():
            return False
        if self._grid(rows, rows.rows) is not None:
            return True
        return self.expanded is None and count * (len(rows.columns) + 1) <= self._room()

    def _grid(self, rows: Rows, shown: Sequence[Row]) -> list[GridColumn] | None:
        most = self.session.options.get(MAX_COLUMN_WIDTH)
        columns = measured(rows.columns, shown, most)
        kinds = [GridColumn("op", width=2, flexible=False)] if rows.kinds is not None else []
        return fit([*kinds, *columns], self.screen.width)

    def _print_rows(self, rows: Rows, note: str | None, started: float, most: int | None = None) -> None:
        """A grid or records, and the count. With `most`, the first so many."""
        shown = rows.rows if most is None else rows.rows[:most]
        columns = None if self.expanded else self._grid(rows, shown)
        if columns is None:
            names = [c.name for c in rows.columns]
            per_record = len(names) + 1
            for number, row in enumerate(shown if most is None else shown[: max(1, most // per_record)], 1):
                self.screen.lines(self.screen.record_lines(number, names, row))
            shown = shown if most is None else shown[: max(1, most // per_record)]
        elif rows.columns:
            frame = self.screen.frame
            self.screen.lines(header_lines(columns, frame))
            if rows.kinds is None:
                self.screen.lines(body_line(columns, row, frame) for row in shown)
            else:
                self.screen.lines(
                    body_line(columns, (kind, *row), frame, KIND_STYLES[kind])
                    for kind, row in zip(rows.kinds, shown, strict=False)
                )
            self.screen.lines([bottom_rule(columns, frame)])
        total = rows.total
        count = f"{total:,} {'change' if rows.kinds is not None else 'row'}{'' if total == 1 else 's'}"
        if len(shown) < total:
            count += f", {note or 'the first'} {len(shown):,} shown"
        self.screen.lines([[("note", f"{count}{self._timing(started)}")]])

    def _stream(self, result: Result, started: float) -> None:
        """Tableau: a line for each change, as it comes, until the end or Ctrl-C."""
        columns = [c.wide(max(len(c.name), 12)) for c in columns_of(result.schema)]
        op = GridColumn("op", width=2, flexible=False)
        frame = self.screen.frame
        changes, shown_header = 0, False
        grid = [op, *columns]
        for batch in result.changes():
            rows = list(zip(*texts_of(batch.columns, result.schema, result.time_zone), strict=True))
            if not shown_header:
                # The first changes tell how wide the columns are; later values are cut.
                columns = [
                    m.wide(max(m.width, c.width)) if m.flexible else m.wide(max(m.width, 10))
                    for m, c in zip(measured(columns, rows, self.session.options.get(MAX_COLUMN_WIDTH)), columns)
                ]
                grid = fit([op, *columns], self.screen.width) or [op, *columns]
                self.screen.lines(header_lines(grid, frame))
                shown_header = True
            kinds = [KIND_NAMES[k] for k in batch.kinds_or_inserts().tolist()]
            self.screen.lines(
                body_line(grid, (kind, *row), frame, KIND_STYLES[kind]) for kind, row in zip(kinds, rows, strict=True)
            )
            changes += len(rows)
        if not shown_header:
            self.screen.lines(header_lines(grid, frame))
        self.screen.lines([bottom_rule(grid, frame)])
        ended = "cancelled after " if self._interrupt.seen else ""
        self.screen.say(f"{ended}{changes:,} change{'' if changes == 1 else 's'}{self._timing(started)}", "note")

    def _print_result(self, result: Result, form: str) -> None:
        """As `sqlengine run` prints it: into a file or a pipe."""
        try:
            with Progress() as progress, progress.statement():
                if result.job is not None and result.is_query:
                    progress.watch(result.job)
                for piece in render_result(result, form, Paint(None)):
                    self._results(piece)
        except UnsupportedError as error:
            if error.code != QUERY_STOPPED:
                raise
            self.screen.say("cancelled before all rows were there", "warning")

    def _results(self, text: str) -> None:
        if self.output is None:
            self.screen.write(text)
        else:
            self.output[0].write(text)
            self.output[0].flush()

    def _timing(self, started: float) -> str:
        if not self.screen.interactive or not self.session.options.get(PRINT_TIME):
            return ""
        return f" ({time.monotonic() - started:.3f} s)"

    def _timed(self, started: float) -> None:
        if self._timing(started):
            self.screen.say(self._timing(started).strip(" "), "note")

    # --- output file
    # ------------------------------------------------------------------------------------------------------

    def redirect(self, name: str | None) -> None:
        """`\\o`: results go to a file from now on, or (None) to the screen. Raises ConnectorError E3320."""
        if self.output is not None:
            self.output[0].close()
            self.output = None
        if name is None:
            return
        path = Path(name).expanduser()
        try:
            self.output = path.open("w", encoding="utf-8"), _FORMATS.get(path.suffix.lower(), "table")
        except OSError as error:
            raise ConnectorError(
                f"cannot write {name}: {error.strerror}",
                code="E3320",
                hint="\\o without a name goes back to the screen",
            ) from error

    # --- jobs
    # -------------------------------------------------------------------------------------------------------------

    def _ended(self, running: RunningJob) -> None:
        """A job in the background has ended, in its own thread."""
        with self._told:
            if running.id in self._waited_for or self.session.closed.is_set():
                return
        if running.failure is None:
            verb = "has ended" if running.job.status == "FINISHED" else "was stopped"
            self.notes(f"{running.id} {verb}: {_written(running.job)}")
        elif self.screen.interactive:
            running.told = True
            code, message = code_and_text(running.failure)
            self.notes(self.screen.paint(f"{running.id} has failed: {code} {message}", "error"))

    def _check_background(self) -> None:
        """In a script: raise what made a job in the background fail."""
        if not self.screen.interactive:
            for source, result in self._background:
                if result.job is not None and result.job.status == "FAILED":
                    with named(source):
                        result.wait()

    def wait_for_jobs(self) -> None:
        """Until all jobs in the background have ended; raises what made one fail."""
        self._check_background()
        with self._interrupt:
            self.session.jobs.wait_for_all()
        self._check_background()

    def running_jobs(self) -> list[RunningJob]:
        """The jobs that leaving would stop."""
        return [job for job in self.session.jobs.active() if job.thread is not None]

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C has ended the last statement: what was to follow it does not."""
        return self._interrupt.seen

    @property
    def verbose(self) -> bool:
        return self.session.options.get(VERBOSE)


def _written(job: Job) -> str:
    """What the sinks of a job have taken: `3 rows written to out`."""
    counts = [
        (v.operator.rows_written, v.node.name.rpartition(".")[2])
        for v in job.dataflow.vertices
        if isinstance(v.node, SinkExec) and isinstance(v.operator, SinkOperator)
    ]
    return ", ".join(f"{rows:,} row{'' if rows == 1 else 's'} written to {name}" for rows, name in counts)


def _title(text: str) -> str:
    return " ".join(text.split())
