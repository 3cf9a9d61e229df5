"""Runs the records of a `.slt` file in a fresh environment and compares."""

from __future__ import annotations

import datetime as dt
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from connectors.memory.table import MemoryReader, MemoryTable
from runtime.core.changelog import UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.core.clock import VirtualClock
from runtime.core.errors import FormatError, SqlEngineError
from runtime.core.schema import Schema
from runtime.plan.nodes import SourceExec
from sqlengine.catalog.objects import CatalogView
from sqlengine.environment import TableEnvironment
from sqlengine.result import Result, fold
from sqlengine.testing.cells import batch_lines, row_lines
from sqlengine.testing.compare import Difference, Expectations, wrong_error
from sqlengine.testing.slt import Record, SltFile

__all__ = ["AS_WRITTEN", "CUTS", "Cut", "cuts_for", "run_file"]

FOLDER = "${dir}"
"""What stands in a file for the folder of its run."""


@dataclass(frozen=True)
class Cut:
    """How a run cuts epochs: rows per epoch for sources, and how a step of changes of a table in memory is divided.

    `exact`: changes are compared one by one; else only what they fold to. `restarts`: operators are made anew from
    saved state between epochs, of `parallelism` tasks each. `kept_keys`: so many keys of each operator may stay in
    memory, the others go to RocksDB after every epoch.
    """

    name: str
    rows: Callable[[random.Random], int] | None = None
    exact: bool = True
    restarts: bool = False
    parallelism: int = 1
    kept_keys: int | None = None

    def rows_of(self, sources: Sequence[SourceExec], epoch: int, chance: random.Random) -> list[int]:
        return [self.rows(chance) for _ in sources] if self.rows is not None else []


AS_WRITTEN = Cut("as written")
CUTS = (
    AS_WRITTEN,
    Cut("one row an epoch", lambda chance: 1, exact=False),
    Cut("all in one epoch", lambda chance: 10_000_000, exact=False),
    Cut("random epochs", lambda chance: chance.randint(1, 7), exact=False),
    Cut("restarts", lambda chance: chance.randint(1, 7), exact=False, restarts=True),
    Cut("three tasks", lambda chance: chance.randint(1, 40), exact=False, parallelism=3),
    Cut("three tasks, restarts", lambda chance: chance.randint(1, 7), exact=False, restarts=True, parallelism=3),
    Cut("rocksdb", lambda chance: chance.randint(1, 7), exact=False, kept_keys=3),
    Cut("rocksdb, restarts", lambda chance: chance.randint(1, 7), exact=False, restarts=True, kept_keys=2),
)


def cuts_for(file: SltFile) -> list[Cut]:
    """The ways in which a file is run in the matrix; one that says where its epochs end keeps them."""
    if not file.fixed_cuts:
        return list(CUTS)
    return [
        AS_WRITTEN,
        *(replace(cut, rows=None) for cut in CUTS if cut.restarts or cut.parallelism > 1 or cut.kept_keys is not None),
    ]


class _SourceCut:
    def __init__(self, cut: Cut, seed: int) -> None:
        self._cut = cut
        self._chance = random.Random(seed)

    def rows(self, sources: Sequence[SourceExec], epoch: int) -> Sequence[int]:
        return self._cut.rows_of(sources, epoch, self._chance)

    def divide(self, changes: ChangelogBatch) -> list[ChangelogBatch]:
        """The changes in steps; an update pair stays whole."""
        assert self._cut.rows is not None
        steps, at = [], 0
        kinds = changes.kinds_or_inserts()
        while at < len(changes):
            end = min(len(changes), at + self._cut.rows(self._chance))
            if end < len(changes) and kinds[end] == UPDATE_AFTER and kinds[end - 1] == UPDATE_BEFORE:
                end += 1
            steps.append(changes.slice(at, end - at))
            at = end
        return steps


