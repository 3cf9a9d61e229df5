"""What is coloured while a statement is typed."""

from __future__ import annotations

import pytest

from sqlengine.shell.highlight import fragments_of


@pytest.mark.parametrize(
    ("text", "strings"),
    [
        ("SELECT 'it''s', x", ["'it''s'"]),
        ("SELECT $$a 'b'$$ FROM t", ["$$a 'b'$$"]),
        ("SELECT $tag$a $$ b$tag$, $1", ["$tag$a $$ b$tag$"]),
        ("SELECT $$is being typed -- no comment", ["$$is being typed -- no comment"]),
    ],
)
def test_strings(text: str, strings: list[str]) -> None:
    found = fragments_of(text)
    assert "".join(part for _, part, *_ in found) == text
    assert [part for style, part, *_ in found if style == "class:sql.string"] == strings
