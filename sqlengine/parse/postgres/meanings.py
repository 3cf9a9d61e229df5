"""What calls mean in PostgreSQL, where it is not what they mean here: one declaration for each.

`RENAMED` are functions of which PostgreSQL's form has a name of its own, because its types differ; `AS_EXPRESSIONS` are
expressions over `$1`, `$2`, .. by name and number of arguments; `BY_RULE` are rules. What PostgreSQL and this engine do
alike is not here, nor what only has another name (`sqlengine/bind/other_names.py`).
Source: PostgreSQL 15's documentation, "Functions and Operators".
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from sqlglot import exp

from runtime.core.errors import UnsupportedError
from sqlengine.parse.interval_texts import amount_of
from sqlengine.parse.nodes import FunctionCall, IntervalLiteral, NamedArg
from sqlengine.parse.postgres.templates import filled
from sqlengine.parse.postgres.text_meanings import TEXTS
from sqlengine.parse.spans import span_of
from sqlengine.parse.statements import parse_expression

__all__ = ["meaning", "refused_functions"]

RENAMED = {
    name: f"PG_{name}"
    for name in (
        "SUM", "AVG", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "VARIANCE", "VAR_POP", "VAR_SAMP",
        "GCD", "LCM", "FACTORIAL", "MIN_SCALE", "ASINH", "ACOSH", "ATANH",
        "ARRAY_REPLACE", "ARRAY_POSITIONS", "TRIM_ARRAY",
    )
} | {
    "JSONB_EXTRACT_PATH": "PG_JSONB_EXTRACT_PATH", "JSONB_EXTRACT_PATH_TEXT": "PG_JSONB_EXTRACT_PATH_TEXT",
    "TO_JSONB": "PG_JSONB_OF", "TO_JSON": "PG_JSONB_OF",
    "JSONB_BUILD_OBJECT": "PG_JSONB_BUILD_OBJECT", "JSON_BUILD_OBJECT": "PG_JSONB_BUILD_OBJECT",
    "JSONB_BUILD_ARRAY": "PG_JSONB_BUILD_ARRAY", "JSON_BUILD_ARRAY": "PG_JSONB_BUILD_ARRAY",
    "JSONB_TYPEOF": "PG_JSONB_TYPEOF", "JSON_TYPEOF": "PG_JSONB_TYPEOF",
    "JSONB_ARRAY_LENGTH": "PG_JSONB_ARRAY_LENGTH", "JSON_ARRAY_LENGTH": "PG_JSONB_ARRAY_LENGTH",
    "JSONB_STRIP_NULLS": "PG_JSONB_STRIP_NULLS",
    **dict.fromkeys(("ROW_TO_JSON", "ARRAY_TO_JSON"), "PG_JSONB_OF"), "JSONB_PRETTY": "PG_JSONB_PRETTY",
    **{name: f"PG_{name}" for name in ("SIND", "COSD", "TAND", "COTD", "ASIND", "ACOSD", "ATAND", "ATAN2D")},
    "JSONB_PATH_QUERY_ARRAY": "PG_JSONB_PATH_ARRAY", "JSONB_PATH_QUERY_FIRST": "PG_JSONB_PATH_FIRST",
    "JSONB_PATH_EXISTS": "PG_JSONB_PATH_EXISTS", "JSONB_PATH_MATCH": "PG_JSONB_PATH_MATCH",
    "CONCAT": "PG_CONCAT_ALL",
    "ROUND": "PG_ROUND",
    "TO_DATE": "PG_TO_DATE",
    "PG_TYPEOF": "PG_TYPE_NAME",
}  # fmt: skip
"""The same arguments under a name whose types, or whose NULLs, are PostgreSQL's."""

