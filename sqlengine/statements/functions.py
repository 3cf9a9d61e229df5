"""CREATE, ALTER and DROP FUNCTION: functions in Python, found by the path of a module and a name in it."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from runtime.core.errors import CatalogError, Span, UnsupportedError, did_you_mean
from runtime.expr.library import builtin_functions
from sqlengine.database.database import UserFunctionEntry
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.user_functions.bases import AggregateFunction, TableAggregateFunction, TableFunction, object_of
from sqlengine.user_functions.declare import UserFunction, udaf, udf, udtaf, udtf
from sqlengine.user_functions.process import ProcessTableFunction, declaration

__all__ = [
    "alter_function",
    "check_language",
    "create_function",
    "drop_function",
    "load_object",
    "register",
    "unregister",
]


def create_function(statement: st.CreateFunction, session: Session) -> Result:
    """Make a Python object known by a name: `AS 'package.module.name' LANGUAGE PYTHON`."""
    name, span = statement.name.parts[-1], statement.name.span
    if statement.if_not_exists and name.upper() in session.user_functions:
        return Result.ok()
    check_language(statement.language, statement.span)
    if name.upper() in session.user_functions:
        raise CatalogError(
            f'there is a function "{name}" already',
            code="E1440",
            span=span,
            hint="DROP FUNCTION first, or ALTER FUNCTION",
        )
    function = load_object(statement.identifier, statement.identifier_span)
    _put(session, name, function, statement.identifier, span, own=statement.temporary)
    return Result.ok()


def alter_function(statement: st.AlterFunction, session: Session) -> Result:
    """Put another Python object in the place of a function; what runs keeps the old one."""
    name = statement.name.parts[-1]
    if name.upper() not in session.user_functions:
        if statement.if_exists:
            return Result.ok()
        raise _unknown(session, name, statement.name.span)
    check_language(statement.language, statement.span)
    own = name.upper() in session.own_functions
    _put(
        session,
        name,
        load_object(statement.identifier, statement.span),
        statement.identifier,
        statement.name.span,
        own=own,
    )
    return Result.ok()


def drop_function(statement: st.DropFunction, session: Session) -> Result:
    """Forget a function of a user; what runs keeps it."""
    unregister(session, statement.name.parts[-1], statement.name.span, if_exists=statement.if_exists)
    return Result.ok()


def register(session: Session, name: str, function: Any, span: Span | None = None) -> None:
    """Make a function known to the SQL of this session. Raises CatalogError E1441 for a name that the engine's own
    functions have."""
    _put(session, name, function, "", span, own=True)


def _put(session: Session, name: str, function: Any, path: str, span: Span | None, *, own: bool) -> None:
    key = name.upper()
    if key in session.functions.functions and key not in session.user_functions:
        raise CatalogError(
            f"{key} is a function of the engine", code="E1441", span=span, hint="give yours another name"
        )
    home = session.own_functions if own else session.database.user_functions
    known = session.own_registry if own else session.database.functions
    home[key] = UserFunctionEntry(_user_function(function).declaration, path)
    known.functions[key] = home[key].function


def unregister(session: Session, name: str, span: Span | None = None, *, if_exists: bool = False) -> bool:
    """Forget a function, a temporary one first; raises CatalogError E1442 when there is none. Tells whether there was
    one."""
    key = name.upper()
    if key not in session.user_functions:
        if if_exists:
            return False
        raise _unknown(session, name, span)
    own = key in session.own_functions
    del (session.own_functions if own else session.database.user_functions)[key]
    del (session.own_registry if own else session.database.functions).functions[key]
    return True


def _unknown(session: Session, name: str, span: Span | None) -> CatalogError:
    own = builtin_functions().find(name) is not None
    return CatalogError(
        f'there is no function "{name}" of a user',
        code="E1442",
        span=span,
        hint=f"{name.upper()} belongs to the engine and stays"
        if own
        else did_you_mean(name.upper(), session.user_functions) or "SHOW USER FUNCTIONS lists them",
    )


def check_language(language: str | None, span: Span) -> None:
    """Raises UnsupportedError E1604 for functions and procedures that are not in Python."""
    if language != "PYTHON":
        raise UnsupportedError(
            f"functions in {language or 'JAVA'} cannot be run: there is no JVM here",
            code="E1604",
            span=span,
            hint="write it in Python: CREATE FUNCTION f AS 'package.module.function' LANGUAGE PYTHON",
        )


def load_object(identifier: str, span: Span) -> Any:
    """The object of a path `package.module.name`. Raises CatalogError E1443."""
    path, _, name = identifier.rpartition(".")
    try:
        module = importlib.import_module(path)
    except (ImportError, ValueError) as error:
        raise CatalogError(
            f"the Python module '{path}' cannot be imported: {error}",
            code="E1443",
            span=span,
            hint="write 'package.module.function'; the module has to be on Python's path",
        ) from error
    found = getattr(module, name, None)
    if found is None:
        known = [n for n, thing in vars(module).items() if callable(thing) or isinstance(thing, UserFunction)]
        raise CatalogError(
            f"the Python module '{path}' has no '{name}'",
            code="E1443",
            span=span,
            hint=did_you_mean(name, known) or "write 'package.module.function' of a function in that module",
        )
    return found


def _user_function(function: Any) -> UserFunction:
    """What is decorated as it is; what is not, as its base class or its form says: a generator function gives rows."""
    if isinstance(function, UserFunction):
        return function
    if not (inspect.isroutine(function) or inspect.isclass(function)):
        return _declare(function)
    if function not in _declared:
        _declared[function] = _declare(function)
    return _declared[function]


_declared: dict[Any, UserFunction] = {}
"""What is not decorated and has been made a function: made one again, by another database, plans know it by the same
name."""


def _declare(function: Any) -> UserFunction:
    if isinstance(function, ProcessTableFunction) or (
        inspect.isclass(function) and issubclass(function, ProcessTableFunction)
    ):
        return declaration(function)
    thing: Any = object_of(function)
    if isinstance(thing, TableAggregateFunction):
        return udtaf(thing)
    if isinstance(thing, AggregateFunction):
        return udaf(thing)
    if isinstance(thing, TableFunction) or inspect.isgeneratorfunction(thing):
        return udtf(thing)
    return udf(thing)
