"""Where statements and commands begin and end in what is typed."""

from __future__ import annotations

import pytest

from sqlengine.shell.reader import Piece, is_complete, pieces


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("SELECT 1;", [("SELECT 1", False, 1)]),
        ("SELECT 1; SELECT\n2;", [("SELECT 1", False, 1), ("SELECT\n2", False, 1)]),
        ("SELECT 1;\n\n SELECT 2", [("SELECT 1", False, 1), ("SELECT 2", False, 3)]),
        ("SELECT ';' -- ;\n, 2;", [("SELECT ';' -- ;\n, 2", False, 1)]),
        ("-- first\n\\x on\nSELECT 1;", [("\\x on", True, 2), ("SELECT 1", False, 3)]),
        ("SELECT 1; \\x", [("SELECT 1", False, 1), ("\\x", True, 1)]),
        ("help", [("help", True, 1)]),
        ("QUIT;", [("QUIT", True, 1)]),
        ("SOURCE 'a b.sql';", [("SOURCE 'a b.sql'", True, 1)]),
        (
            "BEGIN STATEMENT SET;\nINSERT INTO a SELECT 1;\nEND;\nSELECT 2;",
            [("BEGIN STATEMENT SET;\nINSERT INTO a SELECT 1;\nEND", False, 1), ("SELECT 2", False, 4)],
        ),
        ("SELECT 'a\n;b';\nSELECT 2;", [("SELECT 'a\n;b'", False, 1), ("SELECT 2", False, 3)]),
        ("SELECT \"x\"; SELECT 2;", [('SELECT "x"; SELECT 2', False, 1)]),
        (";;", []),
    ],
)  # fmt: skip
def test_pieces(text: str, found: list[tuple[str, bool, int]]) -> None:
    assert [(p.text, p.is_command, p.line) for p in pieces(text)] == found


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; SELECT 2", False),
        ("SELECT ';", False),
        ("SELECT 1 /* ;", False),
        ("\\d", True),
        ("SELECT 1;\n\\d t", True),
        ("help select", True),
        ("quit", True),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;", False),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; END;", True),
        ('SELECT "a"', True),  # an error that no further line can mend is shown at once
    ],
)
def test_enter_runs_what_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) == complete


def test_errors_count_lines_from_the_start_of_the_source() -> None:
    assert Piece("SELECT nope", False, 3).placed == "\n\nSELECT nope"
