"""MATCH_RECOGNIZE against a naive model: after every epoch the matches are those of the rows that the watermark has passed,
whatever the order in which they came."""

from __future__ import annotations

import datetime
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.kernels import match_walk
from sqlengine import TableEnvironment
from tests.unit.operators.match_model import Condition, Mapped, Model, Row, Variable

START = datetime.datetime(2024, 1, 1)
DELAY = 4


CASES = int(os.environ.get("FUZZ_CASES", "0"))
"""How many; a default number without."""

Skip = str | tuple[str, frozenset[int]]


def _values(mapped: Mapped, *variables: int) -> list[int | None]:
    return [row[2] for v, row in mapped if v in variables]


def _names(mapped: Mapped, variables: frozenset[int]) -> list[str]:
    return [NAMES[v] for v, _ in mapped if v in variables]


def _last(values: list[Any], back: int = 0) -> Any:
    return values[-1 - back] if back < len(values) else None


def _less(a: int | None, b: int | None) -> bool:
    return a is not None and b is not None and a < b


def _sum(values: list[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


Made = Callable[[int, frozenset[int]], tuple[str, Condition]]
"""Of a variable and those of the subset S."""
CONDITIONS: list[Made] = [
    lambda v, s: ("", lambda mapped, row: True),
    lambda v, s: (f"{NAMES[v]}.p > 2", lambda mapped, row: _less(2, row[2])),
    lambda v, s: (f"{NAMES[v]}.p <= 3 OR p IS NULL", lambda mapped, row: row[2] is None or row[2] <= 3),
    lambda v, s: (
        f"{NAMES[v]}.p > LAST(A.p)" if v else "A.p > 1",
        lambda mapped, row: _less(_last(_values(mapped, 0)), row[2]) if v else _less(1, row[2]),
    ),
    lambda v, s: (f"SUM({NAMES[v]}.p) < 9", lambda mapped, row: _less(_sum([*_values(mapped, v), row[2]]), 9)),
    lambda v, s: (
        f"{NAMES[v]}.p < 6 AND (LAST(p, 1) IS NULL OR p <> LAST(p, 1))",
        lambda mapped, row: _less(row[2], 6) and (not mapped or mapped[-1][1][2] is None or row[2] != mapped[-1][1][2]),
    ),
    lambda v, s: (
        f"COUNT(*) < 4 AND FIRST({NAMES[v]}.p) > 0",
        lambda mapped, row: len(mapped) < 3 and _less(0, [*_values(mapped, v), row[2]][0]),
    ),
    lambda v, s: (
        f"{NAMES[v]}.p >= LAST({NAMES[v]}.p, 1) OR LAST({NAMES[v]}.p, 1) IS NULL",
        lambda mapped, row: (before := _last(_values(mapped, v))) is None or (row[2] is not None and row[2] >= before),
    ),
    lambda v, s: (
        "S.p > 2",
        lambda mapped, row: _less(2, row[2] if v in s else _last(_values(mapped, *s))),
    ),
    lambda v, s: (
        "COUNT(S.p) < 3",
        lambda mapped, row: sum(p is not None for p in [*_values(mapped, *s), *([row[2]] if v in s else [])]) < 3,
    ),
    lambda v, s: (
        f"LAST(CLASSIFIER(), 1) IS NULL OR LAST(CLASSIFIER(), 1) <> 'A' OR CLASSIFIER() <> '{NAMES[v]}'",
        lambda mapped, row: not mapped or mapped[-1][0] != 0,
    ),
    lambda v, s: (
        "COALESCE(MAX(CLASSIFIER(S)), '') < 'C' AND COALESCE(FIRST(S.p, 1), 1) > 0",
        lambda mapped, row: (
            max([*_names(mapped, s), *([NAMES[v]] if v in s else [])], default="") < "C"
            and (
                (second := [*_values(mapped, *s), *([row[2]] if v in s else [])][1:2]) in ([], [None]) or second[0] > 0
            )
        ),
    ),
]
NAMES = "ABCD"
QUANTIFIERS = [(1, 1), (1, 1), (1, None), (0, None), (0, 1), (1, 2), (0, 2), (2, 3), (2, None), (2, 2)]


@st.composite
def patterns(draw: st.DrawFn) -> tuple[list[tuple[Variable, str]], frozenset[int]]:
    """Variables with their conditions as text, and those of the subset S; Flink takes the pattern."""
    found: list[tuple[Variable, str]] = []
    count = draw(st.integers(1, 4))
    subset = draw(st.frozensets(st.integers(0, count - 1), min_size=1))
    for number in range(count):
        least, most = draw(st.sampled_from(QUANTIFIERS))
        text, holds = draw(st.sampled_from(CONDITIONS))(number, subset)
        greedy = (least, most) == (0, 1) or draw(st.booleans())
        variable = Variable(NAMES[number], least, most, greedy, holds)
        if found and found[-1][0].takes_all and least == 0 and most in (None, 1):
            variable.least, variable.most = 1, 1
        found.append((variable, text))
    first, last = found[0][0], found[-1][0]
    if not first.least:
        first.least, first.most = 1, 1
    if last.takes_all:
        last.greedy = False
    return found, subset


def _quantifier(variable: Variable) -> str:
    if (variable.least, variable.most) == (1, 1):
        return ""
    if (variable.least, variable.most) == (0, 1):
        return "?"
    most = "" if variable.most is None else variable.most
    return f"{{{variable.least},{most}}}" + ("" if variable.greedy else "?")


@st.composite
def skips(draw: st.DrawFn, variables: list[Variable], subset: frozenset[int]) -> tuple[str, Skip]:
    choices: list[tuple[str, Skip]] = [("PAST LAST ROW", "past"), ("TO NEXT ROW", "next")]
    for number, variable in enumerate(variables):
        if number and variable.least:
            choices += [(f"TO {w.upper()} {variable.name}", (w, frozenset((number,)))) for w in ("first", "last")]
    if any(number and variables[number].least for number in subset):
        choices += [("TO LAST S", ("last", subset)), ("TO S", ("last", subset))]
        choices += [] if 0 in subset else [("TO FIRST S", ("first", subset))]
    return draw(st.sampled_from(choices))


EPOCHS = st.lists(
    st.lists(
        st.tuples(st.sampled_from("xy"), st.one_of(st.none(), st.integers(0, 7)), st.integers(0, 14)),
        min_size=1,
        max_size=9,
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("kernels", ["c", "python"])
@settings(max_examples=CASES // 2 or 60, deadline=None)
@given(data=st.data(), epochs=EPOCHS, within=st.sampled_from([0, 0, 3, 6]), tie=st.booleans())
def test_matches_are_those_of_the_model(
    kernels: str, data: st.DataObject, epochs: list[list[tuple[str, int | None, int]]], within: int, tie: bool
) -> None:
    pattern, subset = data.draw(patterns())
    variables = [v for v, _ in pattern]
    skip_text, skip = data.draw(skips(variables, subset))
    define = ", ".join(f"{v.name} AS {text}" for v, text in pattern if text) or "A AS TRUE"
    measures = ", ".join(
        f"COUNT({v.name}.id) AS n{v.name}, FIRST({v.name}.id) AS f{v.name}, LAST({v.name}.id, 1) AS l{v.name}, "
        f"SUM({v.name}.p) AS s{v.name}, MAX({v.name}.p) AS m{v.name}"
        for v in variables
    )
    measures += (
        ", COUNT(S.id) AS nS, FIRST(S.id) AS fS, LAST(S.id, 1) AS lS, RUNNING SUM(S.p) AS sS, FINAL MAX(S.p) AS mS, "
        "S.id AS lastS, CLASSIFIER(S) AS c, FINAL LAST(CLASSIFIER(S), 1) AS c1, FIRST(CLASSIFIER(), 1) AS c2, "
        "ARRAY_AGG(CLASSIFIER()) AS cs, MAX(CLASSIFIER(S)) AS cm, COUNT(CLASSIFIER(S)) AS cn, MATCH_NUMBER() AS no"
    )
    query = (
        f"SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts{', id DESC' if tie else ''} "
        f"MEASURES {measures}, LAST(p) AS p, MATCH_ROWTIME() AS rt AFTER MATCH SKIP {skip_text} "
        f"PATTERN ({' '.join(v.name + _quantifier(v) for v in variables)}) "
        f"{f'WITHIN INTERVAL {chr(39)}{within}{chr(39)} SECOND' if within else ''} "
        f"SUBSET S = ({', '.join(NAMES[v] for v in sorted(subset))}) DEFINE {define}) AS m"
    )
    every = "SELECT k, id, c, no" + query.removeprefix("SELECT *")
    every = every.replace("rt AFTER", "rt ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER").replace(
        "LAST(p) AS p", "LAST(p) AS lp"
    )
    every = every.replace("MEASURES ", "MEASURES CLASSIFIER() AS c, ").replace(
        "CLASSIFIER(S) AS c,", "CLASSIFIER(S) AS cS,"
    )
    with pytest.MonkeyPatch.context() as patch, TableEnvironment.create() as environment:
        if kernels == "python":
            patch.setattr(match_walk, "_match_walk", None)
        run = environment.execute_sql
        run(
            "CREATE TABLE t (id INT, k STRING, p INT, ts TIMESTAMP(3), "
            f"WATERMARK FOR ts AS ts - INTERVAL '{DELAY}' SECOND)"
        )
        run(f"CREATE MATERIALIZED VIEW v AS {query}")
        run(f"CREATE MATERIALIZED VIEW w AS {every}")
        accepted: list[tuple[str, Row]] = []
        watermark, number = -100, 0
        base = 0
        for epoch in [*epochs, [("z", None, 100)]]:
            values: list[str] = []
            before = watermark
            for k, p, second in epoch:
                second += base if second < 100 else 0
                number += 1
                at = START + datetime.timedelta(seconds=second)
                values.append(f"({number}, '{k}', {'NULL' if p is None else p}, TIMESTAMP '{at}')")
                if second > before:
                    accepted.append((k, (second, -number if tie else number, p)))
                watermark = max(watermark, second - DELAY)
            base += 5
            run(f"INSERT INTO t VALUES {', '.join(values)}")
            got = Counter(tuple(map(_hashable, row)) for row in run("SELECT * FROM v").collect())
            assert got == _expected(accepted, watermark, variables, subset, skip, within), query
            shown = Counter(tuple(row) for row in run("SELECT * FROM w").collect())
            assert shown == _shown(accepted, watermark, variables, skip, within), every


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _shown(
    accepted: list[tuple[str, Row]], watermark: int, variables: list[Variable], skip: Skip, within: int
) -> Counter[tuple[Any, ...]]:
    """All rows: those of matches, and those in none that no match can begin with any more."""
    found: Counter[tuple[Any, ...]] = Counter()
    for key in {k for k, _ in accepted}:
        rows, model = _walked(key, accepted, watermark, variables, skip, within)
        for number, match in enumerate(model.matches, 1):
            found.update((key, abs(row[1]), NAMES[v], number) for v, row in match)
        matched = {row[:2] for match in model.matches for _, row in match}
        open_from = min(run.key for run in [*model.runs.array, *model.held.array])
        found.update((key, abs(r[1]), None, None) for r in rows if r[:2] < open_from and r[:2] not in matched)
    return found


def _walked(
    key: str, accepted: list[tuple[str, Row]], watermark: int, variables: list[Variable], skip: Skip, within: int
) -> tuple[list[Row], Model]:
    """The rows of a partition that the watermark has passed, and the model that has taken them."""
    model = Model(variables, skip, within)
    rows = sorted((row for k, row in accepted if k == key and row[0] <= watermark), key=lambda row: row[:2])
    for row in rows:
        model.take(row)
    model.advance(watermark)
    return rows, model


def _expected(
    accepted: list[tuple[str, Row]],
    watermark: int,
    variables: list[Variable],
    subset: frozenset[int],
    skip: Skip,
    within: int,
) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for key in {k for k, _ in accepted}:
        _, model = _walked(key, accepted, watermark, variables, skip, within)
        for number, match in enumerate(model.matches, 1):
            row: list[Any] = [key]
            for mine in [*(frozenset((v,)) for v in range(len(variables))), subset]:
                ids = [abs(r[1]) for v, r in match if v in mine]
                known = [p for p in _values(match, *mine) if p is not None]
                row += [len(ids), ids[0] if ids else None, ids[-2] if len(ids) > 1 else None]
                row += [sum(known) if known else None, max(known) if known else None]
            names, all_names = _names(match, subset), [NAMES[v] for v, _ in match]
            row += [_last(ids), _last(names), _last(names, 1), _last(all_names[:2]) if len(match) > 1 else None]
            row += [tuple(all_names), max(names, default=None), len(names), number]
            row += [match[-1][1][2], START + datetime.timedelta(seconds=match[-1][1][0])]
            found[tuple(row)] += 1
    return found
