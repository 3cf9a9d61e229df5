"""The events that the Nexmark benchmark reads: made once per size with our own connector, kept in the system's
temporary folder."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from sqlengine import TableEnvironment

__all__ = ["COLUMNS", "RATE", "event_files", "in_two"]

COLUMNS = {
    "person": "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, "
    "`dateTime` TIMESTAMP(3), extra STRING",
    "auction": "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, `dateTime` TIMESTAMP(3), "
    "expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING",
}
"""The flat tables of the three kinds of event."""

RATE = 10_000
"""Events a second of event time."""
DISTINCT_RATE = 1_000
"""At up to a thousand a second no two events have the same time."""
ROWS_AT_ONCE = 1 << 17


def event_files(events: int, file_format: str, distinct_times: bool = False) -> Path:
    """The folder with `person`, `auction` and `bid` (a folder each) of the first so many events; made when it is not
    there.

    One person, three auctions and 46 bids in 50 events, rows of the specification's average sizes (200, 500 and 100
    bytes). Each table is two files, its first and its second half, because some programs read each file in one thread.
    """
    rate = DISTINCT_RATE if distinct_times else RATE
    folder = Path(tempfile.gettempdir()) / "sqlengine-nexmark" / f"{events}-{rate}-halves" / file_format
    if folder.is_dir():
        return folder
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    with TableEnvironment.create() as environment:
        for kind, columns in COLUMNS.items():
            environment.execute_script(f"""
                CREATE TABLE made_{kind} ({columns})
                WITH ('connector' = 'nexmark', 'nexmark.table' = '{kind}', 'events.num' = '{events}', 'first-event.rate' = '{rate}',
                  'next-event.rate' = '{rate}');
                CREATE TABLE {kind} ({columns})
                WITH ('connector' = 'filesystem', 'path' = '{unfinished / kind}', 'format' = '{file_format}',
                  'sink.rolling-policy.file-size' = '100GB');
                INSERT INTO {kind} SELECT * FROM made_{kind};
            """)
            (made,) = (unfinished / kind).iterdir()
            in_two(made, file_format)
    unfinished.rename(folder)
    return folder


def in_two(path: Path, file_format: str) -> None:
    """Puts the first and the second half of its rows into two files beside it, `part-0` and `part-1`, in its place."""
    halves = [path.with_name(f"part-{i}.{file_format}") for i in (0, 1)]
    if file_format == "parquet":
        _parquet_in_two(path, halves)
    else:
        _lines_in_two(path, halves)
    path.unlink()


def _parquet_in_two(path: Path, halves: list[Path]) -> None:
    with pq.ParquetFile(path) as whole:
        half = whole.metadata.num_rows // 2
        first, second = (pq.ParquetWriter(h, whole.schema_arrow, compression="snappy") for h in halves)
        with first, second:
            before = 0
            for batch in whole.iter_batches(ROWS_AT_ONCE):
                left = min(max(half - before, 0), batch.num_rows)
                before += batch.num_rows
                for writer, rows in ((first, batch.slice(0, left)), (second, batch.slice(left))):
                    if rows.num_rows:
                        writer.write_batch(rows)


def _lines_in_two(path: Path, halves: list[Path]) -> None:
    """Lines have no line breaks within values."""
    with path.open("rb") as whole:
        whole.seek(path.stat().st_size // 2)
        whole.readline()
        middle = whole.tell()
        with halves[1].open("wb") as second:
            shutil.copyfileobj(whole, second)
        shutil.copyfile(path, halves[0])
    with halves[0].open("r+b") as first:
        first.truncate(middle)
