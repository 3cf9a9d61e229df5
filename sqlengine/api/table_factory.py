"""How an environment makes tables of the Table API, and runs what they are: the same statements as SQL text."""

from __future__ import annotations

import functools
import itertools
import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from connectors.memory import TableSnapshot
from runtime.core.attended import attended
from runtime.core.cancellation import Stopped
from runtime.core.errors import BindError, PlanningError, Span, SqlEngineError, SqlSyntaxError, UnsupportedError
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.expr.function import any_made_by_program
from runtime.spi.source import SourceTable
from sqlengine.api.catalog_methods import CatalogMethods
from sqlengine.catalog.objects import CatalogView
from sqlengine.database.session import PYTHON_DATABASE, Session
from sqlengine.options.dialect import DIALECT, FLINK
from sqlengine.options.savepoint_paths import SAVEPOINT_DIR
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.advice import advice, noted
from sqlengine.results.result import Locate, Result, SqlEngineWarning
from sqlengine.results.stopped import INSERT_STOPPED
from sqlengine.statements.dispatch import execute
from sqlengine.statements.planning import object_schema, query_schema
from sqlengine.statements.queries import DML_SYNC

if TYPE_CHECKING:
    import runtime.spark.frame as _frame
    import sqlengine.api.create_input as _python_inputs
    import sqlengine.api.program_lines as _program_lines
    import sqlengine.api.variables as _variables
    import sqlengine.bind.aggregate_calls as _aggregate_calls
    import sqlengine.expression.given as _given
    import sqlengine.frames.frames as _spark_frames
    import sqlengine.frames.reading as _spark_reading
    import sqlengine.parse.spelling as _spelling
    import sqlengine.statements.explain as _explain_room
    import sqlengine.table_api.compiled_plan as _compiled_plan
    import sqlengine.table_api.query as _query
    import sqlengine.table_api.statement_set as _statement_set
    import sqlengine.table_api.table as _table
    import sqlengine.table_api.table_descriptor as _table_descriptor
    import sqlengine.values.code as _code
    import sqlengine.values.python_data as _python_data
    from sqlengine.api.pushed_input import Input
    from sqlengine.api.variables import Named, Where
    from sqlengine.frames.frames import Frames
    from sqlengine.parameters.binding import Parameters
    from sqlengine.table_api.compiled_plan import CompiledPlan
    from sqlengine.table_api.statement_set import StatementSet
    from sqlengine.table_api.table import Table
    from sqlengine.table_api.table_descriptor import TableDescriptor
    from sqlengine.values.code import Code
else:
    _frame = Room("runtime.spark.frame")
    _spark_frames = Room("sqlengine.frames.frames")
    _spark_reading = Room("sqlengine.frames.reading")
    _compiled_plan = Room("sqlengine.table_api.compiled_plan")
    _spelling = Room("sqlengine.parse.spelling")
    _python_inputs = Room("sqlengine.api.create_input")
    _program_lines = Room("sqlengine.api.program_lines")
    _variables = Room("sqlengine.api.variables")
    _code = Room("sqlengine.values.code")
    _given = Room("sqlengine.expression.given")
    _python_data = Room("sqlengine.values.python_data")
    _query = Room("sqlengine.table_api.query")
    _statement_set = Room("sqlengine.table_api.statement_set")
    _table = Room("sqlengine.table_api.table")
    _table_descriptor = Room("sqlengine.table_api.table_descriptor")
    _aggregate_calls = Room("sqlengine.bind.aggregate_calls")
    _explain_room = Room("sqlengine.statements.explain")

__all__ = ["TableFactory", "located"]


T = TypeVar("T")
_numbers = itertools.count(1)


