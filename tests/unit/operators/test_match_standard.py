"""MATCH_RECOGNIZE with the meaning of the SQL standard against a search with backtracking: after every epoch the matches
are those of the rows that the watermark has passed, in whatever order and epochs they came. FUZZ_CASES is the number of
cases."""

from __future__ import annotations

import datetime
import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from runtime.core.errors import ExpressionError
from sqlengine import TableEnvironment
from tests.unit.operators.match_model import Condition, Mapped, Row
from tests.unit.operators.match_search import ENDED, Excluded, Part, Search
from tests.unit.operators.test_match_recognize import CONDITIONS, DELAY, EPOCHS, NAMES, START, Skip

CASES = int(os.environ.get("FUZZ_CASES", "0"))
Match = tuple[str, int, Row, Mapped]
QUANTIFIERS = [(1, 1), (1, 1), (1, 1), (1, None), (0, None), (0, 1), (1, 2), (0, 2), (2, 3), (2, None)]


def _quantified(part: Part, quantifier: tuple[int, int | None], greedy: bool) -> Part:
    return Part(part.variable, part.parts, part.either, *quantifier, greedy, part.excluded, part.anchor)


def _repeated(parts: st.SearchStrategy[Part]) -> st.SearchStrategy[Part]:
    return st.builds(_quantified, parts, st.sampled_from(QUANTIFIERS), st.booleans())


def _groups(parts: st.SearchStrategy[Part]) -> st.SearchStrategy[Part]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    excluded = st.sampled_from([False, False, False, True])
    return _repeated(st.builds(Part, st.just(-1), several, st.booleans(), excluded=excluded))


def _variables(part: Part) -> list[int]:
    """In the order in which they are there first."""
    mine = [part.variable] if part.variable >= 0 else [v for inner in part.parts for v in _variables(inner)]
    return list(dict.fromkeys(mine))


VARIABLES = _repeated(st.builds(Part, st.integers(0, 3)))
ANCHORS = st.builds(Part, anchor=st.sampled_from("^$"))
PATTERNS = st.recursive(st.one_of(*[VARIABLES] * 8, ANCHORS), _groups, max_leaves=6).filter(_variables)
ENDS = st.sampled_from([("", "")] * 6 + [("^", ""), ("", "$"), ("^", "$")])


def _renumbered(part: Part, numbers: dict[int, int], excluded: bool = False) -> Part:
    excluded = excluded or part.excluded
    parts = tuple(_renumbered(inner, numbers, excluded) for inner in part.parts)
    number = numbers[part.variable] if part.variable >= 0 else -1
    number = Excluded(number) if excluded and part.variable >= 0 else number
    return Part(number, parts, part.either, part.least, part.most, part.greedy, part.excluded, part.anchor)


def _between(part: Part, ends: tuple[str, str]) -> Part:
    """A pattern between anchors."""
    first, last = ((Part(anchor=end),) if end else () for end in ends)
    return Part(parts=(*first, part, *last)) if any(ends) else part


def _excludes(part: Part) -> bool:
    return part.excluded or any(map(_excludes, part.parts))


@st.composite
def skips(draw: st.DrawFn, count: int) -> tuple[str, Skip]:
    choices: list[tuple[str, Skip]] = [("PAST LAST ROW", "past"), ("TO NEXT ROW", "next")] * 2
    for number in range(count):
        choices += [(f"TO {w.upper()} {NAMES[number]}", (w, frozenset((number,)))) for w in ("first", "last")]
    return draw(st.sampled_from(choices))


