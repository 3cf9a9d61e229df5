"""The two sets of queries that are measured: Nexmark, as the examples have it, over events in files, and the views of
TPC-H over its tables in files. What a statement is, for any program that speaks Flink's SQL, and for DuckDB."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks import nexmark_events, tpch_tables
from tests.oracle.duckdb_oracle import duckdb_text, view_query

__all__ = ["FILES", "GENERATED", "NEXMARK", "ROOT", "SUITES", "TPCH", "Suite", "Texts", "nexmark_texts"]

ROOT = Path(__file__).parents[2]
FILES = ("parquet", "csv")
GENERATED = "generator"
"""In place of a format of files: rows from our own connector `nexmark`, as fast as they are taken."""

_NEXMARK = ROOT / "sql_examples" / "nexmark"
_TPCH = ROOT / "sql_examples" / "tpch"
_NEXMARK_DUCKDB = ROOT / "tests" / "oracle" / "nexmark_duckdb"


@dataclass(frozen=True)
class Texts:
    """One query. `declarations` is a script that takes no time: the result table and what it needs; `measured` is the
    INSERT (or CREATE TABLE AS), `answer` the name of the result table, `batch` DuckDB's text."""

    declarations: str
    measured: str
    answer: str
    batch: str


@dataclass(frozen=True)
class Suite:
    """Args:

    queries: their names, in order.
    tables: columns of the tables that are read, as in CREATE TABLE.
    watermark: what stands behind the columns.
    formats: what the rows may come from.
    files: makes them when they are not there; a folder for each table in the folder that it gives. Args: rows (or
        events) in all, format, whether no two rows have the same time.
    texts: of a query. Args: its name, and what stands behind the result table: `WITH (...)`, or nothing.
    """

    name: str
    queries: tuple[str, ...]
    tables: Mapping[str, str]
    watermark: str
    formats: tuple[str, ...]
    files: Callable[[int, str, bool], Path]
    texts: Callable[[str, str], Texts]

    def tables_over(self, folder: str, file_format: str, options: str = "") -> list[str]:
        """CREATE TABLE for each table over its files. Args: `options` stand behind the others, a comma first."""
        return [
            f"CREATE TEMPORARY TABLE {name} ({columns}{self.watermark}) "
            f"WITH ('connector' = 'filesystem', 'path' = '{folder}/{name}', 'format' = '{file_format}'{options})"
            for name, columns in self.tables.items()
        ]

    def generated_tables(self, rows: int) -> list[str]:
        """CREATE TABLE for each table over the connector that makes the same rows."""
        rate = nexmark_events.RATE
        return [
            f"CREATE TEMPORARY TABLE {name} ({columns}{self.watermark}) WITH ('connector' = 'nexmark', 'nexmark.table' = '{name}', "
            f"'events.num' = '{rows}', 'first-event.rate' = '{rate}', 'next-event.rate' = '{rate}')"
            for name, columns in self.tables.items()
        ]


def nexmark_texts(query: str, sink: str) -> Texts:
    """An example's statements over flat event tables that exist. `sink` is put behind the columns of its result table
    in place of what stands there."""
    text = re.sub(r"--[^\n]*", "", (_NEXMARK / f"{query}.sql").read_text())
    text = re.sub(r"CREATE TABLE nexmark \(.*?;\n", "", text, flags=re.DOTALL)
    text = re.sub(r"CREATE VIEW (person|auction|bid) AS\n[^;]*;\n", "", text)
    text = re.sub(rf"(CREATE TABLE nexmark_{query} \([^;]*?\))\s*((PARTITIONED|WITH)\b[^;]*)?;", rf"\1 {sink};", text)
    declarations, rest = text.split("\nINSERT INTO ")
    return Texts(
        declarations.strip(),
        "INSERT INTO " + rest.split(";")[0],
        f"nexmark_{query}",
        (_NEXMARK_DUCKDB / f"{query}.sql").read_text(),
    )


def _tpch_texts(query: str, sink: str) -> Texts:
    text = view_query((_TPCH / f"{query}.sql").read_text())
    one_row = query in tpch_tables.ONE_ROW
    batch = duckdb_text(text) + (" HAVING COUNT(*) > 0" if one_row else "")
    return Texts("", f"CREATE TABLE tpch_{query} {sink} AS\n{text}", f"tpch_{query}", batch)


NEXMARK = Suite(
    "nexmark",
    tuple(f"q{i}" for i in range(23)),
    nexmark_events.COLUMNS,
    ", WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND",
    (*FILES, GENERATED),
    nexmark_events.event_files,
    nexmark_texts,
)
TPCH = Suite(
    "tpch",
    tuple(f"q{i}" for i in range(1, 23)),
    tpch_tables.columns(),
    "",
    ("parquet",),
    tpch_tables.table_files,
    _tpch_texts,
)
SUITES = {suite.name: suite for suite in (NEXMARK, TPCH)}
