"""The front door for Python: one environment, its statements, its tables."""

from __future__ import annotations

import datetime as dt
import functools
import os
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runtime.core.clock import Clock
from runtime.core.errors import BindError, SqlEngineError
from runtime.core.metrics import exposition
from runtime.core.rooms import Room
from runtime.core.types import DataType
from sqlengine.api.table_factory import TableFactory, as_python, located
from sqlengine.database.information_schema import InformationSchema
from sqlengine.database.session import Session
from sqlengine.options.dialect import FLINK
from sqlengine.options.target import TARGET
from sqlengine.parse import parse_script, parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.repeated import KnownHeads
from sqlengine.results.result import Result
from sqlengine.statements.planning import object_schema

if TYPE_CHECKING:
    import pyarrow as pa

    import runtime.spark.session as _spark_session
    import sqlengine.database.metrics as _metrics
    import sqlengine.expression.given as _given
    import sqlengine.statements.lasting as _lasting
    import sqlengine.statements.lasting_jobs as _lasting_jobs
    import sqlengine.statements.prepared_statement as _parameters
    import sqlengine.statements.procedures as _procedures
    import sqlengine.statements.settings as _settings
    import sqlengine.table_api.compiled_plan as _compiled_plan
    import sqlengine.values.code as _code
    from sqlengine.api.variables import Where
    from sqlengine.expression.sql_words import ExplainDetail
    from sqlengine.parameters.binding import Parameters
    from sqlengine.spark_catalog import SparkCatalog
    from sqlengine.statements.prepared_statement import PreparedStatement, RepeatedInserts
    from sqlengine.table_api.compiled_plan import CompiledPlan, PlanReference
else:
    _code = Room("sqlengine.values.code")
    _spark_session = Room("runtime.spark.session")
    _lasting_jobs = Room("sqlengine.statements.lasting_jobs")
    _parameters = Room("sqlengine.statements.prepared_statement")
    _metrics = Room("sqlengine.database.metrics")
    _lasting = Room("sqlengine.statements.lasting")
    _procedures = Room("sqlengine.statements.procedures")
    _settings = Room("sqlengine.statements.settings")
    _compiled_plan = Room("sqlengine.table_api.compiled_plan")
    _given = Room("sqlengine.expression.given")

__all__ = ["Config", "ProcedureContext", "TableEnvironment"]