@settings(max_examples=CASES or 90, deadline=None)
@given(
    data=st.data(),
    drawn=PATTERNS,
    ends=ENDS,
    epochs=EPOCHS,
    within=st.sampled_from([0, 0, 3, 6]),
    tie=st.booleans(),
    alone=st.booleans(),
    which=st.sampled_from(["SHOW EMPTY MATCHES", "OMIT EMPTY MATCHES", "WITH UNMATCHED ROWS"]),
)
def test_matches_are_those_of_a_search_with_backtracking(
    data: st.DataObject,
    drawn: Part,
    ends: tuple[str, str],
    epochs: list[list[tuple[str, int | None, int]]],
    within: int,
    tie: bool,
    alone: bool,
    which: str,
) -> None:
    part = _between(_renumbered(drawn, {v: i for i, v in enumerate(_variables(drawn))}), ends)
    count = len(_variables(part))
    which = "SHOW EMPTY MATCHES" if _excludes(part) else which
    skip_text, skip = data.draw(skips(count))
    conditions: list[Condition] = []
    texts: list[str] = []
    for number in range(count):
        text, holds = data.draw(st.sampled_from(CONDITIONS[: 3 if alone else None]))(number, frozenset((0,)))
        conditions.append(holds)
        texts += [f"{NAMES[number]} AS {text}"] if text else []
    measures = ", ".join(
        f"COUNT({n}.id) AS n{n}, FIRST({n}.id) AS f{n}, LAST({n}.id, 1) AS l{n}, SUM({n}.p) AS s{n}, {n}.id AS o{n}, "
        f"COUNT(DISTINCT {n}.p) AS d{n}"
        for n in NAMES[:count]
    )
    head = f"FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts{', id DESC' if tie else ''} MEASURES"
    tail = (
        f"AFTER MATCH SKIP {skip_text} PATTERN ({part.text(NAMES)}) "
        f"{f'WITHIN INTERVAL {chr(39)}{within}{chr(39)} SECOND' if within else ''} "
        f"SUBSET S = (A) DEFINE {', '.join(texts) or 'A AS TRUE'}) AS m"
    )
    one = f"SELECT * {head} {measures}, ARRAY_AGG(CLASSIFIER()) AS cs, FIRST(CLASSIFIER(), 1) AS c, MATCH_NUMBER() AS no {tail}"
    every = (
        f"SELECT k, id, c, n, d, fn, s, f, l, fl, no {head} CLASSIFIER() AS c, COUNT(A.id) AS n, COUNT(DISTINCT p) AS d, "
        "FINAL COUNT(A.id) AS fn, SUM(A.p) AS s, FIRST(A.id, 1) AS f, LAST(id, 1) AS l, FINAL LAST(A.id) AS fl, MATCH_NUMBER() AS no "
        f"ALL ROWS PER MATCH {which} {tail}"
    )
    with TableEnvironment.create() as environment:
        run = environment.execute_sql
        run("SET 'sqlengine.match.semantics' = 'standard'")
        run(
            "CREATE TABLE t (id INT, k STRING, p INT, ts TIMESTAMP(3), "
            f"WATERMARK FOR ts AS ts - INTERVAL '{DELAY}' SECOND)"
        )
        run(f"CREATE MATERIALIZED VIEW v AS {one}")
        run(f"CREATE MATERIALIZED VIEW w AS {every}")
        accepted: list[tuple[str, Row]] = []
        inserted: list[tuple[str, Row]] = []
        watermark, number, base = -100, 0, 0
        for epoch in [*epochs, [("z", None, 100)]]:
            values: list[str] = []
            before = watermark
            for k, p, second in epoch:
                second += base if second < 100 else 0
                number += 1
                at = START + datetime.timedelta(seconds=second)
                values.append(f"({number}, '{k}', {'NULL' if p is None else p}, TIMESTAMP '{at}')")
                inserted.append((k, (second, -number if tie else number, p)))
                accepted += inserted[-1:] if second > before else []
                watermark = max(watermark, second - DELAY)
            base += 5
            try:
                found, others = _found(accepted, watermark, part, conditions, skip, within)
            except LookupError:
                # AFTER MATCH leads nowhere: test_skip_to_nowhere.
                assume(False)
            run(f"INSERT INTO t VALUES {', '.join(values)}")
            got = Counter(tuple(map(_hashable, row)) for row in run("SELECT * FROM v").collect())
            assert got == Counter((k, *_measures(match, count), no) for k, no, _, match in found), one
            rows = Counter(tuple(row) for row in run("SELECT * FROM w").collect())
            assert rows == Counter(_shown(found, others, which)), every
        # A query of its own takes all rows in one epoch, and comes to their end.
        try:
            found, others = _found(inserted, ENDED, part, conditions, skip, within)
        except LookupError:
            assume(False)
        rows = Counter(tuple(row) for row in run(every).collect())
        assert rows == Counter(_shown(found, others, which)), every


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _found(
    accepted: list[tuple[str, Row]], watermark: int, part: Part, conditions: list[Condition], skip: Skip, within: int
) -> tuple[list[Match], list[tuple[str, Row]]]:
    """Matches with their partitions, their numbers and the rows with which they begin; and the rows that are in none."""
    found: list[Match] = []
    others: list[tuple[str, Row]] = []
    for key in sorted({k for k, _ in accepted}):
        rows = sorted((row for k, row in accepted if k == key and row[0] <= watermark), key=lambda row: row[:2])
        search = Search(part, conditions, rows, skip, within, watermark)
        found += [(key, number, rows[start], match) for number, (start, match) in enumerate(search.matches(), 1)]
        others += [(key, row) for row in search.unmatched()]
    return found, others


