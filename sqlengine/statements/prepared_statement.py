"""Prepared statements: read and bound once, carried out often."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from connectors.memory import MemorySink
from runtime.core.errors import BindError, PlanningError, Span, TypeMismatchError, UnsupportedError
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, DataType, TypeRoot
from sqlengine.catalog.objects import CatalogTable
from sqlengine.database.binding import Binding
from sqlengine.database.open_epoch import RowConflict
from sqlengine.database.session import Session
from sqlengine.options.dialect import FLINK
from sqlengine.parameters.binding import Key, Parameters
from sqlengine.parameters.given import Marks, marks
from sqlengine.parameters.rows import OneByOne
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.advice import advice
from sqlengine.parse.trees import delete_query, is_values, update_query
from sqlengine.results.result import Result
from sqlengine.statements.conflicts import bound_update
from sqlengine.statements.planning import bound_insert, query_schema
from sqlengine.statements.prepared_plans import Kept, Plans
from sqlengine.statements.returning import returning_schema

if TYPE_CHECKING:
    import sqlengine.statements.procedures as _procedures
else:
    _procedures = Room("sqlengine.statements.procedures")

__all__ = [
    "Prepared",
    "PreparedStatement",
    "RepeatedInserts",
    "Run",
    "for_each",
    "given_rows",
    "mismatch_of",
    "newest_plan",
]

_ATTEMPTS = 10
_MOST_KNOWN = 64

Run = Callable[[st.Statement, Parameters | None], Result]
"""Carries a statement out with these values."""


class RepeatedInserts:
    """Reads statements with values. Of an INSERT of rows of VALUES it keeps what was made of its text: it may come again
    with other values."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[st.Insert, Marks, Plans]] = {}

    def given(self, text: str, values: Any, dialect: str = FLINK) -> tuple[st.Statement, Parameters | None]:
        """The statement of a text, and the values for it; None when it has no parameters.

        Raises what `parse_statement`, `marks` and `Marks.columns` raise.
        """
        known = self._known.get((dialect, text))
        if known is not None:
            statement, found, plans = known
            parameters = _once(found, values)
            parameters.plans = plans
            return statement, parameters
        read = parse_statement(text, dialect)
        found = marks(read)
        parameters = _once(found, values)
        if isinstance(read, st.Insert) and found.keys and is_values(read.query.query) and not advice(read, text):
            if len(self._known) >= _MOST_KNOWN:
                self._known = {}
            parameters.plans = Plans()
            self._known[dialect, text] = read, found, parameters.plans
        return read, parameters if found.keys else None


def given_rows(statement: st.Statement, rows: Iterable[Any]) -> Parameters:
    """The values for a statement that is carried out for each of the rows.

    Raises what `marks` and `Marks.columns` raise; UnsupportedError E1635 for a statement that many rows mean nothing to.
    """
    found = marks(statement)
    _check_many(statement, found)
    return Parameters(found.keys, found.columns(rows), found.places)


def _check_many(statement: st.Statement, found: Marks) -> None:
    if not isinstance(statement, st.Insert | st.Update | st.Delete):
        raise UnsupportedError(
            "rows of values are for INSERT, UPDATE and DELETE",
            code="E1635",
            span=statement.span,
            hint="execute the statement with one list of values at a time",
        )
    if statement.returning is not None:
        raise UnsupportedError(
            "RETURNING is for one list of values",
            code="E1635",
            span=statement.returning.span,
            hint="leave RETURNING out, or execute the statement with one list of values at a time",
        )
    if not found.keys:
        raise BindError(
            "rows of values are given, and the statement has no parameters",
            code="E1251",
            span=statement.span,
            hint="INSERT INTO t VALUES (?, ?) takes them",
        )


def _once(found: Marks, values: Any) -> Parameters:
    if values is None:
        if not found.keys:
            return Parameters((), {})
        raise BindError(
            f"the statement has {len(found.keys)} parameter{'' if len(found.keys) == 1 else 's'}, "
            "and no values are given",
            code="E1251",
            span=next(iter(found.places.values())),
            hint="give them: {..}" if found.named else "give them in a list: [value, ..]",
        )
    if not found.keys and not found.named and isinstance(values, dict) and not values:
        values = ()
    return Parameters(found.keys, found.columns([values]), found.places)


