"""Folders of partitions: `column=value`, with percent signs for what a name of a folder cannot hold, as in Hive and Flink.

Neither a column's name nor a value can lead out of the table's folder: both are one part of a path, and a folder that
is written to is no link.
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote, unquote, unquote_to_bytes

from runtime.core.errors import ConnectorError

__all__ = ["partition_folder", "partition_values", "refuse_links", "value_of_folder"]

_SAFE_IN_VALUES = " :+,"
_ESCAPED_IN_NAMES = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
"""The same that Hive escapes; other characters of names stay as they are."""


def partition_folder(column: str, value: str | None, default: str) -> str:
    """The name of the folder of a value; `default` stands for NULL, and for nothing else."""
    name = _ESCAPED_IN_NAMES.sub(lambda found: f"%{ord(found[0]):02X}", column)
    if value is None:
        return f"{name}={default}"
    written = quote(value, safe=_SAFE_IN_VALUES)
    if written == default:
        written = f"%{ord(value[0]):02X}{quote(value[1:], safe=_SAFE_IN_VALUES)}"
    return f"{name}={written}"


def refuse_links(root: str, folder: str) -> None:
    """Raises ConnectorError E3110 when a folder of a partition, relative to the table's, is a link or in one: what it leads
    to is not the table's, and a reader does not follow it."""
    at = root
    for part in folder.split(os.sep) if folder else ():
        at = os.path.join(at, part)
        if os.path.islink(at):
            raise ConnectorError(
                f"cannot write to {at}: it is a link to {os.path.realpath(at)}",
                code="E3110",
                hint="partitions are folders of their own: put a folder in the place of the link"
                " (the folder that 'path' names may be a link)",
            )


def partition_values(folder: str) -> dict[str, str]:
    """The values that the folders of a path name, as they are written there, by column."""
    parts = (part.split("=", 1) for part in folder.split(os.sep) if "=" in part)
    return {unquote(column): value for column, value in parts}


def value_of_folder(written: str, default: str) -> str | None:
    """The text of a value, None for NULL; raises UnicodeDecodeError when its bytes are no text."""
    return None if written == default else unquote_to_bytes(os.fsencode(written)).decode()