AS_EXPRESSIONS = {
    ("LOG", 1): "LOG10($1)",
    **TEXTS,
    ("JSONB_SET", 3): "PG_JSONB_SET($1, $2, $3, TRUE)",
    ("JSONB_SET", 4): "PG_JSONB_SET($1, $2, $3, $4)",
    ("TIMEZONE", 2): "PG_AT_TIME_ZONE($2, $1)",
    ("ARRAY_LENGTH", 2): "PG_ARRAY_LENGTH($1, $2)",
    ("ARRAY_UPPER", 2): "PG_ARRAY_LENGTH($1, $2)",
    ("TO_TIMESTAMP", 2): "PG_TO_TIMESTAMP($1, $2)",
    ("CLOCK_TIMESTAMP", 0): "NOW()",
    ("TRANSACTION_TIMESTAMP", 0): "NOW()",
    ("STATEMENT_TIMESTAMP", 0): "NOW()",
    ("GEN_RANDOM_UUID", 0): "CAST(UUID() AS UUID)",
    ("UUID_GENERATE_V4", 0): "CAST(UUID() AS UUID)",
    ("TO_TIMESTAMP", 1): "TO_TIMESTAMP_LTZ(CAST($1 * 1000 AS BIGINT), 3)",
    ("LPAD", 2): "LPAD($1, $2, ' ')",
    ("RPAD", 2): "RPAD($1, $2, ' ')",
    ("REPLACE", 3): "CASE WHEN $2 = '' THEN $1 ELSE REPLACE($1, $2, $3) END",
    ("SPLIT_PART", 3): "CASE WHEN $1 IS NOT NULL THEN COALESCE(SPLIT_INDEX($1, $2, "
    "CASE WHEN $3 < 0 THEN CARDINALITY(SPLIT($1, $2)) + $3 ELSE $3 - 1 END), '') END",
    ("WIDTH_BUCKET", 2): "PG_WIDTH_BUCKET($1, $2)",
    ("WIDTH_BUCKET", 4): "CASE WHEN $2 <= $3 THEN CASE WHEN $1 < $2 THEN 0 WHEN $1 >= $3 THEN $4 + 1 "
    "ELSE CAST(FLOOR(($1 - $2) * $4 / ($3 - $2)) AS INT) + 1 END "
    "ELSE CASE WHEN $1 > $2 THEN 0 WHEN $1 <= $3 THEN $4 + 1 ELSE CAST(FLOOR(($2 - $1) * $4 / ($2 - $3)) AS INT) + 1 END END",
    ("ARRAY_FILL", 2): "PG_ARRAY_FILL($1, $2)",
    ("TRIM_SCALE", 1): "$1",
    ("SCALE", 1): "PG_SCALE($1)",
    ("JUSTIFY_HOURS", 1): "$1",
    ("JSONB_INSERT", 3): "PG_JSONB_INSERT($1, $2, $3, FALSE)",
    ("JSONB_INSERT", 4): "PG_JSONB_INSERT($1, $2, $3, $4)",
    ("JSONB_OBJECT", 1): "PG_JSONB_OBJECT($1)",
    ("JSONB_OBJECT", 2): "PG_JSONB_OBJECT_OF_TWO($1, $2)",
    ("MAKE_TIMESTAMPTZ", 6): "CAST(CAST(CONCAT(CONCAT_WS('-', LPAD(CAST($1 AS STRING), 4, '0'), LPAD(CAST($2 AS STRING), 2, '0'), "
    "LPAD(CAST($3 AS STRING), 2, '0')), ' ', CONCAT_WS(':', LPAD(CAST($4 AS STRING), 2, '0'), "
    "LPAD(CAST($5 AS STRING), 2, '0'), PG_SECONDS_TEXT($6))) AS TIMESTAMP(6)) AS TIMESTAMP_LTZ(6))",
    ("ISFINITE", 1): "CASE WHEN $1 IS NOT NULL THEN TRUE END",
    ("ARRAY_TO_STRING", 2): "PG_ARRAY_TO_STRING($1, $2)",
    ("ARRAY_TO_STRING", 3): "PG_ARRAY_TO_STRING($1, $2, $3)",
    ("ARRAY_PREPEND", 2): "ARRAY_PREPEND($2, $1)",
    ("DIV", 2): "TRUNCATE(PG_DIVIDE($1, $2), 0)",
    ("BTRIM", 1): "TRIM(BOTH ' ' FROM $1)",
    ("MAKE_DATE", 3): "CAST(CONCAT_WS('-', CAST($1 AS STRING), LPAD(CAST($2 AS STRING), 2, '0'), "
    "LPAD(CAST($3 AS STRING), 2, '0')) AS DATE)",
    ("CBRT", 1): "PG_CBRT($1)",
    ("CHR", 1): "PG_CHR($1)",
    ("AGE", 2): "PG_AGE(CAST($1 AS TIMESTAMP(6)), CAST($2 AS TIMESTAMP(6)))",
    ("AGE", 1): "PG_AGE(CAST(CURRENT_DATE AS TIMESTAMP(6)), CAST($1 AS TIMESTAMP(6)))",
    ("ARRAY_LOWER", 2): "CASE WHEN PG_ARRAY_LENGTH($1, $2) > 0 THEN 1 END",
    ("ARRAY_NDIMS", 1): "CASE WHEN CARDINALITY($1) > 0 THEN 1 END",
    ("ARRAY_DIMS", 1): "CASE WHEN CARDINALITY($1) > 0 THEN CONCAT('[1:', CAST(CARDINALITY($1) AS STRING), ']') END",
    ("MAKE_TIME", 3): "CAST(CONCAT_WS(':', LPAD(CAST($1 AS STRING), 2, '0'), LPAD(CAST($2 AS STRING), 2, '0'), "
    "PG_SECONDS_TEXT($3)) AS TIME(6))",
    ("MAKE_TIMESTAMP", 6): "CAST(CONCAT(CONCAT_WS('-', LPAD(CAST($1 AS STRING), 4, '0'), LPAD(CAST($2 AS STRING), 2, '0'), "
    "LPAD(CAST($3 AS STRING), 2, '0')), ' ', CONCAT_WS(':', LPAD(CAST($4 AS STRING), 2, '0'), "
    "LPAD(CAST($5 AS STRING), 2, '0'), PG_SECONDS_TEXT($6))) AS TIMESTAMP(6))",
    ("DATE", 1): "CAST($1 AS DATE)",
    ("CURRENT_SCHEMA", 0): "CURRENT_DATABASE()",
    ("CURRENT_SCHEMAS", 1): "CASE WHEN $1 THEN ARRAY['pg_catalog', CURRENT_DATABASE()] ELSE ARRAY[CURRENT_DATABASE()] END",
}  # fmt: skip

