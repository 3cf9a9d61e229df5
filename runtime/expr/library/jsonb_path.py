"""Functions of jsonb that take a path of SQL/JSON: JSONB_PATH_QUERY and its like, `@?` and `@@`.

A path is read once; each distinct combination of value, path and variables is looked at once.
Source: PostgreSQL 15, "JSON Functions and Operators", table 9.49.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from runtime.core.errors import ExpressionError
from runtime.core.rooms import Room
from runtime.core.types import BOOLEAN, VARIANT, DataType, array
from runtime.expr.columns import as_array
from runtime.expr.distinct import map_distinct
from runtime.expr.function import EvalContext, Nulls
from runtime.expr.library.declare import BOOLEAN_, CHARACTER, VARIANT_, Family
from runtime.expr.lists import built, by_row, parts_of

if TYPE_CHECKING:
    import runtime.expr.sql_path.finding as _finding
    import runtime.expr.sql_path.reading as _reading
    import runtime.kernels.variants as _variants
else:
    _finding = Room("runtime.expr.sql_path.finding")
    _reading = Room("runtime.expr.sql_path.reading")
    _variants = Room("runtime.kernels.variants")

__all__ = ["FAMILY"]

FAMILY = Family("jsonb_path")
_ARGUMENTS = [VARIANT_, CHARACTER, VARIANT_, BOOLEAN_]
_Found = Callable[[Iterator[Any], bool, bool], Any]


def _declared(name: str, result: DataType, document: str, chosen: _Found) -> None:
    """Declares a function of what a path finds; `chosen` makes its value of that, of whether the path is strict, and whether errors
    are passed over."""

    def answer(text: str, path: str, variables: str, silent: bool) -> Any:
        read = _reading.read_path(path)
        found = _finding.everything(read, _finding.read_document(text), _finding.read_document(variables))
        try:
            return chosen(found, read.strict, silent)
        except RecursionError:
            raise ExpressionError(
                "a path and a document lie too deep in each other", code="E2028", hint="ask in two steps"
            ) from None

    @by_row
    def evaluate(context: EvalContext, length: int, *values: pa.Array) -> pa.Array:
        kind = pa.string() if result == VARIANT else context.result_type.arrow
        found = as_array(map_distinct(answer, list(values), kind, length), length)
        if result == VARIANT:
            return _canonical(found)
        if context.result_type.arrow == pa.bool_():
            return found
        parts = parts_of(found)
        return built(_canonical(found.values.take(pa.array(parts.rows))), parts.lengths, parts.valid, kind)

    FAMILY.scalar(name, _ARGUMENTS, result, document, nulls=Nulls.MAYBE, can_fail=True)(evaluate)


def _canonical(texts: pa.Array) -> pa.Array:
    """JSON texts as the values of jsonb."""
    return _variants.parse(texts, np.ones(len(texts), np.bool_))[0]


def _known(found: Iterator[Any], silent: bool) -> Iterator[Any]:
    """What is found; of a silent question, what is found before the first error."""
    try:
        yield from found
    except _finding.PathError:
        if not silent:
            raise


def _all(found: Iterator[Any], strict: bool, silent: bool) -> list[str]:
    return [_finding.written(item) for item in _known(found, silent)]


def _array(found: Iterator[Any], strict: bool, silent: bool) -> str:
    return f"[{','.join(_all(found, strict, silent))}]"


def _first(found: Iterator[Any], strict: bool, silent: bool) -> str | None:
    items = _all(found, strict, silent)
    return items[0] if items else None


def _exists(found: Iterator[Any], strict: bool, silent: bool) -> bool | None:
    """In lax mode the first thing is enough."""
    try:
        return bool(list(found) if strict else list(islice(found, 1)))
    except _finding.PathError:
        if not silent:
            raise
        return None


def _match(found: Iterator[Any], strict: bool, silent: bool) -> bool | None:
    items = list(_known(found, silent))
    if len(items) == 1 and (items[0] is None or isinstance(items[0], bool)):
        return items[0]
    if silent:
        return None
    raise _finding.PathError(
        "the path finds no single truth", code="E2028", hint="JSONB_PATH_EXISTS asks whether it finds anything"
    )


_declared("PG_JSONB_PATH_ROWS", array(VARIANT), "What a path finds, as an array of values of jsonb.", _all)
_declared("PG_JSONB_PATH_ARRAY", VARIANT, "What a path finds, as an array of jsonb.", _array)
_declared("PG_JSONB_PATH_FIRST", VARIANT, "The first value that a path finds.", _first)
_declared("PG_JSONB_PATH_EXISTS", BOOLEAN, "Whether a path finds anything.", _exists)
_declared("PG_JSONB_PATH_MATCH", BOOLEAN, "The truth that a path finds.", _match)
