"""Event-time queries over rows of which some are late, with the law of lateness written out for DuckDB.

Rows come in fixed epochs, of one table at a time. A row is late for a window when the watermark at the end of the epoch
before had closed the window, so each row carries that watermark (`seen`), and windows leave out those that are late.
Sessions, which depend on all that came before, are found here, row by row, and given to DuckDB.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import strategies as st

from tests.oracle.generate_choices import Choices, Draw
from tests.oracle.generate_lives import Life, draw_life
from tests.oracle.generate_tables import Row, Table
from tests.oracle.generate_text import Text
from tests.oracle.generate_windows import EVENTS, Window, draw_calls, draw_stream

__all__ = ["LATE_TEMPLATES", "LateCase", "arrivals", "draw_late_case", "late_cases", "with_times"]

_NEVER = -(1 << 60)


@dataclass(frozen=True)
class LateCase:
    """Two streams, how many rows come in an epoch (of the streams in turn), and a query. `lost`: asks DuckDB how many
    rows are rejected, where that is one number. `gap`: of sessions in milliseconds, 0 without; `by_key`: a session is of
    one key."""

    rows: tuple[tuple[Row, ...], ...]
    delays: tuple[int, ...]
    cuts: tuple[int, ...]
    sql: Text
    columns: int
    lost: str
    gap: int
    by_key: bool
    life: Life

    @property
    def tables(self) -> tuple[Table, ...]:
        return (Table("e", EVENTS, 0), Table("f", EVENTS, 0))

    def ddl(self) -> list[str]:
        return [
            f"{table.ddl()[:-1]}, WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND)"
            for table, delay in zip(self.tables, self.delays, strict=True)
        ]


def arrivals(case: LateCase) -> Iterator[tuple[int, Sequence[Row]]]:
    """The epochs: a table by number, and its rows."""
    at = [0] * len(case.rows)
    turn = 0
    while any(a < len(rows) for a, rows in zip(at, case.rows, strict=True)):
        for number, rows in enumerate(case.rows):
            size = max(turn % 3 == 2, case.cuts[turn % len(case.cuts)])
            turn += 1
            taken = rows[at[number] : at[number] + size]
            at[number] += size
            if taken:
                yield number, taken


def _ms(time: dt.datetime) -> int:
    return (time - dt.datetime(1970, 1, 1)) // dt.timedelta(milliseconds=1)


def with_times(case: LateCase) -> list[pa.Table]:
    """The tables for DuckDB: behind the columns of the rows the watermark `seen` of the own table before the row's epoch,
    that of both tables (`seen_both`), and the bounds of the row's session (`first`, `last`; NULL for a late row)."""
    watermarks = [_NEVER] * len(case.rows)
    sessions = [_Sessions(case.gap, case.by_key) for _ in case.rows]
    seen: list[list[tuple[int, int]]] = [[] for _ in case.rows]
    for number, rows in arrivals(case):
        seen[number] += [(watermarks[number], min(watermarks))] * len(rows)
        if case.gap:
            sessions[number].take(rows, watermarks[number])
        newest = max(_ms(row[-1]) for row in rows)
        watermarks[number] = max(watermarks[number], newest - case.delays[number] * 1000)
    found = []
    for number, table in enumerate(case.tables):
        made = pa.Table.from_batches([table.batch(list(case.rows[number]))])
        bounds = [sessions[number].bounds(row) for row in case.rows[number]]
        for at, name in enumerate(("seen", "seen_both")):
            made = made.append_column(name, pa.array([s[at] for s in seen[number]], pa.int64()))
        for at, name in enumerate(("first", "last")):
            made = made.append_column(name, pa.array([b[at] for b in bounds], pa.int64()))
        found.append(made)
    return found


class _Sessions:
    """The sessions of a stream: the rows of an epoch join each other and those that are open; what is closed by the
    watermark of the epoch before, as it stands then, is late."""

    def __init__(self, gap: int, by_key: bool) -> None:
        self._gap = gap
        self._by_key = by_key
        self._members: list[tuple[object, list[Row]]] = []

    def take(self, rows: Sequence[Row], watermark: int) -> None:
        live = [m for m in self._members if self._end(m[1]) - 1 > watermark]
        closed = [m for m in self._members if self._end(m[1]) - 1 <= watermark]
        for row in rows:
            key = row[1] if self._by_key else None
            touching = [m for m in live if m[0] == key and self._touches(m[1], row)]
            joined = [r for m in touching for r in m[1]] + [row]
            live = [m for m in live if m not in touching] + [(key, joined)]
        self._members = closed + [m for m in live if self._end(m[1]) - 1 > watermark]

    def _end(self, rows: Sequence[Row]) -> int:
        return max(_ms(r[-1]) for r in rows) + self._gap

    def _touches(self, rows: Sequence[Row], row: Row) -> bool:
        return min(_ms(r[-1]) for r in rows) - self._gap <= _ms(row[-1]) <= self._end(rows)

    def bounds(self, row: Row) -> tuple[int | None, int | None]:
        for _, rows in self._members:
            if row in rows:
                return min(_ms(r[-1]) for r in rows), self._end(rows)
        return None, None


