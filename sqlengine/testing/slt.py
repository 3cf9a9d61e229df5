"""`.slt` files: SQL with what it must give, after sqllogictest, with what streams need.

A file is a list of records with blank lines between them; `#` begins a comment line. docs/testing.md describes the
records for users; in short:

    statement ok                      the statement (or several, with semicolons) succeeds
    statement error E1201             it fails; what stands below the rule is contained in the message
    query [nosort]                    the final rows, cells with ` | ` between them; compared as a bag unless `nosort`
    query text                        the only cell of a result, as the lines of its text
    changelog                         the changes that a query over bounded sources gives, in order
    plan                              the physical plan of a query or INSERT, with the changelog mode of each node
    changes v                         the changes of a view or table in memory since the last `changes` of it
    file name                         the lines below become a file in the folder `${dir}`, which is empty when a run
    begins files path                        the lines of all files at a path in `${dir}`, sorted
    clock 2024-01-01 00:00:10         move processing time flush                             wait until the views have
    taken all input set key value                     an option, for the rest of the file
    cuts fixed                        this file is about where epochs are cut: the matrix leaves it as written

Changes are compared exactly where a file runs as written. Where the matrix cuts epochs elsewhere, the folded contents
are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from runtime.core.errors import FormatError

__all__ = ["Record", "SltFile", "parse_slt", "read_slt"]

RULE = "----"
_WITH_BODY = ("statement", "query", "changelog", "plan", "file")
_ALONE = ("changes", "files", "clock", "flush", "set", "cuts")
_WITH_RULE = ("query", "changelog", "plan", "changes", "files")


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
        return self.sql or " ".join((self.kind, *self.words))

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
    problem, hint = None, None
    if record.kind not in (*_WITH_BODY, *_ALONE):
        problem = f"'{record.kind}' begins no record"
        hint = "records are: " + ", ".join((*_WITH_BODY, *_ALONE)) + "; a blank line inside SQL ends a record"
    elif record.kind == "statement" and record.words[:1] not in (("ok",), ("error",)):
        problem, hint = "a statement is 'ok' or an 'error'", "write 'statement ok' or 'statement error E1201'"
    elif record.kind in _WITH_BODY and record.kind != "file" and not record.sql:
        problem, hint = f"'{record.kind}' has no SQL below it", "a blank line ends a record"
    elif record.kind in _WITH_RULE and record.expected is None:
        problem, hint = (
            f"'{record.kind}' has no rule",
            f"write '{RULE}' and below it what must come out (nothing for no rows)",
        )
    elif record.kind in ("changes", "file", "files", "clock", "set") and not record.words:
        problem, hint = f"'{record.kind}' lacks a word", "docs/testing.md tells the form of each record"
    if problem is not None:
        raise FormatError(f"{path}:{record.line}: {problem}", code="E3301", hint=hint)
