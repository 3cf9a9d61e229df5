"""docs/sql/README.md: every statement that the grammar knows has a page, and every page is in the index."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlengine.parse.statements import MADE, STARTERS
from sqlengine.parse.utility import UTILITY_WORDS, grammar_rules
from tests.docs.pages import ROOT

INDEX = ROOT / "docs" / "sql" / "README.md"
TABLE_WORDS = {"TABLE", "VIEW", "MATERIALIZED VIEW", "MATERIALIZED TABLE"}
PASSED_OVER = {"TEMPORARY", "SYSTEM", "IF", "NOT", "EXISTS", "EXTENDED", "LIKE", "ILIKE", "WORK"}
"""Words that make no other statement."""
SAME = {
    "DESC": "DESCRIBE",
    "SCHEMA": "DATABASE",
    "RESTORE": "RESTORE FROM",
    "CREATE SAVEPOINT FOR JOB": "CREATE SAVEPOINT",
}
FIRST_WORDS = {
    "SELECT",
    "WITH",
    "VALUES",
    "UPDATE",
    "DELETE",
    "EXPLAIN",
    "CALL",
    "PREPARE",
    "DEALLOCATE",
    "GRANT",
    "REVOKE",
}
"""Statements that the parser reads by hand and that their first word names."""
BY_HAND = {
    "INSERT": {"INSERT INTO", "INSERT OVERWRITE"},
    "REPLACE": {"REPLACE TABLE"},
    "COMPILE": {"COMPILE PLAN", "COMPILE AND EXECUTE PLAN"},
}


def _heads(rule: str, rules: dict[str, list[list[str]]]) -> set[tuple[tuple[str, ...], bool]]:
    """The keywords that a rule may begin with, up to the first name or value, and whether that is all of it."""
    found: set[tuple[tuple[str, ...], bool]] = set()
    for parts in rules[rule]:
        open_: set[tuple[str, ...]] = {()}
        for part in parts:
            if not open_:
                break
            if part in rules:
                inner = _heads(part, rules)
                found |= {(head + words, False) for head in open_ for words, whole in inner if not whole}
                open_ = {head + words for head in open_ for words, whole in inner if whole}
            elif part.isupper() and part not in ("NAME", "STRING", "NUMBER", "LPAR", "COMMA", "EQUAL", "DOT", "RPAR"):
                open_ = {(*head, part) for head in open_}
            else:
                found |= {(head, False) for head in open_}
                open_ = set()
        found |= {(head, True) for head in open_}
    return found


def _statements() -> Iterator[str]:
    for words, _ in _heads("start", grammar_rules()):
        kept = [SAME.get(word, word) for word in words if word not in PASSED_OVER]
        if kept[-1] in ("IN", "FROM", "COMMENT", "WITH"):
            kept = kept[:-1]
        text = " ".join(kept)
        yield SAME.get(text, text)
    for word in MADE:
        yield f"CREATE {word}"
    for word in TABLE_WORDS:
        yield f"ALTER {word}"
        yield f"DROP {word}"
    for word in set(STARTERS) - UTILITY_WORDS:
        assert word in FIRST_WORDS or word in BY_HAND, f"{word} begins a statement: which?"
        yield from BY_HAND.get(word, {word})
    yield from ("EXECUTE", "EXECUTE STATEMENT SET", "BEGIN STATEMENT SET", "EXECUTE INSERT", "EXECUTE SELECT")


def _entries() -> set[str]:
    rows = [line for line in INDEX.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return {entry for row in rows for entry in re.findall(r"`([^`]+)`", row.split(" | ")[0])}


def test_every_statement_of_the_grammar_is_in_the_index() -> None:
    missing = set(_statements()) - _entries() - {"BEGIN TRANSACTION", "COMMIT TRANSACTION", "ROLLBACK TRANSACTION"}
    assert not missing, f"write pages in docs/sql for these, and name them in its README.md: {sorted(missing)}"


def test_every_page_is_in_an_index() -> None:
    text = INDEX.read_text(encoding="utf-8") + (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [page for page in INDEX.parent.glob("*.md") if page != INDEX]
    missing = [page.name for page in pages if f"({page.name}" not in text and f"(sql/{page.name}" not in text]
    assert not missing


def test_every_page_has_an_example_that_runs() -> None:
    silent = [
        page.name
        for page in INDEX.parent.glob("*.md")
        if page != INDEX
        and not re.search(r"^```(sql|python|console|slt .*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert not silent
