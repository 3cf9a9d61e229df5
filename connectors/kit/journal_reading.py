"""Reads what is kept in a journal: the source of connectors that keep what comes before they acknowledge it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from connectors.formats.message_table import MessageTable, RowsOfMessages
from connectors.kit.journal import Journal, Message, Position
from connectors.kit.prefetch import Fetched
from connectors.options import TableOptions, memory_limit
from runtime.core.errors import ConnectorError, OptionError
from runtime.core.options import duration_option, text_option

__all__ = ["ENDS", "KEEP", "SPOOL", "SPOOL_SIZE", "STARTS", "JournalTable", "Kept", "journal_rows", "spool_of"]

SPOOL = text_option("spool.path", "", "the folder, of this table alone, where what came is kept")
KEEP = duration_option(
    "spool.keep-time", 7 * 86_400_000, "how long what came is kept, and the keys of repeats are known"
)
SPOOL_SIZE = text_option("spool.max-size", "10 gb", "more is not taken: senders are told to come later")
STARTS = text_option("scan.startup.mode", "earliest", "where reading begins, of what is kept", ("earliest", "latest"))
ENDS = text_option(
    "scan.bounded.mode",
    "unbounded",
    "'latest': reading ends with what is there when it begins, and nothing is listened to",
    ("unbounded", "latest"),
)
_WAIT_SECONDS = 0.1


class JournalTable(MessageTable, Protocol):
    """A table of what is kept. `starts`: "earliest" or "latest"."""

    @property
    def folder(self) -> str: ...

    @property
    def starts(self) -> str: ...

    @property
    def bounded(self) -> bool: ...


class Kept(Protocol):
    """What one message of a journal holds."""

    @property
    def number(self) -> int: ...

    @property
    def body(self) -> bytes: ...


K = TypeVar("K", bound=Kept)


def spool_of(options: TableOptions) -> tuple[str, float, int]:
    """The folder, for how many seconds a message is kept, and the most bytes. Raises OptionError."""
    folder, keep = options.required(SPOOL), options.get(KEEP)
    if "://" in folder:
        raise OptionError("option 'spool.path' is a folder of this machine", hint="such as '/var/lib/shop/orders'")
    if keep <= 0:
        raise OptionError("option 'spool.keep-time' is more than 0", hint="such as '7 d'")
    return folder, keep / 1000, memory_limit(options, SPOOL_SIZE)


def journal_rows(
    table: JournalTable,
    journal: Journal,
    position: Any,
    stop: threading.Event,
    kept: Callable[[list[Message]], list[K]],
    metadata: Callable[[Sequence[K], str], pa.Array],
    check: Callable[[], None] = lambda: None,
) -> Iterator[Fetched]:
    """See `Fetching`. A position is the folder's id, where reading is, and the number before which it ends, or null.

    Args:
        kept: what is in messages, those that hold no row left out.
        check: called again and again; raises what stands against reading.
    """
    if position is None:
        at = journal.end if table.starts == "latest" else journal.begin
        end = journal.end.number if table.bounded else None
        # Where reading begins, and ends, is settled before anything is read.
        yield Fetched(None, [journal.id, at.saved(), end])
    else:
        known, saved, end = position
        at = Position(*map(int, saved))
        if known != journal.id:
            raise ConnectorError(
                f"{table.place()}: {table.folder} was made anew since the checkpoint",
                code="E3252",
                hint="bring the folder back, or begin anew",
            )
    decode = RowsOfMessages(table)
    while not stop.is_set() and (end is None or at.number < end):
        check()
        messages, at = journal.read(at)
        if end is not None:
            messages = [m for m in messages if m.number < end]
        if not messages:
            yield Fetched(None, [journal.id, at.saved(), end])
            journal.wait(at, _WAIT_SECONDS)
            continue
        found = kept(messages)
        rows, rejected = decode(
            pa.array([m.body for m in found], pa.large_binary()),
            lambda key, found=found: metadata(found, key),
            lambda number, found=found: found[number].number,
        )
        yield Fetched(rows, [journal.id, at.saved(), end], rejected)
