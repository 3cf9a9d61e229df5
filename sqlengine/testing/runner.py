"""Runs the records of a `.slt` file in a fresh environment and compares."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from connectors.memory.table import MemoryReader
from runtime.core.changelog import UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.core.clock import VirtualClock
from runtime.core.errors import FormatError, SqlEngineError
from runtime.core.schema import Schema
from runtime.plan.nodes import SourceExec
from sqlengine.catalog.objects import CatalogView
from sqlengine.environment import TableEnvironment
from sqlengine.result import Result, fold
from sqlengine.testing.cells import batch_lines, row_lines
from sqlengine.testing.slt import Record, SltFile

__all__ = ["AS_WRITTEN", "CUTS", "Cut", "Difference", "run_file"]


@dataclass(frozen=True)
class Cut:
    """How a run cuts epochs: rows per epoch for sources, and how a step of changes of a table in memory is divided.

    `exact`: changes are compared one by one; else only what they fold to.
    """

    name: str
    rows: Callable[[random.Random], int] | None = None
    exact: bool = True

    def rows_of(self, sources: Sequence[SourceExec], epoch: int, chance: random.Random) -> list[int]:
        return [self.rows(chance) for _ in sources] if self.rows is not None else []


AS_WRITTEN = Cut("as written")
CUTS = (
    AS_WRITTEN,
    Cut("one row an epoch", lambda chance: 1, exact=False),
    Cut("all in one epoch", lambda chance: 10_000_000, exact=False),
    Cut("random epochs", lambda chance: chance.randint(1, 7), exact=False),
)


@dataclass(frozen=True)
class Difference:
    """What did not come out as the file says."""

    path: Path
    line: int
    cut: str
    sql: str
    problem: str
    expected: tuple[str, ...]
    actual: tuple[str, ...]


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

    def __init__(self, file: SltFile, cut: Cut, options: dict[str, str], seed: int) -> None:
        self._file = file
        self._cut = cut
        self._clock = VirtualClock()
        self.environment = TableEnvironment.create(options, clock=self._clock)
        session = self.environment.session
        session.checked = True
        if cut.rows is not None:
            source_cut = _SourceCut(cut, seed)
            session.cut = source_cut
            session.publish_cut = source_cut.divide
        self._followed: dict[str, tuple[MemoryReader, Schema]] = {}
        self._folded: dict[str, list[ChangelogBatch]] = {}

    def actual(self, record: Record) -> list[str] | None:
        """The lines that a record gives, None for records that give none. Raises what the statement raises."""
        words = record.words
        match record.kind:
            case "statement":
                results = self.environment.execute_script(record.sql)
                for result in results:
                    if result.is_query:
                        result.wait()
                self._follow_new()
                return None
            case "query":
                return self._rows(self._last(record.sql), sort="nosort" not in words)
            case "changelog":
                return self._changelog(self._last(record.sql))
            case "plan":
                return self._plan(record.sql)
            case "changes":
                return self._changes(words[0])
            case "clock":
                moment = dt.datetime.fromisoformat(" ".join(words))
                self._clock.advance_to(int(moment.replace(tzinfo=dt.UTC).timestamp() * 1000))
                self.environment.session.views.tick()
                return None
            case "flush":
                self.environment.flush()
                return None
            case "set":
                self.environment.get_config().set(words[0], " ".join(words[1:]))
                return None
            case _:
                return None

    def _last(self, sql: str) -> Result:
        *_, result = self.environment.execute_script(sql)
        return result

    def _rows(self, result: Result, *, sort: bool) -> list[str]:
        lines = row_lines(result.folded(), result.schema, result.time_zone)
        return sorted(lines) if sort else lines

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
            if (
                not isinstance(thing, CatalogView)
                and thing.path.name not in self._followed
                and thing.path in session.memory
            ):
                table = session.memory[thing.path]
                self._followed[thing.path.name] = (table.follow(), table.schema)
                self._folded[thing.path.name] = []

    def _changes(self, name: str) -> list[str]:
        self._follow_new()
        if name not in self._followed:
            raise FormatError(f"'{name}' is no table in memory and no materialized view", code="E3302")
        reader, schema = self._followed[name]
        steps = []
        while (step := reader.poll(1)) is not None:
            steps.append(step)
        self._folded[name].extend(steps)
        return self._lines(steps, self._folded[name], schema, self.environment.session.time_zone)

    def close(self) -> None:
        self.environment.close()


def run_file(
    file: SltFile,
    cut: Cut = AS_WRITTEN,
    options: dict[str, str] | None = None,
    seed: int = 0,
    on_actual: Callable[[Record, list[str]], None] | None = None,
) -> list[Difference]:
    """Run all records; gives the differences. `on_actual` hears what came out of each record that has a rule (for --rewrite)."""
    differences: list[Difference] = []
    run = _Run(file, cut, dict(options or {}), seed)
    expected_changes: dict[str, Counter[str]] = {}
    try:
        for record in file.records:
            try:
                actual = run.actual(record)
            except SqlEngineError as error:
                if record.kind == "statement" and record.words[:1] == ("error",):
                    found = _check_error(file, cut, record, error)
                    if on_actual is not None and record.expected is not None:
                        on_actual(record, [str(error)])
                    differences.extend([found] if found is not None else [])
                    continue
                differences.append(Difference(file.path, record.line, cut.name, record.sql, f"failed: {error}", (), ()))
                if record.kind == "statement":
                    break
                continue
            if record.kind == "statement" and record.words[:1] == ("error",):
                differences.append(
                    Difference(file.path, record.line, cut.name, record.sql, "succeeded, but must fail", (), ())
                )
            if actual is None:
                continue
            if on_actual is not None:
                on_actual(record, actual)
                continue
            expected = _expected(record, cut, expected_changes)
            shown = list(record.expected or [])
            if actual != expected:
                problem = "differs" if cut.exact else "differs when folded"
                differences.append(
                    Difference(
                        file.path,
                        record.line,
                        cut.name,
                        record.sql or " ".join((record.kind, *record.words)),
                        problem,
                        tuple(expected or shown),
                        tuple(actual),
                    )
                )
    finally:
        run.close()
    return differences


def _check_error(file: SltFile, cut: Cut, record: Record, error: SqlEngineError) -> Difference | None:
    code = record.words[1] if len(record.words) > 1 else None
    wanted = "\n".join(record.expected or [])
    if code is not None and error.code != code:
        return Difference(
            file.path,
            record.line,
            cut.name,
            record.sql,
            f"fails with {error.code} instead of {code}",
            (),
            (str(error),),
        )
    if wanted and re.sub(r"\s+", " ", wanted) not in re.sub(r"\s+", " ", str(error)):
        return Difference(
            file.path,
            record.line,
            cut.name,
            record.sql,
            "fails with another message",
            tuple(record.expected or ()),
            (str(error),),
        )
    return None


def _expected(record: Record, cut: Cut, so_far: dict[str, Counter[str]]) -> list[str]:
    """The expected lines, folded when the run does not cut epochs as written."""
    lines = list(record.expected or [])
    if record.kind == "plan":
        return lines
    if record.kind == "query":
        return lines if "nosort" in record.words else sorted(lines)
    if cut.exact:
        return lines
    live = so_far.setdefault(record.words[0], Counter()) if record.kind == "changes" else Counter()
    for line in lines:
        live[line[3:]] += 1 if line[:2] in ("+I", "+U") else -1
    return sorted("+I " + row for row in live.elements())