class _Run:
    """One pass over a file."""

    def __init__(self, cut: Cut, options: dict[str, str], seed: int) -> None:
        self._cut = cut
        self._folder = tempfile.TemporaryDirectory(prefix="slt")
        self._clock = VirtualClock()
        self.environment = TableEnvironment.create(options, clock=self._clock)
        session = self.environment.session
        session.checked = True
        session.restarts = seed if cut.restarts else None
        session.job_options["parallelism.default"] = str(cut.parallelism)
        if cut.kept_keys is not None:
            session.job_options["state.backend.type"] = "rocksdb"
            session.job_options["sqlengine.state.keys-in-memory"] = str(cut.kept_keys)
        if cut.rows is not None:
            source_cut = _SourceCut(cut, seed)
            session.cut = source_cut
            session.publish_cut = source_cut.divide
        self._tables: dict[str, MemoryTable] = {}
        self._followed: dict[str, tuple[MemoryReader, Schema]] = {}
        self._folded: dict[str, list[ChangelogBatch]] = {}

    def actual(self, record: Record) -> list[str] | None:
        """The lines that a record gives, None for records that give none. Raises what the statement raises."""
        words = record.words
        sql = record.sql.replace(FOLDER, self._folder.name)
        match record.kind:
            case "statement":
                for result in self.environment.execute_script(sql):
                    if result.is_query:
                        result.wait()
                self._follow_new()
                return None
            case "query" if "text" in words:
                return self._text(self._last(sql))
            case "query":
                return self._rows(self._last(sql), sort="nosort" not in words)
            case "changelog":
                return self._changelog(self._last(sql))
            case "plan":
                return self._plan(sql)
            case "changes":
                return self._changes(words[0])
            case "file":
                path = Path(self._folder.name, words[0])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(record.sql + "\n" if record.sql else "", encoding="utf-8")
            case "files":
                return self._files(words[0])
            case "clock":
                moment = dt.datetime.fromisoformat(" ".join(words))
                self._clock.advance_to(int(moment.replace(tzinfo=dt.UTC).timestamp() * 1000))
                self.environment.session.views.tick()
            case "flush":
                self.environment.flush()
            case "set":
                self.environment.get_config().set(words[0], " ".join(words[1:]))
        return None

    def without_folder(self, text: str) -> str:
        """A text in which the folder of this run has its name in the file."""
        return text.replace(self._folder.name, FOLDER)

    def _last(self, sql: str) -> Result:
        *_, result = self.environment.execute_script(sql)
        return result

    def _rows(self, result: Result, *, sort: bool) -> list[str]:
        lines = [self.without_folder(line) for line in row_lines(result.folded(), result.schema, result.time_zone)]
        return sorted(lines) if sort else lines

    def _text(self, result: Result) -> list[str]:
        """The lines of the only cell; an empty one is `(empty)`, because a blank line ends a record."""
        (cell,) = (row[0] for row in result)
        return [line.rstrip() or "(empty)" for line in self.without_folder(str(cell)).splitlines()]

    def _files(self, name: str) -> list[str]:
        root = Path(self._folder.name, name)
        paths = [root] if root.is_file() else [p for p in root.rglob("*") if p.is_file()]
        return sorted(line for path in paths for line in path.read_text(encoding="utf-8").splitlines() if line)

    def _changelog(self, result: Result) -> list[str]:
        batches = list(result.changes())
        return self._lines(batches, batches, result.schema, result.time_zone)

    def _plan(self, sql: str) -> list[str]:
        """The last section of EXPLAIN CHANGELOG_MODE."""
        explained = self._last("EXPLAIN CHANGELOG_MODE " + sql).folded().column(0)[0].as_py()
        return explained.partition("== Physical Plan ==\n")[2].splitlines()

    def _lines(
        self, news: list[ChangelogBatch], so_far: list[ChangelogBatch], schema: Schema, time_zone: str
    ) -> list[str]:
        """Changes one by one, or what all of them so far fold to, sorted."""
        if self._cut.exact:
            return [line for batch in news for line in batch_lines(batch, schema, time_zone)]
        return sorted("+I " + line for line in row_lines(fold(so_far, schema), schema, time_zone))

    def _follow_new(self) -> None:
        """Every table in memory is followed from its creation on, so that `changes` misses nothing."""
        session = self.environment.session
        for thing in session.catalogs.all_objects():
            table = None if isinstance(thing, CatalogView) else session.memory.get(thing.storage)
            if table is not None and self._tables.get(thing.path.name) is not table:
                self._tables[thing.path.name] = table
                self._followed[thing.path.name] = (table.follow(), table.schema)
                self._folded[thing.path.name] = []

    def _changes(self, name: str) -> list[str]:
        self._follow_new()
        if name not in self._followed:
            raise FormatError(f"'{name}' is no table in memory and no materialized view", code="E3302")
        for view in self.environment.session.views.jobs():
            if view.path.name == name and view.failure is not None:
                raise view.failure
        reader, schema = self._followed[name]
        steps = []
        while (step := reader.poll(1)) is not None:
            steps.append(step)
        self._folded[name].extend(steps)
        return self._lines(steps, self._folded[name], schema, self.environment.session.time_zone)

    def close(self) -> None:
        self.environment.close()
        self._folder.cleanup()


def run_file(
    file: SltFile,
    cut: Cut = AS_WRITTEN,
    options: dict[str, str] | None = None,
    seed: int = 0,
    on_actual: Callable[[Record, list[str]], None] | None = None,
) -> list[Difference]:
    """Run all records; gives the differences. `on_actual` hears what came out of each record that has a rule (for
    --rewrite)."""
    run = _Run(cut, dict(options or {}), seed)
    found: list[Difference] = []
    wanted = Expectations(cut.exact)

    def differs(record: Record, problem: str, expected: Sequence[str] = (), actual: Sequence[str] = ()) -> None:
        found.append(
            Difference(file.path, record.line, cut.name, record.shown, problem, tuple(expected), tuple(actual))
        )

    try:
        for record in file.records:
            try:
                actual = run.actual(record)
            except SqlEngineError as error:
                message = run.without_folder(str(error))
                if not record.must_fail:
                    differs(record, f"failed: {message}")
                    if record.kind == "statement":
                        break  # what follows would only fail because this did
                    continue
                if on_actual is not None and record.expected is not None:
                    on_actual(record, [message])
                problem = wrong_error(record, error.code, message)
                if problem is not None:
                    differs(record, problem, record.expected or (), [message])
                continue
            if record.must_fail:
                differs(record, "succeeded, but must fail")
            if actual is None:
                continue
            if on_actual is not None:
                on_actual(record, actual)
            expected = wanted.of(record)
            if actual != expected:
                differs(record, "differs" if cut.exact else "differs when folded", expected, actual)
    finally:
        run.close()
    return found
