"""What the state of aggregate calls is called, and which of it is rows of its own: one rule for the operators that keep
it and for EXPLAIN STATE.

Columns are told by their position (`MAX(#1)`): an operator keeps its state when a column before it gets another name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runtime.core.schema import Schema
from runtime.expr.function import AggregateFunction, made_by_program
from runtime.plan.parts import AggregateSpec
from runtime.plan.state import StateSpec, figure, key_text

__all__ = [
    "ValueTable",
    "call_names",
    "distinct_name",
    "is_distinct",
    "sharing_distinct",
    "value_specs",
    "value_tables",
]

_IGNORES_DUPLICATES = frozenset({"MIN", "MAX"})
_KEEPS_ROWS_TO_TAKE_BACK = frozenset({"MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"})
_COUNTS_TO_TAKE_BACK = frozenset(
    f"BITMAP_{kind}{counts}_AGG" for kind in ("BUILD", "AND", "OR") for counts in ("", "_CARDINALITY")
)
"""What keeps each integer once."""
_SAME_OF_DISTINCT = _IGNORES_DUPLICATES | _COUNTS_TO_TAKE_BACK
_KEEPS_ROWS = frozenset(
    {
        "ARRAY_AGG",
        "ARRAY_AGG_IGNORE_NULLS",
        "COLLECT",
        "JSON_ARRAYAGG",
        "JSON_ARRAYAGG_ABSENT_ON_NULL",
        "JSON_ARRAYAGG_NULL_ON_NULL",
        "JSON_OBJECTAGG",
        "JSON_OBJECTAGG_ABSENT_ON_NULL",
        "JSON_OBJECTAGG_NULL_ON_NULL",
        "LISTAGG",
        "MODE",
        "PERCENTILE",
        "PERCENTILE_DISC",
        "SINGLE_VALUE",
    }
)


class ValueTable(NamedTuple):
    """A table of values beside the groups: its name, the positions of the columns whose values it holds, and whether
    equal values of a group are one row."""

    name: str
    args: tuple[int, ...]
    once: bool


def is_distinct(call: AggregateSpec) -> bool:
    """Whether the call takes each value of a group once, and that makes a difference."""
    name = call.function.upper()
    return name == "APPROX_COUNT_DISTINCT" or (call.distinct and name not in _SAME_OF_DISTINCT)


def sharing_distinct(calls: Sequence[AggregateSpec]) -> list[list[AggregateSpec]]:
    """The calls that take each value once, together those of the same arguments; equal calls are one."""
    found: dict[tuple[int, ...], list[AggregateSpec]] = {}
    for call in dict.fromkeys(calls):
        if is_distinct(call):
            found.setdefault(call.args, []).append(call)
    return list(found.values())


def call_names(calls: Sequence[AggregateSpec]) -> dict[AggregateSpec, str]:
    """A name for each call, no two the same."""
    taken: dict[str, int] = {}
    names: dict[AggregateSpec, str] = {}
    for call in dict.fromkeys(calls):
        name = _name(call)
        taken[name] = taken.get(name, 0) + 1
        names[call] = name if taken[name] == 1 else f"{name}-{taken[name]}"
    return names


def distinct_name(call: AggregateSpec) -> str:
    """The name of the table of distinct values that calls of these arguments share."""
    return f"values of DISTINCT {_arguments(call)}"


def value_tables(calls: Sequence[AggregateSpec]) -> list[ValueTable]:
    """The tables of the calls that hold values, in the order in which operators have them."""
    found = [
        ValueTable(f"values of {name}", call.args, call.function.upper() in _SAME_OF_DISTINCT)
        for call, name in call_names(calls).items()
        if _keeps_rows(call)
    ]
    found += [ValueTable(distinct_name(sharing[0]), sharing[0].args, True) for sharing in sharing_distinct(calls)]
    return found


def _keeps_rows(call: AggregateSpec) -> bool:
    name = call.function.upper()
    made = made_by_program(name)
    if isinstance(made, AggregateFunction):
        return made.keeps_values or (call.retract and not made.retractable)
    return name in _KEEPS_ROWS or (call.retract and name in _KEEPS_ROWS_TO_TAKE_BACK | _COUNTS_TO_TAKE_BACK)


def _figures(call: AggregateSpec, name: str) -> list[StateSpec]:
    """What all groups share: arguments that are the same for every row."""
    match call.function.upper():
        case "PERCENTILE" | "PERCENTILE_DISC":
            return [figure(f"fractions of {name}")]
        case "LISTAGG" if len(call.args) > 1:
            return [figure(f"separator of {name}")]
        case _:
            return []


def value_specs(calls: Sequence[AggregateSpec], schema: Schema, owner: str, bound: str) -> list[StateSpec]:
    """These tables as a node declares them: of calls over columns of a schema, whose groups are the rows of `owner`."""
    found = [
        StateSpec(
            table.name,
            f"{'distinct' if table.once else 'all'} values of {key_text(schema, table.args, 'rows')}",
            bound,
            owner=owner,
        )
        for table in value_tables(calls)
    ]
    return [*found, *(each for call, name in call_names(calls).items() for each in _figures(call, name))]


def _name(call: AggregateSpec) -> str:
    distinct = "DISTINCT " if call.distinct else ""
    where = "" if call.filter is None else f" FILTER #{call.filter}"
    order = ", ".join(f"#{o.index}{' DESC' if o.descending else ''}" for o in call.order_by)
    return f"{call.function}({distinct}{_arguments(call)}{order and f' ORDER BY {order}'}){where}"


def _arguments(call: AggregateSpec) -> str:
    return ", ".join(f"#{a}" for a in call.args) or "*"
