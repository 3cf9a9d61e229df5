"""The values that a program gives for the parameters of a statement, by position or by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.core.errors import BindError, Span, SqlEngineError, did_you_mean
from sqlengine.parameters.binding import Key, shown, told_at
from sqlengine.parameters.values import plain_values
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.parameters import marks_of
from sqlengine.parse.spans import span_of

__all__ = ["Marks", "marks"]


@dataclass(frozen=True)
class Marks:
    """The parameters of a statement: `keys` in the order in which values are given, `places` where each stands first."""

    keys: tuple[Key, ...]
    places: Mapping[Key, Span | None]
    named: bool = False

    def columns(self, rows: Iterable[Any]) -> dict[Key, list[Any]]:
        """The values of each parameter, from rows of values.

        Raises BindError E1251 for a wrong number of values, E1252 for a name that is missing or unknown;
        TypeMismatchError E1321 for a value that has no SQL type.
        """
        listed = list(rows)
        tuples = [self._by_name(r) for r in listed] if self.named else self._by_position(listed)
        columns = zip(*tuples, strict=True) if tuples else [()] * len(self.keys)
        found: dict[Key, list[Any]] = {}
        for key, values in zip(self.keys, columns, strict=True):
            try:
                found[key] = plain_values(values)
            except SqlEngineError as error:
                raise told_at(error, key, self.places.get(key)) from None
        return found

    def _by_position(self, rows: list[Any]) -> list[Any]:
        for row in rows:
            if not isinstance(row, Sequence) or isinstance(row, str | bytes | bytearray):
                what = "a mapping" if isinstance(row, Mapping) else f"a single {type(row).__name__}"
                raise BindError(
                    f"the values of the parameters are given as {what}",
                    code="E1251",
                    span=self._first,
                    hint="give a list, in the order of the parameters: [value, ..]",
                )
            if len(row) != len(self.keys):
                raise self._count(len(row))
        return rows

    def _count(self, given: int) -> BindError:
        few = given < len(self.keys)
        place = self.places.get(self.keys[given]) if few else self._last
        return BindError(
            f"the statement has {_counted(len(self.keys), 'parameter')}, and {_counted(given, 'value')} "
            f"{'is' if given == 1 else 'are'} given",
            code="E1251",
            span=place,
            hint=f"there is no value for {shown(self.keys[given])}"
            if few
            else "leave out those that have no parameter",
        )

    def _by_name(self, row: Any) -> Sequence[Any]:
        if not isinstance(row, Mapping):
            raise BindError(
                f"the parameters of the statement have names, and the values have none: a {type(row).__name__} is given",
                code="E1251",
                span=self._first,
                hint=f'give a dict: {{"{self.keys[0]}": value, ..}}' if self.keys else None,
            )
        unknown = [str(name) for name in row if name not in self.places]
        missing = [name for name in self.keys if name not in row]
        if unknown:
            near = did_you_mean(unknown[0], [str(k) for k in self.keys])
            raise BindError(
                f'the statement has no parameter ":{unknown[0]}"',
                code="E1252",
                span=self.places.get(missing[0]) if missing else self._first,
                hint=near,
            )
        if missing:
            raise BindError(
                f'no value is given for the parameter ":{missing[0]}"',
                code="E1252",
                span=self.places.get(missing[0]),
                hint=f'give it: {{"{missing[0]}": value}}',
            )
        return [row[name] for name in self.keys]

    @property
    def _first(self) -> Span | None:
        return next(iter(self.places.values()), None)

    @property
    def _last(self) -> Span | None:
        return list(self.places.values())[-1] if self.places else None


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


_TAKE: tuple[type[st.Statement], ...] = (
    st.QueryStatement,
    st.Call,
    st.Insert,
    st.StatementSet,
    st.Update,
    st.Delete,
    st.Explain,
)


def marks(statement: st.Statement) -> Marks:
    """The parameters of a statement.

    Raises BindError E1250 for a statement that takes none, E1253 where marks of several styles do not go together.
    """
    written = marks_of(statement)
    if not written:
        return Marks((), {})
    inner = statement.statement if isinstance(statement, st.Explain) else statement
    if not isinstance(inner, _TAKE) and not (isinstance(inner, ddl.CreateTable) and isinstance(statement, type(inner))):
        raise _refused(inner, span_of(written[0]))
    if isinstance(inner, ddl.CreateTable):
        in_query = {id(m) for m in marks_of(inner.query)} if inner.query is not None else set[int]()
        outside = [m for m in written if id(m) not in in_query]
        if outside:
            raise _refused(inner, span_of(outside[0]))
    places: dict[Key, Span | None] = {}
    styles: dict[Key, str] = {}
    for mark in written:
        other = next(
            (s for s in styles.values() if (s == ":") != (mark.style == ":")), styles.get(mark.parameter, mark.style)
        )
        if other != mark.style:
            raise BindError(
                f"the statement mixes {other if other == '?' else other + 'x'} and "
                f"{mark.style if mark.style == '?' else mark.style + 'x'} for its parameters",
                code="E1253",
                span=span_of(mark),
                hint="write all as ?, as $1, $2, .., or as :name",
            )
        places.setdefault(mark.parameter, span_of(mark))
        styles[mark.parameter] = mark.style
    named = ":" in styles.values()
    if named:
        return Marks(tuple(places), places, named=True)
    most = max(k for k in places if isinstance(k, int))
    if most > _MOST:
        raise BindError(
            f"a statement has at most {_MOST} parameters",
            code="E1253",
            span=places[most],
            hint="execute_many takes rows",
        )
    return Marks(tuple(range(1, most + 1)), places)


_MOST = 65_535


def _refused(statement: st.Statement, span: Span | None) -> BindError:
    words = " ".join(statement.text.split()[:2]).upper()
    return BindError(
        f"{words} takes no parameters: its text is kept, and outlives their values",
        code="E1250",
        span=span,
        hint="SELECT, INSERT, UPDATE, DELETE and CREATE TABLE AS do; write a literal here",
    )
