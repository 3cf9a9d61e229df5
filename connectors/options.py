"""How connectors read the options of a table: declared, required, and nothing unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from runtime.core.errors import OptionError
from runtime.core.options import Option, Options, parse_memory, text_option
from runtime.core.schema import Schema
from runtime.core.secrets import Secret
from runtime.spi.format import Format
from runtime.spi.registry import TableRequest, check_options

__all__ = ["FORMAT", "MAX_RECORD", "PATH", "TableOptions", "memory_limit", "table_format"]

T = TypeVar("T")

FORMAT = text_option("format", "", "the format of the records, such as 'json' or 'csv'")
PATH = text_option("path", "", "a file, a folder or a pattern such as '/data/*.jsonl'")

MAX_RECORD = text_option(
    "source.max-record-size", "16 mb", "a longer record of a text format is malformed, such as '64 mb'"
)


class TableOptions:
    """The options of one table, read through declarations.

    Args:
        where: for messages, such as "connector 'filesystem'".
        declared: all options the connector takes.
        prefixes: begin of keys that others check (a format's own options, options by field).
        under: what stands before the keys in the table's options and was taken off, such as `csv.`; for messages.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        where: str,
        declared: Iterable[Option[Any]],
        prefixes: tuple[str, ...] = (),
        under: str = "",
    ) -> None:
        check_options({under + k: v for k, v in options.items()}, {under + o.key for o in declared}, where, prefixes)
        self._options = Options(options)
        self._where = where
        self._under = under

    def get(self, option: Option[T]) -> T:
        try:
            return self._options.get(option)
        except OptionError as error:
            if not self._under:
                raise
            raise OptionError(
                error.message.replace(f"'{option.key}'", f"'{self._under}{option.key}'"),
                code=error.code,
                hint=error.hint,
            ) from error

    def secret(self, option: Option[str]) -> Secret:
        """The value of an option that nobody should see."""
        return Secret(self.get(option))

    def has(self, option: Option[Any]) -> bool:
        return option.key in self._options

    def required(self, option: Option[T]) -> T:
        """The value; raises OptionError E1504 when it is not given."""
        if not self.has(option) or self._options.text(option.key) == "":
            raise OptionError(
                f"{self._where} needs the option '{option.key}'", code="E1504", hint=f"set it to {option.description}"
            )
        return self._options.get(option)


def memory_limit(options: TableOptions, option: Option[str]) -> int:
    """The bytes that an option says; raises OptionError for those under which nothing could be read."""
    text = options.get(option)
    try:
        size = parse_memory(text)
    except OptionError as error:
        raise OptionError(f"option '{option.key}' cannot be '{text}'", hint=error.hint) from error
    if size <= 0:
        raise OptionError(f"option '{option.key}' must be more than 0", hint=option.description)
    return size


def table_format(request: TableRequest, name: str) -> Format:
    """The format of a table by name, its own options read; the format may refuse the schema."""
    if request.registry is None:
        raise OptionError(f"no format '{name}' without a registry", code="E1502")
    return request.registry.format(name, request.options)


def physical_part(request: TableRequest) -> Schema:
    """The columns of the request that are stored: without the metadata columns, which come last."""
    return Schema(request.schema.fields[: len(request.schema) - len(request.metadata)])


__all__ += ["physical_part"]