_FIELDS = {
    "DOW": "EXTRACT(DOW FROM $1) - 1",
    "ISODOW": "MOD(EXTRACT(DOW FROM $1) + 5, 7) + 1",
    "MILLISECOND": "EXTRACT(SECOND FROM $1) * 1000 + EXTRACT(MILLISECOND FROM $1)",
    "MICROSECOND": "EXTRACT(SECOND FROM $1) * 1000000 + EXTRACT(MICROSECOND FROM $1)",
}
"""Fields that PostgreSQL counts in another way than Flink's EXTRACT."""
_REFUSED = {
    "JUSTIFY_DAYS": "an interval has months or days, not both",
    "JUSTIFY_INTERVAL": "an interval has months or days, not both",
}


def refused_functions() -> frozenset[str]:
    """Functions of PostgreSQL that are refused here with a reason."""
    return frozenset(_REFUSED)


def meaning(call: FunctionCall) -> exp.Expr:
    """The call as what it means here; itself where that is the same.

    Raises:
        UnsupportedError: it cannot be said here.
    """
    if call.qualifier:
        return call
    name = str(call.name).upper()
    reason = _REFUSED.get(name)
    if reason is not None:
        raise UnsupportedError(f"{name} is not supported", span=span_of(call), hint=reason)
    if name in RENAMED:
        call.set("this", RENAMED[name])
        return call
    rule = BY_RULE.get(name)
    if rule is not None:
        return rule(call)
    text = AS_EXPRESSIONS.get((name, len(call.expressions)))
    return call if text is None else filled(text, call)


