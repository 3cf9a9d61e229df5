"""The options of a server that is asked for rows again and again."""

from __future__ import annotations

import pyarrow as pa

from connectors.http.address import Address, read_way
from connectors.http.json_places import read_path
from connectors.http.polling import HttpSource, Paging, Since, typed
from connectors.options import MAX_RECORD, TableOptions, memory_limit
from runtime.core.errors import OptionError
from runtime.core.likeness import did_you_mean
from runtime.core.options import Option, duration_option, int_option, text_option
from runtime.core.types import TypeRoot
from runtime.spi.format import Format
from runtime.spi.registry import TableRequest

__all__ = ["SCAN_OPTIONS", "source_of"]

INTERVAL = duration_option(
    "scan.interval", 0, "how often all pages are asked for, such as '30 s'; 0: once, then the table ends"
)
PAUSE = duration_option("scan.request-interval", 0, "the least time between two requests")
ROWS = text_option(
    "scan.rows", "", "where in an answer of JSON the rows are, such as 'data.items'; without it the answer is"
)
PAGE = text_option(
    "scan.page",
    "none",
    "how the next page is found: 'link', 'cursor', 'offset' or 'number'",
    ("none", "link", "cursor", "offset", "number"),
)
PARAMETER = text_option("scan.page.parameter", "", "the parameter of the query that takes cursor, offset or number")
PATH = text_option(
    "scan.page.path",
    "",
    "where in an answer the cursor or link is, such as 'meta.next'; a link is else in the header Link",
)
FIRST = int_option("scan.page.first", 0, "the first offset or number")
NEXT_ROUND = text_option(
    "scan.next-round",
    "first",
    "where asking goes on after the last page: at the 'first' one, or 'onward' from the last cursor or offset",
    ("first", "onward"),
)
SINCE_COLUMN = text_option(
    "scan.since.column", "", "the column whose greatest value so far is asked for in the next round"
)
SINCE_PARAMETER = text_option("scan.since.parameter", "", "the parameter of the query that takes it")
SINCE_START = text_option("scan.since.start", "", "its first value; without it the first round asks without")
SCAN_OPTIONS = (
    INTERVAL, PAUSE, ROWS, PAGE, PARAMETER, PATH, FIRST, NEXT_ROUND, SINCE_COLUMN, SINCE_PARAMETER, SINCE_START,
)  # fmt: skip
_ORDERED = frozenset(
    (
        TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DECIMAL, TypeRoot.CHAR, TypeRoot.VARCHAR,
        TypeRoot.DATE, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ,
    )
)  # fmt: skip


def source_of(request: TableRequest, options: TableOptions, format_: Format, address: Address) -> HttpSource:
    """The table as a source. Raises OptionError."""
    json, interval, most = "json" in format_.name, options.get(INTERVAL), memory_limit(options, MAX_RECORD)
    return HttpSource(
        schema=request.schema,
        primary_key=request.primary_key,
        value=request.schema,
        metadata=(),
        name=request.name,
        starts="earliest",
        ends="unbounded" if interval else "latest",
        most=most,
        time_zone=request.time_zone,
        format=format_,
        address=address,
        way=read_way(options, most),
        rows=_path(options, ROWS, json),
        paging=_paging(options, json),
        since=_since(request, options),
        interval=interval / 1000,
        pause=options.get(PAUSE) / 1000,
    )


def _path(options: TableOptions, option: Option[str], json: bool) -> tuple[str, ...]:
    text = options.get(option)
    path = read_path(text)
    if path is None or (path and not json):
        why = "is no path" if path is None else "needs a format of JSON"
        raise OptionError(f"option '{option.key}' = '{text}' {why}", hint="a path is names with dots: 'data.items'")
    return path


def _paging(options: TableOptions, json: bool) -> Paging:
    kind, onward = options.get(PAGE), options.get(NEXT_ROUND) == "onward"
    parameter, path = options.get(PARAMETER), _path(options, PATH, json)
    named = kind in ("cursor", "offset", "number")
    if named != bool(parameter):
        told = f"needs the option '{PARAMETER.key}'" if named else f"has no use for '{PARAMETER.key}'"
        raise OptionError(f"'{PAGE.key}' = '{kind}' {told}", hint="such as 'cursor', 'offset' or 'page'")
    if (kind == "cursor" and not path) or (kind not in ("cursor", "link") and path):
        told = "needs" if kind == "cursor" else "has no use for"
        raise OptionError(f"'{PAGE.key}' = '{kind}' {told} the option '{PATH.key}'", hint="where a cursor or link is")
    if onward and kind not in ("cursor", "offset"):
        raise OptionError(f"'{NEXT_ROUND.key}' = 'onward' needs pages by cursor or offset", hint=f"set '{PAGE.key}'")
    return Paging(kind, parameter, path, options.get(FIRST), onward)


def _since(request: TableRequest, options: TableOptions) -> Since | None:
    column, parameter, start = (options.get(option) for option in (SINCE_COLUMN, SINCE_PARAMETER, SINCE_START))
    if not column and not parameter and not start:
        return None
    if not column or not parameter:
        raise OptionError(f"'{SINCE_COLUMN.key}' and '{SINCE_PARAMETER.key}' go together", hint="give both, or none")
    number = request.schema.index_of(column)
    if number < 0:
        near = did_you_mean(column, request.schema.names)
        raise OptionError(f"'{SINCE_COLUMN.key}' names '{column}', which is no column of {request.name}", hint=near)
    type_ = request.schema[number].type
    if type_.root not in _ORDERED:
        raise OptionError(
            f"'{SINCE_COLUMN.key}' names a column of type {type_}", hint="it is a whole number, DECIMAL, text or time"
        )
    if start:
        try:
            typed(start, type_.arrow)
        except pa.ArrowInvalid as error:
            raise OptionError(
                f"'{SINCE_START.key}' = '{start}' is no {type_}", hint="write it as the server does"
            ) from error
    return Since(parameter, column, start)
