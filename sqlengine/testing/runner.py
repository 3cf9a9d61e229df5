"""Runs the records of a `.slt` file in a fresh environment and compares."""

from __future__ import annotations

import functools
import importlib.util
import json
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.core.changelog import UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.core.errors import InternalError, SqlEngineError
from runtime.core.schema import Schema
from runtime.expr.function import FunctionRegistry
from runtime.plan.json import encode_plan
from runtime.plan.nodes import PhysicalNode, SourceExec
from runtime.plan.stored import decode_plan
from runtime.plan.walk import walk_all
from runtime.spark.options import MODE
from runtime.spark.simulated import SimulatedCluster
from runtime.tasks.processes import ProcessExecutor
from sqlengine.options.target import TARGET
from sqlengine.results.result import Result
from sqlengine.statements.settings import TARGET_OPTIONS
from sqlengine.testing.cells import batch_lines, row_lines
from sqlengine.testing.compare import WHEN_FOLDED, Difference, Expectations, wrong_error
from sqlengine.testing.simulated import SimulatedEnvironment
from sqlengine.testing.slt import Record, SltFile

__all__ = [
    "AS_WRITTEN",
    "CUTS",
    "PROCESS_CUTS",
    "SPARK_CUTS",
    "Cut",
    "cuts_for",
    "cuts_left_out",
    "process_cuts_for",
    "run_file",
    "spark_cuts_for",
]

FOLDER = "${dir}"
"""What stands in a file for the folder of its run."""


@dataclass(frozen=True)
class Cut:
    """How a run cuts epochs: rows per epoch for sources, and how a step of changes of a table in memory is divided.

    `exact`: changes are compared one by one; else only what they fold to. `restarts`: operators are made anew from
    saved state between epochs, of `parallelism` tasks each. `kept_keys`: so many keys of each operator may stay in
    memory, the others go to RocksDB after every epoch. `piece`: joins give so few rows at once. `spark`: operators run
    in the tasks of Spark, long-lived ones or, `per_epoch`, those of a Spark job. `simulated`: in those of a simulated
    cluster, on which tasks fail and run twice. `processes`: in processes of this machine. `stored`: plans are compared
    with what comes back of them from JSON.
    """

    name: str
    rows: Callable[[random.Random], int] | None = None
    exact: bool = True
    restarts: bool = False
    parallelism: int = 1
    kept_keys: int | None = None
    piece: int | None = None
    spark: bool = False
    per_epoch: bool = False
    simulated: bool = False
    processes: bool = False
    stored: bool = False

    @property
    def lacks(self) -> str | None:
        """The extra of sqlengine to install, where a library is not there that this needs."""
        library, extra = ("rocksdict", "rocksdb") if self.kept_keys is not None else ("pyspark", "spark")
        wanted = self.kept_keys is not None or self.spark or self.simulated
        return extra if wanted and importlib.util.find_spec(library) is None else None

    def rows_of(self, sources: Sequence[SourceExec], epoch: int, chance: random.Random) -> list[int]:
        return [self.rows(chance) for _ in sources] if self.rows is not None else []


AS_WRITTEN = Cut("as written")
CUTS = (
    AS_WRITTEN,
    Cut("one row an epoch", lambda chance: 1, exact=False),
    Cut("all in one epoch", lambda chance: 10_000_000, exact=False, piece=3),
    Cut("random epochs", lambda chance: chance.randint(1, 7), exact=False),
    Cut("restarts", lambda chance: chance.randint(1, 7), exact=False, restarts=True),
    Cut("three tasks", lambda chance: chance.randint(1, 40), exact=False, parallelism=3, piece=2, stored=True),
    Cut("three tasks, restarts", lambda chance: chance.randint(1, 7), exact=False, restarts=True, parallelism=3),
    Cut("rocksdb", lambda chance: chance.randint(1, 7), exact=False, kept_keys=3),
    Cut("rocksdb, restarts", lambda chance: chance.randint(1, 7), exact=False, restarts=True, kept_keys=2, piece=1),
    Cut("tasks of a cluster", lambda chance: chance.randint(1, 40), exact=False, parallelism=3, simulated=True),
)
SPARK_CUTS = (
    Cut("spark, as written", spark=True),
    Cut("spark", lambda chance: chance.randint(1, 40), exact=False, parallelism=2, spark=True),
    Cut("spark, three partitions", lambda chance: chance.randint(1, 7), exact=False, parallelism=3, spark=True),
    Cut("spark, a job an epoch, as written", spark=True, per_epoch=True),
    Cut(
        "spark, a job an epoch", lambda chance: chance.randint(1, 40), False, parallelism=2, spark=True, per_epoch=True
    ),
)
"""With one task what comes out is what comes out embedded, change by change. There are two tasks for three partitions."""