def _extract(call: FunctionCall) -> exp.Expr:
    """EXTRACT is numeric, with the digits after the point of a second."""
    unit, value = call.expressions
    return _field(str(unit.this).upper(), value, call)


def _date_part(call: FunctionCall) -> exp.Expr:
    """DATE_PART('field', time) is EXTRACT(FIELD FROM time), as double precision."""
    if len(call.expressions) != 2:
        return call
    unit, value = call.expressions
    if not (isinstance(unit, exp.Literal) and unit.is_string):
        return call
    return filled("CAST($1 AS DOUBLE)", call, [_field(str(unit.this).upper(), value, call)])


def _field(unit: str, value: exp.Expr, call: FunctionCall) -> exp.Expr:
    word = unit.removesuffix("S") if unit not in ("MS", "US") else {"MS": "MILLISECOND", "US": "MICROSECOND"}[unit]
    if isinstance(value, FunctionCall) and value.name == "PG_AGE":
        return _part_of_age(word, value, call)
    if word in ("SECOND", "EPOCH"):
        digits = {"SECOND": 8, "EPOCH": 20}[word]
        text = (
            f"CAST(EXTRACT({word} FROM $1) * 1000000 + EXTRACT(MICROSECOND FROM $1) AS DECIMAL({digits}, 0)) * 0.000001"
        )
        return filled(text, call, [value])
    text = _FIELDS.get(word, f"EXTRACT({word} FROM $1)")
    return filled(f"CAST({text} AS DECIMAL(20, 0))", call, [value])


def _part_of_age(word: str, age: FunctionCall, call: FunctionCall) -> exp.Expr:
    """EXTRACT of the time between two points in time, which has months and days."""
    if word not in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"):
        raise UnsupportedError(
            f"AGE has no {word} here", span=span_of(call), hint="it has year, month, day, hour, minute and second"
        )
    if word == "SECOND":
        return filled("CAST(PG_AGE_PART('MICROSECOND', $1, $2) AS DECIMAL(8, 0)) * 0.000001", call, age.expressions)
    return filled(f"CAST(PG_AGE_PART('{word}', $1, $2) AS DECIMAL(20, 0))", call, age.expressions)


def _num_nulls(call: FunctionCall) -> exp.Expr:
    """NUM_NULLS and NUM_NONNULLS: how many arguments are NULL, or are not."""
    test = "IS NULL" if str(call.name).upper() == "NUM_NULLS" else "IS NOT NULL"
    terms = " + ".join(f"CASE WHEN ${i} {test} THEN 1 ELSE 0 END" for i in range(1, len(call.expressions) + 1))
    return filled(terms, call) if call.expressions else call


def _without_nulls(function: str) -> Callable[[FunctionCall], exp.Expr]:
    """GREATEST and LEAST pass over NULLs."""

    def rule(call: FunctionCall) -> exp.Expr:
        given = list(call.expressions)
        if len(given) < 2:
            return call
        found = given[0]
        for other in given[1:]:
            found = filled(f"COALESCE({function}($1, $2), $1, $2)", call, [found, other])
        return found

    return rule


def _part_of_text(call: FunctionCall) -> exp.Expr:
    """LEFT and RIGHT: a negative number leaves out so many characters at the other end."""
    if len(call.expressions) != 2:
        return call
    rest = {"LEFT": "SUBSTRING($1 FROM 1 FOR GREATEST(CHAR_LENGTH($1) + $2, 0))",
            "RIGHT": "SUBSTRING($1 FROM 1 - $2)"}[str(call.name).upper()]  # fmt: skip
    text, count = call.expressions
    if isinstance(count, exp.Literal):
        return call
    plain = FunctionCall(this=call.name, expressions=[text.copy(), count.copy()])
    return filled(f"CASE WHEN $2 < 0 THEN {rest} ELSE $3 END", call, [text, count, plain])


