"""What a call by a name of another system says in functions that are here.

PostgreSQL, DuckDB, Spark, MySQL and SQL Server have other names for much of what Flink has. Where such a call can mean
one thing only it is taken: by another name for the same arguments (`SAME_ARGUMENTS`), as an expression over them
(`AS_EXPRESSIONS`), or by a rule (`DATE_TRUNC`, `TRUNC`, `DATE_PART`, `TO_CHAR`, where a literal says what to do). A function of the
program, or of the library, comes first. The names are listed in `docs/functions.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from sqlglot import exp

from runtime.core.errors import TypeMismatchError
from sqlengine.parse.nodes import FunctionCall, ParameterMark
from sqlengine.parse.spans import placed_at, span_of
from sqlengine.parse.statements import parse_expression

__all__ = ["AS_EXPRESSIONS", "BY_RULE", "SAME_ARGUMENTS", "by_another_name", "other_names"]


def other_names() -> frozenset[str]:
    """All names of other systems that are taken."""
    return frozenset((*SAME_ARGUMENTS, *(name for name, _ in AS_EXPRESSIONS), *BY_RULE))


def by_another_name(call: FunctionCall) -> exp.Expr:
    """The call in functions that are here; the call itself where its name is unknown.

    Raises:
        TypeMismatchError: E1309, a unit or a pattern that must be a literal; E1301, one that means nothing, and a wrong
            number of arguments.
    """
    name = call.name.upper()
    same = SAME_ARGUMENTS.get(name)
    if same is not None:
        return _placed(FunctionCall(this=same, expressions=call.expressions, order=call.args.get("order")), call)
    rule = BY_RULE.get(name)
    if rule is not None:
        made = rule(call, call.expressions)
        return call if made is None else _placed(made, call)
    given = len(call.expressions)
    text = AS_EXPRESSIONS.get((name, given))
    if text is not None:
        return _filled(text, call)
    counts = [count for each, count in AS_EXPRESSIONS if each == name]
    if counts:
        wanted = " or ".join(map(str, counts))
        raise TypeMismatchError(
            f"{name} takes {wanted} argument{'' if counts == [1] else 's'}, and this has {given}",
            code="E1301",
            span=span_of(call),
            hint=f"it stands for {AS_EXPRESSIONS[name, counts[0]]}",
        )
    return call


SAME_ARGUMENTS = {
    "LENGTH": "CHAR_LENGTH", "LEN": "CHAR_LENGTH", "UCASE": "UPPER", "LCASE": "LOWER", "STRPOS": "INSTR",
    "CHARINDEX": "LOCATE", "POW": "POWER", "RANDOM": "RAND", "STARTS_WITH": "STARTSWITH", "ENDS_WITH": "ENDSWITH",
    "NVL": "COALESCE", "IIF": "IF", "ARRAY_TO_STRING": "ARRAY_JOIN", "STRING_TO_ARRAY": "SPLIT", "STRING_SPLIT": "SPLIT",
    "ARRAY_CAT": "ARRAY_CONCAT", "SIZE": "CARDINALITY", "ARRAY_SIZE": "CARDINALITY", "REGEXP_LIKE": "REGEXP",
    "STRING_AGG": "LISTAGG", "GROUP_CONCAT": "LISTAGG", "QUANTILE": "PERCENTILE", "ANY_VALUE": "FIRST_VALUE",
}  # fmt: skip
"""Another name of a function that takes the same arguments."""

AS_EXPRESSIONS = {
    ("NVL2", 3): "CASE WHEN $1 IS NOT NULL THEN $2 ELSE $3 END",
    ("ZEROIFNULL", 1): "COALESCE($1, 0)",
    ("ARRAY_LENGTH", 1): "CARDINALITY($1)",
    ("SPLIT_PART", 3): "SPLIT_INDEX($1, $2, $3 - 1)",
    ("ADD_MONTHS", 2): "TIMESTAMPADD(MONTH, $2, $1)",
    ("GETDATE", 0): "CURRENT_TIMESTAMP",
    ("SYSDATE", 0): "CURRENT_TIMESTAMP",
    ("SYSDATETIME", 0): "CURRENT_TIMESTAMP",
    ("CURDATE", 0): "CURRENT_DATE",
    ("TODAY", 0): "CURRENT_DATE",
    ("CURTIME", 0): "CURRENT_TIME",
    ("MEDIAN", 1): "PERCENTILE($1, 0.5)",
    ("APPROX_QUANTILE", 2): "PERCENTILE($1, $2)",
    ("COUNT_IF", 1): "COUNT(CASE WHEN $1 THEN 1 END)",
    ("COUNTIF", 1): "COUNT(CASE WHEN $1 THEN 1 END)",
    ("SUM_IF", 2): "SUM(CASE WHEN $2 THEN $1 END)",
    ("BOOL_AND", 1): "MIN(NOT (NOT $1))",
    ("EVERY", 1): "MIN(NOT (NOT $1))",
    ("LOGICAL_AND", 1): "MIN(NOT (NOT $1))",
    ("BOOL_OR", 1): "MAX(NOT (NOT $1))",
    ("LOGICAL_OR", 1): "MAX(NOT (NOT $1))",
}
"""A call by name and number of arguments, as an expression over `$1`, `$2`, ..."""

_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "QUARTER", "YEAR", "DECADE", "CENTURY", "MILLENNIUM")
_PARTS = {
    "YEAR": "EXTRACT(YEAR FROM $1)", "QUARTER": "EXTRACT(QUARTER FROM $1)", "MONTH": "EXTRACT(MONTH FROM $1)",
    "WEEK": "EXTRACT(WEEK FROM $1)", "DAY": "EXTRACT(DAY FROM $1)", "HOUR": "EXTRACT(HOUR FROM $1)",
    "MINUTE": "EXTRACT(MINUTE FROM $1)", "SECOND": "EXTRACT(SECOND FROM $1)", "DOY": "EXTRACT(DOY FROM $1)",
    "DOW": "EXTRACT(DOW FROM $1) - 1", "ISODOW": "MOD(EXTRACT(DOW FROM $1) + 5, 7) + 1",
    "EPOCH": "EXTRACT(EPOCH FROM $1)", "DECADE": "EXTRACT(DECADE FROM $1)", "CENTURY": "EXTRACT(CENTURY FROM $1)",
    "MILLENNIUM": "EXTRACT(MILLENNIUM FROM $1)",
}  # fmt: skip
"""The parts of DATE_PART. A week begins on Sunday, day 0 of DOW and 7 of ISODOW; Flink's EXTRACT counts from 1."""


