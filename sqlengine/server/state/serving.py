"""A state server as `sqlengine serve --state` has it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.core.errors import OptionError
from runtime.core.rooms import Room
from sqlengine.api.environment import TableEnvironment
from sqlengine.server.access import Access
from sqlengine.server.tls import Tls

if TYPE_CHECKING:
    import sqlengine.server.state.listener as _listener
else:
    _listener = Room("sqlengine.server.state.listener")

__all__ = ["ports_of", "state_server"]


def state_server(
    environment: TableEnvironment, ports: Sequence[int], access: Access, tls: Tls | None, threads: int
) -> _listener.StateServer:
    """The server, before it listens. Raises OptionError E1500 where Arrow has no Flight, or nobody would answer."""
    if importlib.util.find_spec("pyarrow._flight") is None:
        raise OptionError(
            "--state needs Arrow Flight, which this pyarrow does not have", code="E1500", hint="pip install pyarrow"
        )
    if threads < 1:
        raise OptionError(f"--state-threads {threads}: there must be one", code="E1500", hint="give at least 1")
    # gRPC would tell stderr of whatever strangers send.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    return _listener.StateServer(environment, access=access, tls=tls, ports=ports, threads=threads)


def ports_of(text: str) -> tuple[str, Sequence[int]]:
    """A host, and ports in the order in which they are tried: `HOST:9069`, `HOST:9069-9079`, `HOST:9067-9069,9100`."""
    host, colon, ports = text.rpartition(":")
    found: list[int] = []
    for part in ports.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or ((last or "-" in part) and not last.isdecimal()) or int(last or first) > 65_535:
            found.clear()
            break
        found += range(int(first), int(last or first) + 1)
    if not colon or not host or not found:
        raise OptionError(
            f"'{text}' is no address with ports", code="E1500", hint="write it 127.0.0.1:9069, or 127.0.0.1:9069-9079"
        )
    return host.strip("[]"), found