class TableEnvironment(TableFactory):
    """A catalog, a configuration, and the jobs and views that run in this process.

        t_env = TableEnvironment.create({"table.local-time-zone": "UTC"})
        t_env.execute_sql("CREATE TABLE orders (id INT, amount DECIMAL(10, 2))")
        t_env.execute_sql("INSERT INTO orders VALUES (1, 9.50)")
        t_env.execute_sql("SELECT SUM(amount) FROM orders").to_arrow()

    Used from one thread at a time; `new_session` gives another one on the same database for another thread, or another
    user. Closing the last one stops the jobs. It is a context manager.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self._heads = KnownHeads()
        session.procedure_context = functools.partial(ProcedureContext.of, weakref.ref(self))
        session.information = InformationSchema(
            session.catalogs, session.functions, functools.partial(object_schema, session)
        )

    @staticmethod
    def create(
        config: Mapping[str, str] | None = None,
        *,
        clock: Clock | None = None,
        fresh: bool = False,
        spark: Any = None,
        path: str | os.PathLike[str] | None = None,
    ) -> TableEnvironment:
        """A new environment.

        Args:
            config: options as in SET.
            clock: gives processing time (tests replace it).
            fresh: INSERTs start anew although there are checkpoints of them, which are removed.
            spark: a SparkSession, in whose tasks jobs run.
            path: the folder of a database that lasts: what is made in it is there again when it is opened the next
                time. It is made where there is none. Without it all ends with the process.

        Raises DatabaseError when the folder cannot be opened: E3701 when another process has it open; SparkError E3605 for a
        session of Spark Connect, which has no tasks.
        """
        session = Session(clock=clock)
        session.fresh = fresh
        if spark is not None:
            if _spark_session.is_remote(spark):
                raise _spark_session.no_tasks()
            session.target.spark = spark
            _settings.set_value(session, TARGET.key, "spark")
        for key, value in (config or {}).items():
            _settings.set_value(session, key, str(value))
        environment = TableEnvironment(session)
        if path is not None:
            _lasting.open_database(session, os.fspath(path))
            _lasting_jobs.restore_jobs(session)
        return environment

    def new_session(self, config: Mapping[str, str] | None = None) -> TableEnvironment:
        """Another session on the same database: it shares catalogs, tables, views, functions and jobs, and has options,
        a current catalog, temporary objects, prepared statements and an open epoch of its own.

        Each may be used from one thread at a time, all of them side by side: a reader sees the tables and views as the
        last complete epoch has left them, and of two sessions whose open epochs change the same row the second is told
        (PlanningError E1716).

        Args:
            config: options as in SET; those of this session are not taken over.
        """
        self._check_open()
        session = Session(database=self._session.database)
        session.target.spark = self._session.target.spark
        for key, value in (config or {}).items():
            _settings.set_value(session, key, str(value))
        return TableEnvironment(session)

    def execute_sql(self, statement: str, parameters: Any = None, *, rows: Iterable[Any] | None = None) -> Result:
        """Carry out one statement. A name in its query that no catalog knows may be a variable of the caller, as in
        `sql_query`.

        Args:
            parameters: the values for `?` and `$1` in a list, or those for `:name` in a dict. They become typed
                constants of the statement, never text.
            rows: such values for many rows: an INSERT, UPDATE or DELETE is carried out for each, all as one epoch.

        Raises SqlEngineError with the place in the text.
        """
        try:
            return self._executed(statement, parameters, rows)
        except BindError as error:
            return self._again(error, statement, sys._getframe(1), parameters, rows)

    def _executed(self, statement: str, parameters: Any, rows: Iterable[Any] | None) -> Result:
        if rows is None and parameters is None:
            dialect = self._dialect
            parsed = self._heads.read(statement) if dialect == FLINK else parse_statement(statement, dialect)
            return self._execute(parsed, statement)
        try:
            if rows is None:
                parsed, given = self._repeated.given(statement, parameters, self._dialect)
                return self._execute(parsed, statement, given)
            parsed = parse_statement(statement, self._dialect)
            if parameters is not None:
                raise BindError(
                    "parameters and rows are both given", code="E1251", hint="rows are for one statement many times"
                )
            return _parameters.for_each(
                parsed,
                _parameters.given_rows(parsed, rows),
                self._session,
                lambda inner, values: self._execute(inner, statement, values),
            )
        except SqlEngineError as error:
            raise located(error, statement) from error.__cause__

    def prepare(self, statement: str, types: Sequence[DataType | None] = ()) -> PreparedStatement:
        """Parse and bind a statement once, to execute it many times with different parameters.

        Its names and types are looked up now: `parameter_types` and `schema` tell what was found. `types`: of the
        parameters in their order, for places that determine none; None for one that is not known. Raises SqlEngineError
        with the place in the text.
        """
        self._check_open()
        try:
            parsed = parse_statement(statement, self._dialect)
            prepared = _parameters.Prepared(parsed, self._session, types)
        except SqlEngineError as error:
            raise located(error, statement) from error.__cause__
        self._advise(parsed, statement)
        return _parameters.PreparedStatement(
            prepared, statement, lambda inner, values: self._execute(inner, statement, values), self._session
        )

    @functools.cached_property
    def _repeated(self) -> RepeatedInserts:
        return _parameters.RepeatedInserts()

    def execute_script(self, script: str) -> list[Result]:
        """Run all statements in order; the first failure stops the script. A query's result may be read afterwards,
        too."""
        return list(self._results(script, sys._getframe(1)))

    def run_script(self, script: str, *, variables: Mapping[str, Any] | None = None) -> Iterator[Result]:
        """Run all statements in order, one result at a time: the next statement runs when its result is requested.
        `variables`: what names may stand for in the place of the caller's variables, as in `sql_query`."""
        return self._results(script, sys._getframe(1) if variables is None else variables)

    def _results(self, script: str, where: Where) -> Iterator[Result]:
        for statement in parse_script(script, self._dialect):
            try:
                result = self._execute(statement, script)
            except BindError as error:
                result = self._again(error, script[statement.span.start : statement.span.end], where)
            yield result

    def _again(
        self,
        error: BindError,
        statement: str,
        where: Where,
        parameters: Any = None,
        rows: Iterable[Any] | None = None,
    ) -> Result:
        """A statement with variables in the place of the names that it does not know."""
        named = self._with_variables(error, statement, where)
        try:
            result = self._executed(named.code.sql, parameters, rows)
        except SqlEngineError as failure:
            raise _code.located_in_python(failure, named.code, statement) from failure.__cause__
        result.keeps = named.keeps
        return result

    def _execute(self, statement: st.Statement, text: str, parameters: Parameters | None = None) -> Result:
        return self._run(statement, text, lambda error: located(error, text), parameters)

    def explain_sql(self, stmt: str, *extra_details: ExplainDetail | str) -> str:
        """The plans of a statement as text; details as in EXPLAIN, for example "CHANGELOG_MODE"."""
        try:
            return self._explain(stmt, extra_details, lambda error: located(error, stmt))
        except BindError as error:
            named = self._with_variables(error, stmt, sys._getframe(1))
        code = named.code
        return self._explain(code.sql, extra_details, lambda error: _code.located_in_python(error, code, stmt))

    def compile_plan_sql(self, stmt: str) -> CompiledPlan:
        """The plan of an INSERT or a statement set, to execute, or to keep in a file. Raises SqlEngineError as
        `execute_sql` does, and FormatError E3211 for what no plan can hold."""
        return self._engine.compile(as_python(stmt), "compile_plan_sql()")

    def load_plan(self, plan_reference: PlanReference) -> CompiledPlan:
        """The plan of a file or of JSON. What is wrong with it is told when it is explained or executed."""
        _given.wanted(
            "load_plan",
            "a PlanReference",
            plan_reference,
            _compiled_plan.PlanReference,
            'PlanReference.from_file("plan.json")',
        )
        return _compiled_plan.CompiledPlan(self._engine, plan_reference.text())

    def execute_plan(self, plan_reference: PlanReference) -> Result:
        """Carry out the plan of a file or of JSON."""
        return self.load_plan(plan_reference).execute()

    def flush(self) -> None:
        """Wait until every materialized view has processed all available input."""
        self._attend(self._session.views.flush)

    def metrics(self) -> pa.Table:
        """The current metrics of jobs, operators, sources, sinks, checkpoints, views and tables: the rows of
        `system.metrics`, from any thread."""
        return _metrics.metrics_table(self._session.metrics.collect())

    def metrics_text(self) -> str:
        """The metrics in the text format of Prometheus."""
        return exposition(self._session.metrics.collect())

    def register_catalog(self, name: str, catalog: SparkCatalog) -> None:
        """Register the databases, tables and views of a Spark session as a catalog.

        Raises CatalogError E1401 when there is a catalog of that name.
        """
        connector = catalog.connector()
        if connector.name not in self._session.registry.connectors.names():
            self._session.registry.connectors.add(connector)
        with self._session.alone(redefines=True):
            self._session.catalogs.create_catalog(catalog.catalog(name))

    def create_procedure(self, path: str, procedure: Any, ignore_if_exists: bool = False) -> None:
        """Make a procedure known to CALL in all sessions of the database, as long as the process runs: one decorated by
        `procedure`, a function with type annotations, or a class or object of `Procedure`. CREATE PROCEDURE makes one that
        a database in a folder keeps.

        Raises CatalogError E1401 for a name that is taken.
        """
        self._put_procedure(path, procedure, temporary=False, if_not_exists=ignore_if_exists)

    def create_temporary_procedure(self, path: str, procedure: Any) -> None:
        """The same for this session alone."""
        self._put_procedure(path, procedure, temporary=True, if_not_exists=False)

    def _put_procedure(self, path: str, procedure: Any, *, temporary: bool, if_not_exists: bool) -> None:
        self._check_open()
        _procedures.register_procedure(self._session, path, procedure, temporary=temporary, if_not_exists=if_not_exists)

    def get_config(self) -> Config:
        """The options, to read and set."""
        return Config(self._session)

    @property
    def session(self) -> Session:
        """The internal session, for the command line and the test runner."""
        return self._session

    def close(self) -> None:
        """End the session: its open epoch is discarded, and its temporary tables are dropped. The last session of a
        database stops all jobs and views; sinks publish what they have, and a database in a folder is saved and given
        back. Harmless when called again."""
        self._session.close()

    def __enter__(self) -> TableEnvironment:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Config:
    """The options of an environment."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def set(self, key: str, value: str) -> Config:
        """SET: give an option a value. Raises OptionError for one that it cannot have."""
        _settings.set_value(self._session, key, str(value))
        return self

    def get_local_timezone(self) -> str:
        """The time zone in which TIMESTAMP_LTZ is read and shown: 'table.local-time-zone'."""
        return self._session.time_zone

    def set_local_timezone(self, timezone_id: str) -> Config:
        """SET 'table.local-time-zone'."""
        return self.set("table.local-time-zone", timezone_id)

    def set_idle_state_retention(self, duration: dt.timedelta) -> Config:
        """SET 'table.exec.state.ttl': how long unchanged state is kept."""
        return self.set("table.exec.state.ttl", f"{duration // dt.timedelta(milliseconds=1)} ms")

    def add_configuration(self, options: Mapping[str, str]) -> Config:
        """SET several options."""
        for key, value in options.items():
            self.set(key, value)
        return self

    def get_configuration(self) -> Config:
        """The same object, for PyFlink programs."""
        return self

    def get(self, key: str, default: str | None = None) -> str | None:
        """The value of an option as text, or `default` if it is not set."""
        found = self._session.options.text(key)
        return default if found is None else found


class ProcedureContext:
    """What a procedure may use: the environment in which it was called.

    Its statements run one after another, each as an epoch of its own, or within the epoch that is open.
    """

    def __init__(self, environment: TableEnvironment) -> None:
        self.environment = environment

    @staticmethod
    def of(environment: weakref.ref[TableEnvironment]) -> ProcedureContext | None:
        """That of a call; None when the environment is gone."""
        found = environment()
        return None if found is None else ProcedureContext(found)

    def execute_sql(self, statement: str, parameters: Any = None) -> Result:
        """Carry out a statement, as `TableEnvironment.execute_sql` does."""
        return self.environment.execute_sql(statement, parameters)