def _on_time(window: Window, table: str, seen: str = "seen") -> str:
    """The rows of a table with their windows, without those that are late for them."""
    if window.kind == "SESSION":
        bounds = "make_timestamp(first * 1000) AS window_start, make_timestamp(last * 1000) AS window_end"
        return f"(SELECT *, {bounds} FROM {table} WHERE first IS NOT NULL)"
    return f"(SELECT * FROM {window.duck(table)} WHERE epoch_ms(window_end) - 1 > {seen})"


@dataclass(frozen=True)
class _Drawn:
    """What a template gives."""

    sql: Text
    columns: int
    lost: str = ""
    window: Window | None = None


def _aggregate(choose: Choices) -> _Drawn:
    window = Window(choose)
    keys = ["window_start", "window_end"] + (["k"] if choose.chance(60) or window.by_key else [])
    calls, number = draw_calls(choose)
    pattern = f"SELECT {', '.join(keys)}, {calls} FROM {{}} GROUP BY {', '.join(keys)}"
    if window.kind == "SESSION":
        lost = "SELECT COUNT(*) FROM e WHERE first IS NULL"
    else:
        last = (
            f"SELECT id, MAX(epoch_ms(window_end)) - 1 AS last, MAX(seen) AS seen FROM {window.duck('e')} GROUP BY id"
        )
        lost = f"SELECT COUNT(*) FROM ({last}) WHERE last <= seen"
    sql = Text(pattern.format(window.ours("e")), pattern.format(_on_time(window, "e")))
    return _Drawn(sql, len(keys) + number, lost, window)


def _grouping_sets(choose: Choices) -> _Drawn:
    window = Window(choose, sessions=False)
    calls, number = draw_calls(choose)
    sets = choose.pick(("ROLLUP (k, v)", "CUBE (k, v)"))
    pattern = f"SELECT window_start, window_end, k, v, {calls} FROM {{}} GROUP BY window_start, window_end, {sets}"
    return _Drawn(Text(pattern.format(window.ours("e")), pattern.format(_on_time(window, "e"))), 4 + number)


def _top(choose: Choices) -> _Drawn:
    window = Window(choose)
    partition = "window_start, window_end" + (", k" if choose.chance(50) or window.by_key else "")
    bound = choose.pick(("<= 2", "= 1", "BETWEEN 2 AND 3"))

    def one(source: str, nulls: str) -> str:
        over = f"ROW_NUMBER() OVER (PARTITION BY {partition} ORDER BY v{nulls}, id)"
        shown = "window_start, window_end, id, rn"
        return f"SELECT {shown} FROM (SELECT *, {over} AS rn FROM {source}) AS q WHERE rn {bound}"

    return _Drawn(Text(one(window.ours("e"), ""), one(_on_time(window, "e"), " NULLS FIRST")), 4, window=window)


def _join(choose: Choices) -> _Drawn:
    window = Window(choose, sessions=False)
    kind = choose.pick(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))

    def one(left: str, right: str) -> str:
        on = "l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end"
        rows = f"(SELECT * FROM {left}) AS l {kind} (SELECT * FROM {right}) AS r ON {on}"
        return f"SELECT COALESCE(l.window_start, r.window_start), l.id, r.id FROM {rows}"

    duck = one(_on_time(window, "e", "seen_both"), _on_time(window, "f", "seen_both"))
    return _Drawn(Text(one(window.ours("e"), window.ours("f")), duck), 3)


def _over(choose: Choices) -> _Drawn:
    frame = choose.pick(
        (
            "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
            "RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW",
        )
    )
    partition = choose.pick(("PARTITION BY k ", ""))
    chosen = choose.some(("COUNT(*)", "SUM(v)", "MIN(v)", "MAX(d)", "COUNT(v)"), 1, 3)
    calls = ", ".join(f"{c} OVER ({partition}ORDER BY ts {frame})" for c in chosen)
    duck = f"SELECT id, {calls} FROM (SELECT * FROM e WHERE epoch_ms(ts) > seen)"
    lost = "SELECT COUNT(*) FROM e WHERE epoch_ms(ts) <= seen"
    return _Drawn(Text(f"SELECT id, {calls} FROM e", duck), 1 + len(chosen), lost)


LATE_TEMPLATES = {
    "late window aggregate": _aggregate,
    "late grouping sets": _grouping_sets,
    "late window top": _top,
    "late window join": _join,
    "late event-time over": _over,
}


def draw_late_case(choose: Choices, template: str) -> LateCase:
    """One case of a template. Rows may be much older than the newest before them."""
    drawn = LATE_TEMPLATES[template](choose)
    delays = (choose.count(0, 4), choose.count(0, 4))
    distinct = template == "late event-time over"
    rows = tuple(draw_stream(choose, d + 40, distinct_times=distinct, fewest=3, older=70) for d in delays)
    cuts = tuple(choose.count(0, 3) for _ in range(choose.count(1, 7)))
    window = drawn.window
    gap = window.size * 1000 if window is not None and window.kind == "SESSION" else 0
    by_key = window is not None and window.by_key
    return LateCase(
        rows, delays, cuts if any(cuts) else (1,), drawn.sql, drawn.columns, drawn.lost, gap, by_key, draw_life(choose)
    )


@st.composite
def late_cases(draw: Draw, template: str) -> LateCase:
    """Cases of a template."""
    return draw_late_case(Choices(draw), template)
