"""An environment for tests: time, sources and sinks are in the hands of the test.

Processing time stands still until it is told to move, event time can be moved without rows, sources are told to be
idle, operators are made anew from their saved state. Nothing waits for real time. `.slt` files are run in one, and the
pytest fixture `t_env` is one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from connectors.memory.table import MemoryReader, MemoryTable
from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MIN_WATERMARK, VirtualClock
from runtime.core.errors import FormatError, SqlEngineError
from runtime.core.options import parse_duration
from runtime.core.schema import Schema
from runtime.core.types import TypeRoot
from runtime.expr.zones import local_to_instant
from runtime.state.snapshot import SavedState
from sqlengine.api.environment import TableEnvironment, located
from sqlengine.catalog.objects import CatalogTable, CatalogView, MaterializedView
from sqlengine.database.session import Session
from sqlengine.options.dialect import DIALECT
from sqlengine.parameters.binding import Parameters
from sqlengine.parse import parse_script
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result, fold
from sqlengine.statements.dispatch import execute
from sqlengine.statements.planning import object_schema
from sqlengine.statements.settings import set_value
from sqlengine.testing.cells import batch_lines, row_lines
from sqlengine.testing.input_rows import InputRow, changes_of
from sqlengine.testing.kept_inserts import keep_insert
from sqlengine.testing.stand_ins import stand_in

__all__ = ["SimulatedEnvironment", "moment"]


def moment(text: str) -> dt.datetime:
    """A time as files and tests write it: `2024-01-01 00:00:10`, `2024-01-01`. FormatError E3304 for another text."""
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise FormatError(f"'{text}' is no time", code="E3304", hint="write it like 2024-01-01 00:00:10") from error


class SimulatedEnvironment(TableEnvironment):
    """A `TableEnvironment` for tests; see `create` for what differs.

        with SimulatedEnvironment.create() as t_env:
            t_env.include("production.sql")
            t_env.input("orders", "+I 1 | ann | 10")
            t_env.advance_watermark("2024-01-01 00:05:00")
            assert t_env.changes("spent") == ["+I ann | 10"]

    Rows and changes are given as lines: cells with ` | ` between them, for changes the row kind first.
    """

    def __init__(self, session: Session, clock: VirtualClock) -> None:
        super().__init__(session)
        self.clock = clock
        self._tables: dict[str, MemoryTable] = {}
        self._followed: dict[str, tuple[MemoryReader, Schema]] = {}
        self._rejected_told = 0

    @staticmethod
    def create(  # type: ignore[override]
        config: Mapping[str, str] | None = None, *, replace_connectors: bool = False
    ) -> SimulatedEnvironment:
        """A new environment, at 1970-01-01, all operators guarded by the checks of the engine's own tests.

        Args:
            config: options as in SET.
            replace_connectors: tables with a connector become tables in memory from the start.
        """
        clock = VirtualClock()
        session = Session(clock=clock)
        session.harness.checked = True
        for key, value in (config or {}).items():
            set_value(session, key, str(value))
        made = SimulatedEnvironment(session, clock)
        made.replace_connectors(replace_connectors)
        return made

    # --- the statements under test

    def _execute(self, statement: st.Statement, text: str, parameters: Parameters | None = None) -> Result:
        if not isinstance(statement, st.CreateMaterializedView):
            return super()._execute(statement, text, parameters)
        # A view over a connector is kept by a thread: that waits until the view is followed.
        with self.session.views.lock:
            result = super()._execute(statement, text)
            self.follow_new()
            return result

    def replace_connectors(self, on: bool = True) -> None:
        """From now on a table that is created with a connector is one in memory, which `input` fills and `changes`
        shows; or (not `on`) it is as it is declared."""
        self.session.harness.stand_in = stand_in if on else None

    def include(self, path: str | Path) -> None:
        """Carry out a file of SQL as it is in production, all connectors replaced.

        Its INSERTs are kept up to date in step with the input; its SELECTs are left out. Raises FormatError E3300 for a
        file that cannot be read, and what its statements raise.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(f"cannot read {path}", code="E3300", hint="check the path of the SQL file") from error
        before = self.session.harness.stand_in
        self.replace_connectors()
        try:
            for statement in parse_script(text, self.session.options.get(DIALECT)):
                if isinstance(statement, st.Insert | st.StatementSet):
                    keep_insert(statement, self.session)
                elif not isinstance(statement, st.QueryStatement | st.Subscribe):
                    execute(statement, self.session).wait()
        except SqlEngineError as error:
            error.source = error.source or str(path)
            raise located(error, text) from error.__cause__
        finally:
            self.session.harness.stand_in = before
        self.follow_new()

    def keep_inserts(self, script: str) -> None:
        """INSERT statements as jobs that go on: what comes in later is written, too, in step with the input."""
        try:
            for statement in parse_script(script, self.session.options.get(DIALECT)):
                if not isinstance(statement, st.Insert | st.StatementSet):
                    raise FormatError("a job is made of INSERT statements", code="E3301", span=statement.span)
                keep_insert(statement, self.session)
        except SqlEngineError as error:
            raise located(error, script) from error.__cause__
        self.follow_new()

    # --- input

    def input(self, table: str, *rows: InputRow, columns: Sequence[str] = ()) -> None:
        """Changes of a table as one epoch (inside `epoch()`: a part of it).

        Args:
            rows: lines such as `-D 1 | ann`, or tuples of values with or without a row kind before them.
            columns: which columns they give; all when there are none.
        Raises:
            FormatError: E3302 for a table that is not in memory, E3304 for what is no value.
        """
        found, memory = self._source(table)
        self.session.to_write(found).apply(changes_of(self, table, memory.schema, memory.primary_key, columns, rows))
        memory.idle = False
        self.session.publish([memory])
        self._check_views()
        self.follow_new()

    @contextmanager
    def epoch(self) -> Iterator[None]:
        """What is given inside comes as one epoch."""
        self.execute_sql("BEGIN EPOCH")
        try:
            yield
        finally:
            self.execute_sql("END EPOCH")
        self._check_views()

    # --- time

    def advance_clock(self, to: str | None = None, *, by: str | None = None) -> None:
        """Move processing time to a time (UTC), or on by a duration such as `10 s`."""
        target = self.clock.now() + parse_duration(by) if by is not None else _utc(moment(to or ""))
        if target < self.clock.now():
            raise FormatError(
                f"the clock is at {_shown(self.clock.now())} and does not go back", code="E3304", hint="move it on"
            )
        with self.session.views.lock:
            # Nobody is faster: all views take one epoch.
            self.clock.advance_to(target)
            self.session.views.tick()
        self._check_views()

    def advance_watermark(self, to: str | None = None, *, by: str | None = None, of: str | None = None) -> None:
        """Move event time without a row: the watermark of a table, or of all that have one, to a time or on by a
        duration. A watermark does not go back: one that is further stays."""
        for table in self._timed(of):
            memory = self.session.memory_table(table)
            if by is not None:
                memory.tell_time(max(memory.watermark, self._watermark(memory)) + parse_duration(by), memory.idle)
            else:
                memory.tell_time(self._event_time(table, moment(to or "")), memory.idle)
        self._time_moves()

    def idle(self, table: str, on: bool = True) -> None:
        """Nobody waits for the watermark of a table any more, until it gives rows (or `on` is false)."""
        _, memory = self._source(table)
        memory.idle = on
        self._time_moves()

    def _time_moves(self) -> None:
        with self.session.views.lock:
            self.session.views.tick()
        self._check_views()

    def _timed(self, name: str | None) -> list[CatalogTable]:
        """The tables in memory with a watermark, or the one of that name."""
        if name is not None:
            table, _ = self._source(name)
            if table.watermark is None:
                raise FormatError(f"{name} has no watermark", code="E3302", hint="declare WATERMARK FOR in the table")
            return [table]
        objects = self.session.catalogs.all_objects()
        timed = [o for o in objects if isinstance(o, CatalogTable) and o.connector is None and o.watermark is not None]
        if not timed:
            raise FormatError(
                "no table in memory has a watermark that could advance",
                code="E3302",
                hint="declare WATERMARK FOR in a table; processing time is moved by 'advance clock'",
            )
        return timed

    def _watermark(self, memory: MemoryTable) -> int:
        """How far the views that read a table have come in its event time."""
        found = [MIN_WATERMARK]
        for view in self.session.views.jobs():
            flow = view.job.dataflow
            found += [flow.progress(source)[0] for source in flow.sources if source.table is memory]
        known = [mark for mark in found if mark != MIN_WATERMARK]
        if not known and memory.watermark == MIN_WATERMARK:
            raise FormatError(
                f"{memory.name} has no watermark yet that could move on", code="E3304", hint="say to which time"
            )
        return max(known, default=MIN_WATERMARK)

    def _event_time(self, table: CatalogTable, at: dt.datetime) -> int:
        """A time in terms of a table's watermark: of TIMESTAMP_LTZ it is as the session's clock on the wall shows it."""
        assert table.watermark is not None
        schema = object_schema(self.session, table)
        type_ = schema[schema.index_of(table.watermark.column[0])].type
        if type_.root is TypeRoot.TIMESTAMP_LTZ and at.tzinfo is None:
            return int(local_to_instant(np.array([_utc(at)]), self.session.time_zone, "ms")[0])
        return _utc(at)

    # --- restarts

    def restart(self) -> None:
        """All operators are thrown away and made anew from their saved state, as after a crash between two epochs."""
        for view in self.session.views.jobs():
            if not view.ended and self.session.harness.restarts is None:
                flow = view.job.dataflow
                flow.renew({saved.name: SavedState.of([saved]) for saved in flow.image()})

    # --- what came out

    def changes(self, name: str) -> list[str]:
        """The changes of a table in memory, sink or materialized view since the last time, as lines."""
        steps = self.new_steps(name)
        _, schema = self._followed[name]
        return [line for batch in steps for line in batch_lines(batch, schema, self.session.time_zone)]

    def rows(self, name_or_query: str) -> list[str]:
        """The rows of a table, view or query as lines, sorted."""
        single = len(name_or_query.split()) == 1
        result = self.execute_sql(f"SELECT * FROM {name_or_query}" if single else name_or_query)
        return sorted(row_lines(result.folded(), result.schema, result.time_zone))

    def rejected(self, reason: str | None = None) -> list[str]:
        """Rows that could not be used since the last time, `job | reason | row`; `late()` has the late ones."""
        rows = self.session.rejected.rows()
        new = rows.slice(self._rejected_told)
        self._rejected_told = rows.num_rows
        found = zip(*(new.column(c).to_pylist() for c in ("job", "reason", "row")), strict=True)
        return sorted(
            " | ".join((job,) + (() if reason else (why,)) + (row,)) for job, why, row in found if reason in (None, why)
        )

    def late(self) -> list[str]:
        """Rows that came too late for an answer since the last time, `job | row`."""
        return self.rejected("late")

    # --- tables

    def follow_new(self) -> None:
        """Follow every table in memory from its creation on, so that `changes` misses nothing."""
        with self.session.views.lock:
            for thing in self.session.catalogs.all_objects():
                if isinstance(thing, CatalogView):
                    continue
                if isinstance(thing, CatalogTable) and thing.connector is None:
                    table: MemoryTable | None = self.session.memory_table(thing)
                else:
                    table = self.session.memory.get(thing.storage)
                if table is not None and self._tables.get(thing.path.name) is not table:
                    self._tables[thing.path.name] = table
                    self._followed[thing.path.name] = (table.follow(), table.schema)

    def new_steps(self, name: str) -> list[ChangelogBatch]:
        """The changes since the last time, epoch by epoch. Raises FormatError E3302 for a name that is not kept in
        memory, and what made a view fail."""
        self.follow_new()
        if name not in self._followed:
            raise FormatError(
                f"'{name}' is no table in memory and no materialized view",
                code="E3302",
                hint="there is: " + ", ".join(sorted(self._followed)) if self._followed else None,
            )
        for view in self.session.views.jobs():
            if view.path.name == name and view.failure is not None:
                raise view.failure
        reader, _ = self._followed[name]
        steps = []
        while (step := reader.poll(1)) is not None:
            steps.append(step)
        return steps

    def schema_of(self, name: str) -> Schema:
        """The columns of what `new_steps` gives."""
        return self._followed[name][1]

    def folded_lines(self, steps: list[ChangelogBatch], schema: Schema) -> list[str]:
        """What changes amount to, as sorted lines `+I row`."""
        return sorted("+I " + line for line in row_lines(fold(steps, schema), schema, self.session.time_zone))

    def _source(self, name: str) -> tuple[CatalogTable, MemoryTable]:
        found = self.session.catalogs.get(tuple(name.split(".")))
        if isinstance(found, MaterializedView | CatalogView):
            raise FormatError(
                f"'{name}' is a view: it takes no input", code="E3302", hint="give input to what it reads"
            )
        if found.connector is not None:
            raise FormatError(
                f"'{name}' has the connector '{found.connector}', and a test gives rows to tables in memory",
                code="E3302",
                hint="write 'connectors replaced' before it is created, or include the file that creates it",
            )
        return found, self.session.memory_table(found)

    def _check_views(self) -> None:
        """Raise what made an INSERT fail that is kept; a view's failure shows where the view is asked."""
        for view in self.session.views.jobs():
            if not view.path.catalog and view.failure is not None and not view.told:
                view.told = True
                raise view.failure


def _utc(at: dt.datetime) -> int:
    return round((at if at.tzinfo is not None else at.replace(tzinfo=dt.UTC)).timestamp() * 1000)


def _shown(milliseconds: int) -> str:
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
