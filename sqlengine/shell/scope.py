"""Which tables a place in an unfinished statement can see, and their columns.

The statement is being typed, so there is no tree of it. Its tokens are enough to find the query around the place, what
that query reads (FROM, JOIN, WITH), and the queries around it, whose columns a subquery sees, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runtime.core.errors import SqlEngineError, SqlSyntaxError
from sqlengine.catalog.catalog import CatalogObject
from sqlengine.database.session import Session
from sqlengine.options.dialect import DIALECT
from sqlengine.parse import parse_query
from sqlengine.parse.cursor import RESERVED
from sqlengine.parse.lexer import QUOTED, WORD, Token, scan
from sqlengine.statements.planning import object_schema, query_schema

__all__ = ["Relation", "Scope", "relations_at", "tokens_of"]

_FROM = frozenset(("FROM", "JOIN"))
_AFTER_FROM = frozenset(
    ("WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "FETCH", "ON", "USING")
)
_SETS = frozenset(("UNION", "EXCEPT", "INTERSECT"))
_WINDOW_COLUMNS = (("window_start", "TIMESTAMP(3)"), ("window_end", "TIMESTAMP(3)"), ("window_time", "TIMESTAMP(3)"))
_WINDOW_FUNCTIONS = frozenset(("TUMBLE", "HOP", "CUMULATE", "SESSION"))

Columns = tuple[tuple[str, str], ...]
"""Names and types."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Something that is read: a table by `name`, or a `query` in the text. `windowed`: with the columns of a window."""

    alias: str
    name: tuple[str, ...] = ()
    query: str = ""
    windowed: bool = False


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text up to the first thing that cannot be scanned; without the end."""
    while True:
        try:
            return scan(text)[:-1]
        except SqlSyntaxError as error:
            if error.span is None or error.span.start >= len(text):
                return []
            text = text[: error.span.start]


class Scope:
    """The relations that a place sees, and the queries of WITH by name."""

    def __init__(self, session: Session, text: str, place: int) -> None:
        self._session = session
        self._tokens = tokens_of(text)
        self._text = text
        self._depths = list(_depths(self._tokens))
        self._place = next((i for i, t in enumerate(self._tokens) if t.start >= place), len(self._tokens))
        self.queries = dict(self._with_queries())

    def relations(self) -> list[Relation]:
        """Those of the query around the place first, then those of the queries around that."""
        found: list[Relation] = []
        for start, stop in self._levels():
            found += relations_at(self._tokens[start:stop], self._text)
        return found

    def columns(self, relation: Relation) -> Columns:
        """The columns of a relation; none when it is not known or not complete."""
        found: Columns = ()
        try:
            if relation.query or (len(relation.name) == 1 and relation.name[0] in self.queries):
                query = relation.query or self.queries[relation.name[0]]
                schema = query_schema(self._session, parse_query(query, self._session.options.get(DIALECT)))
                found = tuple((f.name, str(f.type)) for f in schema)
            elif relation.name:
                found = columns_of_table(self._session, relation.name)
        except (SqlEngineError, RecursionError):
            pass  # the query is not finished
        return (*found, *_WINDOW_COLUMNS) if relation.windowed else found

    def _levels(self) -> Iterator[tuple[int, int]]:
        """The token ranges of the queries around the place, the innermost first; of a set operation the branch."""
        place = self._place
        while True:
            depth, start = 0, place
            while start > 0:
                before = self._tokens[start - 1].upper
                depth += (before == ")") - (before == "(")
                if depth < 0:
                    break
                start -= 1
            stop, depth = place, 0
            while stop < len(self._tokens):
                word = self._tokens[stop].upper
                depth += (word == "(") - (word == ")")
                if depth < 0 or (word == ";" and depth == 0):
                    break
                stop += 1
            yield self._branch(start, place, stop)
            if start == 0:
                return
            place = start - 1

    def _branch(self, start: int, place: int, stop: int) -> tuple[int, int]:
        depth = self._depths[start] if start < len(self._depths) else 0
        cuts = [
            i
            for i in range(start, stop)
            if self._depths[i] == depth and (self._tokens[i].upper in _SETS or self._tokens[i].upper == ";")
        ]
        before = [i + 1 for i in cuts if i < place]
        after = [i for i in cuts if i >= place]
        return (before[-1] if before else start), (after[0] if after else stop)

    def _with_queries(self) -> Iterator[tuple[str, str]]:
        """The queries of WITH by name."""
        tokens = self._tokens
        for i in range(len(tokens) - 2):
            if tokens[i + 1].upper == "AS" and tokens[i + 2].upper == "(" and tokens[i].kind in (WORD, QUOTED):
                close = _closing(tokens, i + 2)
                if close is not None and tokens[i + 3].upper in ("SELECT", "WITH", "VALUES"):
                    yield tokens[i].value, self._text[tokens[i + 3].start : tokens[close].start]


def columns_of_table(session: Session, name: tuple[str, ...]) -> Columns:
    """The columns of a table by its written name. Raises SqlEngineError."""
    if name[-2:-1] in (("system",), ("information_schema",)):
        schema = query_schema(session, parse_query("SELECT * FROM " + ".".join(f"`{p}`" for p in name)))
    else:
        thing: CatalogObject | None = session.catalogs.find(session.catalogs.qualify(name))
        sees = session.catalogs.sees
        if thing is None or (sees is not None and not sees("table", thing.path.parts)):
            return ()
        schema = object_schema(session, thing)
    return tuple((f.name, str(f.type)) for f in schema)


def _depths(tokens: Sequence[Token]) -> Iterator[int]:
    depth = 0
    for token in tokens:
        if token.upper == ")":
            depth -= 1
        yield depth
        if token.upper == "(":
            depth += 1


def _closing(tokens: Sequence[Token], opening: int) -> int | None:
    depth = 0
    for i in range(opening, len(tokens)):
        depth += (tokens[i].upper == "(") - (tokens[i].upper == ")")
        if depth == 0:
            return i
    return None


def relations_at(tokens: Sequence[Token], text: str) -> list[Relation]:
    """What the outermost query of some tokens reads; for INSERT, UPDATE and DELETE the table that they change."""
    found: list[Relation] = []
    expecting = False
    i = 0
    while i < len(tokens):
        word = tokens[i].upper
        altered = i == 1 and (tokens[0].upper, word) == ("ALTER", "TABLE")
        if word in _FROM or (word in ("INTO", "UPDATE", "OVERWRITE") and i <= 2) or altered:
            expecting = True
        elif word in _AFTER_FROM:
            expecting = False
        elif expecting and word != ",":
            relation, i = _relation(tokens, i, text)
            if relation is not None:
                found.append(relation)
            expecting = i < len(tokens) and tokens[i].upper == ","
            continue
        elif word == "(":
            i = _closing(tokens, i) or len(tokens)
        i += 1
        if i < len(tokens) and tokens[i - 1].upper == "," and found and not _left_from(tokens, i):
            expecting = True
    return found


def _left_from(tokens: Sequence[Token], i: int) -> bool:
    """Whether a comma stands in another clause than FROM."""
    for token in reversed(tokens[:i]):
        if token.upper in _FROM:
            return False
        if token.upper in _AFTER_FROM or token.upper == "SELECT":
            return True
    return True


def _relation(tokens: Sequence[Token], i: int, text: str) -> tuple[Relation | None, int]:
    """The relation that begins at a token, and where the tokens go on."""
    while i < len(tokens) and tokens[i].upper in ("LATERAL", "TABLE") and not _is_call(tokens, i):
        i += 1
    if i >= len(tokens):
        return None, i
    if tokens[i].upper == "TABLE" and _is_call(tokens, i):
        close = _closing(tokens, i + 1)
        stop = len(tokens) if close is None else close
        inside = tokens[i + 2 : stop]
        windowed = bool(inside) and inside[0].upper in _WINDOW_FUNCTIONS
        at = next((j for j, t in enumerate(inside) if t.upper == "TABLE"), None)
        name, _ = _name(inside, 0 if at is None else at + 1) if at is not None else ((), 0)
        alias, after = _alias(tokens, stop + 1)
        return Relation(alias or (name[-1] if name else ""), name, windowed=windowed), after
    if tokens[i].upper == "(":
        close = _closing(tokens, i)
        if close is None:
            return None, len(tokens)
        alias, after = _alias(tokens, close + 1)
        return Relation(alias, query=text[tokens[i + 1].start : tokens[close].start]), after
    name, after = _name(tokens, i)
    if not name:
        return None, i + 1
    if i and (tokens[i - 1].upper in ("INTO", "OVERWRITE") or tokens[0].upper == "ALTER"):
        return Relation(name[-1], name), after
    if after < len(tokens) and tokens[after].upper == "(":
        close = _closing(tokens, after)
        return None, len(tokens) if close is None else close + 1
    alias, after = _alias(tokens, after)
    return Relation(alias or name[-1], name), after


def _is_call(tokens: Sequence[Token], i: int) -> bool:
    return i + 1 < len(tokens) and tokens[i + 1].upper == "("


def _name(tokens: Sequence[Token], i: int) -> tuple[tuple[str, ...], int]:
    parts: list[str] = []
    while i < len(tokens) and _is_name(tokens[i]):
        parts.append(tokens[i].value)
        if i + 1 < len(tokens) and tokens[i + 1].upper == ".":
            i += 2
            continue
        return tuple(parts), i + 1
    return tuple(parts), i


def _alias(tokens: Sequence[Token], i: int) -> tuple[str, int]:
    if i < len(tokens) and tokens[i].upper == "AS":
        i += 1
    if i < len(tokens) and _is_name(tokens[i]) and tokens[i].upper not in ("INNER", "SET"):
        return tokens[i].value, i + 1
    return "", i


def _is_name(token: Token) -> bool:
    return token.kind is QUOTED or (token.kind is WORD and token.upper not in RESERVED)
