"""Queries over event time with hand-written DuckDB answers: a template per feature, its parameters drawn.

Tables `e` and `f` (id, k, v, d, ts) are append-only with a watermark; rows come out of order, but by less than the
watermark's delay, so that nothing is late however the input is cut. DuckDB sees all rows: the answers are those at the
end of the input.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal

from hypothesis import strategies as st

from tests.oracle.generate_choices import Choices, Draw
from tests.oracle.generate_lives import Life, draw_life
from tests.oracle.generate_tables import Row, Table, draw_value
from tests.oracle.generate_text import Column, Kind, Text

__all__ = [
    "EVENTS",
    "TEMPLATES",
    "Window",
    "WindowCase",
    "draw_calls",
    "draw_stream",
    "draw_window_case",
    "sentinel",
    "window_cases",
]

EVENTS = (
    Column("id", Kind.INT),
    Column("k", Kind.STRING),
    Column("v", Kind.INT),
    Column("d", Kind.DECIMAL),
    Column("ts", Kind.TIMESTAMP),
)
_START = dt.datetime(2024, 1, 1)
_AGGREGATES = (
    "COUNT(*)",
    "SUM({0}v)",
    "MIN({0}v)",
    "MAX({0}d)",
    "COUNT(DISTINCT {0}v)",
    "SUM({0}d)",
    "COUNT({0}k)",
    "COUNT(*) FILTER (WHERE {0}v > 0)",
    "MAX({0}ts)",
    "SUM(DISTINCT {0}v)",
)


@dataclass(frozen=True)
class WindowCase:
    """Two streams, a query, and how often the input is cut: `cuts` are the rows per epoch, by source in turn. `life`: how
    the job of the view lives."""

    rows: tuple[tuple[Row, ...], ...]
    delays: tuple[int, ...]
    view: str
    sql: Text
    cuts: tuple[int, ...]
    columns: int
    life: Life

    def ddl(self) -> list[str]:
        """The tables, and the versioned view over `f`."""
        made = [
            f"{table.ddl()[:-1]}, WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND)"
            for table, delay in zip(self.tables, self.delays, strict=True)
        ]
        return [*made, self.view] if self.view else made

    @property
    def tables(self) -> tuple[Table, ...]:
        return (Table("e", EVENTS, 0), Table("f", EVENTS, 0))


def draw_stream(
    choose: Choices, delay: int, *, distinct_times: bool, fewest: int = 0, older: int = 40
) -> tuple[Row, ...]:
    """At least `fewest` rows in order of arrival; each is less than `delay` seconds older than the newest before it, and
    `older` of a hundred are older at all."""
    rows = []
    newest = _START
    times: set[dt.datetime] = set()
    for number in range(choose.count(fewest, 14)):
        step = choose.pick((1000, 0, 2000, 5000, 500, 13000, 31000))
        back = choose.count(0, delay * 2 - 1) * 500 if choose.chance(older) else 0
        time = max(newest + dt.timedelta(milliseconds=step - back), _START)
        while distinct_times and time in times:
            time += dt.timedelta(milliseconds=1)
        times.add(time)
        newest = max(newest, time)
        key = draw_value(choose, Kind.STRING, null=False)[:1] or None
        rows.append(
            (number, key, draw_value(choose, Kind.INT, null=True), draw_value(choose, Kind.DECIMAL, null=True), time)
        )
    return tuple(rows)


class Window:
    """A windowing table function and the same rows in DuckDB, under an alias."""

    def __init__(self, choose: Choices, *, sessions: bool = True) -> None:
        kinds = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
        self.kind = choose.pick(kinds if sessions else kinds[:3])
        self.offset = choose.pick((0, 0, 3, -2)) if self.kind != "SESSION" else 0
        self.size = choose.pick((10, 4, 30)) * (choose.pick((1, 2, 3)) if self.kind in ("HOP", "CUMULATE") else 1)
        self.step = 0
        if self.kind in ("HOP", "CUMULATE"):
            self.step = choose.pick([s for s in (2, 5, 10, 4) if self.size % s == 0])
        self.by_key = self.kind == "SESSION" and choose.chance(50)

    def ours(self, table: str) -> str:
        lengths = {
            "TUMBLE": [self.size],
            "HOP": [self.step, self.size],
            "CUMULATE": [self.step, self.size],
            "SESSION": [self.size],
        }[self.kind]
        partition = " PARTITION BY k" if self.by_key else ""
        if self.offset:
            lengths = [*lengths, self.offset]
        parts = ", ".join(f"INTERVAL '{n}' SECOND" for n in lengths)
        return f"TABLE({self.kind}(TABLE {table}{partition}, DESCRIPTOR(ts), {parts}))"

    def duck(self, table: str) -> str:
        """A subquery with the columns of the table and the bounds of the window."""
        if self.kind == "SESSION":
            return self._sessions(table)
        time = "epoch_ms(ts)"
        size, step, offset = self.size * 1000, self.step * 1000, self.offset * 1000

        def floor(unit: int) -> str:
            return f"(CAST(floor(({time} - {offset}) / {unit}.0) AS BIGINT) * {unit} + {offset})"

        match self.kind:
            case "TUMBLE":
                return _bounded(f"SELECT *, {floor(size)} AS ws, {floor(size)} + {size} AS we FROM {table}")
            case "HOP":
                starts = f"SELECT *, unnest(range({floor(step)}, {time} - {size}, -{step})) AS ws FROM {table}"
                return _bounded(f"SELECT *, ws + {size} AS we FROM ({starts})")
            case _:
                inner = f"SELECT *, {floor(size)} AS ws FROM {table}"
                first = f"ws + ({time} - ws) // {step} * {step} + {step}"
                return _bounded(f"SELECT *, unnest(range({first}, ws + {size} + 1, {step})) AS we FROM ({inner})")

    def _sessions(self, table: str) -> str:
        gap = f"INTERVAL '{self.size}' SECOND"
        by = "PARTITION BY k " if self.by_key else ""
        with_key = "PARTITION BY k, n" if self.by_key else "PARTITION BY n"
        first = f"SELECT *, CASE WHEN ts > LAG(ts) OVER ({by}ORDER BY ts, id) + {gap} THEN 1 ELSE 0 END AS begins FROM {table}"
        numbered = f"SELECT *, SUM(begins) OVER ({by}ORDER BY ts, id ROWS UNBOUNDED PRECEDING) AS n FROM ({first})"
        return (
            f"(SELECT * EXCLUDE (begins, n), MIN(ts) OVER ({with_key}) AS window_start, MAX(ts) OVER ({with_key}) + {gap} AS window_end"
            f" FROM ({numbered}))"
        )


def _bounded(rows: str) -> str:
    """Rows with the milliseconds `ws` and `we` as timestamps."""
    return f"(SELECT * EXCLUDE (ws, we), {_stamp('ws')} AS window_start, {_stamp('we')} AS window_end FROM ({rows}))"


def _stamp(ms: str) -> str:
    return f"make_timestamp(({ms}) * 1000)"


def draw_calls(choose: Choices, alias: str = "") -> tuple[str, int]:
    chosen = choose.some(_AGGREGATES, 1, 3)
    return ", ".join(c.format(alias) + f" AS a{i}" for i, c in enumerate(chosen)), len(chosen)


def _aggregate(choose: Choices) -> tuple[Text, int]:
    window = Window(choose)
    keys = ["window_start", "window_end"]
    shown = ["window_start", "window_end"] if choose.chance(70) else ["window_end"]
    if choose.chance(60) or window.by_key:
        keys.append("k")
        shown.append("k")
    calls, number = draw_calls(choose)
    where = " WHERE v IS NOT NULL" if choose.chance(20) else ""
    having = " HAVING COUNT(*) > 1" if choose.chance(20) else ""
    pattern = f"SELECT {', '.join(shown)}, {calls} FROM {{}}{where} GROUP BY {', '.join(keys)}{having}"
    return Text(pattern.format(window.ours("e")), pattern.format(window.duck("e"))), len(shown) + number


def _grouping_sets(choose: Choices) -> tuple[Text, int]:
    window = Window(choose, sessions=False)
    calls, number = draw_calls(choose)
    sets = choose.pick(("ROLLUP (k, v)", "CUBE (k, v)"))
    pattern = f"SELECT window_start, window_end, k, v, {calls} FROM {{}} GROUP BY window_start, window_end, {sets}"
    return Text(pattern.format(window.ours("e")), pattern.format(window.duck("e"))), 4 + number


def _cascade(choose: Choices) -> tuple[Text, int]:
    """A window aggregate over a window aggregate, by window_time."""
    small = choose.pick((5, 2, 10))
    large = small * choose.pick((2, 3))
    ours = (
        f"SELECT window_start, window_end, SUM(n), MAX(s) FROM TABLE(TUMBLE(TABLE w1, DESCRIPTOR(wt), INTERVAL '{large}' SECOND))"
        " GROUP BY window_start, window_end"
    )
    inner = (
        "SELECT window_time AS wt, k, COUNT(*) AS n, SUM(v) AS s"
        f" FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '{small}' SECOND)) GROUP BY window_start, window_end, window_time, k"
    )

    def bucket(unit: int) -> str:
        return f"epoch_ms(ts) // {unit * 1000} * {unit * 1000}"

    duck = (
        f"SELECT {_stamp('w')}, {_stamp(f'w + {large * 1000}')}, SUM(n), MAX(s) FROM (SELECT {bucket(large)} AS w, {bucket(small)} AS u, k,"
        " COUNT(*) AS n, SUM(v) AS s FROM e GROUP BY ALL) GROUP BY w"
    )
    return Text(f"WITH w1 AS ({inner}) {ours}", duck), 4


def _window_top(choose: Choices) -> tuple[Text, int]:
    window = Window(choose)
    partition = "window_start, window_end" + (", k" if choose.chance(50) or window.by_key else "")
    rank = "ROW_NUMBER"
    way = choose.pick(("", " DESC"))
    bound = choose.pick(("<= 2", "= 1", "<= 1", "BETWEEN 2 AND 3"))
    shown = "window_start, window_end, id" + (", rn" if choose.chance(40) else "")

    def one(source: str, nulls: str) -> str:
        over = f"{rank}() OVER (PARTITION BY {partition} ORDER BY v{way}{nulls}, id)"
        return f"SELECT {shown} FROM (SELECT *, {over} AS rn FROM {source}) AS q WHERE rn {bound}"

    return Text(
        one(window.ours("e"), ""), one(window.duck("e"), " NULLS LAST" if way else " NULLS FIRST")
    ), shown.count(",") + 1


def _window_join(choose: Choices) -> tuple[Text, int]:
    window = Window(choose, sessions=False)
    kind = choose.pick(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    extra = choose.pick(("", " AND l.v < r.v", " AND l.v = r.v"))

    def one(left: str, right: str) -> str:
        on = "l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end"
        return (
            f"SELECT COALESCE(l.window_start, r.window_start), l.id, r.id FROM (SELECT * FROM {left}) AS l {kind}"
            f" (SELECT * FROM {right}) AS r ON {on}{extra}"
        )

    return Text(one(window.ours("e"), window.ours("f")), one(window.duck("e"), window.duck("f"))), 3


def _interval_join(choose: Choices) -> tuple[Text, int]:
    kind = choose.pick(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    low, high = choose.pick((0, 2, 5)), choose.pick((0, 3, 10))
    extra = choose.pick(("", " AND e.v <> f.v"))
    signs = choose.pick(((">=", "<="), (">", "<")))
    on = f"e.k = f.k AND e.ts {signs[0]} f.ts - INTERVAL '{low}' SECOND AND e.ts {signs[1]} f.ts + INTERVAL '{high}' SECOND{extra}"
    sql = f"SELECT e.id, f.id, e.v, f.d FROM e {kind} f ON {on}"
    return Text(sql, sql), 4


def _over(choose: Choices) -> tuple[Text, int]:
    frame = choose.pick(
        (
            "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
            "RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW",
            "RANGE BETWEEN INTERVAL '20' SECOND PRECEDING AND CURRENT ROW",
        )
    )
    partition = choose.pick(("PARTITION BY k ", "", "PARTITION BY k, v "))
    chosen = choose.some(("COUNT(*)", "SUM(v)", "MIN(v)", "MAX(d)", "COUNT(v)", "SUM(d)"), 1, 3)
    calls = ", ".join(f"{c} OVER ({partition}ORDER BY ts {frame})" for c in chosen)
    sql = f"SELECT id, {calls} FROM e"
    return Text(sql, sql), 1 + len(chosen)


def _deduplicate(choose: Choices) -> tuple[Text, int]:
    way = choose.pick(("", " DESC"))
    sql = f"SELECT id, k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts{way}) AS rn FROM e) AS q WHERE rn = 1"
    return Text(sql, sql), 3


def _temporal(choose: Choices) -> tuple[Text, int]:
    kind = choose.pick(("JOIN", "LEFT JOIN"))
    extra = choose.pick(("", " AND e.v <> f.v"))
    ours = f"SELECT e.id, f.id, f.v FROM e {kind} latest FOR SYSTEM_TIME AS OF e.ts AS f ON e.k = f.k{extra}"
    last = "(SELECT MAX(g.ts) FROM f AS g WHERE g.k = e.k AND g.ts <= e.ts)"
    duck = (
        f"SELECT e.id, f.id, f.v FROM (SELECT *, {last} AS at FROM e) AS e {kind} f ON e.k = f.k AND f.ts = e.at{extra}"
    )
    return Text(ours, duck), 3


TEMPLATES = {
    "window aggregate": _aggregate,
    "window grouping sets": _grouping_sets,
    "window cascade": _cascade,
    "window top": _window_top,
    "window join": _window_join,
    "interval join": _interval_join,
    "event-time over": _over,
    "deduplicate": _deduplicate,
    "temporal join": _temporal,
}
_VERSIONED = (
    "CREATE VIEW latest AS SELECT id, k, v, ts"
    " FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS rn FROM f) AS q WHERE rn = 1"
)


def draw_window_case(choose: Choices, template: str) -> WindowCase:
    """One case of a template."""
    sql, columns = TEMPLATES[template](choose)
    delays = (choose.count(1, 8), choose.count(1, 8))
    distinct = template in ("event-time over", "deduplicate", "temporal join")
    rows = tuple(draw_stream(choose, delay, distinct_times=distinct) for delay in delays)
    cuts = tuple(choose.count(0, 4) for _ in range(choose.count(1, 7)))
    view = _VERSIONED if template == "temporal join" else ""
    return WindowCase(rows, delays, view, sql, cuts if any(cuts) else (1,), columns, draw_life(choose))


@st.composite
def window_cases(draw: Draw, template: str) -> WindowCase:
    """Cases of a template."""
    return draw_window_case(Choices(draw), template)


def sentinel(number: int) -> Row:
    """A row far in the future: it closes all that came before it."""
    return (-1_000_000 - number, f"z{number}", None, Decimal("0.00"), _START + dt.timedelta(days=1))