def _date_trunc(call: FunctionCall, arguments: Sequence[exp.Expr]) -> exp.Expr | None:
    """DATE_TRUNC('unit', time): down to the unit. A week begins on Monday, that of FLOOR on Sunday."""
    if len(arguments) != 2:
        return None
    unit = _literal(call, arguments[0], "unit", "'month'").upper().removesuffix("S")
    if unit == "WEEK":
        return _filled("FLOOR(($1 - INTERVAL '1' DAY) TO WEEK) + INTERVAL '1' DAY", call, arguments[1:])
    if unit not in _UNITS:
        raise _unknown(arguments[0], f"DATE_TRUNC has no unit '{unit.lower()}'", ("WEEK", *_UNITS))
    return _filled(f"FLOOR($1 TO {unit})", call, arguments[1:])


def _trunc(call: FunctionCall, arguments: Sequence[exp.Expr]) -> exp.Expr | None:
    """TRUNC(number [, digits]), or TRUNC(time, 'unit')."""
    if len(arguments) == 2 and isinstance(arguments[1], exp.Literal) and arguments[1].is_string:
        return _date_trunc(call, arguments[::-1])
    digits = {1: "0", 2: "$2"}.get(len(arguments))
    return None if digits is None else _filled(f"TRUNCATE($1, {digits})", call)


def _date_part(call: FunctionCall, arguments: Sequence[exp.Expr]) -> exp.Expr | None:
    """DATE_PART('field', time), as PostgreSQL counts."""
    if len(arguments) != 2:
        return None
    field = _literal(call, arguments[0], "field", "'year'").upper()
    text = _PARTS.get(field, _PARTS.get(field.removesuffix("S")))
    if text is None:
        raise _unknown(arguments[0], f"DATE_PART has no field '{field.lower()}'", tuple(_PARTS))
    return _filled(text, call, arguments[1:])


def _to_char(call: FunctionCall, arguments: Sequence[exp.Expr]) -> exp.Expr | None:
    """TO_CHAR(time or number, 'pattern') with PostgreSQL's letters."""
    return FunctionCall(this="PG_TO_CHAR", expressions=list(arguments)) if len(arguments) == 2 else None


BY_RULE: dict[str, Callable[[FunctionCall, Sequence[exp.Expr]], exp.Expr | None]] = {
    "DATE_TRUNC": _date_trunc,
    "TRUNC": _trunc,
    "DATE_PART": _date_part,
    "TO_CHAR": _to_char,
}
"""Calls whose meaning a literal among the arguments decides; None for a number of arguments that it does not take."""


def _literal(call: FunctionCall, argument: exp.Expr, what: str, example: str) -> str:
    if not (isinstance(argument, exp.Literal) and argument.is_string):
        raise TypeMismatchError(
            f"the {what} of {call.name.upper()} must be a text in quotes",
            code="E1309",
            span=span_of(argument),
            hint=f"for example {example}",
        )
    return str(argument.this)


def _unknown(argument: exp.Expr, message: str, known: Sequence[str]) -> TypeMismatchError:
    names = ", ".join(name.lower() for name in known)
    return TypeMismatchError(message, code="E1301", span=span_of(argument), hint=f"there is: {names}")


@cache
def _template(text: str) -> exp.Expr:
    return parse_expression(text)


def _filled(text: str, call: FunctionCall, arguments: Sequence[exp.Expr] | None = None) -> exp.Expr:
    """The expression with arguments in the places of its marks; errors about it point at the call."""
    given = call.expressions if arguments is None else arguments
    tree = placed_at(_template(text), span_of(call))
    for mark in list(tree.find_all(ParameterMark)):
        mark.replace(given[int(mark.parameter) - 1].copy())
    return tree


def _placed(tree: exp.Expr, like: exp.Expr) -> exp.Expr:
    span = span_of(like)
    if span is not None:
        tree.meta.update(start=span.start, end=span.end - 1)
    return tree
