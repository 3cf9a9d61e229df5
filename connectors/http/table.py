"""The connector `http`: a server that is asked for rows, page by page or in lookup joins, or told of rows."""

from __future__ import annotations

from connectors.formats.message_table import format_prefixes, message_format
from connectors.http.address import WAY_OPTIONS, read_url, read_way
from connectors.http.lookup import HttpBatchLookup, HttpKeyLookup
from connectors.http.polling import HttpSource
from connectors.http.scan import SCAN_OPTIONS, source_of
from connectors.http.sink import HttpSink
from connectors.kit.commits import SPOOL_SIZE
from connectors.options import FORMAT, MAX_RECORD, TableOptions, memory_limit
from runtime.core.errors import OptionError, UnsupportedError
from runtime.core.options import int_option, text_option
from runtime.spi.format import Format
from runtime.spi.registry import ConnectorFactory, TableRequest

__all__ = ["HTTP", "OPTIONS"]

URL = text_option("url", "", "the address, such as 'https://host/rates/{currency}'; for lookups columns may be in it")
METHOD = text_option(
    "method",
    "",
    "of lookups 'GET' or 'POST', of a sink 'POST', 'PUT' or 'PATCH'; otherwise the first of these",
    ("GET", "POST", "PUT", "PATCH"),
)
BATCH = int_option("lookup.batch-size", 1, "so many keys are one POST, an array; their rows come back in an array")
PARALLEL = int_option("lookup.parallelism", 8, "so many requests of an epoch are under way at once")
SIZE = int_option("sink.batch-size", 1, "so many rows are one request")
BODY = text_option(
    "sink.batch-body",
    "array",
    "how the rows of a request stand in it when there may be several: 'array' of JSON, or 'lines'",
    ("array", "lines"),
)
CONTENT_TYPE = text_option("sink.content-type", "", "the header of this name; without it that of the format")
SENDS = text_option(
    "sink.send-with",
    "epoch",
    "'epoch': requests are sent at the end of each epoch; 'checkpoint': when the checkpoint with their rows is complete, so that "
    "a repeated request has the idempotency key and the rows that it had",
    ("epoch", "checkpoint"),
)
OPTIONS = (
    URL, METHOD, *WAY_OPTIONS, FORMAT, MAX_RECORD, *SCAN_OPTIONS, BATCH, PARALLEL, SIZE, BODY, CONTENT_TYPE, SENDS, SPOOL_SIZE,
)  # fmt: skip
_TYPES = {"csv": "text/csv", "raw": "application/octet-stream", "avro": "avro/binary"}


def _options(request: TableRequest, *, writes: bool = False) -> tuple[TableOptions, Format]:
    options = TableOptions(request.options, "connector 'http'", OPTIONS, format_prefixes(request))
    format_ = message_format(request, options, writes=writes)
    if request.metadata:
        raise OptionError(
            f"connector 'http' has no metadata column '{request.metadata[0][1]}'", hint="leave it out, or rename it"
        )
    return options, format_


def _source(request: TableRequest) -> HttpSource | None:
    options, format_ = _options(request)
    address = read_url(options.required(URL), URL.key)
    if address.columns or options.get(METHOD).upper() not in ("", "GET"):
        # It is asked by key alone.
        return None
    return source_of(request, options, format_, address)


def _lookup(request: TableRequest) -> HttpKeyLookup | HttpBatchLookup:
    options, format_ = _options(request)
    if not format_.changelog_mode.is_append_only:
        raise UnsupportedError(
            f"format '{format_.name}' gives changes, and an answer has rows", code="E1643", hint="use 'json' or 'csv'"
        )
    address = read_url(options.required(URL), URL.key)
    for name in address.columns:
        if name not in request.schema.names:
            raise OptionError(f"option 'url' names '{name}', which is no column of {request.name}", hint="check it")
    size, parallel = options.get(BATCH), options.get(PARALLEL)
    method = options.get(METHOD).upper() or ("POST" if size > 1 else "GET")
    if method not in ("GET", "POST"):
        raise OptionError(f"a lookup by '{method}' is not possible", hint="set 'method' to 'GET' or 'POST'")
    if size < 1 or not 1 <= parallel <= 64:
        raise OptionError("'lookup.batch-size' and 'lookup.parallelism' (at most 64) are at least 1", hint="raise them")
    known = (request.schema, request.name, address, method, read_way(options, memory_limit(options, MAX_RECORD)))
    if size == 1:
        return HttpKeyLookup(*known, parallel, request.time_zone, format_)
    if method != "POST" or address.columns:
        raise OptionError(
            "with 'lookup.batch-size' the keys are in the body of a POST",
            hint="leave columns out of the 'url', and 'GET'",
        )
    return HttpBatchLookup(*known, parallel, request.time_zone, format_, size)


def _sink(request: TableRequest) -> HttpSink:
    options, format_ = _options(request, writes=True)
    address = read_url(options.required(URL), URL.key)
    if address.columns:
        raise OptionError(
            f"option 'url' names the column '{address.columns[0]}', and rows are written to one address",
            hint="leave it out",
        )
    method = options.get(METHOD).upper() or "POST"
    if method == "GET":
        raise OptionError("rows cannot be written by 'GET'", hint="set 'method' to 'POST', 'PUT' or 'PATCH'")
    size, array, json = options.get(SIZE), options.get(BODY) == "array", "json" in format_.name
    if size < 1:
        raise OptionError("option 'sink.batch-size' is at least 1", hint="raise it")
    if size > 1 and not json and (array or not getattr(format_, "line_based", False)):
        raise OptionError(
            f"rows of format '{format_.name}' cannot be an array",
            hint="set 'sink.batch-body' = 'lines'" if getattr(format_, "line_based", False) else "send them one by one",
        )
    kind = "application/json" if json and (array or size == 1) else "application/x-ndjson" if json else ""
    return HttpSink(
        request.schema,
        request.primary_key,
        request.name,
        address,
        method,
        read_way(options, memory_limit(options, MAX_RECORD)),
        size,
        array and size > 1,
        options.get(CONTENT_TYPE) or kind or _TYPES.get(format_.name, "application/octet-stream"),
        options.get(SENDS) == "checkpoint",
        memory_limit(options, SPOOL_SIZE),
        request.time_zone,
        format_,
    )


HTTP = ConnectorFactory(
    name="http",
    document="a server that is asked for rows over HTTP, page by page or by key, or told of rows, at least once",
    source=_source,
    sink=_sink,
    lookup=_lookup,
    options=OPTIONS,
)
