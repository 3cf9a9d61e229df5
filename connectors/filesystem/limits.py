"""How much one record, one page and one file may hold: nobody's memory or day should hang on what a file contains."""

from __future__ import annotations

from dataclasses import dataclass

from connectors.options import MAX_RECORD, TableOptions, memory_limit
from runtime.core.errors import FormatError, OptionError
from runtime.core.options import int_option, text_option

__all__ = ["LIMIT_OPTIONS", "ReadLimits", "read_limits"]

MAX_RATIO = int_option(
    "source.max-decompression-ratio",
    250,
    "how many times its size a compressed file may unpack to; the first 16 MiB do not count",
)
MAX_UNPACKED = text_option(
    "source.max-decompressed-size",
    "",
    "the largest unpacked size of a compressed file, such as '20 gb'; without it only the ratio limits it",
)
MAX_PAGE = text_option(
    "source.max-page-size",
    "128 mb",
    "the most memory for a Parquet page, or for the columns read of an ORC stripe, such as '1 gb'",
)
LIMIT_OPTIONS = (MAX_RECORD, MAX_RATIO, MAX_UNPACKED, MAX_PAGE)

_FREE = 16 << 20
"""Of so many bytes nobody has to be protected."""
_FREE_ROWS = 100_000_000


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The bytes of a record; how many times its size, and how many bytes (0 is without limit), a compressed file may
    hold; the bytes of a page."""

    record: int = 16 << 20
    ratio: int = 250
    unpacked: int = 0
    page: int = 128 << 20

    def check(self, path: str, packed: int, unpacked: int) -> None:
        """Raises FormatError E3207 when so many bytes hold too many."""
        if 0 < self.unpacked < unpacked:
            option, limit = MAX_UNPACKED.key, f"{self.unpacked} bytes"
        elif unpacked > max(_FREE, packed * self.ratio):
            option, limit = MAX_RATIO.key, f"{self.ratio} times the {packed} bytes read of it"
        else:
            return
        raise _over(f"{path} holds more than {limit}, the limit of", option)

    def check_rows(self, path: str, packed: int, rows: int) -> None:
        """Raises FormatError E3207 when so many bytes hold too many rows: one byte each at the least."""
        if rows > max(_FREE_ROWS, packed * self.ratio):
            raise _over(f"{path} says that it has {rows:,} rows in {packed:,} bytes, over the limit of", MAX_RATIO.key)

    def check_page(self, path: str, what: str, unpacked: int) -> None:
        """Raises FormatError E3207 for a page that takes too much memory."""
        if unpacked > self.page:
            raise _over(f"{path}: {what} takes {unpacked:,} bytes, over the limit of", MAX_PAGE.key)


def _over(what: str, option: str) -> FormatError:
    return FormatError(
        f"{what} '{option}'",
        code="E3207",
        hint=f"if the file is what it should be, set '{option}' to more on the table",
    )


def read_limits(options: TableOptions) -> ReadLimits:
    """The limits of a table; raises OptionError for those under which nothing could be read."""
    ratio = options.get(MAX_RATIO)
    if ratio <= 0:
        raise OptionError(f"option '{MAX_RATIO.key}' must be more than 0", hint=MAX_RATIO.description)
    unpacked = memory_limit(options, MAX_UNPACKED) if options.has(MAX_UNPACKED) else 0
    return ReadLimits(memory_limit(options, MAX_RECORD), ratio, unpacked, memory_limit(options, MAX_PAGE))
