"""URLs: parts of them, and the encoding of HTML forms. A URL that java.net.URL refuses has no parts: NULL."""

from __future__ import annotations

import re
import urllib.parse

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.types import STRING
from runtime.expr.constants import NO_TEXT
from runtime.expr.distinct import map_distinct
from runtime.expr.function import EvalContext, Nulls, Value
from runtime.expr.library.declare import CHARACTER, Family, optional
from runtime.expr.texts import on_rows

__all__ = ["FAMILY"]

FAMILY = Family("url")
_NULL = NO_TEXT
_URL = (
    r"(?s)^\s*(?i:url:)?(?P<protocol>(?i:https?|ftp|file|jar|mailto)):(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)"
    r"(?P<query>\?[^#]*)?(?P<ref>#.*?)?\s*$"
)
_AUTHORITY = r"^(?P<user>.*@)?(?P<host>\[[^\]]*\]|[^:@]*)(?P<port>:\d*)?$"


@FAMILY.scalar(
    "PARSE_URL",
    [CHARACTER, CHARACTER, optional(CHARACTER)],
    STRING,
    "A part of a URL: HOST, PATH, QUERY, REF, PROTOCOL, AUTHORITY, FILE, USERINFO; with a key, a parameter of the query.",
    nulls=Nulls.MAYBE,
)
def parse_url(context: EvalContext, url: Value, part: Value, *key: Value) -> Value:
    if isinstance(part, pa.Scalar) and all(isinstance(k, pa.Scalar) for k in key):
        if not part.is_valid or any(not k.is_valid for k in key):
            return _NULL
        names = [k.as_py() for k in key]
        return on_rows(lambda urls: _parts(urls, part.as_py(), *names), url, context.num_rows)

    def one(given: str, name: str, *keys: str) -> str | None:
        return _parts(pa.array([given]), name, *keys)[0].as_py()

    return map_distinct(one, [url, part, *key], pa.string(), context.num_rows)


def _parts(urls: pa.Array, part: str, key: str | None = None) -> pa.Array:
    nothing = pa.nulls(len(urls), pa.string())
    if key is not None and part != "QUERY":
        return nothing
    found = pc.extract_regex(urls, _URL)
    protocol, authority, path, query, ref = (found.field(i) for i in range(5))
    place = pc.extract_regex(authority, _AUTHORITY)
    known = pc.and_(found.is_valid(), place.is_valid())
    match part:
        case "PROTOCOL":
            value = pc.utf8_lower(protocol)
        case "AUTHORITY":
            value = pc.if_else(pc.equal(authority, ""), None, authority)
        case "HOST":
            value = place.field(1)
        case "USERINFO":
            value = _behind(place.field(0), 0, -1)
        case "PATH":
            value = path
        case "FILE":
            value = pc.binary_join_element_wise(path, query, "")
        case "QUERY":
            value = _behind(query, 1, None)
        case "REF":
            value = _behind(ref, 1, None)
        case _:
            return nothing
    if key is not None:
        value = pc.struct_field(pc.extract_regex(value, rf"(?:&|^){_literal(key)}=(?P<v>[^&]*)"), [0])
    return pc.if_else(known, value, None)


def _behind(texts: pa.Array, start: int, stop: int | None) -> pa.Array:
    """A part without its mark; NULL where there is no mark."""
    return pc.if_else(pc.equal(texts, ""), None, pc.utf8_slice_codeunits(texts, start, stop))


def _literal(text: str) -> str:
    return "".join(f"\\{c}" if c.isascii() and not c.isalnum() and c != "_" else c for c in text)


@FAMILY.scalar(
    "URL_ENCODE",
    [CHARACTER],
    STRING,
    "A text as in a query string: application/x-www-form-urlencoded, UTF-8.",
    nulls=Nulls.MAYBE,
)
def url_encode(context: EvalContext, text: Value) -> Value:
    return map_distinct(
        lambda t: urllib.parse.quote_plus(t, safe="*").replace("~", "%7E"), [text], pa.string(), context.num_rows
    )


_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")


@FAMILY.scalar(
    "URL_DECODE", [CHARACTER], STRING, "A text out of a query string; NULL when an escape is wrong.", nulls=Nulls.MAYBE
)
def url_decode(context: EvalContext, text: Value) -> Value:
    def decode(given: str) -> str | None:
        return None if _BAD_ESCAPE.search(given) else urllib.parse.unquote_plus(given)

    return map_distinct(decode, [text], pa.string(), context.num_rows)
