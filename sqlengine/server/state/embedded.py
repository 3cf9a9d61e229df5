"""The state server of a program that has the engine in itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.core.errors import OptionError
from runtime.core.rooms import Room
from sqlengine.api.environment import TableEnvironment

if TYPE_CHECKING:
    import sqlengine.server.access as _access
    import sqlengine.server.state.listener as _listener
    from sqlengine.server.state.listener import StateServer
else:
    _access = Room("sqlengine.server.access")
    _listener = Room("sqlengine.server.state.listener")

__all__ = ["serve_state"]


def serve_state(t_env: TableEnvironment, host: str = "127.0.0.1", ports: int | range = 9069) -> StateServer:
    """Let clients read the tables, views and jobs of an environment by key, until the server is closed.

    Args:
        host: where to listen. On an address of this machine everybody may ask, as long as no role has a password.
        ports: one, 0 for any that is free, or several, of which the first that is free is taken.

    Returns:
        A context manager with the `address` at which it listens.

    Raises OSError when no port is free, and OptionError E1500 for an address that others reach while nobody needs a password.
    """
    access = _access.Access(t_env.session.database, trusting=_access.is_loopback(host))
    if not _access.is_loopback(host) and not access.is_guarded:
        raise OptionError(
            f"{host} can be reached from other machines, and nobody would need a password",
            code="E1500",
            hint="ALTER ROLE sqlengine PASSWORD '..', or serve 127.0.0.1",
        )
    several = (ports,) if isinstance(ports, int) else tuple(ports)
    server = _listener.StateServer(t_env, access=access, ports=several)
    server.listen(host)
    return server
