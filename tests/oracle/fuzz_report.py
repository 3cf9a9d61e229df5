"""A failing case as a `.slt` file that can be pasted into tests/golden/fuzz."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from tests.oracle.compare_case import concrete
from tests.oracle.compare_dml import Sides
from tests.oracle.compare_engines import Oracle, Row
from tests.oracle.generate_cases import Case
from tests.oracle.generate_dml import DmlCase
from tests.oracle.generate_tables import Change, Contents, Table
from tests.oracle.generate_text import Kind, Query
from tests.oracle.generate_values import literal

__all__ = ["as_slt", "dml_as_slt", "write_slt"]


def as_slt(case: Case, why: str) -> str:
    """The file: tables, views, then each epoch with DuckDB's answer after it."""
    lines = ["# " + line for line in why.strip().splitlines()]
    lines += [f"# {t.name} sends {t.sends}" for t in case.tables if t.key and t.sends != "full images"]
    lines += [f"# DuckDB: {case.sql.duck}", "", "statement ok"]
    lines += [t.ddl() + ";" for t in case.tables]
    lines += [f"CREATE {d.how} {d.name} AS {d.query.sql.ours};" for d in case.definitions]
    lines += [f"CREATE MATERIALIZED VIEW fuzzed AS {case.sql.ours};", ""]
    contents = Contents(case.tables)
    oracle = Oracle(case.tables, case.definitions)
    try:
        for ops, changes in zip(case.epochs, concrete(case), strict=True):
            before = [Counter(rows) for rows in contents.rows]
            for op in ops:
                contents.take(op)
            statements = _statements(case, [c for op in changes for c in op], before)
            if statements:
                lines += ["statement ok", "BEGIN EPOCH;", *statements, "END EPOCH;", ""]
            oracle.load(contents)
            lines += ["query", "SELECT * FROM fuzzed", "----", *_cells(oracle.rows(case.sql.duck), case.query), ""]
            for view in (d for d in case.definitions if d.how == "MATERIALIZED VIEW"):
                read = f"SELECT * FROM {view.name}"
                lines += ["query", read, "----", *_cells(oracle.rows(read), view.query), ""]
    finally:
        oracle.close()
    return "\n".join(lines)


def dml_as_slt(case: DmlCase, why: str) -> str:
    """The case as a `.slt` file: the statements, then DuckDB's answers."""
    lines = ["# " + line for line in why.strip().splitlines()] + ["", "statement ok"]
    lines += [t.ddl() + ";" for t in case.tables]
    lines += [f"CREATE {d.how} {d.name} AS {d.query.sql.ours};" for d in case.definitions]
    sides = Sides(case)
    try:
        for step in case.steps:
            lines += ["", "statement ok"] + ["BEGIN EPOCH;"] * bool(step.end)
            sides.oracle.execute("BEGIN TRANSACTION")
            for part in step.parts:
                if isinstance(part, Query):
                    answer = _cells(sides.oracle.rows(part.sql.duck), part)
                    lines += ["", "query", part.sql.ours, "----", *answer, "", "statement ok"]
                else:
                    sides.oracle.execute(part.duck)
                    lines += [f"# DuckDB: {part.duck}", part.ours + ";"]
            sides.oracle.execute("ROLLBACK" if step.end == "ROLLBACK EPOCH" else "COMMIT")
            lines += [f"{step.end};"] * bool(step.end) + [""]
            for name, columns in sides.kept():
                read = f"SELECT * FROM {name}"
                answer = _cells(sides.oracle.rows(read), Query(case.sql, columns))
                lines += ["query", read, "----", *answer, ""]
    finally:
        sides.close()
    return "\n".join(lines)


def write_slt(case: Case | DmlCase, why: str) -> Path:
    """The file, written to a fresh folder; gives its path."""
    path = Path(tempfile.mkdtemp(prefix="fuzz-")) / "case.slt"
    path.write_text(dml_as_slt(case, why) if isinstance(case, DmlCase) else as_slt(case, why), encoding="utf-8")
    return path


def _statements(case: Case, changes: list[Change], live: list[Counter[Row]]) -> list[str]:
    """SQL for the changes. DELETE takes all equal rows of a bag, so the others are put back."""
    lines = []
    for change in changes:
        table, rows = case.tables[change.table], live[change.table]
        if change.old is not None:
            rows[change.old] -= 1
            if not table.key or change.new is None:
                lines.append(f"DELETE FROM {table.name} WHERE {_is(table, change.old)};")
                if not table.key and rows[change.old] > 0:
                    lines.append(_insert(table, [change.old] * rows[change.old]))
        if change.new is not None:
            rows[change.new] += 1
            lines.append(_insert(table, [change.new]))
    return lines


def _is(table: Table, row: Row) -> str:
    columns = table.columns[: table.key] if table.key else table.columns
    return " AND ".join(
        f"{c.name} IS NOT DISTINCT FROM {literal(v, c.kind).ours}" for c, v in zip(columns, row, strict=False)
    )


def _insert(table: Table, rows: list[Row]) -> str:
    values = (
        f"({', '.join(literal(v, c.kind).ours for c, v in zip(table.columns, row, strict=True))})" for row in rows
    )
    return f"INSERT INTO {table.name} VALUES {', '.join(values)};"


def _cells(rows: list[Row], query: Query) -> list[str]:
    """Lines as the test file wants them; the exact form of decimals is the engine's, so `--rewrite` has the last
    word."""
    kinds = [c.kind for c in query.columns]
    return sorted(" | ".join(_cell(v, k) for v, k in zip(row, kinds, strict=True)) for row in rows)


def _cell(value: object, kind: Kind) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if kind is Kind.TIMESTAMP:
        return value.isoformat(sep=" ", timespec="milliseconds")  # type: ignore[attr-defined]
    return str(value) or "(empty)"
