"""`.slt` files: SQL with what it must give, after sqllogictest, with what streams need.

A file is a list of records with blank lines between them; `#` begins a comment line. docs/testing.md describes the
records for users; in short:

    statement ok                      the statement (or several, with semicolons) succeeds
    statement error E1201             it fails; what stands below the rule is contained in the message
    include job.sql                   a file of SQL beside this one, its connectors replaced by tables in memory
    connectors replaced               the same for the tables that the statements from here on create (`real`: not)
    job                               the INSERTs below go on: they write whatever comes in later
    input t [(a, b)]                  the lines below, `-D 1 | x`, are changes of a table, as one epoch
    epoch                             the lines below, `t -D 1 | x`, are changes of several tables, as one epoch
    advance clock by 10 s             processing time moves (`to 2024-01-01 00:00:10`; `clock TIME` is the same)
    advance watermark [of t] to ..    event time moves without a row (`by 5 min`)
    idle t, active t                  nobody waits for the watermark of a table, until it gives rows
    restart                           operators are made anew from their saved state
    query [nosort]                    the final rows, cells with ` | ` between them; compared as a bag unless `nosort`
    query text                        the only cell of a result, as the lines of its text
    table t [nosort]                  the rows of a table or view
    changelog                         the changes that a query over bounded sources gives, in order
    changes v                         the changes of a view or table in memory since the last `changes` of it
    late                              the rows that came too late, since the last `late`: job and row
    rejected                          all rows that could not be used, with the reason
    plan                              the physical plan of a query or INSERT, with the changelog mode of each node
    file name                         the lines below become a file in the folder `${dir}`, empty when a run begins
    files path                        the lines of all files at a path in `${dir}`, sorted
    flush                             wait until the views have taken all input
    set key value                     an option, for the rest of the file
    cuts fixed                        this file is about where epochs are cut: the matrix leaves it as written

The first word may be in capitals. Changes are compared exactly where a file runs as written. Where the matrix cuts
epochs elsewhere, the folded contents are compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from runtime.core.errors import FormatError, did_you_mean

__all__ = ["RECORDS", "Record", "SltFile", "parse_slt", "read_slt"]

RULE = "----"
_SQL_BELOW = ("statement", "query", "changelog", "plan", "job")
_BELOW = (*_SQL_BELOW, "file", "input", "epoch")
_ALONE = (
    "table", "changes", "late", "rejected", "files", "include", "connectors", "advance", "clock", "idle", "active",
    "restart", "flush", "set", "cuts",
)  # fmt: skip
RECORDS = (*_BELOW, *_ALONE)
"""The first words of all records."""
_SMALL_WORDS = ("ok", "error", "clock", "watermark", "of", "to", "by", "replaced", "real", "nosort", "text", "fixed")
_WITH_RULE = ("query", "table", "changelog", "plan", "changes", "late", "rejected", "files")
_WITH_WORD = (
    "table", "changes", "file", "files", "include", "connectors", "input", "advance", "clock", "idle", "active", "set",
)  # fmt: skip


@dataclass
class Record:
    """One record.

    `kind` is its first word, `words` are the rest of that line, `sql` the lines below, `expected` those below the rule
    (None: no rule). `line` is where it begins, `end` its last line, both counted from 1.
    """

    kind: str
    words: tuple[str, ...]
    line: int
    sql: str = ""
    expected: list[str] | None = None
    end: int = 0

    @property
    def shown(self) -> str:
        """What a reader is told of the record: its SQL, or its own line."""
        own = self.kind not in ("input", "epoch", "job") and self.sql
        return own or " ".join((self.kind, *self.words))

    @property
    def must_fail(self) -> bool:
        return self.kind == "statement" and self.words[:1] == ("error",)


@dataclass
class SltFile:
    """A parsed file: its records and its own lines."""

    path: Path
    lines: list[str]
    records: list[Record] = field(default_factory=list)

    @property
    def fixed_cuts(self) -> bool:
        return any(r.kind == "cuts" for r in self.records)


def read_slt(path: Path) -> SltFile:
    """Raises FormatError E3300 for a file that cannot be read, E3301 with the line of what is not a record."""
    try:
        return parse_slt(path.read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise FormatError(
            f"cannot read {path}: {reason}", code="E3300", hint="check the path of the test file"
        ) from error


def parse_slt(text: str, path: Path) -> SltFile:
    """The records of a text; `path` is for messages."""
    lines = text.splitlines()
    found = SltFile(path, lines)
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            at += 1
            continue
        record, at = _record(lines, at, path)
        found.records.append(record)
    return found


def _record(lines: list[str], at: int, path: Path) -> tuple[Record, int]:
    """The record that begins at a line (0-based), and the line after it."""
    kind, *words = lines[at].split()
    if kind.isupper():
        kind, words = kind.lower(), [w.lower() if w.isupper() and w.lower() in _SMALL_WORDS else w for w in words]
    record = Record(kind, tuple(words), at + 1)
    at += 1
    body: list[str] = []
    while at < len(lines) and lines[at].strip() and lines[at].strip() != RULE:
        body.append(lines[at])
        at += 1
    record.sql = "\n".join(body)
    if at < len(lines) and lines[at].strip() == RULE:
        at += 1
        record.expected = []
        while at < len(lines) and lines[at].strip():
            record.expected.append(lines[at].rstrip())
            at += 1
    record.end = at
    _check(record, path)
    return record, at


def _check(record: Record, path: Path) -> None:
    """Raise FormatError E3301 for what is no record, or not a whole one."""
    problem = _problem(record)
    if problem is not None:
        raise FormatError(f"{path}:{record.line}: {problem[0]}", code="E3301", hint=problem[1])


def _problem(record: Record) -> tuple[str, str] | None:
    """What is wrong with a record, and what to write."""
    kind, words = record.kind, record.words
    if kind not in RECORDS:
        near = did_you_mean(kind.lower(), RECORDS)
        records = "records are: " + ", ".join(RECORDS)
        return f"'{kind}' begins no record", f"{near or records}; a blank line inside SQL ends a record"
    if kind == "statement" and words[:1] not in (("ok",), ("error",)):
        return "a statement is 'ok' or an 'error'", "write 'statement ok' or 'statement error E1201'"
    if kind in _SQL_BELOW and not record.sql:
        return f"'{kind}' has no SQL below it", "a blank line ends a record"
    if kind in ("input", "epoch") and not record.sql:
        return f"'{kind}' has no rows below it", "write them like '+I 1 | ann | 9.50'"
    if kind in _WITH_RULE and record.expected is None:
        return f"'{kind}' has no rule", f"write '{RULE}' and below it what must come out (nothing for no rows)"
    if kind in _WITH_WORD and not words:
        return f"'{kind}' lacks a word", "docs/testing.md tells the form of each record"
    if kind in _ALONE and record.sql:
        return f"'{kind}' has lines below it that mean nothing", "begin the next record after a blank line"
    order = words if kind == "query" else words[1:] if kind == "table" else ()
    if order not in ((), ("nosort",), ("rowsort",)) and (kind, order) != ("query", ("text",)):
        hint = "write nosort where the order counts, and nothing where it does not"
        return f"'{' '.join(order)}' is no way to compare rows", hint
    if kind == "connectors" and words not in (("replaced",), ("real",)):
        return "connectors are 'replaced' or 'real'", "write 'connectors replaced'"
    if kind == "advance" and not _ADVANCE.fullmatch(" ".join(words)):
        forms = "'advance clock by 10 s' or 'advance watermark of orders to 2024-01-01 00:05:00'"
        return "it is not said what advances, or how far", f"write it like {forms}"
    return None


_ADVANCE = re.compile(r"(clock|watermark( of \S+)?) (to|by) \S.*")
