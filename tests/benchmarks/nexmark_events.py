"""The events that the Nexmark benchmark reads: made once per size with our own connector, kept in the system's
temporary folder."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from sqlengine import TableEnvironment

__all__ = ["COLUMNS", "FORMATS", "event_files"]

COLUMNS = {
    "person": "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, "
    "`dateTime` TIMESTAMP(3), extra STRING",
    "auction": "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, `dateTime` TIMESTAMP(3), "
    "expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING",
}
"""The flat tables of the three kinds of event."""

FORMATS = ("parquet", "csv")


def event_files(events: int, file_format: str, rate: int = 10_000) -> Path:
    """The folder with `person`, `auction` and `bid` (a folder each) of the first so many events; made when it is not
    there.

    One person, three auctions and 46 bids in 50 events, rows of the specification's average sizes (200, 500 and 100
    bytes). `rate` is in events a second of event time; up to a thousand no two events have the same time.
    """
    folder = Path(tempfile.gettempdir()) / "sqlengine-nexmark" / f"{events}-{rate}" / file_format
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
    unfinished.rename(folder)
    return folder
