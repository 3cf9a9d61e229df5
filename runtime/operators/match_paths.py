"""Values of the rows of matches and runs that have their paths: what MATCH_RECOGNIZE reads where its pattern has a shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.core.types import STRING, DataType
from runtime.eval.frames.aggregate_call import frame_call
from runtime.eval.frames.frame_call import Frames
from runtime.eval.frames.layout import lay_out
from runtime.operators.match_values import LaidRows, MappedRows
from runtime.plan.pattern import MatchValue, Pattern, ValueSide

__all__ = ["PathReader", "Shown", "all_rows"]

_NAME = STRING.not_null()


@dataclass(frozen=True, slots=True)
class Shown:
    """Rows of matches: of each the number of its match, how many of all mapped rows stand up to it, those of the matches
    before included, and its place."""

    match: np.ndarray
    upto: np.ndarray
    place: np.ndarray


def all_rows(mapped: MappedRows, *, empty: bool) -> Shown:
    """All rows of matches that are not excluded, one match after the other; `empty`: with the row at which a match without
    rows stands."""
    match, _, place = mapped.each
    upto = np.arange(1, len(match) + 1)
    sizes = np.bincount(match, minlength=len(mapped))
    kept = ~mapped.excluded
    match, upto, place = match[kept], upto[kept], place[kept]
    if empty:
        none = np.flatnonzero(sizes == 0)
        match = np.concatenate((match, none))
        upto = np.concatenate((upto, np.cumsum(sizes)[none]))
        place = np.concatenate((place, mapped.start[none]))
        order = np.argsort(match, kind="stable")
        match, upto, place = match[order], upto[order], place[order]
    return Shown(match, upto, place)


class PathReader:
    """One value of `MatchValue`."""

    def __init__(self, value: MatchValue, pattern: Pattern, types: Sequence[DataType]) -> None:
        self._value = value
        call = value.call
        if value.names:
            call = call.with_(args=(0,), arg_types=(_NAME,))
            types = [_NAME]
        self._call = None if value.offset is not None else frame_call(call, types, False)
        self._needed = frozenset(call.args)
        self._arrow = call.type.arrow
        self._of = np.zeros(len(pattern.variables), np.bool_)
        self._of[list(pattern.members(value.variable))] = True
        self._names = pa.array([v.name for v in pattern.variables], _NAME.arrow)

    def read(self, rows: LaidRows, mapped: MappedRows, shown: Shown | None = None) -> pa.Array:
        """The value of each run or match, or of rows of matches."""
        if shown is None and self._value.offset is not None:
            return self._cast(self._of_one_row(rows, mapped, self._value.offset))
        run, variable, place = mapped.each
        of = self._of[variable]
        mine = np.flatnonzero(of)
        sizes = np.bincount(run[mine], minlength=len(mapped))
        high = np.cumsum(sizes)
        low = high - sizes
        if shown is not None:
            low = low[shown.match]
            high = high[shown.match] if self._value.side is ValueSide.FINAL else np.append(0, np.cumsum(of))[shown.upto]
            if self._value.side is ValueSide.ROW:
                return rows.column(self._value.call.args[0], shown.place)
        if self._value.offset is None:
            found = self._aggregate(rows, run[mine], variable[mine], place[mine], low, high)
        else:
            at = low + self._value.offset
            if self._value.call.function != "FIRST_VALUE":
                at = high - 1 - self._value.offset
            missing = (at < low) | (at >= high)
            chosen = mine[at[~missing]]
            if self._value.names:
                names = np.zeros(len(at), np.int64)
                names[~missing] = variable[chosen]
                found = self._names.take(pa.array(names, mask=missing))
            else:
                places = np.full(len(at), -1, np.int64)
                places[~missing] = place[chosen]
                found = rows.column(self._value.call.args[0], places)
        return self._cast(found)

    def _cast(self, found: pa.Array) -> pa.Array:
        return found if found.type == self._arrow else found.cast(self._arrow)

    def _of_one_row(self, rows: LaidRows, mapped: MappedRows, offset: int) -> pa.Array:
        """The value of one row of each run or match, found by rows in turn."""
        run, variable, place, count = mapped.in_turn
        mine = np.flatnonzero(self._of[variable])
        run, count = run[mine], count[mine]
        ends = np.cumsum(count)
        high = np.append(0, ends)[np.cumsum(np.bincount(run, minlength=len(mapped)))]
        low = np.append(0, high[:-1])
        at = low + offset if self._value.call.function == "FIRST_VALUE" else high - 1 - offset
        missing = (at < low) | (at >= high)
        known = at[~missing]
        found = np.searchsorted(ends, known, side="right")
        if self._value.names:
            names = np.zeros(len(at), np.int64)
            names[~missing] = variable[mine[found]]
            return self._names.take(pa.array(names, mask=missing))
        places = np.full(len(at), -1, np.int64)
        places[~missing] = place[mine[found]] + known - (ends - count)[found]
        return rows.column(self._value.call.args[0], places)

    def _aggregate(
        self,
        rows: LaidRows,
        run: np.ndarray,
        variable: np.ndarray,
        place: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
    ) -> pa.Array:
        assert self._call is not None
        if self._value.names:
            columns = [self._names.take(pa.array(variable))]
        else:
            width = max(self._needed, default=-1) + 1
            columns = [rows.column(i, place) if i in self._needed else pa.nulls(0) for i in range(width)]
        layout = lay_out(run, np.ones(len(run), np.bool_))
        here = np.minimum(low, max(len(run) - 1, 0))
        return self._call.values(Frames(layout, columns, here, low, high), np.ones(len(run), np.bool_))