def _concat_ws(call: FunctionCall) -> exp.Expr:
    """CONCAT_WS takes values of any type."""
    separator, *values = call.expressions or [exp.Null()]
    texts = [FunctionCall(this="PG_TEXT", expressions=[value.copy()]) for value in values]
    for text, value in zip(texts, values, strict=True):
        text.meta.update(value.meta)
    call.set("expressions", [separator, *texts])
    return call


def _format(call: FunctionCall) -> exp.Expr:
    """FORMAT('%s: %I', a, b) takes values of any type."""
    form, *values = call.expressions or [exp.Null()]
    return filled_call("PG_FORMAT", call, [form, *values])


def filled_call(name: str, call: FunctionCall, given: list[exp.Expr]) -> FunctionCall:
    """A call whose arguments behind the first are taken as texts."""
    texts = [filled("PG_TEXT($1)", call, [value]) for value in given[1:]]
    made = FunctionCall(this=name, expressions=[given[0].copy(), *texts])
    made.meta.update(call.meta)
    return made


def _normalize(call: FunctionCall) -> exp.Expr:
    """NORMALIZE(text, NFD): the form is a word."""
    form = call.expressions[1] if len(call.expressions) == 2 else None
    if isinstance(form, exp.Column):
        return filled("PG_NORMALIZE($1, $2)", call, [call.expressions[0], exp.Literal(this=form.name, is_string=True)])
    return filled("PG_NORMALIZE($1, 'NFC')", call) if form is None else call


def _make_interval(call: FunctionCall) -> exp.Expr:
    """MAKE_INTERVAL(days => 10, hours => 2): months, or days and shorter."""
    given: dict[str, exp.Expr] = {}
    for place, argument in enumerate(call.expressions):
        named = isinstance(argument, NamedArg)
        name = (
            str(argument.this.name).lower()
            if named
            else _PARTS_OF_INTERVAL[place]
            if place < len(_PARTS_OF_INTERVAL)
            else ""
        )
        if name not in _PARTS_OF_INTERVAL:
            raise UnsupportedError(
                f"MAKE_INTERVAL has no {name or 'such argument'}",
                span=span_of(argument),
                hint=f"there are {', '.join(_PARTS_OF_INTERVAL)}",
            )
        given[name] = argument.expression if named else argument
    used = [n for n, value in given.items() if not (isinstance(value, exp.Literal) and str(value.this) == "0")]
    months = [n for n in used if n in _PARTS_OF_INTERVAL[:2]]
    if months and len(months) < len(used):
        raise UnsupportedError(
            "MAKE_INTERVAL makes months, or days and what is shorter",
            span=span_of(call),
            hint="an interval has not both",
        )
    names = months or used or ["secs"]
    values = [given.get(n, exp.Literal(this="0", is_string=False)) for n in names]
    factors = _MONTHS if months else _MILLIS
    total = " + ".join(f"${i} * {factors[n]}" for i, n in enumerate(names, 1))
    unit = "INTERVAL '1' MONTH" if months else "INTERVAL '0.001' SECOND"
    return filled(f"{unit} * CAST(ROUND({total}, 0) AS BIGINT)", call, values)


_PARTS_OF_INTERVAL = ("years", "months", "weeks", "days", "hours", "mins", "secs")
_MONTHS = {"years": 12, "months": 1}
_MILLIS = {"weeks": 604_800_000, "days": 86_400_000, "hours": 3_600_000, "mins": 60_000, "secs": 1000}


def _approx_percentile(call: FunctionCall) -> exp.Expr:
    """APPROX_PERCENTILE(q, error) WITHIN GROUP (ORDER BY x) is exact here."""
    call.set("this", "PERCENTILE_CONT")
    call.set("expressions", call.expressions[:1])
    return call