class TableFactory(CatalogMethods):
    """The part of an environment that makes tables."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.__session = session
        self._engine = _SqlEngine(self)
        self._frames: Frames | None = None

    def from_path(self, path: str) -> Table:
        """A table or view of the catalog: `"orders"`, `"catalog.database.orders"`.

        Raises BindError E1202 for a name that is none.
        """
        _given.wanted("from_path", "the name of a table", path, str, 't_env.from_path("orders")')
        query, operation = _query.Query(_code.Code.atom(_code.path_sql(path), "")), f'from_path("{path}")'
        try:
            return _table.Table(self._engine, query, operation)
        except UnsupportedError as error:
            if error.code != "E1628":
                raise
        # Only a temporal join can read it.
        named = parse_statement(f"DESCRIBE {_code.path_sql(path)}")
        assert isinstance(named, st.Describe) and named.name is not None
        found = self.__session.catalogs.get(named.name.parts)
        return _table.Table(self._engine, query, operation, schema=object_schema(self.__session, found))

    def from_descriptor(self, descriptor: TableDescriptor) -> Table:
        """A table of a connector, as an unnamed temporary table."""
        return self.from_path(self._engine.target(descriptor))

    def sql_query(self, query: str) -> Table:
        """A query as a table, to execute, explain, insert, or extend. A name that no catalog knows may be a variable of
        the caller: a DataFrame of pandas, polars or PySpark, an Arrow table, or a Table."""
        try:
            return self._query(query)
        except BindError as error:
            named = self._with_variables(error, query, sys._getframe(1))
        try:
            return self._query(named.code.sql, named.keeps)
        except SqlEngineError as error:
            raise _code.located_in_python(error, named.code, query) from error.__cause__

    def _query(self, query: str, keeps: tuple[Any, ...] = ()) -> Table:
        dialect = self._dialect
        statement = parse_statement(query, dialect)
        if not isinstance(statement, st.QueryStatement):
            raise UnsupportedError(
                "sql_query takes a query",
                code="E1611",
                span=statement.span,
                text=query,
                hint="use execute_sql for other statements",
            )
        inner = statement.query.span
        text = query if inner is None else query[inner.start : inner.end]
        if dialect != FLINK:
            text = statement.query.text
        return _table.Table(self._engine, _query.Query(whole=as_python(text)), text, keeps)

    def _with_variables(self, error: BindError, text: str, where: Where) -> Named:
        """The statement with the frames of variables for the names that it does not know. Raises the error where there are
        none."""
        catalogs = self.__session.catalogs
        named = _variables.named_variables(
            error, text, self._dialect, where, lambda parts: catalogs.find(catalogs.qualify(parts)) is not None, self
        )
        if named is None:
            raise error
        return named

    def from_elements(self, elements: Sequence[Any], schema: Any = None, verify_schema: bool = True) -> Table:
        """Python rows as a table: tuples, dicts, or single values.

            t_env.from_elements([(1, "a"), (2, "b")], ["id", "name"])
            t_env.from_elements([{"id": 1}], {"id": "BIGINT"})

        Args:
            schema: names, or names with types (`DataTypes.BIGINT()` or text): a mapping, pairs, `DataTypes.ROW([...])`.
                Without types they follow from the values.
            verify_schema: accepted for programs of PyFlink; values are always checked.

        Raises TypeMismatchError E1325 for rows that do not fit.
        """
        del verify_schema
        return self._of_arrow(*_python_data.elements(elements, schema), "from_elements")

    def from_arrow(self, rows: Any, schema: Any = None) -> Table:
        """An Arrow table, record batch or reader as a table, without a copy where the types match."""
        return self._of_arrow(*_python_data.arrow_of_frame(rows, schema), "from_arrow")

    def from_pandas(self, pdf: Any, schema: Any = None, splits_num: int = 1) -> Table:
        """A pandas DataFrame as a table; its index is left out. `splits_num` is accepted for programs of PyFlink and
        means nothing: the frame is read as it is."""
        del splits_num
        rows = pa.Table.from_pandas(pdf, preserve_index=False).replace_schema_metadata(None)
        return self._of_arrow(*_python_data.arrow_of_frame(rows, schema), "from_pandas")

    def from_polars(self, frame: Any, schema: Any = None) -> Table:
        """A polars DataFrame as a table."""
        return self._of_arrow(*_python_data.arrow_of_frame(frame.to_arrow(), schema), "from_polars")

    def from_spark(self, frame: Any) -> Table:
        """A DataFrame of PySpark or of pandas on Spark as a table, batch or streaming: Spark reads it, with the columns,
        simple filters and limits that a query needs. The types are Spark's; a streaming one is a table without an end.

        Raises SparkError E3609 for a column whose type has no twin, E3610 for two columns of one name, and
        TypeMismatchError E1306 for one that is NULL without a type.
        """
        return self.from_source(_spark_reading.frame_source("from_spark", frame), "from_spark")

    def from_source(self, source: SourceTable, name: str = "source") -> Table:
        """Any source of the connectors' interface (`sqlengine.spi.SourceTable`) as a table."""
        number = f"{name}_{next(_numbers)}"
        self.__session.python_tables[number] = source
        key = self.__session.python_keepers[number] = _Kept(number)
        weakref.finalize(key, self.__session.python_tables.pop, number, None)
        where = f"{_code.name_sql(PYTHON_DATABASE)}.{_code.name_sql(number)}"
        return _table.Table(self._engine, _query.Query(_code.Code(where)), f"{name}(...)", (key,))

    def create_input(
        self,
        name: str,
        schema: Any,
        *,
        rowtime: str | None = None,
        changelog_mode: str | None = None,
        capacity: int = 1_000_000,
        keep: bool = False,
    ) -> Input:
        """A temporary table that the program fills, by rows or batches, from any thread.

        Args:
            schema: names and types as for `from_elements`, a `TableSchema` (watermark, primary key, computed columns),
                or what stands between the parentheses of CREATE TABLE, as text.
            rowtime: the event-time column whose watermark `Input.advance_watermark` tells. Without it a watermark is
                what the schema says.
            changelog_mode: 'append', 'retract' (whole rows are taken back), or 'upsert' (by the primary key), which is
                the default for a schema with a key.
            capacity: rows that may wait for the slowest query before a push waits.
            keep: whether every query reads all that was ever pushed. Otherwise the first one begins at the start, a
                later one with what comes from then on.

        Raises OptionError E1511 for a mode that is none or that the schema does not fit; errors as of CREATE TABLE.
        """
        self._check_open()
        return _python_inputs.create_input(
            self.__session, name, schema, _python_inputs.InputOptions(rowtime, changelog_mode, capacity, keep)
        )

    def _of_arrow(self, schema: Schema, rows: pa.Table, name: str) -> Table:
        return self.from_source(TableSnapshot(name, schema, rows), name)

    def create_temporary_view(
        self,
        path: str,
        table: Any,
        *,
        schema: Any = None,
        rowtime: str | None = None,
        watermark: str | None = None,
        primary_key: Sequence[str] = (),
        checkpoint: str = "",
    ) -> None:
        """Give a table, or a DataFrame of PySpark, a name in the catalog, for SQL and `from_path`: CREATE TEMPORARY
        VIEW.

        Args of a DataFrame, batch or streaming (`Declared`), which is a temporary table then:
            schema: types of columns by name, where Spark's are not right.
            rowtime: the column that holds the event time.
            watermark: SQL expression of the watermark: `"at - INTERVAL '5' SECOND"`.
            primary_key: the columns that identify a row.
            checkpoint: of a streaming one: a folder that keeps its rows until a checkpoint of the job that reads it is
                behind them, so that the job can go on where it stopped.

        Raises UnsupportedError E1631 for these with anything but a DataFrame.
        """
        declared = _spark_frames.Declared(schema, rowtime, watermark, tuple(primary_key), checkpoint)
        if declared and not _frame.is_frame(table):
            raise UnsupportedError(
                "schema, rowtime, watermark, primary_key and checkpoint can be declared with a DataFrame of PySpark only",
                code="E1631",
                hint="give a Table its types when it is made: from_arrow(rows, schema)",
            )
        if declared:
            if self._frames is None:
                self._frames = _spark_frames.Frames()
                self.__session.registry.connectors.add(self._frames.connector())
            statement = self._frames.statement(_code.path_sql(path), table, declared)
            self._engine.run(_code.Code(statement), f'create_temporary_view("{path}")')
            return
        if _frame.is_frame(table):
            table = self.from_spark(table)
        _given.wanted("create_temporary_view", "a table", table, _table.Table, 'of SQL: t_env.sql_query("SELECT ..")')
        self._engine.run(
            _code.compose([f"CREATE TEMPORARY VIEW {_code.path_sql(path)} AS ", table.query.code]), table.operation
        )

    def create_view(self, view_path: str, table: Table, ignore_if_exists: bool = False) -> None:
        """CREATE VIEW: give a table a permanent name in a catalog. One of rows that Python has given lives as long as
        this environment, at most."""
        words = "CREATE VIEW IF NOT EXISTS" if ignore_if_exists else "CREATE VIEW"
        self._engine.run(_code.compose([f"{words} {_code.path_sql(view_path)} AS ", table.query.code]), table.operation)

    def drop_temporary_view(self, path: str) -> None:
        """Forget such a name, and rows of Python that had no other."""
        self._engine.run(_code.Code(f"DROP TEMPORARY VIEW {_code.path_sql(path)}"), f'drop_temporary_view("{path}")')

    def list_temporary_tables(self) -> list[str]:
        """The temporary tables and views of the current database."""
        return [o.path.name for o in self.__session.catalogs.objects() if getattr(o, "temporary", False)]

    def list_temporary_views(self) -> list[str]:
        """The temporary views of the current database."""
        return [o.path.name for o in self.__session.catalogs.objects() if isinstance(o, CatalogView) and o.temporary]

    def create_statement_set(self) -> StatementSet:
        """Collect INSERTs that run as one job, with common computations shared."""
        return _statement_set.StatementSet(self._engine)

    def _run(
        self, statement: st.Statement, text: str, locate_in_text: Locate, parameters: Parameters | None = None
    ) -> Result:
        def locate(error: SqlEngineError) -> SqlEngineError:
            return locate_in_text(error if parameters is None else parameters.masked(error))

        self._check_open()
        self.__session.notes.clear()
        self.__session.parameters = parameters
        try:
            session = self.__session
            result = self._attend(lambda: execute(statement, session))
        except SqlEngineError as error:
            if error.code in ("E1201", "E1203") and not (error.hint or "").startswith("did you mean"):
                error.hint = _spelling.misread_keyword(text, error.span) or error.hint
            raise locate(error) from error.__cause__
        except Stopped:
            raise UnsupportedError(
                "the statement was stopped before its end",
                code=INSERT_STOPPED,
                hint="nothing has changed; run it again",
            ) from None
        except RecursionError:
            raise SqlSyntaxError(
                "the statement is nested too deeply",
                span=statement.span,
                text=text,
                hint="name parts of it with WITH or CREATE VIEW",
            ) from None
        finally:
            self.__session.parameters = None
        unused = self.__session.noted_options
        # What is prepared was looked at then.
        advised = advice(statement, text) if parameters is None or parameters.plans is None else ()
        notes = [*advised, *self.__session.notes, *((note, None) for note in unused.values() if note)]
        unused.update(dict.fromkeys(unused, ""))
        result.warnings = (*result.warnings, *dict.fromkeys(noted(note, span, text) for note, span in notes))
        for message in result.warnings:
            warnings.warn(message, SqlEngineWarning, stacklevel=_program_lines.level_of_the_program())
        result.locate = locate
        result.attends = functools.partial(_attends, session)
        result.time_zone = self.__session.time_zone
        result.savepoint_folder = lambda: self.__session.options.get(SAVEPOINT_DIR)
        if isinstance(statement, (st.Insert, st.StatementSet, st.ExecutePlan)) and self.__session.options.get(DML_SYNC):
            result.wait()
        return result

    def _advise(self, statement: st.Statement, text: str) -> None:
        """Warn of what a statement may have got wrong."""
        for note, span in advice(statement, text):
            warnings.warn(noted(note, span, text), SqlEngineWarning, stacklevel=_program_lines.level_of_the_program())

    def _attend(self, call: Callable[[], T]) -> T:
        """What a call gives or raises, made by another thread while the main thread waits, where that may be."""
        return attended(call) if _attends(self.__session) else call()

    def _check_open(self) -> None:
        """Raise PlanningError E1629 in an environment that is closed: its jobs have stopped, its views follow nothing."""
        if self.__session.closed.is_set():
            raise PlanningError(
                "this TableEnvironment is closed", code="E1629", hint="make another one: TableEnvironment.create()"
            )

    @property
    def _dialect(self) -> str:
        """How the statements of the session are read."""
        return self.__session.options.get(DIALECT).lower()

    def _explain(self, text: str, details: Sequence[str], locate: Locate) -> str:
        self._check_open()
        try:
            parsed = parse_statement(text, self._dialect)
            return self._explained(parsed.statement if isinstance(parsed, st.Explain) else parsed, details)
        except SqlEngineError as error:
            raise locate(error) from error.__cause__

    def _explained(self, statement: st.Statement, details: Sequence[str]) -> str:
        self._check_open()
        with self.__session.turn:
            return _explain_room.explained(statement, self.__session, tuple(d.upper() for d in details))

    def _aggregates(self, text: str) -> list[Span]:
        return _aggregate_calls.aggregate_calls(text, self.__session.functions)

    def _schema(self, text: str) -> Schema:
        statement = parse_statement(text)
        assert isinstance(statement, st.QueryStatement)
        with self.__session.turn:
            return self.__session.at_a_version(lambda: query_schema(self.__session, statement.query.query))


