"""Functions that give rows in PostgreSQL, Materialize and RisingWave, as what gives the same rows here.

    jsonb_array_elements(v)         UNNEST(TRY_CAST(v AS ARRAY<VARIANT>)), with the column value
    jsonb_each(v)                   UNNEST(MAP_ENTRIES(TRY_CAST(v AS MAP<STRING, VARIANT>))), with the columns key and value
    ROWS FROM (f(x), g(y))          UNNEST(f(x), g(y))
    tumble(t, c, interval '5 min')  PG_TUMBLE(TABLE t, DESCRIPTOR(c), INTERVAL '5' MINUTE)
    hop(t, c, slide, size)          PG_HOP(TABLE t, DESCRIPTOR(c), slide, size)

PG_TUMBLE and PG_HOP are TUMBLE and HOP, also of timestamps without a watermark.
A value that is no array, or no object, gives no rows, because which rows are looked at depends on the plan.
Source: PostgreSQL 15, "JSON Processing Functions"; RisingWave, "Time windows".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from sqlglot import exp

from sqlengine.parse.nodes import Descriptor, FunctionCall, IntervalLiteral, TableArg, TableFunction
from sqlengine.parse.postgres.templates import filled

__all__ = ["RECORDS", "gives_rows", "in_from", "rows_of", "rows_of_array"]

_ARRAY, _MAP = "TRY_CAST(PG_JSONB($1) AS ARRAY<VARIANT>)", "TRY_CAST(PG_JSONB($1) AS MAP<STRING, VARIANT>)"
_JSONB = {
    ("JSONB_ARRAY_ELEMENTS", 1): (_ARRAY, ("value",)),
    ("JSONB_ARRAY_ELEMENTS_TEXT", 1): (f"PG_JSONB_TEXTS({_ARRAY})", ("value",)),
    ("JSONB_EACH", 1): (f"MAP_ENTRIES({_MAP})", ("key", "value")),
    ("JSONB_EACH_TEXT", 1): (f"MAP_ENTRIES(PG_JSONB_TEXTS({_MAP}))", ("key", "value")),
    ("JSONB_OBJECT_KEYS", 1): (f"MAP_KEYS({_MAP})", ()),
}
_ARRAYS: dict[tuple[str, int], tuple[str, tuple[str, ...]]] = {
    **_JSONB,
    **{(name.replace("JSONB", "JSON"), count): meaning for (name, count), meaning in _JSONB.items()},
    ("JSONB_PATH_QUERY", 2): ("PG_JSONB_PATH_ROWS($1, $2)", ()),
    ("JSONB_PATH_QUERY", 3): ("PG_JSONB_PATH_ROWS($1, $2, $3)", ()),
    ("JSONB_PATH_QUERY", 4): ("PG_JSONB_PATH_ROWS($1, $2, $3, $4)", ()),
    ("GENERATE_SUBSCRIPTS", 2): ("PG_SUBSCRIPTS($1, $2, FALSE)", ()),
    ("GENERATE_SUBSCRIPTS", 3): ("PG_SUBSCRIPTS($1, $2, $3)", ()),
    ("REGEXP_MATCHES", 2): ("PG_REGEXP_MATCHES($1, $2, '')", ()),
    ("REGEXP_MATCHES", 3): ("PG_REGEXP_MATCHES($1, $2, $3)", ()),
    ("REGEXP_SPLIT_TO_TABLE", 2): ("PG_REGEXP_SPLIT($1, $2, '')", ()),
    ("REGEXP_SPLIT_TO_TABLE", 3): ("PG_REGEXP_SPLIT($1, $2, $3)", ()),
    ("STRING_TO_TABLE", 2): ("PG_STRING_TO_ARRAY($1, $2, CAST(NULL AS STRING))", ()),
    ("STRING_TO_TABLE", 3): ("PG_STRING_TO_ARRAY($1, $2, $3)", ()),
}
"""By name and number of arguments: the array whose elements are the rows, and the names of its columns in FROM, where those
are not that of the alias or the function."""


RECORDS = {
    "JSONB_TO_RECORDSET": _ARRAY,
    "JSON_TO_RECORDSET": _ARRAY,
    "JSONB_TO_RECORD": "ARRAY[PG_JSONB($1)]",
    "JSON_TO_RECORD": "ARRAY[PG_JSONB($1)]",
}
"""Functions in FROM whose columns the statement says, as arrays of the objects that are rows."""


def rows_of_array(call: FunctionCall) -> FunctionCall | None:
    """A call that gives rows as UNNEST of an array; None for any other."""
    name = str(call.name).upper()
    if call.qualifier or (name, len(call.expressions)) not in _ARRAYS:
        return None
    text, columns = _ARRAYS[name, len(call.expressions)]
    made = FunctionCall(this="UNNEST", expressions=[filled(text, call)])
    made.meta["columns"] = (name.lower(), columns)
    return made


def in_from(calls: Sequence[FunctionCall], *, ordinality: bool) -> exp.Unnest:
    """Functions that give rows in FROM, one or several side by side, as UNNEST; `columns` remembers how they are called."""
    arrays: list[exp.Expr] = []
    names: list[str] = []
    only: tuple[str, ...] = ()
    for call in calls:
        name, columns = call.meta.get("columns") or (str(call.name).lower(), ())
        only = columns
        is_unnest = call.name.upper() == "UNNEST"
        arrays += call.expressions if is_unnest else [call]
        names += columns or [name] * (len(call.expressions) if is_unnest else 1)
    made = exp.Unnest(expressions=arrays, offset=ordinality)
    made.meta["columns"] = (tuple(names) + (("ordinality",) if ordinality else ()), len(names) == 1 and not only)
    return made


def gives_rows(call: exp.Expr) -> TypeGuard[FunctionCall]:
    """Whether a call is one that `in_from` takes."""
    return isinstance(call, FunctionCall) and not call.qualifier and call.name.upper() in ("UNNEST", "GENERATE_SERIES")


def rows_of(call: FunctionCall) -> exp.Expr | None:
    """What stands in FROM for a window of RisingWave; None for any other call."""
    return _window(str(call.name).upper(), call)


def _window(name: str, call: FunctionCall) -> exp.Expr | None:
    """`tumble(table, column, interval)`: where the table and the column are given as names."""
    given = call.expressions
    if name not in ("TUMBLE", "HOP") or len(given) < 3 or not all(isinstance(g, exp.Column) for g in given[:2]):
        return None
    if not all(isinstance(g, IntervalLiteral) for g in given[2:]):
        return None
    table, column = given[:2]
    parts = dict(zip(("this", "db", "catalog"), (p.copy() for p in reversed(table.parts)), strict=False))
    named = exp.Table(**parts)
    named.meta.update(table.meta)
    arguments = [
        TableArg(this=named, partition_by=[], order=None),
        Descriptor(expressions=[column.this.copy()]),
        *(g.copy() for g in given[2:]),
    ]
    made = FunctionCall(this=f"PG_{name}", expressions=arguments)
    for tree in (*arguments[:2], made):
        tree.meta.update(call.meta)
    return TableFunction(this=made, lateral=False)
