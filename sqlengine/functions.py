"""The functions of SQL for expressions: `from sqlengine import functions as F`, then `F.upper(col("name"))`.

Every function of `SHOW FUNCTIONS` that is called like one is here, under its name in small letters (with `_` behind it
where Python has the word: `F.if_`), with its documentation. `functions.pyi` lists them for editors. They are made when
they are asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from runtime.core.errors import did_you_mean
from sqlengine.expression.expression import Expression, as_code, call_expression
from sqlengine.expression.function_docs import FunctionDoc, function_docs
from sqlengine.values.code import Code, compose

__all__ = ["count_star", "json_object", "json_objectagg"]


def count_star() -> Expression:
    """COUNT(*): the number of rows."""
    return Expression(Code.atom("COUNT(*)", "count_star()"), call=("COUNT", [Code("*")], False, None))


def json_object(*keys_and_values: Any) -> Expression:
    """JSON_OBJECT: keys and values in turn as a JSON object."""
    codes = [as_code(a) for a in keys_and_values]
    sql: list[str | Code] = ["JSON_OBJECT("]
    python: list[str | Code] = ["json_object("]
    for index, code in enumerate(codes):
        sql += [", " if index and index % 2 == 0 else "", " VALUE " if index % 2 else "KEY ", code]
        python += [", " if index else "", code]
    return Expression(compose([*sql, ")"], [*python, ")"]))


def json_objectagg(key: Any, value: Any) -> Expression:
    """JSON_OBJECTAGG: the keys and values of a group as a JSON object."""
    codes = as_code(key), as_code(value)
    sql = ["JSON_OBJECTAGG(KEY ", codes[0], " VALUE ", codes[1], ")"]
    return Expression(compose(sql, ["json_objectagg(", codes[0], ", ", codes[1], ")"]))


def __getattr__(name: str) -> Callable[..., Expression]:
    doc = function_docs().get(name)
    if doc is None:
        hint = None if name.startswith("__") else did_you_mean(name, function_docs())
        raise AttributeError(f"there is no SQL function {name!r}" + (f"; {hint}" if hint else ""))
    made = globals()[name] = _function(doc)
    return made


def __dir__() -> list[str]:
    return sorted([*function_docs(), *__all__])


def _function(doc: FunctionDoc) -> Callable[..., Expression]:
    def function(*args: Any) -> Expression:
        if doc.bare:
            return Expression(Code.atom(doc.sql, f"{doc.python}()"))
        if doc.takes_word and args and isinstance(args[0], str):
            return _with_word(doc, args[0], args[1:])
        return call_expression(doc.sql, args, doc.python)

    function.__name__ = function.__qualname__ = doc.python
    function.__doc__ = doc.text
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                p.name,
                inspect.Parameter.VAR_POSITIONAL if p.variadic else inspect.Parameter.POSITIONAL_ONLY,
                default=None if p.optional else inspect.Parameter.empty,
            )
            for p in doc.parameters
        ]
    )
    return function


def _with_word(doc: FunctionDoc, word: str, args: tuple[Any, ...]) -> Expression:
    codes = [as_code(a) for a in args]
    between = " FROM " if doc.sql == "EXTRACT" else ", "
    sql: list[str | Code] = [f"{doc.sql}({word.upper()}"]
    python: list[str | Code] = [f'{doc.python}("{word}"']
    for index, code in enumerate(codes):
        sql += [between if index == 0 else ", ", code]
        python += [", ", code]
    return Expression(compose([*sql, ")"], [*python, ")"]))
