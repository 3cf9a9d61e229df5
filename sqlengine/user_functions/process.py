"""Process table functions: the decorator `udptf` and what it declares.

@udptf(result_types={"n": "BIGINT"}, tables={"input": "SET_SEMANTIC_TABLE"}, state={"seen": "ROW<n BIGINT>"})
class Counted(ProcessTableFunction):
    def eval(self, ctx, seen, input, step: int = 1):
        seen.n = (seen.n or 0) + step
        yield seen.n

SELECT * FROM counted(input => TABLE orders PARTITION BY customer, step => 2)

The parameters of `eval` behind the context are tables, state and constants, each known by its name.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from runtime.core.errors import OptionError, TypeMismatchError, did_you_mean
from runtime.core.options import parse_duration
from runtime.core.rooms import Room
from runtime.core.types import DataType, TypeRoot
from runtime.expr.function import AnyFunction, ProcessFunction, ProcessState, ProcessTable
from sqlengine.user_functions.declare import UserFunction
from sqlengine.user_functions.types import argument_types, row_of
from sqlengine.values.data_types import to_type

if TYPE_CHECKING:
    import sqlengine.user_functions.process_epochs as _process_epochs
    import sqlengine.user_functions.process_operator as _process_operator
else:
    _process_epochs = Room("sqlengine.user_functions.process_epochs")
    _process_operator = Room("sqlengine.user_functions.process_operator")

__all__ = ["ProcessTableFunction", "declaration", "udptf"]

TRAITS = (
    "SET_SEMANTIC_TABLE",
    "ROW_SEMANTIC_TABLE",
    "OPTIONAL_PARTITION_BY",
    "PASS_COLUMNS_THROUGH",
    "SUPPORT_UPDATES",
    "REQUIRE_ON_TIME",
    "REQUIRE_UPDATE_BEFORE",
    "REQUIRE_FULL_DELETE",
)
_FUNC_TYPES = ("general", "arrow")
_KEPT = (TypeRoot.ROW, TypeRoot.ARRAY, TypeRoot.MAP)


class ProcessTableFunction(ABC):
    """Base of process table functions: `eval(self, ctx, ...)`, and where they set timers `on_timer(self, ctx, ...)`, of
    processing time `on_clock(self, ctx, ...)`, with the state that these name. `open(self, context)` and `close(self)` may
    be there, too."""

    @abstractmethod
    def eval(self, ctx: Any, *values: Any, **named: Any) -> Iterable[Any] | None:
        """The rows for a row of a table; they are returned, yielded, or given to `ctx.collect`."""

    # `on_timer(ctx, *state)` is called when the watermark has passed the time of a timer, `on_clock(ctx, *state)` when the
    # clock has reached the time of a timer of processing time.


@overload
def udptf(
    function: type[Any],
    *,
    result_types: Any = ...,
    tables: Mapping[str, str | Sequence[str]] | None = ...,
    state: Mapping[str, Any] | None = ...,
    ttl: Mapping[str, str] | None = ...,
    input_types: Mapping[str, Any] | None = ...,
    changelog: bool = ...,
    func_type: str = ...,
    name: str | None = ...,
) -> Any: ...
@overload
def udptf(
    *,
    result_types: Any = ...,
    tables: Mapping[str, str | Sequence[str]] | None = ...,
    state: Mapping[str, Any] | None = ...,
    ttl: Mapping[str, str] | None = ...,
    input_types: Mapping[str, Any] | None = ...,
    changelog: bool = ...,
    func_type: str = ...,
    name: str | None = ...,
) -> Callable[[type[Any]], Any]: ...
def udptf(
    function: Any = None,
    *,
    result_types: Any = None,
    tables: Mapping[str, str | Sequence[str]] | None = None,
    state: Mapping[str, Any] | None = None,
    ttl: Mapping[str, str] | None = None,
    input_types: Mapping[str, Any] | None = None,
    changelog: bool = False,
    func_type: str = "general",
    name: str | None = None,
) -> Any:
    """A process table function: a class with `eval(self, ctx, ...)`, of which each task makes an object.

    Args:
        result_types: the columns of its rows, as of `udtf`; the keys of its tables stand before them.
        tables: the parameters of `eval` that are tables, with what each is: `SET_SEMANTIC_TABLE` (rows by key, with state),
            `ROW_SEMANTIC_TABLE` (each row by itself), and beside that `OPTIONAL_PARTITION_BY`, `PASS_COLUMNS_THROUGH`,
            `SUPPORT_UPDATES`, `REQUIRE_ON_TIME`. Without it the one table is `input`, of set semantics. A row is a `Row`; of
            several tables the other ones are None.
        state: the parameters that are state of a key: a ROW (its fields can be set, and are None at first), an ARRAY (a
            `ListView`) or a MAP (a `MapView`).
        ttl: how long state is kept without use, by name: `{"seen": "1 h"}`; else what `table.exec.state.ttl` says.
        input_types: types of the other parameters, which are constants of a call, where annotations do not tell them.
        changelog: whether its rows are changes: a `Row` of kind `-U`, `+U` or `-D` takes back or replaces what was given.
        func_type: 'general' is called row by row. 'arrow' is called once an epoch with all rows of it: tables are a
            `RecordBatch` each, `ctx` is an `EpochContext`, and state is `StateColumns`.
        name: another name than the class's.
    """

    def decorate(decorated: Any) -> Any:
        called = name or getattr(decorated, "__name__", None) or type(decorated).__name__
        declared = _Declared(
            called, decorated, result_types, tables, state, ttl or {}, input_types or {}, changelog, func_type
        )
        return UserFunction(called, "process table", decorated, declared.declare)

    return decorate if function is None else decorate(function)


def declaration(function: Any) -> Any:
    """A class or object of `ProcessTableFunction` that is not decorated: its attributes are the arguments of `udptf`."""
    names = ("result_types", "tables", "state", "ttl", "input_types", "changelog", "func_type")
    return udptf(function, **{n: getattr(function, n) for n in names if hasattr(function, n)})


class _Declared:
    """Checks a declaration. Raises OptionError E1512 for what is wrong in it."""

    def __init__(
        self,
        name: str,
        function: Any,
        result: Any,
        tables: Mapping[str, str | Sequence[str]] | None,
        state: Mapping[str, Any] | None,
        ttl: Mapping[str, str],
        inputs: Mapping[str, Any],
        changelog: bool,
        func_type: str,
    ) -> None:
        self._name = name
        if func_type not in _FUNC_TYPES:
            raise self._wrong(f"there is no func_type '{func_type}'", did_you_mean(func_type, _FUNC_TYPES))
        self._by_epoch = func_type == "arrow"
        self._function = function
        self._changelog = changelog
        if result is None:
            raise TypeMismatchError(
                f"the result columns of the Python function {name} are not known",
                code="E1324",
                hint='say them: result_types={"n": "BIGINT"}',
            )
        self._result = tuple((f.name, f.type) for f in row_of(result).fields)
        self._tables = tuple(self._table(n, t) for n, t in (tables or {"input": "SET_SEMANTIC_TABLE"}).items())
        self._states = tuple(self._state(n, t, ttl.get(n)) for n, t in (state or {}).items())
        for known in ttl:
            if known not in (state or {}):
                raise self._wrong(f"ttl names '{known}', which is no state", did_you_mean(known, state or {}))
        self._check_kinds()
        self._parameters, self._scalars = self._arguments(inputs)

    def declare(self, key: str) -> AnyFunction:
        """The declaration under the name by which plans know it."""
        text = inspect.getdoc(self._function) or ""
        return ProcessFunction(
            name=key,
            document=text.splitlines()[0] if text else "A process table function in Python.",
            parameters=self._parameters,
            tables=self._tables,
            scalars=self._scalars,
            states=self._states,
            result=self._result,
            updates=self._changelog,
            takes_order=not (self._by_epoch and hasattr(self._function, "on_timer")),
            operator=_Operators(self._function, self._by_epoch),
            clock=hasattr(self._function, "on_clock"),
        )

    def _table(self, name: str, traits: str | Sequence[str]) -> ProcessTable:
        given = frozenset([traits] if isinstance(traits, str) else traits)
        for trait in given:
            if trait not in TRAITS:
                raise self._wrong(f"there is no '{trait}' of a table", did_you_mean(trait, TRAITS))
        if ("SET_SEMANTIC_TABLE" in given) == ("ROW_SEMANTIC_TABLE" in given):
            raise self._wrong(f"the table {name} is SET_SEMANTIC_TABLE or ROW_SEMANTIC_TABLE", "say one of them")
        return ProcessTable(name, given)

    def _state(self, name: str, type_: Any, ttl: str | None) -> ProcessState:
        kind = to_type(type_)
        if kind.root not in _KEPT:
            raise self._wrong(f"the state {name} is {kind}", "state is a ROW, an ARRAY or a MAP: 'ROW<n BIGINT>'")
        if name in ("timers", "clock") or not name.isidentifier():
            raise self._wrong(
                f"state cannot be called {name!r}", "give it a name of letters other than 'timers' and 'clock'"
            )
        if kind.root is TypeRoot.ROW and not all(f.name.isidentifier() for f in kind.fields):
            raise self._wrong(
                f"a field of the state {name} has a name that is none in Python", "use letters, digits and _"
            )
        return ProcessState(name, kind, None if ttl is None else parse_duration(ttl))

    def _check_kinds(self) -> None:
        sets = [t.is_set for t in self._tables]
        passing = any("PASS_COLUMNS_THROUGH" in t.traits for t in self._tables)
        if not sets or any(sets) != all(sets) or (len(sets) > 1 and not all(sets)):
            raise self._wrong("several tables are all of set semantics", "declare them SET_SEMANTIC_TABLE")
        if passing and len(sets) > 1:
            raise self._wrong("only one table can be passed through", "leave out PASS_COLUMNS_THROUGH")
        timed = [name for name in ("on_timer", "on_clock") if hasattr(self._function, name)]
        if not any(sets) and (self._states or self._changelog or timed):
            raise self._wrong(
                "state, timers and changes belong to keys, and the table has row semantics",
                "declare it SET_SEMANTIC_TABLE",
            )
        if passing and timed:
            raise self._wrong("a timer has no row to pass through", f"leave out PASS_COLUMNS_THROUGH, or {timed[0]}")

    def _arguments(
        self, inputs: Mapping[str, Any]
    ) -> tuple[tuple[str, ...], tuple[tuple[str, DataType | None, bool], ...]]:
        """The parameters by position, and of those that are no tables name, type and whether they may be left out."""
        evaluate: Callable[..., Any] | None = getattr(self._function, "eval", None)
        if evaluate is None or getattr(evaluate, "__isabstractmethod__", False):
            raise self._wrong("the class has no method eval", "write def eval(self, ctx, input): ..")
        skip = 2 if inspect.isclass(self._function) else 1
        parameters = list(inspect.signature(evaluate).parameters.values())[skip:]
        types = argument_types(evaluate, None, skip=skip)
        tables, states = {t.name for t in self._tables}, {s.name for s in self._states}
        names = [p.name for p in parameters]
        lacking = [n for n in (*tables, *states) if n not in names]
        if lacking:
            raise self._wrong(f"eval has no parameter {lacking[0]}", f"its parameters are {', '.join(names)}")
        plain = [(p, t) for p, t in zip(parameters, types, strict=True) if p.name not in tables | states]
        scalars = tuple(
            (p.name, to_type(inputs[p.name]) if p.name in inputs else t, p.default is not inspect.Parameter.empty)
            for p, t in plain
        )
        return tuple(n for n in names if n not in states), scalars

    def _wrong(self, message: str, hint: str | None) -> OptionError:
        return OptionError(f"the process table function {self._name}: {message}", code="E1512", hint=hint)


class _Operators:
    """Makes operators over new objects of a function."""

    def __init__(self, function: Any, by_epoch: bool) -> None:
        self._function = function
        self._by_epoch = by_epoch

    def __call__(self, node: Any, context: Any) -> Any:
        if self._by_epoch:
            return _process_epochs.EpochOperator(self._function, node, context)
        return _process_operator.ProcessOperator(self._function, node, context)
