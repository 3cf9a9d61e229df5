"""Functions in FROM that PostgreSQL, Materialize and RisingWave have, as what gives the same rows here.

    jsonb_array_elements(v)         UNNEST(TRY_CAST(v AS ARRAY<VARIANT>)) AS jsonb_array_elements (value)
    jsonb_each(v)                   UNNEST(TRY_CAST(v AS MAP<STRING, VARIANT>)) AS jsonb_each (key, value)
    tumble(t, c, interval '5 min')  PG_TUMBLE(TABLE t, DESCRIPTOR(c), INTERVAL '5' MINUTE)
    hop(t, c, slide, size)          PG_HOP(TABLE t, DESCRIPTOR(c), slide, size)

PG_TUMBLE and PG_HOP are TUMBLE and HOP, also of timestamps without a watermark.
A value that is no array, or no object, gives no rows, because which rows are looked at depends on the plan.
Source: PostgreSQL 15, "JSON Processing Functions"; RisingWave, "Time windows".
"""

from __future__ import annotations

from sqlglot import exp

from sqlengine.parse.nodes import Descriptor, FunctionCall, IntervalLiteral, TableArg, TableFunction
from sqlengine.parse.spans import placed_at, span_of
from sqlengine.parse.statements import parse_query

__all__ = ["rows_of"]

_JSONB = {
    "JSONB_ARRAY_ELEMENTS": ("SELECT * FROM UNNEST(TRY_CAST(PG_JSONB(a) AS ARRAY<VARIANT>))", ("value",)),
    "JSONB_ARRAY_ELEMENTS_TEXT": (
        "SELECT PG_JSONB_TEXT(v) FROM UNNEST(TRY_CAST(PG_JSONB(a) AS ARRAY<VARIANT>)) AS u (v)",
        ("value",),
    ),
    "JSONB_EACH": ("SELECT * FROM UNNEST(TRY_CAST(PG_JSONB(a) AS MAP<STRING, VARIANT>))", ("key", "value")),
    "JSONB_EACH_TEXT": (
        "SELECT k, PG_JSONB_TEXT(v) FROM UNNEST(TRY_CAST(PG_JSONB(a) AS MAP<STRING, VARIANT>)) AS u (k, v)",
        ("key", "value"),
    ),
    "JSONB_OBJECT_KEYS": (
        "SELECT * FROM UNNEST(MAP_KEYS(TRY_CAST(PG_JSONB(a) AS MAP<STRING, VARIANT>)))",
        ("jsonb_object_keys",),
    ),
}
_ROWS = _JSONB | {name.replace("JSONB", "JSON"): rows for name, rows in _JSONB.items()}


def rows_of(call: FunctionCall) -> exp.Expr | None:
    """What stands in FROM for a call; None for one that stays as it is."""
    name = str(call.name).upper()
    if name in _ROWS and len(call.expressions) == 1:
        text, columns = _ROWS[name]
        query = placed_at(parse_query(text), span_of(call))
        for column in list(query.find_all(exp.Column)):
            if column.name == "a":
                column.replace(call.expressions[0].copy())
        alias = exp.TableAlias(
            this=exp.Identifier(this=name.lower(), quoted=True),
            columns=[exp.Identifier(this=c, quoted=True) for c in columns],
        )
        made = exp.Lateral(this=exp.Subquery(this=query), alias=alias)
        made.meta["columns"] = columns
        return made
    return _window(name, call)


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