def _date_bin(call: FunctionCall) -> exp.Expr:
    """DATE_BIN(stride, time, origin): the beginning of the stride in which a time is."""
    given = call.expressions
    if len(given) not in (2, 3):
        return call
    stride = given[0]
    amount = amount_of(str(stride.this)) if isinstance(stride, exp.Literal) and stride.is_string else None
    if isinstance(stride, IntervalLiteral):
        amount = amount_of(f"{stride.this} {stride.args['unit']}")
    seconds = _UNITS.get(amount[1].upper(), 0) * Decimal(amount[0]) if amount is not None else Decimal(0)
    if seconds <= 0 or seconds % 1:
        raise UnsupportedError(
            "DATE_BIN takes an interval of whole seconds that is written in the statement",
            span=span_of(stride),
            hint="DATE_BIN('15 minutes', ts, TIMESTAMP '2000-01-01 00:00:00')",
        )
    origin = given[2] if len(given) == 3 else parse_expression("TIMESTAMP '1970-01-01 00:00:00'")
    size = int(seconds)
    since = "TIMESTAMPDIFF(SECOND, $2, FLOOR($1 TO SECOND))"
    back = f"MOD(MOD({since}, {size}) + {size}, {size})"
    return filled(f"TIMESTAMPADD(SECOND, {since} - {back}, $2)", call, [given[1], origin])


_UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400}


def _series(call: FunctionCall) -> exp.Expr:
    """GENERATE_SERIES(first, last, '1 day'): a text is an interval."""
    step = call.expressions[2] if len(call.expressions) == 3 else None
    amount = amount_of(str(step.this)) if isinstance(step, exp.Literal) and step.is_string else None
    if step is not None and amount is not None:
        interval = IntervalLiteral(this=amount[0], unit=amount[1], negative=False)
        interval.meta.update(step.meta)
        step.replace(interval)
    return call


def _substring(call: FunctionCall) -> exp.Expr:
    """SUBSTRING: what stands before the first character counts, and is empty."""
    given = call.expressions
    if len(given) not in (2, 3):
        return call
    start = given[1]
    if isinstance(start, exp.Literal):
        if start.is_string:
            return filled("PG_REGEXP_MATCH($1, $2, '')[1]", call, given[:2])
        if str(start.this) != "0":
            return call
    if len(given) == 2:
        return filled("SUBSTRING($1 FROM GREATEST($2, 1))", call)
    return filled("SUBSTRING($1 FROM GREATEST($2, 1) FOR GREATEST($2 + $3 - GREATEST($2, 1), 0))", call)


def _regexp_replace(call: FunctionCall) -> exp.Expr:
    """REGEXP_REPLACE(text, pattern, new, flags), or with a place to begin at instead of flags."""
    if len(call.expressions) != 4:
        text = AS_EXPRESSIONS.get(("REGEXP_REPLACE", len(call.expressions)))
        return call if text is None else filled(text, call)
    fourth = call.expressions[3]
    if isinstance(fourth, exp.Literal) and not fourth.is_string:
        return filled("PG_REGEXP_REPLACE_NTH($1, $2, $3, $4, 1, '')", call)
    return filled("PG_REGEXP_REPLACE($1, $2, $3, $4)", call)


BY_RULE: dict[str, Callable[[FunctionCall], exp.Expr]] = {
    "SUBSTRING": _substring,
    "SUBSTR": _substring,
    "EXTRACT": _extract,
    "DATE_PART": _date_part,
    "GREATEST": _without_nulls("GREATEST"),
    "LEAST": _without_nulls("LEAST"),
    "LEFT": _part_of_text,
    "RIGHT": _part_of_text,
    "REGEXP_REPLACE": _regexp_replace,
    "CONCAT_WS": _concat_ws,
    "FORMAT": _format,
    "APPROX_PERCENTILE": _approx_percentile,
    "DATE_BIN": _date_bin,
    "GENERATE_SERIES": _series,
    "MAKE_INTERVAL": _make_interval,
    "NORMALIZE": _normalize,
    "NUM_NULLS": _num_nulls,
    "NUM_NONNULLS": _num_nulls,
}