def for_each(statement: st.Statement, parameters: Parameters, session: Session, run: Run) -> Result:
    """Carry out a statement for all values, as one epoch: at once where it is an INSERT of a row of VALUES, otherwise
    for one after the other, and all again when another session has changed the same rows meanwhile. When one fails
    nothing has changed, unless an epoch was open before."""
    assert parameters.columns is not None
    if isinstance(statement, st.Insert):
        try:
            return run(statement, parameters)
        except OneByOne:
            pass
    if session.in_epoch:
        changed = _one_after_another(statement, parameters, run)
    else:
        changed = _in_one_epoch(statement, parameters, run)
    return Result.table(Schema.of(("rows", BIGINT.not_null())), [[changed]], summary=f"{changed} rows changed")


def _in_one_epoch(statement: st.Statement, parameters: Parameters, run: Run) -> int:
    for attempts_left in reversed(range(_ATTEMPTS)):
        run(st.BeginEpoch(), None)
        try:
            changed = _one_after_another(statement, parameters, run)
        except BaseException:
            run(st.RollbackEpoch(), None)
            raise
        try:
            run(st.EndEpoch(), None)
        except RowConflict:
            if not attempts_left:
                raise
        else:
            return changed
    raise AssertionError("the last attempt gives a number or raises")


def _one_after_another(statement: st.Statement, parameters: Parameters, run: Run) -> int:
    """How many rows have changed."""
    columns, plans = parameters.columns or {}, parameters.plans or Plans()
    changed = 0
    for i in range(parameters.count_of_rows):
        one = {key: [values[i]] for key, values in columns.items()}
        changed += next(
            iter(run(statement, Parameters(parameters.keys, one, parameters.places, plans, told=parameters.told)))
        )[0]
    return changed


class Prepared:
    """A statement, its parameters, and the plans that were made of it.

    `types`: the type of each parameter, as its places say it; a STRING where they say none, None where only a value
    tells. `schema`: the columns of the result of a query; None for a statement that gives none, and where only values
    tell them. `mismatch`: why that is so.
    """

    def __init__(self, statement: st.Statement, session: Session, types: Sequence[DataType | None] = ()) -> None:
        """`types`: see `TableEnvironment.prepare`. Raises what `marks` raises, and what is wrong with names and types in
        the statement."""
        self.statement = statement
        self.marks = marks(statement)
        self.plans = Plans()
        self.mismatch: TypeMismatchError | None = None
        # Python's Decimal says digits, and no type: each value has its own.
        self._told = {
            key: type_
            for key, type_ in zip(self.marks.keys, types)
            if type_ is not None and all(t.root is not TypeRoot.DECIMAL for t in (type_, *type_.children))
        }
        told = {key: type_ for key, type_ in zip(self.marks.keys, types) if type_ is not None}
        asked = Parameters(self.marks.keys, None, self.marks.places, told=told)
        self.schema: Schema | None = None
        self.types: tuple[DataType | None, ...] = (None,) * len(asked.keys)
        session.parameters, before = asked, session.parameters
        try:
            with session.turn:
                self.schema = session.at_a_version(lambda: _described(statement, session))
            self.types = asked.types()
        except TypeMismatchError as error:
            # A text was assumed where a place says nothing: the values may be of a type that fits.
            if not asked.given:
                raise
            self.mismatch = error
        finally:
            session.parameters = before

    def once(self, values: Any) -> Parameters:
        """The values to carry it out with."""
        parameters = _once(self.marks, values)
        parameters.plans, parameters.told = self.plans, self._told
        return parameters

    def rows(self, rows: Iterable[Any]) -> Parameters:
        """The values to carry it out with, once for each row."""
        _check_many(self.statement, self.marks)
        columns = self.marks.columns(rows)
        return Parameters(self.marks.keys, columns, self.marks.places, self.plans, told=self._told)


