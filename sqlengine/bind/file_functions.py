"""`read_csv('flights.csv', header => TRUE)` and its kind: files in FROM, with the options of their format as arguments.

The names are those of DuckDB. An argument is an option of the format or of the connector `filesystem`, with `_` for `-` and
without what stands before its dots: `field_delimiter`, `monitor_interval`.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from runtime.core.errors import did_you_mean
from sqlengine.bind.function_arguments import constant_argument, refused, text_argument
from sqlengine.bind.session import QueryEnv
from sqlengine.parse.nodes import FunctionCall, NamedArg

__all__ = ["FILE_FUNCTIONS", "named_file"]

FILE_FUNCTIONS: Mapping[str, str] = {
    "READ_AVRO": "avro",
    "READ_CSV": "csv",
    "READ_CSV_AUTO": "csv",
    "READ_JSON": "json",
    "READ_JSON_AUTO": "json",
    "READ_NDJSON": "json",
    "READ_ORC": "orc",
    "READ_PARQUET": "parquet",
}
"""By function the format of its files."""

_OF_FILES = {
    "bad_files": "source.bad-files",
    "monitor_interval": "source.monitor-interval",
    "regex_pattern": "source.path.regex-pattern",
}
_OF_FORMAT: Mapping[str, Mapping[str, str]] = {
    "avro": {},
    "csv": {
        "allow_comments": "csv.allow-comments",
        "delim": "csv.field-delimiter",
        "escape": "csv.escape-character",
        "escape_character": "csv.escape-character",
        "field_delimiter": "csv.field-delimiter",
        "header": "csv.header",
        "ignore_errors": "csv.ignore-parse-errors",
        "ignore_parse_errors": "csv.ignore-parse-errors",
        "null_literal": "csv.null-literal",
        "nullstr": "csv.null-literal",
        "quote": "csv.quote-character",
        "quote_character": "csv.quote-character",
        "sep": "csv.field-delimiter",
    },
    "json": {
        "fail_on_missing_field": "json.fail-on-missing-field",
        "ignore_errors": "json.ignore-parse-errors",
        "ignore_parse_errors": "json.ignore-parse-errors",
        "timestamp_format": "json.timestamp-format.standard",
    },
    "orc": {},
    "parquet": {},
}


def named_file(call: FunctionCall, env: QueryEnv) -> tuple[str, dict[str, str]]:
    """The path and the options of a table that a call stands for.

    Raises BindError E1230 for arguments that the function does not have, and for values that are no constants.
    """
    name = call.name.upper()
    format_name = FILE_FUNCTIONS[name]
    known = {**_OF_FORMAT[format_name], **_OF_FILES}
    shown = name.lower()
    if not call.expressions or _name(call.expressions[0]):
        raise refused(f"{shown} begins with the path of its files", call, f"write {shown}('folder/file.{format_name}')")
    path = text_argument(call.expressions[0], "the path", env)
    options = {"format": format_name}
    for argument in call.expressions[1:]:
        given = _name(argument)
        if not given:
            raise refused(
                f"{shown} has one argument without a name, the path", argument, "write the others name => value"
            )
        key = known.get(given.lower())
        if key is None:
            hint = did_you_mean(given, known) or "it takes " + ", ".join(sorted(known))
            raise refused(f'{shown} has no argument "{given}"', argument, hint)
        if key in options:
            raise refused(f"'{key}' is given twice", argument, "give it once")
        options[key] = _text(argument.expression, given, env)
    return path, options


def _name(argument: exp.Expr) -> str:
    """The name of an argument, also where it is written `name = value`, as in DuckDB; "" where it has none."""
    if isinstance(argument, NamedArg):
        return argument.this.name
    if isinstance(argument, exp.EQ) and isinstance(argument.this, exp.Column) and not argument.this.table:
        return argument.this.name
    return ""


def _text(value: exp.Expr, argument: str, env: QueryEnv) -> str:
    found = constant_argument(value, argument, env).value
    if isinstance(found, bool):
        return "true" if found else "false"
    if not isinstance(found, str | int):
        raise refused(f"{argument} is a text, a number, TRUE or FALSE", value, f"write {argument} => '..'")
    return str(found)
