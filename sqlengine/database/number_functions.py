"""NEXTVAL, CURRVAL, LASTVAL and SETVAL of a session: the numbers of the database, and those that it was given.

A call computes a column: so many numbers at once as there are rows. What it is called for is what PostgreSQL has for each
row but in one respect: two calls of NEXTVAL in one SELECT list have their numbers one after the other, not by turns.
CURRVAL beside NEXTVAL has the number of its row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, proxy

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import CatalogError, ExpressionError, UnsupportedError, did_you_mean
from runtime.core.rooms import Room
from runtime.expr.columns import as_array, from_numpy
from runtime.expr.function import EvalContext, Value
from runtime.expr.library.sequence import SESSION_FUNCTIONS
from sqlengine.catalog.objects import CatalogTable, ObjectPath, PhysicalColumn

if TYPE_CHECKING:
    import sqlengine.catalog.definitions as _definitions
    import sqlengine.database.sequences as _sequences
    import sqlengine.roles.privileges as _privileges
    from sqlengine.catalog.definitions import CatalogSequence
    from sqlengine.database.session import Session
else:
    _definitions = Room("sqlengine.catalog.definitions")
    _sequences = Room("sqlengine.database.sequences")
    _privileges = Room("sqlengine.roles.privileges")

__all__ = ["SessionNumbers", "find_sequence", "name_parts", "numbers_of"]

_known: WeakKeyDictionary[Session, SessionNumbers] = WeakKeyDictionary()

_PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|`((?:[^`]|``)+)`|([^".`]+?))\s*(\.|$)')


def name_parts(text: str) -> tuple[str, ...]:
    """The parts of a name in a text: `shop.orders_id_seq`, `"My Seq"`. Empty where it is none."""
    parts: list[str] = []
    at = 0
    while match := _PART.match(text, at):
        double, back, plain, dot = match.groups()
        parts.append(double.replace('""', '"') if double else back.replace("``", "`") if back else plain)
        at = match.end()
        if not dot:
            return tuple(parts)
    return ()


@dataclass(frozen=True, slots=True)
class Numbered:
    """A sequence; `column`: that it is of, with its table, when it has no name of its own."""

    sequence: CatalogSequence
    column: tuple[CatalogTable, PhysicalColumn] | None = None

    @property
    def key(self) -> tuple[ObjectPath, str]:
        return (self.sequence.path, "") if self.column is None else (self.column[0].storage, self.column[1].name)


def find_sequence(session: Session, text: str) -> Numbered:
    """The sequence of a name in a text: as it is written, or in small letters. Raises CatalogError E1450."""
    parts = name_parts(text)
    for written in (parts, tuple(map(str.lower, parts))) if 0 < len(parts) <= 3 else ():
        path = session.catalogs.qualify(written)
        sequence: Any = session.catalogs.find_definition("sequence", path)
        found = Numbered(sequence) if sequence is not None else _of_column(session, path)
        if found is not None:
            return found
    known = [d.path.name for d in session.catalogs.seen_definitions("sequence", *_here(session, parts))]
    raise CatalogError(
        f'there is no sequence "{text}"',
        code="E1450",
        hint=did_you_mean(parts[-1] if parts else text, known) or "SHOW SEQUENCES lists them",
    )


def _here(session: Session, parts: tuple[str, ...]) -> tuple[str, str]:
    path = session.catalogs.qualify(parts) if 0 < len(parts) <= 3 else session.catalogs.qualify(("",))
    return path.catalog, path.database


def _of_column(session: Session, path: ObjectPath) -> Numbered | None:
    """The numbered column whose sequence would have a name in PostgreSQL."""
    if not path.name.endswith("_seq"):
        return None
    words = path.name.removesuffix("_seq").split("_")
    for at in range(1, len(words)):
        table = session.catalogs.find(replace(path, name="_".join(words[:at])))
        if isinstance(table, CatalogTable):
            name = "_".join(words[at:])
            column = next((c for c in _sequences.numbered(table) if c.name == name), None)
            if column is not None:
                return Numbered(_definitions.column_sequence(table, column), (table, column))
    return None


def numbers_of(session: Session) -> SessionNumbers:
    """What a session was given by sequences."""
    found = _known.get(session)
    return _known.setdefault(session, SessionNumbers(session)) if found is None else found


class SessionNumbers:
    """What a session was given by sequences, and its functions that ask for more."""

    def __init__(self, session: Session) -> None:
        self._session: Session = proxy(session)
        self._given: dict[tuple[ObjectPath, str], int] = {}
        self._last: tuple[ObjectPath, str] | None = None
        self._column: tuple[object, tuple[ObjectPath, str], pa.Array] | None = None
        """The numbers of the rows at hand: of which step, of which sequence."""
        self.evaluations: Mapping[str, Callable[..., Value]] = dict(
            zip(SESSION_FUNCTIONS, (self._nextval, self._currval, self._lastval, self._setval, self._name), strict=True)
        )

    def forget(self) -> None:
        """The session knows of no number that it was given (DISCARD SEQUENCES)."""
        self._given.clear()
        self._last = self._column = None

    def note(self, table: CatalogTable, column: PhysicalColumn, number: int) -> None:
        """A statement was given numbers for a column, up to this one."""
        self._last = (table.storage, column.name)
        self._given[self._last] = number

    # --- the functions

    def _nextval(self, context: EvalContext, name: Value) -> Value:
        def take(found: Numbered, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
            self._check(found, "NEXTVAL")
            sequences = self._session.database.sequences
            if found.column is None:
                numbers = sequences.take_of(found.sequence, len(rows))
            else:
                numbers = np.asarray(pc.cast(sequences.take(*found.column, len(rows)), pa.int64()))
            self._given[found.key], self._last = int(numbers[-1]), found.key
            return numbers

        given = self._by_name(context, name, take)
        if isinstance(name, pa.Scalar) and name.is_valid and self._last is not None:
            self._column = (_step(context), self._last, given)
        return given

    def _currval(self, context: EvalContext, name: Value) -> Value:
        def look(found: Numbered, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
            self._check(found, "CURRVAL")
            return self._numbers_of(context, found.key, rows, found.sequence.path.name)

        return self._by_name(context, name, look)

    def _lastval(self, context: EvalContext) -> Value:
        if self._last is None:
            raise ExpressionError(
                "this session was given no number by a sequence", code="E2026", hint="NEXTVAL gives one"
            )
        return pa.array(self._numbers_of(context, self._last, np.arange(context.num_rows), self._last[0].name))

    def _numbers_of(
        self, context: EvalContext, key: tuple[ObjectPath, str], rows: np.ndarray[Any, Any], name: str
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        """For rows of the batch the number that the session was given last."""
        number = self._given.get(key)
        if number is None:
            raise ExpressionError(
                f'this session was given no number by the sequence "{name}"', code="E2026", hint="NEXTVAL gives one"
            )
        if self._column is not None and self._column[0] is _step(context) and self._column[1] == key:
            beside = self._column[2]
            if len(beside) == context.num_rows:
                return np.asarray(beside.take(pa.array(rows)))
            raise ExpressionError(
                f'it is not known which number of "{name}" is the last one of a row: others have one',
                code="E2026",
                hint="give the rows their numbers in a subquery",
            )
        return np.full(len(rows), number, np.int64)

    def _setval(self, context: EvalContext, name: Value, number: Value, *called: Value) -> Value:
        numbers = as_array(number, context.num_rows)
        flags = as_array(called[0] if called else pa.scalar(True), context.num_rows)
        there = np.asarray(pc.and_(numbers.is_valid(), flags.is_valid()))

        def set_last(found: Numbered, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
            self._check(found, "SETVAL")
            chosen = numbers.take(pa.array(rows))
            low, high = found.sequence.low, found.sequence.high
            for value in pc.min_max(chosen).as_py().values():  # type: ignore[attr-defined]
                if not low <= value <= high:
                    raise ExpressionError(
                        f'{value} is no number of the sequence "{found.key[0].name}", which has {low} to {high}',
                        code="E2026",
                        hint="ALTER SEQUENCE gives it other bounds",
                    )
            last, is_called = int(chosen[-1].as_py()), bool(flags[int(rows[-1])].as_py())
            sequences = self._session.database.sequences
            if found.column is None:
                sequences.set(found.sequence, last, called=is_called)
            else:
                sequences.set_column(*found.column, last, called=is_called)
            if is_called:
                self._given[found.key] = last
            return np.asarray(chosen)

        return self._by_name(context, name, set_last, there)

    def _name(self, context: EvalContext, table: Value, column: Value) -> Value:
        tables, columns = (as_array(v, context.num_rows).dictionary_encode() for v in (table, column))
        width = len(columns.dictionary) + 1
        codes = np.asarray(tables.indices.fill_null(-1)).astype(np.int64) + 1
        codes = codes * width + np.asarray(columns.indices.fill_null(-1)) + 1
        pairs, places = np.unique(codes, return_inverse=True)
        names = [
            self._name_of(tables.dictionary[t - 1].as_py(), columns.dictionary[c - 1].as_py()) if t and c else None
            for t, c in (divmod(int(pair), width) for pair in pairs)
        ]
        return pa.array(names, pa.string()).take(pa.array(places))

    def _name_of(self, table: str, column: str) -> str | None:
        catalogs = self._session.catalogs
        found = catalogs.get(name_parts(table) or (table,), what="stored table")
        for sequence, _ in _definitions.seen_sequences(catalogs, found.path.catalog, found.path.database):
            if sequence.owner == (found.path, column):
                return ".".join(p if p.isidentifier() and p == p.lower() else f'"{p}"' for p in sequence.path.parts[1:])
        return None

    # --- what they share

    def _by_name(
        self,
        context: EvalContext,
        name: Value,
        compute: Callable[[Numbered, np.ndarray[Any, Any]], np.ndarray[Any, np.dtype[np.int64]]],
        there: np.ndarray[Any, np.dtype[np.bool_]] | None = None,
    ) -> pa.Array:
        """A column of numbers: computed for the rows of each sequence at once. Rows that are not `there` are NULL."""
        found = np.zeros(context.num_rows, np.int64)
        valid = np.zeros(context.num_rows, np.bool_)
        for text, mask in _names(context, name):
            rows = np.flatnonzero(mask if there is None else mask & there)
            if len(rows):
                found[rows] = compute(find_sequence(self._session, text), rows)
                valid[rows] = True
        return from_numpy(found, None if valid.all() else valid, pa.int64())

    def _check(self, found: Numbered, function: str) -> None:
        """Raise AccessError where the session's role may not have numbers, and UnsupportedError on a replica."""
        session = self._session
        if session.database.replica is not None and function != "CURRVAL":
            raise UnsupportedError(
                f"this server is a read replica: {function} would change something",
                code="E1722",
                hint=f"connect to the server that it follows, {session.database.replica.leader}",
            )
        authority = session.authority
        if authority is None or found.sequence.temporary:
            return
        if found.column is None:
            authority.require("USAGE", _privileges.Target("sequence", found.sequence.path.parts))
        else:
            privilege = {"NEXTVAL": "INSERT", "CURRVAL": "SELECT", "SETVAL": "UPDATE"}[function]
            authority.require(privilege, _privileges.Target("table", found.column[0].path.parts))


def _names(context: EvalContext, name: Value) -> Iterator[tuple[str, np.ndarray[Any, np.dtype[np.bool_]]]]:
    """Each name that stands in the column, and where."""
    if isinstance(name, pa.Scalar):
        if name.is_valid:
            yield name.as_py(), np.ones(context.num_rows, np.bool_)
        return
    coded = name.dictionary_encode()
    codes = np.asarray(coded.indices.fill_null(-1))
    for code, text in enumerate(coded.dictionary.to_pylist()):
        yield text, codes == code


def _step(context: EvalContext) -> object:
    """What is the same for all calls over the same rows."""
    return getattr(context, "chance", None)