def _described(statement: st.Statement, session: Session) -> Schema | None:
    """The columns of the statement's result; its parameters learn their types."""
    match statement:
        case st.QueryStatement(query=query):
            return query_schema(session, query.query)
        case st.Insert() | st.Update() | st.Delete() if statement.returning is not None:
            schema = returning_schema(statement, session)
            parameters = session.parameters
            returned = [] if parameters is None else list(parameters.slots)
            _described(statement.with_(returning=None), session)
            if parameters is not None:
                parameters.slots += [slot for slot in returned if slot not in parameters.slots]
            return schema
        case st.Insert(table=name):
            found = session.catalogs.get(name.parts, name.span)
            if isinstance(found, CatalogTable):
                sink = (
                    MemorySink(session.memory_table(found), live=False)
                    if found.connector is None
                    else session.open_sink(found, st.options_dict(statement.hints), live=False, span=name.span)
                )
                bound_insert(statement, found, sink, Binding(session, False))
                if statement.assignments and found.connector is None:
                    _describe_update(statement, found, session)
        case st.Update(table=name) | st.Delete(table=name):
            found = session.catalogs.get(name.parts, name.span)
            if isinstance(found, CatalogTable) and found.connector is None:
                rows = session.memory_table(found).schema
                write = update_query if isinstance(statement, st.Update) else delete_query
                query_schema(session, write(statement, found.path.parts, rows))  # type: ignore[arg-type]
        case st.Call():
            return _procedures.result_columns(statement, session)
        case _:
            pass
    return None


def _describe_update(statement: st.Insert, table: CatalogTable, session: Session) -> None:
    """The parameters of ON CONFLICT DO UPDATE learn their types."""
    parameters = session.parameters
    known = [] if parameters is None else list(parameters.slots)
    bound_update(statement, session, table)
    if parameters is not None:
        parameters.slots += [slot for slot in known if slot not in parameters.slots]


class PreparedStatement:
    """A statement that was prepared by `TableEnvironment.prepare`: carried out any number of times with other values.

        with t_env.prepare("INSERT INTO t VALUES (?, ?)") as insert:
            insert.execute([1, "a"])
            insert.execute_many([(2, "b"), (3, "c")])

    It follows changes of the catalog, of options and of functions: what does not hold any more is planned anew.
    """

    def __init__(self, prepared: Prepared, text: str, run: Run, session: Session) -> None:
        self._prepared: Prepared | None = prepared
        self._run = run
        self._session = session
        self._text = text

    def execute(self, parameters: Any = None) -> Result:
        """Execute it with these values: a list for `?` and `$1`, a dict for `:name`.

        Raises PlanningError E1636 when it is closed; otherwise as `execute_sql`.
        """
        prepared = self._open()
        return self._run(prepared.statement, prepared.once(parameters))

    def execute_many(self, rows: Iterable[Any]) -> Result:
        """Execute an INSERT, UPDATE or DELETE for each row of values, all in one epoch."""
        prepared = self._open()
        return for_each(prepared.statement, prepared.rows(rows), self._session, self._run)

    @property
    def parameters(self) -> tuple[Key, ...]:
        """The parameters in the order of their values: numbers from 1, or names."""
        return self._open().marks.keys

    @property
    def parameter_types(self) -> tuple[DataType | None, ...]:
        """The type of each parameter from its context; STRING if the context gives none, None if only a value
        determines it."""
        return self._open().types

    @property
    def schema(self) -> Schema | None:
        """Names and types of the columns of a query; None for other statements, and if only values determine them. A
        parameter whose place says no type is a STRING here."""
        return self._open().schema

    def close(self) -> None:
        """Drop the statement and its plans; may be called again."""
        self._prepared = None

    def _open(self) -> Prepared:
        if self._prepared is None:
            raise PlanningError(
                "the prepared statement is closed",
                code="E1636",
                hint="prepare it again",
                span=Span(0, len(self._text)),
                text=self._text,
            )
        return self._prepared

    def __enter__(self) -> PreparedStatement:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"PreparedStatement({self._text!r})"


def newest_plan(statement: PreparedStatement) -> Kept | None:
    """The plan of a query that was kept last; None where none holds for other values."""
    prepared = statement._prepared
    return None if prepared is None else prepared.plans.newest


def mismatch_of(statement: PreparedStatement) -> TypeMismatchError | None:
    """Why the columns of a query are not known: what does not fit as long as a parameter without a type is a STRING."""
    prepared = statement._prepared
    return None if prepared is None else prepared.mismatch