PROCESS_CUTS = tuple(
    replace(cut, name=cut.name.replace("spark", "processes"), spark=False, processes=True) for cut in SPARK_CUTS[:2]
)


def spark_cuts_for(file: SltFile) -> list[Cut]:
    """The ways in which a file is run on Spark."""
    return [replace(cut, rows=None) if file.fixed_cuts else cut for cut in SPARK_CUTS]


def process_cuts_for(file: SltFile) -> list[Cut]:
    """The ways in which a file is run in processes."""
    return [replace(cut, rows=None) if file.fixed_cuts else cut for cut in PROCESS_CUTS]


@functools.cache
def _processes() -> ProcessExecutor:
    """Those of all files: to start one takes longer than most files."""
    return ProcessExecutor()


def cuts_for(file: SltFile) -> list[Cut]:
    """The ways in which a file is run in the matrix, as far as their libraries are there; one that says where its
    epochs end keeps them."""
    cuts = [cut for cut in CUTS if cut.lacks is None]
    if not file.fixed_cuts:
        return cuts
    return [
        AS_WRITTEN,
        *(replace(cut, rows=None) for cut in cuts if cut.restarts or cut.parallelism > 1 or cut.kept_keys is not None),
    ]


def cuts_left_out() -> list[tuple[str, str]]:
    """The ways of the matrix whose library is not there, and the extra of sqlengine that brings it."""
    return [(cut.name, cut.lacks) for cut in CUTS if cut.lacks is not None]


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


def _check_stored(roots: Sequence[PhysicalNode], functions: FunctionRegistry) -> None:
    """Plans come back from JSON as they are. Raises InternalError for those that do not, and FormatError for those that are
    not taken for plans at all."""
    plan = encode_plan(roots)
    tables = iter([node.outside for node in walk_all(roots) if node.outside is not None])
    found = decode_plan(json.loads(json.dumps(plan)), lambda *_: next(tables), functions)
    if encode_plan(found) != plan or found != tuple(roots):
        raise InternalError("a plan that comes back from JSON is another one")


