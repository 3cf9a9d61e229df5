"""What a table whose changes are read says, as Flink CDC has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from connectors.databases.address import PASSWORD, USERNAME
from connectors.mongodb.address import ADDRESS_OPTIONS, URI, Address, read_address
from connectors.options import TableOptions
from runtime.core.errors import OptionError
from runtime.core.options import Option, bool_option, int_option, text_option

__all__ = ["CDC_OPTIONS", "CdcOptions", "read_options"]

HOSTS = text_option("hosts", "", "the hosts in place of 'uri', such as 'one:27017,two:27017'")
SCHEME = text_option("scheme", "mongodb", "of 'hosts': 'mongodb+srv' asks DNS for them", ("mongodb", "mongodb+srv"))
CONNECTION = text_option("connection.options", "", "parameters of 'hosts', such as 'replicaSet=rs0&tls=true'")
STARTUP = text_option(
    "scan.startup.mode",
    "initial",
    "'initial': the documents as they are, then all changes; 'latest-offset': the changes from now on; 'timestamp': those made at a "
    "time or later; 'snapshot': the documents as they are, and no more",
    ("initial", "latest-offset", "timestamp", "snapshot"),
)
SINCE = int_option("scan.startup.timestamp-millis", 0, "the time of 'timestamp', in milliseconds since 1970")
FULL = bool_option(
    "scan.full-changelog",
    False,
    "whether updates and deletes come with the old document; the collection must keep images of before and after changes",
)
PAGE = int_option("poll.max.batch.size", 1024, "so many documents or changes are read at once")
WAIT = int_option("poll.await.time.ms", 100, "how long the server waits for a change before it says that there is none")
_ACCEPTED: tuple[Option[Any], ...] = (
    int_option("batch.size", 1024, "accepted for compatibility: 'poll.max.batch.size' counts"),
    int_option("heartbeat.interval.ms", 0, "accepted for compatibility: positions move without changes, too"),
    bool_option("scan.incremental.snapshot.enabled", False, "accepted for compatibility"),
    int_option("scan.incremental.snapshot.chunk.size.mb", 64, "accepted for compatibility"),
    int_option("scan.incremental.snapshot.chunk.samples", 20, "accepted for compatibility"),
    bool_option("scan.incremental.close-idle-reader.enabled", False, "accepted for compatibility"),
    bool_option("scan.incremental.snapshot.backfill.skip", False, "accepted for compatibility"),
    int_option("initial.snapshotting.queue.size", 10_240, "accepted for compatibility"),
    int_option("initial.snapshotting.max.threads", 1, "accepted for compatibility"),
    bool_option("scan.cursor.no-timeout", True, "accepted for compatibility: pages have no cursor"),
)
PIPELINE = text_option("initial.snapshotting.pipeline", "", "not supported: conditions of a query are applied here")
CDC_OPTIONS = (
    *ADDRESS_OPTIONS, HOSTS, SCHEME, USERNAME, PASSWORD, CONNECTION, STARTUP, SINCE, FULL, PAGE, WAIT, PIPELINE, *_ACCEPTED,
)  # fmt: skip


@dataclass(frozen=True)
class CdcOptions:
    """What a table says. `since`: milliseconds since 1970, where `start` is 'timestamp'; `wait`: milliseconds."""

    address: Address
    start: str
    since: int
    full: bool
    page: int
    wait: int

    @property
    def upsert(self) -> bool:
        """Whether rows replace each other by key."""
        return not self.full


def read_options(options: TableOptions) -> CdcOptions:
    """Raises OptionError for what is missing or cannot be."""
    start, page, wait = options.get(STARTUP).lower(), options.get(PAGE), options.get(WAIT)
    if page < 1 or not 1 <= wait <= 60_000:
        raise OptionError(f"'{PAGE.key}' is at least 1, '{WAIT.key}' from 1 to 60000", hint="leave them out")
    for option in _ACCEPTED:
        options.get(option)
    if options.has(PIPELINE):
        raise OptionError(f"option '{PIPELINE.key}' is not supported", hint="write a condition into the query")
    since = int(options.required(SINCE)) if start == "timestamp" else 0
    if not 0 <= since // 1000 < 1 << 32:
        raise OptionError(f"'{SINCE.key}' is no time of MongoDB", hint="it is in milliseconds since 1970")
    return CdcOptions(_address(options), start, since, options.get(FULL), page, wait)


def _address(options: TableOptions) -> Address:
    if not options.has(HOSTS):
        return read_address(options)
    if options.has(URI):
        raise OptionError("there are both 'uri' and 'hosts'", hint="leave one of them out")
    user, more = options.get(USERNAME), options.get(CONNECTION)
    login = f"{quote(user, safe='')}:{quote(options.get(PASSWORD), safe='')}@" if user else ""
    return read_address(
        options, f"{options.get(SCHEME)}://{login}{options.required(HOSTS)}/" + (f"?{more}" if more else "")
    )
