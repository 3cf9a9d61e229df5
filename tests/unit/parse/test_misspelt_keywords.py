"""Keywords of all kinds of statements with a slip of the finger: the hint says the keyword that was meant, and no other."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.core.errors import SqlEngineError, SqlSyntaxError
from sqlengine import TableEnvironment
from sqlengine.parse import parse_script
from sqlengine.parse.lexer import END, WORD, Token, scan
from sqlengine.parse.words import KEYWORDS

GOLDEN = Path(__file__).parents[2] / "golden"
LONGEST = 400
ALIKE = {("MODULES", "MODLES"), ("UNLOAD", "ULOAD")}
"""What is as near to another keyword that may stand there."""


def _scripts() -> Iterator[str]:
    """The statements of the golden files that are right and short."""
    for path in sorted(GOLDEN.rglob("*.slt")):
        for block in re.split(r"\n\s*\n", path.read_text("utf-8")):
            lines = [line for line in block.split("\n") if not line.startswith("#")]
            text = "\n".join(lines[1:]).partition("\n----")[0].strip()
            if lines and lines[0].startswith(("statement", "query")) and 0 < len(text) < LONGEST:
                try:
                    parse_script(text)
                except SqlEngineError:
                    continue
                yield text


def _slips(word: str, rng: random.Random) -> Iterator[str]:
    """A letter is missing, doubled, exchanged with the next."""
    i = rng.randrange(1, len(word))
    yield word[:i] + word[i + 1 :]
    yield word[:i] + word[i] + word[i:]
    exchanged = [j for j in range(len(word) - 1) if word[j] != word[j + 1]]
    if exchanged:
        j = rng.choice(exchanged)
        yield word[:j] + word[j + 1] + word[j] + word[j + 2 :]


def _is_name(tokens: list[Token], at: int) -> bool:
    """Whether a keyword stands for a name: `system.jobs`."""
    return any(0 <= i < len(tokens) and tokens[i].text == "." for i in (at - 1, at + 1))


def test_every_keyword_of_every_statement() -> None:
    rng = random.Random(1)
    seen: set[tuple[str, str, str]] = set()
    tried, wrong = 0, list[str]()
    for text in _scripts():
        tokens = [token for token in scan(text) if token.kind is not END]
        for at, token in enumerate(tokens):
            before = tokens[at - 1].upper if at else ""
            place = (token.upper, before if before in KEYWORDS else "", tokens[0].upper)
            if token.kind is not WORD or token.upper not in KEYWORDS or len(token.text) < 3 or place in seen:
                continue
            seen.add(place)
            for slip in _slips(token.text, rng):
                if slip.upper() in KEYWORDS or token.upper == "ILIKE" or _is_name(tokens, at):
                    continue
                if (token.upper, slip.upper()) in ALIKE:
                    continue
                written = text[: token.start] + slip + text[token.end :]
                try:
                    parse_script(written)
                except SqlSyntaxError as error:
                    tried += 1
                    # A slip of CROSS may be read as the name of what is before it; then the hint tells how to write it.
                    if not re.search(f'"{token.upper}"|write {token.upper} ', error.hint or ""):
                        wrong.append(f"{written}\n  {error}")
                except SqlEngineError:
                    continue
    assert tried > 1500
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize(
    ("sql", "meant"),
    [
        ("SELECT TRE AND FALSE", "TRUE"),
        ("SELECT a FROM t WHERE a = NUL", "NULL"),
        ("SELECT CURENT_DATE", "CURRENT_DATE"),
        ("SELECT a FROM t GROUP BY ROLLP (a)", "ROLLUP"),
        ("SELECT a FROM t GROUP BY CBE (a)", "CUBE"),
        ("SELECT ARAY[1]", "ARRAY"),
        ("SELECT * FROM t CROSS JOIN UNEST(xs) AS u (x)", "UNNEST"),
        ("SELECT * FROM t, LATERAL TABEL(f(a))", "TABLE"),
        ("SELECT * FROM TABE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' MINUTE))", "TABLE"),
        ("SELECT * FROM TABLE(TUBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' MINUTE))", "TUMBLE"),
        ("EXPLAIN CHANGLOG_MODE SELECT 1", "CHANGELOG_MODE"),
        ("SELECT a FROM t ORDER BY a DSC", "DESC"),
        ("SHOW MODUELS", "MODULES"),
        ("RESET 'sqlengine.epoch.max-row'", "sqlengine.epoch.max-rows"),
    ],
)
def test_words_that_are_read_as_names(sql: str, meant: str) -> None:
    with TableEnvironment.create() as t_env:
        t_env.execute_sql("CREATE TABLE t (a INT, xs ARRAY<INT>, at TIMESTAMP(3), WATERMARK FOR at AS at)")
        with pytest.raises(SqlEngineError) as caught:
            t_env.execute_sql(sql)
        hint = caught.value.hint or ""
        assert hint.startswith("did you mean") and f'"{meant}"' in hint


def test_use_takes_the_name_alone() -> None:
    with TableEnvironment.create() as t_env:
        for sql in ("USE DATABASE sales", "USE DATABSE sales"):
            with pytest.raises(SqlSyntaxError) as caught:
                t_env.execute_sql(sql)
            assert caught.value.hint == "write USE sales"
