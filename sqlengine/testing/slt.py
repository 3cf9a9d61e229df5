"""`.slt` files: SQL with what it must give, after sqllogictest, with what streams need.

A file is a list of records with blank lines between them; `#` begins a comment line. The records:

    statement ok                      the statement (or several, with semicolons) succeeds
    CREATE TABLE ...

    statement error E1201             it fails; what stands below the rule is contained in the message
    SELECT nope FROM t
    ----
    unknown column "nope"

    query [nosort]                    the final rows, cells with ` | ` between them; compared as a bag unless `nosort`
    SELECT k, v FROM t
    ----
    1 | a

    changelog                         the changes that a query over bounded sources gives, in order
    SELECT ...
    ----
    +I 1 | a

    plan                              the physical plan of a query or INSERT, with the changelog mode of each node
    SELECT ...
    ----
    Calc [k]  [I]

    changes v                         the changes of a view or table in memory since the last `changes` of it
    ----
    -U 1 | a
    +U 1 | b

    clock 2024-01-01 00:00:10         move processing time
    flush                             wait until the views have taken all input
    set key value                     an option, for the rest of the file
    cuts fixed                        this file is about where epochs are cut: the matrix leaves it as written

Changes are compared exactly where a file runs as written. Where the matrix cuts epochs elsewhere, the folded contents are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from runtime.core.errors import FormatError

__all__ = ["Record", "SltFile", "parse_slt", "read_slt"]

RULE = "----"
_WITH_BODY = ("statement", "query", "changelog", "plan")
_ALONE = ("changes", "clock", "flush", "set", "cuts")


@dataclass
class Record:
    """One record. `kind` is its first word, `words` the rest of that line, `sql` the lines below, `expected` those below the rule (None: no rule)."""

    kind: str
    words: tuple[str, ...]
    line: int
    sql: str = ""
    expected: list[str] | None = None
    end: int = 0
    """The line after the record, 1-based: where `--rewrite` puts what follows."""


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
    """Raises FormatError E3301 with the line of what is not a record."""
    try:
        return parse_slt(path.read_text(encoding="utf-8"), path)
    except OSError as error:
        raise FormatError(
            f"cannot read {path}: {error.strerror}", code="E3300", hint="check the path of the test file"
        ) from error


def parse_slt(text: str, path: Path) -> SltFile:
    lines = text.splitlines()
    found = SltFile(path, lines)
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        if not line or line.startswith("#"):
            at += 1
            continue
        kind, *words = line.split()
        if kind not in (*_WITH_BODY, *_ALONE):
            raise FormatError(
                f"{path}:{at + 1}: '{kind}' begins no record",
                code="E3301",
                hint="records are: " + ", ".join((*_WITH_BODY, *_ALONE)) + "; a blank line inside SQL ends a record",
            )
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
        found.records.append(record)
    return found
