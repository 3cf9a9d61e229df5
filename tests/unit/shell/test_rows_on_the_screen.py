"""Grids that fit, values that are cut, live rows that keep their place, windows that scroll."""

from __future__ import annotations

import random

import pytest

from runtime.core.errors import BindError, Span, render
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from sqlengine.shell.grid import (
    GridColumn,
    body_line,
    columns_of,
    cut,
    fit,
    frame_of,
    header_lines,
    measured,
    plain,
    total_width,
)
from sqlengine.shell.grid_view import GridView
from sqlengine.shell.live_rows import ChangeLog, LiveTable, Row, sort_rows
from sqlengine.shell.top import human_time, lag_text, pressure

ASCII = frame_of("ascii")


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("", 1, ""),
    ],
)
def test_cut_counts_columns_of_the_screen(text: str, width: int, shown: str) -> None:
    assert cut(text, width) == shown


def test_wide_characters_line_up_and_control_characters_are_escaped() -> None:
    columns = measured(
        [GridColumn("n", right=True), GridColumn("text")], [("1", "日本"), ("22", "a\nb"), (None, None)], 60
    )
    lines = [
        *header_lines(columns, ASCII),
        *(body_line(columns, r, ASCII) for r in [("1", "日本"), ("22", "a\nb"), (None, None)]),
    ]
    assert list(plain(lines)) == [
        "+------+------+",
        "|    n | text |",
        "+------+------+",
        "|    1 | 日本 |",
        "|   22 | a\\nb |",
        "| NULL | NULL |",
    ]


def test_fit_narrows_the_widest_texts_and_never_numbers() -> None:
    columns = [GridColumn("n", True, False, 10), GridColumn("a", width=50), GridColumn("b", width=20)]
    found = fit(columns, 60)
    assert found is not None and total_width(found) == 60
    assert [c.width for c in found] == [10, 20, 20]
    assert fit(columns, 30) is None
    assert fit(columns, 200) == columns


def test_box_lines_only_where_they_can_be_encoded() -> None:
    assert (frame_of("utf-8").bar, frame_of("latin-1").bar, frame_of(None).bar) == ("│", "|", "|")


def test_an_updated_row_keeps_its_place() -> None:
    table = LiveTable(100)
    table.apply(["+I", "+I", "+I"], [("a", "1"), ("b", "1"), ("c", "1")])
    table.apply(["-U", "+U", "-D"], [("a", "1"), ("a", "2"), ("c", "1")])
    assert table.rows() == [("a", "2"), ("b", "1")]
    assert table.rows_and_fresh() == ([("a", "2"), ("b", "1")], {0})
    table.apply(["-U"], [("b", "1")])  # its +U was cut off by a filter
    assert table.rows() == [("a", "2")]


def test_a_live_table_equals_the_folded_changes() -> None:
    random.seed(7)
    table, there = LiveTable(10_000), list[Row]()
    for _ in range(200):
        kinds: list[str] = []
        rows: list[Row] = []
        for _ in range(random.randrange(5)):
            row = (str(random.randrange(4)), str(random.randrange(3)))
            if there and random.random() < 0.5:
                old = random.choice(there)
                there.remove(old)
                if random.random() < 0.5:
                    kinds += ["-U", "+U"]
                    rows += [old, row]
                    there.append(row)
                else:
                    kinds.append("-D")
                    rows.append(old)
            else:
                kinds.append("+I")
                rows.append(row)
                there.append(row)
        table.apply(kinds, rows)
        assert sorted(table.rows()) == sorted(there)


def test_the_oldest_rows_are_forgotten() -> None:
    table = LiveTable(2)
    table.apply(["+I"] * 3, [("a",), ("b",), ("c",)])
    assert (table.rows(), table.forgotten) == ([("b",), ("c",)], 1)
    table.apply(["-D"], [("a",)])
    assert table.rows() == [("b",), ("c",)]
    log = ChangeLog(2)
    log.apply(["+I", "-U", "+U"], [("a",), ("a",), ("b",)])
    assert (log.rows_and_kinds(), log.changes, log.forgotten) == (([("a",), ("b",)], ["-U", "+U"]), 3, 1)


def test_sort_is_by_value_with_null_last() -> None:
    rows: list[Row] = [("10",), ("9",), (None,), ("-1",)]
    assert sort_rows(rows, 0, numeric=True, descending=False) == [3, 1, 0, 2]
    assert sort_rows(rows, 0, numeric=True, descending=True) == [0, 1, 3, 2]
    assert sort_rows(rows, 0, numeric=False, descending=False) == [3, 0, 1, 2]


def seen(view: GridView, width: int = 40, height: int = 8) -> list[str]:
    return [line.strip("|+ ") for line in plain(view.lines(width, height, ASCII)) if not line.startswith("+")][1:]


def test_a_view_scrolls_rows_and_columns() -> None:
    view = GridView([GridColumn(f"c{i}", right=True, flexible=False) for i in range(10)], 60)
    view.take([tuple(str(100 * r + c) for c in range(10)) for r in range(50)])
    assert len(seen(view)) == 4 and seen(view)[0].startswith("0 |")
    view.move("end")
    assert seen(view)[-1].startswith("4900 |")
    view.move("pageup")
    assert view.row == 46
    for _ in range(9):
        view.move("right")
    assert seen(view)[-1].endswith("4909") and all(len(line) <= 40 for line in seen(view))
    view.move("s")
    view.move("s")
    view.move("home")
    assert seen(view)[0].endswith("4909")
    assert view.ordered()[0][0] == "4900"
    view.take([("1",) * 10])
    assert len(seen(view)) == 1 and view.place() == "row 1 of 1, column 10 of 10"
    view.move("enter")
    assert [line[0][1].strip() for line in view.lines(40, 20, ASCII)] == [f"c{i}" for i in range(10)]


@pytest.mark.parametrize(("width", "height"), [(1, 1), (5, 3), (10, 4), (300, 100)])
def test_a_view_draws_in_any_size(width: int, height: int) -> None:
    view = GridView([GridColumn("a"), GridColumn("b")], 60)
    for rows in ([], [("x" * 500, None)], [("日" * 500, "y")] * 30):
        view.take(rows)
        view.move("right")
        assert len(view.lines(width, height, ASCII)) <= max(height, 1)


def test_top_speaks_of_time_and_pressure() -> None:
    texts = [human_time(m) for m in (5, 4200, 180_000, 7_200_000, 400 * 86_400_000)]
    assert texts == ["5 ms", "4.2 s", "3 min", "2 h", "400 d"]
    assert (lag_text(1000, 3000), lag_text(5000, 3000)) == ("2.0 s", "0 ms")
    assert [pressure(p) for p in (0.1, 0.6, 0.95)] == ["ok", "some", "high"]


def test_columns_of_a_schema() -> None:
    found = columns_of(Schema.of(("n", INT), ("s", STRING)))
    assert [(c.right, c.flexible) for c in found] == [(True, False), (False, True)]


def test_the_line_of_a_mistake_fits_the_terminal() -> None:
    statement = (
        "SELECT " + ", ".join(f"'value {n}' AS column_{n}" for n in range(9)) + ", nope, 'and more' AS rest FROM t"
    )
    start = statement.index("nope")
    error = BindError('unknown column "nope"', code="E1201", span=Span(start, start + 4), text=statement)
    for width in (60, 80, 120):
        shown, carets = render(error, width).split("\n")[2:4]
        assert len(shown) <= width
        assert shown[carets.index("^") : carets.rindex("^") + 1] == "nope"