def _shown(found: list[Match], others: list[tuple[str, Row]], which: str) -> list[tuple[Any, ...]]:
    """What ALL ROWS PER MATCH gives."""
    rows = [row for each in found for row in _rows(*each, not which.startswith("OMIT"))]
    if which.startswith("WITH"):
        rows += [(key, abs(row[1]), *[None] * 9) for key, row in others]
    return rows


def _rows(key: str, number: int, first: Row, match: Mapped, empty: bool) -> list[tuple[Any, ...]]:
    """The rows of a match with what they have of ALL ROWS PER MATCH."""
    if not match:
        return [(key, abs(first[1]), None, 0, 0, 0, None, None, None, None, number)] if empty else []
    found: list[tuple[Any, ...]] = []
    every = [abs(row[1]) for v, row in match if v == 0]
    for place, (variable, row) in enumerate(match):
        if isinstance(variable, Excluded):
            continue
        mine = [r for v, r in match[: place + 1] if v == 0]
        known = [r[2] for r in mine if r[2] is not None]
        before = abs(match[place - 1][1][1]) if place else None
        second = abs(mine[1][1]) if len(mine) > 1 else None
        different = len({r[2] for _, r in match[: place + 1]} - {None})
        running = (len(mine), different, len(every), sum(known) if known else None, second, before)
        found.append((key, abs(row[1]), NAMES[variable], *running, every[-1] if every else None, number))
    return found


def _measures(match: Mapped, variables: int) -> list[Any]:
    row: list[Any] = []
    for variable in range(variables):
        ids = [abs(r[1]) for v, r in match if v == variable]
        known = [r[2] for v, r in match if v == variable and r[2] is not None]
        row += [len(ids), ids[0] if ids else None, ids[-2] if len(ids) > 1 else None]
        row += [sum(known) if known else None, ids[-1] if ids else None, len(set(known))]
    names = [NAMES[v] for v, _ in match]
    return [*row, tuple(names) or None, names[1] if len(names) > 1 else None]


def test_skip_to_nowhere() -> None:
    with TableEnvironment.create() as environment:
        run = environment.execute_sql
        run("CREATE TABLE t (p INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)")
        run("INSERT INTO t VALUES (1, TIMESTAMP '2024-01-01 00:00:00'), (2, TIMESTAMP '2024-01-01 00:00:01')")
        for skip in ("TO FIRST A", "TO LAST B"):
            query = (
                "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.p AS p "
                f"AFTER MATCH SKIP {skip} PATTERN ((A | B)) DEFINE A AS A.p > 0) AS m"
            )
            with pytest.raises(ExpressionError, match="AFTER MATCH SKIP leads to"):
                list(run(query).collect())