class _Run:
    """One pass over a file."""

    def __init__(self, cut: Cut, options: dict[str, str], seed: int, home: Path) -> None:
        self._cut = cut
        self._home = home
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        # Where a file runs is nothing that its SET statements show.
        where = {key: options.pop(key) for key in [o.key for o in TARGET_OPTIONS] if key in options}
        self.environment = SimulatedEnvironment.create(options)
        session = self.environment.session
        session.harness.job_options.update(where)
        session.harness.restarts = seed if cut.restarts else None
        session.harness.job_options["parallelism.default"] = str(cut.parallelism)
        if cut.piece is not None:
            session.harness.job_options["sqlengine.batch.max-rows"] = str(cut.piece)
        if cut.spark or cut.simulated:
            session.harness.job_options[TARGET.key] = "spark"
            session.harness.job_options[MODE.key] = "per-epoch" if cut.per_epoch else "continuous"
        if cut.simulated:
            session.target.cluster = SimulatedCluster(seed)
        if cut.processes:
            session.harness.job_options[TARGET.key] = "processes"
            session.target.processes = _processes()
        if cut.kept_keys is not None:
            session.harness.job_options["state.backend.type"] = "rocksdb"
            session.harness.job_options["sqlengine.state.keys-in-memory"] = str(cut.kept_keys)
        if cut.stored:
            session.on_job = lambda job: _check_stored(job.roots, session.functions)
        if cut.rows is not None:
            source_cut = _SourceCut(cut, seed)
            session.harness.cut = source_cut
            session.harness.publish_cut = source_cut.divide
        self._steps: dict[str, list[ChangelogBatch]] = {}

    def actual(self, record: Record) -> list[str] | None:
        """The lines that a record gives, None for records that give none. Raises what the statement raises."""
        words = record.words
        sql = self._with_folder(record.sql)
        match record.kind:
            case "statement":
                for result in self.environment.execute_script(sql):
                    if result.is_query:
                        result.wait()
                self.environment.follow_new()
            case "query" if "text" in words:
                return self._text(self._last(sql))
            case "query":
                return self._rows(self._last(sql), sort="nosort" not in words)
            case "table":
                return self._rows(self._last(f"SELECT * FROM {words[0]}"), sort="nosort" not in words)
            case "changelog":
                return self._changelog(self._last(sql))
            case "plan":
                return self._plan(sql)
            case "changes":
                return self._changes(words[0])
            case "late":
                return self.environment.late()
            case "rejected":
                return self.environment.rejected()
            case "file":
                path = Path(self._root, words[0])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(record.sql + "\n" if record.sql else "", encoding="utf-8")
            case "files":
                return self._files(words[0])
            case _:
                self._act(record)
        return None

    def _act(self, record: Record) -> None:
        """Records that change something and give nothing."""
        words, environment = record.words, self.environment
        match record.kind:
            case "include":
                given = self._with_folder(" ".join(words))
                environment.include(self._home / given)
            case "connectors":
                environment.replace_connectors(words[0] == "replaced")
            case "job":
                environment.keep_inserts(self._with_folder(record.sql))
            case "input":
                columns = tuple(w.strip("(),") for w in words[1:] if w.strip("(),"))
                environment.input(words[0], *record.sql.splitlines(), columns=columns)
            case "epoch":
                with environment.epoch():
                    for line in record.sql.splitlines():
                        table, _, row = line.strip().partition(" ")
                        environment.input(table, row)
            case "advance":
                _advance(environment, words)
            case "idle" | "active":
                environment.idle(words[0], record.kind == "idle")
            case "restart":
                environment.restart()
            case "clock":
                environment.advance_clock(" ".join(words))
            case "flush":
                environment.flush()
            case "set":
                environment.get_config().set(words[0], " ".join(words[1:]))
            case _:
                pass  # 'cuts' is about the file

    @property
    def _root(self) -> str:
        """The folder of the run, made when it is first asked for."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="slt")
        return self._folder.name

    def _with_folder(self, text: str) -> str:
        return text.replace(FOLDER, self._root) if FOLDER in text else text

    def without_folder(self, text: str) -> str:
        """A text in which the folder of this run has its name in the file."""
        return text if self._folder is None else text.replace(self._folder.name, FOLDER)

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
        root = Path(self._root, name)
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
        return self.environment.folded_lines(so_far, schema)

    def _changes(self, name: str) -> list[str]:
        steps = self.environment.new_steps(name)
        so_far = self._steps.setdefault(name, [])
        so_far.extend(steps)
        return self._lines(steps, so_far, self.environment.schema_of(name), self.environment.session.time_zone)

    def close(self) -> None:
        self.environment.close()
        if self._folder is not None:
            self._folder.cleanup()


def _advance(environment: SimulatedEnvironment, words: Sequence[str]) -> None:
    """`advance clock to|by ..`, `advance watermark [of TABLE] to|by ..`."""
    what, *rest = words
    table = None
    if rest[:1] == ["of"]:
        table, rest = rest[1], rest[2:]
    how, amount = rest[0], " ".join(rest[1:])
    given = {how: amount}
    if what == "clock":
        environment.advance_clock(**given)
    else:
        environment.advance_watermark(**given, of=table)


def run_file(
    file: SltFile,
    cut: Cut = AS_WRITTEN,
    options: dict[str, str] | None = None,
    seed: int = 0,
    on_actual: Callable[[Record, list[str]], None] | None = None,
) -> list[Difference]:
    """Run all records; gives the differences. `on_actual` hears what came out of each record that has a rule (for
    --rewrite)."""
    run = _Run(cut, dict(options or {}), seed, file.path.parent)
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
                    place = f"{error.source}: " if error.source else ""
                    differs(record, f"failed: {place}{message}")
                    if record.kind in ("statement", "include", "job"):
                        break  # what follows would only fail because this did
                    continue
                problem = wrong_error(record, error.code, message)
                if problem is not None:
                    if on_actual is not None and record.expected is not None:
                        on_actual(record, [message])
                    differs(record, problem, record.expected or (), [message])
                continue
            except Exception as error:
                differs(record, f"failed: internal error, a bug of sqlengine: {type(error).__name__}: {error}")
                break
            if record.must_fail:
                differs(record, "succeeded, but must fail")
            if actual is None:
                continue
            if on_actual is not None:
                on_actual(record, actual)
            expected = wanted.of(record)
            if actual != expected:
                differs(record, "differs" + ("" if cut.exact else WHEN_FOLDED), expected, actual)
    finally:
        run.close()
    return found