def _attends(session: Session) -> bool:
    """Whether another thread may do the work for which the main thread waits (`runtime.core.attended`). Not where this
    one holds a lock for which the other would wait; nor where the program has made functions, which may
    need the thread that has made them."""
    held = session.views.lock.held or session.turn.held
    return not held and not any_made_by_program()


class _SqlEngine:
    """What tables ask of their environment: the SQL that they are, carried out."""

    def __init__(self, environment: TableFactory) -> None:
        self.environment = environment

    def check(self, code: Code, operation: str) -> Schema:
        try:
            return self.environment._schema(code.sql)
        except SqlEngineError as error:
            raise _code.located_in_python(error, code, operation) from error.__cause__

    def run(self, code: Code, operation: str) -> Result:
        def locate(error: SqlEngineError) -> SqlEngineError:
            return _code.located_in_python(error, code, operation)

        try:
            statement = parse_statement(code.sql)
        except SqlEngineError as error:
            raise locate(error) from error.__cause__
        return self.environment._run(statement, code.sql, locate)

    def explain(self, code: Code, operation: str, details: Sequence[str]) -> str:
        return self.environment._explain(code.sql, details, lambda e: _code.located_in_python(e, code, operation))

    def compile(self, code: Code, operation: str) -> CompiledPlan:
        def located_here(error: SqlEngineError) -> SqlEngineError:
            return _code.located_in_python(error, code, operation)

        try:
            inner = parse_statement(code.sql)
        except SqlEngineError as error:
            raise located_here(error) from error.__cause__
        if not isinstance(inner, (st.Insert, st.StatementSet)):
            raise UnsupportedError(
                "only INSERT and statement sets can be compiled", code="E1606", span=inner.span, text=code.sql
            )
        statement = st.CompilePlan(inner, span=inner.span, text=inner.text)
        result = self.environment._run(statement, code.sql, located_here)
        return _compiled_plan.CompiledPlan(self, str(result.to_arrow().column(0)[0].as_py()))

    def run_plan(self, text: str) -> Result:
        return self.environment._run(st.ExecutePlan("", plan=text, text="EXECUTE PLAN"), "EXECUTE PLAN", _nowhere)

    def explain_plan(self, text: str, details: Sequence[str]) -> str:
        return self.environment._explained(st.ExecutePlan("", plan=text), details)

    def target(self, table: str | TableDescriptor) -> str:
        if isinstance(table, str):
            return table
        _given.wanted(
            "an INSERT",
            "the name of a table",
            table,
            _table_descriptor.TableDescriptor,
            'execute_insert("totals"), or a TableDescriptor',
        )
        name = f"descriptor_{next(_numbers)}"
        self.environment.create_temporary_table(name, table)
        return name

    def aggregates(self, code: Code) -> list[Span]:
        return self.environment._aggregates(code.sql)


class _Kept:
    """Lives as long as some table that reads the rows of this name."""

    def __init__(self, name: str) -> None:
        self.name = name


def as_python(text: str) -> Code:
    """SQL text whose places are its own."""
    return _code.Code(text, text, (_code.Mark(0, len(text), text, 0, len(text)),))


def _nowhere(error: SqlEngineError) -> SqlEngineError:
    """An error of a statement that has no text."""
    return error


def located(error: SqlEngineError, text: str) -> SqlEngineError:
    """The error with the text that its place points into."""
    if error.text is None and error.span is not None:
        error.text = text
    return error
