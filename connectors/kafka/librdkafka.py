"""The librdkafka that comes with the Python client, called in C.

Only its public C interface is used (`rdkafka.h`), of which nothing has been taken back since 1.0. The library is the file
that the Python client itself is linked with, and says a version that is known, or it is left alone; then messages come
as objects of Python (`partition.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Librdkafka", "librdkafka"]

_LEAST_VERSION, _MOST_VERSION = 0x01060000, 0x03000000
"""The versions of the interface: from 1.6 on, until somebody has looked at 3."""

_FUNCTIONS: Mapping[str, tuple[Any, Sequence[Any]]] = {
    "version": (c_int, ()),
    "conf_new": (c_void_p, ()),
    "conf_set": (c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
    "conf_set_log_cb": (None, (c_void_p, c_void_p)),
    "conf_destroy": (None, (c_void_p,)),
    "new": (c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
    "poll_set_consumer": (c_int, (c_void_p,)),
    "queue_get_consumer": (c_void_p, (c_void_p,)),
    "queue_get_partition": (c_void_p, (c_void_p, c_char_p, c_int32)),
    "queue_forward": (None, (c_void_p, c_void_p)),
    "queue_destroy": (None, (c_void_p,)),
    "consumer_close": (c_int, (c_void_p,)),
    "destroy": (None, (c_void_p,)),
    "topic_partition_list_new": (c_void_p, (c_int,)),
    "topic_partition_list_add": (c_void_p, (c_void_p, c_char_p, c_int32)),
    "topic_partition_list_set_offset": (c_int, (c_void_p, c_char_p, c_int32, c_int64)),
    "topic_partition_list_destroy": (None, (c_void_p,)),
    "incremental_assign": (c_void_p, (c_void_p, c_void_p)),
    "incremental_unassign": (c_void_p, (c_void_p, c_void_p)),
    "error_code": (c_int, (c_void_p,)),
    "error_string": (c_char_p, (c_void_p,)),
    "error_destroy": (None, (c_void_p,)),
    "commit": (c_int, (c_void_p, c_void_p, c_int)),
    "consume_batch_queue": (c_ssize_t, (c_void_p, c_int, c_void_p, c_size_t)),
    "query_watermark_offsets": (
        c_int,
        (c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64), c_int),
    ),
    "metadata": (c_int, (c_void_p, c_int, c_void_p, POINTER(c_void_p), c_int)),
    "metadata_destroy": (None, (c_void_p,)),
    "get_watermark_offsets": (c_int, (c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64))),
    "err2str": (c_char_p, (c_int,)),
}
"""What each `rd_kafka_..` gives and takes."""
_ADDRESSES = ("message_timestamp", "message_leader_epoch", "message_destroy", "message_headers", "header_get_all")


class Librdkafka:
    """The functions of the library: `lib.conf_new()` is `rd_kafka_conf_new()`. Raises AttributeError when one is missing."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._called: dict[str, Any] = {}
        for name, (gives, takes) in _FUNCTIONS.items():
            function = getattr(library, f"rd_kafka_{name}")
            function.restype, function.argtypes = gives, list(takes)
            self._called[name] = function
        self.addresses = {n: ctypes.cast(getattr(library, f"rd_kafka_{n}"), c_void_p).value for n in _ADDRESSES}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_called"][name]
        except KeyError:
            raise AttributeError(name) from None


@cache
def librdkafka() -> Librdkafka | None:
    """The library; None where it cannot be used: another file than the client's, or another version."""
    import confluent_kafka

    known = confluent_kafka.libversion()[1]
    if not _LEAST_VERSION <= known < _MOST_VERSION:
        return None
    package = Path(confluent_kafka.__file__).parent
    folders = (package.with_name("confluent_kafka.libs"), package / ".dylibs")
    for path in [p for folder in folders if folder.is_dir() for p in sorted(folder.glob("librdkafka*"))]:
        try:
            found = Librdkafka(ctypes.CDLL(str(path)))
        except (OSError, AttributeError):
            continue
        if found.version() == known:
            return found
    return None
