"""A job: a dataflow, the readers of its sources, and the loop that cuts their input into epochs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MAX_WATERMARK
from runtime.core.errors import SqlEngineError
from runtime.local.alignment import Alignments
from runtime.local.dataflow import Dataflow, SourceInput
from runtime.local.job_settings import EPOCH_MAX_ROWS, MAX_ROWS_PER_SECOND, AllAvailable, JobSettings
from runtime.local.restarts import Restarts
from runtime.local.source_inputs import SourceContext, SourceInputs
from runtime.plan.nodes import PhysicalNode, SourceExec

__all__ = ["Job"]

IDLE_WAIT_SECONDS = 0.01


class Job:
    """Runs plans until their input ends or somebody stops it.

    `epochs` yields after each epoch the changes of every root; `run` drains it. A failed job has aborted its sinks; a
    finished or cancelled one has committed them.
    """

    def __init__(self, name: str, roots: Sequence[PhysicalNode], settings: JobSettings) -> None:
        self.name = name
        self._settings = settings
        rejections = settings.rejected.for_job(name, settings.time_zone)
        self.dataflow = Dataflow(
            roots,
            settings.options,
            settings.functions,
            settings.time_zone,
            rejections,
            checked=settings.checked,
            job=name,
        )
        self._cancelled = threading.Event()
        self._ended = False
        self.status = "CREATED"
        self.error: SqlEngineError | None = None
        try:
            self._sources = [
                SourceInputs(
                    node,
                    SourceContext(settings.time_zone, node.name, rejections),
                    settings.clock,
                    rows_per_second=settings.options.get(MAX_ROWS_PER_SECOND),
                )
                for node in self.dataflow.sources
            ]
        except BaseException:
            self.dataflow.abort()
            raise
        self._finished_sources: set[int] = set()
        self._idle: dict[int, frozenset[str]] = {}
        self._alignments = Alignments(self._sources)
        self._reading: ThreadPoolExecutor | None = None
        self._restarts = None if settings.restarts is None else Restarts(settings.restarts)
        self.on_epoch: Callable[[Job], None] | None = None
        """Called after every epoch: for live progress."""

    @property
    def bounded(self) -> bool:
        """Whether the input ends by itself."""
        return all(s.node.table.bounded for s in self._sources)

    @property
    def finished(self) -> bool:
        return all(s.finished for s in self._sources)

    def cancel(self) -> None:
        """Stop after the epoch at hand."""
        self._cancelled.set()

    def advance(self) -> tuple[list[ChangelogBatch | None], bool]:
        """One epoch of what the sources have now: the roots' changes, and whether any source gave a row, came to its
        end or became idle. When it raises, the job has failed."""
        try:
            return self._advance()
        except BaseException as error:
            self._fail(error)
            raise

    def _advance(self) -> tuple[list[ChangelogBatch | None], bool]:
        self.status = "RUNNING"
        cut = self._settings.cut or AllAvailable(self._settings.options.get(EPOCH_MAX_ROWS))
        allowed = cut.rows([s.node for s in self._sources], self.dataflow.epoch)
        given: dict[SourceExec, SourceInput] = {}
        limits = self._alignments.limits()
        moved = not self._sources and self.dataflow.epoch == 0
        for index, (source, rows) in enumerate(zip(self._sources, allowed, strict=True)):
            polled = source.poll(rows, limits.get(id(source), MAX_WATERMARK))
            given[source.node] = polled
            moved |= polled.batch is not None or self._has_become_idle(index, polled)
            if polled.finished and index not in self._finished_sources:
                self._finished_sources.add(index)
                moved = True
        if self._settings.cut is None:
            self._read_ahead(allowed)
        outputs = self.dataflow.step(given, self._settings.clock.now())
        self._alignments.note(self.dataflow)
        if self._restarts is not None:
            self._restarts.after_epoch(self.dataflow)
        return outputs, moved

    def _has_become_idle(self, index: int, polled: SourceInput) -> bool:
        """Whether a source, or one of its splits, no longer holds back time and did so before."""
        splits = polled.splits.idle if polled.splits is not None else frozenset()
        idle = splits | {""} if polled.idle else splits
        before, self._idle[index] = self._idle.get(index, frozenset()), idle
        return not idle <= before

    def begin_flush(self) -> None:
        """From now on `flushed` tells whether all input that was there at this moment has been taken (see
        `SourceInputs`)."""
        for source in self._sources:
            source.begin_flush()

    @property
    def flushed(self) -> bool:
        return all(s.flushed for s in self._sources)

    def _read_ahead(self, allowed: Sequence[int]) -> None:
        """Begin to read the next epoch's input on another thread. Not with a cut of one's own: it may ask for other
        rows then."""
        if self._reading is None:
            if not any(s.wants_read_ahead for s in self._sources):
                return
            self._reading = ThreadPoolExecutor(1, thread_name_prefix=f"{self.name} reads")
        for source, rows in zip(self._sources, allowed, strict=True):
            source.read_ahead(rows, self._reading)

    def epochs(
        self, pause: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> Iterator[list[ChangelogBatch | None]]:
        """Epoch after epoch, until the input ends or `cancel`; then the sinks are committed. On an error they are
        aborted.

        `pause` is entered between epochs, and while there is no input: there a driver gives up what others need.
        """
        self.status = "RUNNING"
        try:
            while not self._cancelled.is_set():
                outputs, moved = self.advance()
                if self.on_epoch is not None:
                    self.on_epoch(self)
                yield outputs
                if self.finished or self.dataflow.complete:
                    break
                with pause():
                    if not moved:
                        self._cancelled.wait(IDLE_WAIT_SECONDS)
        except GeneratorExit:
            self.close()
            raise
        except BaseException as error:
            self._fail(error)
            raise
        self.close()

    def run(self) -> None:
        """Drain all epochs."""
        for _ in self.epochs():
            pass

    def close(self) -> None:
        """Stop for good: sinks are committed. Nothing happens to a job that has ended or failed."""
        if self._ended:
            return
        self._ended = True
        try:
            self._close_sources()
            self.dataflow.finish()
        except BaseException as error:
            self._note_failure(error)
            raise
        over = self.finished or self.dataflow.complete
        self.status = "FINISHED" if over and not self._cancelled.is_set() else "CANCELED"

    def _fail(self, error: BaseException) -> None:
        """Give up because of an error: sinks are aborted. What goes wrong meanwhile is noted on the error."""
        if self._ended:
            return
        self._ended = True
        self._note_failure(error)
        for end in (self._close_sources, self.dataflow.abort):
            try:
                end()
            except Exception as later:
                error.add_note(f"then, while the job was given up: {later}")

    def _note_failure(self, error: BaseException) -> None:
        self.status = "FAILED"
        self.error = error if isinstance(error, SqlEngineError) else None

    def _close_sources(self) -> None:
        """Close all readers, once nobody reads any more."""
        if self._reading is not None:
            self._reading.shutdown(cancel_futures=True)
            self._reading = None
        with ExitStack() as closing:
            for source in self._sources:
                closing.callback(source.close)
